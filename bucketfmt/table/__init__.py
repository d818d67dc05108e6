"""Snapshots of a table, and reading them."""
