"""Vectors of record keys: how they are made and how they are taken apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spec.vector_sources.vector import ListOf, Vector

__all__ = ["HASH_VALUES", "RELEASE_OF_DIALECT", "vectors"]

HASH_VALUES: dict[str, list[list[Any]]] = json.loads(
    (Path(__file__).parents[1] / "tables" / "hash_values.json").read_text()
)
"""{dialect: rows of (key, hash fields, values or what happened, list hash)}, as Hudi printed it."""

RELEASE_OF_DIALECT = {"colon-map": "0.12.3", "split-filter": "0.15.0", "indexOf": "1.0.2 and 1.2.0"}

_RULE_OF_DIALECT = {"colon-map": "KEY-10", "split-filter": "KEY-7", "indexOf": "KEY-8"}
_GENERATORS = (
    "ComplexAvroKeyGenerator, SimpleAvroKeyGenerator, NonpartitionedAvroKeyGenerator, run on the "
    "bundles 0.15.0, 1.0.2, 1.1.1 and 1.2.0"
)


def _row(values: dict[str, str | None], generator: str, encoding: str = "7") -> dict[str, object]:
    return {
        "fields": list(values),
        "values": list(values.values()),
        "key_generator": generator,
        "encoding": encoding,
    }


# {type: {value: text}}, as printed by Java 17
_TEXTS: dict[str, dict[str | bool, str]] = {
    "boolean": {True: "true", False: "false"},
    "int": {"0": "0", "-2147483648": "-2147483648"},
    "long": {"9223372036854775807": "9223372036854775807"},
    "double": {
        "1": "1.0",
        "0": "0.0",
        "-0.0": "-0.0",
        "10000000": "1.0E7",
        "9999999": "9999999.0",
        "0.001": "0.001",
        "0.0001": "1.0E-4",
        "123456789": "1.23456789E8",
        "-0.00000015": "-1.5E-7",
        "1.7976931348623157e308": "1.7976931348623157E308",
        "NaN": "NaN",
        "Infinity": "Infinity",
    },
    "float": {"1.1": "1.1", "10000000000": "1.0E10", "16777216": "1.6777216E7", "0.0001": "1.0E-4"},
    "decimal": {"12.340": "12.340", "-0.001": "-0.001", "0.0000001": "1E-7", "100": "100"},
    "date": {"19724": "2024-01-02", "-1": "1969-12-31", "2932897": "+10000-01-01"},
    "timestamp-millis": {"1700000000123": "1700000000123"},
    "timestamp-micros": {"1700000000123456": "1700000000123456"},
    "string": {"a,b:c": "a,b:c", "": ""},
}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    texts = [(kind, value, text) for kind, of in _TEXTS.items() for value, text in of.items()]
    yield Vector(
        "key-text.values",
        ["KEY-4"],
        "Double.toString, Float.toString, BigDecimal.toString and LocalDate.toString of Java 17",
        ListOf([{"type": kind, "value": value} for kind, value, _ in texts]),
        [text for *_, text in texts],
    )
    made: list[tuple[dict[str, object], str]] = [
        (_row({"id": "1"}, "SIMPLE"), "1"),
        (_row({"id": "1"}, "TIMESTAMP"), "1"),
        (_row({"id": "a,b:c"}, "NON_PARTITION"), "a,b:c"),
        (_row({"id": "1"}, "CUSTOM"), "1"),
        (_row({"id": "x,y:z", "n": "5"}, "COMPLEX"), "id:x,y:z,n:5"),
        (_row({"id": "x,y:z", "n": None}, "COMPLEX"), "id:x,y:z,n:__null__"),
        (_row({"id": "", "n": "1"}, "COMPLEX"), "id:__empty__,n:1"),
        (_row({"n": "1"}, "COMPLEX", "id:7"), "n:1"),
        (_row({"n": "1"}, "COMPLEX", "7"), "1"),
        (_row({"a": "1", "b": "2"}, "NON_PARTITION"), "a:1,b:2"),
        (_row({"a": "1"}, "GLOBAL_DELETE"), "a:1"),
    ]
    yield Vector(
        "record-key.made",
        ["KEY-1", "KEY-2", "KEY-3"],
        _GENERATORS,
        ListOf([row for row, _ in made]),
        [key for _, key in made],
    )
    yield Vector(
        "record-key.null-or-empty",
        ["KEY-2"],
        _GENERATORS + ": HoodieKeyException",
        ListOf(
            [
                _row({"id": None}, "SIMPLE"),
                _row({"id": ""}, "SIMPLE"),
                _row({"id": None, "n": ""}, "COMPLEX"),
                _row({"n": None}, "COMPLEX", "id:7"),
            ]
        ),
        error="key-encoding",
    )
    clear = [
        ({"a": "1,a:2", "b": "3"}, "a:1,a:2,b:3"),
        ({"a": "1", "b": "2,a:3"}, "a:1,b:2,a:3"),
        ({"a": "1,c:2", "b": "x:y,z"}, "a:1,c:2,b:x:y,z"),
        ({"a": "1", "b": "2", "c": "3,a:4"}, "a:1,b:2,c:3,a:4"),
        ({"a": "1,c:4", "b": "2", "c": "3"}, "a:1,c:4,b:2,c:3"),
    ]
    yield Vector(
        "record-key.with-separators",
        ["KEY-12"],
        "ComplexAvroKeyGenerator, as read in its source: nothing is escaped",
        ListOf([_row(dict(values), "COMPLEX") for values, _ in clear]),
        [key for _, key in clear],
    )
    yield Vector(
        "record-key.ambiguous",
        ["KEY-12"],
        "written for this text",
        ListOf(
            [
                _row({"a": "1,b:2", "b": "3"}, "COMPLEX"),
                _row({"a": "1", "b": "2,b:3"}, "COMPLEX"),
                _row({"a": "__null__", "b": "3"}, "COMPLEX"),
                _row({"a": "1", "b": "__empty__"}, "NON_PARTITION"),
                _row({"a": "1", "b": "2,c:", "c": "3"}, "CUSTOM"),
            ]
        ),
        error="key-encoding",
    )
    yield Vector(
        "record-key.auto",
        ["KEY-1"],
        "written for this text",
        _row({"id": "1"}, "AUTO_RECORD"),
        error="unsupported",
    )
    yield Vector(
        "key-dialect.of-table-version",
        ["KEY-6"],
        "the releases that write these versions by default",
        ListOf([6, 8, 9]),
        ["split-filter", "indexOf", "indexOf"],
    )
    for dialect, rows in HASH_VALUES.items():
        yield from _hash_values(dialect, rows)
    plain = ["", "key1", "a,b", ",", "ключ", "😀", "c0a80101-0000-4000-8000-000000000001"]
    yield Vector(
        "hash-values.without-colon",
        ["KEY-5"],
        "BucketIdentifier.getHashKeys of Hudi 0.12.3, 0.15.0, 1.0.2 and 1.2.0",
        ListOf([_question(key, "id", dialect) for key in plain for dialect in HASH_VALUES]),
        [[key] for key in plain for _ in HASH_VALUES],
    )


def _question(key: object, fields: object, dialect: str) -> dict[str, object]:
    return {"key": key, "fields": str(fields).split(","), "dialect": dialect}


def _hash_values(dialect: str, rows: list[list[object]]) -> Iterator[Vector]:
    recipe = f"BucketIdentifier.getHashKeys of Hudi {RELEASE_OF_DIALECT[dialect]}"
    rule = _RULE_OF_DIALECT[dialect]
    read = [row for row in rows if isinstance(row[2], list)]
    yield Vector(
        f"hash-values.{dialect}",
        [rule, "KEY-5", "HASH-4", "DEV-9"],
        recipe,
        ListOf([_question(key, fields, dialect) for key, fields, _, _ in read]),
        [values for _, _, values, _ in read],
    )
    failed = [row for row in rows if not isinstance(row[2], list)]
    if failed:
        never = all(row[2] == "never" for row in failed)
        yield Vector(
            f"hash-values.{dialect}-{'never-returns' if never else 'fails'}",
            ["KEY-9", "DEV-10"] if never else [rule],
            f"{recipe}: {'not back after 3 seconds' if never else 'an exception'}",
            ListOf([_question(key, fields, dialect) for key, fields, _, _ in failed]),
            error="key-encoding",
        )
