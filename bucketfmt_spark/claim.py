"""`claim`: tells Spark's optimiser that rows are in the partition of their bucket. Experimental.

The claim is true: `read_buckets` puts bucket i into partition i and compares each row's hash
with the bucket. It is made through classes of Spark that are not public, over Py4J, and may fail
with any release; the DataFrame is then returned unchanged, with a warning. (A claim by the key
instead of the bucket would mean Spark's own hash and be false: joins would lose rows.)
"""

from __future__ import annotations

import warnings
from typing import Any

from pyspark.sql import DataFrame

from bucketfmt_spark.engine.arguments import check_frame
from bucketfmt_spark.joining.bucket_reading import BUCKET_COLUMN, num_buckets_of

__all__ = ["claim"]


def claim(df: DataFrame) -> DataFrame:
    """Return the DataFrame of `read_buckets`, known to Spark as partitioned by `bucket_id`.

    Groups, windows and joins that have `bucket_id` among their keys then need no exchange. Two
    such DataFrames are joined by `bucket_id` and the key without an exchange if they have equal
    numbers of buckets. Needs a classic session of Spark 4.1 or later.
    """
    check_frame("df", df)
    number = num_buckets_of(df)
    if number is None:
        return _unchanged(df, "it is not as read_buckets() returned it; claim it before all else")
    try:
        return _claimed(df, number)
    except Exception as error:
        return _unchanged(df, f"this Spark does not let it ({type(error).__name__}: {error})")


def _unchanged(df: DataFrame, why: str) -> DataFrame:
    warnings.warn(f"claim: the DataFrame is returned unchanged: {why}", stacklevel=3)
    return df


def _claimed(df: DataFrame, number: int) -> DataFrame:
    frame: Any = df
    session = frame.sparkSession
    jvm, dataset = session.sparkContext._jvm, frame._jdf
    execution = dataset.queryExecution()
    rows = execution.toRdd()
    if rows.getNumPartitions() != number:
        raise RuntimeError(f"{rows.getNumPartitions()} partitions of {number} buckets")
    output = execution.analyzed().output()
    first = output.head()
    if first.name() != BUCKET_COLUMN:
        raise RuntimeError(f"the first column is {first.name()}")
    spark_sql, none = jvm.org.apache.spark.sql, jvm.scala.Option.empty()
    physical = spark_sql.catalyst.plans.physical
    bucket = spark_sql.catalyst.expressions.DirectShufflePartitionID(first)
    partitioning = physical.ShufflePartitionIdPassThrough(bucket, number)
    unordered = jvm.org.apache.spark.api.python.PythonUtils.toSeq(jvm.java.util.ArrayList())
    arguments = (output, rows, partitioning, unordered, False, none, dataset.sparkSession())
    logical = _logical_rdd(spark_sql.execution, arguments, none)
    claimed = getattr(jvm, "org.apache.spark.sql.classic.Dataset").ofRows(
        dataset.sparkSession(), logical
    )
    return DataFrame(claimed, session)


def _logical_rdd(execution: Any, arguments: tuple[Any, ...], none: Any) -> Any:
    """Make the node. Releases have added arguments to its constructor (9 in 4.1, 10 in 4.3)."""
    try:
        return execution.LogicalRDD(*arguments, none, none, False)
    except Exception:  # Py4J: no such constructor
        return execution.LogicalRDD(*arguments, none, none)
