"""Which index a table has, and how we know.

Hudi keeps the index settings out of hoodie.properties unless someone put them there, so
the answer comes with its source: the caller, the properties, files of the index, or keys.
Pure. Source: HoodieIndexConfig; PartitionBucketIndexHashingConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from bucketfmt.errors import CorruptError, IndexUnknownError, KeyEncodingError
from bucketfmt.format.buckets.index_settings import (
    EXTENDIBLE_HASHING,
    MULTIPLE_FILE_GROUPS,
    PARTITIONED_RECORD_INDEX,
    RECORD_INDEXES,
    VIRTUAL_LOG_HASHING,
    IndexSettings,
)
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import BloomIndex, BucketIndex, Index, RecordIndex, as_bucket_index
from bucketfmt.index.numbered_buckets import (
    MultiGroupBucketIndex,
    PartitionBucketIndex,
    SimpleBucketIndex,
)
from bucketfmt.index.stored_buckets import ConsistentHashingIndex, ExtendibleHashingIndex

__all__ = [
    "IndexSource",
    "ResolvedIndex",
    "check_hash_fields",
    "check_index_argument",
    "find_declared_index",
    "find_stray_file_group",
    "find_stray_key",
]

_NUM_BUCKETS_BY_DEFAULT = 256  # hoodie.bucket.index.num.buckets

IndexSource = Literal[
    "argument", "properties", "index files", "file ids and keys", "metadata table", "unknown"
]


@dataclass(frozen=True, slots=True)
class ResolvedIndex:
    """An index and the reason to believe in it.

    Attributes:
        index: None when nothing proves one: reads work, pruning is off, writes are refused.
        source: Where the answer came from.
        evidence: One sentence a person can check.
        lacks_hash_fields: The table states the index, but not which of its key fields are hashed.
        is_recorded: The table states all of the index, whoever else does. Keys are to prove any
            other index, partition by partition, before it is used.
        lacks_buckets: The table has file groups, and none of them is a bucket of any index.
    """

    index: Index | None
    source: IndexSource
    evidence: str
    lacks_hash_fields: bool = False
    is_recorded: bool = False
    lacks_buckets: bool = False

    @property
    def next_step(self) -> str:
        """What to do where the index is unknown: the end of an error message."""
        if self.lacks_buckets:
            return "lookup() finds the rows of keys, and migrate() gives the table a bucket index"
        if self.lacks_hash_fields:
            kind = type(self.index).__name__
            return f"pass index= with hash fields, such as index={kind}(16, hash_fields=('id',))"
        return "pass index=, such as index=SimpleBucketIndex(16)"

    @property
    def bucket_index(self) -> BucketIndex | None:
        """The index, if the index hashes keys to buckets."""
        return as_bucket_index(self.index)

    @property
    def is_declared(self) -> bool:
        """Whether somebody stated the index, so that pruning by it is sound once it is proved."""
        is_stated = self.source in ("argument", "properties", "index files")
        return self.index is not None and is_stated and not self.lacks_hash_fields

    def contradiction(self, what: str, partition_path: str) -> Exception:
        """Return the error for a partition that does not fit the index.

        Args:
            what: The file group or the key that does not fit, as a clause.
            partition_path: The partition.
        """
        if self.source == "argument":
            return ValueError(
                f"index={self.index} contradicts the table: {what} (partition "
                f"{partition_path!r}); pass the index the table was written with, or none"
            )
        return IndexUnknownError(
            f"{self.index} ({self.evidence}) does not hold here: {what}; pass the index= that "
            "this was written with, or read the table without a lookup by hash; check() tells more",
            partition=partition_path,
        )


def find_declared_index(
    settings: IndexSettings,
    rules: PartitionBucketRules | None,
    has_hashing_metadata: bool,
    initial_num_buckets: int | None = None,
) -> ResolvedIndex:
    """Return the index that properties and index files state; `unknown` if they do not.

    Args:
        settings: What hoodie.properties says.
        rules: The partition rules in force (`.hashing_config`), if the table has any.
        has_hashing_metadata: Whether the table has consistent hashing metadata.
        initial_num_buckets: How many buckets the rings of the partitions began with, which a new
            partition gets where `settings` do not say a number.

    Raises:
        CorruptError: the default of the rules is no number of buckets, or an extendible directory
            cannot begin with the number that is stated.
    """
    hash_fields = settings.hash_fields
    if rules is not None:
        try:
            index: Index = PartitionBucketIndex(
                rules.default_num_buckets, rules.expressions, hash_fields
            )
        except ValueError as error:
            raise CorruptError(f"hashing config of instant {rules.instant}: {error}") from None
        return ResolvedIndex(index, "index files", f"hashing config of instant {rules.instant}")
    has_virtual_logs = settings.engine == VIRTUAL_LOG_HASHING
    if has_virtual_logs or settings.engine == "CONSISTENT_HASHING" or has_hashing_metadata:
        num_buckets = settings.num_buckets or initial_num_buckets or _NUM_BUCKETS_BY_DEFAULT
        index = ConsistentHashingIndex(
            num_buckets,
            settings.min_num_buckets,
            settings.max_num_buckets,
            hash_fields,
            has_virtual_logs,
        )
        source: IndexSource = "index files" if has_hashing_metadata else "properties"
        found = "consistent hashing metadata" if has_hashing_metadata else "hoodie.properties"
        return ResolvedIndex(index, source, f"the table has {found}")
    if settings.engine == EXTENDIBLE_HASHING:
        if settings.num_buckets is None:
            why = "hoodie.properties state extendible hashing, and no number of buckets"
            return ResolvedIndex(None, "unknown", why)
        try:
            index = ExtendibleHashingIndex(settings.num_buckets, hash_fields)
        except ValueError as error:
            raise CorruptError(f"hoodie.properties: {error}") from None
        return ResolvedIndex(index, "properties", "hoodie.properties states it")
    if settings.engine == MULTIPLE_FILE_GROUPS:
        if settings.num_buckets is None or settings.group_bytes is None:
            why = "hoodie.properties state buckets with several file groups, and not their size"
            return ResolvedIndex(None, "unknown", why)
        index = MultiGroupBucketIndex(settings.num_buckets, settings.group_bytes, hash_fields)
        return ResolvedIndex(index, "properties", "hoodie.properties states it")
    if settings.index_type == "BUCKET" and settings.num_buckets is not None:
        stated = f"hoodie.properties states {settings.num_buckets} buckets"
        if settings.partition_expressions:
            index = PartitionBucketIndex(
                settings.num_buckets, settings.partition_expressions, hash_fields
            )
            return ResolvedIndex(index, "properties", f"{stated} and partition rules")
        index = SimpleBucketIndex(settings.num_buckets, hash_fields)
        return ResolvedIndex(index, "properties", stated)
    if settings.index_type in RECORD_INDEXES:
        is_partitioned = settings.index_type == PARTITIONED_RECORD_INDEX
        index = RecordIndex(settings.update_partition_path, is_partitioned)
        return ResolvedIndex(index, "properties", "hoodie.properties states it")
    if settings.index_type in ("BLOOM", "GLOBAL_BLOOM"):
        return ResolvedIndex(BloomIndex(), "properties", "hoodie.properties states it")
    return ResolvedIndex(None, "unknown", "hoodie.properties does not state an index")


def check_index_argument(argument: Index, declared: ResolvedIndex) -> ResolvedIndex:
    """Return the caller's index, once it does not contradict what the table states.

    Hash fields that only the table states are taken from there.

    Raises:
        ValueError: the argument and the table disagree.
    """
    if not isinstance(argument, Index):
        raise TypeError(f"index= takes a value such as SimpleBucketIndex(16), not {argument!r}")
    if declared.is_declared and not (declared.index and argument.agrees_with(declared.index)):
        raise ValueError(
            f"index={argument} contradicts the table, which has {declared.index} "
            f"({declared.evidence}); leave index= out, or open the table it belongs to"
        )
    given, stated = as_bucket_index(argument), declared.bucket_index
    if given is not None and given.group_bytes is not None and stated is None:
        raise ValueError(
            f"index={argument} is for a table that was created with this index, and the table does "
            f"not state an index ({declared.evidence}); pass another index"
        )
    if given is not None and stated is not None:
        argument = given.with_hash_fields(given.hash_fields or stated.hash_fields)
    return ResolvedIndex(argument, "argument", "given by the caller, and proved where it is used")


def check_hash_fields(argument: Index, record_key_fields: Sequence[str]) -> None:
    """Refuse hash fields that are not among the table's key fields.

    Raises:
        ValueError: one is not.
    """
    given = as_bucket_index(argument)
    hash_fields = (given and given.hash_fields) or ()
    unknown = [field for field in hash_fields if field not in record_key_fields]
    if unknown:
        raise ValueError(
            f"{argument}: hash field {unknown[0]!r} is not among the table's record key fields, "
            f"{', '.join(record_key_fields) or 'of which it has none'}"
        )


def find_stray_file_group(layout: BucketLayout, file_ids: Iterable[str]) -> str | None:
    """Return, as a clause, a file group that is in none of a partition's buckets; None for none."""
    for file_id in file_ids:
        if layout.bucket_of(file_id) is None:
            return f"file group {file_id} is in no bucket of the index"
    return None


def find_stray_key(layout: BucketLayout, file_id: str, record_keys: pa.ChunkedArray) -> str | None:
    """Return, as a clause, a key that belongs into another file group; None where all fit.

    Keys of a file group that is in no bucket fit, since such a file group may hold any key.
    """
    own = list(layout.groups([file_id]))
    if not own:
        return None
    try:
        assigned = layout.assign(record_keys)
    except KeyEncodingError as error:
        return (
            f"a key in file group {file_id} has no hash by {', '.join(layout.hash_fields)} "
            f"({error.message})"
        )
    strays = np.flatnonzero(~np.isin(assigned, own))
    if not len(strays):
        return None
    key = record_keys[strays[0]]
    return f"it puts key {key} into bucket {assigned[strays[0]]}, and file group {file_id} has it"
