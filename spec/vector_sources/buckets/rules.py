"""Vectors of partition rules and of index settings."""

from __future__ import annotations

import json
from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"
_FOLDER = ".hoodie/.bucket_index/partition_bucket_index_meta/configs/"


# within the subset of PBR-5: found by java.util.regex of Java 17, and not found
_FOUND = [
    ("us", "^(us|eu)$"),
    ("aab", "^a{2}b$"),
    ("us/ca", "[^/]+/ca"),
    ("us", "(?:us|eu)$"),
    ("us", "(?=us)us"),
    ("a/ca", "(?<=/)ca"),
    ("aa", r"^(.)\1$"),
    ("a.b", r"a\.b"),
    ("xxy", "x*?y"),
    ("a-", "^[a-c-]{2}$"),
    ("a]}", "a]}"),
    ("b", "[^^]"),
    ("a^", "[a^]{2}"),
    ("a b", r"a\ b"),
    ("aaaa", "^(a{2})*$"),
    ("ab", "^(a?b)?$"),
    ("é", r"^\W$"),
    ("😀", "^.$"),
    ("a", "^^a$$"),
    ("x", "a|"),
    ("a_9", r"^\w{3}$"),
    ("a", "a{0}"),
]
_NOT_FOUND = [
    ("A", "a"),
    ("us", "^s"),
    ("us", "(?!us)^"),
    ("us", "(?<!u)s"),
    ("٣", r"\d"),
    ("é", r"\w"),
    ("a/b", "^[^/]+$"),
    ("aaa", "^(a{2})*$"),
]
_NOT_IN_SUBSET = [
    *(
        "(?i)US",
        r"\p{Lu}",
        r"\bus",
        r"\Qus\E",
        "(?<n>us)",
        "(?>us)",
        "(?#x)us",
        "u++",
        "u?+",
        "u{2",
    ),
    *(
        "[a&&u]",
        "[[u]]",
        "[]u]",
        "[]",
        "[u",
        r"\x75",
        r"\u0075",
        r"\0",
        r"(u)\11",
        r"\1(u)",
        r"\cA",
    ),
    *("(", ")", "*u", "u**", "(u|s)*", "(u+)+$", "(u?s)+", "((u|s)){2}", "(?<=u*)s", "u{10000}"),
    "u" * 257,
]


