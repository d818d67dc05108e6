"""`spark.readStream.format("bucketfmt")`: the changes of commits, batch after batch.

An offset is the moment up to which commits have been read: the completion time from table
version 8 on, the requested time before. A batch has the changes between two offsets, and a replay
reads the same changes, so that with a checkpoint each change is read exactly once. A batch has at
least one commit, and as many as the limits allow; a commit is never divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import datasource as ds

import bucketfmt as bf
from bucketfmt_spark.engine.spark_types import arrow_for_spark, as_spark_takes_it
from bucketfmt_spark.engine.tasks import plan_read_tasks
from bucketfmt_spark.source.source_options import SourceOptions

try:  # from Spark 4.2
    from pyspark.sql.streaming import datasource as limits
except ImportError:
    limits = None

__all__ = ["find_commits", "stream_reader"]

_SPLITS = 64
_LAYOUT_2 = 8  # the table version from which completion times are in the timeline


class Commit(NamedTuple):
    """A completed write: its time, and how many files and bytes it wrote."""

    moment: str
    files: int
    size: int


def find_commits(table: bf.Table, after: str) -> list[Commit]:
    """Return the writes that a stream may read next, in their order.

    Before table version 8, offsets are requested times. A pending write may complete later with an
    earlier offset, so that no write after the first pending write is read yet. A pending clustering
    has no new rows, and may stay pending for long (TimelineUtils.handleHollowCommitIfNeeded).
    """
    found, pending = [], []
    by_completion = table.config.table_version >= _LAYOUT_2
    for row in table.inspect.commits().to_pylist():
        if row["action"] not in ("commit", "deltacommit", "replacecommit"):
            continue
        moment = row["completion_time"] if by_completion else row["requested_time"]
        if row["state"] != "COMPLETED" and row["operation_type"] != "CLUSTER":
            pending.append(row["requested_time"])
        elif row["state"] == "COMPLETED" and moment is not None:
            found.append(Commit(moment, row["files"] or 0, row["bytes"] or 0))
    if not by_completion and pending:
        found = [commit for commit in found if commit.moment < min(pending)]
    return sorted(commit for commit in found if commit.moment > after)


class _Changes(ds.InputPartition):
    """Changed file slices that one task reads, and their reader."""

    def __init__(self, reader: bf.TaskReader, payloads: list[bytes]) -> None:
        super().__init__(None)
        self.reader, self.payloads = reader, payloads


class _StreamReader(ds.DataSourceStreamReader):
    def __init__(self, options: SourceOptions) -> None:
        if options.as_of is not None or options.until is not None or options.read_optimized:
            raise ValueError("a stream starts at since; leave as_of, until and read_optimized out")
        self._options = options
        self._target: str | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"instant": self._options.since or ""}

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        # Before Spark 4.2 there is neither a start nor a limit.
        begin = start["instant"] if start else self.initialOffset()["instant"]
        commits = find_commits(self._options.open(), begin)
        if self._target is not None:
            commits = [commit for commit in commits if commit.moment <= self._target]
        end, files, size = begin, 0, 0
        for commit in commits:
            files, size = files + commit.files, size + commit.size
            if end != begin and not _is_admitted(limit, files, size):
                break
            end = commit.moment
        return {"instant": end}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        if self._options.max_files is not None:
            return limits.ReadMaxFiles(self._options.max_files)
        if self._options.max_bytes is not None:
            return limits.ReadMaxBytes(self._options.max_bytes)
        return limits.ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        commits = find_commits(self._options.open(), "")
        return {"instant": commits[-1].moment} if commits else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        commits = find_commits(self._options.open(), "")
        self._target = commits[-1].moment if commits else ""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ds.InputPartition]:
        if start == end:
            return []
        options = self._options
        table = options.open()
        scan = table.changes(
            start["instant"] or None,
            end["instant"],
            options.columns_of(table),
            meta_columns=options.meta_columns,
        )
        reader, tasks = scan.task_reader(), plan_read_tasks(scan.tasks(), _SPLITS)
        return [_Changes(reader, payloads) for payloads in tasks]

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Changes):
            return
        accepted = arrow_for_spark(partition.reader.schema)
        for payload in partition.payloads:
            for batch in partition.reader.read(payload):
                yield as_spark_takes_it(batch, accepted)


def _is_admitted(limit: Any, files: int, size: int) -> bool:
    if limits is not None and isinstance(limit, limits.ReadMaxFiles):
        return files <= int(limit.max_files)
    if limits is not None and isinstance(limit, limits.ReadMaxBytes):
        return size <= int(limit.max_bytes)
    return True


def stream_reader(options: SourceOptions) -> ds.DataSourceStreamReader:
    """Return the reader of a stream.

    Raises:
        ValueError: a stream has no such option, or limits are given before Spark 4.2.
    """
    if limits is None:
        if options.max_files is not None or options.max_bytes is not None:
            raise ValueError("limits of a batch need Spark 4.2; leave them out, or upgrade")
        return _StreamReader(options)
    return _LimitedStreamReader(options)


if limits is not None:

    class _LimitedStreamReader(_StreamReader, limits.SupportsTriggerAvailableNow):
        """A reader with the mixin that Spark needs for limits in a run that ends."""
