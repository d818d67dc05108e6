"""Vectors of how keys find their buckets."""
