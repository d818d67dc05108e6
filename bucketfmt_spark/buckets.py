"""`rehash` and `resize`: other buckets for the rows of a table, with a task for each step.

The driver plans and commits; the tasks write the file groups of the new buckets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.tasks import task_frame, task_token

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["rehash", "resize"]

_RECEIPTS = pa.schema({"payload": pa.binary(), "receipt": pa.binary()})


def rehash(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    num_buckets: int,
    *,
    codec: Literal["zstd", "snappy", "gzip", "none"] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.CommitResult | None:
    """Give every partition another number of buckets, on the executors.

    As `bucketfmt.Table.rehash`. Steps whose file groups other writers change meanwhile are
    executed again, each round as a job. If the driver dies or a task fails finally, the rehash is
    rolled back, by this process or by the next writer.

    Returns:
        The commit; None if the table has this number of buckets already.

    Raises:
        ExecutorError: executors have no bucketfmt, or another release.
        UnsupportedError: partitions differ in their numbers of buckets, or have rings, or the
            table is of a kind that is not written.
        ConflictError: a compaction or a clustering is pending, or other writers wrote in every
            round.
        CorruptError: a file is missing or damaged, or has keys of other buckets.
        CommitUnknownError: the store failed, and the commit may have taken effect.
    """
    table = bf.open(uri, storage_options, writer=writer)
    started = table.start_rehash(num_buckets, codec=codec)
    if started is None:
        return None
    with started:
        return started.run(partial(_execute, spark))


def resize(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    *,
    codec: Literal["zstd", "snappy", "gzip", "none"] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    writer: bf.WriterConfig | None = None,
    **options: Unpack[bf.ResizeArguments],
) -> bf.CommitResult | None:
    """Split and merge buckets of rings or directories, on the executors.

    As `bucketfmt.Table.resize`. If the driver dies or a task fails finally, the resize of rings
    stays pending, and the next call executes it again; of a resize of directories nothing remains.

    Returns:
        The commit; None if no bucket is too large or too small.

    Raises:
        ExecutorError: executors have no bucketfmt, or another release.
        UnsupportedError: the table has neither a consistent nor an extendible hashing index, or is
            of a kind that is not written.
        ConflictError: a write is under way that does not know of the resize, or somebody took the
            resize back.
        CorruptError: a file is missing or damaged, or a ring is.
        CommitUnknownError: the store failed, and the commit may have taken effect.
    """
    table = bf.open(uri, storage_options, writer=writer)
    started = table.start_resize(codec=codec, **options)
    if started is None:
        return None
    with started:
        return started.run(partial(_execute, spark))


def _execute(
    spark: SparkSession, task: bf.RewriteTask, payloads: Sequence[bytes]
) -> list[list[bytes]]:
    """Execute steps, a task each, and return the receipts of each step."""

    def work(own: list[bytes]) -> Iterator[pa.RecordBatch]:
        for payload in own:
            receipts = task.rewrite(payload, task_token())
            columns = [pa.array([payload] * len(receipts), pa.binary()), pa.array(receipts)]
            yield pa.RecordBatch.from_arrays(columns, schema=_RECEIPTS)

    found: dict[bytes, list[bytes]] = {payload: [] for payload in payloads}
    with typed_errors():
        frame = task_frame(spark, [[[payload] for payload in payloads]], work, _RECEIPTS)
        for row in frame.collect():
            found[bytes(row.payload)].append(bytes(row.receipt))
    return list(found.values())
