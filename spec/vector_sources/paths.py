"""Vectors of paths, partition paths, partition metafiles and the lease of a table."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"
_HIVE = "__HIVE_DEFAULT_PARTITION__"

_SAFE = [
    "",
    "us",
    "region=us%2Fca/day=2024-01-01",
    f"region={_HIVE}",
    "2024/01/01",
    "region=100%",
    "a=1.5/b=..x/c=x../d=.hidden",
    "東京/ß/😀",
    "time/10:11:12",
    "region=eu/00000001-f9a8-4fb7-810c-5012d10e8c12-1_1-4997-0_20261121074928349.parquet",
]
_UNSAFE = [
    "..",
    "../x",
    "a/../b",
    ".",
    "a/./b",
    "a/.. /b",
    "/etc/passwd",
    "//host/share",
    "a//b",
    "a/",
    "a\\..\\b",
    "C:/x",
    "s3://bucket/x",
    "file:/x",
    "a\x00b",
    "a\nb",
]
_HIDDEN = [
    "%2e%2e/x",
    "a/%2E%2E",
    "a%2F..%2Fb",
    "%2e",
    "a/..%2f..",
    "．．/x",
    "a/‥",
    "%2e．",
]

_PARTITIONS: list[tuple[list[str | None], list[str], bool, bool, str]] = [
    ([], [], False, False, ""),
    (["us"], ["region"], False, False, "us"),
    (["us"], ["region"], True, False, "region=us"),
    (["us", "1"], ["region", "day"], True, False, "region=us/day=1"),
    ([None], ["region"], True, True, f"region={_HIVE}"),
    (["us", None], ["region", "day"], False, False, f"us/{_HIVE}"),
    (["us/ca"], ["region"], True, True, "region=us%2Fca"),
    (["us/ca"], ["region"], False, False, "us/ca"),
    (["x/y", "z"], ["p", "q"], False, True, "x%2Fy/z"),
    (["x", "y/z"], ["p", "q"], False, True, "x/y%2Fz"),
    (["a=b", "x y"], ["r", "s"], True, False, "r=a=b/s=x y"),
]

_STYLES = [(False, False), (True, False), (False, True), (True, True)]  # hive style, URL-encoded

# PartitionPathEncodeUtils.escapePathName
_ESCAPES = {
    "us/ca": "us%2Fca",
    "a b&c": "a b&c",
    "100%": "100%25",
    "10:11": "10%3A11",
    "k=v": "k%3Dv",
    "\"#'*?\\{[]^": "%22%23%27%2A%3F%5C%7B%5B%5D%5E",
    "}_-.~": "}_-.~",
    "\x01\t\n\x1f\x7f": "%01%09%0A%1F%7F",
    "日本ß": "日本ß",
}


def _partition(
    values: list[str | None], fields: list[str], hive_style: bool, url_encoded: bool
) -> dict[str, object]:
    layout = {"fields": fields, "hive_style": hive_style, "url_encoded": url_encoded}
    return {"values": values, **layout}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield Vector("relative-path.safe", ["PATH-1", "PATH-4"], _TEXT, ListOf(_SAFE), _SAFE)
    yield Vector("relative-path.unsafe", ["PATH-1"], _TEXT, ListOf(_UNSAFE), error="unsafe-path")
    yield Vector("relative-path.hidden", ["PATH-2"], _TEXT, ListOf(_HIDDEN), error="unsafe-path")
    longest = "ß" * 2048
    yield Vector("relative-path.longest", ["PATH-3"], _TEXT, longest, longest)
    yield Vector("relative-path.too-long", ["PATH-3"], _TEXT, "x" + longest, error="limit")
    yield Vector(
        "partition-path.made",
        ["PATH-5", "PATH-6", "PATH-7"],
        "KeyGenUtils.getRecordPartitionPath, as read in its source",
        ListOf([_partition(*row[:4]) for row in _PARTITIONS]),
        [row[4] for row in _PARTITIONS],
    )
    yield Vector(
        "partition-path.unsafe-values",
        ["PATH-10"],
        _TEXT,
        ListOf(
            [
                *(_partition([v], ["r"], False, False) for v in ("..", "a//b", "/a", "a\\b")),
                *(_partition([v], ["r"], False, False) for v in (".hoodie", "a/.hoodie")),
                _partition([".hoodie"], ["r"], False, True),
                _partition([".hoodie", "a"], ["r", "s"], False, False),
            ]
        ),
        error="unsafe-path",
    )
    yield Vector(
        "partition-path.of-other-values",
        ["PATH-13", "DEV-31"],
        _TEXT,
        ListOf(
            [
                *(_partition([v], ["r"], hive, url) for v in ("", _HIVE) for hive, url in _STYLES),
                *(_partition(["us", v], ["r", "s"], True, True) for v in ("", _HIVE)),
                *(_partition(v, ["p", "q"], False, False) for v in (["x/y", "z"], ["x", "y/z"])),
                *(_partition(v, ["p", "q"], True, False) for v in (["x/q=y", "z"], ["x", "y/q=z"])),
                _partition(["x/y", None], ["p", "q"], False, False),
            ]
        ),
        error="key-encoding",
    )
    yield Vector(
        "partition-values.read",
        ["PATH-5", "PATH-6", "PATH-7", "PATH-8"],
        "the inverse of partition-path.made",
        ListOf([{**_partition(*row[:4]), "values": None, "path": row[4]} for row in _PARTITIONS]),
        [row[0] for row in _PARTITIONS],
    )
    misfits = [
        ("us", [], False),
        ("", ["region"], False),
        ("", ["region"], True),
        ("", ["region", "day"], False),
        ("region", ["region"], True),
        ("us", ["region", "day"], False),
        ("us/1/2", ["region", "day"], False),
        ("us", ["region"], True),
        ("day=1/region=us", ["region", "day"], True),
    ]
    yield Vector(
        "partition-values.misfits",
        ["PATH-8"],
        _TEXT,
        ListOf(
            [
                {"path": path, "fields": fields, "hive_style": hive, "url_encoded": False}
                for path, fields, hive in misfits
            ]
        ),
        error="corrupt",
    )
    yield Vector(
        "partition-escape.hive",
        ["PATH-7"],
        "PartitionPathEncodeUtils.escapePathName (judge/Decisions.java, Hudi 1.2.0)",
        ListOf(list(_ESCAPES)),
        list(_ESCAPES.values()),
    )
    unescaped = {escaped: text for text, escaped in _ESCAPES.items()}
    lenient = {"%2f%3a": "/:", "100%": "100%", "%zz%2": "%zz%2", "%e9": "é"}
    yield Vector(
        "partition-unescape.lenient",
        ["PATH-7"],
        "PartitionPathEncodeUtils.unescapePathName (judge/Decisions.java, Hudi 1.2.0)",
        ListOf([*unescaped, *lenient]),
        [*unescaped.values(), *lenient.values()],
    )
    for name in ("us", "unpartitioned"):
        table = golden("1.2.0", "cow" if name == "us" else "nonpart")
        path = ("us/" if name == "us" else "") + ".hoodie_partition_metadata"
        lines = dict(line.split("=") for line in table.files[path].decode().split("\n")[2:-1])
        yield Vector(
            f"partition-metadata.{name}",
            ["PATH-12"],
            table.recipe(path),
            table.files[path],
            {
                "commit_time": lines["commitTime"],
                "partition_depth": int(lines["partitionDepth"]),
            },
        )
    yield Vector(
        "partition-metadata.incomplete",
        ["PATH-12"],
        _TEXT,
        ListOf(["", "commitTime=1\n", "partitionDepth=1\n", "commitTime=1\npartitionDepth=x\n"]),
        error="corrupt",
    )
    owner = "1f0c7a52-53c8-4f0e-9a53-3a5f0d6f3b11"
    held, released = (
        f'{{"expired":{told},"validUntil":1764525600123,"owner":"{owner}"}}'
        for told in ("false", "true")
    )
    yield Vector(
        "table-lease.held-and-released",
        ["WRITE-13"],
        "StorageLockData as Jackson writes it (Hudi 1.2.0)",
        ListOf([held, released, held.replace(":", " : ").replace(",", ",\n")]),
        [
            {"expired": told, "valid_until": "1764525600123", "owner": owner}
            for told in (False, True, False)
        ],
    )
    yield Vector(
        "table-lease.no-lease",
        ["WRITE-13"],
        _TEXT,
        ListOf(
            [
                "",
                "{}",
                "[]",
                held[:-1],
                held.replace("false", "null"),
                held.replace("1764525600123", '"1764525600123"'),
                held.replace("1764525600123", "9223372036854775808"),
                held.replace(f'"{owner}"', "null"),
            ]
        ),
        error="corrupt",
    )
