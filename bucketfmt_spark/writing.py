"""`write`: writes the rows of a DataFrame to a table, with one exchange and one commit.

The driver begins the write; rows go to the tasks of their buckets; each task writes the files of
its buckets and returns receipts; the driver picks one receipt for each bucket and commits
(docs/decisions/0011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

import bucketfmt as bf
from bucketfmt.choices import StartedOperation
from bucketfmt_spark.bucket_id import expressed_bucket_id
from bucketfmt_spark.engine.arguments import check_choice, check_frame, check_int
from bucketfmt_spark.engine.executors import (
    check_executors,
    map_batches,
    parallelism,
    shuffle_partitions,
)
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.named_jobs import (
    allowed_retries,
    log,
    named_job,
    repeat_on_conflict,
)
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.placement import place
from bucketfmt_spark.engine.resolver import META_COLUMNS, named_as
from bucketfmt_spark.engine.spark_types import arrow_of, refuse_collations
from bucketfmt_spark.engine.tasks import task_token
from bucketfmt_spark.table_services.compaction import rewrite_on_executors

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "place_rows",
    "write",
    "write_batches",
    "write_placed",
    "write_table",
]

_TASK = "__bucketfmt_task"
_TASKS_A_CORE = 2  # of a table with partitions: their buckets differ in size, and tasks cost
_TASKS_MAX = (1 << 31) - 1  # that Spark can number
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_LATEST: dict[str, bf.WriteTask] = {}  # of this executor: what its tasks read of the table


def write(
    df: DataFrame,
    uri: TableOrUri,
    operation: StartedOperation = "upsert",
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
    num_tasks: int | None = None,
    **options: Unpack[bf.WriteArguments],
) -> bf.CommitResult:
    """Write the rows of a DataFrame to a table, as the methods of `bucketfmt.Table` do.

    The DataFrame is computed once. If tasks fail, are repeated, or run twice, each bucket still
    gets one file. If the driver dies, the next write takes this one back.

    After the commit the services run that are due (`bucketfmt.WriterConfig.services`); a compaction
    rewrites file groups on the executors.

    Args:
        df: The rows; for a delete, the keys with their partition columns. Hudi's own columns are
            left out, so that rows of `read` can be written.
        uri: The URI of the table, or the table.
        operation: What to do with the rows.
        storage_options: As in `bucketfmt.open`; sent to executors.
        index: As in `bucketfmt.open`.
        writer: As in `bucketfmt.open`.
        num_tasks: The number of tasks that write. By default a table without partitions has a task
            for each bucket; other tables a multiple of the buckets of a partition, about two tasks
            for each core. Many buckets share tasks: there are at most as many tasks as
            `spark.sql.shuffle.partitions` says, or two for each core.
        options: See `bucketfmt.WriteArguments`.

    Raises:
        ExecutorError: executors have no bucketfmt, or another release.
        SchemaError: the columns do not fit the table.
        KeyEncodingError: a key is null or empty, rows with other values would have the same key,
            or Hudi never returns from hashing the key.
        ConflictError: other writers wrote to the same buckets, in every try.
        IndexUnknownError: the index is unknown, or not proved for a partition.
        CommitUnknownError: the store failed, and the commit may have taken effect.
    """
    check_frame("df", df)
    table = open_table(df.sparkSession, uri, storage_options, index, writer)
    return write_table(df, table, operation, num_tasks, **options)


def write_table(
    df: DataFrame,
    table: bf.Table,
    operation: StartedOperation = "upsert",
    num_tasks: int | None = None,
    **options: Unpack[bf.WriteArguments],
) -> bf.CommitResult:
    """Write to an open table, as `write` does."""
    check_choice("operation", operation, get_args(StartedOperation))
    _check_num_tasks(num_tasks)
    key = options.get("idempotency_key")
    repeated = None if key is None else table.find_commit(key)
    if repeated is not None:
        return repeated
    df = named_as(df, table.schema.names)
    if operation != "delete":
        df = df.select(*[name for name in df.columns if name not in META_COLUMNS])
    schema = arrow_of(df.schema)
    check_executors(df.sparkSession)
    retries = allowed_retries(options)

    def attempt() -> bf.CommitResult:
        with table.start_write(operation, schema, **options) as started, typed_errors():
            return write_placed(place_rows(df, table, num_tasks), started, operation)

    return repeat_on_conflict(f"a write ({operation}) to {table.config.name}", retries, attempt)


def write_placed(placed: DataFrame, started: bf.StartedWrite, verb: str) -> bf.CommitResult:
    """Write rows whose buckets are in one partition each, and commit. One job.

    Args:
        placed: The rows.
        started: The write.
        verb: What the caller asked for, for the name of the job.
    """
    spark, task = placed.sparkSession, started.task
    with named_job(spark, verb, task.table.config.name, task.instant):
        receipts = _collect(placed, _writer(task))
    result = started.publish(receipts, partial(rewrite_on_executors, spark))
    log.info("%s of %s: %s", verb, task.table.config.name, result)
    return result


def place_rows(
    df: DataFrame,
    uri: TableOrUri,
    num_tasks: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the rows, moved so that each bucket is in one partition. One exchange.

    For `df.write.format("bucketfmt")`, which cannot move rows itself.

    >>> bs.place_rows(df, uri).write.format("bucketfmt").mode("append").save(uri)  # doctest: +SKIP

    Args:
        df: The rows; a stream will do.
        uri: The URI of the table, or the table.
        num_tasks: As in `write`.
        storage_options: As in `bucketfmt.open`, for a table that is given by its URI.
        index: As in `bucketfmt.open`, likewise.

    Raises:
        IndexUnknownError: the index is unknown.
    """
    check_frame("df", df)
    _check_num_tasks(num_tasks)
    table = open_table(df.sparkSession, uri, storage_options, index)
    df = named_as(df, table.schema.names)
    refuse_collations(df.schema)
    num_buckets = _num_buckets(table.index)
    if num_tasks is None:
        wanted = _TASKS_A_CORE * parallelism(df.sparkSession)
        if table.config.partition_fields:
            num_tasks = num_buckets * max(1, math.ceil(wanted / num_buckets))
        else:
            num_tasks = num_buckets
        num_tasks = _fewer(num_tasks, max(wanted, shuffle_partitions(df.sparkSession)))
    log.info("rows of %s go to %d tasks by their buckets", table.config.name, num_tasks)
    partition, bucket = _partition_column(table, df.schema), expressed_bucket_id(table)
    if partition is not None and bucket is not None:
        if table.config.partition_fields:
            spread = sf.pmod(sf.hash(partition), sf.lit(1 << 20)).cast("bigint")
            bucket = bucket + spread * sf.lit(num_buckets)
        return place(df, sf.pmod(bucket, sf.lit(num_tasks)), num_tasks)
    numbered = map_batches(df, _numberer(table.pinned(), num_tasks), _with_task(df.schema))
    return place(numbered, sf.col(_TASK), num_tasks).drop(_TASK)


