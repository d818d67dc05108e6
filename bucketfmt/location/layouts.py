"""Makes the layouts of partitions: the only place that does, and each is proved here once.

I/O: loads rings; and samples keys, where the table itself does not record the index.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from bucketfmt.errors import IndexUnknownError
from bucketfmt.format.keys.hashing_kernels import java_list_hashes
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import dialect_for_table_version
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.infer import KEYS_MIN, Evidence
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import BucketIndex, Index, StoredBuckets
from bucketfmt.index.resolve import ResolvedIndex, find_stray_file_group, find_stray_key
from bucketfmt.limits import Limits
from bucketfmt.location.directory_files import load_directory
from bucketfmt.location.hashing_files import has_hashing_metadata, load_hashing_metadata
from bucketfmt.location.sample_keys import KeySample, load_key_sample
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["Layouts"]

_LayoutOf = Callable[[str], BucketLayout]
"""Returns the layout that a partition has by an index which is yet to be proved, and keeps it."""


@dataclass(frozen=True)
class _Verdict:
    """That an index holds for a partition.

    Attributes:
        file_ids: The file groups that were looked at.
        snapshot: The only snapshot that the verdict is good for, since the partition's own keys
            do not prove as much; None for any snapshot that has some of these file groups.
    """

    file_ids: frozenset[str]
    snapshot: weakref.ref[Snapshot] | None = None

    def covers(self, snapshot: Snapshot, file_ids: frozenset[str]) -> bool:
        if self.snapshot is not None:
            return self.snapshot() is snapshot
        return bool(file_ids) and file_ids <= self.file_ids


@dataclass(frozen=True)
class _TableEvidence:
    """What keys of the whole table say, by the number of buckets of their partitions."""

    by_num_buckets: dict[int, Evidence]
    sample: KeySample

    def is_all_there_is(self, evidence: Evidence) -> bool:
        """Whether the table has no more evidence, be it scant, for a partition's buckets."""
        if not evidence.num_keys and self.sample.num_keys:
            return False  # all keys are in partitions that have other numbers of buckets
        return self.sample.is_of_all or evidence.num_keys >= KEYS_MIN


