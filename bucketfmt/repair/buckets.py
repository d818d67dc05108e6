"""Moves rows that are in a wrong file group to the file groups of their buckets.

I/O. One replacecommit hides the file groups concerned and shows one for each of their buckets, as a
change of buckets does (`resize.rewrite`), while others read and write. Decision 46.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np

from bucketfmt.choices import Codec
from bucketfmt.errors import BucketfmtError, CorruptError, IndexUnknownError, UnsupportedError
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    decode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.keys.record_keys import dialect_for_table_version
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.index.infer import Evidence, find_fitting_hash_fields
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import BucketIndex, StoredBuckets, as_bucket_index
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.hashing_files import (
    list_hashing_files,
    load_hashing_metadata,
    mark_new_rings,
    put_ring,
    read_hashing_file,
)
from bucketfmt.location.sample_keys import load_key_sample
from bucketfmt.progress import ProgressCallback
from bucketfmt.repair.plan_buckets import (
    BucketRepair,
    HeldBuckets,
    plan_bucket_repairs,
    renew_nodes,
)
from bucketfmt.resize.bucket_service import BucketService, choose_partitions
from bucketfmt.resize.migration.settle_keys import KeySettling
from bucketfmt.resize.numbered.rehash import slices_to_divide
from bucketfmt.resize.plan_rewrite import RewriteStep, check_new_number, rescale_operation
from bucketfmt.resize.rewrite import (
    RewritePlan,
    StartedRewrite,
    check_nothing_pending,
    run_until_not_overtaken,
)
from bucketfmt.slices.merged_keys import merged_keys
from bucketfmt.slices.slice_codec import encode_slice
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import map_in_threads, reader_count, waiting_count
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.rows.basis import Basis

__all__ = ["BucketRepairer", "Repair"]


@dataclass(frozen=True, slots=True)
class Repair:
    """What is to be repaired, and how.

    Attributes:
        partitions: Only these partition paths; None for all.
        keeps_latest: Whether of several rows with one key the latest stays; otherwise such rows are
            refused.
    """

    partitions: Sequence[str] | None = None
    keeps_latest: bool = False


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A partition with rows in wrong file groups.

    Attributes:
        layout: Its buckets.
        ring: The ring of these buckets; None where they are numbered.
        repairs: Which file groups are rewritten together.
    """

    layout: BucketLayout
    ring: HashingMetadata | None
    repairs: Sequence[tuple[BucketRepair, RewriteStep]]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a file slice: their buckets, and what they say of the number of buckets."""

    buckets: tuple[int, ...]
    evidence: Evidence


class BucketRepairer(BucketService):
    """Moves rows of one table to the buckets of their keys."""

    def __init__(
        self, snapshot: Callable[[], Snapshot], finder: IndexFinder, transactions: Transactions
    ) -> None:
        """Set up. As `BucketService`."""
        super().__init__(snapshot, finder, transactions)
        # Of slices as they were read last: what others leave alone is read once.
        self._kept: dict[tuple[BucketLayout, bytes], _Keys] = {}
        self._rings: list[HashingMetadata] = []  # as they were planned last

    def preview(self, repair: Repair) -> list[BucketRepair]:
        """Return what `run` would do now. Reads only; raises the errors of its planning."""
        found = self._planned(lambda basis: self._find(basis, repair))
        return [each for partition in found for each, _ in partition.repairs]

    def run(
        self,
        repair: Repair,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Move the rows, as one commit; None if every row is in place.

        Raises:
            UnsupportedError: the table has no buckets, or those of a directory, or buckets that
                grow by file groups; or keys have several rows, and the latest is not to be kept.
            IndexUnknownError: the index is unknown; or all keys are in the buckets of another
                number, or of other hash fields, than those that are stated.
            ConflictError: a compaction or a clustering is pending, or others write faster than rows
                can be moved. Nothing was published.
            CorruptError: a file is missing or damaged.
            ValueError: the table has no such partition.
            LockTimeoutError: the table lock could not be acquired.
        """
        return run_until_not_overtaken(
            partial(self._start, repair, codec),
            lambda started: started.run_in_threads("moving rows", progress),
        )

    def _start(self, repair: Repair, codec: Codec | None) -> StartedRewrite | None:
        self._planned(_find_index)  # a table that is refused waits for nothing
        self._await_compactions()
        if not self._planned(lambda basis: self._find(basis, repair)):
            return None
        plan = partial(self._plan, repair)
        return self._begin(plan, codec, after_publish=self._mark_rings)

    def _plan(self, repair: Repair, instant: str, basis: Basis) -> RewritePlan:
        config = basis.snapshot.state.config
        settling = KeySettling(config, None, renames=False, keeps_latest=repair.keeps_latest)
        steps: list[RewriteStep] = []
        self._rings = []
        for damaged in self._find(basis, repair):
            own = [step for _, step in damaged.repairs]
            if damaged.ring is not None:
                hid = partial(basis.snapshot.is_replaced, damaged.ring.partition_path)
                ring, own = renew_nodes(damaged.ring, damaged.layout, own, instant, hid)
                self._rings.append(ring)
            steps += own
        operation = rescale_operation(config.table_version)
        put = partial(_put_rings, list(self._rings)) if self._rings else None
        return RewritePlan(basis, steps, operation, settling=settling, put_index=put)

    def _mark_rings(self) -> None:
        if self._rings:
            version = self._snapshot().state.config.table_version
            paths = [ring.partition_path for ring in self._rings]
            mark_new_rings(self._owner.store, paths, self._rings[0].instant, version)

    def _find(self, basis: Basis, repair: Repair) -> list[_Damaged]:
        """Return the partitions with rows in wrong file groups.

        Raises:
            BucketfmtError, ValueError: as `run`.
        """
        snapshot, index = basis.snapshot, _find_index(basis)
        check_nothing_pending(snapshot.state)
        paths = choose_partitions(snapshot, repair.partitions)
        load = partial(_load_ring, snapshot.state, index)
        workers = waiting_count(snapshot.state.store) if index.has_rings else 1
        rings = dict(zip(paths, map_in_threads(load, paths, workers), strict=True))
        layouts = {path: _layout_of(snapshot.state, index, path, rings[path]) for path in paths}
        slices = slices_to_divide(snapshot, tuple(paths))
        keys = self._read_keys(snapshot, layouts, slices)
        held: dict[str, list[HeldBuckets]] = {path: [] for path in paths}
        for file_slice, own in zip(slices, keys, strict=True):
            held[file_slice.partition_path].append(HeldBuckets(file_slice, own.buckets))
        found = []
        for path in paths:
            if repairs := list(plan_bucket_repairs(path, layouts[path], held[path])):
                found.append(_Damaged(layouts[path], rings[path], repairs))
        if found and repair.partitions is None:
            if index.number_of_all is not None:
                _check_number(index.number_of_all, sum((own.evidence for own in keys), Evidence()))
            _check_hash_fields(snapshot, layouts, slices)
        return found

    def _read_keys(
        self, snapshot: Snapshot, layouts: dict[str, BucketLayout], slices: Sequence[FileSlice]
    ) -> list[_Keys]:
        """Return what the keys of each slice tell."""
        kept, store = self._kept, snapshot.state.store
        names = [(layouts[own.partition_path], encode_slice(own)) for own in slices]
        left = [at for at, name in enumerate(names) if name not in kept]

        def read(at: int) -> _Keys:
            return _read_slice(snapshot, names[at][0], slices[at])

        workers = reader_count(store, [slices[at].size for at in left])
        new = dict(zip(left, map_in_threads(read, left, workers), strict=True))
        found = [new[at] if at in new else kept[name] for at, name in enumerate(names)]
        self._kept = dict(zip(names, found, strict=True))
        return found


