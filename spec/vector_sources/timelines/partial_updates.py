"""Vectors of logs with updates of some columns."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.timelines.merge_properties import COMMIT_TIME, EVENT_TIME
from spec.vector_sources.vector import Vector

__all__ = ["vectors"]

_READ = "statements MERGE INTO, DELETE and INSERT, as Hudi 1.0.2 and 1.2.0 wrote and read them"
_SOURCES = "DefaultSparkRecordMerger and SparkRecordMergingUtils, as read in their sources"
_LOGGED = {"hoodie.table.type": "MERGE_ON_READ"}
_EVENT, _COMMIT = {**EVENT_TIME, **_LOGGED}, {**COMMIT_TIME, **_LOGGED}
_BASE = [{"key": "k", "ts": 10, "a": 1, "b": 2, "c": 3}]

_Block = dict[str, object]


def _update(ts: int, key: str = "k", **values: int) -> _Block:
    return _block(ts, key, values, is_partial=True)


def _whole(ts: int, key: str = "k", **values: int) -> _Block:
    return _block(ts, key, values, is_partial=False)


def _block(ts: int, key: str, values: dict[str, int], is_partial: bool) -> _Block:
    row = {"key": key, "ts": ts, **values}
    return {"rows": [row], "holds": list(values), "is_partial": is_partial}


def _delete(ts: str | None, key: str = "k") -> _Block:
    return {"deletes": [[key, "INT", 0] if ts is None else [key, "LONG", ts]]}


def _rows(ts: int, a: int | None, b: int | None, c: int | None, key: str = "k") -> object:
    return {key: {"ts": ts, "a": a, "b": b, "c": c}}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    first = _update(11, a=100)
    known: list[tuple[str, list[_Block], object]] = [
        ("newer", [first], _rows(11, 100, 2, 3)),
        ("equal", [_update(10, a=100)], _rows(10, 100, 2, 3)),
        ("older-than-base", [_update(9, a=100)], _rows(10, 1, 2, 3)),
        ("united", [first, _update(20, b=4)], _rows(20, 100, 4, 3)),
        ("older-fills", [first, _update(5, b=4)], _rows(11, 100, 4, 3)),
        ("older-fills-once", [first, _update(5, b=4), _update(7, a=5, b=5)], _rows(11, 100, 4, 3)),
        ("whole-row-after", [first, _whole(20, a=7, b=8, c=9)], _rows(20, 7, 8, 9)),
        ("whole-row-before", [_whole(20, a=7, b=8, c=9), _update(21, a=1)], _rows(21, 1, 8, 9)),
        ("older-whole-row-fills", [first, _whole(3, a=7, b=8, c=9)], _rows(11, 100, 8, 9)),
        ("delete", [first, _delete("11")], {}),
        ("older-delete", [first, _delete("5")], _rows(11, 100, 2, 3)),
        ("after-a-delete", [first, _delete("11"), _update(30, b=4)], _rows(30, 1, 4, 3)),
        ("after-a-delete-by-none", [first, _delete(None), _update(30, b=4)], _rows(30, 1, 4, 3)),
    ]
    for name, log, expected in known:
        question = {"properties": _EVENT, "base": _BASE, "log": log}
        yield Vector(f"partial-updates.{name}", ["MERGE-16"], _READ, question, expected)
    read: list[tuple[str, dict[str, str], list[_Block], object]] = [
        ("newest", _COMMIT, [first, _update(5, b=4)], _rows(5, 100, 4, 3)),
        (
            "blocks-before-the-first",
            _EVENT,
            [_whole(11, a=4, b=4, c=4), _whole(12, a=5, b=5), _update(13, a=6)],
            _rows(13, 6, 5, 3),
        ),
        (
            "narrow-row-after",
            _EVENT,
            [_update(13, c=6), _whole(14, a=5, b=5)],
            _rows(14, 5, 5, 6),
        ),
        (
            "whole-row-after-a-delete",
            _COMMIT,
            [_delete(None), first, _whole(1, a=7, b=8, c=9)],
            _rows(1, 7, 8, 9),
        ),
        (
            "no-base-row-but-a-whole-one",
            _EVENT,
            [_whole(1, "n", a=7, b=8, c=9), _update(2, "n", b=1)],
            {**_rows(10, 1, 2, 3), **_rows(2, 7, 1, 9, "n")},  # type: ignore[dict-item]
        ),
    ]
    for name, properties, log, expected in read:
        question = {"properties": properties, "base": _BASE, "log": log}
        yield Vector(f"partial-updates.{name}", ["MERGE-16"], _SOURCES, question, expected)
    refused: list[tuple[str, dict[str, str], list[_Block]]] = [
        ("no-row", _EVENT, [_update(11, "n", a=1)]),
        (
            "no-row-any-more",
            _EVENT,
            [_whole(1, "n", a=7, b=8, c=9), _delete(None, "n"), _update(2, "n", a=1)],
        ),
        ("deleted-before", _COMMIT, [_delete(None), first]),
    ]
    for name, properties, log in refused:
        question = {"properties": properties, "base": _BASE, "log": log}
        yield Vector(f"partial-updates.{name}", ["MERGE-17"], _READ, question, error="unsupported")
