"""`format("bucketfmt")`: Spark's own interface to reading and writing."""
