"""What an instant changes in `files`, the list of all files of the table.

Pure. Source: HoodieTableMetadataUtil (convertMetadataToFilesPartitionRecords,
processRollbackMetadata).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bucketfmt.format.metadata.metadata_keys import ALL_PARTITIONS_KEY, format_files_key
from bucketfmt.format.metadata.metadata_records import FileEntry, FilesRecord
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.service_metadata import CleanMetadata, RollbackMetadata

__all__ = ["plan_files"]


def plan_files(content: InstantContent) -> dict[str, FilesRecord | None]:
    """Return what changes in `files` with an instant: records by key, None where a record goes.

    Rollbacks add log files until table version 6. They delete files of the instant that they take
    back, whose records go with it, and log files of the same slices that earlier rollbacks added.

    Args:
        content: What the completed file of the instant holds.
    """
    if isinstance(content, CommitMetadata):
        return _of_commit(content)
    if isinstance(content, CleanMetadata):
        return _of_clean(content)
    if isinstance(content, RollbackMetadata):
        return _of_rollback(content)
    return {}


def _of_commit(metadata: CommitMetadata) -> dict[str, FilesRecord | None]:
    found: dict[str, dict[str, int]] = {}
    for path, stats in metadata.partition_to_write_stats.items():
        sizes = found.setdefault(path, {})
        for stat in stats:
            if stat.path:
                name = _name(stat.path)
                sizes[name] = max(stat.file_size_in_bytes, sizes.get(name, 0))
            for written, size in (stat.cdc_stats or {}).items():
                sizes[_name(written)] = size
    records = {format_files_key(path): _added(sizes) for path, sizes in found.items()}
    return {ALL_PARTITIONS_KEY: _partitions(found, False), **records}


def _of_clean(metadata: CleanMetadata) -> dict[str, FilesRecord | None]:
    records: dict[str, FilesRecord | None] = {}
    gone = []
    for path, own in metadata.partition_metadata.items():
        if own.is_partition_deleted:
            gone.append(path)
            records[format_files_key(path)] = None
        else:
            entries = {_name(file): FileEntry(0, True) for file in own.delete_path_patterns}
            records[format_files_key(path)] = FilesRecord(entries, are_partitions=False)
    if gone:
        records[ALL_PARTITIONS_KEY] = _partitions(gone, True)
    return records


def _of_rollback(metadata: RollbackMetadata) -> dict[str, FilesRecord | None]:
    records: dict[str, FilesRecord | None] = {}
    for path, own in metadata.partition_metadata.items():
        sizes: dict[str, int] = {}
        if own.rollback_log_files:
            for files in (own.rollback_log_files, own.log_files_from_failed_commit):
                for file, size in files.items():
                    sizes[_name(file)] = max(size, sizes.get(_name(file), 0))
        names = map(_name, own.success_delete_files)
        gone = [name for name in names if isinstance(find_data_file_name(name), LogFileName)]
        if sizes or gone:
            entries = {**_added(sizes).entries, **{name: FileEntry(0, True) for name in gone}}
            records[format_files_key(path)] = FilesRecord(entries, are_partitions=False)
    return records


def _partitions(paths: Iterable[str], are_deleted: bool) -> FilesRecord:
    entries = {format_files_key(path): FileEntry(0, are_deleted) for path in paths}
    return FilesRecord(entries, are_partitions=True)


def _added(sizes: Mapping[str, int]) -> FilesRecord:
    """Return the record of these files. Hudi's readers refuse a file of zero bytes."""
    entries = {name: FileEntry(size, False) for name, size in sizes.items() if size > 0}
    return FilesRecord(entries, are_partitions=False)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
