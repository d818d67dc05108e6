"""Reads and writes the directories of partitions with an extendible hashing index.

I/O. A directory counts when the files of its instant count: no marker says so besides, since a
directory is taken away before its instant is. Source: spec EXT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.buckets.extendible_metadata import (
    ExtendibleMetadata,
    choose_extendible_metadata,
    decode_extendible_metadata,
    encode_extendible_metadata,
    initial_extendible_metadata,
)
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.layout import (
    DIRECTORIES_FOLDER,
    format_hashing_metadata_name,
    hashing_metadata_folder,
    is_hashing_metadata_name,
    parse_hashing_metadata_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo, Store

__all__ = [
    "delete_directories",
    "find_outdated_directories",
    "list_directory_files",
    "load_directory",
    "load_directory_file",
    "put_directories",
    "put_initial_directory",
]


def list_directory_files(store: Store, partition_path: str) -> list[FileInfo]:
    """Return the directories of a partition. Their names may be damaged.

    Raises:
        StorageError: the store failed.
    """
    entries = store.list(hashing_metadata_folder(DIRECTORIES_FOLDER, partition_path))
    return [e for e in entries if not e.is_dir and is_hashing_metadata_name(e.name)]


def load_directory_file(state: TableState, path: str) -> ExtendibleMetadata:
    """Return the directory that one file holds.

    Raises:
        CorruptError: the file does not decode.
        LimitError: the file, or its directory, is too large.
        NotFoundError: the file is gone.
    """
    try:
        data = state.store.read(path, state.limits.hashing_metadata_bytes_max)
        return decode_extendible_metadata(data, state.limits)
    except BucketfmtError as error:
        raise error.within(path=path) from None


def load_directory(snapshot: Snapshot, partition_path: str) -> ExtendibleMetadata | None:
    """Return the directory in force of a partition; None before its first write.

    Raises:
        CorruptError: a name is damaged, or the file in force does not decode.
        LimitError: the file in force, or its directory, is too large.
    """
    try:
        files = {
            parse_hashing_metadata_name(file.name): file
            for file in list_directory_files(snapshot.state.store, partition_path)
        }
        chosen = choose_extendible_metadata(files, snapshot.is_visible)
        return None if chosen is None else load_directory_file(snapshot.state, files[chosen].path)
    except BucketfmtError as error:
        raise error.within(partition=partition_path) from None


def put_initial_directory(store: Store, partition_path: str, num_buckets: int) -> bool:
    """Write the directory that every writer gives a new partition; return whether there was none.

    Raises:
        StorageError: the store failed.
    """
    return _put_directory(store, initial_extendible_metadata(partition_path, num_buckets))


def put_directories(directories: Iterable[ExtendibleMetadata], store: Store) -> None:
    """Write the directories that an instant gives to partitions.

    Raises:
        StorageError: the store failed.
    """
    for metadata in directories:
        _put_directory(store, metadata)


def _put_directory(store: Store, metadata: ExtendibleMetadata) -> bool:
    path = _path(metadata.partition_path, metadata.instant)
    return store.put_if_absent(path, encode_extendible_metadata(metadata))


def delete_directories(store: Store, instant: str) -> None:
    """Remove the directories that an instant gave to partitions.

    All partitions are looked into, since a resize may leave no file in one.

    Raises:
        StorageError: the store failed; some files may be left.
    """
    name = format_hashing_metadata_name(instant)
    for files in _files_by_folder(store):
        for file in files:
            if file.name == name:
                store.delete(file.path)


def find_outdated_directories(snapshot: Snapshot) -> list[FileInfo]:
    """Return the directories that no moment of the active timeline goes by. Reads only.

    Those of instants that were taken back by another program are among them. Whoever deletes them
    holds the table lock.

    Raises:
        StorageError: the store failed.
    """
    timeline = snapshot.state.timeline
    first = timeline.commits.completed.first
    if first is None:
        return []
    found = []
    for files in _files_by_folder(snapshot.state.store):
        by_instant = {}
        with suppress(CorruptError):  # a damaged name; the check tells
            by_instant = {parse_hashing_metadata_name(file.name): file for file in files}
        in_force = choose_extendible_metadata(by_instant, snapshot.is_visible)
        if in_force is None:
            continue
        counting = [i for i in by_instant if i == INIT_INSTANT or snapshot.is_visible(i)]
        before = sorted(i for i in counting if i <= min(in_force, first.requested_time))
        left = set(by_instant) - timeline.requested_times - set(counting)
        found += [by_instant[instant] for instant in sorted({*before[:-1], *left})]
    return found


def _files_by_folder(store: Store) -> Iterator[list[FileInfo]]:
    """Yield the directories of each partition."""
    folders = [DIRECTORIES_FOLDER]
    while folders:
        entries = store.list(folders.pop())
        folders += [entry.path for entry in entries if entry.is_dir]
        yield [e for e in entries if not e.is_dir and is_hashing_metadata_name(e.name)]


def _path(partition_path: str, instant: str) -> str:
    folder = hashing_metadata_folder(DIRECTORIES_FOLDER, partition_path)
    return join_path(folder, format_hashing_metadata_name(instant))
