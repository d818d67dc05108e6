"""`register`: makes `format("bucketfmt")` known to a session. The rest works without it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from bucketfmt import UnsupportedError

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("bucketfmt")` known to a session.

    Whether filters are pushed down is the session's setting now,
    `spark.sql.python.filterPushdown.enabled`: register again once it has changed.

    Raises:
        UnsupportedError: Spark before 4.0, which has no data sources in Python.
    """
    try:
        from bucketfmt_spark.source.datasource import choose_source  # noqa: PLC0415
    except ImportError:
        raise UnsupportedError(
            'format("bucketfmt") wants Spark 4.0 or later; read(), changes() and the other '
            "functions of bucketfmt_spark work without"
        ) from None
    spark.dataSource.register(choose_source(spark))
