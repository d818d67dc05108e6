"""Migration to a bucket index."""
