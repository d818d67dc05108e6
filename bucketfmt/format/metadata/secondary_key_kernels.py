"""Keys of secondary indexes in columns.

Pure: a column kernel; `metadata_keys` has the same key by key. Source: SecondaryIndexKeyUtils.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.format.keys.hashing_kernels import java_string_hashes

__all__ = ["find_file_groups", "find_value_parts", "format_secondary_keys"]

_TEXT = pa.large_string()
_ROWS_AT_A_TIME = 1 << 16  # what is worked out of them stays in the cache
_NULL = "\0"
_VALUE_PART = r"(?s)^(?P<part>(?:[^\\$]|\\.)*\$)"


def format_secondary_keys(values: pa.Array, record_keys: pa.Array, table_version: int) -> pa.Array:
    """Return the keys of the entries of some records.

    Args:
        values: Of the indexed column, as text.
        record_keys: Text without nulls.
        table_version: 8 or 9. Before 9 there are no entries of null, and NUL is not escaped.

    Returns:
        `large_string`, in the order of the records that have an entry.
    """
    values, record_keys = values.cast(_TEXT), record_keys.cast(_TEXT)
    if table_version < 9:
        is_valid = values.is_valid()
        values, record_keys = values.filter(is_valid), record_keys.filter(is_valid)
    escaped = pc.fill_null(_escaped(values, table_version), _NULL)
    separator = pa.scalar("$", _TEXT)
    return pc.binary_join_element_wise(escaped, _escaped(record_keys, table_version), separator)


def find_value_parts(keys: pa.Array) -> pa.Array:
    """Return of each key the escaped value and the separator; null where there is no separator."""
    return pc.struct_field(pc.extract_regex(keys, _VALUE_PART), "part")


def find_file_groups(
    keys: pa.Array, count: int, *, by_value: bool = False
) -> npt.NDArray[np.int64]:
    """Return the file group of the metadata table that has each key.

    Args:
        keys: Text or binary without nulls, of an index on columns or any other partition.
        count: How many file groups there are.
        by_value: Whether the value part alone tells, as in secondary indexes since version 9.
    """
    groups, divisor = np.zeros(len(keys), np.int64), np.uint32(count)
    if count > 1:
        for start in range(0, len(keys), _ROWS_AT_A_TIME):
            hashed = keys[start : start + _ROWS_AT_A_TIME]
            if by_value:
                texts = hashed.cast(_TEXT)
                hashed = pc.coalesce(find_value_parts(texts), texts)
            # |hash|, of the least int32 too
            hashes = np.abs(java_string_hashes(hashed)).view(np.uint32)
            groups[start : start + len(hashes)] = hashes - hashes // divisor * divisor  # as %
    return groups


def _escaped(texts: pa.Array, table_version: int) -> pa.Array:
    special = r"[\\$\x00]" if table_version >= 9 else r"[\\$]"
    return pc.replace_substring_regex(texts, special, r"\\\0")
