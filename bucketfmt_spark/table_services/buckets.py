"""`rehash`, `rescale`, `resize`, `migrate`: other buckets for the rows of a table.

The driver plans and commits; the tasks write the file groups of the new buckets, a task each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt.choices import Codec, Duplicates, KeyForm
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.named_jobs import named_job, repeat_on_conflict
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.tasks import task_frame, task_token

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["migrate", "rehash", "rescale", "resize"]

_TRIES = 4
"""How often a change of buckets is begun, where other writers overtake the change."""
_Start = Callable[[], "bf.StartedRewrite | bf.StartedResize | None"]
_RECEIPTS = pa.schema({"payload": pa.binary(), "receipt": pa.binary()})


BucketIndex = (
    bf.SimpleBucketIndex
    | bf.PartitionBucketIndex
    | bf.ConsistentHashingIndex
    | bf.ExtendibleHashingIndex
)


def rehash(
    spark: SparkSession,
    uri: TableOrUri,
    num_buckets: int,
    *,
    codec: Codec | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
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
    table = open_table(spark, uri, storage_options, index, writer)
    return _run(spark, lambda: table.start_rehash(num_buckets, codec=codec))


def rescale(
    spark: SparkSession,
    uri: TableOrUri,
    rules: str,
    *,
    default: int | None = None,
    add: bool = False,
    codec: Codec | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.CommitResult | None:
    """Give partitions numbers of buckets by rules, on the executors.

    As `bucketfmt.Table.rescale`; failures end as those of `rehash`.

    Returns:
        The commit; None if the table has these rules already.

    Raises:
        ValueError: the rules are malformed, or there is no such number of buckets.
        ExecutorError, UnsupportedError, ConflictError, CorruptError, CommitUnknownError: as
            `rehash`.
    """
    table = open_table(spark, uri, storage_options, index, writer)
    return _run(spark, lambda: table.start_rescale(rules, default=default, add=add, codec=codec))


def migrate(
    spark: SparkSession,
    uri: TableOrUri,
    index: BucketIndex | None = None,
    *,
    keys: KeyForm | None = None,
    duplicates: Duplicates = "refuse",
    partitions_per_commit: int | None = None,
    codec: Codec | None = None,
    storage_options: Mapping[str, Any] | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.MigrateResult | None:
    """Give a table with another index, or without one, a bucket index, on the executors.

    As `bucketfmt.Table.migrate`. Each replacecommit is one job. After a failure a call with the
    same arguments goes on with the partitions that are left.

    Returns:
        What was done; None if the table has the index already.

    Raises:
        ValueError: the index is not for such a table; or `keys` is for no such table.
        ExecutorError: executors have no bucketfmt, or another release.
        UnsupportedError: the table has other buckets already; keys have several rows, or are
            written in several ways; or the table is of a kind that is not written.
        ConflictError: a compaction or a clustering is pending, or others are writing by the old
            index all the time.
    """
    table = open_table(spark, uri, storage_options, writer=writer)
    execute = partial(_execute, spark)
    if partitions_per_commit is None:
        return table.migrate(index, keys=keys, duplicates=duplicates, codec=codec, execute=execute)
    return table.migrate(
        index,
        keys=keys,
        duplicates=duplicates,
        partitions_per_commit=partitions_per_commit,
        codec=codec,
        execute=execute,
    )


def resize(
    spark: SparkSession,
    uri: TableOrUri,
    *,
    codec: Codec | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
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
    table = open_table(spark, uri, storage_options, index, writer)
    start = partial(table.start_resize, codec=codec, **options)
    if isinstance(table.index, bf.ExtendibleHashingIndex):
        return _run(spark, start)
    return _run_once(spark, start)  # a resize of rings that is overtaken was taken back, or is done


def _run(spark: SparkSession, start: _Start) -> bf.CommitResult | None:
    """Begin a change of buckets and run it, and begin again where others overtook the change."""
    return repeat_on_conflict("a change of buckets", _TRIES - 1, partial(_run_once, spark, start))


def _run_once(spark: SparkSession, start: _Start) -> bf.CommitResult | None:
    started = start()
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
        with named_job(spark, "change buckets of", task.basis.config.name, task.instant):
            rows = frame.collect()
    for row in rows:
        found[bytes(row.payload)].append(bytes(row.receipt))
    return list(found.values())
