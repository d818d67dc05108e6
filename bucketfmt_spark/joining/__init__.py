"""Joins and aggregations bucket by bucket, with no exchange."""
