"""Vectors of the Java hashes and of bucket ids."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import pyarrow.parquet as pq

from spec.vector_sources.buckets.keys import HASH_VALUES, RELEASE_OF_DIALECT
from spec.vector_sources.vector import ListOf, Vector, golden

__all__ = ["vectors"]


def vectors() -> Iterator[Vector]:
    """Yield them."""
    # "".hashCode() and so on; the last two are worked out in the text
    yield Vector(
        "java-string-hash.key",
        ["HASH-1"],
        "String.hashCode of Java; UTF-16 units of key-000128, low byte first",
        "key-000128".encode("utf-16-le"),
        _string_hash("key-000128"),
    )
    yield Vector(
        "java-string-hash.surrogates",
        ["HASH-1"],
        "String.hashCode of Java; list hash 1772930 is 31 + this",
        "😀".encode("utf-16-le"),
        1772899,
    )
    lists = {
        (): 1,
        ("",): 31,
        (None,): 31,
        ("key1",): 3288529,
        ("abc",): 96385,
        ("1", "x"): 2600,
        ("1", None): 2480,
        ("1", ""): 2480,
        ("id:key1",): 1618373840,
        ("id:1,k2:x",): -1234476322,
        ("2014-10-22 13:50:42",): -2011593182,
        ("ключ",): 33309913,
        ("😀",): 1772930,
        ("c0a80101-0000-4000-8000-000000000001",): -46826358,
        ("1,2",): 48534,
        ("a", "b"): 4066,
    }
    yield Vector(
        "java-list-hash.values",
        ["HASH-1", "HASH-2"],
        "List.hashCode of Java, by BucketIdentifier of Hudi 0.15.0, 1.0.2, 1.1.1 and 1.2.0",
        ListOf([list(values) for values in lists]),
        list(lists.values()),
    )
    for dialect, rows in HASH_VALUES.items():
        read = [row for row in rows if isinstance(row[3], int)]
        numbers = (4, 10, 256, 99999999)
        yield Vector(
            f"bucket-id.{dialect}",
            ["HASH-2", "HASH-3", "HASH-4"],
            f"BucketIdentifier.getHashKeys(...).hashCode() of Hudi {RELEASE_OF_DIALECT[dialect]}",
            ListOf(
                [
                    {
                        "key": key,
                        "fields": str(fields).split(","),
                        "dialect": dialect,
                        "num_buckets": n,
                    }
                    for key, fields, _, _ in read
                    for n in numbers
                ]
            ),
            [(hash_value & 0x7FFFFFFF) % n for *_, hash_value in read for n in numbers],
        )
    for version in ("0.15.0", "1.0.2", "1.2.0"):
        yield _placed(version, "nonpart", ["id"])
        yield _placed(version, "complexkey", ["id"], rows=40)
    yield Vector(
        "infer-num-buckets.examples",
        ["HASH-10", "HASH-6"],
        "written for this text",
        ListOf(
            [
                {"hashes": [12, 25, 38, 51], "buckets": [0, 1, 2, 3], "largest_bucket": 3},
                {"hashes": [12, 24, 36], "buckets": [0, 0, 0], "largest_bucket": 0},
                {"hashes": [7, 14], "buckets": [0, 0], "largest_bucket": 6},
                {"hashes": [9, 10], "buckets": [0, 0], "largest_bucket": 0},
                {"hashes": [9, 10], "buckets": [0, 0], "largest_bucket": 1},
                {"hashes": [], "buckets": [], "largest_bucket": 3},
                # the low 31 bits of the first two are 7 and 14, of the others 6 and 13
                {"hashes": [-2147483641, -2147483634], "buckets": [0, 0], "largest_bucket": 6},
                {"hashes": [-2147483642, -2147483635], "buckets": [6, 6], "largest_bucket": 6},
            ]
        ),
        # 12, 24, 36, 48 have the divisors 4, 6 and 12 above 3; 12 has 1, 2, 3, 4, 6 and 12 above 0
        [None, None, 7, 1, None, None, 7, 7],
    )


def _placed(version: str, name: str, hash_fields: list[str], rows: int = 1000) -> Vector:
    """Where real Hudi put real keys."""
    table = golden(version, name)
    placed: dict[str, int] = {}
    for path in table.paths(end=".parquet"):
        column = pq.read_table(BytesIO(table.files[path]), columns=["_hoodie_record_key"])[0]
        bucket = int(path.rpartition("/")[2][:8])
        placed |= dict.fromkeys(column.to_pylist(), bucket)
    keys = sorted(placed)[:rows]
    dialect = "split-filter" if version == "0.15.0" else "indexOf"
    return Vector(
        f"bucket-id.golden-{name}-{version}",
        ["HASH-3", "KEY-6", "NAME-10", "KEY-7" if version == "0.15.0" else "KEY-8"],
        f"Hudi {version}, table {name} (tests/data): keys of the base files of each bucket",
        ListOf(
            [
                {"key": key, "fields": hash_fields, "dialect": dialect, "num_buckets": 4}
                for key in keys
            ]
        ),
        [placed[key] for key in keys],
    )


def _string_hash(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
