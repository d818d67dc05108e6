"""Which index a table has, and how we know.

Hudi keeps the index settings out of hoodie.properties unless someone put them there, so
the answer comes with its source: the caller, the properties, files of the index, or keys.
Pure. Source: HoodieIndexConfig; PartitionBucketIndexHashingConfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from bucketfmt.errors import CorruptError, IndexUnknownError, KeyEncodingError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.index.assign import Buckets
from bucketfmt.index.model import (
    BloomIndex,
    BucketIndex,
    ConsistentHashingIndex,
    Index,
    PartitionBucketIndex,
    RecordIndex,
    SimpleBucketIndex,
)

__all__ = [
    "IndexSource",
    "ResolvedIndex",
    "check_hash_fields",
    "check_index_argument",
    "find_declared_index",
    "find_stray_file_group",
    "find_stray_key",
    "plan_index_properties",
]

_NUM_BUCKETS_BY_DEFAULT = 256  # hoodie.bucket.index.num.buckets

IndexSource = Literal["argument", "properties", "index files", "file ids and keys", "unknown"]


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
    """

    index: Index | None
    source: IndexSource
    evidence: str
    lacks_hash_fields: bool = False
    is_recorded: bool = False

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
            "this was written with, or read the table without a lookup by hash; bucketfmt check "
            "tells more",
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
        CorruptError: the default of the rules is no number of buckets.
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
    if settings.engine == "CONSISTENT_HASHING" or has_hashing_metadata:
        num_buckets = settings.num_buckets or initial_num_buckets or _NUM_BUCKETS_BY_DEFAULT
        index = ConsistentHashingIndex(
            num_buckets, settings.min_num_buckets, settings.max_num_buckets, hash_fields
        )
        source: IndexSource = "index files" if has_hashing_metadata else "properties"
        found = "consistent hashing metadata" if has_hashing_metadata else "hoodie.properties"
        return ResolvedIndex(index, source, f"the table has {found}")
    if settings.index_type == "BUCKET" and settings.num_buckets is not None:
        stated = f"hoodie.properties states {settings.num_buckets} buckets"
        if settings.partition_expressions:
            index = PartitionBucketIndex(
                settings.num_buckets, settings.partition_expressions, hash_fields
            )
            return ResolvedIndex(index, "properties", f"{stated} and partition rules")
        index = SimpleBucketIndex(settings.num_buckets, hash_fields)
        return ResolvedIndex(index, "properties", stated)
    if settings.index_type in ("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"):
        return ResolvedIndex(RecordIndex(), "properties", "hoodie.properties states it")
    if settings.index_type in ("BLOOM", "GLOBAL_BLOOM"):
        return ResolvedIndex(BloomIndex(), "properties", "hoodie.properties states it")
    return ResolvedIndex(None, "unknown", "hoodie.properties does not state an index")


def plan_index_properties(index: BucketIndex, record_key_fields: Sequence[str]) -> dict[str, str]:
    """Return how hoodie.properties states an index: what `find_declared_index` reads."""
    found = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.hash.field": ",".join(index.hash_fields or record_key_fields),
    }
    if isinstance(index, PartitionBucketIndex):
        found["hoodie.bucket.index.num.buckets"] = str(index.default)
        found["hoodie.bucket.index.partition.expressions"] = index.rules
        found["hoodie.bucket.index.partition.rule.type"] = "regex"
        return found
    found["hoodie.bucket.index.num.buckets"] = str(index.num_buckets)
    if isinstance(index, ConsistentHashingIndex):
        found["hoodie.index.bucket.engine"] = "CONSISTENT_HASHING"
        if index.min_buckets is not None:
            found["hoodie.bucket.index.min.num.buckets"] = str(index.min_buckets)
        if index.max_buckets is not None:
            found["hoodie.bucket.index.max.num.buckets"] = str(index.max_buckets)
    return found


def check_index_argument(argument: Index, declared: ResolvedIndex) -> ResolvedIndex:
    """Return the caller's index, once it does not contradict what the table states.

    Hash fields that only the table states are taken from there.

    Raises:
        ValueError: the argument and the table disagree.
    """
    if not isinstance(argument, Index):
        raise TypeError(f"index= takes a value such as SimpleBucketIndex(16), not {argument!r}")
    if declared.is_declared and not _agree(argument, declared.index):
        raise ValueError(
            f"index={argument} contradicts the table, which has {declared.index} "
            f"({declared.evidence}); leave index= out, or open the table it belongs to"
        )
    if isinstance(argument, BucketIndex) and isinstance(declared.index, BucketIndex):
        argument = replace(argument, hash_fields=argument.hash_fields or declared.index.hash_fields)
    return ResolvedIndex(argument, "argument", "given by the caller")


def check_hash_fields(argument: BucketIndex, record_key_fields: Sequence[str]) -> None:
    """Refuse hash fields that are not among the table's key fields.

    Raises:
        ValueError: one is not.
    """
    unknown = [field for field in argument.hash_fields or () if field not in record_key_fields]
    if unknown:
        raise ValueError(
            f"{argument}: hash field {unknown[0]!r} is not among the table's record key fields, "
            f"{', '.join(record_key_fields) or 'of which it has none'}"
        )


def find_stray_file_group(buckets: Buckets, file_ids: Iterable[str]) -> str | None:
    """Return, as a clause, a file group that is in none of a partition's buckets; None for none."""
    for file_id in file_ids:
        if buckets.bucket_of(file_id) is None:
            return f"file group {file_id} is in no bucket of the index"
    return None


def find_stray_key(buckets: Buckets, file_id: str, record_keys: pa.ChunkedArray) -> str | None:
    """Return, as a clause, a key that belongs into another file group; None where all fit.

    Keys of a file group that is in no bucket fit, since such a file group may hold any key.
    """
    bucket_id = buckets.bucket_of(file_id)
    if bucket_id is None:
        return None
    try:
        assigned = buckets.assign(record_keys)
    except KeyEncodingError as error:
        return (
            f"a key in file group {file_id} has no hash by {', '.join(buckets.hash_fields)} "
            f"({error.message})"
        )
    strays = np.flatnonzero(assigned != bucket_id)
    if not len(strays):
        return None
    key = record_keys[strays[0]]
    return f"it puts key {key} into bucket {assigned[strays[0]]}, and file group {file_id} has it"


def _agree(argument: Index, declared: Index | None) -> bool:
    if type(argument) is not type(declared):
        return False
    if isinstance(argument, ConsistentHashingIndex):
        # The ring is in the table; the numbers only steer later resizing.
        return True
    if isinstance(argument, BucketIndex) and isinstance(declared, BucketIndex):
        same_fields = None in (argument.hash_fields, declared.hash_fields) or (
            argument.hash_fields == declared.hash_fields
        )
        return same_fields and _numbers(argument) == _numbers(declared)
    return True


def _numbers(index: BucketIndex) -> tuple[object, ...]:
    if isinstance(index, SimpleBucketIndex):
        return (index.num_buckets,)
    if isinstance(index, PartitionBucketIndex):
        return (index.default, index.rules)
    return ()
