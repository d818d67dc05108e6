"""The index settings in properties: in hoodie.properties, or in the options of a writer.

Pure. Hudi does not record these keys by itself, so every value may be None. Besides
the keys of the releases, the names of the RFCs are understood (RFC-29: bucket index, RFC-42:
consistent hashing). Source: `HoodieIndexConfig`, `HoodieIndex.BucketIndexEngineType`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bucketfmt.errors import CorruptError, IndexUnknownError, UnsupportedError
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "EXTENDIBLE_HASHING",
    "GROUP_BYTES",
    "GROUP_BYTES_MAX",
    "MULTIPLE_FILE_GROUPS",
    "PARTITIONED_RECORD_INDEX",
    "RECORD_INDEXES",
    "VIRTUAL_LOG_HASHING",
    "IndexSettings",
    "has_buckets",
    "has_directories",
    "has_single_groups",
    "has_virtual_logs",
]

PARTITIONED_RECORD_INDEX = "RECORD_LEVEL_INDEX"
"""The index type of a record index with keys that are unique in their partition, since Hudi 1.1."""

EXTENDIBLE_HASHING = "EXTENDIBLE_HASHING"
"""A bucket engine that only this package knows. Writers of Hudi fail on the name."""

MULTIPLE_FILE_GROUPS = "MULTIPLE_FILE_GROUPS"
"""The bucket engine of buckets with several file groups, which only this package knows, too."""

GROUP_BYTES = "hoodie.parquet.max.file.size"
"""The setting of Hudi that says how large a file group of such a bucket becomes."""

GROUP_BYTES_MAX = 1 << 40

VIRTUAL_LOG_HASHING = "CONSISTENT_HASHING_VIRTUAL_LOGS"
"""The bucket engine of rings whose resizes use virtual logs. As `EXTENDIBLE_HASHING` otherwise."""

RECORD_INDEXES = ("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", PARTITIONED_RECORD_INDEX)
"""The index types of all record indexes."""

_INDEX_TYPE = ("hoodie.index.type",)
_ENGINE = ("hoodie.index.bucket.engine",)
_NUM_BUCKETS = ("hoodie.bucket.index.num.buckets", "hoodie.hash.index.bucket.num")
_MIN_NUM_BUCKETS = ("hoodie.bucket.index.min.num.buckets",)
_MAX_NUM_BUCKETS = ("hoodie.bucket.index.max.num.buckets",)
_HASH_FIELDS = ("hoodie.bucket.index.hash.field", "hoodie.datasource.write.indexkey.field")
_EXPRESSIONS = ("hoodie.bucket.index.partition.expressions",)
_UPDATE_PARTITION_PATH = ("hoodie.record.index.update.partition.path",)
_RULE_TYPE = ("hoodie.bucket.index.partition.rule.type",)

_TYPE_ALIASES = {"BUCKET_HASH_INDEX": "BUCKET"}
_ENGINES = {
    "SIMPLE": "SIMPLE",
    "SIMPLE_HASHING": "SIMPLE",
    "CONSISTENT_HASHING": "CONSISTENT_HASHING",
    EXTENDIBLE_HASHING: EXTENDIBLE_HASHING,
    VIRTUAL_LOG_HASHING: VIRTUAL_LOG_HASHING,
    MULTIPLE_FILE_GROUPS: MULTIPLE_FILE_GROUPS,
}


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The index settings that properties state; None for a setting that is not stated.

    Attributes:
        KEYS: Every name that a setting may have.
        NUM_BUCKETS: The names of the number of buckets, the name in use first.
    """

    NUM_BUCKETS: ClassVar[tuple[str, ...]] = _NUM_BUCKETS

    KEYS: ClassVar[frozenset[str]] = frozenset(
        (
            *_INDEX_TYPE,
            *_ENGINE,
            *_NUM_BUCKETS,
            *_MIN_NUM_BUCKETS,
            *_MAX_NUM_BUCKETS,
            *_HASH_FIELDS,
            *_EXPRESSIONS,
            *_RULE_TYPE,
            *_UPDATE_PARTITION_PATH,
        )
    )
    index_type: str | None = None  # HoodieIndex.IndexType: BUCKET, BLOOM, RECORD_INDEX, ...
    engine: str | None = None  # a value of `_ENGINES`
    num_buckets: int | None = None  # of consistent and extendible hashing: at first
    min_num_buckets: int | None = None
    max_num_buckets: int | None = None
    hash_fields: tuple[str, ...] | None = None  # as written: Hudi does not trim them
    partition_expressions: str | None = None
    partition_rule_type: str | None = None
    update_partition_path: bool = False  # of a record index
    group_bytes: int | None = None  # of buckets with several file groups

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], limits: Limits = DEFAULT_LIMITS
    ) -> IndexSettings:
        """Return the settings that the properties state.

        The engine is used, and must be known, only for a bucket index or if the index type is not
        stated.

        Raises:
            CorruptError: a number of buckets is not a positive number.
            IndexUnknownError: a setting is given under two names with different values.
            LimitError: a number of buckets is too large.
            UnsupportedError: the bucket engine is unknown.
        """
        index_type = _find(properties, _INDEX_TYPE)
        if index_type is not None:
            index_type = _TYPE_ALIASES.get(index_type.upper(), index_type.upper())
        engine = _find(properties, _ENGINE) if index_type in {None, "BUCKET"} else None
        if engine is not None:
            if engine.upper() not in _ENGINES:
                raise UnsupportedError(
                    f"bucket index engine {engine!r} (in {_ENGINE[0]}); "
                    f"{', '.join(sorted(set(_ENGINES.values())))} are supported"
                )
            engine = _ENGINES[engine.upper()]
        hash_fields = _find(properties, _HASH_FIELDS)
        return cls(
            index_type=index_type,
            engine=engine,
            num_buckets=_find_number(properties, _NUM_BUCKETS, limits),
            min_num_buckets=_find_number(properties, _MIN_NUM_BUCKETS, limits),
            max_num_buckets=_find_number(properties, _MAX_NUM_BUCKETS, limits),
            hash_fields=None if hash_fields is None else tuple(hash_fields.split(",")),
            partition_expressions=_find(properties, _EXPRESSIONS),
            partition_rule_type=_find(properties, _RULE_TYPE),
            update_partition_path=(_find(properties, _UPDATE_PARTITION_PATH) or "").lower()
            == "true",
            group_bytes=(_find_group_bytes(properties) if engine == MULTIPLE_FILE_GROUPS else None),
        )


