"""Statistics of partitions, worked out from those of files of several types."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from bucketfmt.format.metadata.metadata_records import ColumnStats, StatValue
from bucketfmt.write.metadata.records.statistics_records import (
    ColumnValues,
    column_stats,
    partition_stats,
)


def of_decimals(version: int, kind: pa.DataType, low: str, high: str) -> ColumnStats:
    values = ColumnValues(Decimal(low), Decimal(high), 5, 0, kind)
    found = column_stats(f"f{version}", "d", values, version)
    assert found is not None
    return found


def unscaled(number: int) -> StatValue:
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return StatValue("Bytes", number.to_bytes(size, "big", signed=True))


@pytest.mark.parametrize("scale", [0, 2, 15])
@pytest.mark.parametrize("is_first", [True, False])
def test_decimals_from_before_an_upgrade_and_after(scale: int, is_first: bool) -> None:
    """Before version 9 all have the scale 15, and do not say so."""
    kind, unit = pa.decimal128(scale + 8, scale), 10**scale
    old = of_decimals(6, kind, "-30", "40")
    new = of_decimals(9, kind, "-20", "50")
    assert (old.value_type, old.value_type_info) == (None, None)
    files = [old, new] if is_first else [new, old]
    (stats,) = partition_stats("p", files).values()
    assert isinstance(stats, ColumnStats)
    assert (stats.minimum, stats.maximum) == (unscaled(-30 * unit), unscaled(50 * unit))
    assert (stats.value_type, stats.value_type_info) == (new.value_type, f"{scale + 8},{scale}")
    assert stats.value_count == 10
