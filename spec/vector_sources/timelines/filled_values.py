"""Vectors of tables that fill values of a record from the record that it wins over."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.timelines.merge_properties import (
    COMMIT_TIME,
    EVENT_TIME,
    of_payload,
)
from spec.vector_sources.vector import Vector

__all__ = ["vectors"]

_READ = "random tables that Hudi 0.15.0, 1.0.2 and 1.2.0 wrote and read merge so"
_MODE = "hoodie.table.partial.update.mode"
_UNKNOWN = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
_LOGGED = {"hoodie.table.type": "MERGE_ON_READ"}
_EVENT = {**EVENT_TIME, **_LOGGED, _MODE: "IGNORE_DEFAULTS"}
_COMMIT = {**COMMIT_TIME, **_LOGGED, _MODE: "IGNORE_DEFAULTS"}
_UNAVAILABLE = {**EVENT_TIME, **_LOGGED, _MODE: "FILL_UNAVAILABLE"}
_MARKER = {**_UNAVAILABLE, _UNKNOWN: "?"}
_SIX = of_payload("PartialUpdateAvroPayload")
_EIGHT = of_payload("PartialUpdateAvroPayload", version=8)
_SIX_BASE = of_payload("OverwriteNonDefaultsWithLatestAvroPayload")

_Block = dict[str, object]


def _row(ts: int, **values: int) -> _Block:
    row = {"key": "k", "ts": ts, **values}
    return {"rows": [row], "holds": ["a", "b", "c"], "is_partial": False}


def _delete(ts: str | None) -> _Block:
    return {"deletes": [["k", "INT", 0] if ts is None else ["k", "LONG", ts]]}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    base = [{"key": "k", "ts": 10, "a": 1, "b": 2}]
    late = [_row(11, b=3), _row(4, a=9)]
    known: list[tuple[str, dict[str, str], list[_Block], list[int | None] | None]] = [
        ("newer", _EVENT, [_row(11, b=3)], [11, 1, 3, None]),
        ("equal", _EVENT, [_row(10, a=5)], [10, 5, 2, None]),
        ("older-fills-the-base-row", _EVENT, [_row(9, a=5, c=6)], [10, 1, 2, 6]),
        ("log-before-base", _EVENT, late, [11, 9, 3, None]),
        ("line", _EVENT, [_row(15), _row(13, c=3), _row(14, c=4)], [15, 1, 2, 3]),
        ("delete", _EVENT, [_row(11, c=3), _delete("11")], None),
        ("older-delete", _EVENT, [_row(11, c=3), _delete("5")], [11, 1, 2, 3]),
        (
            "after-a-delete",
            _EVENT,
            [_row(11, b=9, c=3), _delete(None), _row(12, a=5)],
            [12, 5, 2, None],
        ),
        ("older-after-a-delete", _EVENT, [_delete("20"), _row(12, a=5)], None),
        ("commit-time", _COMMIT, late, [4, 9, 3, None]),
        (
            "commit-time-after-a-delete",
            _COMMIT,
            [_row(5, c=1), _delete(None), _row(1, b=4)],
            [1, 1, 4, None],
        ),
        ("v8", _EIGHT, [*late, _row(10, c=4)], [11, 9, 3, 4]),
        ("v6", _SIX, [*late, _row(10, c=4)], [11, 9, 3, 4]),
        ("v6-base-only", _SIX_BASE, [_row(11, b=3), _row(12, c=4)], [12, 1, 2, 4]),
        ("v6-base-only-late", _SIX_BASE, [_row(4, a=9)], [4, 9, 2, None]),
        ("nothing-unknown", _UNAVAILABLE, [_row(11, b=3)], [11, None, 3, None]),
    ]
    for name, properties, log, values in known:
        question = {"properties": properties, "base": base, "log": log}
        columns = None if values is None else dict(zip(("ts", "a", "b", "c"), values, strict=True))
        expected = {} if columns is None else {"k": columns}
        yield Vector(f"partial-updates.filled-{name}", ["MERGE-18"], _READ, question, expected)
    yield from _texts()
    update = {"rows": [{"key": "k", "ts": 11, "a": 5}], "holds": ["a"], "is_partial": True}
    yield Vector(
        "partial-updates.filled-and-updates",
        ["MERGE-19"],
        "written for this text",
        {"properties": _EVENT, "base": base, "log": [update]},
        error="unsupported",
    )


def _texts() -> Iterator[Vector]:
    """Yield those of text that is unknown, and of rows that are marked as deleted."""

    def row(
        ts: int, value: str | None, deleted: bool | None = False, key: str = "k"
    ) -> dict[str, object]:
        return {"key": key, "ts": ts, "value": value, "deleted": deleted}

    base = [row(10, "old"), row(10, "old", key="other")]
    known: list[tuple[str, dict[str, str], list[dict[str, object]], str | None]] = [
        ("marker", _MARKER, [row(11, "?")], "old"),
        ("marker-and-null", _MARKER, [row(11, None)], ""),
        ("marker-line", _MARKER, [row(11, "?"), row(5, "x")], "x"),
        ("marked", _EVENT, [row(11, None, True)], None),
        ("marked-and-back", _EVENT, [row(11, "x", True), row(12, None)], "old"),
        ("v6-marked", _SIX, [row(5, None, True)], None),
        ("v6-mark-stays", _SIX, [row(11, "x", True), row(12, None, None)], None),
        ("v6-mark-is-overwritten", _SIX, [row(11, "x", True), row(12, None)], "x"),
        ("v6-mark-of-older", _SIX, [row(12, None), row(11, "x", True)], "x"),
    ]
    for name, properties, rows, value in known:
        question = {
            "properties": properties,
            "ordering_type": "long",
            "base": base,
            "log": [{"rows": [each]} for each in rows],
        }
        own = {} if value is None else {"k": value or None}
        expected = {**own, "other": "old"}
        yield Vector(f"merge.filled-{name}", ["MERGE-18"], _READ, question, expected)
