"""Changes of the buckets of tables that have rows."""