def _question(path: str, expressions: str, rule: str = "regex") -> dict[str, object]:
    return {"path": path, "expressions": expressions, "default": 2, "rule": rule}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    table = golden("1.2.0", "partrules")
    first, second = table.paths(_FOLDER)
    for name, path in (("first", first), ("second", second)):
        yield Vector(
            f"hashing-config.{name}",
            ["PBR-1"],
            table.recipe(path),
            table.files[path],
            json.loads(table.files[path]),
        )
        yield Vector(
            f"hashing-config-text.{name}",
            ["PBR-1"],
            table.recipe(path),
            json.loads(table.files[path]),
            table.files[path].decode(),
        )
    yield Vector(
        "hashing-config.unknown-properties",
        ["PBR-1"],
        _TEXT,
        '{"note":1,"instant":"00000000000000","version":1,"rule":"regex","defaultBucketNumber":2,'
        '"expressions":""}',
        {
            "expressions": "",
            "defaultBucketNumber": 2,
            "rule": "regex",
            "version": 1,
            "instant": "00000000000000",
        },
    )
    yield Vector(
        "hashing-config.defaults",
        ["PBR-1"],
        _TEXT,
        '{"defaultBucketNumber":1,"expressions":"a,1","defaultBucketNumber":2}',
        {
            "expressions": "a,1",
            "defaultBucketNumber": 2,
            "rule": "regex",
            "version": 1,
            "instant": "00000000000000",
        },
    )
    yield Vector(
        "hashing-config.corrupt",
        ["PBR-1"],
        _TEXT,
        ListOf(
            [
                *("", "[]", "{", '{"expressions":"a,1"}', '{"defaultBucketNumber":2}'),
                *(
                    f'{{"expressions":"","defaultBucketNumber":2,{more}}}'
                    for more in (
                        '"expressions":1',
                        '"expressions":null',
                        '"defaultBucketNumber":2147483648',
                        '"defaultBucketNumber":2.5',
                        '"rule":null',
                        '"version":"1"',
                        '"instant":"x"',
                        '"instant":"2026"',
                    )
                ),
            ]
        ),
        error="corrupt",
    )
    asked = [
        (_question("p=2024-01-01", "2024-01,3;2024-02,1"), 3),
        (_question("p=2024-02-01", "2024-01,3;2024-02,1"), 1),
        (_question("p=2025-01-01", "2024-01,3;2024-02,1"), 2),
        (_question("a", "^a$,5;b,3"), 5),
        (_question("ab", "^a$,5;b,3"), 3),
        (_question("us", " us , 8 ; eu , 4 ;;"), 8),
        (_question("us/ca", "us,1;us/ca,7"), 1),
        (_question("x", "x,-1"), 2),
        (_question("us", "us,8", "REGEX"), 8),
        (_question("d=15", r"d=\d{2}$,4"), 4),
        (_question("us", ",4"), 4),
        *((_question(path, f"{pattern},7"), 7) for path, pattern in _FOUND),
        *((_question(path, f"{pattern},7"), 2) for path, pattern in _NOT_FOUND),
    ]
    yield Vector(
        "partition-buckets.rules",
        ["PBR-3", "PBR-4", "PBR-5", "PBR-6"],
        "PartitionBucketIndexCalculator.computeNumBuckets (judge/Decisions.java, Hudi 1.2.0)",
        ListOf([question for question, _ in asked]),
        [number for _, number in asked],
    )
    yield Vector(
        "partition-buckets.corrupt",
        ["PBR-3", "PBR-6"],
        _TEXT,
        ListOf(
            [
                _question("us", "us"),
                _question("us", "us,1;us"),
                _question("us", "us,x;(,1"),
                _question("us", "us,x"),
                _question("us", "us,1,2"),
                _question("us", "us,0"),
                _question("us", "us,-2"),
            ]
        ),
        error="corrupt",
    )
    yield Vector(
        "partition-buckets.too-many",
        ["PBR-6", "HASH-6"],
        _TEXT,
        ListOf([_question("us", f"us,{n}") for n in ("100000000", "2147483647")]),
        error="limit",
    )
    yield Vector(
        "partition-buckets.unsupported",
        ["PBR-5", "PBR-6", "DEV-24"],
        _TEXT,
        ListOf(
            [
                _question("us", "us,1", "range"),
                _question("us", "us,1;(,2"),
                _question("us", "(,1;us,x"),
                *(_question("us", f"{pattern},1") for pattern in _NOT_IN_SUBSET),
                *(_question(f"u{end}s", "us,1") for end in "\n\r\x85\u2028\u2029"),
            ]
        ),
        error="unsupported",
    )
    configs = [first.rpartition("/")[2], second.rpartition("/")[2]]
    instants = [name.removesuffix(".hashing_config") for name in configs]
    chosen: list[tuple[dict[str, object], str | None]] = [
        ({"instants": instants, "pending": []}, instants[1]),
        ({"instants": instants, "pending": [instants[1]]}, instants[0]),
        ({"instants": instants, "pending": instants}, None),
        ({"instants": [], "pending": []}, None),
        ({"instants": instants, "pending": [], "as_of": instants[0]}, instants[0]),
        ({"instants": instants, "pending": [], "as_of": "2"}, None),
        (
            {"instants": instants, "pending": [], "archived": ["00000000000000"], "as_of": "2"},
            "00000000000000",
        ),
        *_choices_as_of(instants),
    ]
    yield Vector(
        "hashing-config-choice.cases",
        ["PBR-8", "PBR-9", "DEV-28"],
        "PartitionBucketIndexHashingConfig.getLatestHashingConfig and loadHashingConfig, as read "
        "in their sources; instants of table partrules (Hudi 1.2.0)",
        ListOf([case for case, _ in chosen]),
        [instant for _, instant in chosen],
    )
    yield from _settings()


def _choices_as_of(instants: list[str]) -> list[tuple[dict[str, object], str | None]]:
    """Choices that tell which folder, which file of it, and which instants are asked (PBR-9)."""
    old, older, oldest = "20261121075000000", "20261120075000000", "20261119075000000"
    before = {"instants": instants, "pending": [], "archived": [older, oldest, old]}
    return [
        # the newest archived one that is not newer, and that one itself
        ({**before, "as_of": "20261120235959999"}, older),
        ({**before, "as_of": older}, older),
        ({**before, "as_of": "20261118000000000"}, None),
        # which is not asked for what is in force now
        ({**before, "pending": instants}, None),
        # archive is asked where configs has nothing that old, whatever is newer there
        ({**before, "archived": [instants[1]], "as_of": instants[1]}, instants[1]),
        ({**before, "archived": [instants[1]], "instants": [older], "as_of": instants[1]}, older),
        # a pending one is passed over as of its instant too
        ({**before, "pending": [instants[0]], "as_of": instants[0]}, old),
        # 14 digits are compared as text
        ({"instants": ["20261121075218"], "pending": [], "as_of": instants[0]}, "20261121075218"),
        ({"instants": instants, "pending": [], "as_of": instants[0][:14]}, None),
    ]


