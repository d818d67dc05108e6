"""Listing a table by its metadata table, where that is proved to be in step with the table.

I/O: reads the `files` partition of the metadata table, or lists folders. Source:
HoodieBackedTableMetadata (fetchAllPartitionPaths, fetchAllFilesInPartitionPaths).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_keys import (
    ALL_PARTITIONS_KEY,
    format_files_key,
    parse_files_key,
)
from bucketfmt.format.metadata.metadata_records import FileEntry, FilesRecord, MetadataRecord
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.names.paths import check_partition_path, join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.trusted_metadata import TrustedMetadata
from bucketfmt.process import cached_property, new_mutex
from bucketfmt.snapshot.data_files.file_slices import group_files
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.listing import FileLister, StoreLister
from bucketfmt.storage.store import Store
from bucketfmt.timeline.timeline import Timeline

__all__ = ["MetadataLister", "find_lister", "metadata_behind"]

_FILES = "files"


def find_lister(
    store: Store, config: TableConfig, timeline: Timeline, limits: Limits
) -> FileLister:
    """Return what lists the table for readers: its metadata table if it has one, else its folders.

    Args:
        store: The files of the table.
        config: The properties of the table.
        timeline: The active timeline of the table.
        limits: Bounds on what is read.
    """
    if _FILES not in config.metadata_partitions:
        return StoreLister(store)
    return MetadataLister(store, TrustedMetadata(store, config, timeline, limits))


def metadata_behind(lister: FileLister) -> TrustedMetadata | None:
    """Return the metadata table that a lister asks; None for a lister of folders."""
    return lister.metadata if isinstance(lister, MetadataLister) else None


class MetadataLister:
    """A `FileLister` that asks the metadata table, and lists folders where that is not trusted.

    Attributes:
        metadata: The metadata table.
    """

    def __init__(self, store: Store, metadata: TrustedMetadata) -> None:
        self.metadata = metadata
        self._folders = StoreLister(store)
        self._found: dict[str, Mapping[str, Sequence[DataFile]]] = {}
        self._lock = new_mutex()

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """Every partition path, sorted."""
        found = self.metadata.ask(_FILES, _list_partitions)
        return self._folders.partitions if found is None else found

    def files(self, partition_path: str) -> Mapping[str, Sequence[DataFile]]:
        """Return the base and log files of one partition by file id."""
        if partition_path not in self._found:
            self.prepare([partition_path])
        return self._found[partition_path]

    def other_files(self, partition_path: str) -> Sequence[str]:
        """Return the names of the other files of one partition, which only its folder tells."""
        return self._folders.other_files(partition_path)

    def prepare(self, partition_paths: Sequence[str]) -> None:
        """Look up all partitions at once, or list their folders side by side."""
        unknown = [path for path in partition_paths if path not in self._found]
        if not unknown:
            return
        found = self.metadata.ask(_FILES, lambda files: _list_files(files, unknown))
        if found is None:
            self._folders.prepare(unknown)
            found = {path: self._folders.files(path) for path in unknown}
        with self._lock:
            for path, files in found.items():
                self._found.setdefault(path, files)


def _list_partitions(files: MetadataPartition) -> tuple[str, ...]:
    record = files.lookup([ALL_PARTITIONS_KEY]).get(ALL_PARTITIONS_KEY)
    paths = (parse_files_key(key) for key, _ in _present(record))
    return tuple(sorted(check_partition_path(path) if path else path for path in paths))


def _list_files(
    files: MetadataPartition, partition_paths: Sequence[str]
) -> dict[str, Mapping[str, Sequence[DataFile]]]:
    records = files.lookup([format_files_key(path) for path in partition_paths])
    return {
        path: group_files(_data_files(path, records.get(format_files_key(path))))
        for path in partition_paths
    }


def _data_files(partition_path: str, record: MetadataRecord | None) -> Iterator[DataFile]:
    for file_name, entry in _present(record):
        name = find_data_file_name(file_name)
        if name is not None:
            yield DataFile(join_path(partition_path, file_name), name, entry.size)


def _present(record: MetadataRecord | None) -> Iterator[tuple[str, FileEntry]]:
    """Yield what a record of `files` lists; nothing for a partition without one."""
    if record is None:
        return
    if not isinstance(record, FilesRecord):
        raise CorruptError("a record of partition files of the metadata table does not list files")
    yield from ((name, entry) for name, entry in record.entries.items() if not entry.is_deleted)
