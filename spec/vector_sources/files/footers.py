"""Vectors of record positions and bloom filters."""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector

__all__ = ["vectors"]

_TEXT = "written for this text"
_RUN = "run on the bundles 0.15.0, 1.0.2, 1.1.1 and 1.2.0"

_POSITIONS: dict[str, list[int]] = {
    "AAAAAAAAAAA=": [],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA": [0],
    "AQAAAAAAAAAAAAAAOzAAAAEAAAUAAQAAAAUA": [0, 1, 2, 3, 4, 5],
    "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAEABQA=": [1, 5],
    "AQAAAAAAAAAAAAAAOjAAAAIAAAAAAAAAAQAAABgAAAAaAAAAAAAAAA==": [0, 65536],
    "AQAAAAAAAAABAAAAOjAAAAEAAAAAAAAAEAAAAAAA": [4294967296],
    "AwAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAMAAQAAADowAAABAAAAAAAAABAAAAADAAIAAAA6MAAAAQAAAAtU"
    "AAAQAAAAAOQ=": [3, 4294967299, 10000000000],
}

_SIMPLE = "/////wAAAAcBAAAAYHhYUXVj6DwoLjdiCA=="
_DYNAMIC = "/////wAAAAcBAAAAMAAAAAUAAAADAAAAAv////8AAAAHAQAAADBYeCd1Y+j/////AAAABwEAAAAwLABdZyIo"

# the bits that key1 sets in a filter of the default size
_KEY1_BITS = [
    *(206483, 468127, 480661, 486858, 517304, 560708, 619895, 672710, 791040, 1084021, 1284694),
    *(1486808, 1675980, 1742098, 1792746, 1927482, 1958833, 1993614, 2090430, 2261190, 2337356),
    *(2383509, 2414740, 2434692, 2474902, 2507890, 2508064, 2569437, 2586343, 2587424),
]

# HashFunction of Hudi: (key, seed) -> Murmur, Jenkins
_HASHES = {
    ("a", 0): (-1838653602, 1490454280),
    ("a", -1): (713507990, 2103777456),
    ("a", 7): (-68444624, -884038839),
    ("ab", 0): (1525573013, -72111905),
    ("ab", -1): (-1797532438, -649722969),
    ("ab", 7): (1643560620, -1708993992),
    ("abc", 0): (1775488903, 238646833),
    ("abc", -1): (-1465591341, -631475472),
    ("abc", 7): (110606552, -1088106853),
    ("abcd", 0): (646393889, -1242265444),
    ("abcd", -1): (1555318719, -1983267622),
    ("abcd", 7): (-2134742802, 1439473897),
    ("abcde", 0): (1594468574, 40727262),
    ("abcde", -1): (-392878951, -159174895),
    ("abcde", 7): (-1094672395, -2000580460),
    ("key1", 0): (-763656453, 501276489),
    ("key1", -1): (1405747235, -1023892351),
    ("key1", 7): (1166761119, 1553854680),
    ("é", 0): (-384040333, -382074372),
    ("é", -1): (-1125067414, 281978168),
    ("é", 7): (-1818048371, -614302496),
    ("日本", 0): (659168028, -78664528),
    ("日本", -1): (-727673871, -2074159795),
    ("日本", 7): (-1426113915, 656133386),
    ("abcé", 0): (-1049778215, -1265690704),
    ("abcé", -1): (610958899, 1999979686),
    ("abcé", 7): (-185500720, 504314485),
}


# groups of (high bits, values of one array container)
_NOT_ASCENDING = [
    [(1, [1]), (0, [1])],
    [(0, [1]), (0, [2])],
    [(0, [5, 1])],
    [(0, [5, 5])],
]


def _bitmap_text(groups: list[tuple[int, list[int]]]) -> str:
    """Return the base64 of a bitmap with one array container per group."""
    data = struct.pack("<Q", len(groups))
    for high, values in groups:
        data += struct.pack("<IIIHHI", high, 12346, 1, 0, len(values) - 1, 16)
        data += struct.pack(f"<{len(values)}H", *values)
    return b64encode(data).decode()


