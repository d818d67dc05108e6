"""Rings that no reader needs any more: outdated hashing metadata, and what failed resizes left.

I/O, under the table lock. No release of Hudi deletes hashing metadata. A ring stays as long as a
write on the active timeline may be read, or taken back: rings that resizes gave since the first
commit of the active timeline, and the ring that was in force before. A marker tells readers of all
releases that the ring they are to take is committed, once its replacecommit was archived; Hudi puts
the marker when it reads the ring, if it does so in time (HUDI-6047).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.layout import (
    HASHING_METADATA_FOLDERS,
    hashing_metadata_folder,
    is_hashing_metadata_name,
    parse_hashing_metadata_name,
)
from bucketfmt.location.hashing_files import (
    delete_ring,
    delete_ring_markers,
    list_hashing_files,
    load_hashing_metadata,
    put_ring_marker,
)
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store
from bucketfmt.timeline.timeline import Instant

__all__ = [
    "OutdatedRing",
    "delete_rings",
    "load_outdated_rings",
    "mark_rings_of",
    "plan_ring_clean",
]


@dataclass(frozen=True, slots=True)
class OutdatedRing:
    """A ring to delete.

    Attributes:
        partition_path: The partition.
        instant: Of the clustering that made the ring.
        path: Of the file.
        size: Of the file, in bytes.
    """

    partition_path: str
    instant: str
    path: str
    size: int


def plan_ring_clean(
    instants: Collection[str], in_force: str, first_commit: str, left: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return which rings of a partition to delete, and which to mark as committed before. Pure.

    Args:
        instants: Those with hashing metadata.
        in_force: Whose ring is in force.
        first_commit: The first commit of the active timeline.
        left: Those that were rolled back, and left their rings.
    """
    before = sorted(i for i in instants if i <= min(in_force, first_commit) and i not in left)
    outdated = before[:-1]
    if not left and not outdated:
        return [], []
    return sorted({*outdated, *left}), sorted({*before[-1:], in_force} - {INIT_INSTANT})


def load_outdated_rings(state: TableState) -> tuple[list[OutdatedRing], list[tuple[str, str]]]:
    """Return the rings to delete, and the partitions and instants to mark as committed before.

    Partitions whose metadata are damaged are left alone. Reads only.
    """
    first = state.timeline.commits.completed.first
    if first is None:
        return [], []
    times = state.timeline.requested_times
    outdated: list[OutdatedRing] = []
    marked: list[tuple[str, str]] = []
    for path in _ringed_partitions(state.store):
        try:
            files = {
                parse_hashing_metadata_name(file.name): file
                for file in list_hashing_files(state.store, path).metadata
            }
            in_force = load_hashing_metadata(state, path) if len(files) > 1 else None
        except BucketfmtError:
            continue
        if in_force is None:
            continue
        left = {
            instant
            for instant in files
            if instant not in {*times, in_force.instant, INIT_INSTANT}
            and not state.timeline.commits.is_before_start(instant)
        }
        gone, kept = plan_ring_clean(files, in_force.instant, first.requested_time, left)
        outdated += [
            OutdatedRing(path, instant, files[instant].path, files[instant].size)
            for instant in gone
        ]
        marked += [(path, instant) for instant in kept]
    return outdated, marked


def delete_rings(
    store: Store, outdated: Iterable[OutdatedRing], marked: Iterable[tuple[str, str]]
) -> None:
    """Mark the rings that stay, then delete the outdated rings, the oldest first."""
    for path, instant in marked:
        put_ring_marker(store, path, instant)
    for ring in outdated:
        delete_ring_markers(store, ring.partition_path, ring.instant)
        delete_ring(store, ring.partition_path, ring.instant)


def mark_rings_of(state: TableState, instants: Iterable[Instant]) -> None:
    """Mark the rings of completed resizes as committed, before the instants are archived."""
    times = {i.requested_time for i in instants if i.action == "replacecommit"}
    for commit in state.commits:
        if commit.requested_time not in times:
            continue
        for path in sorted({path for path, _ in commit.replaced}):
            names = [file.name for file in list_hashing_files(state.store, path).metadata]
            if commit.requested_time in map(parse_hashing_metadata_name, names):
                put_ring_marker(state.store, path, commit.requested_time)


def _ringed_partitions(store: Store) -> Iterator[str]:
    """Yield the partition paths for which there are hashing metadata."""
    found: set[str] = set()
    for root in HASHING_METADATA_FOLDERS:
        folder = hashing_metadata_folder(root, "")
        folders = [folder]
        while folders:
            entries = list(store.list(folders.pop()))
            folders += [entry.path for entry in entries if entry.is_dir]
            found.update(
                entry.path.removeprefix(folder).strip("/").rpartition("/")[0]
                for entry in entries
                if not entry.is_dir and is_hashing_metadata_name(entry.name)
            )
    yield from sorted(found)
