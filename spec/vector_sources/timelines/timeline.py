"""Vectors of instants, timeline files and archives."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from io import BytesIO

import fastavro

from spec.vector_sources.files.logs import encode_block, parse_blocks
from spec.vector_sources.vector import SCHEMAS, ListOf, Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"
_NAMES = "InstantFileNameGeneratorV1/V2; names in tables of Hudi 0.15.0 and 1.2.0"
_T, _C = "20261121044145151", "20261121044151780"

_BOTH_LAYOUTS = {
    f"{_T}.commit.requested": ("commit", "REQUESTED"),
    f"{_T}.inflight": ("commit", "INFLIGHT"),
    f"{_T}.deltacommit.requested": ("deltacommit", "REQUESTED"),
    f"{_T}.deltacommit.inflight": ("deltacommit", "INFLIGHT"),
    f"{_T}.replacecommit.requested": ("replacecommit", "REQUESTED"),
    f"{_T}.compaction.requested": ("compaction", "REQUESTED"),
    f"{_T}.compaction.inflight": ("compaction", "INFLIGHT"),
    f"{_T}.logcompaction.requested": ("logcompaction", "REQUESTED"),
    f"{_T}.clean.requested": ("clean", "REQUESTED"),
    f"{_T}.rollback.inflight": ("rollback", "INFLIGHT"),
    f"{_T}.restore.requested": ("restore", "REQUESTED"),
    f"{_T}.savepoint.inflight": ("savepoint", "INFLIGHT"),
    f"{_T}.indexing.requested": ("indexing", "REQUESTED"),
    f"{_T}.schemacommit.inflight": ("schemacommit", "INFLIGHT"),
}
_COMPLETED = ("commit", "deltacommit", "replacecommit", "clean", "rollback", "savepoint")
_OTHERS = [
    "hoodie.properties",
    f".{_T}.commit.crc",
    f"{_T}.commit.d0f5a6f3-7c2a-4d26-9a7c-1c3e2c1d0b4a",
    f"{_T}.commit.inflight",
    f"{_T}.savepoint.requested",
    f"{_T}.unknown",
    f"{_T}.compaction",
    "x.commit",
    "history",
    "",
]


def _file(name: str, layout: int) -> dict[str, object]:
    return {"name": name, "layout": layout}


def _instant(
    requested: str, completed: str | None, action: str, state: str
) -> dict[str, str | None]:
    return {
        "requested_time": requested,
        "completion_time": completed,
        "action": action,
        "state": state,
    }


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield from _instant_files()
    yield from _times()
    yield from _user_times()
    yield from _timelines()
    yield from _committed()
    yield from _archives()


def _instant_files() -> Iterator[Vector]:
    pending = {
        (name, layout): _instant(_T, None, *meaning)
        for name, meaning in _BOTH_LAYOUTS.items()
        for layout in (1, 2)
    }
    pending[f"{_T}.clustering.requested", 2] = _instant(_T, None, "clustering", "REQUESTED")
    yield Vector(
        "instant-file.pending",
        ["TL-4"],
        _NAMES,
        ListOf([_file(*key) for key in pending]),
        list(pending.values()),
    )
    completed = {
        (f"{_T}_{_C}.{action}", 2): _instant(_T, _C, action, "COMPLETED") for action in _COMPLETED
    }
    completed |= {
        (f"{_T}.{action}", 1): _instant(_T, None, action, "COMPLETED") for action in _COMPLETED
    }
    yield Vector(
        "instant-file.completed",
        ["TL-4"],
        _NAMES,
        ListOf([_file(*key) for key in completed]),
        list(completed.values()),
    )
    yield Vector(
        "instant-file.legacy",
        ["TL-6"],
        "a completed file of layout 1 left in layout 2 by an upgrade",
        _file(f"{_T}.commit", 2),
        _instant(_T, None, "commit", "COMPLETED"),
    )
    others = [_file(name, layout) for name in _OTHERS for layout in (1, 2)]
    others += [_file(f"{_T}.clustering.requested", 1), _file(f"{_T}_{_C}.commit", 1)]
    yield Vector("instant-file.others", ["TL-5"], _TEXT, ListOf(others), [None] * len(others))
    written = [
        ("commit", "INFLIGHT", 1, f"{_T}.inflight"),
        ("compaction", "COMPLETED", 1, f"{_T}.commit"),
        ("compaction", "COMPLETED", 2, f"{_T}_{_C}.commit"),
        ("logcompaction", "COMPLETED", 2, f"{_T}_{_C}.deltacommit"),
        ("clustering", "REQUESTED", 1, f"{_T}.replacecommit.requested"),
        ("clustering", "REQUESTED", 2, f"{_T}.clustering.requested"),
        ("clustering", "COMPLETED", 2, f"{_T}_{_C}.replacecommit"),
        ("savepoint", "COMPLETED", 2, f"{_T}_{_C}.savepoint"),
    ]
    yield Vector(
        "instant-file-name.written",
        ["TL-4"],
        _NAMES,
        ListOf(
            [
                {**_instant(_T, _C, action, state), "layout": layout}
                for action, state, layout, _ in written
            ]
        ),
        [row[3] for row in written],
    )


def _times() -> Iterator[Vector]:
    dates = {
        "20261121044145151": "2026-11-21T04:41:45.151",
        "20261121044145": "2026-11-21T04:41:45.999",
        "20261121044145151010": "2026-11-21T04:41:45.151",
        "20240229000000000": "2024-02-29T00:00:00.000",
    }
    yield Vector(
        "instant-time.dates",
        ["TL-2"],
        "HoodieInstantTimeGenerator.parseDateFromInstantTime (judge/Decisions.java, Hudi 1.2.0)",
        ListOf(list(dates)),
        list(dates.values()),
    )
    yield Vector(
        "instant-time.no-dates",
        ["TL-2"],
        _TEXT,
        ListOf(["00000000000000", "20230229000000000", "2026", "2026112104414515", "x" * 17, ""]),
        error="corrupt",
    )
    instants = ["20261121044145151", "20261121044145", "00000000000000", "20261121044145151010"]
    yield Vector(
        "instant-order.text",
        ["TL-1"],
        "String.compareTo",
        instants,
        ["00000000000000", "20261121044145", "20261121044145151", "20261121044145151010"],
    )


def _user_times() -> Iterator[Vector]:
    local, utc = "LOCAL", "UTC"
    times = [
        ("20261121044145151", local, "20261121044145151"),
        ("20261121044145", utc, "20261121044145"),
        ("2026-11-21", utc, "20261121000000000"),
        ("2026-11-21 04:41:45", utc, "20261121044145999"),
        ("2026-11-21 04:41:45.151", local, "20261121044145151"),
        ("2026-11-21T04:41:45.151Z", utc, "20261121044145151"),
        ("2026-11-21T04:41:45.151+02:00", utc, "20261121024145151"),
        ("2026-01-01 00:30:00.000+01:00", utc, "20251231233000000"),
    ]
    yield Vector(
        "instant-of-time.forms",
        ["TL-3"],
        "formatQueryInstant of Hudi's Spark datasource, as read in its source; zones by this text",
        ListOf([{"time": time, "timezone": zone} for time, zone, _ in times]),
        [instant for *_, instant in times],
    )


def _timelines() -> Iterator[Vector]:
    table = golden("1.2.0", "ch_split")
    folder = ".hoodie/timeline/"
    names = [path.removeprefix(folder) for path in table.paths(folder)]
    completed = [name for name in names if "_" in name]
    expected = []
    for name in completed:
        times, action = name.split(".")
        expected.append([*times.split("_"), action, "COMPLETED"])
    yield Vector(
        "timeline.ch-split",
        ["TL-8", "TL-10"],
        table.recipe(folder, "the listing"),
        {"layout": 2, "files": [{"name": name, "modified_ms": None} for name in names]},
        sorted(expected),
    )
    t = [f"2024010100000{n}000" for n in range(10)]
    yield Vector(
        "timeline.layout-1",
        ["TL-7", "TL-8", "TL-9"],
        _TEXT + "; the zone is UTC",
        {
            "layout": 1,
            "files": [
                {"name": f"{t[1]}.commit", "modified_ms": 1704067200250},
                {"name": f"{t[2]}.replacecommit.requested", "modified_ms": 1704067201000},
                {"name": f"{t[2]}.replacecommit.inflight", "modified_ms": 1704067201000},
                {"name": f"{t[3]}.compaction.requested", "modified_ms": 1704067201000},
                {"name": f"{t[3]}.commit", "modified_ms": 1704067202500},
                {"name": f"{t[1]}.savepoint", "modified_ms": 1704067203000},
            ],
        },
        [
            [t[1], "20240101000000250", "commit", "COMPLETED"],
            [t[1], "20240101000003000", "savepoint", "COMPLETED"],
            [t[2], None, "replacecommit", "INFLIGHT"],
            [t[3], "20240101000002500", "commit", "COMPLETED"],
        ],
    )
    yield Vector(
        "timeline.upgraded",
        ["TL-6", "TL-8"],
        _TEXT,
        {
            "layout": 2,
            "files": [
                {"name": f"{t[1]}.commit", "modified_ms": 1704067200000},
                {"name": f"{t[3]}.clustering.requested", "modified_ms": 1704067200000},
                {"name": f"{t[3]}_{t[5]}.replacecommit", "modified_ms": 1704067200000},
                {"name": f"{t[2]}_{t[6]}.deltacommit", "modified_ms": 1704067200000},
                {"name": f"{t[2]}.deltacommit.inflight", "modified_ms": 1704067200000},
            ],
        },
        [
            [t[1], "20240101000000000", "commit", "COMPLETED"],
            [t[2], t[6], "deltacommit", "COMPLETED"],
            [t[3], t[5], "replacecommit", "COMPLETED"],
        ],
    )


def _committed() -> Iterator[Vector]:
    """Yield vectors of committed times, of which instants are pending, archived or savepointed."""
    t = [f"2026112104414{n}000" for n in range(10)]
    sources = "CompletionTimeQueryView and BaseHoodieLogRecordReader, as read in their sources"
    known: list[tuple[str, list[str], int, list[str], list[str], list[str], list[str]]] = [
        (
            "layout-1",
            ["TL-11", "TL-12", "TL-13", "LOG-18"],
            1,
            [
                f"{t[1]}.clean",
                f"{t[2]}.deltacommit.inflight",
                f"{t[3]}.deltacommit",
                f"{t[4]}.compaction.requested",
                f"{t[5]}.rollback.inflight",
                f"{t[6]}.replacecommit",
                f"{t[7]}.inflight",
            ],
            [*t[:9], f"{t[3]}0"],
            [t[0], t[1], t[3], t[6]],
            [t[0], t[1], t[3], t[6]],
        ),
        (
            "layout-2",
            ["TL-11", "TL-12", "TL-13", "LOG-18"],
            2,
            [
                f"{t[2]}.compaction.requested",
                f"{t[3]}_{t[5]}.deltacommit",
                f"{t[4]}.deltacommit.inflight",
                f"{t[6]}.clustering.requested",
            ],
            t[:8],
            [t[0], t[1], t[3]],
            [t[0], t[1], t[2], t[3]],
        ),
        (
            "savepointed",
            ["TL-11"],
            1,
            [f"{t[1]}.commit", f"{t[1]}.savepoint", f"{t[5]}.commit", f"{t[7]}.inflight"],
            t[:9],
            [t[0], t[1], t[5]],
            [t[0], t[1], t[5]],
        ),
        (
            "short-instants",
            ["TL-14", "LOG-18"],
            1,
            ["20240101000000.deltacommit", "20240102000000.deltacommit.inflight"],
            [
                "20240101000000",
                "20240101000000999",
                "20240101000000998",
                "20240102000000",
                "20240102000000999",
            ],
            ["20240101000000"],
            ["20240101000000", "20240101000000999"],
        ),
        ("nothing", ["TL-11", "TL-12"], 2, [], [t[0]], [], []),
    ]
    for name, rules, layout, files, times, of_files, of_blocks in known:
        question = {"layout": layout, "files": files, "times": times}
        expected = {"files": of_files, "blocks": of_blocks}
        yield Vector(f"committed-times.{name}", rules, sources, question, expected)


def _archives() -> Iterator[Vector]:
    table = golden("0.15.0", "cleaned")
    path = table.paths(".hoodie/archived/", contains=".commits_.archive.")[0]
    block = parse_blocks(table.files[path])[0]
    schema = fastavro.parse_schema(json.loads(block.header[2]))
    yield Vector(
        "archived-block.layout-1",
        ["TL-18"],
        table.recipe(path, "content and SCHEMA of the first block"),
        {"content": block.content.hex(), "schema": block.header[2]},
        [
            [entry["commitTime"], entry["actionType"], entry["actionState"]]
            for entry in _archived_entries(block.content, schema)
        ],
    )
    yield Vector(
        "archived-block.version",
        ["TL-18"],
        _TEXT,
        {"content": "0000000400000000", "schema": block.header[2]},
        error="unsupported",
    )
    yield from _archive_files()
    row = {
        "instantTime": _T,
        "completionTime": _C,
        "action": "clean",
        "version": 1,
        "metadata": "",
        "plan": None,
    }
    savepoint = golden("1.2.0", "savepointed_mor")
    path = savepoint.paths(".hoodie/timeline/", end=".savepoint")[0]
    held = {**row, "action": "savepoint", "metadata": savepoint.files[path].hex()}
    told = {"requested_time": _T, "completion_time": _C, "metadata": False, "plan": False}
    yield Vector(
        "history-row.rows",
        ["TL-23"],
        savepoint.recipe(path) + "; the rest is " + _TEXT,
        ListOf([row, held]),
        [{**told, "action": "clean"}, {**told, "action": "savepoint", "metadata": True}],
    )
    yield Vector(
        "history-row.versions",
        ["TL-23"],
        _TEXT,
        ListOf([{**row, "version": version} for version in (0, 2)]),
        error="unsupported",
    )
    yield Vector(
        "history-row.incomplete",
        ["TL-23"],
        _TEXT,
        ListOf([{k: v for k, v in row.items() if k != name} for name in ("instantTime", "action")]),
        error="corrupt",
    )
    table = golden("1.2.0", "cleaned")
    folder = ".hoodie/timeline/history/"
    yield Vector(
        "history-version.cleaned",
        ["TL-20"],
        table.recipe(f"{folder}_version_"),
        table.files[f"{folder}_version_"],
        6,
    )
    yield Vector(
        "history-version.malformed",
        ["TL-20"],
        _TEXT,
        ListOf(["", "x", "-1", "6\n", "6 ", "٦"]),
        error="corrupt",
    )
    manifest = table.files[f"{folder}manifest_6"]
    files = json.loads(manifest)["files"]
    yield Vector(
        "history-manifest.cleaned",
        ["TL-21", "TL-22"],
        table.recipe(f"{folder}manifest_6"),
        manifest,
        [
            {
                "name": file["fileName"],
                "size": file["fileLen"],
                "min_instant": file["fileName"].split("_")[0],
                "max_instant": file["fileName"].split("_")[1],
                "layer": int(file["fileName"].split("_")[2].removesuffix(".parquet")),
            }
            for file in files
        ],
    )
    yield Vector(
        "history-manifest.foreign-names",
        ["TL-21"],
        _TEXT,
        ListOf(
            [
                json.dumps({"files": [{"fileName": name, "fileLen": 1}]})
                for name in ("../1_2_0.parquet", "1_2.parquet", "1_2_0.orc", "")
            ]
        ),
        error="corrupt",
    )


def _archive_block(*entries: tuple[str, str, str | None]) -> bytes:
    """Return a log block of archive entries, under a schema of three fields."""
    names = ("commitTime", "actionType", "actionState")
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    schema = {"type": "record", "name": "HoodieArchivedMetaEntry", "fields": fields}
    records = []
    for entry in entries:
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, dict(zip(names, entry, strict=True)))
        records.append(struct.pack(">i", len(out.getvalue())) + out.getvalue())
    content = struct.pack(">ii", 3, len(records)) + b"".join(records)
    return encode_block(3, {2: json.dumps(schema)}, content)


def _archive_files() -> Iterator[Vector]:
    first = _archive_block((_T, "commit", "REQUESTED"), (_T, "commit", "COMPLETED"))
    second = _archive_block((_C, "clean", None))
    cut = second[:-9]
    one, two = ".commits_.archive.1_1-0-1", ".commits_.archive.2_1-0-1"
    merged = ".commits_.archive.3_1-0-1"

    def plan(name: str) -> dict[str, str]:
        schema = json.loads((SCHEMAS / "HoodieMergeArchiveFilePlan.avsc").read_bytes())
        out = BytesIO()
        record = {"version": 1, "candidate": [one, two], "mergedArchiveFileName": name}
        fastavro.writer(out, fastavro.parse_schema(schema), [record], sync_marker=bytes(16))
        return {"hex": out.getvalue().hex()}

    def files(**given: bytes) -> dict[str, object]:
        names = {"one": one, "two": two, "merged": merged}
        return {names[name]: {"hex": data.hex()} for name, data in given.items()}

    instants = [[_T, "commit", "COMPLETED"], [_C, "clean", "COMPLETED"]]
    good: list[dict[str, object]] = [
        files(one=first, two=second),
        files(one=first + second),
        {**files(one=first, two=second, merged=first + cut), "mergeArchivePlan": plan(merged)},
        {**files(one=first, two=second), "mergeArchivePlan": plan(merged), "x": {"text": "x"}},
    ]
    yield Vector(
        "archived-instants.files",
        ["TL-18", "TL-19"],
        _TEXT + ", with fields of HoodieArchivedMetaEntry",
        ListOf([{"files": question} for question in good]),
        [instants] * len(good),
    )
    yield Vector(
        "archived-instants.damaged",
        ["TL-19"],
        _TEXT,
        ListOf(
            [
                {"files": files(one=first, two=cut)},
                {"files": files(one=first, two=second, merged=first + cut)},
                {"files": {**files(one=first, two=cut), "mergeArchivePlan": plan(merged)}},
                {"files": {**files(one=first, two=cut), "mergeArchivePlan": {"text": "torn"}}},
            ]
        ),
        error="corrupt",
    )


def _archived_entries(content: bytes, schema: object) -> Iterator[dict[str, object]]:
    _, count = struct.unpack_from(">ii", content)
    position = 8
    for _ in range(count):
        (size,) = struct.unpack_from(">i", content, position)
        yield fastavro.schemaless_reader(
            BytesIO(content[position + 4 : position + 4 + size]), schema, None
        )
        position += 4 + size
