"""The index a check goes by, and how far it can be trusted. B005, T006.

I/O: `load_index_view` reads index files, `compare_with_keys` a sample of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.placement.buckets import is_bucket_shaped
from bucketfmt.check.placement.keys import hash_field_choices, is_misplaced
from bucketfmt.check.placement.lost_key_fields import lost_key_fields_finding, read_key_fields
from bucketfmt.check.placement.partition_rules import find_unusable_rules
from bucketfmt.check.report import Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError, CorruptError, IndexUnknownError, KeyEncodingError
from bucketfmt.format.keys.hashing_kernels import java_list_hashes
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import KeyDialect, dialect_for_table_version
from bucketfmt.format.names.layout import PROPERTIES
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.index.infer import infer_simple_index
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import BucketIndex, Index, StoredBuckets, as_bucket_index
from bucketfmt.index.numbered_buckets import SimpleBucketIndex
from bucketfmt.limits import Limits
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.sample_keys import KeySample, load_key_sample
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["IndexView", "compare_with_keys", "infer_buckets", "load_index_view"]

_IDS_MIN = 5  # that many random ids all begin with eight digits in one table out of 10^8


@dataclass(frozen=True)
class IndexView:
    """How keys map to file groups, as far as somebody stated it or keys prove it.

    Attributes:
        index: None where it is unknown.
        is_stated: Somebody stated it: the caller, the properties, or index files.
        has_buckets: Each file group is one numbered bucket, whatever their number is.
        is_contradicted: The keys prove another number of buckets (B005): keys need not be
            compared with the one stated.
        dialect: How the table's releases take keys apart.
        key_fields: Those that the table states, else those that its keys tell (`WHOLE_KEY`).
        hash_fields: What is hashed.
        lacks_hash_fields: Nothing says which of the key fields are hashed: keys have no bucket.
        inferred: Where nothing is stated, the number of buckets each partition's keys prove.
        limits: Bounds on rules.
    """

    index: Index | None
    is_stated: bool
    has_buckets: bool
    is_contradicted: bool
    dialect: KeyDialect
    key_fields: tuple[str, ...]
    hash_fields: tuple[str, ...]
    limits: Limits
    lacks_hash_fields: bool = False
    inferred: Mapping[str, SimpleBucketIndex] = field(default_factory=dict)

    @property
    def is_ring(self) -> bool:
        """Whether partitions have hashing rings."""
        index = as_bucket_index(self.index)
        return index is not None and index.has_rings

    @property
    def is_by_buckets(self) -> bool:
        """Whether keys are hashed to file groups, however many there are."""
        return self.has_buckets or as_bucket_index(self.index) is not None

    @property
    def has_directories(self) -> bool:
        """Whether partitions have extendible directories."""
        index = as_bucket_index(self.index)
        return index is not None and index.has_directories

    @property
    def has_stored_buckets(self) -> bool:
        """Whether the table holds the buckets of each partition in a file."""
        return self.is_ring or self.has_directories

    @property
    def has_several_groups(self) -> bool:
        """Whether buckets grow by file groups."""
        return self.index is not None and self.index.group_bytes is not None

    @property
    def has_rules(self) -> bool:
        """Whether a rule gives each partition its number of buckets."""
        index = as_bucket_index(self.index)
        return index is not None and index.hashing_config is not None

    def num_buckets(self, partition_path: str) -> int | None:
        """Return the number of buckets of a partition; None where it is unknown or no number."""
        index = self._index_of(partition_path)
        if index is None or not index.has_numbered_buckets:
            return None
        try:
            return index.num_buckets_of(partition_path, self.limits)
        except BucketfmtError:
            return None  # P001 tells

    def unproved_layout(self, partition_path: str, stored: StoredBuckets) -> BucketLayout | None:
        """Return the layout that keys of a partition are to be compared with.

        None where the layout is unknown, or contradicted already.

        Args:
            partition_path: The partition.
            stored: The nodes, or the directory, in force; only those that are sound.
        """
        index = self._index_of(partition_path)
        if index is None or self.is_contradicted or self.lacks_hash_fields:
            return None
        if index.has_rings and stored.ring is None:
            return None
        if index.has_directories and stored.directory is None:
            return None
        try:
            return index.unproved_layout(
                partition_path, self.hash_fields, self.dialect, self.limits, stored
            )
        except BucketfmtError:
            return None  # P001 tells

    def _index_of(self, partition_path: str) -> BucketIndex | None:
        return as_bucket_index(self.index) or self.inferred.get(partition_path)


def load_index_view(
    state: ExaminedState,
    snapshot: Snapshot,
    finder: IndexFinder,
    slices: Mapping[str, Sequence[FileSlice]],
    events: list[Event],
) -> IndexView:
    """Return the index somebody states, or that file ids are those of buckets.

    Args:
        state: The table.
        snapshot: Of that state.
        finder: Finds what is stated.
        slices: What readers see of each partition to be checked.
        events: Takes what is wrong with what is stated.

    Raises:
        ValueError: the caller's index contradicts the table's.
    """
    config = state.config
    index: Index | None = None
    lacks_hash_fields = False
    try:
        declared = finder.declared(snapshot)
        index, lacks_hash_fields = declared.index, declared.lacks_hash_fields
        stated = declared.bucket_index
        rules = stated.hashing_config if stated is not None else None
        if rules is not None and declared.source == "properties":
            events += find_unusable_rules(rules, PROPERTIES, [], list(slices))
    except CorruptError:
        pass  # T006 tells of properties, P001 of a hashing config
    except IndexUnknownError as error:
        events.append(Finding.of("B005", error.message, data_loss=False))
    except BucketfmtError as error:
        events.append(event_of_error(error, "B005", "the index"))
    by_buckets = as_bucket_index(index)
    has_buckets = by_buckets is not None and by_buckets.has_numbered_buckets
    if index is None:
        has_buckets = _are_buckets([s.file_id for own in slices.values() for s in own])
    hash_fields = by_buckets.hash_fields if by_buckets is not None else None
    return IndexView(
        index=index,
        is_stated=index is not None,
        has_buckets=has_buckets,
        is_contradicted=False,
        dialect=dialect_for_table_version(config.table_version),
        key_fields=config.record_key_fields,
        hash_fields=hash_fields or config.record_key_fields,
        limits=state.limits,
        lacks_hash_fields=lacks_hash_fields,
    )


def compare_with_keys(
    view: IndexView,
    snapshot: Snapshot,
    finder: IndexFinder,
    slices: Mapping[str, Sequence[FileSlice]],
    each_partition: bool,
    events: list[Event],
) -> IndexView:
    """Return the index as a sample of keys confirms, contradicts or proves it.

    Args:
        view: What is stated.
        snapshot: The table.
        finder: Finds out which fields are hashed, where nothing says it.
        slices: What readers see of each partition to be checked.
        each_partition: Where the table as a whole proves nothing, ask each partition.
        events: Takes what contradicts, and what remains unknown.
    """
    if not snapshot.state.config.record_key_fields and view.is_by_buckets:
        view = _read_key_fields(view, snapshot, slices, events)
        if not view.hash_fields or view.lacks_hash_fields:
            return view
    if view.lacks_hash_fields:
        return _infer_hash_fields(view, snapshot, finder, events)
    stated = as_bucket_index(view.index)
    if stated is not None and stated.number_of_all is not None:
        return _compare(view, snapshot, stated, stated.number_of_all, slices, events)
    if view.index is None and view.has_buckets:
        return _infer(view, snapshot, slices, each_partition, events)
    return view


def _infer_hash_fields(
    view: IndexView, snapshot: Snapshot, finder: IndexFinder, events: list[Event]
) -> IndexView:
    """Take the hash fields that keys prove, where index files state all but them."""
    resolved = finder.resolve(snapshot)
    proved = resolved.bucket_index
    hash_fields = proved.hash_fields if proved is not None else None
    if hash_fields is None:
        events.append(NotChecked("the bucket of each key", resolved.evidence, is_gap=False))
        return view
    what = "whether the hash fields are those meant"
    events.append(NotChecked(what, resolved.evidence, is_gap=False))
    return replace(view, hash_fields=hash_fields, lacks_hash_fields=False)


def _read_key_fields(
    view: IndexView,
    snapshot: Snapshot,
    slices: Mapping[str, Sequence[FileSlice]],
    events: list[Event],
) -> IndexView:
    """Take the key fields that keys tell, where the property is lost: T006 is told here."""
    sample = load_key_sample(
        snapshot, [file_slice for own in slices.values() for file_slice in own]
    )
    fields = read_key_fields(snapshot, sample)
    events.append(lost_key_fields_finding(snapshot, sample, fields))
    # Index files do not say which of several fields are hashed.
    is_open = view.has_stored_buckets and not view.hash_fields and len(fields) > 1
    if is_open or not (view.hash_fields or fields):
        why = "the fields of the keys are not stated, and keys do not tell what is hashed"
        events.append(NotChecked("the bucket of each key", why, is_gap=False))
    return replace(
        view,
        key_fields=fields,
        hash_fields=view.hash_fields or fields,
        lacks_hash_fields=view.lacks_hash_fields or is_open,
    )


def _are_buckets(file_ids: Sequence[str]) -> bool:
    small = sum(map(is_bucket_shaped, file_ids))
    if small * 2 >= len(file_ids):
        return small > 0
    return len(file_ids) >= _IDS_MIN and all(find_bucket_id(i) is not None for i in file_ids)


def infer_buckets(
    snapshot: Snapshot, slices: Sequence[FileSlice], view: IndexView
) -> tuple[SimpleBucketIndex | None, KeySample]:
    """Return the simple index that a sample of keys proves, or None, and the sample."""
    shaped = [s for s in slices if find_bucket_id(s.file_id) is not None]
    sample = load_key_sample(snapshot, shaped)
    found = [(find_bucket_id(s.file_id) or 0, keys) for s, keys in sample.found]
    return infer_simple_index(found, _largest(shaped), view.key_fields, view.dialect), sample


def _largest(slices: Sequence[FileSlice]) -> int:
    return max((find_bucket_id(s.file_id) or 0 for s in slices), default=0)


def _compare(
    view: IndexView,
    snapshot: Snapshot,
    stated: BucketIndex,
    num_buckets: int,
    slices: Mapping[str, Sequence[FileSlice]],
    events: list[Event],
) -> IndexView:
    """B005 where sampled keys are misplaced and prove another number of buckets."""
    everything = [file_slice for own in slices.values() for file_slice in own]
    inferred, sample = infer_buckets(snapshot, everything, view)
    if inferred is None or inferred.num_buckets == num_buckets:
        return view
    layout = stated.unproved_layout("", view.hash_fields, view.dialect)
    counts = [
        (s, int(is_misplaced(keys.combine_chunks(), layout, find_bucket_id(s.file_id)).sum()))
        for s, keys in sample.found
    ]
    misplaced = sum(count for _, count in counts)
    if not misplaced:
        return view
    events.append(
        Finding.of(
            "B005",
            f"{num_buckets} buckets are stated, but {inferred.num_buckets} is the only "
            f"number that fits {sample.num_keys} keys of {len(sample.found)} file groups with "
            f"bucket numbers up to {_largest(everything)}; {misplaced} of them are in another "
            f"bucket than with {num_buckets}",
            file_groups=[(s.partition_path, s.file_id) for s, count in counts if count],
        )
    )
    return replace(view, is_contradicted=True)


def _infer(
    view: IndexView,
    snapshot: Snapshot,
    slices: Mapping[str, Sequence[FileSlice]],
    each_partition: bool,
    events: list[Event],
) -> IndexView:
    """Take what keys prove of the table, else of each partition."""
    everything = [file_slice for own in slices.values() for file_slice in own]
    index, _ = infer_buckets(snapshot, everything, view)
    if index is not None:
        text = f"nothing states it; checked by what keys prove, {index.num_buckets} buckets by "
        text += ", ".join(index.hash_fields or view.hash_fields)
        events.append(NotChecked("whether the index is the one meant", text, is_gap=False))
        return replace(view, index=index, hash_fields=index.hash_fields or view.hash_fields)
    if not each_partition:
        return view
    inferred: dict[str, SimpleBucketIndex] = {}
    for partition_path, own in slices.items():
        index, sample = infer_buckets(snapshot, own, view)
        if index is not None:
            inferred[partition_path] = index
        elif sample.num_keys and not _fits_any(view, sample, _largest(own)):
            events.append(
                Finding.of(
                    "B005",
                    f"nothing states the number of buckets, and none fits {sample.num_keys} keys "
                    f"of {len(sample.found)} file groups with bucket numbers up to "
                    f"{_largest(own)}: it was changed between writes, or keys are misplaced",
                    partition=partition_path,
                    file_groups=[(s.partition_path, s.file_id) for s, _ in sample.found],
                    fix="Find out which writes used which number of buckets; pass index= to see "
                    "which keys are misplaced under one of them.",
                )
            )
        else:
            why = "too few keys to prove the number of buckets; they contradict no number"
            events.append(NotChecked(_place(partition_path), why, is_gap=False))
    return replace(view, inferred=inferred)


def _fits_any(view: IndexView, sample: KeySample, largest: int) -> bool:
    """Return whether some number of buckets fits all sampled keys, under some hash fields."""
    keys = pa.chunked_array([chunk for _, column in sample.found for chunk in column.chunks])
    buckets = np.concatenate(
        [np.full(len(column), find_bucket_id(s.file_id)) for s, column in sample.found]
    )
    for fields in hash_field_choices(view.hash_fields):
        try:
            hashes = java_list_hashes(hash_value_columns(keys, fields, view.dialect))
        except KeyEncodingError:
            continue
        differences = (hashes.astype(np.int64) & 0x7FFFFFFF) - buckets
        divisor = int(np.gcd.reduce(np.abs(differences)))
        if divisor == 0 or divisor > largest:
            return True
    return False


def _place(partition_path: str) -> str:
    return f"keys of partition {partition_path!r}" if partition_path else "keys"
