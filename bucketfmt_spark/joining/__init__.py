"""Joins and aggregates bucket by bucket, with no exchange."""
