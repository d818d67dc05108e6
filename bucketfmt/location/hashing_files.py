"""The consistent hashing ring in force of a partition.

I/O, read only: where Hudi's reader leaves a commit marker behind, this one decides anew.
Source: ConsistentBucketIndexUtils.loadMetadata.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    choose_hashing_metadata,
    decode_hashing_metadata,
)
from bucketfmt.format.names.names import (
    format_consistent_file_id,
    parse_hashing_marker_name,
    parse_hashing_metadata_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.snapshot.state import TableState

__all__ = [
    "HASHING_METADATA_FOLDERS",
    "find_initial_num_buckets",
    "has_hashing_metadata",
    "load_hashing_metadata",
]

HASHING_METADATA_FOLDERS = (
    ".hoodie/.bucket_index/consistent_hashing_metadata",
    ".hoodie/.hashing_meta",  # as RFC-42 has it
)
_RINGS_SAMPLED = 8
_METADATA, _MARKER = ".hashing_meta", ".commit"


def has_hashing_metadata(state: TableState) -> bool:
    """Return whether any partition has a ring."""
    return any(
        entry.is_dir or entry.name.endswith(_METADATA)
        for folder in HASHING_METADATA_FOLDERS
        for entry in state.store.list(folder)
    )


def find_initial_num_buckets(state: TableState) -> int | None:
    """Return how many buckets the rings of partitions began with: what most of a few say.

    Only files of partitions are read, up to eight, and those that are damaged do not count. None
    where there are none.
    """
    found: Counter[int] = Counter()
    folders = list(HASHING_METADATA_FOLDERS)
    while folders and found.total() < _RINGS_SAMPLED:
        entries = list(state.store.list(folders.pop(0)))
        paths = sorted(e.path for e in entries if not e.is_dir and e.name.endswith(_METADATA))
        for path in paths[:1]:
            with suppress(BucketfmtError):
                data = state.store.read(path, state.limits.hashing_metadata_bytes_max)
                found[decode_hashing_metadata(data, state.limits).num_buckets] += 1
        folders[:0] = [entry.path for entry in entries if entry.is_dir]
    return found.most_common(1)[0][0] if found else None


def load_hashing_metadata(state: TableState, partition_path: str) -> HashingMetadata | None:
    """Return the ring in force of a partition; None before its first write.

    Raises:
        CorruptError: the file does not decode, or a marker stands without its metadata.
    """
    for root in HASHING_METADATA_FOLDERS:
        folder = join_path(root, partition_path)
        names = [entry.name for entry in state.store.list(folder) if not entry.is_dir]
        if any(name.endswith(_METADATA) for name in names):
            return _PartitionRings(state, partition_path, folder, names).in_force()
    return None


class _PartitionRings:
    """The `.hashing_meta` files of one partition, each read at most once."""

    def __init__(
        self, state: TableState, partition_path: str, folder: str, names: list[str]
    ) -> None:
        self._state = state
        self._partition_path = partition_path
        self._paths = {
            parse_hashing_metadata_name(name): join_path(folder, name)
            for name in names
            if name.endswith(_METADATA)
        }
        # Hudi 0.15 leaves its markers among the data files.
        names = [*names, *state.other_files(partition_path)]
        self._markers = {parse_hashing_marker_name(n) for n in names if n.endswith(_MARKER)}
        self._loaded: dict[str, HashingMetadata] = {}

    def in_force(self) -> HashingMetadata | None:
        timeline = self._state.timeline
        try:
            chosen = choose_hashing_metadata(
                sorted(self._paths),
                self._markers,
                {i.requested_time for i in timeline.commits.completed.instants},
                {i.requested_time for i in timeline.pending.instants},
                self._has_base_file_of,
            )
        except BucketfmtError as error:
            raise error.within(partition=self._partition_path) from None
        return self._load(chosen) if chosen is not None else None

    def _load(self, instant: str) -> HashingMetadata:
        if instant not in self._loaded:
            path, limits = self._paths[instant], self._state.limits
            try:
                data = self._state.store.read(path, limits.hashing_metadata_bytes_max)
                self._loaded[instant] = decode_hashing_metadata(data, limits)
            except BucketfmtError as error:
                raise error.within(path=path, partition=self._partition_path) from None
        return self._loaded[instant]

    def _has_base_file_of(self, instant: str) -> bool:
        live = self._state.listed_files(self._partition_path)
        prefixes = (node.file_id_prefix for node in self._load(instant).nodes)
        return any(p is not None and format_consistent_file_id(p) in live for p in prefixes)
