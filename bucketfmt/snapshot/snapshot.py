"""The file slices of a table at an instant.

I/O only through `TableState`, which lists each partition once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    NotFoundError,
    SchemaError,
)
from bucketfmt.format.log.log_block import HeaderKey, LogBlock
from bucketfmt.format.names.names import BaseFileName, LogFileName
from bucketfmt.process import cached_property, new_mutex
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.columns.meta_columns import OPERATION
from bucketfmt.snapshot.data_files.base_files import open_base_file
from bucketfmt.snapshot.data_files.file_slices import find_file_slices, find_slice_history
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice, WrittenFile
from bucketfmt.snapshot.data_files.log_files import load_log_file
from bucketfmt.snapshot.data_files.replaced_groups import check_replaced
from bucketfmt.snapshot.data_files.virtual_logs import followed
from bucketfmt.snapshot.data_files.written_files import (
    CommitRecord,
    CommittedFile,
    find_written_files,
    group_committed_files,
)
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import (
    META_COLUMNS,
    TableSchema,
    find_stated_schema,
    find_stating_commit,
    without_meta,
)
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.timeline import REPLACING_ACTIONS

__all__ = ["Snapshot"]


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
        self._ids_of_groups: dict[str, frozenset[str]] = {}
        self._lock = new_mutex()

    @property
    def is_newest(self) -> bool:
        """Whether this is the table as its timeline stands."""
        return self.as_of is None and self.completed_until is None

    def is_visible(self, requested_time: str) -> bool:
        """Whether the write of that instant is completed, and not after the instant looked at."""
        return self.state.timeline.is_completed(requested_time) and self.is_within(requested_time)

    def is_within(self, requested_time: str) -> bool:
        """Whether an instant that is completed is not after the instant looked at."""
        if self.is_newest:
            return True
        return self._is_within(requested_time, self.completion_time(requested_time))

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
        if self.is_newest:
            return self.state.commits
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
    def _replaced_strays(self) -> Mapping[str, str]:
        """The partition of each replaced file group that no commit of the timeline wrote there."""
        return {
            file_id: partition_path
            for partition_path, file_ids in self._replaced.items()
            for file_id in file_ids - self._committed.get(partition_path, {}).keys()
        }

    @cached_property
    def _committed(self) -> Mapping[str, Mapping[str, Sequence[CommittedFile]]]:
        return group_committed_files(self.commits)

    @cached_property
    def _pending_compactions(self) -> Mapping[str, Mapping[str, str]]:
        pending: dict[str, dict[str, str]] = defaultdict(dict)
        for (partition_path, file_id), instant in self.state.pending_compactions.items():
            if self._is_within(instant.requested_time, instant.requested_time):
                pending[partition_path][file_id] = instant.requested_time
        return pending

    @property
    def named_partitions(self) -> Collection[str]:
        """The partitions that commits of the active timeline name: known without a request."""
        return self._committed.keys()

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """Every partition path, sorted; also one that commits name and that is gone."""
        named = (
            path
            for path, groups in self._committed.items()
            if not groups.keys() <= self._replaced.get(path, set())
        )
        return tuple(sorted({*self.state.lister.partitions, *named}))

    @property
    def dropped_partitions(self) -> dict[str, set[str]]:
        """What commits replaced in partitions of which nothing is left: file ids by the path."""
        gone = self._replaced.keys() - {*self.partitions}
        return {path: self._replaced[path] for path in gone}

    @cached_property
    def schema(self) -> TableSchema:
        """The table's columns, as the newest commit, the table's creation or a file states them.

        For a past moment an archived commit may state them. The timeline keeps the one that states
        the newest columns.

        Raises:
            SchemaError: nothing states them: the table has no commit and no file.
            CorruptError: the stated schema, or the history, does not parse.
        """
        commits = self.commits
        if not self.is_newest and find_stating_commit(commits) is None:
            archived = self.state.load_archived_statement(self._is_within)
            commits = commits if archived is None else [archived, *commits]
        stated = find_stated_schema(commits, self.state.config, self.state.limits)
        return stated if stated is not None else self._schema_of_a_file()

    @cached_property
    def keeps_operations(self) -> bool:
        """Whether the newest rows are stored with `_hoodie_operation`, the change that made them.

        Flink's `changelog.enabled` does so, and nothing but the files tells. As in Hudi a file of
        the newest commit that wrote any is looked at: here the smallest. Source:
        `TableSchemaResolver.hasOperationField`.

        Raises:
            NotFoundError: the file was rolled back or cleaned since the listing.
            CorruptError: the file is damaged.
        """
        if not self.state.config.populate_meta_fields:
            return False
        newest = next((commit for commit in reversed(self.commits) if commit.files), None)
        if newest is None or self.state.is_own(newest):  # bucketfmt writes no such column
            return False
        for partition_path, file_id, path, *_ in sorted(newest.files, key=lambda f: f[5]):
            committed = self._committed.get(partition_path, {}).get(file_id, ())
            written = find_written_files(committed).get(path)
            if written is not None and written.size:
                # Mostly it is as the commit says, and the folder need not be listed.
                with suppress(CorruptError, NotFoundError):
                    return self._stores_operations(
                        DataFile(path, written.name, written.size, written)
                    )
            for file in self.files_of(partition_path, file_id):
                if file.path == path and file.size is not None:
                    with self.state.read_here():
                        return self._stores_operations(file)
        return False

    def _stores_operations(self, file: DataFile) -> bool:
        stored = self._stored_schema(file)
        return stored is not None and OPERATION in stored.names

    @cached_property
    def schema_with_operations(self) -> TableSchema:
        """The table's columns, `_hoodie_operation` among Hudi's own where the table keeps it.

        Raises:
            SchemaError, CorruptError: as `schema` says; CorruptError also of a damaged file.
        """
        schema = self.schema
        if not self.keeps_operations:
            return schema
        return replace(schema, meta_columns=(*schema.meta_columns, OPERATION))

    def stated_columns(self, requested_time: str) -> pa.Schema | None:
        """Return the columns a commit states, as `ReadBasis.stated_columns`."""
        return self.basis.stated_columns(requested_time)

    @cached_property
    def basis(self) -> ReadBasis:
        """What the readers of its file slices share."""
        state = self.state
        resizes = state.timeline.of(*REPLACING_ACTIONS).instants
        names_tell = self.table_version >= 8 and not resizes
        return ReadBasis(
            state.store,
            state.config,
            state.limits,
            self.as_of,
            {commit.requested_time: commit.schema for commit in self.commits},
            tuple(state.schema_history),
            None if names_tell else state.timeline,
        )

    def _schema_of_a_file(self) -> TableSchema:
        slices = self.slices_of(self.partitions)
        for file in (file for file_slice in slices for file in file_slice.files):
            stored = self._stored_schema(file)
            if stored is not None:
                has_meta = self.state.config.populate_meta_fields
                return TableSchema(
                    without_meta(stored), meta_columns=META_COLUMNS if has_meta else ()
                )
        if self.as_of is not None or self.completed_until is not None:
            return Snapshot(self.state).schema  # nothing was there yet: no rows, of these columns
        raise SchemaError(
            "neither a commit nor a file states the table's columns; write to it first, or, if the "
            "table had rows, see what check() finds"
        )

    def _stored_schema(self, file: DataFile) -> pa.Schema | None:
        """Return the columns a file states; None for a log file without whole rows."""
        store, limits = self.state.store, self.state.limits
        try:
            if isinstance(file.name, BaseFileName):
                with open_base_file(store, file, limits) as opened:
                    return opened.schema
            for block in followed(store, file.path, load_log_file(store, file, limits), limits):
                if isinstance(block, LogBlock) and HeaderKey.IS_PARTIAL not in block.header:
                    return arrow_schema(parse_avro_schema(block.schema, limits))
        except BucketfmtError as error:
            raise error.within(path=file.path) from None
        return None

    def is_replaced(self, partition_path: str, file_id: str) -> bool:
        """Whether a completed instant hides this file group."""
        return file_id in self._replaced.get(partition_path, ())

    def slices(self, partition_path: str) -> list[FileSlice]:
        """Return the slices to read of one partition, in file id order."""
        slices = self._slices.get(partition_path)
        if slices is None:
            found = self._find_slices(partition_path, sorted(self.file_ids(partition_path)))
            with self._lock:
                slices = self._slices.setdefault(partition_path, found)
        return slices

    def slices_where(
        self, partition_path: str, is_wanted: Callable[[str], bool]
    ) -> list[FileSlice]:
        """Return those of `slices` whose file id is wanted, without making the others."""
        slices = self._slices.get(partition_path)
        if slices is not None:
            return [file_slice for file_slice in slices if is_wanted(file_slice.file_id)]
        file_ids = sorted(filter(is_wanted, self.file_ids(partition_path)))
        return self._find_slices(partition_path, file_ids)

    def _find_slices(self, partition_path: str, file_ids: Iterable[str]) -> list[FileSlice]:
        return find_file_slices(
            partition_path,
            self._files_of_groups(partition_path, file_ids),
            self,
            self._pending_compactions.get(partition_path, {}),
        )

    def slice_history(self, partition_path: str, file_id: str) -> list[FileSlice]:
        """Return every slice of a file group, oldest first; files of older ones may be cleaned."""
        pending = self._pending_compactions.get(partition_path, {}).get(file_id)
        files = self.files_of(partition_path, file_id)
        return find_slice_history(partition_path, file_id, files, self, pending)

    def copies(self, partition_path: str, file_id: str, resize: str) -> FileSlice | None:
        """Return what was written for a pending resize to a file group; None if nothing was.

        These log files bear the requested time of the resize, and no reader sees them before the
        resize is completed. Blocks of pending writes are among them.
        """
        logs = [
            (file.name.sort_key, file)
            for file in self.files_of(partition_path, file_id)
            if isinstance(file.name, LogFileName) and file.name.instant == resize
        ]
        logs.sort(key=lambda pair: pair[0])
        files = tuple(file for _, file in logs)
        return FileSlice(partition_path, file_id, resize, None, files) if files else None

    def slices_of(self, partition_paths: Sequence[str]) -> list[FileSlice]:
        """Return the slices of several partitions, listing them side by side.

        Raises:
            LimitError: there are more than memory suffices for.
        """
        try:
            self.state.lister.prepare(partition_paths)
            return [file_slice for path in partition_paths for file_slice in self.slices(path)]
        except MemoryError as error:
            raise LimitError.of_memory("the files of the table", error) from error

    def file_ids(self, partition_path: str) -> frozenset[str]:
        """Return the file groups of a partition that are listed or named by commits.

        Without those that are replaced.
        """
        file_ids = self._ids_of_groups.get(partition_path)
        if file_ids is None:
            found = frozenset(self._find_file_ids(partition_path))
            with self._lock:
                file_ids = self._ids_of_groups.setdefault(partition_path, found)
        return file_ids

    def _find_file_ids(self, partition_path: str) -> set[str]:
        listed = self.state.lister.files(partition_path).keys()
        committed = self._committed.get(partition_path, {}).keys()
        file_ids = listed | committed
        replaced = self._replaced.get(partition_path, set())
        check_replaced(partition_path, file_ids, replaced, self._replaced_strays)
        gone = committed - listed - replaced
        return file_ids - replaced - self._find_replaced_in_history(partition_path, gone)

    def _find_replaced_in_history(self, partition_path: str, file_ids: set[str]) -> set[str]:
        """Return those of some file groups that an archived instant replaced.

        A change of buckets is requested before, and completed after, commits to the file groups
        that it replaces. Archival removes instants one by one, the oldest first, and a process that
        archives may die: then the commits are active, and what hides them is archived.

        A change that was requested after the commits, or that the timeline has as pending, was
        archived since the timeline was listed. This snapshot does not see what replaced the file
        groups, so their rows can no longer be read: whoever opens the files is told so.

        Args:
            partition_path: The partition.
            file_ids: File groups that commits name and of which no file is there.
        """
        found = set()
        for file_id in file_ids:
            by = self.state.replaced_in_history.get((partition_path, file_id))
            last = self._committed[partition_path][file_id][0]
            if (
                by is not None
                and by.requested_time < last.requested_time
                and by.requested_time not in self.state.timeline.requested_times
                and last.completion_time <= by.hides_until
                and self._is_within(by.requested_time, by.completion_time)
            ):
                found.add(file_id)
        return found

    def files_of(self, partition_path: str, file_id: str) -> list[DataFile]:
        """Return a group's files: those listed, and those that commits name and that are gone."""
        return self._files_of_groups(partition_path, [file_id])[file_id]

    def _files_of_groups(
        self, partition_path: str, file_ids: Iterable[str]
    ) -> dict[str, list[DataFile]]:
        listed = self.state.lister.files(partition_path)
        committed = self._committed.get(partition_path, {})
        groups = {}
        for file_id in file_ids:
            written = find_written_files(committed.get(file_id, ()))
            files = [
                DataFile(f.path, f.name, f.size, written.pop(f.path, None))
                for f in listed.get(file_id, ())
            ]
            if written:
                lost = [file for file in written.values() if not self._went_with_resize(file)]
                find_size = self.state.find_unlisted_size
                files += [DataFile(f.path, f.name, find_size(f.path), f) for f in lost]
            groups[file_id] = files
        return groups

    def _went_with_resize(self, file: WrittenFile) -> bool:
        """Whether a file that is gone has copies for a resize that was taken back.

        Once the timeline begins after that resize, it looks like an archived resize.
        """
        instant, timeline = file.name.instant, self.state.timeline
        is_own = any(counts.requested_time == instant for counts in file.counts)
        is_before_start = timeline.writes.is_before_start(instant)
        if is_own or not is_before_start or timeline.is_pending(instant):
            return False
        archived = self.state.archived_since(instant)
        return not any(each.requested_time == instant for each in archived)