def has_buckets(properties: Mapping[str, str]) -> bool:
    """Whether hoodie.properties state a bucket index."""
    index_type = properties.get(_INDEX_TYPE[0], "").upper()
    return _TYPE_ALIASES.get(index_type, index_type) == "BUCKET"


def has_single_groups(properties: Mapping[str, str]) -> bool:
    """Whether hoodie.properties state buckets of one file group each, found by the hash alone."""
    engine = properties.get(_ENGINE[0], "").upper()
    return has_buckets(properties) and engine != MULTIPLE_FILE_GROUPS


def has_directories(properties: Mapping[str, str]) -> bool:
    """Whether hoodie.properties state that partitions have directories of buckets."""
    return properties.get(_ENGINE[0], "").upper() == EXTENDIBLE_HASHING


def has_virtual_logs(properties: Mapping[str, str]) -> bool:
    """Whether hoodie.properties state that resizes use virtual logs."""
    return properties.get(_ENGINE[0], "").upper() == VIRTUAL_LOG_HASHING


def _find(properties: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the value given under `names`; None if there is no value, or the value is empty."""
    values = {name: properties[name] for name in names if properties.get(name)}
    if len(set(values.values())) > 1:
        stated = ", ".join(f"{name}={value}" for name, value in values.items())
        raise IndexUnknownError(f"the properties contradict each other: {stated}; pass index=")
    return next(iter(values.values()), None)


def _find_group_bytes(properties: Mapping[str, str]) -> int | None:
    text = _find(properties, (GROUP_BYTES,))
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise CorruptError(f"{GROUP_BYTES}: {text!r} is not a number of bytes")
    if not 1 <= int(text) <= GROUP_BYTES_MAX:
        raise CorruptError(f"{GROUP_BYTES}: {text} is not 1 to {GROUP_BYTES_MAX}")
    return int(text)


def _find_number(
    properties: Mapping[str, str], names: tuple[str, ...], limits: Limits
) -> int | None:
    text = _find(properties, names)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) > 0):
        raise CorruptError(f"{names[0]}: {text!r} is not a positive number")
    return limits.check("num_buckets_max", int(text))
