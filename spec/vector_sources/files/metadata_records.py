"""Vectors of the records of metadata tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO

import fastavro

from spec.vector_sources.vector import ListOf, Vector

__all__ = ["vectors"]

_TEXT = "written for this text"
_SEEN = "Hudi 1.2.0: seen in the metadata table of a table of version 9"
_FILE = "326471c7-484a-498e-9351-5a1b860797ed-0_1-42-77_20261121035636929.parquet"
_MD5 = "SMh1q8I6nTJkVVw2z0/Qzw=="

_KEYS: list[tuple[dict[str, object], str]] = [
    ({"kind": "files", "partition": "p=1"}, "p=1"),
    ({"kind": "files", "partition": ""}, "."),
    (
        {"kind": "column_stats", "column": "part", "partition": "part=p1", "file": _FILE},
        f"+WGrmgkN3io=tssgLg9E7p0={_MD5}",
    ),
    (
        {"kind": "partition_stats", "column": "price", "partition": "part=p2"},
        "XV1ds8/f890=tFBD22Dgg24=",
    ),
    ({"kind": "partition_stats", "column": "ts", "partition": ""}, "oyTjviKHuhI=FXThHwelITM="),
    ({"kind": "bloom_filters", "partition": "part=p1", "file": _FILE}, f"tssgLg9E7p0={_MD5}"),
]
_GROUPS: list[tuple[str, int, bool, int]] = [
    ("k000", 10, False, 1),
    ("k001", 10, False, 2),
    ("k005", 10, False, 6),
    ("k009", 10, False, 0),
    (f"tssgLg9E7p0={_MD5}", 4, False, 2),
    ("polygenelubricants", 10, False, 8),
    ("anything", 1, False, 0),
    ("x$a1", 10, True, 6),
    ("y$a2", 10, True, 7),
    ("z$a1", 10, True, 8),
]
_SECONDARY: list[tuple[str | None, str, str]] = [
    ("x", "a1", "x$a1"),
    ("", "", "$"),
    (None, "a", "\0$a"),
    ("a$b", "c\\d", "a\\$b$c\\\\d"),
    ("\0", "a", "\\\0$a"),
]


def _nullable(kind: object) -> list[object]:
    return ["null", kind]


_FILE_IDS = (
    ("files", 0, None, "files-0000-0"),
    ("record_index", 7, None, "record-index-0007-0"),
    ("secondary_index_by_name", 6, None, "secondary-index-by-name-0006-0"),
    ("record_index", 1, "region=eu", "record-index-region%3Deu-0001-0"),
    ("record_index", 0, "", "record-index--0000-0"),
    ("record_index", 0, "day=2026-01-02/a_b", "record-index-day%3D2026%2D01%2D02%2Fa%5Fb-0000-0"),
)


def _record(name: str, **fields: object) -> dict[str, object]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


_SCHEMA = _record(
    "HoodieMetadataRecord",
    _hoodie_record_key=_nullable("string"),
    key="string",
    type="int",
    filesystemMetadata=_nullable(
        {
            "type": "map",
            "values": _record("HoodieMetadataFileInfo", size="long", isDeleted="boolean"),
        }
    ),
    BloomFilterMetadata=_nullable(
        _record(
            "HoodieMetadataBloomFilter",
            type="string",
            timestamp="string",
            bloomFilter="bytes",
            isDeleted="boolean",
        )
    ),
    ColumnStatsMetadata=_nullable(
        _record(
            "HoodieMetadataColumnStats",
            fileName=_nullable("string"),
            columnName=_nullable("string"),
            minValue=[
                "null",
                _record("IntWrapper", value="int"),
                _record("LongWrapper", value="long"),
                _record("StringWrapper", value="string"),
                _record("DateWrapper", value="int"),
            ],
            maxValue=["null", "IntWrapper", "LongWrapper", "StringWrapper", "DateWrapper"],
            valueCount=_nullable("long"),
            nullCount=_nullable("long"),
            totalSize=_nullable("long"),
            totalUncompressedSize=_nullable("long"),
            isDeleted="boolean",
            isTightBound="boolean",
            valueType=_nullable(
                _record(
                    "HoodieValueTypeInfo", typeOrdinal="int", additionalInfo=_nullable("string")
                )
            ),
        )
    ),
    recordIndexMetadata=_nullable(
        _record(
            "HoodieRecordIndexInfo",
            partitionName=_nullable("string"),
            fileIdHighBits=_nullable("long"),
            fileIdLowBits=_nullable("long"),
            fileIndex=_nullable("int"),
            fileId=_nullable("string"),
            instantTime=_nullable("long"),
            fileIdEncoding="int",
            position=_nullable("long"),
        )
    ),
    SecondaryIndexMetadata=_nullable(_record("HoodieSecondaryIndexInfo", isDeleted="boolean")),
)


def _value(**fields: object) -> dict[str, object]:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(_SCHEMA), {"key": "", **fields})
    return {"schema": json.dumps(_SCHEMA), "value": stream.getvalue().hex()}


_STATS = {
    "fileName": "a.parquet",
    "columnName": "s.n",
    "minValue": ("DateWrapper", {"value": -1}),
    "maxValue": ("DateWrapper", {"value": 20000}),
    "valueCount": 4,
    "nullCount": 1,
    "totalSize": 90,
    "totalUncompressedSize": 80,
    "isDeleted": False,
    "isTightBound": True,
    "valueType": None,
}
_DELETED = {"isDeleted": True}
_LOCATION = {
    "partitionName": "p",
    "fileIdHighBits": 8269599154448777525,
    "fileIdLowBits": -6730541738999633328,
    "fileIndex": 0,
    "fileId": "",
    "instantTime": 1795233396929,
    "fileIdEncoding": 0,
    "position": None,
}


def _location(**fields: object) -> dict[str, object]:
    return _value(type=5, recordIndexMetadata={**_LOCATION, **fields})


def vectors() -> Iterator[Vector]:
    """Yield them."""
    inputs = [given for given, _ in _KEYS]
    inputs += [{"kind": "secondary", "value": v, "record_key": k} for v, k, _ in _SECONDARY]
    keys = [key for _, key in _KEYS] + [key for _, _, key in _SECONDARY]
    rules = ["MDT-4", "MDT-5", "MDT-7"]
    yield Vector("metadata-key.all", rules, _SEEN, ListOf(inputs), keys)
    given = [{"key": key, "groups": n, "secondary": second} for key, n, second, _ in _GROUPS]
    groups = [group for *_, group in _GROUPS]
    yield Vector("metadata-group.all", ["MDT-2", "MDT-3"], _SEEN, ListOf(given), groups)
    named = [{"metadata": m, "number": n, "partition": path} for m, n, path, _ in _FILE_IDS]
    ids = [file_id for *_, file_id in _FILE_IDS]
    yield Vector("metadata-file-id.all", ["MDT-1", "MDT-21"], _SEEN, ListOf(named), ids)
    parsed = [[value, key] for value, key, _ in _SECONDARY]
    yield Vector(
        "secondary-key.all", ["MDT-7"], _TEXT, ListOf([key for *_, key in _SECONDARY]), parsed
    )
    yield Vector(
        "secondary-key.no-separator",
        ["MDT-7"],
        _TEXT,
        ListOf(["", "a", "a\\$b", "a\\"]),
        error="corrupt",
    )

    entries = {"a.parquet": {"size": 3000000000, "isDeleted": False}}
    entries["b.parquet"] = {"size": 0, "isDeleted": True}
    yield Vector(
        "metadata-record.files",
        ["MDT-8", "MDT-10"],
        _TEXT,
        _value(type=2, filesystemMetadata=entries),
        {
            "files": {"a.parquet": ["3000000000", False], "b.parquet": ["0", True]},
            "partitions": False,
        },
    )
    yield Vector(
        "metadata-record.partitions",
        ["MDT-10"],
        _TEXT,
        _value(type=1, filesystemMetadata={"p": {"size": 0, "isDeleted": False}}),
        {"files": {"p": ["0", False]}, "partitions": True},
    )
    stats = {"file": "a.parquet", "column": "s.n", "min": ["Date", "-1"], "max": ["Date", "20000"]}
    more = {"values": "4", "nulls": "1", "deleted": False, "tight": True}
    for name, kind in (("column-stats", 3), ("partition-stats", 6)):
        expected = {**stats, **more, "type": None, "of_partition": kind == 6}
        given_stats = _value(type=kind, ColumnStatsMetadata=_STATS)
        yield Vector(f"metadata-record.{name}", ["MDT-11"], _TEXT, given_stats, expected)
    typed = {**_STATS, "valueType": {"typeOrdinal": 12, "additionalInfo": None}}
    typed |= {side: ("IntWrapper", {"value": 3}) for side in ("minValue", "maxValue")}
    expected = {**stats, **more, "min": ["Int", "3"], "max": ["Int", "3"], "type": 12}
    yield Vector(
        "metadata-record.typed-column-stats",
        ["MDT-11"],
        _TEXT,
        _value(type=3, ColumnStatsMetadata=typed),
        {**expected, "of_partition": False},
    )
    bloom = {"type": "SIMPLE", "timestamp": "1", "bloomFilter": b"text", "isDeleted": False}
    yield Vector(
        "metadata-record.bloom-filter",
        ["MDT-8"],
        _TEXT,
        _value(type=4, BloomFilterMetadata=bloom),
        {"type": "SIMPLE", "instant": "1", "text": b"text".hex(), "deleted": False},
    )
    own = "72c3849d-e3ca-4135-a298-4ff2c4fcaa50"
    raw = {"fileIdEncoding": 1, "fileId": "raw id", "fileIdHighBits": -1, "fileIdLowBits": -1}
    for name, fields, file_id in (
        ("uuid", {}, f"{own}-0"),
        ("bare-uuid", {"fileIndex": -1}, own),
        ("raw", raw, "raw id"),
    ):
        found = {"partition": "p", "file_id": file_id, "instant_ms": "1795233396929"}
        yield Vector(
            f"metadata-record.location-{name}",
            ["MDT-12"],
            _SEEN if name == "uuid" else _TEXT,
            _location(**fields),
            {**found, "position": None},
        )
    yield from _written_locations()
    yield from _merges()
    yield from _timelines()
    yield Vector(
        "metadata-record.secondary",
        ["MDT-8"],
        _TEXT,
        _value(type=7, SecondaryIndexMetadata=_DELETED),
        {"deleted": True},
    )
    yield Vector(
        "metadata-record.no-files",
        ["MDT-9"],
        _TEXT,
        ListOf([_value(type=1), _value(type=2)]),
        [{"files": {}, "partitions": True}, {"files": {}, "partitions": False}],
    )
    # of each type but 1 and 2, with the member of another one
    lacking = [_value(type=number) for number in (3, 4, 5, 6, 7)]
    lacking.append(_value(type=3, BloomFilterMetadata=bloom))
    lacking.append(_value(type=7, ColumnStatsMetadata=_STATS))
    unknown = [_value(type=number, SecondaryIndexMetadata=_DELETED) for number in (0, -1, 8, 9)]
    bad: list[tuple[str, str, object, str]] = [
        ("another-type", "MDT-9", ListOf(unknown), "unsupported"),
        ("no-member", "MDT-9", ListOf(lacking), "corrupt"),
        ("another-encoding", "MDT-12", _location(fileIdEncoding=2), "unsupported"),
    ]
    for name, rule, content, error in bad:
        yield Vector(f"metadata-record.{name}", [rule], _TEXT, content, error=error)


def _zigzag(value: int) -> bytes:
    value, encoded = value * 2 if value >= 0 else -value * 2 - 1, b""
    while value > 0x7F:
        value, encoded = value >> 7, encoded + bytes([value & 0x7F | 0x80])
    return encoded + bytes([value])


def _written_locations() -> Iterator[Vector]:
    own = "72c3849d-e3ca-4135-a298-4ff2c4fcaa50"
    halves = (8269599154448777525, -6730541738999633328)
    inputs, values = [], []
    for file_id, (high, low), number, raw in (
        (f"{own}-12", halves, 12, ""),
        (own, halves, -1, ""),
        ("raw id", (-1, -1), -1, "raw id"),
        (f"{own}-007", (-1, -1), -1, f"{own}-007"),
        (own.upper(), (-1, -1), -1, own.upper()),
        (f"{own}-2147483648", (-1, -1), -1, f"{own}-2147483648"),
    ):
        for version in (6, 8, 9):
            parts = [_zigzag(1) + b"p", _zigzag(high), _zigzag(low), _zigzag(number)]
            parts += [_zigzag(len(raw)) + raw.encode(), _zigzag(1795233396929)]
            value = bytes(6) + _zigzag(5) + bytes(3) + b"\x02"  # nulls, no key, the type, nulls
            value += b"".join(b"\x02" + part for part in parts) + _zigzag(1 if raw else 0)
            value += bytes(0 if version == 6 else 2)  # the position, and the secondary index
            inputs.append(
                {
                    "table_version": version,
                    "partition": "p",
                    "file_id": file_id,
                    "instant_ms": "1795233396929",
                }
            )
            values.append(value.hex())
    rules = ["MDT-8", "MDT-12", "MDT-14"]
    yield Vector("metadata-location.written", rules, _TEXT, ListOf(inputs), values)


def _merges() -> Iterator[Vector]:
    def files(**entries: tuple[int, bool]) -> dict[str, object]:
        return {"files": {name: [str(size), gone] for name, (size, gone) in entries.items()}}

    def stats(low: object, high: object, **more: object) -> dict[str, object]:
        plain = {"values": 3, "nulls": 1, "deleted": False, "tight": False}
        return {"min": low, "max": high, **plain, **more}

    def location(file_id: str) -> dict[str, object]:
        return {"partition": "p", "file_id": file_id, "instant_ms": "1795233396929"}

    cases: list[tuple[list[dict[str, object]], dict[str, object]]] = [
        (
            [files(a=(5, False), b=(6, False)), files(a=(0, True), c=(0, True), d=(1, False))],
            files(b=(6, False), c=(0, True), d=(1, False)),
        ),
        ([files(a=(5, False)), files(a=(7, False)), files(a=(6, False))], files(a=(7, False))),
        ([files(a=(5, False)), files(a=(0, True)), files(a=(3, False))], files(a=(3, False))),
        ([files(a=(0, True)), files(a=(0, True))], files(a=(0, True))),
        ([files(a=(0, True)), files(a=(7, False))], files(a=(7, False))),
        (
            [stats(["Int", 1], ["Int", 5]), stats(["Long", 3], ["Long", 9])],
            stats(["Long", 1], ["Long", 9], values=6, nulls=2),
        ),
        (
            [stats(None, None), stats(["String", "a"], ["String", "b"])],
            stats(["String", "a"], ["String", "b"], values=6, nulls=2),
        ),
        (
            [
                stats(["String", "\uffee"], ["String", "\uffee"]),
                stats(["String", "\U0001f600"], ["String", "\U0001f600"]),
            ],
            stats(["String", "\U0001f600"], ["String", "\uffee"], values=6, nulls=2),
        ),
        (
            [stats(["Int", 1], ["Int", 5]), stats(None, None)],
            stats(["Int", 1], ["Int", 5], values=6, nulls=2),
        ),
        (
            [stats(["String", "a"], ["String", "b"]), stats(["Int", 1], ["Int", 2])],
            stats(None, None, values=6, nulls=2),
        ),
        (
            [
                stats(["Boolean", False], ["Boolean", False]),
                stats(["Boolean", True], ["Boolean", True]),
            ],
            stats(["Boolean", False], ["Boolean", True], values=6, nulls=2),
        ),
        (
            [stats(["Double", 1.5], ["Double", 2.5]), stats(["Double", -0.5], ["Double", 2.25])],
            stats(["Double", -0.5], ["Double", 2.5], values=6, nulls=2),
        ),
        (
            [stats(["Int", 1], ["Int", 9]), stats(["Int", 4], ["Int", 5], tight=True)],
            stats(["Int", 4], ["Int", 5], tight=True),
        ),
        (
            [stats(["Int", 1], ["Int", 9]), stats(None, None, deleted=True)],
            stats(None, None, deleted=True),
        ),
        (
            [stats(None, None, deleted=True), stats(["Int", 4], ["Int", 5])],
            stats(["Int", 4], ["Int", 5]),
        ),
        # sizes are numbers
        ([files(a=(9, False)), files(a=(10, False))], files(a=(10, False))),
        ([files(a=(10, False)), files(a=(9, False))], files(a=(10, False))),
        # an entry that is gone, back and gone again
        ([files(a=(0, True)), files(a=(7, False)), files(a=(0, True))], files()),
        # an older record that was tight
        (
            [stats(["Int", 4], ["Int", 5], tight=True), stats(["Int", 1], ["Int", 2])],
            stats(["Int", 1], ["Int", 5], values=6, nulls=2),
        ),
        # a bound after two without a common order stands alone
        (
            [
                stats(["String", "a"], ["String", "b"]),
                stats(["Int", 1], ["Int", 2]),
                stats(["Int", 7], ["Int", 8]),
            ],
            stats(["Int", 7], ["Int", 8], values=9, nulls=3),
        ),
        # days that Hudi 0.15 puts into an int
        (
            [stats(["Date", 5], ["Date", 9]), stats(["Int", 7], ["Int", 12])],
            stats(["Int", 5], ["Int", 12], values=6, nulls=2),
        ),
        (
            [
                stats(["Double", "NaN"], ["Double", "NaN"]),
                stats(["Double", 1.5], ["Double", "Infinity"]),
            ],
            stats(["Double", 1.5], ["Double", "NaN"], values=6, nulls=2),
        ),
        # bytes are signed, byte by byte, and a text goes before those that it begins
        (
            [stats(["Bytes", "01"], ["Bytes", "01"]), stats(["Bytes", "80"], ["Bytes", "80"])],
            stats(["Bytes", "80"], ["Bytes", "01"], values=6, nulls=2),
        ),
        (
            [stats(["Bytes", "0080"], ["Bytes", "0080"]), stats(["Bytes", "00"], ["Bytes", "00"])],
            stats(["Bytes", "00"], ["Bytes", "0080"], values=6, nulls=2),
        ),
        # decimals are numbers: 128 and 127, -1 and 1
        (
            [
                stats(["Decimal", "0080"], ["Decimal", "0080"]),
                stats(["Decimal", "7f"], ["Decimal", "7f"]),
            ],
            stats(["Decimal", "7f"], ["Decimal", "0080"], values=6, nulls=2),
        ),
        (
            [
                stats(["Bytes", "0080"], ["Bytes", "0080"], decimal="10,2"),
                stats(["Bytes", "7f"], ["Bytes", "ff"], decimal="10,2"),
            ],
            stats(["Bytes", "7f"], ["Bytes", "0080"], values=6, nulls=2, decimal="10,2"),
        ),
        (
            [
                stats(["Bytes", "01"], ["Bytes", "02"], decimal="10,2"),
                stats(["Bytes", "03"], ["Bytes", "04"], decimal="12,3"),
            ],
            stats(None, None, values=6, nulls=2, decimal="12,3"),
        ),
        # the newest stands alone
        ([location("a"), location("b")], location("b")),
    ]
    yield Vector(
        "metadata-merge.all",
        ["MDT-17"],
        "written for this text; the same rules on tables of Hudi 0.15.0 and 1.2.0 give its records",
        ListOf([given for given, _ in cases]),
        [merged for _, merged in cases],
    )


def _steps(t: list[str]) -> list[tuple[dict[str, object], dict[str, object]]]:
    """Questions of `metadata-step`, each for clauses of MDT-18, and what is not as when in step."""

    def question(
        layout: int, data: list[str], metadata: list[str], *archived: str
    ) -> dict[str, object]:
        timelines = {"layout": layout, "data": data, "metadata": metadata}
        return {**timelines, "archived": list(archived)}

    initial = f"{'0' * 17}_{t[2]}.deltacommit"
    again = f"{'0' * 17}010_{t[6]}.deltacommit"
    two = [f"{t[3]}_{t[4]}.commit", f"{t[5]}_{t[8]}.commit"]
    synced = [f"{t[3]}_{t[4]}.deltacommit", f"{t[5]}_{t[7]}.deltacommit"]
    undone = [f"{t[3]}_{t[4]}.commit", f"{t[5]}_{t[6]}.restore"]
    one = [f"{t[3]}.commit", f"{t[5]}.commit"]
    return [
        (question(2, two, [initial, synced[1]], synced[0]), {}),
        (question(2, two, [initial, synced[1]]), {"missing": [t[3]]}),
        # neither a pending deltacommit nor a compaction is one
        (
            question(2, two, [initial, synced[0], f"{t[5]}.deltacommit.inflight"]),
            {"missing": [t[5]]},
        ),
        (question(2, two, [initial, synced[0], f"{t[5]}_{t[7]}.commit"]), {"missing": [t[5]]}),
        (question(2, two, [f"{'0' * 17}.deltacommit.inflight"]), {"unfinished": True}),
        # each action that changes files, and those that do not
        (
            question(
                2,
                [
                    f"{t[3]}_{t[4]}.deltacommit",
                    f"{t[5]}_{t[6]}.replacecommit",
                    f"{t[7]}_{t[8]}.clean",
                    f"{t[9]}_{t[10]}.rollback",
                    f"{t[3]}_{t[11]}.savepoint",
                    f"{t[12]}_{t[13]}.indexing",
                ],
                [initial],
            ),
            {"missing": [t[3], t[5], t[7]]},
        ),
        # the earliest initialisation counts, and by completion times
        (question(2, two, [initial, again, synced[1]]), {"missing": [t[3]]}),
        (question(2, [f"{t[1]}_{t[4]}.commit"], [initial]), {"missing": [t[1]]}),
        (question(2, [f"{t[1]}_{t[2]}.commit"], [initial]), {}),
        (
            question(1, one, [f"{t[1]}010.deltacommit", f"{t[6]}011.deltacommit"]),
            {"missing": [t[3], t[5]]},
        ),
        (question(1, one, [f"{t[3]}010.deltacommit"]), {"missing": [t[5]]}),
        # fewer than 010 are of log compactions
        (question(1, one, [f"{t[6]}005.deltacommit"]), {"missing": [t[3], t[5]]}),
        # restores
        (question(2, undone, [initial, synced[0]]), {"missing": [t[5]]}),
        (question(2, undone, [initial, *synced]), {}),
        (question(2, undone, [initial, synced[0], f"{t[6]}_{t[7]}.deltacommit"]), {}),
        (
            question(
                2,
                [*undone, f"{t[7]}_{t[8]}.commit"],
                [initial, synced[0], f"{t[7]}_{t[8]}.deltacommit"],
            ),
            {"missing": [t[5]]},
        ),
        (
            question(2, undone, [initial, synced[0], f"{t[5]}.restore.inflight"]),
            {"missing": [t[5]]},
        ),
        # ahead: between the first and the last instant of the table, with no restore before
        (question(2, two, [initial, *synced, f"{t[1]}_{t[2]}.deltacommit"]), {}),
        (question(2, two, [initial, *synced, f"{t[6]}_{t[7]}.deltacommit"]), {}),
        (question(2, two, [initial, *synced, f"{t[4]}_{t[6]}.deltacommit"]), {"ahead": [t[4]]}),
        (question(2, two, [initial, *synced, f"{t[4]}.deltacommit.inflight"]), {}),
        (
            question(
                2,
                [*undone, f"{t[9]}_{t[10]}.commit"],
                [initial, *synced, f"{t[7]}_{t[8]}.deltacommit", f"{t[9]}_{t[10]}.deltacommit"],
            ),
            {},
        ),
        (
            question(
                1,
                one,
                [
                    f"{t[1]}010.deltacommit",
                    f"{t[3]}.deltacommit",
                    f"{t[4]}005.deltacommit",
                    f"{t[5]}.deltacommit",
                ],
            ),
            {},
        ),
        # an initialisation under the name that it had before an upgrade from layout 1
        (question(2, two, [f"{t[4]}010_{t[4]}.deltacommit", synced[1]]), {}),
    ]


def _valid_instants(t: list[str]) -> list[tuple[dict[str, object], list[str]]]:
    """Questions of `metadata-valid`, each for clauses of MDT-16, and the times that count."""
    initial, data = f"{'0' * 17}_{t[2]}.deltacommit", [f"{t[3]}_{t[4]}.commit"]
    later = [*data, f"{t[9]}_{t[10]}.commit"]
    pending = f"{t[8]}.deltacommit.requested"

    def question(
        layout: int, data: list[str], metadata: list[str], times: list[str], *rolled_back: str
    ) -> dict[str, object]:
        timelines = {"layout": layout, "data": data, "metadata": metadata}
        return {**timelines, "rolled_back": list(rolled_back), "times": times}

    undone = [f"{t[5]}_{t[6]}.rollback", f"{t[6]}_{t[7]}.restore", f"{t[7]}.rollback.inflight"]
    begun = [f"{t[5]}.deltacommit.requested", f"{t[5]}.deltacommit.inflight"]
    others = [f"{t[5]}_{t[6]}.commit", f"{t[7]}_{t[8]}.clean"]
    since, restore = f"{t[12]}_{t[13]}.deltacommit", f"{t[9]}_{t[10]}.restore"
    committed = [f"{t[3]}.deltacommit", f"{t[5]}.deltacommit.inflight", f"{t[6]}.deltacommit"]
    return [
        # what is earlier than the first instant of the table does not count for that
        (question(2, data, [initial], [t[1], t[3]]), [t[3]]),
        # rollbacks and restores of the metadata table, if they are completed
        (question(2, later, [initial, *undone], [t[5], t[6], t[7]]), [t[5], t[6]]),
        # a deltacommit that is not completed, and completed actions that are none
        (question(2, later, [initial, *begun], [t[5]]), []),
        (question(2, later, [initial, *others], [t[5], t[7]]), []),
        # completed in the metadata table, and unknown to the table between its instants
        (question(2, later, [initial, f"{t[6]}_{t[7]}.deltacommit"], [t[6]]), [t[6]]),
        # an initialisation under more digits, and one that is not completed
        (
            question(2, data, [f"{'0' * 17}010_{t[2]}.deltacommit"], ["0" * 17 + "010"]),
            ["0" * 17 + "010"],
        ),
        (question(2, data, [f"{'0' * 17}.deltacommit.inflight"], ["0" * 17]), []),
        # rolled back and pending: another has taken the time
        (question(2, [*data, pending], [initial], [t[7], t[8]], t[7], t[8]), [t[7]]),
        # later than the timeline of the table, and rolled back
        (question(2, later, [initial, since], [t[12]], t[12]), [t[12]]),
        # a restore that is not the last instant
        (question(2, [*data, restore, f"{t[11]}.commit.requested"], [initial, since], [t[12]]), []),
        (question(2, [*data, restore], [initial, since], [t[12]]), [t[12]]),
        # later by the first 17 digits than the last instant, a pending one
        (
            question(
                2, [*data, pending], [initial, f"{t[8]}500_{t[9]}.deltacommit"], [t[8] + "500"]
            ),
            [t[8] + "500"],
        ),
        # layout 1: committed in the timeline of the metadata table as well
        (
            question(
                1,
                [f"{t[3]}.commit", f"{t[4]}.commit", f"{t[5]}.commit", f"{t[6]}.commit"],
                committed,
                [t[1], t[3], t[4], t[5], t[6]],
            ),
            [t[3], t[6]],
        ),
    ]


def _timelines() -> Iterator[Vector]:
    day, zeros = "20260101", "0" * 17
    t = [f"{day}{number:09}" for number in range(30)]
    initial = f"{zeros}_{t[2]}.deltacommit"
    data = [f"{t[1]}_{t[1]}.commit", f"{t[5]}_{t[6]}.commit", f"{t[8]}.commit.requested"]
    own = [initial, f"{t[5]}_{t[6]}.deltacommit", f"{t[8]}_{t[9]}.deltacommit"]
    rolled = {"layout": 2, "data": data, "metadata": own, "rolled_back": [t[7]]}
    times = [zeros, t[1], t[4], t[5], t[7], t[8]]
    valid = [zeros, t[1], t[5], t[7]]
    began_since = {
        "layout": 2,
        "data": data[:2],
        "metadata": [*own, f"{t[5]}500_{t[7]}.deltacommit"],
        "rolled_back": [],
    }
    restored = {**began_since, "data": [*data[:2], f"{t[7]}_{t[7]}.restore"]}
    amended = f"{t[5]}500"
    yield Vector(
        "metadata-valid.all",
        ["MDT-16"],
        _TEXT,
        ListOf(
            [
                {**rolled, "times": times},
                {**began_since, "times": [t[5], amended, t[8]]},
                {**restored, "times": [t[5], amended, t[8]]},
                *(given for given, _ in _valid_instants(t)),
            ]
        ),
        [
            valid,
            [t[5], amended],
            [t[5], amended, t[8]],
            *(expected for _, expected in _valid_instants(t)),
        ],
    )
    known = {"missing": [], "ahead": [], "leftovers": [], "unfinished": False}
    steps: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"layout": 2, "data": data, "metadata": own}, {**known, "leftovers": [t[8]]}),
        ({"layout": 2, "data": data, "metadata": [initial]}, {**known, "missing": [t[5]]}),
        ({"layout": 2, "data": data, "metadata": []}, {**known, "unfinished": True}),
        (
            {"layout": 2, "data": data, "metadata": [*own, f"{t[4]}_{t[4]}.deltacommit"]},
            {**known, "ahead": [t[4]], "leftovers": [t[8]]},
        ),
        (
            {
                "layout": 2,
                "data": [f"{t[1]}_{t[6]}.commit", f"{t[3]}_{t[4]}.commit", f"{t[7]}_{t[8]}.commit"],
                "metadata": [
                    initial,
                    f"{t[1]}_{t[5]}.deltacommit",
                    f"{t[3]}_{t[4]}.deltacommit",
                    f"{t[3]}500_{t[6]}.deltacommit",
                    f"{t[7]}_{t[8]}.deltacommit",
                ],
            },
            known,
        ),
        (
            {"layout": 1, "data": [f"{t[1]}.commit"], "metadata": [f"{t[1]}010.deltacommit"]},
            known,
        ),
        (
            {
                "layout": 1,
                "data": [f"{t[2]}.commit", f"{t[3]}.rollback"],
                "metadata": [f"{t[1]}010.deltacommit", f"{t[2]}.deltacommit"],
            },
            {**known, "missing": [t[3]]},
        ),
        # what a restore took back there with others, which the table's timeline keeps
        (
            {
                "layout": 2,
                "data": [
                    f"{t[1]}_{t[2]}.commit",
                    f"{t[3]}_{t[4]}.clean",
                    f"{t[5]}_{t[7]}.restore",
                    f"{t[6]}_{t[8]}.clean",
                ],
                "metadata": [initial, f"{t[5]}_{t[6]}.restore"],
            },
            {**known, "missing": [t[6]]},
        ),
        (
            {
                "layout": 1,
                "data": [
                    f"{t[2]}.commit",
                    f"{t[3]}.rollback",
                    f"{t[4]}.clean",
                    f"{t[5]}.restore",
                    f"{t[6]}.rollback",
                ],
                "metadata": [
                    f"{t[1]}010.deltacommit",
                    f"{t[2]}.deltacommit",
                    f"{t[5]}.deltacommit",
                ],
            },
            {**known, "missing": [t[6]]},
        ),
    ]
    steps += [(given, {**known, **step}) for given, step in _steps(t)]
    yield Vector(
        "metadata-step.all",
        ["MDT-18", "MDT-24"],
        _TEXT,
        ListOf([{"archived": [], **given} for given, _ in steps]),
        [expected for _, expected in steps],
    )
