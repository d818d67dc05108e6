"""Columns of every kind of type, widened and written in part: Hudi reads what was written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.rows.columns.column_types import NESTING_MAX
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import TABLE_VERSIONS, Tally, index_of
from tests.interop.turns.sides import Bucketfmt, Hudi, assert_clean

__all__ = ["play_values"]

_DEEP = pa.int32()
for _ in range(NESTING_MAX):
    _DEEP = pa.struct([("f", _DEEP)])
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("small", pa.uint16()),
        ("whole", pa.int32()),
        ("half", pa.int32()),
        ("money", pa.decimal128(6, 2)),
        ("real", pa.float32()),
        ("day", pa.date64()),
        ("moment", pa.timestamp("ns", "Europe/Berlin")),
        ("text", pa.string_view()),
        ("raw", pa.binary_view()),
        ("pair", pa.list_(pa.int16(), 2)),
        ("facts", pa.map_(pa.large_string(), pa.struct([("a", pa.large_list(pa.int64()))]))),
        ("deep", _DEEP),
    ]
)
# Rows for which conditions hold: where there is a metadata table, Hudi leaves out files by it.
_CONDITIONS: Mapping[str, Callable[[dict[str, Any]], bool]] = {
    "whole > 3000000000": lambda row: (row["whole"] or 0) > 3_000_000_000,
    "half = 0.5": lambda row: row["half"] == 0.5,
    "money > 1000000 or money = 3.25": lambda row: (
        row["money"] is not None and (row["money"] > 1_000_000 or row["money"] == Decimal("3.25"))
    ),
    "real < 1 and day > date'1960-01-02'": lambda row: (
        row["real"] is not None and row["real"] < 1 and row["day"] > dt.date(1960, 1, 2)
    ),
}
_WIDER = {"whole": pa.int64(), "half": pa.float64(), "money": pa.decimal128(11, 4)}


def _row(number: int, ts: int) -> dict[str, Any]:
    deep: Any = number
    for _ in range(NESTING_MAX):
        deep = {"f": deep}
    return {
        "id": f"k{number}",
        "region": ("us", "eu")[number % 2],
        "ts": ts,
        "small": 2**16 - 1 - number,
        "whole": 2**31 - 1 - number,
        "half": number - 2**31,
        "money": Decimal(f"{number}.25"),
        "real": number / 3,
        "day": dt.date(1960, 1, 1) + dt.timedelta(days=number),
        "moment": dt.datetime(2024, 1, 1, 0, 0, 0, number + 1, dt.timezone.utc),
        "text": f"a text of some length {number}",
        "raw": bytes([255, number]),
        "pair": [number, -number],
        "facts": {"f": {"a": [2**60, 7]}} if number % 3 else None,
        "deep": deep,
    }


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema)


def play_values(session: HudiSession, folder: Path, kind: str, _: int) -> Tally:
    """Some columns widen and one is added, rows keep what they lack, and Hudi writes in between."""
    version = TABLE_VERSIONS[session.version]
    is_logged = kind.startswith("mor")
    table = bf.create(
        folder / f"values_{kind.replace('-', '_')}",
        schema=_SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=index_of(kind)[1],
        table_type="MERGE_ON_READ" if is_logged else "COPY_ON_WRITE",
        table_version=version,
    )
    us, hudi = Bucketfmt(table), Hudi(session, table)
    table.upsert(_table([_row(n, 1) for n in range(12)], _SCHEMA))
    rows = {n: _row(n, 1) for n in range(12)}
    _compare(table, hudi, rows)

    wide = pa.schema([f.with_type(_WIDER.get(f.name, f.type)) for f in _SCHEMA])
    wide = wide.append(pa.field("added", pa.list_(pa.float64())))
    more = {"whole": 2**40, "half": 0.5, "money": Decimal("1234567.0625"), "added": [0.1, 2.5]}
    rows |= {n: {**_row(n, 2), **more} for n in (1, 2)}
    table.upsert(_table([_row(3, 2)], _SCHEMA))
    rows[3] = _row(3, 2)
    _widen(table, us, _table([rows[1], rows[2]], wide), is_logged=is_logged)
    _compare(table, hudi, rows)

    names = ["id", "region", "ts", "text", *([] if hudi.writes_null_dates else ["day"])]
    part = [{**{name: _row(n, 3)[name] for name in names}, "text": "kept"} for n in (1, 3, 20)]
    table.upsert(_table(part, pa.schema([wide.field(name) for name in names])), missing="keep")
    for row in part:
        number = int(row["id"][1:])
        rows[number] = {**dict.fromkeys(wide.names), **rows.get(number, {}), **row}
    _compare(table, hudi, rows)

    stored = table.scan(filter=[("id", "in", ["k2", "k20"])]).to_arrow()
    hudi.upsert(stored.set_column(2, "ts", pa.array([4] * stored.num_rows)))
    for number in (2, 20):
        rows[number] = {**rows[number], "ts": 4}
    _compare(table, hudi, rows)
    if is_logged:
        us.compact()
        _compare(table, hudi, rows)
    if session.has_metadata_table:
        _compare_nan(session, folder, kind)
    return Tally(5, 5, 1)


def _widen(table: bf.Table, us: Bucketfmt, rows: pa.Table, *, is_logged: bool) -> None:
    """Write rows of wider types; a decimal of which rows are logged is refused before."""
    if is_logged:
        with pytest.raises(bf.UnsupportedError, match=r"column money: decimal128\(6, 2\) became"):
            table.upsert(rows, evolve=True)
        us.compact()
    table.upsert(rows, evolve=True)


def _compare_nan(session: HudiSession, folder: Path, kind: str) -> None:
    """Hudi finds rows of columns with NaN by the metadata table as it does without."""
    values = [1.0, 200.0, float("nan"), 1.0, 2.0, None, float("nan"), float("nan"), None]
    ids, parts = [f"k{n}" for n in range(9)], ["mixed", "small", "none"]
    rows = pa.table({"id": ids, "f": pa.array(values, pa.float32()), "d": values})
    rows = rows.append_column("region", pa.array([parts[n // 3] for n in range(9)]))
    table = bf.create(
        folder / "nan",
        schema=rows.schema,
        record_key=["id"],
        partition_by=["region"],
        index=index_of(kind)[1],
        table_type="MERGE_ON_READ" if kind.startswith("mor") else "COPY_ON_WRITE",
        table_version=TABLE_VERSIONS[session.version],
    )
    hudi = Hudi(session, table)
    table.upsert(rows)
    # By the footers of base files readers may leave out NaN itself, with and without metadata.
    for where, found in (
        ("f > 100 and not isnan(f)", 1),
        ("d = 200", 1),
        ("d < 1.5 and f < 1.5", 2),
    ):
        assert hudi.read(where=where).num_rows == found, where


def _compare(table: bf.Table, hudi: Hudi, rows: dict[int, dict[str, Any]]) -> None:
    ours = bf.open(table.uri).scan().to_arrow().sort_by("id")
    expected = pa.Table.from_pylist(
        sorted(rows.values(), key=lambda row: str(row["id"])), ours.schema
    )
    assert ours.equals(expected), (ours.to_pylist(), expected.to_pylist())
    theirs = hudi.read().select(ours.column_names).sort_by("id")
    assert theirs.cast(ours.schema).to_pylist() == ours.to_pylist()
    if bf.open(table.uri).config.metadata_partitions:
        for where, holds in _CONDITIONS.items():
            found = sorted(hudi.read(where=where)["id"].to_pylist())
            held = sorted(row["id"] for row in rows.values() if holds(row))
            assert found == held, f"Hudi has {found} where {where}, not {held}"
    assert_clean(hudi.session, table)