class Layouts:
    """The layouts of the partitions of one table. Safe to use from several threads."""

    def __init__(self, config: TableConfig, limits: Limits) -> None:
        self._config = config
        self._limits = limits
        self._dialect = dialect_for_table_version(config.table_version)
        self._verdicts: dict[tuple[Index | None, str], _Verdict] = {}
        self._of_table: tuple[weakref.ref[Snapshot], Index | None, _TableEvidence] | None = None

    def unproved(self, snapshot: Snapshot, index: BucketIndex, partition_path: str) -> BucketLayout:
        """Return the layout that a partition has if the index is right: for display.

        Raises:
            CorruptError: what states the index, or the partition's ring, is damaged.
        """
        ring = load_hashing_metadata(snapshot.state, partition_path) if index.has_rings else None
        directory = load_directory(snapshot, partition_path) if index.has_directories else None
        return index.unproved_layout(
            partition_path,
            self._config.record_key_fields,
            self._dialect,
            self._limits,
            StoredBuckets(ring.nodes if ring else None, directory.buckets if directory else None),
        )

    def of_new(self, index: BucketIndex) -> Callable[[str], BucketLayout]:
        """Return a function that pickles and returns the layout that new partitions begin with."""
        return partial(
            index.unproved_layout,
            hash_fields=self._config.record_key_fields,
            dialect=self._dialect,
            limits=self._limits,
        )

    def prove(
        self,
        snapshot: Snapshot,
        resolved: ResolvedIndex,
        index: BucketIndex,
        partition_path: str,
    ) -> BucketLayout:
        """Return the layout of a partition, once nothing in the table contradicts the layout.

        Every file group of the partition has to be in one of a fixed number of buckets. That is
        all where the table records the index. Otherwise keys have to be in the buckets that the
        index puts them in: keys of nine file groups of the partition, or of those that are new
        since the partition was proved. Where these keys are too few to prove the number of
        buckets, or the partition is new, keys and file groups of the other partitions have to
        prove the number. A table that has too few keys altogether proves what fits all of them.

        Args:
            snapshot: The table.
            resolved: An index with buckets, and who says so.
            index: The index of `resolved`.
            partition_path: A partition, which may be new.

        Raises:
            ValueError: the index was given by the caller, and the table contradicts the index.
            IndexUnknownError: the table contradicts another index, or does not prove the index.
        """
        layout_of = cache(partial(self.unproved, snapshot, index))
        layout = layout_of(partition_path)
        if resolved.is_recorded and layout.number_to_prove is None:
            return layout
        file_ids = snapshot.file_ids(partition_path)
        key = (resolved.index, partition_path)
        known = self._verdicts.get(key)
        if known is not None and known.covers(snapshot, file_ids):
            return layout
        _check_file_ids(snapshot, resolved, partition_path, layout)
        verdict = _Verdict(file_ids, weakref.ref(snapshot))
        if not resolved.is_recorded:
            verdict = self._prove_by_keys(snapshot, resolved, partition_path, layout_of, known)
        self._verdicts[key] = verdict  # threads that race prove alike
        return layout

    def _prove_by_keys(
        self,
        snapshot: Snapshot,
        resolved: ResolvedIndex,
        partition_path: str,
        layout_of: _LayoutOf,
        known: _Verdict | None,
    ) -> _Verdict:
        layout, file_ids = layout_of(partition_path), snapshot.file_ids(partition_path)
        looked_at: frozenset[str] = frozenset()
        if known is not None and known.snapshot is None:
            looked_at = known.file_ids & file_ids
        slices = [s for s in snapshot.slices(partition_path) if s.file_id not in looked_at]
        sample = load_key_sample(snapshot, slices)
        _check_keys(resolved, sample, layout_of)
        lasting = _Verdict(file_ids)
        is_inferred = resolved.source == "file ids and keys"  # of keys of the whole table
        if looked_at or (layout.number_to_prove is None and sample.num_keys >= KEYS_MIN):
            return lasting
        if layout.number_to_prove is None:  # the table holds the layout, but for the hash fields
            self._table_evidence(snapshot, resolved, layout_of)
            return _Verdict(file_ids, weakref.ref(snapshot))
        own = _evidence(sample, layout)
        is_proved = is_inferred or own.proves(layout.number_to_prove)
        if is_proved or self._is_proved_by_table(
            snapshot, resolved, partition_path, own, layout_of
        ):
            return lasting
        return _Verdict(file_ids, weakref.ref(snapshot))

    def _is_proved_by_table(
        self,
        snapshot: Snapshot,
        resolved: ResolvedIndex,
        partition_path: str,
        own: Evidence,
        layout_of: _LayoutOf,
    ) -> bool:
        """Whether keys of all partitions prove the number of buckets of one of them.

        False where the table has too few keys for a proof, and the index fits all of them.

        Raises:
            ValueError: as `prove`.
            IndexUnknownError: as `prove`.
        """
        number = layout_of(partition_path).number_to_prove
        if number is None:
            return True
        found = self._table_evidence(snapshot, resolved, layout_of)
        evidence = own + found.by_num_buckets.get(number, Evidence())
        if evidence.proves(number):
            return True
        if evidence.is_scant and found.is_all_there_is(evidence):
            return False
        if evidence.is_scant:
            why = f"{evidence.num_keys} keys in partitions of so many buckets are too few"
            if found.sample.unreadable is not None:
                why += f", and file groups cannot be read ({found.sample.unreadable})"
        else:
            why = f"{evidence.num_keys} keys fit {evidence.divisor} buckets, and so any divisor"
        raise IndexUnknownError(
            f"{resolved.index} ({resolved.evidence}) is not proved: {why}. Had the table another "
            f"number of buckets than {number}, keys would be stored twice. Once you know that it "
            f"has {number}, state so in .hoodie/hoodie.properties: hoodie.index.type=BUCKET and "
            f"hoodie.bucket.index.num.buckets={number}",
            partition=partition_path,
        )

    def _table_evidence(
        self, snapshot: Snapshot, resolved: ResolvedIndex, layout_of: _LayoutOf
    ) -> _TableEvidence:
        """Return what keys of all partitions say, once no partition contradicts the index."""
        known = self._of_table
        if known is not None and known[0]() is snapshot and known[1] == resolved.index:
            return known[2]
        slices = snapshot.slices_of(snapshot.partitions)
        for path in snapshot.partitions:
            _check_file_ids(snapshot, resolved, path, layout_of(path))
        sample = load_key_sample(snapshot, slices)
        _check_keys(resolved, sample, layout_of)
        by_number: dict[int, Evidence] = defaultdict(Evidence)
        for file_slice, keys in sample.found:
            layout = layout_of(file_slice.partition_path)
            if layout.number_to_prove is not None:
                one = KeySample(((file_slice, keys),))
                by_number[layout.number_to_prove] += _evidence(one, layout)
        found = _TableEvidence(dict(by_number), sample)
        self._of_table = weakref.ref(snapshot), resolved.index, found
        return found


def _check_file_ids(
    snapshot: Snapshot, resolved: ResolvedIndex, partition_path: str, layout: BucketLayout
) -> None:
    if layout.number_to_prove is not None:
        # Not those that a change of the buckets writes, which is under way or has failed.
        found = snapshot.slices_where(partition_path, lambda id_: layout.bucket_of(id_) is None)
        stray = find_stray_file_group(layout, [file_slice.file_id for file_slice in found])
        if stray is not None:
            raise resolved.contradiction(stray, partition_path)
        return
    # File groups that left the ring in force may be there: they are looked into. But a ring is
    # written down before the first file group of a partition.
    if load_hashing_metadata(snapshot.state, partition_path) is not None:
        return
    paths = [partition_path] if has_hashing_metadata(snapshot.state) else snapshot.partitions
    for path in paths:
        if snapshot.file_ids(path):
            what = "there are file groups, and no consistent hashing metadata"
            raise resolved.contradiction(what, path)


def _check_keys(resolved: ResolvedIndex, sample: KeySample, layout_of: _LayoutOf) -> None:
    for file_slice, keys in sample.found:
        stray = find_stray_key(layout_of(file_slice.partition_path), file_slice.file_id, keys)
        if stray is not None:
            raise resolved.contradiction(stray, file_slice.partition_path)


def _evidence(sample: KeySample, layout: BucketLayout) -> Evidence:
    """Return the evidence of keys that are in the buckets which the index puts them in."""
    found = Evidence()
    for file_slice, keys in sample.found:
        hashes = java_list_hashes(hash_value_columns(keys, layout.hash_fields, layout.dialect))
        bucket_ids = np.full(len(keys), layout.bucket_of(file_slice.file_id) or 0)
        found += Evidence.of(hashes, bucket_ids)
    return found
