"""Finds a table's index: in the caller's argument, the properties, index files, or keys.

I/O: index files; and, where nothing states an index, the key column of a few base files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from bucketfmt.errors import BucketfmtError, IndexUnknownError
from bucketfmt.format.index_settings import IndexSettings
from bucketfmt.format.names import find_bucket_id, parse_hashing_config_name
from bucketfmt.format.partition_rules import (
    PartitionBucketRules,
    choose_hashing_config,
    decode_hashing_config,
)
from bucketfmt.format.record_keys import dialect_for_table_version
from bucketfmt.format.ring import initial_ring
from bucketfmt.format.table_config import TableConfig
from bucketfmt.index.assign import Buckets, FixedBuckets, RingBuckets
from bucketfmt.index.infer import infer_simple_index, largest_bucket_id
from bucketfmt.index.model import (
    ConsistentHashingIndex,
    Index,
    PartitionBucketIndex,
    SimpleBucketIndex,
)
from bucketfmt.index.resolve import ResolvedIndex, check_index_argument, find_declared_index
from bucketfmt.limits import Limits
from bucketfmt.rows.base_file import BaseFileReader
from bucketfmt.rows.meta_columns import RECORD_KEY
from bucketfmt.storage.store import Store
from bucketfmt.table.hashing_files import has_hashing_metadata, load_hashing_metadata
from bucketfmt.table.snapshot import Snapshot
from bucketfmt.table.state import TableState

__all__ = ["IndexFinder"]

_HASHING_CONFIG_FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
_FILES_SAMPLED = 8
_KEYS_SAMPLED = 2_000  # of each file


class IndexFinder:
    """Answers which index a table has, and which buckets a partition has by it."""

    def __init__(
        self, store: Store, config: TableConfig, limits: Limits, argument: Index | None
    ) -> None:
        self._store = store
        self._config = config
        self._limits = limits
        self._argument = argument
        self._lock = threading.Lock()
        self._declared: tuple[TableState, ResolvedIndex] | None = None
        self._inferred: ResolvedIndex | None = None
        self._dialect = dialect_for_table_version(config.table_version)

    def declared(self, snapshot: Snapshot) -> ResolvedIndex:
        """Return the index that somebody stated: it may prune. Reads index files only.

        Raises:
            ValueError: the caller's index contradicts the table's.
        """
        with self._lock:
            if self._declared is None or self._declared[0] is not snapshot.state:
                stated = find_declared_index(
                    IndexSettings.from_properties(self._config.properties),
                    self._load_rules(snapshot),
                    has_hashing_metadata(snapshot.state),
                )
                if self._argument is not None:
                    stated = check_index_argument(self._argument, stated)
                self._declared = snapshot.state, stated
            return self._declared[1]

    def resolve(self, snapshot: Snapshot) -> ResolvedIndex:
        """Return the stated index, or what the keys of a few base files prove."""
        declared = self.declared(snapshot)
        if declared.index is not None:
            return declared
        if self._inferred is None:
            inferred = self._infer(snapshot)
            with self._lock:
                self._inferred = inferred
        return self._inferred

    def buckets(
        self, snapshot: Snapshot, resolved: ResolvedIndex, partition_path: str
    ) -> Buckets | None:
        """Return the buckets of one partition; None when the index has none.

        Raises:
            IndexUnknownError: the index is unknown.
            CorruptError: the partition's hashing metadata is damaged.
        """
        index = resolved.index
        if index is None:
            raise IndexUnknownError(
                f"how keys map to file groups is unknown: {resolved.evidence}; pass index= "
                "(--index), for example SimpleBucketIndex(num_buckets)"
            )
        if isinstance(index, SimpleBucketIndex):
            return FixedBuckets(index.num_buckets, self._hash_fields(index), self._dialect)
        if isinstance(index, PartitionBucketIndex):
            rules = PartitionBucketRules(expressions=index.rules, default_num_buckets=index.default)
            num_buckets = rules.num_buckets_for(partition_path)
            return FixedBuckets(num_buckets, self._hash_fields(index), self._dialect)
        if isinstance(index, ConsistentHashingIndex):
            metadata = load_hashing_metadata(snapshot.state, partition_path)
            nodes = metadata.nodes if metadata else initial_ring(partition_path, index.num_buckets)
            return RingBuckets(tuple(nodes), self._hash_fields(index), self._dialect)
        return None

    def _hash_fields(
        self, index: SimpleBucketIndex | PartitionBucketIndex | ConsistentHashingIndex
    ) -> tuple[str, ...]:
        return index.hash_fields or self._config.record_key_fields

    def _load_rules(self, snapshot: Snapshot) -> PartitionBucketRules | None:
        instants = {}
        for entry in self._store.list(_HASHING_CONFIG_FOLDER):
            if entry.name.endswith(".hashing_config"):
                instants[parse_hashing_config_name(entry.name)] = entry.path
        pending = {i.requested_time for i in snapshot.state.timeline.pending.instants}
        chosen = choose_hashing_config(instants, pending)
        if chosen is None:
            return None
        path = instants[chosen]
        try:
            data = self._store.read(path, self._limits.hashing_metadata_bytes_max)
            return decode_hashing_config(data, self._limits)
        except BucketfmtError as error:
            raise error.within(path=path) from None

    def _infer(self, snapshot: Snapshot) -> ResolvedIndex:
        unknown = "nothing states an index, and "
        partitions = snapshot.partitions
        slices = snapshot.slices_of(partitions)
        largest = largest_bucket_id(file_slice.file_id for file_slice in slices)
        if largest is None:
            shaped = "there are no file groups" if not slices else "file ids hold no bucket ids"
            return ResolvedIndex(None, "unknown", unknown + shaped)
        fields = self._config.record_key_fields
        samples = list(self._sample(snapshot, partitions))
        index = infer_simple_index(samples, largest, fields, self._dialect) if fields else None
        count = sum(len(keys) for _, keys in samples)
        if index is None:
            return ResolvedIndex(
                None,
                "unknown",
                f"{unknown}{count} keys of {len(samples)} base files with bucket ids up to "
                f"{largest} do not prove a single number of buckets",
            )
        fields_text = ", ".join(index.hash_fields or fields)
        return ResolvedIndex(
            index,
            "file ids and keys",
            f"inferred: {index.num_buckets} buckets by {fields_text} is the only number that fits "
            f"{count} keys of {len(samples)} base files with bucket ids up to {largest}",
        )

    def _sample(
        self, snapshot: Snapshot, partitions: tuple[str, ...]
    ) -> Iterator[tuple[int, pa.Array]]:
        """Yield (bucket id, some record keys) of base files, spread over partitions and buckets."""
        with_base = [s for s in snapshot.slices_of(partitions) if s.base_file is not None]
        step = max(1, len(with_base) // _FILES_SAMPLED)
        for file_slice in with_base[::step][: _FILES_SAMPLED + 1]:
            bucket_id, file = find_bucket_id(file_slice.file_id), file_slice.base_file
            if bucket_id is None or file is None:
                continue
            file.check_whole()
            try:
                with self._store.open_arrow(file.path) as source:
                    reader = BaseFileReader(source, self._limits)
                    if RECORD_KEY not in reader.schema.names:
                        return
                    batch = next(reader.iter_batches([RECORD_KEY], batch_rows=_KEYS_SAMPLED), None)
            except BucketfmtError as error:
                raise error.within(path=file.path) from None
            if batch is not None:
                yield bucket_id, batch.column(0)
