"""Vectors of buckets with several file groups."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector

__all__ = ["vectors"]

_TEXT = "written for this text"
_PROPERTIES = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "MULTIPLE_FILE_GROUPS",
    "hoodie.bucket.index.num.buckets": "4",
}
_SIZE = "hoodie.parquet.max.file.size"


def _placing(keys: str, sizes: list[int | None]) -> dict[str, object]:
    return {"keys": list(keys), "sizes": sizes, "group_bytes": 60, "row_bytes": 20}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield Vector(
        "new-key-groups.cases",
        ["GRP-6"],
        _TEXT,
        ListOf(
            [
                _placing("", [10]),
                _placing("ab", []),
                _placing("gfedcba", []),
                _placing("ba", [40, 20]),
                _placing("dcba", [40, 20]),
                _placing("aabab", [30]),
                _placing("ab", [50, None]),
                _placing("baé", [49]),
            ]
        ),
        [
            {"taker": 0, "groups": []},
            {"taker": None, "groups": [1, 1]},
            {"taker": None, "groups": [3, 2, 2, 2, 1, 1, 1]},
            {"taker": 1, "groups": [0, 0]},
            {"taker": 1, "groups": [1, 1, 0, 0]},
            {"taker": 0, "groups": [0, 0, 0, 0, 0]},
            {"taker": None, "groups": [1, 1]},
            {"taker": 0, "groups": [1, 0, 1]},
        ],
    )
    yield Vector(
        "group-bytes.cases",
        ["GRP-7"],
        _TEXT,
        ListOf([_PROPERTIES, {**_PROPERTIES, _SIZE: "125829120"}, {_SIZE: "x"}]),
        [None, 125829120, None],
    )
    yield Vector(
        "group-bytes.corrupt",
        ["GRP-7"],
        _TEXT,
        ListOf([{**_PROPERTIES, _SIZE: text} for text in ("0", "-1", "x", "1e6", "1099511627777")]),
        error="corrupt",
    )
