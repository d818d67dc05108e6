"""Table services and changes of buckets, as jobs of Spark."""
