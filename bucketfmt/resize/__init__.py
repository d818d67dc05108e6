"""Changes of the buckets of a table that has rows."""
