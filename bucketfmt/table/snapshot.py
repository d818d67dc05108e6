"""The file slices of a table at an instant.

I/O only through `TableState`, which lists each partition once.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from bucketfmt.errors import BucketfmtError, SchemaError
from bucketfmt.rows.base_file import BaseFileReader
from bucketfmt.table.file_slices import find_file_slices
from bucketfmt.table.files import DataFile, FileSlice, WrittenFile
from bucketfmt.table.schema import META_COLUMNS, TableSchema, find_stated_schema, without_meta
from bucketfmt.table.state import TableState
from bucketfmt.table.streams import map_in_threads
from bucketfmt.table.written_files import CommitRecord, find_written_files

__all__ = ["Snapshot"]

_LISTING_THREADS = 8


class Snapshot:
    """A table at an instant: `as_of` by requested time, `completed_until` by completion time.

    Both are inclusive; None for both is the table as its timeline stands.
    """

    def __init__(
        self,
        state: TableState,
        as_of: str | None = None,
        completed_until: str | None = None,
    ) -> None:
        self.state = state
        self.as_of = as_of
        self.completed_until = completed_until
        self.table_version = state.config.table_version
        self._slices: dict[str, list[FileSlice]] = {}
        self._lock = threading.Lock()

    def is_visible(self, requested_time: str) -> bool:
        """Whether the write of that instant is completed, and not after the instant looked at."""
        return self.state.timeline.is_completed(requested_time) and self._is_within(
            requested_time, self.completion_time(requested_time)
        )

    def _is_within(self, requested_time: str, completion_time: str) -> bool:
        if self.as_of is not None and requested_time > self.as_of:
            return False
        return self.completed_until is None or completion_time <= self.completed_until

    def completion_time(self, requested_time: str) -> str:
        """When it completed; the requested time itself where the timeline no longer tells."""
        return self.state.completion_time(requested_time) or requested_time

    @cached_property
    def commits(self) -> Sequence[CommitRecord]:
        """The commits of the active timeline that this snapshot sees, by requested time."""
        return [
            commit
            for commit in self.state.commits
            if self._is_within(commit.requested_time, commit.completion_time)
        ]

    @cached_property
    def _replaced(self) -> Mapping[str, set[str]]:
        replaced: dict[str, set[str]] = defaultdict(set)
        for commit in self.commits:
            for partition_path, file_id in commit.replaced:
                replaced[partition_path].add(file_id)
        return replaced

    @cached_property
    def _written(self) -> Mapping[str, Mapping[str, WrittenFile]]:
        return find_written_files(self.commits)

    @cached_property
    def _pending_compactions(self) -> Mapping[str, Mapping[str, str]]:
        pending: dict[str, dict[str, str]] = defaultdict(dict)
        for (partition_path, file_id), instant in self.state.pending_compactions.items():
            if self._is_within(instant.requested_time, instant.requested_time):
                pending[partition_path][file_id] = instant.requested_time
        return pending

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """Every partition path, sorted; also one that commits name and that is gone."""
        named = (path for path, files in self._written.items() if self._has_live(path, files))
        return tuple(sorted({*self.state.partitions, *named}))

    def _has_live(self, partition_path: str, files: Mapping[str, WrittenFile]) -> bool:
        replaced = self._replaced.get(partition_path, set())
        return any(file.name.file_id not in replaced for file in files.values())

    @cached_property
    def schema(self) -> TableSchema:
        """The table's columns, as the newest commit, the table's creation or a file states them.

        Raises:
            SchemaError: nothing states them: the table has no commit and no file.
            CorruptError: the stated schema does not parse.
        """
        stated = find_stated_schema(self.commits, self.state.config, self.state.limits)
        return stated if stated is not None else self._schema_of_a_file()

    def _schema_of_a_file(self) -> TableSchema:
        for file_slice in self.slices_of(self.partitions):
            if file_slice.base_file is not None:
                path = file_slice.base_file.path
                try:
                    with self.state.store.open_arrow(path) as source:
                        schema = without_meta(BaseFileReader(source).schema)
                except BucketfmtError as error:
                    raise error.within(path=path) from None
                has_meta = self.state.config.populate_meta_fields
                return TableSchema(schema, meta_columns=META_COLUMNS if has_meta else ())
        raise SchemaError(
            "neither a commit nor a file states the table's columns; write to it first"
        )

    def slices(self, partition_path: str) -> list[FileSlice]:
        """Return the slices to read of one partition, in file id order."""
        slices = self._slices.get(partition_path)
        if slices is None:
            found = find_file_slices(
                partition_path,
                self._groups(partition_path),
                self,
                self._pending_compactions.get(partition_path, {}),
            )
            with self._lock:
                slices = self._slices.setdefault(partition_path, found)
        return slices

    def slices_of(self, partition_paths: Sequence[str]) -> list[FileSlice]:
        """Return the slices of several partitions, listing them side by side."""
        slices = map_in_threads(self.slices, partition_paths, _LISTING_THREADS)
        return [file_slice for partition in slices for file_slice in partition]

    def _groups(self, partition_path: str) -> dict[str, list[DataFile]]:
        """Files by file id: those listed, and those that commits name and the listing has not."""
        replaced = self._replaced.get(partition_path, set())
        written = self._written.get(partition_path, {})
        groups: dict[str, list[DataFile]] = {}
        missing = set(written)
        for file_id, files in self.state.listed_files(partition_path).items():
            if file_id not in replaced:
                groups[file_id] = [
                    DataFile(file.path, file.name, file.size, written.get(file.path))
                    for file in files
                ]
                missing.difference_update(file.path for file in files)
        for path in missing:
            name = written[path].name
            if name.file_id not in replaced:
                lost = DataFile(path, name, None, written[path])
                groups.setdefault(name.file_id, []).append(lost)
        return groups
