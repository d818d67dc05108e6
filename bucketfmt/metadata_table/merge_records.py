"""What several records of one key add up to.

Pure. Source: HoodieMetadataPayload.preCombine, MetadataPartitionType.combineMetadataPayloads,
HoodieTableMetadataUtil.combineFileSystemMetadata and mergeColumnStatsRecords.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
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


def merge_records(records: Sequence[MetadataRecord]) -> MetadataRecord:
    """Return the record that stands for all of these, the oldest first and one at least.

    Raises:
        CorruptError: the records are of different types.
    """
    newest = records[-1]
    if len({type(record) for record in records}) > 1:
        names = ", ".join(sorted({type(record).__name__ for record in records}))
        raise CorruptError(
            f"records of one key are of different types, {names}; rebuild the metadata table"
        )
    if len(records) == 1:
        return newest
    if isinstance(newest, FilesRecord):
        files = [record.entries for record in records if isinstance(record, FilesRecord)]
        return replace(newest, entries=reduce(_merge_files, files))
    if isinstance(newest, ColumnStats):
        return _merge_statistics([own for own in records if isinstance(own, ColumnStats)])
    return newest


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


def _merge_statistics(records: Sequence[ColumnStats]) -> ColumnStats:
    """The bounds of all records since the last one that stands for all there is."""
    first = len(records) - 1
    while first and not (
        records[first - 1].is_deleted or records[first].is_deleted or records[first].is_tight
    ):
        first -= 1
    own = records[first:]
    if len(own) == 1:
        return own[0]
    return replace(
        own[-1],
        minimum=_outermost([(each.minimum, each) for each in own], least=True),
        maximum=_outermost([(each.maximum, each) for each in own], least=False),
        value_count=_sum([each.value_count for each in own]),
        null_count=_sum([each.null_count for each in own]),
        total_bytes=_sum([each.total_bytes for each in own]),
        total_uncompressed_bytes=_sum([each.total_uncompressed_bytes for each in own]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _outermost(
    bounds: Sequence[tuple[StatValue | None, ColumnStats]], *, least: bool
) -> StatValue | None:
    """The outermost of the bounds of records. As in Hudi, a bound that is missing does not count.

    A bound that has no common order with the outermost before leaves none of both.
    """
    outermost: StatValue | None = None
    type_before: str | None = None
    for bound, stats in bounds:
        decimal_type = stats.value_type_info if stats.value_type == _DECIMAL_ORDINAL else None
        if bound is None or outermost is None:
            outermost = outermost if bound is None else bound
        else:
            kind, place = _place(outermost, type_before)
            its_kind, its_place = _place(bound, decimal_type)
            if kind is None or kind != its_kind:
                outermost = None
            elif (place < its_place) if least else (place > its_place):
                outermost = StatValue(bound.wrapper, outermost.value)
            else:
                outermost = bound
        type_before = decimal_type
    return outermost


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
