"""What several records of one key add up to.

Pure. Source: HoodieMetadataPayload.preCombine, MetadataPartitionType.combineMetadataPayloads,
HoodieTableMetadataUtil.combineFileSystemMetadata and mergeColumnStatsRecords.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_records import (
    ColumnStats,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    StatValue,
)

__all__ = ["merge_records"]

# A column may have been widened, and until table version 8 Hudi has its dates as ints too.
_NUMBERS = frozenset({"Int", "Long", "Float", "Double", "Date"})
_DECIMAL_ORDINAL = 10
_SIGN = 0x80  # Java's bytes have one


def merge_records(older: MetadataRecord, newer: MetadataRecord) -> MetadataRecord:
    """Return the record that stands for both.

    Raises:
        CorruptError: the records are of different types.
    """
    if type(older) is not type(newer):
        raise CorruptError(
            f"records of one key are of different types, {type(older).__name__} and "
            f"{type(newer).__name__}; rebuild the metadata table"
        )
    if isinstance(older, FilesRecord) and isinstance(newer, FilesRecord):
        return replace(newer, entries=_merge_files(older.entries, newer.entries))
    if isinstance(older, ColumnStats) and isinstance(newer, ColumnStats):
        return _merge_statistics(older, newer)
    return newer


def _merge_files(
    older: Mapping[str, FileEntry], newer: Mapping[str, FileEntry]
) -> dict[str, FileEntry]:
    """A deletion takes back the entry of its file, and stays where there is none to take back."""
    merged = dict(older)
    for name, entry in newer.items():
        known = merged.get(name)
        if known is None or (entry.is_deleted and known.is_deleted):
            merged[name] = entry
        elif entry.is_deleted:
            del merged[name]
        else:
            merged[name] = FileEntry(max(entry.size, known.size), False)
    return merged


def _merge_statistics(older: ColumnStats, newer: ColumnStats) -> ColumnStats:
    """The bounds of both, unless the newer record stands for all there is."""
    if older.is_deleted or newer.is_deleted or newer.is_tight:
        return newer
    return replace(
        newer,
        minimum=_outer(_minimum(older), _minimum(newer), least=True),
        maximum=_outer(_maximum(older), _maximum(newer), least=False),
        value_count=_add(older.value_count, newer.value_count),
        null_count=_add(older.null_count, newer.null_count),
        total_bytes=_add(older.total_bytes, newer.total_bytes),
        total_uncompressed_bytes=_add(
            older.total_uncompressed_bytes, newer.total_uncompressed_bytes
        ),
    )


def _add(older: int | None, newer: int | None) -> int | None:
    return None if older is None or newer is None else older + newer


_Bound = tuple[StatValue, str | None]
"""A bound, and precision and scale where it is a decimal in Hudi's newer form."""


def _minimum(stats: ColumnStats) -> _Bound | None:
    return None if stats.minimum is None else (stats.minimum, _decimal_type(stats))


def _maximum(stats: ColumnStats) -> _Bound | None:
    return None if stats.maximum is None else (stats.maximum, _decimal_type(stats))


def _decimal_type(stats: ColumnStats) -> str | None:
    return stats.value_type_info if stats.value_type == _DECIMAL_ORDINAL else None


def _outer(older: _Bound | None, newer: _Bound | None, *, least: bool) -> StatValue | None:
    """The outer of two bounds. As in Hudi, a bound that is missing does not count.

    None where the two have no common order.
    """
    if older is None or newer is None:
        known = newer if older is None else older
        return None if known is None else known[0]
    (kind, place), (newer_kind, newer_place) = _place(*older), _place(*newer)
    if kind is None or kind != newer_kind:
        return None
    is_older = (place < newer_place) if least else (place > newer_place)
    return StatValue(newer[0].wrapper, older[0].value) if is_older else newer[0]


def _place(bound: StatValue, decimal_type: str | None) -> tuple[str | None, Any]:
    """Where a bound is among those of its kind, in the order of Java's values."""
    value, wrapper = bound.value, bound.wrapper
    if wrapper in _NUMBERS and isinstance(value, int | float):
        return "number", (math.isnan(value), value, math.copysign(1, value))
    if isinstance(value, int):
        return wrapper, value
    if isinstance(value, str):
        return wrapper, value.encode("utf-16-be", "surrogatepass")
    if isinstance(value, bytes):
        if wrapper == "Decimal" or decimal_type is not None:
            return f"{wrapper} {decimal_type}", int.from_bytes(value, "big", signed=True)
        return wrapper, [byte - 256 if byte >= _SIGN else byte for byte in value]
    return None, None
