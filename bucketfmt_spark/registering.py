"""`register`: makes `format("bucketfmt")` known to a session; only that format needs it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from bucketfmt import UnsupportedError
from bucketfmt_spark.engine.arguments import check_session

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make `format("bucketfmt")` known to a session.

    The session's setting `spark.sql.python.filterPushdown.enabled` at the time of the call decides
    whether filters are pushed down. Call `register` again after a change of the setting.

    Raises:
        UnsupportedError: Spark is older than 4.0 and has no data sources in Python.
    """
    check_session(spark)
    try:
        from bucketfmt_spark.source.datasource import choose_source  # noqa: PLC0415
    except ImportError:
        raise UnsupportedError(
            'format("bucketfmt") needs Spark 4.0 or later; read(), changes() and the other '
            "functions of bucketfmt_spark work without"
        ) from None
    spark.dataSource.register(choose_source(spark))
