"""Finds a table's index: in the caller's argument, the properties, index files, or keys.

I/O: index files; and, where nothing states an index, a sample of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bucketfmt.errors import IndexUnknownError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.keys.record_keys import dialect_for_table_version
from bucketfmt.format.names.layout import HASHING_METADATA_FOLDERS
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.infer import (
    LIKELY_BUCKETS,
    infer_hash_fields,
    infer_simple_index,
    largest_bucket_id,
)
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import BucketIndex, Index, RecordIndex
from bucketfmt.index.resolve import (
    ResolvedIndex,
    check_hash_fields,
    check_index_argument,
    find_declared_index,
)
from bucketfmt.limits import Limits
from bucketfmt.location.file_groups.key_facts import KeyFactsCache
from bucketfmt.location.hashing_files import has_hashing_metadata, load_initial_num_buckets
from bucketfmt.location.layouts import Layouts
from bucketfmt.location.records.record_locations import (
    RECORD_INDEX,
    RecordLocations,
)
from bucketfmt.location.rehashed_number import RehashedNumber, find_rehashed_number
from bucketfmt.location.rule_files import RuleFiles
from bucketfmt.location.sample_keys import load_key_sample
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store

__all__ = ["IndexFinder"]


class _Stating(NamedTuple):
    """What states the index at a moment: equal where it is the same."""

    files: RuleFiles
    rehashed: RehashedNumber | None
    rules_path: str | None


class IndexFinder:
    """Answers which index a table has, and which layout a partition has by the index.

    Attributes:
        argument: The index the caller gave, if any.
        key_facts: What base files say of their keys.
    """

    def __init__(
        self, store: Store, config: TableConfig, limits: Limits, argument: Index | None
    ) -> None:
        self._store = store
        self._config = config
        self._limits = limits
        self.argument = argument
        self._declared: tuple[_Stating, ResolvedIndex] | None = None
        self._rule_files: RuleFiles | None = None
        self._inferred: tuple[TableState, ResolvedIndex] | None = None
        self._layouts = Layouts(config, limits)
        self._record_locations: tuple[TableState, RecordLocations] | None = None
        self._initial_num_buckets: int | None = None
        self.key_facts = KeyFactsCache()
        self._dialect = dialect_for_table_version(config.table_version)
        if argument is not None:
            check_hash_fields(argument, config.record_key_fields)

    def forget_argument(self) -> None:
        """Go by what the table states from here on, since its buckets were changed."""
        self.argument = None
        self._declared = None

    def declared(self, snapshot: Snapshot) -> ResolvedIndex:
        """Return the index that somebody stated: it may prune. Reads index files only.

        Raises:
            ValueError: the caller's index contradicts the table's.
            IndexUnknownError: hoodie.properties contradicts itself, and the caller gave no index.
            UnsupportedError: the table states an index this release does not know.
            CorruptError: what states the index is damaged.
        """
        declared, stating = self._declared, self._find_stating(snapshot)
        if declared is None or declared[0] != stating:
            stated = self._load_stated(snapshot, stating)
            if self.argument is not None:
                given = check_index_argument(self.argument, stated)
                stated = replace(given, is_recorded=self._records(stated, given))
            elif self._leaves_hash_fields_open(stated):
                stated = replace(stated, lacks_hash_fields=True)
            else:
                stated = replace(stated, is_recorded=stated.index is not None)
            # One assignment: threads may race.
            declared = self._declared = stating, stated
        return declared[1]

    def _find_stating(self, snapshot: Snapshot) -> _Stating:
        state, files = snapshot.state, self._rule_files
        if files is None or files.state is not state:
            files = self._rule_files = RuleFiles(state)
        rehashed = find_rehashed_number(snapshot, state.config)
        return _Stating(files, rehashed, files.choose(snapshot))

    def _load_stated(self, snapshot: Snapshot, stating: _Stating) -> ResolvedIndex:
        state, config = snapshot.state, snapshot.state.config
        files, rehashed, path = stating
        try:
            settings = IndexSettings.from_properties(config.properties, self._limits)
        except IndexUnknownError:
            if self.argument is None:
                raise
            return ResolvedIndex(None, "unknown", "hoodie.properties contradicts itself")
        if rehashed is not None:
            settings = replace(settings, num_buckets=rehashed.number)
        rules = None if path is None else files.load(path)
        is_before_rules = rules is None and files.has_any and not snapshot.is_newest
        if is_before_rules and settings.partition_expressions:  # of later rules, like the number
            settings = replace(settings, num_buckets=None, partition_expressions=None)
        has_rings = any(map(state.may_have, HASHING_METADATA_FOLDERS)) and has_hashing_metadata(
            state
        )
        if has_rings and settings.num_buckets is None and self._initial_num_buckets is None:
            self._initial_num_buckets = load_initial_num_buckets(state)
        return find_declared_index(settings, rules, has_rings, self._initial_num_buckets)

    def _leaves_hash_fields_open(self, stated: ResolvedIndex) -> bool:
        """Whether index files state the index: they do not say which key fields are hashed."""
        return (
            stated.source == "index files"
            and stated.bucket_index is not None
            and stated.bucket_index.hash_fields is None
            and len(self._config.record_key_fields) > 1
        )

    def _records(self, stated: ResolvedIndex, given: ResolvedIndex) -> bool:
        """Whether the table states all of the caller's index."""
        if not stated.is_declared or self._leaves_hash_fields_open(stated):
            return False
        if given.bucket_index is not None and stated.bucket_index is not None:
            return self._hash_fields(given.bucket_index) == self._hash_fields(stated.bucket_index)
        return True

    def resolve(self, snapshot: Snapshot) -> ResolvedIndex:
        """Return the stated index, or what the keys of a few file groups prove.

        Which partitions the index holds for is for `layout` to tell.
        """
        declared = self.declared(snapshot)
        if declared.is_declared:
            return declared
        inferred = self._inferred
        if inferred is None or inferred[0] is not snapshot.state:
            if declared.bucket_index is not None:
                found = self._infer_hash_fields(snapshot, declared, declared.bucket_index)
            else:
                found = self._infer(snapshot)
            inferred = snapshot.state, found
            self._inferred = inferred
        return inferred[1]

    def layout(self, snapshot: Snapshot, partition_path: str) -> BucketLayout:
        """Return the layout of a partition, which may be new, by an index proved for it.

        Nothing else returns proved layouts. See `Layouts.prove` for what is looked at. No data
        file is opened where the table records the index.

        Raises:
            IndexUnknownError: the index is unknown, has no buckets, or is not proved.
            ValueError: the caller's index contradicts the table.
            CorruptError: what states the index, or the partition's ring, is damaged.
        """
        resolved, index = self._resolve_buckets(snapshot)
        return self._layouts.prove(snapshot, resolved, index, partition_path)

    def layout_of_new(self, snapshot: Snapshot) -> Callable[[str], BucketLayout]:
        """Return a function that pickles and returns the layout of a new partition, without I/O.

        A new partition has no file group that a wrong layout could name.

        Raises:
            IndexUnknownError: as `layout`, but that nothing is proved.
            ValueError: as `layout`.
        """
        return self._layouts.of_new(self._resolve_buckets(snapshot)[1])

    def _resolve_buckets(self, snapshot: Snapshot) -> tuple[ResolvedIndex, BucketIndex]:
        resolved = self.resolve(snapshot)
        if resolved.index is None:
            raise IndexUnknownError(
                f"how keys map to file groups is unknown: {resolved.evidence}; {resolved.next_step}"
            )
        index = resolved.bucket_index
        if resolved.index.keeps_locations:
            self.records(snapshot)
        if index is None:
            raise IndexUnknownError(
                f"{resolved.index} does not tell a file group from a key; lookup() finds the rows "
                "of keys, and scan() those of the table"
            )
        return resolved, index

    def records(self, snapshot: Snapshot) -> RecordLocations:
        """Return the record index of the table, as `RecordLocations`. Kept for a timeline.

        Raises:
            ValueError: the caller's index contradicts what the metadata table states.
        """
        found = self._record_locations
        if found is None or found[0] is not snapshot.state:
            found = self._record_locations = snapshot.state, RecordLocations(snapshot.state)
        if self.argument is not None:
            self.argument.check_kept(is_global=found[1].is_global)
        return found[1]

    def unproved_layout(self, snapshot: Snapshot, partition_path: str) -> BucketLayout | None:
        """Return the layout by the stated index, for display only: keys are not compared.

        None where nothing states an index, or the index has no buckets.

        Raises:
            ValueError: the caller's index contradicts what the table states.
            CorruptError: as `layout`.
        """
        index = self.declared(snapshot).bucket_index
        return None if index is None else self._layouts.unproved(snapshot, index, partition_path)

    def _hash_fields(self, index: BucketIndex) -> tuple[str, ...]:
        return index.hash_fields or self._config.record_key_fields

    def _infer(self, snapshot: Snapshot) -> ResolvedIndex:
        config = snapshot.state.config
        has_records = RECORD_INDEX in (
            *config.metadata_partitions,
            *config.metadata_partitions_unfinished,
        )
        if has_records and (unnumbered := _find_unnumbered(snapshot)) is not None:
            return _by_records(f"file ids such as {unnumbered} hold no bucket ids")
        unknown = "nothing states an index, and "
        slices = snapshot.slices_of(snapshot.partitions)
        largest = largest_bucket_id(file_slice.file_id for file_slice in slices)
        if largest is None and (foreign := _find_foreign(slices)) is not None:
            mixed = f"file ids such as {foreign} hold no bucket ids, which others do"
            return ResolvedIndex(None, "unknown", unknown + mixed)
        if largest is None:
            shaped = "there are no file groups" if not slices else "file ids hold no bucket ids"
            return ResolvedIndex(None, "unknown", unknown + shaped, lacks_buckets=bool(slices))
        fields = self._config.record_key_fields
        sample = load_key_sample(snapshot, slices)
        found = [
            (bucket_id, keys)
            for file_slice, keys in sample.found
            if (bucket_id := find_bucket_id(file_slice.file_id)) is not None
        ]
        index = infer_simple_index(found, largest, fields, self._dialect)
        seen = (
            f"{sample.num_keys} keys of {len(sample.found)} file groups "
            f"with bucket ids up to {largest}"
        )
        if index is None and largest >= LIKELY_BUCKETS:
            by_chance = f"file ids begin with digits, which {seen} do not prove to be bucket ids"
            if has_records:
                return _by_records(by_chance)
            return ResolvedIndex(None, "unknown", unknown + by_chance, lacks_buckets=True)
        if index is None:
            damage = f" ({sample.unreadable})" if sample.unreadable else ""
            return ResolvedIndex(
                None, "unknown", f"{unknown}{seen} do not prove a single number of buckets{damage}"
            )
        fields_text = ", ".join(index.hash_fields or fields)
        return ResolvedIndex(
            index,
            "file ids and keys",
            f"inferred: {index.num_buckets} buckets by {fields_text} is the only number that "
            f"fits {seen}",
        )

    def _infer_hash_fields(
        self, snapshot: Snapshot, declared: ResolvedIndex, index: BucketIndex
    ) -> ResolvedIndex:
        fields = self._config.record_key_fields
        sample = load_key_sample(snapshot, snapshot.slices_of(snapshot.partitions))
        found = sample.in_buckets(partial(self._layouts.unproved, snapshot, index))
        hash_fields = infer_hash_fields(found, fields)
        seen = f"{sample.num_keys} keys of {len(sample.found)} file groups"
        if hash_fields is None:
            damage = f" ({sample.unreadable})" if sample.unreadable else ""
            return ResolvedIndex(
                None,
                "unknown",
                f"{declared.evidence}, which does not say by which of {', '.join(fields)} keys are "
                f"hashed, and {seen} do not prove it{damage}",
            )
        return ResolvedIndex(
            index.with_hash_fields(hash_fields),
            "file ids and keys",
            f"{declared.evidence}; inferred: hashed by {', '.join(hash_fields)}, which alone fits "
            f"{seen}",
        )


def _by_records(shaped: str) -> ResolvedIndex:
    evidence = f"inferred: the metadata table has a record index, and {shaped}"
    return ResolvedIndex(RecordIndex(), "metadata table", evidence)


def _find_unnumbered(snapshot: Snapshot) -> str | None:
    """Return a file group that is in no bucket; None where all may be, or there are none.

    In a table with a bucket index each file group is in a bucket, whatever else the table has.
    """
    for path in snapshot.partitions:
        for file_id in sorted(snapshot.file_ids(path)):
            if find_bucket_id(file_id) is None:
                return file_id
    return None


def _find_foreign(slices: Sequence[FileSlice]) -> str | None:
    """Return a file id without bucket id among such that have one; None where none has."""
    buckets = {each.file_id: find_bucket_id(each.file_id) for each in slices}
    if not any(bucket is not None and bucket < LIKELY_BUCKETS for bucket in buckets.values()):
        return None
    return next((file_id for file_id, bucket in buckets.items() if bucket is None), None)
