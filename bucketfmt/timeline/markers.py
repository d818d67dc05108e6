"""Markers: which data files a pending instant has begun to write, so that they can be removed.

Does I/O. Source: `DirectWriteMarkers`, `MarkerUtils`, `MarkerBasedRollbackUtils`. A marker is
on the store before its data file is. Written here are direct markers, an empty file each;
read are also those that Hudi's timeline server gathers in `MARKERS<n>` files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.format.names.layout import marker_folder
from bucketfmt.format.names.names import MarkerName, parse_marker_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = ["delete_announced_files", "delete_markers", "load_markers", "put_marker"]

_TYPE_FILE = "MARKERS.type"
_SERVER_FILE = re.compile(r"MARKERS[0-9]+")
_LINE_END = re.compile(r"\r\n|\r|\n")  # Java's; str.splitlines knows more of them
_TYPE_BYTES_MAX = 1024
_DELETED_BY_NAME_MAX = 8
# What a disk keeps beside a marker: Hadoop's checksums, and files a crash left half made.
_NO_MARKER = (".crc", ".tmp")


def put_marker(store: Store, requested_time: str, marker: MarkerName) -> None:
    """Announce a data file of an instant. Nothing happens if the file is announced already.

    Raises:
        StorageError: the store failed; the marker may exist, which does no harm.
    """
    store.put_if_absent(join_path(marker_folder(requested_time), str(marker)), b"")


def load_markers(
    store: Store, requested_time: str, limits: Limits = DEFAULT_LIMITS
) -> frozenset[MarkerName]:
    """Return the data files an instant has announced; nothing if the instant has no markers.

    Raises:
        CorruptError: a file or a line is not a marker.
        UnsafePathError: a marker names a file outside the table.
        UnsupportedError: the markers are of a type Hudi does not know.
        LimitError: a folder is nested too deeply, or a file too large.
    """
    folder = marker_folder(requested_time)
    entries = store.list(folder)
    names = {info.name for info in entries if not info.is_dir}
    server_files = sorted(name for name in names if _SERVER_FILE.fullmatch(name))
    kind = (
        _read_text(store, join_path(folder, _TYPE_FILE), _TYPE_BYTES_MAX)
        if (_TYPE_FILE in names)
        else ""
    )
    if kind not in ("", "DIRECT", "TIMELINE_SERVER_BASED"):
        raise UnsupportedError(
            f"markers of type {kind[:40]!r}; roll {requested_time} back with Hudi",
            path=join_path(folder, _TYPE_FILE),
        )
    # Without the type there was a crash before it was written, or the writer wrote none.
    if kind == "TIMELINE_SERVER_BASED" or (not kind and server_files):
        paths = (join_path(folder, name) for name in server_files)
        return frozenset(marker for path in paths for marker in _load_file(store, path, limits))
    return frozenset(_load_direct_markers(store, folder, entries, limits))


def delete_announced_files(
    store: Store,
    requested_time: str,
    limits: Limits = DEFAULT_LIMITS,
    *,
    kept: Collection[str] = (),
) -> frozenset[MarkerName]:
    """Remove the files that an instant announced, and may have written, except the paths `kept`.

    Returns the markers.

    Raises:
        StorageError: the store failed; some files may be left.
        CorruptError: see `load_markers`.
    """
    markers = load_markers(store, requested_time, limits)
    paths = {join_path(marker.partition_path, marker.data_file_name) for marker in markers}
    map_in_threads(store.delete, sorted(paths.difference(kept)), waiting_count(store))
    return markers


def delete_markers(
    store: Store, requested_time: str, known: Collection[MarkerName] | None = None
) -> None:
    """Remove all markers of an instant.

    Args:
        store: The table's files.
        requested_time: Of the instant.
        known: The direct markers that there are, where the caller knows them. Over a network a
            few are deleted by name, which does not wait for a listing.

    Raises:
        StorageError: the store failed; some markers may be left.
    """
    folder = marker_folder(requested_time)
    if known is None or len(known) > _DELETED_BY_NAME_MAX or store.failures_are_final:
        store.delete_tree(folder)
        return
    paths = [join_path(folder, str(marker)) for marker in known]
    map_in_threads(store.delete, paths, waiting_count(store))


def _load_direct_markers(
    store: Store, root: str, entries: Sequence[FileInfo], limits: Limits
) -> Iterator[MarkerName]:
    while entries:  # level by level: recursion would be as deep as a hostile table nests folders
        folders = [info.path for info in entries if info.is_dir]
        for info in entries:
            if info.is_dir or info.name.endswith(_NO_MARKER):
                continue
            if info.path != join_path(root, _TYPE_FILE):
                yield _parse(info.path[len(root) + 1 :], info.path, limits)
        listed = map_in_threads(store.list, folders, waiting_count(store))
        entries = [info for own in listed for info in own]


def _load_file(store: Store, path: str, limits: Limits) -> Iterator[MarkerName]:
    *lines, unfinished = _LINE_END.split(_read_text(store, path, limits.timeline_file_bytes_max))
    for line in lines:
        yield _parse(line, path, limits)
    # Hudi ends every line. One without end was cut by a crash, so its writer never got the
    # answer it needs before it creates the data file.
    if unfinished:
        try:
            yield parse_marker_name(unfinished, limits)
        except BucketfmtError:
            return


def _read_text(store: Store, path: str, limit_bytes: int) -> str:
    try:
        return store.read(path, limit_bytes).decode()
    except UnicodeDecodeError as error:
        raise CorruptError(f"markers: {error}", path=path) from error


def _parse(marker: str, path: str, limits: Limits) -> MarkerName:
    try:
        return parse_marker_name(marker, limits)
    except BucketfmtError as error:
        raise error.within(path=path) from None