def _read_slice(snapshot: Snapshot, layout: BucketLayout, file_slice: FileSlice) -> _Keys:
    named = find_bucket_id(file_slice.file_id)
    buckets: set[int] = set()
    evidence = Evidence()
    try:
        for keys in merged_keys(snapshot, file_slice):
            hashes = layout.hash_keys(keys)
            buckets.update(np.unique(layout.buckets_of_hashes(hashes)).tolist())
            if named is not None:
                evidence += Evidence.of(hashes, np.full(len(hashes), named))
    except BucketfmtError as error:
        raise error.within(partition=file_slice.partition_path) from None
    return _Keys(tuple(sorted(buckets)), evidence)


def _find_index(basis: Basis) -> BucketIndex:
    """Return the index of a table that can be repaired.

    Raises:
        UnsupportedError: it has no buckets, or those of a directory, or they grow by file groups.
    """
    index = as_bucket_index(basis.index)
    if index is None or index.has_directories or index.group_bytes is not None:
        raise UnsupportedError(
            f"to move rows to their buckets in a table with {basis.index.text}; that is for a "
            "bucket index whose buckets are numbered, or on a ring, and have one file group each"
        )
    return index


def _load_ring(state: TableState, index: BucketIndex, path: str) -> HashingMetadata | None:
    """Return the ring in force, or the first one where it is lost; None for numbered buckets."""
    if not index.has_rings:
        return None
    with suppress(CorruptError):
        found = load_hashing_metadata(state, path)
        if found is not None:
            return found
    first = initial_hashing_metadata(path, index.num_buckets_of(path, state.limits))
    return msgspec.structs.replace(first, seq_no=_last_seq_no(state, path))


