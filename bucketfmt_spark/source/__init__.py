"""`format("bucketfmt")`: reads and writes through Spark's data source interface."""
