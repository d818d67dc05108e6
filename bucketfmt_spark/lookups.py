"""`locate` and `lookup`: the places and the rows of the keys of a DataFrame.

`locate` moves no rows and opens no data file. `lookup` moves the keys to their buckets, once,
and opens only these buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as st

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_frame
from bucketfmt_spark.engine.exchange import BUCKET, move_to_buckets, split_by_bucket
from bucketfmt_spark.engine.executors import check_executors, map_batches, parallelism
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.resolver import Resolver, named_as
from bucketfmt_spark.engine.spark_types import (
    arrow_for_spark,
    arrow_of,
    as_spark_takes_it,
    refuse_collations,
    spark_schema,
)
from bucketfmt_spark.engine.tasks import PackedTasks
from bucketfmt_spark.joining.bucket_tasks import count_tasks
from bucketfmt_spark.joining.sides import Side

__all__ = ["locate", "lookup"]

_LOCATIONS = pa.schema(
    {
        "record_key": pa.string(),
        "partition_path": pa.string(),
        "bucket_id": pa.int32(),
        "file_id": pa.string(),
        "base_file": pa.string(),
        "log_files": pa.list_(pa.string()),
    }
)
_MOVED_KEYS = st.StructType(
    [
        st.StructField(BUCKET, st.IntegerType(), False),
        st.StructField("record_key", st.StringType()),
        st.StructField("partition_path", st.StringType()),
    ]
)


def locate(
    df: DataFrame,
    uri: TableOrUri,
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the bucket and the files of each key, in the columns of `bucketfmt.Table.locate`.

    Args:
        df: Rows with `_hoodie_record_key` or the key fields, and with `_hoodie_partition_path` or
            the partition fields if the table has partitions. Without a partition, each key is
            located in each partition.
        uri: The URI of the table, or a `bucketfmt.Table`.
        storage_options: As in `bucketfmt.open`, for a table that is given by its URI.
        index: As in `bucketfmt.open`, likewise.

    Raises:
        ValueError: `df` lacks the columns of keys.
        SchemaError: a column of keys has another type than that of the table.
        IndexUnknownError: the index is unknown, not proved for a partition, or has no buckets.
        CorruptError: two file groups share a bucket.
        ExecutorError: executors have no bucketfmt, or another release.
    """
    check_frame("df", df)
    table = open_table(df.sparkSession, uri, storage_options, index)
    locator, df = table.locator(), named_as(df, table.schema.names)
    refuse_collations(df.schema)
    locator.locate(_no_keys(df))
    check_executors(df.sparkSession)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from locator.locate(pa.Table.from_batches([batch])).to_batches()

    return map_batches(df, run, spark_schema(_LOCATIONS))


def lookup(
    df: DataFrame,
    uri: Side,
    columns: Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> DataFrame:
    """Return the rows of the table that have the keys of a DataFrame, each row once.

    Args:
        df: As for `locate`.
        uri: The URI of the table, a `bucketfmt.Table`, or a `bucketfmt.Scan` of it.
        columns: The columns to return, in this order. A scan has its own columns.
        storage_options: As in `bucketfmt.open`, for a table that is given by its URI.
        index: As in `bucketfmt.open`, likewise.

    Raises:
        SchemaError, IndexUnknownError: as `locate`.
        UnsupportedError: the buckets of the table do not follow from keys; read() and join it.
        ValueError: `columns` is given with a scan; `df` lacks the columns of keys.
        ExecutorError: as `locate`.
    """
    check_frame("df", df)
    spark = df.sparkSession
    if isinstance(uri, bf.Scan):
        if columns is not None:
            raise ValueError("a scan has its own columns; leave columns= out")
        scan, known = uri, uri.schema.names
    else:
        table = open_table(spark, uri, storage_options, index)
        resolver, known = Resolver.of(spark, table.schema), table.schema.names
        scan = table.scan(None if columns is None else resolver.names("columns", columns))
    df = named_as(df, known)
    refuse_collations(df.schema)
    reader = scan.task_reader()
    reader.keys_of(_no_keys(df))
    check_executors(spark)
    groups = bf.group_buckets(scan)
    buckets = groups.buckets
    packed = PackedTasks.of([[task.payload for _, task in group] for group in groups.tasks[0]])
    paths = [[path for path, _ in group] for group in groups.tasks[0]]
    accepted = arrow_for_spark(scan.schema)

    def assign(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys = reader.keys_of(pa.Table.from_batches([batch]))
            found = pa.array(buckets.assign_keys(keys.column("record_key")), pa.int32())
            yield from keys.add_column(0, BUCKET, found).to_batches()

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted: dict[int, list[pa.RecordBatch]] = {}
        for bucket, keys in split_by_bucket(batches):
            wanted.setdefault(bucket, []).append(keys)
        for bucket, parts in wanted.items():
            keys = pa.Table.from_batches(parts)
            for path, payload in zip(paths[bucket], packed[bucket], strict=True):
                of_path = pc.fill_null(pc.equal(keys.column("partition_path"), path), True)
                own = pc.unique(keys.filter(of_path).column("record_key"))
                if len(own):
                    for rows in reader.of_keys(own.cast(pa.string())).read(payload):
                        yield as_spark_takes_it(rows, accepted)

    num_tasks = count_tasks(groups, buckets.num_buckets, parallelism(spark))
    moved = move_to_buckets(map_batches(df, assign, _MOVED_KEYS), num_tasks)
    return map_batches(moved, find, spark_schema(accepted))


def _no_keys(df: DataFrame) -> pa.Table:
    """Return the columns without rows: keys are read of them before a job begins, or refused."""
    fields: list[pa.Field] = []
    for field in df.schema:
        with suppress(bf.UnsupportedError):  # may be there, and is no key
            fields += arrow_of(st.StructType([field]))
    return pa.schema(fields).empty_table()