def _ranges() -> Iterator[Vector]:
    disputed, pair = "\uffff", "😀"  # Java sorts the second first, Spark's row writer the first
    cases: list[tuple[str | None, str | None, list[str], list[bool]]] = [
        ("b", "d", ["a", "b", "c", "d", "da", ""], [False, True, True, True, False, False]),
        (None, None, ["a", ""], [True, True]),
        ("é", "日", ["z", "é", "本", "日"], [False, True, False, True]),
        (disputed, disputed, [pair], [True]),
        (pair, pair, [disputed], [True]),
        ("b", pair, ["a", disputed], [False, True]),
    ]
    yield Vector(
        "may-hold-key.ranges",
        ["BLOOM-11"],
        _TEXT,
        ListOf([{"min": low, "max": high, "keys": keys} for low, high, keys, _ in cases]),
        [answers for *_, answers in cases],
    )


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield from _ranges()
    yield Vector(
        "record-positions.texts",
        ["POS-1", "POS-2"],
        f"LogReaderUtils.encodePositions, {_RUN}",
        ListOf(list(_POSITIONS)),
        list(_POSITIONS.values()),
    )
    two = "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAEABQA="
    yield Vector(
        "record-positions.two",
        ["POS-1"],
        f"LogReaderUtils.encodePositions, {_RUN}; after base64",
        b64decode(two),
        [1, 5],
    )
    yield Vector(
        "record-positions.corrupt",
        ["POS-1"],
        _TEXT,
        ListOf(
            [
                "",
                "x",
                "AAAA",
                two[:-1],
                f" {two}",
                "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAEA",
                "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAEABQAA",
                "//////////8AAAAAOjAAAAEAAAAAAAAAEAAAAAAA",
                *map(_bitmap_text, _NOT_ASCENDING),
            ]
        ),
        error="corrupt",
    )
    yield from _hashes()
    yield from _filters()


def _hashes() -> Iterator[Vector]:
    recipe = f"MurmurHash and JenkinsHash of org.apache.hudi.common.util.hash, {_RUN}"
    questions = ListOf([{"text": text, "seed": seed} for text, seed in _HASHES])
    murmur, jenkins = zip(*_HASHES.values(), strict=True)
    yield Vector("murmur2.hudi", ["BLOOM-6"], recipe, questions, list(murmur))
    yield Vector("jenkins.lookup3", ["BLOOM-7"], recipe, questions, list(jenkins))


def _question(text: str, type_code: str | None, keys: list[str]) -> dict[str, object]:
    return {"text": text, "type_code": type_code, "keys": keys}


