"""A table's state for the check: what cannot be read becomes an event, and the rest is used.

I/O, read only. Where `TableState` raises, because a reader must not go on without a commit or a
partition, this one notes what is wrong and goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bucketfmt.check.report import Event, Finding, NotChecked
from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    KeyEncodingError,
    LimitError,
    NotFoundError,
    SchemaError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.format.names.layout import (
    METADATA_FOLDER,
    PARTITION_METAFILE,
    SCHEMA_FOLDER,
)
from bucketfmt.format.names.names import (
    BaseFileName,
    FileGroupId,
    LogFileName,
    find_data_file_name,
)
from bucketfmt.format.table.internal_schema import InternalSchema
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.file_slices import group_files, is_change_data
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.snapshot.listing import has_metafile, listed_file, walk_folders
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import load_pending_compactions, load_timeline
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["ExaminedState", "event_of_error", "event_of_instant"]

_DAMAGE = (CorruptError, KeyEncodingError, SchemaError, UnsafePathError)


def event_of_error(
    error: Exception,
    finding_id: str,
    what: str,
    *,
    partition: str | None = None,
    instants: Iterable[str] = (),
) -> Finding | NotChecked:
    """Return what an error met on the way says: the table is damaged, or we could not look.

    Bytes that break the format are a finding. What is not supported, larger than the limits, or
    failed in the store is not checked; so is whatever nobody thought of.
    """
    if isinstance(error, MemoryError):
        return NotChecked(what, LimitError.of_memory("", error).message)
    if not isinstance(error, BucketfmtError):
        why = f"the check itself failed ({type(error).__name__}: {error}); please report it"
        return NotChecked(what, why)
    if isinstance(error, NotFoundError):
        return NotChecked(error.path or what, "gone since it was listed; check again")
    if isinstance(error, _DAMAGE):
        paths = [error.path] if error.path else []
        return Finding.of(
            finding_id, str(error), partition=partition, paths=paths, instants=instants
        )
    return NotChecked(error.path or what, error.message)


def event_of_instant(error: BucketfmtError, instant: Instant) -> Finding | NotChecked:
    """Return what an error met in the file of an instant says: T001, or `NotChecked`."""
    return event_of_error(error, "T001", instant.file_name, instants=[instant.requested_time])


class _ExaminedFiles(NamedTuple):
    files: Mapping[str, Sequence[DataFile]]
    change_data: Sequence[DataFile]
    others: Sequence[str]
    faulty: list[FileInfo]


def _event_of_table(folder: str, partitions: Sequence[str]) -> Finding | NotChecked:
    """Return what a table below the table is: T002, if it has partitions, which readers list.

    Its files count as committed once the timeline begins after its writes.
    """
    if not partitions:
        return NotChecked(folder, "a table of its own; check it separately", is_gap=False)
    return Finding.of(
        "T002",
        f"{folder} is a table of its own, and readers, Hudi too, list its partitions as this "
        "table's: they read its rows, old ones too, as soon as this table's timeline begins after "
        "its writes",
        paths=sorted(partitions),
        fix="Move the folder of the other table out of this one. Then rebuild the metadata table, "
        "if there is one: `metadata_table.rebuild()`.",
    )


class ExaminedLister:
    """A `FileLister` that lists folders, and never raises for what is in the table.

    Several threads can use a lister.

    Attributes:
        unlisted: Folders that could not be listed. What is in them is not known.
        names: The parsed names of files by path, as far as commits have told them already.
    """

    def __init__(self, store: Store, events: list[Event]) -> None:
        """Prepare to list.

        Args:
            store: The table's files.
            events: Takes what is wrong with the folders.
        """
        self._store = store
        self._events = events
        self.unlisted: set[str] = set()
        self.names: Mapping[str, BaseFileName | LogFileName] = {}
        self._lock = threading.Lock()
        self._found: dict[str, _ExaminedFiles] = {}

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """Every folder that is a partition, or that should be a partition: it holds data files."""
        found: list[str] = []
        within: dict[str, list[str]] = {}  # partitions by the table within the table

        def visit(folder: str, entries: Sequence[FileInfo]) -> Sequence[FileInfo]:
            if folder != "" and any(entry.name == METADATA_FOLDER for entry in entries):
                within[folder] = []
            table = next((t for t in within if f"{folder}/".startswith(f"{t}/")), None)
            if table is None and self._is_partition(folder, entries):
                found.append(folder)
            elif table is not None and has_metafile(entries):
                within[table].append(folder)
            else:
                return entries
            return ()

        walk_folders(self._store, self._list, visit)
        for table, partitions in within.items():
            self._events.append(_event_of_table(table, partitions))
        return tuple(sorted(found))

    def files(self, partition_path: str) -> Mapping[str, Sequence[DataFile]]:
        """Return the base and log files of one partition by file id."""
        return self._examined(partition_path).files

    def change_data(self, partition_path: str) -> Sequence[DataFile]:
        """Return the CDC log files of one partition, which no snapshot reads."""
        return self._examined(partition_path).change_data

    def other_files(self, partition_path: str) -> Sequence[str]:
        """Return the names of the other files of one partition."""
        return self._examined(partition_path).others

    def prepare(self, partition_paths: Sequence[str]) -> None:
        """List folders side by side."""
        unknown = [path for path in partition_paths if path not in self._found]
        map_in_threads(self._examined, unknown, waiting_count(self._store))

    def faulty_entries(self, partition_path: str) -> Sequence[FileInfo]:
        """Return the entries of a partition that are neither files nor folders as it may have."""
        return self._examined(partition_path).faulty

    def _examined(self, folder: str) -> _ExaminedFiles:
        kept = self._found.get(folder)
        return kept if kept is not None else self._keep(folder, self._list(folder))

    def _is_partition(self, folder: str, entries: Sequence[FileInfo]) -> bool:
        files = self._keep(folder, entries).files
        if has_metafile(entries):
            return True
        if files:
            every = [file.path for group in files.values() for file in group]
            self._events.append(
                Finding.of(
                    "T005",
                    f"{len(every)} data files and no {PARTITION_METAFILE}",
                    partition=folder,
                    paths=every,
                )
            )
        return bool(files)

    def _list(self, folder: str) -> Sequence[FileInfo]:
        try:
            return self._store.list(folder)
        except BucketfmtError as error:
            self.unlisted.add(folder)
            self._events.append(event_of_error(error, "T002", folder, partition=folder))
            return ()

    def _keep(self, folder: str, entries: Sequence[FileInfo]) -> _ExaminedFiles:
        files, others, faulty = [], [], []
        for entry in entries:
            name = self.names.get(entry.path) or self._find_name(entry)
            if entry.fault is not None or (entry.is_dir and name is not None):
                faulty.append(entry)
            if name is not None:
                files.append(listed_file(entry, name))
            elif not entry.is_dir and entry.fault is None:
                others.append(entry.name)
        change_data = [file for file in files if is_change_data(file.name)]
        kept = _ExaminedFiles(group_files(files), change_data, others, faulty)
        with self._lock:
            return self._found.setdefault(folder, kept)

    def _find_name(self, entry: FileInfo) -> BaseFileName | LogFileName | None:
        try:
            return find_data_file_name(entry.name)
        except UnsupportedError as error:
            self._events.append(NotChecked(entry.path, error.message))
            return None


class ExaminedState(TableState):
    """A `TableState` that never raises for what is in the table.

    Attributes:
        events: What was wrong with what was loaded so far.
        has_moved: A file of the timeline was gone when it was to be read: a writer archived or
            rolled back meanwhile. Load the timeline again.
    """

    lister: ExaminedLister

    def __init__(
        self, store: Store, config: TableConfig, timeline: Timeline, limits: Limits
    ) -> None:
        self.events: list[Event] = []
        super().__init__(store, config, timeline, limits, ExaminedLister(store, self.events))
        self.has_moved = False

    def load(self) -> None:
        """Read the instants' files now, and let the lister know the names that they tell."""
        super().load()
        self.lister.names = self.committed_names

    @cached_property
    def commits(self) -> tuple[CommitRecord, ...]:
        """The completed writes of the active timeline whose metadata can be read."""
        instants = self.timeline.writes.completed.instants
        records = map_in_threads(self._try_load_commit, instants, waiting_count(self.store))
        return tuple(record for record in records if record is not None)

    @cached_property
    def committed_names(self) -> Mapping[str, BaseFileName | LogFileName]:
        """The parsed names of the files that commits name, by path."""
        return {path: name for commit in self.commits for _, _, path, name, *_ in commit.files}

    def _try_load_commit(self, instant: Instant) -> CommitRecord | None:
        try:
            return self._load_commit(instant)
        except BucketfmtError as error:
            self.has_moved |= isinstance(error, NotFoundError)
            self.events.append(event_of_instant(error, instant))
            return None

    def came_or_went(self, instants: Iterable[str], paths: Iterable[str]) -> bool:
        """Whether files are of writes that began since the timeline was listed, or are gone now.

        The writes may have been archived meanwhile. Lists the timeline.
        """
        now = load_timeline(self.store, self.config, self.limits)
        if any(now.contains(i) or now.writes.is_before_start(i) for i in instants):
            return True
        return any(self.store.info(path) is None for path in paths)

    @cached_property
    def pending_compactions(self) -> Mapping[FileGroupId, Instant]:
        """The pending compaction of each file group, as far as the plans can be read."""
        planned: dict[FileGroupId, Instant] = {}
        for instant in self.timeline.pending.instants:
            alone = Timeline((instant,), self.timeline.layout)
            try:
                planned |= load_pending_compactions(self.store, self.config, alone, self.limits)
            except BucketfmtError as error:
                self.has_moved |= isinstance(error, NotFoundError)
                self.events.append(event_of_instant(error, instant))
        return planned

    @cached_property
    def archived_instants(self) -> Sequence[Instant]:
        """The archived timeline; empty where it cannot be read."""
        try:
            return load_history(self.store, self.config, self.limits)
        except BucketfmtError as error:
            self.events.append(event_of_error(error, "T001", self.config.history_path))
            return ()

    @cached_property
    def replaced_in_history(self) -> Mapping[FileGroupId, CommitRecord]:
        """The file groups that archived instants replaced; none where they cannot be read."""
        try:
            return super().replaced_in_history
        except BucketfmtError as error:
            self.events.append(event_of_error(error, "T001", self.config.history_path))
            return {}

    @cached_property
    def _timeline_with_archived(self) -> Timeline:
        return self.timeline.with_history(self.archived_instants)

    def completion_time(self, requested_time: str) -> str | None:
        """Return when an instant completed; None where nothing readable tells."""
        if self.timeline.needs_history(requested_time):
            return self._timeline_with_archived.completion_time(requested_time)
        return self.timeline.completion_time(requested_time)

    @cached_property
    def schema_history(self) -> Sequence[InternalSchema]:
        """Schemas with column ids; none where they cannot be read."""
        try:
            return super().schema_history
        except BucketfmtError as error:
            self.events.append(event_of_error(error, "T001", SCHEMA_FOLDER))
            return ()