def _settings() -> Iterator[Vector]:
    new = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "16",
        "hoodie.bucket.index.hash.field": "id,k",
    }
    rfc = {
        "hoodie.index.type": "BUCKET_HASH_INDEX",
        "hoodie.index.bucket.engine": "SIMPLE_HASHING",
        "hoodie.hash.index.bucket.num": "16",
        "hoodie.datasource.write.indexkey.field": "id,k",
    }
    stated = {"index_type": "BUCKET", "engine": "SIMPLE", "num_buckets": 16}
    nothing = {"index_type": None, "engine": None, "num_buckets": None, "hash_fields": None}
    yield Vector(
        "index-settings.names",
        ["DEV-1", "KEY-11", "HASH-5", "PROP-16"],
        "HoodieIndexConfig of Hudi 0.15.0 to 1.2.0; RFC-29 and RFC-42",
        ListOf(
            [
                new,
                rfc,
                {},
                {"hoodie.index.type": "BLOOM"},
                {"hoodie.bucket.index.hash.field": "id, k"},
                {**rfc, **new, "hoodie.hash.index.bucket.num": ""},
                {"hoodie.index.type": "bucket", "hoodie.index.bucket.engine": "simple_hashing"},
            ]
        ),
        [
            {**stated, "hash_fields": ["id", "k"]},
            {**stated, "hash_fields": ["id", "k"]},
            nothing,
            {**nothing, "index_type": "BLOOM"},
            {**nothing, "hash_fields": ["id", " k"]},
            {**stated, "hash_fields": ["id", "k"]},
            {**nothing, "index_type": "BUCKET", "engine": "SIMPLE"},
        ],
    )
    yield Vector(
        "index-settings.contradictions",
        ["DEV-1"],
        _TEXT,
        ListOf(
            [
                {**new, "hoodie.hash.index.bucket.num": "4"},
                {**new, "hoodie.datasource.write.indexkey.field": "id"},
            ]
        ),
        error="index-unknown",
    )
    yield Vector(
        "index-settings.engines",
        ["DEV-5"],
        "HoodieIndex.BucketIndexEngineType has SIMPLE and CONSISTENT_HASHING only",
        ListOf([{**new, "hoodie.index.bucket.engine": "LINEAR_HASHING"}]),
        error="unsupported",
    )
    yield Vector(
        "index-settings.corrupt",
        ["HASH-5"],
        _TEXT,
        ListOf([{"hoodie.bucket.index.num.buckets": text} for text in ("0", "-4", "x", "4.0")]),
        error="corrupt",
    )
    first, second = "20260101000000001,4,8", "20260102000000002,8,3"
    one, two = first[:17], second[:17]
    numbers = [
        (4, [], [], 4),
        (4, [first], [], 4),  # under way, failed, or later than the moment that is read
        (4, [first], [one], 8),  # completed, and not recorded yet
        (8, [first], [one], 8),
        (8, [first], [], 4),  # rolled back once it was recorded
        (3, [second, first], [one, two], 3),
        (3, [second, first], [one], 8),
        (3, [second, first], [], 4),
        (8, [first, second], [one, two], 3),
        (3, [second], [two], 3),  # the commit of the first is archived
        (None, [first], [one], 8),
        (5, [first, second], [one, two], 5),  # somebody else has stated it
    ]
    yield Vector(
        "rehashed-number.moments",
        ["REHASH-1", "REHASH-3", "REHASH-4"],
        "an extension of bucketfmt; worked out by hand",
        ListOf(
            [
                {"stated": stated, "entries": entries, "completed": completed}
                for stated, entries, completed, _ in numbers
            ]
        ),
        [number for *_, number in numbers],
    )
    malformed = ["4,8", "x,4,8", first[:-2], first + ",1"]
    malformed += [first.replace(",4,", ",0,"), first.replace(",4,", ",-4,"), first[1:13]]
    yield Vector(
        "rehashed-number.malformed",
        ["REHASH-1"],
        "an extension of bucketfmt",
        ListOf([{"stated": 4, "entries": [text], "completed": []} for text in malformed]),
        error="corrupt",
    )
