"""The metadata table of a table: its timeline, its partitions, and which of its files count.

I/O, read only. As in Hudi, the folders and the log blocks of the metadata table tell what is in it,
and its commits are not read. Source: HoodieBackedTableMetadata, HoodieTableMetadataUtil.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.metadata.metadata_keys import file_id_prefix, keeps_newest_record
from bucketfmt.format.metadata.metadata_records import FilesRecord
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.names.names import FileGroupId, find_metadata_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import RollbackPlan
from bucketfmt.format.timeline.service_metadata import RestoreMetadata, RollbackMetadata
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.damage import in_metadata_table
from bucketfmt.metadata_table.definitions import load_index_definitions
from bucketfmt.metadata_table.group_reader import GroupReader
from bucketfmt.metadata_table.in_step import Step
from bucketfmt.metadata_table.load_step import TimelineSource, load_step
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.valid_instants import ValidInstants, is_initial_instant
from bucketfmt.process import cached_property, new_mutex
from bucketfmt.snapshot.data_files.file_slices import (
    find_file_slices,
    find_slice_history,
    group_files,
)
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.listing import listed_file
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import waiting_count
from bucketfmt.timeline.completion_times import CompletionTimes
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.load import (
    load_instant_content,
    load_pending_compactions,
    load_requested_content,
    load_timeline,
)
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = [
    "MetadataTable",
    "find_last_compaction",
    "find_unmerged_since",
    "load_metadata_table",
]

_KEPT_BYTES = 256 << 20  # of a partition, whose small files are read whole


class MetadataTable:
    """A metadata table, as its timeline and that of the table stand. Safe for several threads.

    The records of instants that count are read whether or not the metadata table is in step with
    the table: see `step`.

    Attributes:
        store: The files of the table whose metadata table this is.
        config: The properties of the metadata table.
        timeline: The active timeline of the metadata table.
        partition_names: The partitions that the table lists as ready.
        limits: Bounds on what is read.
    """

    def __init__(
        self,
        store: Store,
        data_config: TableConfig,
        data_timeline: Timeline,
        config: TableConfig,
        timeline: Timeline,
        limits: Limits,
    ) -> None:
        self.store = store
        self.config = config
        self.timeline = timeline
        self.partition_names = data_config.metadata_partitions
        self.limits = limits
        self._data_config = data_config
        self._data_timeline = data_timeline
        self._own_store = FolderStore(store, METADATA_TABLE)
        self._partitions: dict[str, MetadataPartition] = {}
        self._lock = new_mutex()

    def partition(self, name: str) -> MetadataPartition:
        """Return a partition. Its folder is listed the first time.

        Raises:
            CorruptError: a file group is missing, or a file name is damaged.
            UnsupportedError: Hudi had no partition of that name when this was written.
            StorageError: the store failed.
            ValueError: the table does not list the partition.
        """
        found = self._partitions.get(name)
        if found is None:
            if name not in self.partition_names:
                raise ValueError(f"the table has no partition {name!r} of its metadata table")
            loaded = self._load_partition(name)
            with self._lock:
                found = self._partitions.setdefault(name, loaded)
        return found

    def slice_histories(self, name: str) -> list[list[FileSlice]]:
        """Return the file slices of each file group of a partition, oldest first.

        Errors as of `partition`.
        """
        compactions = self._compactions(name)
        return [
            find_slice_history(name, file_id, files, self, compactions.get(file_id))
            for file_id, files in sorted(self._list_groups(name).items())
        ]

    def _list_groups(self, name: str) -> dict[str, list[DataFile]]:
        files = []
        for entry in self.store.list(join_path(METADATA_TABLE, name)):
            file_name = find_metadata_file_name(entry.name)
            if file_name is not None:
                files.append(listed_file(entry, file_name))
        return group_files(files)

    def _load_partition(self, name: str) -> MetadataPartition:
        folder = join_path(METADATA_TABLE, name)
        if file_id_prefix(name) is None:
            raise UnsupportedError(
                f"partition {name!r} of the metadata table is of a kind that is not known here; "
                f"leave it to Hudi, or remove it: metadata_table.drop({name!r})",
                path=folder,
            )
        slices = find_file_slices(name, self._list_groups(name), self, self._compactions(name))
        if not slices and not self._may_be_empty(name):
            raise CorruptError(
                f"partition {name} of the metadata table has no file group; rebuild it", path=folder
            )
        if self.table_version >= 8:
            for file_slice in slices:
                _check_logs(file_slice)
        keeps_files = sum(file_slice.size for file_slice in slices) <= _KEPT_BYTES
        readers = [
            GroupReader(
                self.store,
                file_slice,
                self._is_valid_block,
                keeps_newest_record(name),
                self.limits,
                keeps_files=keeps_files,
            )
            for file_slice in slices
        ]
        return MetadataPartition(name, readers, waiting_count(self.store))

    def _may_be_empty(self, name: str) -> bool:
        """Whether a partition has no file group until the table has a file."""
        definitions = load_index_definitions(self.store, self._data_config, self.limits)
        definition = definitions.get(name)
        return definition is not None and definition.is_partitioned and not self._lists_files()

    def _lists_files(self) -> bool:
        return "files" in self.partition_names and any(
            isinstance(record, FilesRecord)
            and not record.are_partitions
            and any(not entry.is_deleted for entry in record.entries.values())
            for _, record in self.partition("files").scan()
        )

    @cached_property
    def step(self) -> Step:
        """What the metadata table lacks and has too much, by the two timelines."""
        return load_step(
            TimelineSource(self.store, self._data_config, self._data_timeline),
            TimelineSource(self._own_store, self.config, self.timeline),
            self._completion_times,
            self.limits,
        )

    # As an `InstantView` of the metadata table's own timeline.

    @property
    def table_version(self) -> int:
        """6, 8 or 9: that of the table."""
        return self.config.table_version

    def is_visible(self, requested_time: str) -> bool:
        """Whether files that were written at that instant are committed."""
        with in_metadata_table():
            return self._completion_times.is_completed(requested_time)

    def completion_time(self, requested_time: str) -> str:
        """When a commit of the metadata table completed.

        The archived timeline is asked only about instants that may have completed after a later
        instant began, which those that initialised partitions have not.
        """
        timeline = self.timeline
        is_listed = requested_time in timeline.requested_times
        if timeline.layout > 1 and not is_listed and not is_initial_instant(requested_time):
            with in_metadata_table():
                timeline = self._completion_times.since(requested_time)
        return timeline.completion_time(requested_time) or requested_time

    @cached_property
    def _completion_times(self) -> CompletionTimes:
        load = partial(load_history, self._own_store, self.config, self.limits)
        return CompletionTimes(self.timeline, load)

    def _compactions(self, name: str) -> dict[str, str]:
        return {
            file_id: instant.requested_time
            for (partition, file_id), instant in self._pending_compactions.items()
            if partition == name
        }

    @cached_property
    def _pending_compactions(self) -> dict[FileGroupId, Instant]:
        with in_metadata_table():
            return load_pending_compactions(
                self._own_store, self.config, self.timeline, self.limits
            )

    @cached_property
    def _valid_instants(self) -> ValidInstants:
        return ValidInstants(self._data_timeline, self.timeline, self._load_rolled_back)

    def _is_valid_block(self, instant_time: str) -> bool:
        """Whether a log block counts. In layout 1 the names of log files do not tell its write."""
        if self.table_version < 8 and not self.timeline.is_block_committed(instant_time):
            return False
        return instant_time in self._valid_instants

    def _load_rolled_back(self) -> Iterator[str]:
        """Yield the instants that completed rollbacks and restores took back."""
        load = partial(load_instant_content, self.store, self._data_config, limits=self.limits)
        undone = self._data_timeline.completed.of("rollback", "restore").instants
        for instant in undone:
            content = load(instant)
            if content is None and instant.action == "rollback":
                content = load_requested_content(
                    self.store, self._data_config, instant, self.limits
                )
            if isinstance(content, RollbackMetadata):
                yield from content.commits_rollback
            elif isinstance(content, RollbackPlan) and content.instant_to_rollback is not None:
                yield content.instant_to_rollback.commit_time
            elif isinstance(content, RestoreMetadata):
                for rollback in content.rollbacks:
                    yield from rollback.commits_rollback


def load_metadata_table(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits
) -> MetadataTable | None:
    """Return the metadata table of a table; None where the table lists no partition of it.

    Args:
        store: The files of the table.
        config: The properties of the table.
        timeline: The active timeline of the table.
        limits: Bounds on what is read.

    Raises:
        TableNotFoundError: the table lists partitions, and there is no metadata table.
        CorruptError: its properties are damaged.
        UnsupportedError: the metadata table is of another version than the table, or is not a table
            of HFiles.
        StorageError: the store failed.
    """
    if not config.metadata_partitions:
        return None
    folder = FolderStore(store, METADATA_TABLE)
    with in_metadata_table():
        own_config = _load_own_config(folder, limits)
        if own_config.table_version != config.table_version:
            raise UnsupportedError(
                f"the metadata table is of version {own_config.table_version}, and the table of "
                f"version {config.table_version}; rebuild the metadata table"
            )
        if own_config.base_file_format != "HFILE":
            raise UnsupportedError(
                f"a metadata table whose base files are {own_config.base_file_format} files; "
                "rebuild the metadata table"
            )
        own_timeline = load_timeline(folder, own_config, limits)
    return MetadataTable(store, config, timeline, own_config, own_timeline, limits)


def _load_own_config(folder: Store, limits: Limits) -> TableConfig:
    try:
        return load_config(folder, limits)
    except UnsupportedError as error:
        raise CorruptError(
            "hoodie.table.version is missing, or none that a supported table's metadata table has",
            path=error.path,
        ) from None


def _check_logs(file_slice: FileSlice) -> None:
    """Refuse an empty log file, which Hudi reads as one without records.

    From version 8 on, a log file is one write's, which has completed here: its records are lost.
    Before, a writer that died may have left the file.

    Raises:
        CorruptError: there is one.
    """
    for file in file_slice.log_files:
        if file.size == 0:
            raise CorruptError(
                "a completed write of the metadata table left this log file, and it is empty",
                path=file.path,
            )


def find_last_compaction(timeline: Timeline, until: str = "~") -> Instant | None:
    """Return the last completed compaction of a metadata table, of those requested until a time."""
    compactions = timeline.completed.of("commit").instants
    return next((i for i in reversed(compactions) if i.requested_time <= until), None)


def find_unmerged_since(timeline: Timeline, last: Instant) -> str:
    """Return from which requested time on instants have to stay on an active timeline.

    Readers of the metadata table drop the records of an instant that neither timeline has, unless
    the records are in base files. From table version 8 on, a compaction merges what had completed
    when the compaction was requested: an instant that was requested earlier, and completed later,
    is in log files still.

    Args:
        timeline: Of the table, or of its metadata table.
        last: The last completed compaction of the metadata table.
    """
    times = [last.requested_time]
    if timeline.layout > 1:
        times += (
            instant.requested_time
            for instant in timeline.completed.instants
            if (instant.completion_time or "") > last.requested_time
        )
    return min(times)
