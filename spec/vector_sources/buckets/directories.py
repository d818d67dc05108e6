"""Vectors of extendible hashing."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector

__all__ = ["vectors"]

_TEXT = "written for this text"
_HASHES = "hash values of ring-hash.values, which Hudi computed, by the rules of this text"
_FIRST = "00000000000000"

# ring-hash.values
_KEYS = {"key0": 1116801245, "key1": 133378825, "key2": 2072764077, "key3": 1714674663}


def _prefix(number: int) -> str:
    return f"e{number:07x}-0000-4000-8000-000000000000"


def _bucket(number: int, depth: int, prefix: int | None = None) -> dict[str, object]:
    own = number if prefix is None else prefix
    return {"bucketId": number, "localDepth": depth, "fileIdPrefix": _prefix(own)}


_DIRECTORY = [_bucket(0, 3), _bucket(1, 1), _bucket(2, 2), _bucket(4, 3)]
_ENTRIES = [0, 1, 2, 1, 4, 1, 2, 1]


def _metadata(**changes: object) -> dict[str, object]:
    return {
        "version": 0,
        "partitionPath": "us",
        "instant": _FIRST,
        "numBuckets": 2,
        "seqNo": 0,
        "globalDepth": 3,
        "buckets": _DIRECTORY,
        **changes,
    }


def _without(name: str) -> dict[str, object]:
    return {key: value for key, value in _metadata().items() if key != name}


def _initial(partition: str, depth: int) -> list[dict[str, object]]:
    buckets = []
    for number in range(1 << depth):
        name = depth.to_bytes(8, "big") + number.to_bytes(8, "big") + partition.encode()
        text = str(uuid.UUID(bytes=hashlib.md5(name).digest(), version=3))  # noqa: S324
        own = {"bucketId": number, "localDepth": depth, "fileIdPrefix": f"e{text[1:]}"}
        buckets.append(own)
    return buckets


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield Vector(
        "directory-entries.cases",
        ["EXT-1", "EXT-2", "EXT-3"],
        _TEXT,
        ListOf([_DIRECTORY, [_bucket(0, 0)], [_bucket(0, 1), _bucket(1, 1)]]),
        [_ENTRIES, [0], [0, 1]],
    )
    yield Vector(
        "directory-bucket-of-key.indexOf",
        ["EXT-1", "EXT-2"],
        _HASHES,
        ListOf(
            [
                {"key": key, "fields": ["id"], "dialect": "indexOf", "buckets": _DIRECTORY}
                for key in _KEYS
            ]
        ),
        [_ENTRIES[hashed % 8] for hashed in _KEYS.values()],
    )
    for partition, depth in (("", 0), ("2024/01", 2), ("p=ü", 1)):
        name = {"": "unpartitioned", "2024/01": "slashes"}.get(partition, "unicode")
        document = {
            **_metadata(partitionPath=partition, numBuckets=1 << depth, globalDepth=depth),
            "buckets": _initial(partition, depth),
        }
        yield Vector(
            f"initial-extendible-metadata.{name}",
            ["EXT-4", "EXT-5", "EXT-6", "EXT-7"],
            _TEXT,
            {"partition_path": partition, "num_buckets": 1 << depth},
            document,
        )
    yield from _resizing()
    yield from _files()


def _resizing() -> Iterator[Vector]:
    prefixes = [_prefix(100), _prefix(101)]
    one, two = [_bucket(0, 0)], [_bucket(0, 1), _bucket(1, 1)]
    deepest = [*(_bucket(1 << depth, depth + 1, depth + 1) for depth in range(31))]
    yield Vector(
        "directory-split.cases",
        ["EXT-10"],
        _TEXT,
        ListOf(
            [
                {"buckets": buckets, "bucket_id": number, "prefixes": prefixes}
                for buckets, number in (
                    (one, 0),
                    (two, 1),
                    (_DIRECTORY, 1),
                    (_DIRECTORY, 4),
                    ([_bucket(0, 31), *deepest], 0),
                )
            ]
        ),
        [
            [_bucket(0, 1, 100), _bucket(1, 1, 101)],
            [_bucket(0, 1), _bucket(1, 2, 100), _bucket(3, 2, 101)],
            [
                _bucket(0, 3),
                _bucket(1, 2, 100),
                _bucket(2, 2),
                _bucket(3, 2, 101),
                _bucket(4, 3),
            ],
            [
                _bucket(0, 3),
                _bucket(1, 1),
                _bucket(2, 2),
                _bucket(4, 4, 100),
                _bucket(12, 4, 101),
            ],
            None,
        ],
    )
    yield Vector(
        "directory-merge.cases",
        ["EXT-11"],
        _TEXT,
        ListOf(
            [
                {"buckets": buckets, "bucket_id": number, "prefix": prefixes[0]}
                for buckets, number in (
                    (two, 0),
                    (two, 1),
                    (_DIRECTORY, 4),
                    (_DIRECTORY, 1),
                    (_DIRECTORY, 2),
                    (one, 0),
                )
            ]
        ),
        [
            [_bucket(0, 0, 100)],
            [_bucket(0, 0, 100)],
            [_bucket(0, 2, 100), _bucket(1, 1), _bucket(2, 2)],
            None,
            None,
            None,
        ],
    )


def _files() -> Iterator[Vector]:
    rules = ["EXT-2", "EXT-3", "EXT-6", "EXT-7"]
    later = _metadata(instant="20261122030405678", seqNo=3)
    yield Vector("extendible-metadata.golden", rules, _TEXT, json.dumps(_metadata()), _metadata())
    yield Vector(
        "extendible-metadata.unknown-properties",
        ["EXT-6"],
        _TEXT,
        json.dumps({"later": {"buckets": []}, **later}),
        later,
    )
    yield Vector(
        "extendible-metadata-text.golden",
        ["EXT-6"],
        _TEXT,
        _metadata(globalDepth=0, buckets=[_bucket(0, 0)]),
        '{\n  "version" : 0,\n  "partitionPath" : "us",\n  "instant" : "00000000000000",\n'
        '  "numBuckets" : 2,\n  "seqNo" : 0,\n  "globalDepth" : 0,\n  "buckets" : [ {\n'
        '    "bucketId" : 0,\n    "localDepth" : 0,\n'
        '    "fileIdPrefix" : "e0000000-0000-4000-8000-000000000000"\n  } ]\n}',
    )
    yield Vector(
        "extendible-metadata.version",
        ["EXT-6"],
        _TEXT,
        json.dumps(_metadata(version=1)),
        error="unsupported",
    )
    yield Vector(
        "extendible-metadata.depth",
        ["EXT-3"],
        _TEXT,
        ListOf(
            [
                json.dumps(_metadata(globalDepth=depth, buckets=buckets))
                for depth, buckets in (
                    (31, [_bucket(0, 31), *(_bucket(1 << n, n + 1, n + 1) for n in range(31))]),
                    (21, [_bucket(0, 21)]),
                    (1, [_bucket(1, 1), _bucket(0, 31)]),
                )
            ]
        ),
        error="limit",
    )
    digit = {**_bucket(0, 0), "fileIdPrefix": "00000000-0000-4000-8000-000000000000"}
    yield Vector(
        "extendible-metadata.corrupt",
        ["EXT-2", "EXT-3", "EXT-4", "EXT-6"],
        _TEXT,
        ListOf(
            [
                "",
                "[]",
                json.dumps(_metadata())[:-1] + ',"seqNo":1}',
                *(json.dumps(_without(name)) for name in _metadata()),
                *(
                    json.dumps(_metadata(**changes))
                    for changes in (
                        {"globalDepth": 4},
                        {"globalDepth": 32},
                        {"instant": "1"},
                        {"seqNo": -1},
                        {"numBuckets": "2"},
                        {"partitionPath": None},
                    )
                ),
                *(
                    json.dumps(_metadata(globalDepth=depth, buckets=buckets))
                    for depth, buckets in (
                        (0, []),
                        (1, [_bucket(0, 1)]),
                        (1, [_bucket(1, 1), _bucket(0, 1)]),
                        (1, [_bucket(0, 1), _bucket(1, 1, 0)]),
                        (1, [_bucket(0, 0), _bucket(1, 1)]),
                        (2, [_bucket(0, 1), _bucket(1, 2)]),
                        (1, [_bucket(0, 1), _bucket(2, 1)]),
                        (1, [_bucket(0, 1), _bucket(1, 1), _bucket(2, 1)]),
                        (1, [_bucket(0, 1), _bucket(0, 1, 1), _bucket(1, 1, 2)]),
                        (2, [_bucket(0, 1), _bucket(2, 2), _bucket(1, 1)]),
                        (0, [digit]),
                        (0, [{**_bucket(0, 0), "fileIdPrefix": "../" + _prefix(0)[3:]}]),
                        (0, [{**_bucket(0, 0), "localDepth": -1}]),
                        (0, [{**_bucket(0, 0), "fileIdPrefix": None}]),
                    )
                ),
            ]
        ),
        error="corrupt",
    )
    a, b = "20261122030405678", "20261122030405679"
    yield Vector(
        "extendible-metadata-choice.cases",
        ["EXT-8"],
        _TEXT,
        ListOf(
            [
                {"instants": instants, "visible": visible}
                for instants, visible in (
                    ([], []),
                    ([_FIRST], []),
                    ([_FIRST, a], []),
                    ([_FIRST, a], [a]),
                    ([b, a, _FIRST], [a]),
                    ([b, a, _FIRST], [a, b]),
                    ([a], []),
                )
            ]
        ),
        [None, _FIRST, _FIRST, a, a, b, None],
    )
