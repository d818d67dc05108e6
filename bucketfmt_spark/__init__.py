"""Hudi bucket-index tables on Spark: the core of `bucketfmt` mapped over partitions.

One task has one (partition, bucket), or several small ones.
"""
