"""Hypothesis strategies for deletes, and the payloads that Hudi's own classes wrote."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from bucketfmt.format.log.delete_records import DeleteRecord
from bucketfmt.format.log.ordering_values import OrderingKind, OrderingValue

VECTORS: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "vectors" / "delete_blocks.json").read_text()
)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)
days = st.integers(-719162, 2932896)  # years 1 to 9999
millis = st.integers(-(2**62) // 1000, 2**62 // 1000)

COMMON: dict[OrderingKind, st.SearchStrategy[Any]] = {
    OrderingKind.NULL: st.none(),
    OrderingKind.BOOLEAN: st.booleans(),
    OrderingKind.INT: int32s,
    OrderingKind.LONG: int64s,
    OrderingKind.FLOAT: st.floats(width=32, allow_nan=False),
    OrderingKind.DOUBLE: st.floats(allow_nan=False),
    OrderingKind.STRING: st.text(max_size=80),
    OrderingKind.LOCAL_DATE: days,
}
AVRO: dict[OrderingKind, st.SearchStrategy[Any]] = {
    **COMMON,
    OrderingKind.BYTES: st.binary(max_size=20),
    OrderingKind.DATE: int32s,
    OrderingKind.DECIMAL: st.integers(-(10**30) + 1, 10**30 - 1).map(lambda n: Decimal(f"{n}E-15")),
    OrderingKind.TIME_MICROS: int64s,
    OrderingKind.TIMESTAMP_MICROS: int64s,
}
KRYO: dict[OrderingKind, st.SearchStrategy[Any]] = {
    **COMMON,
    OrderingKind.DATE: days,
    OrderingKind.DECIMAL: st.builds(
        lambda n, scale: Decimal(f"{n}E{-scale}"),
        st.integers(-(2**255), 2**255 - 1),
        st.integers(-76, 76),
    ),
    OrderingKind.TIMESTAMP_MICROS: millis.map(lambda value: 1000 * value),
    OrderingKind.INSTANT: st.integers(-(2**80), 2**80),
    OrderingKind.BIG_INTEGER: st.integers(-(2**255), 2**255 - 1),
}


def ordering_values(kinds: dict[OrderingKind, st.SearchStrategy[Any]]) -> Any:
    """Ordering values of those kinds, and arrays of them."""

    def of(kind: OrderingKind) -> st.SearchStrategy[OrderingValue]:
        return st.builds(OrderingValue, st.just(kind), kinds[kind])

    within = st.sampled_from(sorted(kinds)).flatmap(of)
    arrays = st.lists(within, max_size=4).map(
        lambda values: OrderingValue(OrderingKind.ARRAY, tuple(values))
    )
    return within.filter(lambda value: value.kind in kinds) | arrays


def delete_records(
    kinds: dict[OrderingKind, st.SearchStrategy[Any]], alone: frozenset[OrderingKind]
) -> st.SearchStrategy[list[DeleteRecord]]:
    """Lists of deletes; ordering values of a kind in `alone` come only inside arrays."""
    texts = st.none() | st.text(max_size=80) | st.sampled_from(["", "k", "p=1", "k" * 63, "é" * 64])
    values = ordering_values(kinds).filter(lambda value: value.kind not in alone)
    return st.lists(st.builds(DeleteRecord, texts, texts, values), max_size=12)
