"""Vectors of delete blocks."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from spec.vector_sources.files.logs import parse_blocks
from spec.vector_sources.vector import Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"
_RUN = "Hudi 0.15.0, 1.0.2, 1.1.1 and 1.2.0 (vector_sources/README.md)"

_TABLE: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parents[1] / "tables" / "delete_payloads.json").read_text()
)


def _delete(key: str | None, partition: str | None, kind: str, value: object) -> list[object]:
    return [key, partition, kind, value]


def _one(kind: str, value: object) -> list[list[object]]:
    return [_delete("k1", "p1", kind, value)]


_BY_VALUE = {
    "int0": _one("INT", 0),
    "int100": _one("INT", 100),
    "int-1": _one("INT", -1),
    "long5": _one("LONG", "5"),
    "long-big": _one("LONG", "1700000000000"),
    "double": _one("DOUBLE", 1.5),
    "float": _one("FLOAT", 1.5),
    "string": _one("STRING", "abc"),
    "string-empty": _one("STRING", ""),
    "bool": _one("BOOLEAN", True),
    "utf8": _one("STRING", "abc"),
    "sql-timestamp": _one("TIMESTAMP_MICROS", "1700000000123000"),
    "sql-date": _one("DATE", 19724),
    "array": _one("ARRAY", [["LONG", "5"], ["STRING", "abc"]]),
    "two-longs": [_delete("k1", "p1", "LONG", "5"), _delete("k2", "p1", "LONG", "6")],
}
_EXPECTED = {
    **{f"v2-{name}": value for name, value in _BY_VALUE.items()},
    **{f"v3-{name}": value for name, value in _BY_VALUE.items()},
    "v1-one-key": _one("INT", 0),
    "v1-two-keys": [*_one("INT", 0), _delete("key-ü", "p1", "INT", 0)],
    "v1-no-key": [],
    "v1-same-key-twice": [*_one("INT", 0), *_one("INT", 0)],
    "v1-empty-partition": [_delete("k1", "", "INT", 0)],
    "v1-one-character": [_delete("a", "b", "INT", 0)],
    "v1-long-strings": [
        _delete("a" * 63, "b" * 64, "INT", 0),
        _delete("c" * 65, "é" * 63, "INT", 0),
    ],
    "v1-shared-partition": [_delete("k1", "part", "INT", 0), _delete("k2", "part", "INT", 0)],
    "v2-big-decimal": _one("DECIMAL", "12.34"),
    "v3-big-decimal": _one("DECIMAL", "12.340000000000000"),
    "v2-big-integer": _one("BIG_INTEGER", "1234"),
    "v2-local-date": _one("LOCAL_DATE", 19724),
    "v2-instant": _one("INSTANT", "1700000000123000000"),
    "v2-two-longs-and-an-int": [
        _delete("k1", "p1", "LONG", "5"),
        _delete("k2", "p1", "LONG", "6"),
        _delete("k3", "p1", "INT", 7),
    ],
    "v2-two-int0": [_delete("k1", "p1", "INT", 0), _delete("k2", "p1", "INT", 0)],
    "v2-two-int100000": [_delete("k1", "p1", "INT", 100000), _delete("k2", "p1", "INT", 100000)],
}
_RULES = {
    "v1": ["DEL-1", "DEL-5", "DEL-11", "DEL-12", "DEL-14", "DEL-15"],
    "v2": ["DEL-1", "DEL-4", "DEL-11", "DEL-12", "DEL-16"],
    "v3": ["DEL-1", "DEL-4", "DEL-6", "DEL-9"],
}
_MORE_RULES = {
    "v3-big-decimal": ["DEL-7"],
    "v3-array": ["DEL-8"],
    "v1-shared-partition": ["DEL-14"],
    "v1-null-element": ["DEL-11"],
}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    contents = dict(_TABLE["contents"])
    for name, payload in _TABLE["kryo_payloads"].items():
        version = int(name[1])
        contents[name] = (struct.pack(">ii", version, len(payload) // 2).hex()) + payload
    for name, content in contents.items():
        only = ", 1.1.1 and later" if name.endswith("array") else ""
        only = ", the id of Utf8 is that of 1.2.0" if name == "v2-utf8" else only
        known = name in _EXPECTED
        yield Vector(
            f"delete-block.{name}",
            [*_RULES[name[:2]], *_MORE_RULES.get(name, [])],
            _RUN + only,
            bytes.fromhex(content),
            _EXPECTED.get(name),
            error=None if known else "corrupt",
        )
    utf8 = contents["v2-utf8"]
    for release, tag in (("0.15.0", "1e"), ("1.0.2", "2c"), ("1.1.1", "2d")):
        yield Vector(
            f"delete-block.v2-utf8-{release}",
            ["DEL-16"],
            f"Hudi {release}: only the class tag differs",
            bytes.fromhex(utf8.removesuffix("2e0104616263") + tag + "0104616263"),
            _one("STRING", "abc"),
        )
    yield from _golden()
    yield from _bad(contents)


def _golden() -> Iterator[Vector]:
    for version, name, start, what, expected in (
        ("1.2.0", "dms_mor", "eu/", "key-011", [_delete("key-011", "eu", "LONG", "12")]),
        ("1.2.0", "mor", "ap/.00000000", "key-000014", [_delete("key-000014", "ap", "INT", 0)]),
        ("0.15.0", "mor", "ap/.00000000", "key-000014", [_delete("key-000014", "ap", "INT", 0)]),
    ):
        table = golden(version, name)
        path, content = next(
            (path, block.content)
            for path in table.paths(start, contains=".log.")
            for block in parse_blocks(table.files[path])
            if block.block_type == "DELETE" and what.encode() in block.content
        )
        suffix = "dms-mor" if name == "dms_mor" else f"mor-{version}"
        yield Vector(
            f"delete-block.golden-{suffix}",
            ["DEL-1", "DEL-3", "DEL-5" if name == "mor" else "DEL-6", "DEL-9"],
            table.recipe(path, "content of its delete block"),
            content,
            expected,
        )


def _v2(contents: dict[str, str], ordering: str) -> bytes:
    """Return the vector v2-int0 with another ordering value, a class and what follows it."""
    return _kryo(contents["v2-int0"].removesuffix("0200") + ordering)


def _v3(payload: str) -> bytes:
    data = bytes.fromhex(payload)
    return struct.pack(">ii", 3, len(data)) + data


def _bad(contents: dict[str, str]) -> Iterator[Vector]:
    record = "02046b31" + "02047031" + "060a"
    yield Vector(
        "delete-block.v3-several-array-blocks",
        ["DEL-9"],
        _TEXT + ", after the Avro specification",
        _v3("02" + record + "01" + f"{len(record):02x}" + record + "00"),
        [_delete("k1", "p1", "LONG", "5"), _delete("k1", "p1", "LONG", "5")],
    )
    yield Vector(
        "delete-block.v3-nulls",
        ["DEL-6", "DEL-10"],
        _TEXT,
        _v3("04" + "00" + "00" + "00" + "02046b31" + "0200" + "0400" + "00"),
        [_delete(None, None, "NULL", None), _delete("k1", "", "INT", 0)],
    )
    yield Vector(
        "delete-block.v3-local-date-in-array",
        ["DEL-8"],
        _TEXT + ", after HoodieDeleteRecordList.avsc of Hudi 1.2.0",
        _v3("02" + "02046b31" + "02047031" + "18" + "02" + "02" + "18" + "98b402" + "00" + "00"),
        _one("ARRAY", [["LOCAL_DATE", 19724]]),
    )
    for name, rules, ordering, expected in (
        ("bytes", ["DEL-6"], "0c" + "06" + "00ff41", ["BYTES", "00ff41"]),
        ("time-micros", ["DEL-6"], "14" + "82b5b3a31b", ["TIME_MICROS", "3661000001"]),
        ("float-nan", ["DEL-6"], "08" + "0000c07f", ["FLOAT", "NaN"]),
        ("double-infinite", ["DEL-6"], "0a" + "000000000000f0ff", ["DOUBLE", "-Infinity"]),
        ("long-least", ["DEL-6", "DEL-9"], "06" + "ff" * 9 + "01", ["LONG", str(-(2**63))]),
        (
            "array-of-array-blocks",
            ["DEL-8", "DEL-9"],
            "1802" + "01040402" + "00",
            ["ARRAY", [["INT", 1]]],
        ),
    ):
        yield Vector(
            f"delete-block.v3-{name}",
            rules,
            _TEXT + ", after HoodieDeleteRecordList.avsc of Hudi 1.2.0",
            _v3("02" + "02046b31" + "02047031" + ordering + "00"),
            _one(*expected),
        )
    for name, rules, ordering, expected in (
        ("null", ["DEL-16"], "00", ["NULL", None]),
        ("null-reference", ["DEL-16"], "0300", ["NULL", None]),
        ("int-least", ["DEL-16"], "02" + "ffffffff0f", ["INT", -(2**31)]),
        ("long-least", ["DEL-16"], "09" + "ff" * 9, ["LONG", str(-(2**63))]),
        (
            "timestamp-before-1970",
            ["DEL-16"],
            "0103" + _ascii("java.sql.Timestamp") + "01" + "ff" * 9,
            ["TIMESTAMP_MICROS", "-1000"],
        ),
        (
            "big-decimal-of-negative-scale",
            ["DEL-16"],
            "0103" + _ascii("java.math.BigDecimal") + "01" + "02" + "ff" + "03",
            ["DECIMAL", "-1E+2"],
        ),
    ):
        yield Vector(
            f"delete-block.v2-{name}", rules, _TEXT, _v2(contents, ordering), _one(*expected)
        )
    java_bad = {
        "boolean-2": ("corrupt", "DEL-16", "0502"),
        "int-of-six-bytes": ("corrupt", "DEL-16", "02" + "80" * 5 + "01"),
        "class-of-six-bytes": ("corrupt", "DEL-11", "80" * 5 + "01"),
        "class-id-5": ("unsupported", "DEL-13", "0700"),
        "key-as-ordering-value": ("corrupt", "DEL-13", "010201" + "00"),
        "scale-77": (
            "unsupported",
            "DEL-16",
            "0103" + _ascii("java.math.BigDecimal") + "01" + "0201" + "9a01",
        ),
        "number-of-33-bytes": (
            "unsupported",
            "DEL-16",
            "0103" + _ascii("java.math.BigInteger") + "01" + "22" + "01" * 33,
        ),
        "nanoseconds-of-a-second": (
            "corrupt",
            "DEL-16",
            "0103" + _ascii("java.time.Instant") + "01" + "00" + "8094ebdc03",
        ),
        "string-of-length-minus-one": ("corrupt", "DEL-15", "030180"),
        "utf8-of-no-text": (
            "corrupt",
            "DEL-16",
            "0103" + _ascii("org.apache.avro.util.Utf8") + "01" + "02" + "ff",
        ),
        "month-13": (
            "corrupt",
            "DEL-16",
            "0103" + _ascii("java.time.LocalDate") + "01" + "e80f" + "0d01",
        ),
    }
    for name, (error, rule, ordering) in java_bad.items():
        yield Vector(f"delete-block.v2-{name}", [rule], _TEXT, _v2(contents, ordering), error=error)
    bad = {
        "v3-key-of-no-text": (
            "corrupt",
            "DEL-9",
            _v3("02" + "0202ff" + "02047031" + "0400" + "00"),
        ),
        "version-0": ("corrupt", "DEL-2", bytes.fromhex("0000000000000000")),
        "version-negative": ("corrupt", "DEL-2", bytes.fromhex("ffffffff00000000")),
        "version-4": ("unsupported", "DEL-2", bytes.fromhex("000000040000000100")),
        "payload-short": ("truncated", "DEL-1", bytes.fromhex("000000030000000200")),
        "payload-long": ("corrupt", "DEL-1", bytes.fromhex("00000003000000010000")),
        "payload-negative": ("corrupt", "DEL-1", bytes.fromhex("00000003ffffffff")),
        "v3-bytes-behind": ("corrupt", "DEL-1", _v3("0000")),
        "v3-branch-13": ("corrupt", "DEL-6", _v3("02" + "02046b31" + "02047031" + "1a00" + "00")),
        "v3-text-branch-2": (
            "corrupt",
            "DEL-9",
            _v3("02" + "04046b31" + "02047031" + "0400" + "00"),
        ),
        "v3-block-size": ("corrupt", "DEL-9", _v3("01" + "16" + record + "00")),
        "v3-long-varint": (
            "corrupt",
            "DEL-9",
            _v3("02" + "02046b31" + "02047031" + "06" + "80" * 10 + "01" + "00"),
        ),
        "v3-int-of-33-bits": (
            "corrupt",
            "DEL-9",
            _v3("02" + "02046b31" + "02047031" + "04" + "8080808010" + "00"),
        ),
        "v3-count-of-2-to-the-62": ("truncated", "DEL-18", _v3("80" * 8 + "8001" + "00")),
        "v1-count": (
            "truncated",
            "DEL-18",
            _kryo(contents["v1-no-key"].removesuffix("01") + "ffffffff07"),
        ),
        "v1-reference-ahead": (
            "corrupt",
            "DEL-14",
            _kryo(contents["v1-one-key"].replace("010170b1016bb1", "010970b1016bb1")),
        ),
        "v1-half-a-surrogate-pair": (
            "corrupt",
            "DEL-15",
            _kryo(contents["v1-one-key"].removesuffix("016bb1") + "0182eda080"),
        ),
    }
    for name, (error, rule, data) in bad.items():
        yield Vector(f"delete-block.{name}", [rule], _TEXT, data, error=error)
    gadgets = {
        "runtime": "java.lang.Runtime",
        "gadget": "javax.management.BadAttributeValueExpException",
        "map": "java.util.HashMap",
    }
    for name, java_class in gadgets.items():
        yield Vector(
            f"delete-block.foreign-class-{name}",
            ["DEL-13", "DEV-20"],
            _TEXT,
            _kryo("0000000200000000" + "0100" + _ascii(java_class) + "01ff"),
            error="unsupported",
        )
    date = contents["v2-sql-date"]
    yield Vector(
        "delete-block.v2-sql-date-of-another-zone",
        ["DEL-17"],
        "the vector v2-sql-date, one hour later",
        bytes.fromhex(date.removesuffix("80a0e1bbcc31") + "80fdbcbdcc31"),
        error="unsupported",
    )


def _ascii(text: str) -> str:
    data = bytearray(text.encode())
    data[-1] |= 0x80
    return data.hex()


def _kryo(content: str) -> bytes:
    """Return the content with its length put right."""
    data = bytes.fromhex(content)
    return data[:4] + struct.pack(">i", len(data) - 8) + data[8:]
