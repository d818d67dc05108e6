"""Reads and writes the consistent hashing metadata of partitions: `.hashing_meta` and markers.

I/O. Reading leaves no marker behind, unlike Hudi's reader, and decides anew each time.
Source: ConsistentBucketIndexUtils.loadMetadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from bucketfmt.errors import BucketfmtError, ConflictError, CorruptError, NotFoundError
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    choose_hashing_metadata,
    decode_hashing_metadata,
    encode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.names.layout import (
    HASHING_METADATA_FOLDERS,
    format_hashing_marker_name,
    format_hashing_metadata_name,
    hashing_metadata_folder,
    is_hashing_marker_name,
    is_hashing_metadata_name,
    parse_hashing_marker_name,
    parse_hashing_metadata_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.limits import Limits
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import FileInfo, Store, has_content, prepare_replace

__all__ = [
    "HashingFiles",
    "choose_hashing_instant",
    "delete_ring",
    "delete_ring_markers",
    "has_hashing_metadata",
    "list_hashing_files",
    "load_hashing_metadata",
    "load_initial_num_buckets",
    "mark_new_rings",
    "put_initial_ring",
    "put_ring",
    "put_ring_marker",
    "read_hashing_file",
    "replace_ring",
    "ring_path",
]

_RINGS_SAMPLED = 8
_LISTINGS_MAX = 8


@dataclass(frozen=True)
class HashingFiles:
    """The hashing metadata files of one partition. Their names may be damaged.

    Attributes:
        metadata: The `.hashing_meta` files.
        markers: The names of the `.commit` files beside them.
    """

    metadata: Sequence[FileInfo]
    markers: Sequence[str]

    def all_markers(self, data_folder: Iterable[str]) -> list[str]:
        """Return the names of all markers: Hudi 0.15 leaves its markers among the data files.

        Args:
            data_folder: The names of the partition's files that are no data files.
        """
        return [*self.markers, *filter(is_hashing_marker_name, data_folder)]

    def by_instant(self) -> dict[str, FileInfo]:
        """Return the metadata files by instant, without those whose names are damaged."""
        found = {}
        for file in self.metadata:
            with suppress(CorruptError):
                found[parse_hashing_metadata_name(file.name)] = file
        return found

    def marked(self, data_folder: Iterable[str]) -> set[str]:
        """Return the instants of `all_markers`, without those whose names are damaged."""
        found = set()
        for name in self.all_markers(data_folder):
            with suppress(CorruptError):
                found.add(parse_hashing_marker_name(name))
        return found


def has_hashing_metadata(state: TableState) -> bool:
    """Return whether any partition has a ring."""
    return any(
        entry.is_dir or is_hashing_metadata_name(entry.name)
        for folder in HASHING_METADATA_FOLDERS
        for entry in state.store.list(folder)
    )


def load_initial_num_buckets(state: TableState) -> int | None:
    """Return with how many buckets the rings of partitions began: the commonest number of a few.

    The files of up to eight partitions are read; damaged files do not count. None where there
    are no rings.
    """
    found: Counter[int] = Counter()
    folders = list(HASHING_METADATA_FOLDERS)
    while folders and found.total() < _RINGS_SAMPLED:
        entries = list(state.store.list(folders.pop(0)))
        files = sorted(
            (e for e in entries if not e.is_dir and is_hashing_metadata_name(e.name)),
            key=lambda entry: entry.path,
        )
        for entry in files[:1]:
            with suppress(BucketfmtError):
                data = read_hashing_file(state, entry)
                found[decode_hashing_metadata(data, state.limits).num_buckets] += 1
        folders[:0] = [entry.path for entry in entries if entry.is_dir]
    return found.most_common(1)[0][0] if found else None


def list_hashing_files(store: Store, partition_path: str) -> HashingFiles:
    """Return the hashing metadata files of a partition, of the first folder that has some.

    Raises:
        StorageError: the store failed.
    """
    listed: list[FileInfo] = []
    for root in HASHING_METADATA_FOLDERS:
        entries = store.list(hashing_metadata_folder(root, partition_path))
        files = [entry for entry in entries if not entry.is_dir]
        if any(is_hashing_metadata_name(file.name) for file in files):
            listed = files
            break
        listed += files
    return HashingFiles(
        [file for file in listed if is_hashing_metadata_name(file.name)],
        [file.name for file in listed if is_hashing_marker_name(file.name)],
    )


def read_hashing_file(state: TableState, file: FileInfo) -> bytes:
    """Return the bytes of a `.hashing_meta` file.

    Raises:
        LimitError: the file is larger than `limits.hashing_metadata_bytes_max`.
        NotFoundError: the file is gone.
    """
    return state.store.read(file.path, state.limits.hashing_metadata_bytes_max)


def choose_hashing_instant(
    state: TableState,
    instants: Collection[str],
    markers: Collection[str],
    has_base_file_of: Callable[[str], bool],
) -> str | None:
    """Return the instant whose ring is in force by the timeline of a table; None without rings.

    Arguments and errors are those of `choose_hashing_metadata`.
    """
    # An instant that is not on the timeline, and could not be archived yet, was rolled back. Hudi
    # leaves the ring of such an instant behind.
    commits = state.timeline.commits
    return choose_hashing_metadata(
        sorted(instants),
        markers,
        commits.completed.requested_times,
        state.timeline.pending.requested_times,
        lambda instant: commits.is_before_start(instant) and has_base_file_of(instant),
    )


def load_hashing_metadata(state: TableState, partition_path: str) -> HashingMetadata | None:
    """Return the ring in force of a partition; None before its first write.

    A clean deletes a ring, and its marker, after it has marked the next one, and nothing on the
    timeline tells. So where a file is gone that was listed, the files are listed again.

    Raises:
        CorruptError: the file does not decode, or a marker stands without its metadata.
        NotFoundError: a file that is listed is not there.
    """
    listed = list_hashing_files(state.store, partition_path)
    for _ in range(_LISTINGS_MAX):
        try:
            return _load_listed(state, partition_path, listed)
        except (CorruptError, NotFoundError):  # noqa: PERF203
            before, listed = listed, list_hashing_files(state.store, partition_path)
            if listed == before:
                raise
    return _load_listed(state, partition_path, listed)


def _load_listed(
    state: TableState, partition_path: str, listed: HashingFiles
) -> HashingMetadata | None:
    if not listed.metadata:
        return None
    files = {parse_hashing_metadata_name(file.name): file for file in listed.metadata}
    markers = listed.all_markers(state.lister.other_files(partition_path))
    loaded: dict[str, HashingMetadata] = {}

    def load(instant: str) -> HashingMetadata:
        if instant not in loaded:
            file = files[instant]
            try:
                data = read_hashing_file(state, file)
                loaded[instant] = decode_hashing_metadata(data, state.limits)
            except BucketfmtError as error:
                raise error.within(path=file.path, partition=partition_path) from None
        return loaded[instant]

    def has_base_file_of(instant: str) -> bool:
        return not load(instant).file_ids.isdisjoint(state.lister.files(partition_path))

    marked = {parse_hashing_marker_name(name) for name in markers}
    try:
        chosen = choose_hashing_instant(state, files, marked, has_base_file_of)
    except BucketfmtError as error:
        raise error.within(partition=partition_path) from None
    return load(chosen) if chosen is not None else None


def put_initial_ring(store: Store, partition_path: str, num_buckets: int) -> bool:
    """Write the ring that every writer gives a new partition; return whether there was none.

    Raises:
        StorageError: the store failed.
    """
    metadata = initial_hashing_metadata(partition_path, num_buckets)
    return store.put_if_absent(ring_path(metadata), encode_hashing_metadata(metadata))


def replace_ring(
    store: Store, metadata: HashingMetadata, limits: Limits, check_held: Callable[[], object]
) -> None:
    """Write a ring in the place of any that its partition has of the instant.

    Args:
        store: The table's files.
        metadata: The ring.
        limits: Bounds on what is read.
        check_held: Raises where the table lock was lost.

    Raises:
        ConflictError: as `check_held`; or another process wrote the ring meanwhile.
        LimitError: what is there is too large.
        StorageError: the store failed.
    """
    path = ring_path(metadata)
    replace = prepare_replace(store, path, limits.hashing_metadata_bytes_max)
    check_held()
    replace(encode_hashing_metadata(metadata))


def ring_path(metadata: HashingMetadata) -> str:
    """Return the path of the file that a ring is written to."""
    folder = hashing_metadata_folder(HASHING_METADATA_FOLDERS[0], metadata.partition_path)
    return join_path(folder, format_hashing_metadata_name(metadata.instant))


def put_ring(store: Store, metadata: HashingMetadata) -> None:
    """Write the ring that a resize gives a partition. No reader takes the ring before it completed.

    Raises:
        ConflictError: there is another ring of this instant.
        StorageError: the store failed.
    """
    path, data = ring_path(metadata), encode_hashing_metadata(metadata)
    if store.put_if_absent(path, data) or has_content(store, path, data):
        return
    raise ConflictError(
        f"the clustering of {metadata.instant} has another ring already than its plan makes of the "
        "ring in force; roll the clustering back",
        path=path,
        partition=metadata.partition_path,
    )


def put_ring_marker(store: Store, partition_path: str, instant: str) -> None:
    """Mark the ring of a completed resize as committed, which readers go by once it is archived.

    The marker is where all releases look for it: Hudi 0.15 writes its own among the data files.

    Raises:
        StorageError: the store failed.
    """
    folder = hashing_metadata_folder(HASHING_METADATA_FOLDERS[0], partition_path)
    store.put_if_absent(join_path(folder, format_hashing_marker_name(instant)), b"")


def mark_new_rings(
    store: Store, partition_paths: Iterable[str], instant: str, table_version: int
) -> None:
    """Mark the rings that a commit has given partitions, if markers are put at once.

    Beside a marked ring, Hudi 0.15 finds none while a later resize has written its own: there the
    ring is marked when the replacecommit is archived. What fails is left for the archival too:
    readers know by the timeline as long as it has the instant.
    """
    if table_version < 8:
        return
    for path in sorted(partition_paths):
        with suppress(BucketfmtError):
            put_ring_marker(store, path, instant)


def delete_ring_markers(store: Store, partition_path: str, instant: str) -> None:
    """Remove what marks the ring of an instant as committed; the timeline tells from here on.

    Raises:
        StorageError: the store failed; some markers may be left.
    """
    marker = format_hashing_marker_name(instant)
    for root in HASHING_METADATA_FOLDERS:
        store.delete(join_path(hashing_metadata_folder(root, partition_path), marker))
    store.delete(join_path(partition_path, marker))  # where Hudi 0.15 puts it


def delete_ring(store: Store, partition_path: str, instant: str) -> None:
    """Remove the ring that an instant gave a partition, once no marker names the instant.

    Raises:
        StorageError: the store failed.
    """
    name = format_hashing_metadata_name(instant)
    for root in HASHING_METADATA_FOLDERS:
        store.delete(join_path(hashing_metadata_folder(root, partition_path), name))
