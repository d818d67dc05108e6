"""Markers: which data files a pending instant has begun to write, so that they can be removed.

Does I/O. Source: `DirectWriteMarkers`, `MarkerUtils`, `MarkerBasedRollbackUtils`. A marker is
on the store before its data file is. Markers are direct, an empty file each, or lines of
`MARKERS<n>` files beside a `MARKERS.type`, as Hudi's timeline server writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    StorageError,
    UnsupportedError,
)
from bucketfmt.format.names.layout import marker_folder
from bucketfmt.format.names.names import MarkerName, parse_marker_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import FileInfo, Store, has_content
from bucketfmt.storage.streams import beside, do_together, map_in_threads, waiting_count

__all__ = [
    "delete_announced_files",
    "delete_markers",
    "load_markers",
    "put_marker",
    "put_marker_file",
    "put_markers_together",
]

_TYPE_FILE = "MARKERS.type"
_GATHERED = "TIMELINE_SERVER_BASED"
_LINES_MAX = 20_000  # of a file, some 3 MB
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


def put_markers_together(store: Store, requested_time: str, markers: Sequence[MarkerName]) -> int:
    """Announce data files of an instant by two requests, or by one more for each 20,000 files.

    Hudi then looks for no direct marker of the instant: whoever announces further files of the
    instant uses `put_marker_file`.

    Returns:
        The number for the next file of markers.

    Raises:
        StorageError: the store failed, or the instant has markers of another type; some of the
            markers may exist, which does no harm.
    """
    starts = range(0, len(markers), _LINES_MAX)
    do_together(
        store,
        partial(_put_type, store, requested_time),
        *(
            partial(put_marker_file, store, requested_time, number, markers[at : at + _LINES_MAX])
            for number, at in enumerate(starts)
        ),
    )
    return len(starts)


def put_marker_file(
    store: Store, requested_time: str, number: int, markers: Collection[MarkerName]
) -> None:
    """Announce data files in `MARKERS<number>`, or with the next number that is free.

    Raises:
        StorageError: the store failed; the markers may exist, which does no harm.
    """
    data = "".join(f"{marker}\n" for marker in markers).encode()
    while True:
        path = join_path(marker_folder(requested_time), f"MARKERS{number}")
        if store.put_if_absent(path, data) or has_content(store, path, data):
            return
        number += 1


def _put_type(store: Store, requested_time: str) -> None:
    path = join_path(marker_folder(requested_time), _TYPE_FILE)
    data = _GATHERED.encode()
    if not store.put_if_absent(path, data) and not has_content(store, path, data):
        raise StorageError(
            f"the markers of {requested_time} are of another type; roll the instant back, and "
            "write again",
            path=path,
        )


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
    return frozenset(chain.from_iterable(_load(store, requested_time, limits).values()))


def delete_announced_files(
    store: Store,
    requested_time: str,
    limits: Limits = DEFAULT_LIMITS,
    *,
    kept: Iterable[str] = (),
    may_remove: Callable[[Collection[str]], bool] = lambda _: True,
) -> Collection[str]:
    """Remove the files that an instant announced, and may have written.

    Args:
        store: The table's files.
        requested_time: Of the instant.
        limits: Bounds on what is read.
        kept: The paths of the files that stay.
        may_remove: Returns whether any may be removed, given the paths of the files that were
            announced.

    Returns:
        The paths of the files that announced them, for `delete_markers`.

    Raises:
        StorageError: the store failed; some files may be left.
        CorruptError: see `load_markers`.
    """
    by_file = _load(store, requested_time, limits)
    markers = chain.from_iterable(by_file.values())
    paths = {marker.data_file_path for marker in markers}
    if not may_remove(paths):
        return by_file.keys()
    map_in_threads(store.delete, sorted(paths.difference(kept)), waiting_count(store))
    return by_file.keys()


def delete_markers(store: Store, requested_time: str, known: Collection[str] | None = None) -> None:
    """Remove all markers of an instant.

    Args:
        store: The table's files.
        requested_time: Of the instant.
        known: The paths of all files that there are, as of `delete_announced_files`, where the
            caller knows them. Over a network a few are deleted by name, which does not wait for a
            listing.

    Raises:
        StorageError: the store failed; some markers may be left.
    """
    if known is None or len(known) > _DELETED_BY_NAME_MAX or store.failures_are_final:
        store.delete_tree(marker_folder(requested_time))
        return
    map_in_threads(store.delete, sorted(known), waiting_count(store))


def _load(store: Store, requested_time: str, limits: Limits) -> dict[str, frozenset[MarkerName]]:
    """Return the markers of an instant by the files that hold them. As `load_markers`."""
    folder = marker_folder(requested_time)
    entries = store.list(folder)
    names = {info.name for info in entries if not info.is_dir}
    files = [join_path(folder, name) for name in sorted(names) if _SERVER_FILE.fullmatch(name)]
    type_file, kind = join_path(folder, _TYPE_FILE), ""
    with beside(store, lambda: _load_files(store, files, limits)) as gathered:
        if _TYPE_FILE in names:
            kind = _read_text(store, type_file, _TYPE_BYTES_MAX)
    if kind not in ("", "DIRECT", _GATHERED):
        raise UnsupportedError(
            f"markers of type {kind[:40]!r}; roll {requested_time} back with Hudi", path=type_file
        )
    # Without the type there was a crash before it was written, or the writer wrote none.
    found = gathered() if kind != "DIRECT" else dict.fromkeys(files, frozenset())
    # Hudi reads no direct markers beside gathered ones. Here they are read: files of markers may be
    # those of an earlier attempt, whose last request came late.
    own = [info for info in entries if info.path not in {type_file, *files}]
    for marker in _load_direct_markers(store, folder, own, limits):
        found[join_path(folder, str(marker))] = frozenset({marker})
    return {**found, type_file: frozenset()} if _TYPE_FILE in names else found


def _load_files(
    store: Store, files: Sequence[str], limits: Limits
) -> dict[str, frozenset[MarkerName]]:
    def load(path: str) -> frozenset[MarkerName]:
        return frozenset(_load_file(store, path, limits))

    return dict(zip(files, map_in_threads(load, files, waiting_count(store)), strict=True))


def _load_direct_markers(
    store: Store, root: str, entries: Sequence[FileInfo], limits: Limits
) -> Iterator[MarkerName]:
    while entries:  # level by level: recursion would be as deep as a hostile table nests folders
        folders = [info.path for info in entries if info.is_dir]
        for info in entries:
            if info.is_dir or info.name.endswith(_NO_MARKER):
                continue
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
