"""Vectors of consistent hashing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO

import fastavro

from spec.vector_sources.vector import Golden, ListOf, Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"
_RUN = "run on the bundles 0.15.0, 1.0.2, 1.1.1 and 1.2.0"
_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata/"

# HashID.getXXHash32(text, 0)
_XXHASH32 = {
    "": 46947589,
    "a": 1426945110,
    "key1": 133378825,
    "abc": 852579327,
    "1x": -1475982365,
    "ключ": 1328042331,
    "😀": 1127825596,
    "c0a80101-0000-4000-8000-000000000001": 1407264109,
}
_MASKED = {
    ("key0",): 1116801245,
    ("key1",): 133378825,
    ("key2",): 2072764077,
    ("key3",): 1714674663,
    ("key4",): 881018202,
    ("key5",): 1319567655,
    ("key6",): 629960052,
    ("key7",): 1112996066,
    ("key8",): 1088062232,
    ("key9",): 686589891,
    ("key10",): 1730361310,
    ("key11",): 1664660496,
    ("1", "x"): 671501283,
    ("1x",): 671501283,
    ("1", None): 1403886506,
    (None,): 171510893,
    ("1", ""): 921487538,
    ("1",): 921487538,
}
_INITIAL = {
    ("", 1): "2147483647:360d2334-1249-37e5-9698-814cf4b62672",
    ("", 4): """536870912:b5caa668-8489-3828-b3e6-8368d70a09fd
        1073741824:f6e5fc82-27d4-305e-9e85-e067939f298c
        1610612736:67dbc0d8-95a4-3506-aa11-bb782144cf08
        2147483647:7c2dbe75-c634-38fe-9ef9-a0c6e848e712""",
    ("a", 4): """536870912:f439e116-a7cf-347c-a0cd-96483dc293d3
        1073741824:e03e1a02-a964-35b8-bb02-36eb32ce0988
        1610612736:dd3d8bfd-d4c2-32c5-89ba-6dcfc1e068cc
        2147483647:c84344ba-dac4-3262-9acf-05e4249447cb""",
    ("2024/01/01", 3): """715827883:ef51d3fc-322c-366e-a8a8-390d533323d3
        1431655766:54be9a33-fcbc-39d3-854a-4c3dc7334c4a
        2147483647:556f4ec6-de37-330c-aee5-5fab26f5e828""",
    ("p=ü", 2): """1073741824:88d5d7f9-bc72-3447-9808-e9fb7d611168
        2147483647:968f9e83-8f9e-3066-9ed6-22b4880d32a8""",
    ("x", 7): """306783379:67dd49c4-8ba3-31c2-b58e-c3728741352d
        613566758:78e0c024-a019-3288-a906-0951328b1904
        920350137:d3956164-d5a4-3fb5-a1a5-26f8344d8074
        1227133516:58432422-af17-3e26-ad84-43643d95deda
        1533916895:aa89ebe6-2252-34b4-8bd2-ab184b89d65a
        1840700274:f8f7517b-6cbb-338e-9717-fe58094303c3
        2147483647:0a12b530-009f-373f-911a-8c284ee953c6""",
}
_RING = [536870912, 1073741824, 1610612736, 2147483647]


def _node(value: int, prefix: str | None, tag: str = "NORMAL") -> dict[str, object]:
    return {"value": value, "fileIdPrefix": prefix, "tag": tag}


def _ring(*values: int) -> list[dict[str, object]]:
    return [_node(value, f"f{value}") for value in values]


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield Vector(
        "xxhash32.texts",
        ["RING-1"],
        f"HashID.getXXHash32 with seed 0, {_RUN}",
        ListOf(list(_XXHASH32)),
        [value & 0xFFFFFFFF for value in _XXHASH32.values()],
    )
    yield Vector(
        "ring-hash.values",
        ["RING-1"],
        f"ConsistentBucketIdentifier, {_RUN}",
        ListOf([list(values) for values in _MASKED]),
        list(_MASKED.values()),
    )
    for (partition, number), text in _INITIAL.items():
        nodes = [entry.split(":") for entry in text.split()]
        name = {"": "unpartitioned", "2024/01/01": "slashes", "p=ü": "unicode"}.get(
            partition, partition
        )
        yield Vector(
            f"initial-ring.{name}-{number}",
            ["RING-4", "RING-5"],
            f"HoodieConsistentHashingMetadata(partition, number), {_RUN}",
            {"partition_path": partition, "num_buckets": number},
            [_node(int(value), prefix) for value, prefix in nodes],
        )
    asked = {
        0: 536870912,
        1: 536870912,
        536870911: 536870912,
        536870912: 536870912,
        536870913: 1073741824,
        2147483646: 2147483647,
        2147483647: 2147483647,
    }
    yield Vector(
        "ring-node.boundaries",
        ["RING-2"],
        f"ConsistentBucketIdentifier.getBucket(int), {_RUN}",
        ListOf([{"ring": _RING, "hash": value} for value in asked]),
        list(asked.values()),
    )
    yield Vector(
        "ring-node.wrap",
        ["RING-2"],
        "ConsistentBucketIdentifier.getBucket(int) (judge/Decisions.java, Hudi 1.2.0)",
        ListOf([{"ring": [100, 2000], "hash": value} for value in (100, 101, 2000, 2001)]),
        [100, 2000, 2000, 100],
    )
    keys = [
        ("key0", "id", 1610612736),
        ("key1", "id", 536870912),
        ("key2", "id", 2147483647),
        ("key10", "id", 2147483647),
        ("id:1,k2:x", "id,k2", 1073741824),
        ("id:1,k2:__null__", "id,k2", 1610612736),
        ("id:1,k2:__null__", "k2", 536870912),
        ("id:1,k2:__empty__", "id,k2", 1073741824),
    ]
    yield Vector(
        "ring-node-of-key.indexOf",
        ["RING-1", "RING-2"],
        f"ConsistentBucketIdentifier.getBucket(key, fields), {_RUN}",
        ListOf(
            [
                {"key": key, "fields": fields.split(","), "dialect": "indexOf", "ring": _RING}
                for key, fields, _ in keys
            ]
        ),
        [node for *_, node in keys],
    )
    yield from _resizing()
    yield from _metadata()
    yield from _resizes()
    yield from _choices()


def _resizing() -> Iterator[Vector]:
    recipe = f"ConsistentBucketIdentifier.splitBucket and mergeBucket, {_RUN}; new prefixes a, b"
    splits = {
        536870912: 268435455,
        1073741824: 805306368,
        1610612736: 1342177280,
        2147483647: 1879048191,
    }
    questions = [{"ring": _RING, "value": value, "prefixes": ["a", "b"]} for value in splits]
    questions += [{"ring": [2147483647], "value": 2147483647, "prefixes": ["a", "b"]}]
    questions += [{"ring": [100, 101], "value": 101, "prefixes": ["a", "b"]}]
    pairs = [*((middle, value) for value, middle in splits.items()), (1073741823, 2147483647)]
    yield Vector(
        "ring-split.nodes",
        ["RING-18"],
        recipe,
        ListOf(questions),
        [[_node(low, "a", "REPLACE"), _node(high, "b", "REPLACE")] for low, high in pairs] + [None],
    )
    yield Vector(
        "ring-merge.nodes",
        ["RING-19"],
        recipe,
        ListOf(
            [
                {"ring": _RING, "values": [1073741824, 1610612736], "prefix": "a"},
                {"ring": _RING, "values": [2147483647, 536870912], "prefix": "a"},
            ]
        ),
        [
            [_node(1073741824, None, "DELETE"), _node(1610612736, "a", "REPLACE")],
            [_node(2147483647, None, "DELETE"), _node(536870912, "a", "REPLACE")],
        ],
    )
    yield Vector(
        "ring-apply.children",
        ["RING-21", "RING-24"],
        "ConsistentBucketIdentifier.initialize (judge/Decisions.java, Hudi 1.2.0)",
        ListOf(
            [
                {
                    "nodes": _ring(100, 200, 300),
                    "children": [_node(150, "a", "REPLACE"), _node(200, "b", "REPLACE")],
                },
                {
                    "nodes": _ring(100, 200, 300),
                    "children": [_node(300, None, "DELETE"), _node(100, "a", "REPLACE")],
                },
                {"nodes": _ring(100, 200), "children": [_node(200, "sorted", "REPLACE")]},
                {"nodes": _ring(100), "children": []},
            ]
        ),
        [
            [_node(100, "f100"), _node(150, "a"), _node(200, "b"), _node(300, "f300")],
            [_node(100, "a"), _node(200, "f200")],
            [_node(100, "f100"), _node(200, "sorted")],
            [_node(100, "f100")],
        ],
    )
    yield Vector(
        "ring-apply.corrupt",
        ["RING-21"],
        _TEXT,
        ListOf(
            [
                {"nodes": _ring(100), "children": [_node(50, "a", "NORMAL")]},
                {"nodes": _ring(100), "children": [_node(50, None, "DELETE")]},
                {"nodes": _ring(100), "children": [_node(100, None, "DELETE")]},
                {"nodes": _ring(100), "children": [_node(100, None, "REPLACE")]},
            ]
        ),
        error="corrupt",
    )


def _resizes() -> Iterator[Vector]:
    def group(children: list[dict[str, object]], **other: str) -> dict[str, object]:
        return {
            "clustering.group.partition": "us",
            "clustering.group.child.node": json.dumps(children),
            "clustering.group.sequence.no": "0",
            **{f"clustering.group.{name.replace('_', '.')}": text for name, text in other.items()},
        }

    metadata = json.loads(_document(json.dumps(_ring(100, 200, 300))))
    split = [_node(50, "a", "REPLACE"), _node(100, "b", "REPLACE")]
    merge = [_node(200, None, "DELETE"), _node(300, "c", "REPLACE")]
    yield Vector(
        "resize.several-groups",
        ["RING-21", "RING-22", "RING-27"],
        _TEXT,
        {"metadata": metadata, "groups": [group(split), group(merge)]},
        [_node(50, "a"), _node(100, "b"), _node(300, "c")],
    )
    lacking = group(split)
    del lacking["clustering.group.child.node"]
    bad: list[list[dict[str, object]]] = [
        [group(split), group(split)],
        [group(split), group(merge, sequence_no="1")],
        [group(split, sequence_no="")],
        [group(split, sequence_no="-1")],
        [group(split, sequence_no="9" * 10)],
        [group(split), lacking],
        [group([_node(50, "a"), *split[1:]])],
        [group([_node(50, "../a", "REPLACE")])],
        [group([_node(50, None, "REPLACE")])],
        [group(split, child_node="{}")],
    ]
    yield Vector(
        "resize.corrupt",
        ["RING-27"],
        _TEXT,
        ListOf([{"metadata": metadata, "groups": groups} for groups in bad]),
        error="corrupt",
    )


def _metadata() -> Iterator[Vector]:
    for version in ("0.15.0", "1.0.2", "1.2.0"):
        table = golden(version, "ch_split")
        for number, path in enumerate(table.paths(f"{_FOLDER}us/", end=".hashing_meta")):
            data = table.files[path]
            name = "first" if number == 0 else f"{version}-{number}"
            if number == 0 and version != "1.2.0":
                continue  # the same bytes in every release
            rules = ["RING-3", "RING-6", "RING-7", "RING-10"]
            rules += ["RING-4", "RING-5"] if number == 0 else ["RING-8", "RING-9"]
            yield Vector(
                f"hashing-metadata.golden-{name}", rules, table.recipe(path), data, json.loads(data)
            )
            yield Vector(
                f"hashing-metadata-text.golden-{name}",
                ["RING-7"],
                table.recipe(path),
                json.loads(data),
                data.decode(),
            )
        yield _resize_of(table)
    table = golden("1.0.2", "ch_init")
    path = f"{_FOLDER}eu/00000000000000.hashing_meta"
    yield Vector(
        "initial-hashing-metadata.golden",
        ["RING-4", "RING-5", "RING-7", "RING-9"],
        table.recipe(path),
        {"partition_path": "eu", "num_buckets": 4},
        table.files[path].decode(),
    )
    yield Vector(
        "hashing-metadata.rfc-42",
        ["RING-11", "DEV-6", "DEV-27"],
        "after the layout in RFC-42",
        '{"version":1,"partition_path":"us","instant":"00000000000000","num_buckets":2,'
        '"bucket_mappings":[{"hash_value":1073741823,"file_group":"a"},'
        '{"hash_value":2147483647,"file_group":"b"}]}',
        {
            "version": 1,
            "partitionPath": "us",
            "instant": "00000000000000",
            "numBuckets": 2,
            "seqNo": 0,
            "nodes": [_node(1073741823, "a"), _node(2147483647, "b")],
        },
    )
    sound = json.loads(_document(json.dumps(_ring(1))))
    tags = [{"value": 1, "fileIdPrefix": "a"}, _node(2, "b", "REPLACE"), _node(3, "c", "DELETE")]
    yield Vector(
        "hashing-metadata.tags",
        ["RING-7", "RING-10"],
        "ConsistentHashingNode and ConsistentBucketIdentifier, as read in their sources",
        _document(json.dumps(tags)).replace('"version":0', '"later":{},"version":7'),
        {**sound, "version": 7, "nodes": [_node(1, "a"), *tags[1:]]},
    )
    yield Vector(
        "hashing-metadata.corrupt",
        ["RING-3", "RING-7", "DEV-23"],
        _TEXT,
        ListOf(
            [
                "",
                "{",
                "[]",
                _document("[]"),
                _document(json.dumps(_ring(200, 100))),
                _document(json.dumps(_ring(100, 100))),
                _document(json.dumps([_node(100, None)])),
                _document(json.dumps([_node(2147483648, "a")])),
                _document(json.dumps([_node(-1, "a")])),
                _document(json.dumps([_node(1, "a", "GONE")])),
                _document(json.dumps(_ring(1))).replace('"seqNo":0', '"seqNo":0,"seqNo":1'),
                *(
                    json.dumps({key: item for key, item in sound.items() if key != name})
                    for name in sound
                ),
                *(
                    _document(json.dumps([{k: v for k, v in _node(1, "a").items() if k != name}]))
                    for name in ("value", "fileIdPrefix")
                ),
                _document(json.dumps([{**_node(1, "a"), "tag": None}])),
                _document(json.dumps([_node(1, "")])),
                *(
                    json.dumps({**sound, name: value})
                    for name, value in (
                        ("instant", "1"),
                        ("instant", "000000000000000000"),
                        ("version", -1),
                        ("version", "0"),
                        ("numBuckets", 2147483648),
                        ("seqNo", 1.5),
                        ("seqNo", None),
                        ("partitionPath", None),
                    )
                ),
            ]
        ),
        error="corrupt",
    )


def _document(nodes: str) -> str:
    return (
        '{"version":0,"partitionPath":"us","instant":"00000000000000","numBuckets":4,"seqNo":0,'
        f'"nodes":{nodes}}}'
    )


def _resize_of(table: Golden) -> Vector:
    """The plan of a real resize, applied: ring before + children = ring after."""
    layout_1 = table.version == "0.15.0"
    folder = ".hoodie/" if layout_1 else ".hoodie/timeline/"
    action = "replacecommit" if layout_1 else "clustering"
    plan_path = table.paths(folder, end=f".{action}.requested")[0]
    plan = next(iter(fastavro.reader(BytesIO(table.files[plan_path]))))["clusteringPlan"]
    groups = [
        group["extraMetadata"]
        for group in plan["inputGroups"]
        if group["extraMetadata"]["clustering.group.partition"] == "us"
    ]
    before, after = table.paths(f"{_FOLDER}us/", end=".hashing_meta")[:2]
    return Vector(
        f"resize.golden-{table.version}",
        ["RING-18", "RING-20", "RING-21", "META-13", "RING-9"],
        table.recipe(plan_path, f"groups of partition us; {before} and {after}"),
        {
            "metadata": json.loads(table.files[before]),
            "groups": groups,
        },
        json.loads(table.files[after])["nodes"],
    )


def _choices() -> Iterator[Vector]:
    first, a, b = "00000000000000", "20261121044135679", "20261121044145151"
    cases: list[tuple[dict[str, object], str | None]] = []

    def case(expected: str | None, instants: list[str], **known: list[str]) -> None:
        names = ("markers", "completed", "pending", "with_base_file")
        question: dict[str, object] = {
            "instants": instants,
            **{name: known.get(name, []) for name in names},
        }
        cases.append((question, expected))

    case(None, [])
    case(first, [first])
    case(first, [first], markers=[first])
    case(a, [first, a], completed=[a])
    case(a, [first, a], markers=[first, a])
    case(first, [first, a], markers=[first], pending=[a])
    case(first, [first, a], pending=[a], with_base_file=[a])
    case(b, [first, a, b], markers=[first, a], completed=[a, b])
    case(a, [first, a, b], markers=[first, a], completed=[a], pending=[b])
    case(a, [first, a, b], markers=[first], completed=[a])
    case(a, [first, a], with_base_file=[a])  # archived, HUDI-6047
    case(b, [first, a, b], markers=[first], with_base_file=[a, b])
    case(first, [first, a])  # aborted: neither on the timeline nor with files
    yield Vector(
        "hashing-metadata-choice.cases",
        ["RING-13", "RING-14", "RING-15", "RING-16"],
        "ConsistentBucketIndexUtils.loadMetadata, as read in its source",
        ListOf([question for question, _ in cases]),
        [expected for _, expected in cases],
    )
    yield Vector(
        "hashing-metadata-choice.marker-alone",
        ["RING-16"],
        "ConsistentBucketIndexUtils.loadMetadata, as read in its source",
        {
            "instants": [first, a],
            "markers": [b],
            "completed": [],
            "pending": [],
            "with_base_file": [],
        },
        error="corrupt",
    )
