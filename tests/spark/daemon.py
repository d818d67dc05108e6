"""The process that Python workers are forked from, with everything imported that they use.

Spark's own imports none of it, and each worker takes two seconds to.
"""

from contextlib import suppress

from pyspark import daemon

with suppress(ImportError):  # the Python of one test has none of it
    import pyarrow.parquet  # noqa: F401

    import bucketfmt_spark.source.datasource  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