def _last_seq_no(state: TableState, path: str) -> int:
    """Return the greatest sequence number of the rings of a partition that can be read, or 0."""
    found = [0]
    for file in list_hashing_files(state.store, path).metadata:
        with suppress(CorruptError):
            data = read_hashing_file(state, file)
            found.append(decode_hashing_metadata(data, state.limits).seq_no)
    return max(found)


def _put_rings(rings: Sequence[HashingMetadata], store: Store) -> None:
    for ring in rings:
        put_ring(store, ring)


def _layout_of(
    state: TableState, index: BucketIndex, path: str, ring: HashingMetadata | None
) -> BucketLayout:
    config, limits = state.config, state.limits
    check_new_number(path, index.num_buckets_of(path, limits))
    dialect = dialect_for_table_version(config.table_version)
    stored = StoredBuckets(ring=None if ring is None else ring.nodes)
    return index.unproved_layout(path, config.record_key_fields, dialect, limits, stored)


def _check_number(stated: int, evidence: Evidence) -> None:
    """Refuse where each key is in its bucket by another number: the number is wrong, not the rows.

    Raises:
        IndexUnknownError: the number that is stated.
    """
    proved = evidence.divisor
    if proved != stated and evidence.proves(proved) and not evidence.is_scant:
        raise IndexUnknownError(
            f"{stated} buckets are stated, and every key is where {proved} buckets have it: state "
            f"{proved} instead (in .hoodie/hoodie.properties, where that states {stated}), and "
            f"rehash({stated}) gives the table {stated}. If rows are to be "
            f"moved to {stated} buckets all the same, name the partitions (partitions=)"
        )


def _check_hash_fields(
    snapshot: Snapshot, layouts: Mapping[str, BucketLayout], slices: Sequence[FileSlice]
) -> None:
    """Refuse where sampled keys are in their buckets by other hash fields, as `_check_number`.

    Raises:
        IndexUnknownError: the hash fields.
    """
    fields = snapshot.state.config.record_key_fields
    if len(fields) == 1:
        return
    samples = load_key_sample(snapshot, slices).in_buckets(layouts.__getitem__)
    fitting = find_fitting_hash_fields(samples, fields)
    if samples and fitting and samples[0][0].hash_fields not in fitting:
        stated = ", ".join(samples[0][0].hash_fields)
        raise IndexUnknownError(
            f"hash fields {stated} are stated, and keys are where hash fields "
            f"{' (or '.join(map(', '.join, fitting))}{')' * (len(fitting) - 1)} have them: pass "
            f"index= with these, such as hash_fields={fitting[0]}. If rows are to be moved all the "
            "same, name the partitions (partitions=)"
        )
