"""Keeping the metadata table of a table in step with it."""
