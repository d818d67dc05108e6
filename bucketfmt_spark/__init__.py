"""Hudi bucket-index tables on Spark: runs the core of `bucketfmt` in tasks.

A task has one bucket of one partition, or several small buckets.

>>> import bucketfmt_spark as bs
>>> bs.read(spark, "s3://lake/trips", filter=[("city", "=", "sf")])         # doctest: +SKIP
>>> bs.write(df, "s3://lake/trips", "upsert")                               # doctest: +SKIP
>>> bs.join(spark, "s3://lake/trips", "s3://lake/riders")                   # doctest: +SKIP
"""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as error:
    message = "bucketfmt_spark needs pyspark: pip install 'bucketfmt[spark]'"
    raise ModuleNotFoundError(message, name=error.name) from None

from bucketfmt_spark.bucket_id import bucket_id
from bucketfmt_spark.claim import claim
from bucketfmt_spark.deleting import delete
from bucketfmt_spark.engine.executors import ExecutorError, SessionError
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.named_jobs import task_requests
from bucketfmt_spark.joining.aggregates import aggregate
from bucketfmt_spark.joining.bucket_reading import read_buckets, sample
from bucketfmt_spark.joining.joins import join
from bucketfmt_spark.lookups import locate, lookup
from bucketfmt_spark.merging import Delete, Insert, Update, merge
from bucketfmt_spark.reading import changes, read, read_scan
from bucketfmt_spark.registering import register
from bucketfmt_spark.source.stream_sink import batch_writer
from bucketfmt_spark.table_services.buckets import migrate, rehash, rescale, resize
from bucketfmt_spark.table_services.checks import check
from bucketfmt_spark.table_services.compaction import compact
from bucketfmt_spark.table_services.services import (
    archive,
    clean,
    create,
    delete_savepoint,
    maintain,
    restore,
    rollback,
    savepoint,
)
from bucketfmt_spark.writing import place_rows, write

__all__ = [
    "Delete",
    "ExecutorError",
    "Insert",
    "SessionError",
    "Update",
    "aggregate",
    "archive",
    "batch_writer",
    "bucket_id",
    "changes",
    "check",
    "claim",
    "clean",
    "compact",
    "create",
    "delete",
    "delete_savepoint",
    "join",
    "locate",
    "lookup",
    "maintain",
    "merge",
    "migrate",
    "place_rows",
    "read",
    "read_buckets",
    "read_scan",
    "register",
    "rehash",
    "rescale",
    "resize",
    "restore",
    "rollback",
    "sample",
    "savepoint",
    "task_requests",
    "typed_errors",
    "write",
]
