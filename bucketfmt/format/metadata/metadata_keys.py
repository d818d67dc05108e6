"""The partitions of a metadata table, the keys of their records, and the file group of a key.

Pure. Source: MetadataPartitionType, HoodieTableMetadataUtil, HoodieMetadataPayload, HashID,
SecondaryIndexKeyUtils.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing import java_string_hash, xxhash64
from bucketfmt.format.names.paths import escape_file_name, unescape_partition_value

__all__ = [
    "ALL_PARTITIONS_KEY",
    "file_group_of_key",
    "file_id_prefix",
    "format_bloom_filter_key",
    "format_column_stats_key",
    "format_files_key",
    "format_metadata_file_id",
    "format_partition_stats_key",
    "format_secondary_key",
    "is_expression_index",
    "is_secondary_index",
    "keeps_newest_record",
    "parse_files_key",
    "parse_metadata_file_id",
    "parse_secondary_key",
    "secondary_file_group_of_key",
]

ALL_PARTITIONS_KEY = "__all_partitions__"
"""The key of the record of `files` that lists the partitions of the table."""

_UNPARTITIONED = "."
_HASH_SEED = 0xFFFFFFFFDABADABA
_FILE_ID_PREFIXES = {
    "files": "files-",
    "column_stats": "col-stats-",
    "bloom_filters": "bloom-filters-",
    "record_index": "record-index-",
    "partition_stats": "partition-stats-",
}
_NEWEST_COUNTS = frozenset({"record_index", "bloom_filters"})
_NAMED_PREFIXES = ("secondary_index_", "expr_index_")
_SEPARATOR, _ESCAPE, _NULL = "$", "\\", "\0"
_FILE_ID = re.compile(r"(?:([^-]*)-)?([0-9]{4,5})-0")
_ESCAPED = re.compile(r"[\\$\0]")


def file_id_prefix(metadata_partition: str) -> str | None:
    """Return what the file ids of a partition of the metadata table begin with.

    None where Hudi has no partition of that name.
    """
    if metadata_partition.startswith(_NAMED_PREFIXES):
        return metadata_partition.replace("_", "-") + "-"
    return _FILE_ID_PREFIXES.get(metadata_partition)


def format_metadata_file_id(
    metadata_partition: str, number: int, data_partition: str | None = None
) -> str:
    """Return the id of a file group of the metadata table, such as `record-index-0007-0`.

    Args:
        metadata_partition: Such as `record_index`.
        number: Of the file group.
        data_partition: The partition of the table that the file group is for, in a partitioned
            record index.

    Raises:
        ValueError: Hudi has no partition of that name.
    """
    prefix = file_id_prefix(metadata_partition)
    if prefix is None:
        raise ValueError(f"a metadata table has no partition {metadata_partition!r}")
    part = "" if data_partition is None else f"{escape_file_name(data_partition)}-"
    return f"{prefix}{part}{number:04}-0"


def parse_metadata_file_id(metadata_partition: str, file_id: str) -> tuple[str | None, int]:
    """Return the data partition and the number of a file group of the metadata table.

    The data partition is None but for a partitioned record index, where each partition of the table
    has file groups of its own: `record-index-<escaped partition>-0007-0`.

    Raises:
        CorruptError: the partition has no file group of such an id.
    """
    prefix = file_id_prefix(metadata_partition)
    found = _FILE_ID.fullmatch(file_id, len(prefix)) if prefix is not None else None
    if prefix is None or not file_id.startswith(prefix) or found is None:
        raise CorruptError(
            f"{file_id!r} is no file group of partition {metadata_partition!r} of a metadata table"
        )
    data_partition = found[1]
    return None if data_partition is None else unescape_partition_value(data_partition), int(
        found[2]
    )


def keeps_newest_record(metadata_partition: str) -> bool:
    """Return whether the newest record of a key in the partition stands alone.

    Of the other partitions, records of one key add up.
    """
    return metadata_partition in _NEWEST_COUNTS or is_secondary_index(metadata_partition)


def is_secondary_index(metadata_partition: str) -> bool:
    """Return whether a partition of this name is a secondary index."""
    return metadata_partition.startswith(_NAMED_PREFIXES[0])


def is_expression_index(metadata_partition: str) -> bool:
    """Return whether a partition of this name is an expression index."""
    return metadata_partition.startswith(_NAMED_PREFIXES[1])


def file_group_of_key(key: str, num_file_groups: int) -> int:
    """Return the number of the file group that holds a key.

    Not that of a secondary index since table version 9: see `secondary_file_group_of_key`.

    Args:
        key: Of a record of the metadata table.
        num_file_groups: Of the partition, one at least.
    """
    # Java's Math.abs leaves the smallest int negative; Hudi takes the absolute remainder of that.
    return abs(java_string_hash(key)) % num_file_groups


def secondary_file_group_of_key(key: str, num_file_groups: int) -> int:
    """Return the file group of a key of a secondary index, since table version 9.

    All entries of one value are in one file group: the escaped value is hashed, with the "$" that
    ends it.
    """
    return file_group_of_key(key[: _find_separator(key) + 1], num_file_groups)


def format_files_key(partition_path: str) -> str:
    """Return the key of the record of `files` that lists the files of a partition."""
    return partition_path or _UNPARTITIONED


def parse_files_key(key: str) -> str:
    """Return the partition path of a key of `files`."""
    return "" if key == _UNPARTITIONED else key


def format_column_stats_key(column: str, partition_path: str, file_name: str) -> str:
    """Return the key of the statistics of a column in a file."""
    return _hash64(column) + _hash64(format_files_key(partition_path)) + _hash128(file_name)


def format_partition_stats_key(column: str, partition_path: str) -> str:
    """Return the key of the statistics of a column in a partition."""
    return _hash64(column) + _hash64(format_files_key(partition_path))


def format_bloom_filter_key(partition_path: str, file_name: str) -> str:
    """Return the key of the bloom filter of a file."""
    return _hash64(format_files_key(partition_path)) + _hash128(file_name)


@lru_cache(maxsize=4096)  # columns and partitions are those of many files
def _hash64(text: str) -> str:
    value = xxhash64(text.encode(), _HASH_SEED) & 0xFFFFFFFFFFFFFFFF
    return base64.b64encode(value.to_bytes(8, "big")).decode()


def _hash128(text: str) -> str:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def format_secondary_key(value: str | None, record_key: str) -> str:
    r"""Return the key of an entry of a secondary index: value and record key, escaped.

    `\`, `$` and NUL are escaped by a `\`. A null is one NUL. Before Hudi 1.1 NUL was not escaped,
    and there were no entries of null.
    """
    escaped = _NULL if value is None else _escape(value)
    return f"{escaped}{_SEPARATOR}{_escape(record_key)}"


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPE + found[0], text)


def parse_secondary_key(key: str) -> tuple[str | None, str]:
    """Return the value, None for null, and the record key of an entry of a secondary index.

    Raises:
        CorruptError: the key has no separator.
    """
    separator = _find_separator(key)
    value = None if key[:separator] == _NULL else _unescape(key[:separator])
    return value, _unescape(key[separator + 1 :])


def _find_separator(key: str) -> int:
    position = 0
    while position < len(key) and key[position] != _SEPARATOR:
        position += 2 if key[position] == _ESCAPE else 1
    if position >= len(key):
        raise CorruptError(f"a key of a secondary index has no separator: {key[:200]!r}")
    return position


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
