"""Arrow tables about a table: its commits, files, buckets, partitions and rings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from bucketfmt.arguments import check_bool, check_int, check_text
from bucketfmt.errors import (
    BucketfmtError,
    ConflictError,
    CorruptError,
    IndexUnknownError,
    LimitError,
    NotFoundError,
)
from bucketfmt.format.log.log_block import CorruptSpan, HeaderKey
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.format.timeline.plans import RequestedReplaceMetadata
from bucketfmt.index.infer import LIKELY_BUCKETS, largest_bucket_id
from bucketfmt.index.layout import BucketLayout
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.hashing_files import load_hashing_metadata
from bucketfmt.metadata_table.entries import list_entries
from bucketfmt.metadata_table.metadata_table import load_metadata_table
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.timeline.load import load_requested_content
from bucketfmt.timeline.timeline import COMMIT_ACTIONS, REPLACING_ACTIONS, Instant

__all__ = ["Inspect"]

_COMMITS = pa.schema(
    {
        "requested_time": pa.string(),
        "completion_time": pa.string(),
        "action": pa.string(),
        "state": pa.string(),
        "operation_type": pa.string(),
        "files": pa.int64(),
        "file_groups_replaced": pa.int64(),
        "bytes": pa.int64(),
    }
)
_FILES = pa.schema(
    {
        "partition_path": pa.string(),
        "file_id": pa.string(),
        "bucket_id": pa.int32(),
        "base_instant": pa.string(),
        "kind": pa.string(),
        "path": pa.string(),
        "size": pa.int64(),
    }
)
_FILE_GROUPS = pa.schema(
    {
        "partition_path": pa.string(),
        "file_id": pa.string(),
        "bucket_id": pa.int32(),
        "base_instant": pa.string(),
        "base_file": pa.string(),
        "base_size": pa.int64(),
        "base_rows": pa.int64(),
        "log_files": pa.int64(),
        "log_size": pa.int64(),
    }
)
_BUCKETS = pa.schema(
    {
        "partition_path": pa.string(),
        "bucket_id": pa.int32(),
        "file_id": pa.string(),
        "size": pa.int64(),
        "log_files": pa.int64(),
    }
)
_PARTITIONS = pa.schema(
    {
        "partition_path": pa.string(),
        "file_groups": pa.int64(),
        "base_files": pa.int64(),
        "log_files": pa.int64(),
        "size": pa.int64(),
    }
)
_HASHING_METADATA = pa.schema(
    {
        "partition_path": pa.string(),
        "instant": pa.string(),
        "seq_no": pa.int32(),
        "initial_buckets": pa.int32(),
        "value": pa.int32(),
        "file_id_prefix": pa.string(),
        "tag": pa.string(),
    }
)
_LOG_BLOCKS = pa.schema(
    {
        "offset": pa.int64(),
        "end": pa.int64(),
        "block_type": pa.string(),
        "instant_time": pa.string(),
        "content_bytes": pa.int64(),
        "header": pa.map_(pa.string(), pa.string()),
        "damage": pa.string(),
    }
)


class Inspect:
    """The state of a table at the time of `Table.inspect`."""

    def __init__(self, snapshot: Snapshot, index_finder: IndexFinder) -> None:
        self._state = snapshot.state
        self._snapshot = snapshot
        self._index_finder = index_finder

    def commits(self, archived: bool = False) -> pa.Table:
        """Return the instants of the timeline, oldest first; with `archived`, also the archive.

        `operation_type` is null where no file tells it. A pending clustering or overwrite is told
        by its plan.
        """
        check_bool("archived", archived)
        records = {record.requested_time: record for record in self._state.commits}
        instants = list(self._state.timeline.instants)
        if archived:
            active = {(i.requested_time, i.action) for i in instants}
            history = self._state.archived_instants
            instants = [
                *(i for i in history if (i.requested_time, i.action) not in active),
                *instants,
            ]
        rows = []
        for instant in instants:
            is_commit = instant.is_completed and instant.action in COMMIT_ACTIONS
            record = records.get(instant.requested_time) if is_commit else None  # no savepoint's
            rows.append(
                {
                    "requested_time": instant.requested_time,
                    "completion_time": instant.completion_time,
                    "action": instant.action,
                    "state": instant.state.name,
                    "operation_type": record.operation_type if record else self._planned(instant),
                    "files": len(record.files) if record else None,
                    "file_groups_replaced": len(record.replaced) if record else None,
                    "bytes": sum(size for *_, size, _, _ in record.files) if record else None,
                }
            )
        return pa.Table.from_pylist(rows, _COMMITS)

    def _planned(self, instant: Instant) -> str | None:
        """Return the operation that the plan of a pending instant states; None without one."""
        if instant.is_completed or instant.action not in REPLACING_ACTIONS:
            return None
        state = self._state
        with suppress(CorruptError, LimitError, NotFoundError):  # the check tells of the plan
            plan = load_requested_content(state.store, state.config, instant, state.limits)
            if isinstance(plan, RequestedReplaceMetadata):
                return plan.operation_type
        return None

    def files(self) -> pa.Table:
        """Return the files that a reader opens: the newest slice of each file group."""
        rows = []
        for file_slice, bucket_id in self._slices():
            for file in file_slice.files:
                rows.append(
                    {
                        "partition_path": file_slice.partition_path,
                        "file_id": file_slice.file_id,
                        "bucket_id": bucket_id,
                        "base_instant": file_slice.base_instant,
                        "kind": "base" if file is file_slice.base_file else "log",
                        "path": file.path,
                        "size": file.size,
                    }
                )
        return pa.Table.from_pylist(rows, _FILES)

    def file_groups(self) -> pa.Table:
        """Return the file groups, each with its newest slice.

        `base_rows` is what the commit of the base file recorded; null where no commit of the active
        timeline names the file. Rows in log files are not counted.
        """
        rows = [
            {
                "partition_path": file_slice.partition_path,
                "file_id": file_slice.file_id,
                "bucket_id": bucket_id,
                "base_instant": file_slice.base_instant,
                "base_file": file_slice.base_file.path if file_slice.base_file else None,
                "base_size": file_slice.base_file.size if file_slice.base_file else None,
                "base_rows": _recorded_rows(file_slice.base_file),
                "log_files": len(file_slice.log_files),
                "log_size": sum(file.size or 0 for file in file_slice.log_files),
            }
            for file_slice, bucket_id in self._slices()
        ]
        return pa.Table.from_pylist(rows, _FILE_GROUPS)

    def buckets(self) -> pa.Table:
        """Return the size of every bucket.

        Buckets without a file group are there too, with null file_id, where the index is known.
        On a consistent hashing ring, bucket_id is the ring value of the node.
        """
        rows: list[dict[str, Any]] = []
        for path in self._snapshot.partitions:
            layout: BucketLayout | None = None
            with suppress(ConflictError, IndexUnknownError):
                layout = self._index_finder.layout(self._snapshot, path)
            bucket_of = layout.bucket_of if layout else self._bucket_of(path)
            own: list[dict[str, Any]] = [
                {
                    "partition_path": path,
                    "bucket_id": bucket_of(file_slice.file_id),
                    "file_id": file_slice.file_id,
                    "size": file_slice.size,
                    "log_files": len(file_slice.log_files),
                }
                for file_slice in self._snapshot.slices(path)
            ]
            if layout is not None:
                there = {row["bucket_id"] for row in own}
                for bucket_id in layout.bucket_ids:
                    if bucket_id not in there:
                        empty = {"partition_path": path, "bucket_id": bucket_id, "size": 0}
                        own.append({**empty, "log_files": 0})
            rows += sorted(own, key=lambda r: (r["bucket_id"] is None, r["bucket_id"]))
        return pa.Table.from_pylist(rows, _BUCKETS)

    def partitions(self) -> pa.Table:
        """Return the partitions with the number and size of their file groups."""
        rows = []
        for path in self._snapshot.partitions:
            slices = self._snapshot.slices(path)
            rows.append(
                {
                    "partition_path": path,
                    "file_groups": len(slices),
                    "base_files": sum(s.base_file is not None for s in slices),
                    "log_files": sum(len(s.log_files) for s in slices),
                    "size": sum(s.size for s in slices),
                }
            )
        return pa.Table.from_pylist(rows, _PARTITIONS)

    def hashing_metadata(self) -> pa.Table:
        """Return the nodes of the consistent hashing ring in force, partition by partition."""
        rows = []
        for path in self._snapshot.partitions:
            metadata = load_hashing_metadata(self._state, path)
            for node in metadata.nodes if metadata else ():
                rows.append(
                    {
                        "partition_path": path,
                        "instant": metadata.instant if metadata else None,
                        "seq_no": metadata.seq_no if metadata else None,
                        "initial_buckets": metadata.num_buckets if metadata else None,
                        "value": node.value,
                        "file_id_prefix": node.file_id_prefix,
                        "tag": node.tag,
                    }
                )
        return pa.Table.from_pylist(rows, _HASHING_METADATA)

    def log_blocks(self, path: str) -> pa.Table:
        """Return the blocks of one log file, and the damage between blocks.

        Raises:
            NotFoundError: the table has no such file.
        """
        check_text("path", path)
        limits = self._state.limits
        data = self._state.store.read(path, limits.log_file_bytes_max)
        try:
            rows = [_block_row(span) for span in decode_log_file(data, limits)]
        except BucketfmtError as error:
            raise error.within(path=path) from None
        return pa.Table.from_pylist(rows, _LOG_BLOCKS)

    def metadata_entries(self, partition: str, limit: int | None = None) -> pa.Table:
        """Return what a partition of the metadata table says, in step with the table or not.

        Args:
            partition: Such as `files`, `column_stats` or `record_index`.
            limit: Read at most this many records.

        Returns:
            The entries that are not taken back, in the order of their keys. The columns depend on
            the partition: `metadata_table.entries.list_entries`.

        Raises:
            ValueError: the table lists no such partition.
            CorruptError: the metadata table is damaged.
            UnsupportedError: the metadata table is of a kind that is not read.
        """
        check_text("partition", partition)
        if limit is not None:
            limit = min(check_int("limit", limit, 0), sys.maxsize)
        state = self._state
        found = load_metadata_table(state.store, state.config, state.timeline, state.limits)
        if found is None:
            raise ValueError("the table has no metadata table")
        return list_entries(found.partition(partition), limit)

    def _slices(self) -> Iterator[tuple[FileSlice, int | None]]:
        """Yield the newest slice of every file group, and its bucket."""
        self._snapshot.slices_of(self._snapshot.partitions)  # lists them side by side
        for path in self._snapshot.partitions:
            bucket_of = self._bucket_of(path)
            for file_slice in self._snapshot.slices(path):
                yield file_slice, bucket_of(file_slice.file_id)

    def _bucket_of(self, partition_path: str) -> Callable[[str], int | None]:
        """Return what tells the bucket of a file id: the stated index, else how file ids look."""
        try:
            if self._index_finder.declared(self._snapshot).index is not None:
                layout = self._index_finder.unproved_layout(self._snapshot, partition_path)
                return _in_no_bucket if layout is None else layout.bucket_of
        except BucketfmtError:
            return _in_no_bucket  # whoever needs the index is told what is wrong with it
        return find_bucket_id if self._looks_bucketed else _in_no_bucket

    @cached_property
    def _looks_bucketed(self) -> bool:
        """Whether all file ids begin with a bucket id; of random ones some few may."""
        slices = self._snapshot.slices_of(self._snapshot.partitions)
        largest = largest_bucket_id(file_slice.file_id for file_slice in slices)
        return largest is not None and largest < LIKELY_BUCKETS


def _in_no_bucket(file_id: str) -> None:
    """Say of any file id that it is no bucket's."""


def _recorded_rows(file: DataFile | None) -> int | None:
    """Return the rows of a base file as the commit that wrote the file recorded them."""
    if file is None or file.written is None or not file.written.counts:
        return None
    return file.written.counts[0].rows


def _block_row(span: Any) -> dict[str, Any]:
    if isinstance(span, CorruptSpan):
        return {"offset": span.offset, "end": span.end, "damage": span.reason}
    names = {key.value: key.name for key in HeaderKey}
    return {
        "offset": span.offset,
        "end": span.end,
        "block_type": span.block_type.name,
        "instant_time": span.header.get(HeaderKey.INSTANT_TIME),
        "content_bytes": len(span.content),
        "header": [(names.get(key, str(key)), value) for key, value in span.header.items()],
    }