def _filters() -> Iterator[Vector]:
    added = [f"key{n}" for n in range(8)]
    seven = {"num_hashes": 7, "hash_type": "MURMUR"}
    yield Vector(
        "bloom-filter.simple",
        ["BLOOM-1", "BLOOM-4", "BLOOM-5"],
        f"ten keys at 0.01, key0 to key7 added, {_RUN}",
        _question(_SIMPLE, None, added),
        {
            "type": "SIMPLE",
            **seven,
            "num_bits": 96,
            "rows": 1,
            "keys_per_row": None,
            "keys_in_last_row": None,
            "might_contain": [True] * 8,
        },
    )
    yield Vector(
        "bloom-filter.dynamic",
        ["BLOOM-1", "BLOOM-3", "BLOOM-5", "BLOOM-10"],
        f"five keys a row at 0.01, 20 at most, key0 to key7 added, {_RUN}",
        _question(_DYNAMIC, "DYNAMIC_V0", added),
        {
            "type": "DYNAMIC_V0",
            **seven,
            "num_bits": 48,
            "rows": 2,
            "keys_per_row": 5,
            "keys_in_last_row": 3,
            "might_contain": [True] * 8,
        },
    )
    simple_a = bytes.fromhex("ffffffff000000070100000060a00000004040004004000008")
    yield Vector(
        "bloom-filter.simple-a",
        ["BLOOM-1", "BLOOM-4"],
        f"ten keys at 0.01, a added, {_RUN}; after base64",
        simple_a,
        {
            "type": "SIMPLE",
            **seven,
            "num_bits": 96,
            "rows": 1,
            "keys_per_row": None,
            "keys_in_last_row": None,
            "set_bits": [[5, 7, 38, 46, 62, 66, 91]],
        },
    )
    yield Vector(
        "bloom-filter.old-head",
        ["BLOOM-2"],
        "written after InternalFilter.readFields: a first int above 0 is the number of hashes",
        bytes.fromhex("00000002" + "00000008" + "81"),
        {
            "type": "SIMPLE",
            "num_hashes": 2,
            "hash_type": "JENKINS",
            "num_bits": 8,
            "rows": 1,
            "keys_per_row": None,
            "keys_in_last_row": None,
            "set_bits": [[0, 7]],
        },
    )
    yield Vector(
        "bloom-filter.empty-key",
        ["BLOOM-8"],
        _TEXT,
        _question("/////wAAAAcBAAAACAA=", "SIMPLE", ["", "a"]),
        {
            "type": "SIMPLE",
            **seven,
            "num_bits": 8,
            "rows": 1,
            "keys_per_row": None,
            "keys_in_last_row": None,
            "might_contain": [True, False],
        },
    )
    yield Vector(
        "bloom-filter.corrupt",
        ["BLOOM-1", "BLOOM-3"],
        _TEXT,
        ListOf(
            [
                _question("", None, []),
                _question("x", None, []),
                _question(_SIMPLE[:-4], None, []),
                _question("/////wAAAAcBAAAACAAA", None, []),
                _question("/////wAAAAABAAAACAA=", None, []),
                _question("/////wAAAAcBAAAAAA==", None, []),
                _question(_SIMPLE, "DYNAMIC_V0", []),
                _question("/////wAAAAcBAAAAMAAAAAUAAAADAAAAAA==", "DYNAMIC_V0", []),
                _question("/////wAAAAEBAAAACAAAAAAAAAAAAAAAAf////8AAAABAQAAAAgA", "DYNAMIC_V0", []),
                _question("/////wAAAAEBAAAACP////8AAAAAAAAAAf////8AAAABAQAAAAgA", "DYNAMIC_V0", []),
                _question("/////wAAAAEBAAAACAAAAAX/////AAAAAf////8AAAABAQAAAAgA", "DYNAMIC_V0", []),
            ]
        ),
        error="corrupt",
    )
    yield Vector(
        "bloom-filter.unsupported",
        ["BLOOM-1", "BLOOM-2"],
        _TEXT,
        ListOf(
            [
                _question(_SIMPLE, "DYNAMIC_V1", []),
                _question("/////gAAAAcBAAAACAA=", None, []),
                _question("/////wAAAAcCAAAACAA=", None, []),
            ]
        ),
        error="unsupported",
    )
    yield Vector(
        "bloom-filter.too-large",
        ["BLOOM-9", "DEV-22"],
        _TEXT + "; the limit is 16 bytes",
        {**_question(_SIMPLE, None, []), "bytes_max": 16},
        error="limit",
    )
    yield Vector(
        "bloom-bits.default-key1",
        ["BLOOM-5", "BLOOM-6"],
        f"BloomFilterFactory.createBloomFilter(60000, 1e-9), key1 added, {_RUN}",
        {"key": "key1", "num_bits": 2587966, "num_hashes": 30},
        _KEY1_BITS,
    )
    yield Vector(
        "bloom-size.heads",
        ["BLOOM-10"],
        f"BloomFilterFactory.createBloomFilter, {_RUN}",
        ListOf(
            [
                {"keys": keys, "rate": rate}
                for keys, rate in ((60000, "0.000000001"), (10, "0.01"), (1, "0.5"), (60000, "0.1"))
            ]
        ),
        [
            {"num_bits": bits, "num_hashes": hashes}
            for bits, hashes in ((2587966, 30), (96, 7), (2, 2), (287552, 4))
        ],
    )