def write_batches(task: bf.WriteTask, batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    """Write the batches of one attempt of a task; return the receipts."""
    # The next task in this process uses what this task has read of the table.
    known = _LATEST.get(task.instant)
    if known is None:
        _LATEST.clear()
        known = _LATEST[task.instant] = task
    first = next(batches, None)
    if first is None:
        return []
    rows = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
    return list(known.write(rows, task_token()))


# -- what executors run


def _writer(task: bf.WriteTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        receipts = write_batches(task, (batch for batch in batches if batch.num_rows))
        yield pa.RecordBatch.from_pydict({"receipt": pa.array(receipts, pa.binary())})

    return run


def _numberer(
    table: bf.PinnedTable, num_tasks: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            assigned = table.assign(pa.Table.from_batches([batch]))
            paths = assigned["partition_path"].combine_chunks().dictionary_encode()
            starts = [_start(path, num_tasks) for path in paths.dictionary.to_pylist()]
            first = np.array(starts, np.int64)[paths.indices.to_numpy()]
            number = pa.array((first + assigned["rank"].to_numpy()) % num_tasks, pa.int32())
            yield pa.RecordBatch.from_arrays(
                [number, *batch.columns], names=[_TASK, *batch.schema.names]
            )

    return run


def _start(partition_path: str, num_tasks: int) -> int:
    """Return the number of the task for a partition's first bucket: a hash of its path."""
    found = 0
    for byte in partition_path.encode():
        found = (found * 31 + byte) % (1 << 61)
    return found % num_tasks


def _collect(
    placed: DataFrame,
    run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> list[bytes]:
    """Run the job once: a second run would write all files again."""
    return [bytes(row.receipt) for row in map_batches(placed, run, "receipt binary").collect()]


# -- what the driver says


def _check_num_tasks(num_tasks: int | None) -> None:
    if num_tasks is not None:
        check_int("num_tasks", num_tasks, 1, _TASKS_MAX)


def _fewer(num_tasks: int, most: int) -> int:
    """Return a number of tasks of at most `most`, so that tasks have equal numbers of buckets."""
    return math.ceil(num_tasks / math.ceil(num_tasks / most))


def _num_buckets(index: bf.Index | None) -> int:
    """Return the number of buckets of a partition, or an estimate."""
    if isinstance(
        index,
        bf.SimpleBucketIndex
        | bf.ConsistentHashingIndex
        | bf.ExtendibleHashingIndex
        | bf.MultiGroupBucketIndex,
    ):
        return index.num_buckets
    return index.default if isinstance(index, bf.PartitionBucketIndex) else 1


def _with_task(schema: st.StructType) -> st.StructType:
    fields = [st.StructField(field.name, field.dataType) for field in schema.fields]
    return st.StructType([st.StructField(_TASK, st.IntegerType()), *fields])


def _partition_column(table: bf.Table, schema: st.StructType) -> Column | None:
    """Return a column that is equal for rows of one partition path; None if Spark has none."""
    config = table.config
    if not config.partition_path_holds_values:
        return None
    texts = []
    for field in config.partition_fields:
        if field not in schema.names or not isinstance(
            schema[field].dataType,
            st.StringType | st.IntegerType | st.LongType | st.DateType | st.BooleanType,
        ):
            return None
        text = sf.col(field).cast("string")
        given = sf.when(text != sf.lit(""), text)
        texts.append(sf.coalesce(given, sf.lit(_NO_PARTITION)))
    return sf.concat_ws("/", *texts) if texts else sf.lit("")
