"""Vectors of commit metadata, plans and the other files of the timeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro

from spec.vector_sources.vector import Golden, ListOf, Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"

_STAT_FIELDS = (
    "fileId",
    "path",
    "prevCommit",
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "numInserts",
    "totalWriteBytes",
    "partitionPath",
    "fileSizeInBytes",
    "prevBaseFile",
    "logVersion",
    "logOffset",
    "baseFile",
    "logFiles",
)


_STAT_NUMBERS = (
    *("numWrites", "numDeletes", "numUpdateWrites", "numInserts"),
    *("totalWriteBytes", "fileSizeInBytes"),
)
"""Numbers of a write stat that are 0 where they are null."""


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield from _commits()
    yield from _plans()
    yield from _containers()
    yield from _schemas()


def _commit(data: bytes) -> dict[str, Any]:
    """What a vector says about a commit: the members a reader of rows needs."""
    record = _record(data) if data[:4] == b"Obj\x01" else json.loads(data)
    stats = {
        partition: [{name: stat.get(name) for name in _STAT_FIELDS} for stat in files]
        for partition, files in (record["partitionToWriteStats"] or {}).items()
    }
    return {
        "partitionToWriteStats": stats,
        "partitionToReplaceFileIds": record.get("partitionToReplaceFileIds") or {},
        "compacted": record["compacted"],
        "operationType": record["operationType"],
        "extraMetadata": record["extraMetadata"],
    }


def _record(data: bytes) -> dict[str, Any]:
    return next(iter(fastavro.reader(BytesIO(data))))


def _timeline(table: Golden) -> str:
    return ".hoodie/" if table.version == "0.15.0" else ".hoodie/timeline/"


def _smallest(table: Golden, end: str, having: bytes = b"") -> str:
    """The smallest file of the timeline that is not empty, ends so, and has these bytes."""
    paths = [
        path
        for path in table.paths(_timeline(table), end=end)
        if table.files[path] and path.rpartition("/")[2][0].isdigit()
        if having in table.files[path]
    ]
    return min(paths, key=lambda path: (len(table.files[path]), path))


def _commits() -> Iterator[Vector]:
    log = ["META-1", "META-5", "META-6", "META-7", "META-8", "META-9"]
    for version, name, end, what, rules in (
        ("0.15.0", "cow_commit", ".commit", "base-file", ["META-1", "META-5", "META-6"]),
        ("0.15.0", "rolledback_mor", ".deltacommit", "log-file", log),
        ("0.15.0", "overwritten", ".replacecommit", "replaced", ["META-11", "META-10"]),
        ("1.0.2", "nonpart", ".commit", "unpartitioned", ["META-1", "META-5"]),
        ("1.2.0", "cow_commit", ".commit", "base-file", ["META-1", "META-5", "META-6"]),
        ("1.2.0", "rolledback_mor", ".deltacommit", "log-file", log),
        ("1.2.0", "overwritten", ".replacecommit", "replaced", ["META-11", "META-10"]),
    ):
        table = golden(version, name)
        path = _smallest(table, end, b".log." if what == "log-file" else b"")
        yield Vector(
            f"commit-metadata.{what}-{version}",
            ["TL-16", "META-2", *rules],
            table.recipe(path),
            table.files[path],
            _commit(table.files[path]),
        )
    empty = {
        "partitionToWriteStats": {},
        "partitionToReplaceFileIds": {},
        "compacted": False,
        "operationType": "UNKNOWN",
        "extraMetadata": {},
    }
    yield Vector("commit-metadata.empty", ["TL-15"], _TEXT, b"", empty)
    yield Vector(
        "commit-metadata.unknown-properties",
        ["META-2", "META-10"],
        _TEXT,
        '{"later":[1,{"x":null}],"operationType":"SOMETHING_NEW","compacted":true}',
        {**empty, "compacted": True, "operationType": "SOMETHING_NEW"},
    )
    stats = '{"partitionToWriteStats":{"p":[{"%s":%s}]}}'
    stat = {**dict.fromkeys(_STAT_FIELDS), **dict.fromkeys(_STAT_NUMBERS, 0)}
    yield Vector(
        "commit-metadata.nulls-in-json",
        ["META-2"],
        _TEXT,
        '{"operationType":null,"compacted":null,"extraMetadata":{"x":null},'
        '"partitionToWriteStats":{"p":[{"path":null,"prevCommit":null,"logVersion":null,'
        '"logOffset":null,"baseFile":null,"logFiles":null,"runtimeStats":null,"tempPath":null,'
        '"minEventTime":null,"cdcStats":null}]}}',
        {**empty, "partitionToWriteStats": {"p": [stat]}},
    )
    names = ("HoodieCommitMetadata", "HoodieWriteStat", "org.apache.hudi.avro.model")
    yield Vector(
        "commit-metadata.nulls-in-avro",
        ["META-2"],
        _TEXT,
        _avro_commit(*names, write_stats=[{}]),
        {**empty, "partitionToWriteStats": {"p": [stat]}},
    )
    yield Vector(
        "commit-metadata.no-write-stats-in-avro",
        ["META-2"],
        _TEXT,
        _avro_commit(*names, write_stats=None),
        empty,
    )
    yield Vector(
        "commit-metadata.twice",
        ["META-2"],
        _TEXT,
        '{"operationType":"INSERT","operationType":"UPSERT"}',
        {**empty, "operationType": "UPSERT"},
    )
    yield Vector(
        "commit-metadata.nested",
        ["DEV-22", "META-2"],
        _TEXT + ": 100 levels, the property's value and the object among them",
        '{"later":' + "[" * 99 + "]" * 99 + "}",
        empty,
    )
    yield Vector(
        "commit-metadata.corrupt",
        ["META-2", "META-3", "DEV-22"],
        _TEXT,
        ListOf(
            [
                "{",
                "[]",
                "null",
                stats % ("numWrites", "9223372036854775808"),
                stats % ("logVersion", "2147483648"),
                stats % ("path", "1"),
                stats % ("logFiles", '"a"'),
                '{"extraMetadata":[]}',
                '{"later":' + "[" * 10000 + "]" * 10000 + "}",
                '{"extraMetadata":null}',
                '{"partitionToWriteStats":null}',
                stats % ("numWrites", "null"),
            ]
        ),
        error="corrupt",
    )
    for version, name, end in (
        ("0.15.0", "rolledback_mor", ".deltacommit"),
        ("1.2.0", "rolledback_mor", ".deltacommit"),
        ("1.0.2", "nonpart", ".commit"),
    ):
        table = golden(version, name)
        path = _smallest(table, end, b".log." if end == ".deltacommit" else b"")
        stats_of = _commit(table.files[path])["partitionToWriteStats"]
        yield Vector(
            f"written-files.{name.replace('_', '-')}-{version}",
            ["META-5", "META-8"],
            table.recipe(path),
            table.files[path],
            sorted(stat["path"] for stats_ in stats_of.values() for stat in stats_),
        )
    yield Vector(
        "written-files.others",
        ["META-5", "NAME-7"],
        _TEXT + ": a stat without path, and paths that are no data files",
        ListOf(
            [
                "{}",
                '{"partitionToWriteStats":{"p":[{"fileId":"a"},{"path":null},{"path":""},'
                '{"path":"p/x.txt"},{"path":"p/a-0_0-1-2_3.parquet"}],'
                '"":[{"path":".a-0_3.log.1_0-1-2"}]}}',
            ]
        ),
        [[], [".a-0_3.log.1_0-1-2", "p/a-0_0-1-2_3.parquet"]],
    )
    yield Vector(
        "written-files.unsafe-paths",
        ["META-5", "PATH-1"],
        _TEXT,
        ListOf([stats % ("path", json.dumps(path)) for path in ("../x", "/x", "a/../../x")]),
        error="unsafe-path",
    )
    name = ".a-0_3.log.1_0-1-2"
    forms = ("file:", "hdfs://nn:8020", "hdfs://nn:8020/d/t/", "s3a://b/", "hdfs://[::1]:8020")
    paths = [(p, root + f"{p}/{name}".lstrip("/")) for root in forms for p in ("", "p", "p/q=a:b")]
    yield Vector(
        "written-files.urls",
        ["DEV-35", "META-5"],
        _TEXT + ": paths that Hudi meant to be relative",
        ListOf([_one_stat(partition, path) for partition, path in paths]),
        [[f"{partition}/{name}".lstrip("/")] for partition, _ in paths],
    )
    others = (
        *(f"file:q/{name}", f"file:xp/{name}", f"file:p/../p/{name}", f"file:/d/../t/p/{name}"),
        *(f"file:/d//p/{name}", f"file:///d/p/{name}", f"C:p/{name}", f"file:p/x{name}"),
        *("file:p/.b-0_3.log.1_0-1-2", "file:p/x.txt", f"file:p\\{name}", f"file:d/p/{name}"),
    )
    yield Vector(
        "written-files.other-urls",
        ["DEV-35", "PATH-1"],
        _TEXT,
        ListOf([_one_stat("p", path) for path in others]),
        error="unsafe-path",
    )


def _one_stat(partition: str, path: str) -> str:
    return json.dumps({"partitionToWriteStats": {partition: [{"fileId": "a-0", "path": path}]}})


def _plans() -> Iterator[Vector]:
    for version, name, end, what, rules in (
        ("1.2.0", "ch_pending", ".clustering.requested", "clustering", ["META-13", "RING-20"]),
        ("0.15.0", "ch_pending", ".replacecommit.requested", "clustering", ["META-12"]),
        ("1.2.0", "overwritten", ".replacecommit.requested", "overwrite", ["META-12"]),
        ("0.15.0", "mor_compacted", ".compaction.requested", "compaction", ["META-14"]),
        ("1.2.0", "mor_compacted", ".compaction.requested", "compaction", ["META-14"]),
        ("1.2.0", "cleaned", ".clean.requested", "clean-plan", ["META-16"]),
        ("1.2.0", "cleaned", ".clean", "clean", ["META-16"]),
        ("0.15.0", "rolledback", ".rollback.requested", "rollback-plan-of-base-files", ["META-15"]),
        ("0.15.0", "rolledback_mor", ".rollback.requested", "rollback-plan", ["META-15"]),
        ("0.15.0", "rolledback_mor", ".rollback", "rollback", ["META-15"]),
        ("1.2.0", "rolledback_mor", ".rollback", "rollback", ["META-15"]),
        ("1.2.0", "restored_mor", ".restore.requested", "restore-plan", ["META-16"]),
        ("1.2.0", "restored_mor", ".restore", "restore", ["META-16"]),
        ("1.2.0", "savepointed_mor", ".savepoint", "savepoint", ["META-16"]),
    ):
        table = golden(version, name)
        path = _smallest(table, end)
        data = table.files[path]
        schema, record = fastavro.reader(BytesIO(data)).writer_schema, _record(data)
        if record["version"] is None:
            record["version"] = 1  # the default of its schema (META-2)
        yield Vector(
            f"timeline-file.{what}-{version}",
            ["TL-16", "TL-17", "META-2", *rules],
            table.recipe(path),
            data,
            {"record": schema["name"].rpartition(".")[2], "value": record},
        )
    yield Vector("timeline-file.empty", ["TL-15"], _TEXT, b"", None)


def _container(schema: object, blocks: bytes, header: bytes = b"") -> bytes:
    text = json.dumps(schema).encode()
    entries = bytes((2 * (1 + bool(header)),)) + b"\x16avro.schema" + _long(len(text)) + text
    return b"Obj\x01" + entries + header + b"\0" + bytes(16) + blocks


def _long(value: int) -> bytes:
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _plan_schema(**types: object) -> dict[str, object]:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return {
        "type": "record",
        "name": "HoodieIndexPlan",
        "namespace": "org.apache.hudi.avro.model",
        "fields": fields,
    }


def _nested(levels: int) -> object:
    return {"type": "array", "items": _nested(levels - 1)} if levels else "int"


def _containers() -> Iterator[Vector]:
    schema = _plan_schema(version=["int", "null"])
    record = b"\0\x02"

    def block(*records: bytes) -> bytes:
        data = b"".join(records)
        return _long(len(records)) + _long(len(data)) + data + bytes(16)

    yield Vector(
        "timeline-file.small",
        ["TL-17", "META-2"],
        _TEXT + ", after the Avro specification",
        _container(schema, block(record)),
        {"record": "HoodieIndexPlan", "value": {"version": 1}},
    )
    yield Vector(
        "timeline-file.codec-null",
        ["TL-17"],
        _TEXT + ", after the Avro specification: a codec that is stated, and an empty block",
        _container(schema, block() + block(record), b"\x14avro.codec\x08null"),
        {"record": "HoodieIndexPlan", "value": {"version": 1}},
    )
    deep = [_plan_schema(x=_nested(levels)) for levels in (60, 80)]
    yield Vector(
        "timeline-file.nested-schema",
        ["DEV-22"],
        _TEXT + ": sixty arrays within the record",
        _container(deep[0], block(b"\0")),
        {"record": "HoodieIndexPlan", "value": {"version": 1}},
    )
    recursive = _plan_schema(next=["null", "HoodieIndexPlan"])
    nothing = _plan_schema(
        items={"type": "array", "items": {"type": "record", "name": "N", "fields": []}}
    )
    codec = b"\x14avro.codec\x0edeflate"
    for name, rules, data, error in (
        ("two-records", ["TL-17"], _container(schema, block(record, record)), "corrupt"),
        ("two-blocks", ["TL-17"], _container(schema, block(record) * 2), "corrupt"),
        ("no-record", ["TL-17"], _container(schema, b""), "corrupt"),
        ("empty-block", ["TL-17"], _container(schema, block()), "corrupt"),
        (
            "more-than-a-record",
            ["TL-17"],
            _container(schema, _long(1) + _long(3) + record + b"\0" + bytes(16)),
            "corrupt",
        ),
        ("codec", ["TL-17"], _container(schema, block(record), codec), "unsupported"),
        ("nested-too-deep", ["DEV-22"], _container(deep[1], block(b"\0")), "limit"),
        ("recursive", ["META-4"], _container(recursive, block(b"\0")), "unsupported"),
        ("values-of-no-bytes", ["META-4"], _container(nothing, block(b"\0")), "unsupported"),
        ("null-field", ["META-4"], _container(_plan_schema(x="null"), block(b"")), "unsupported"),
        (
            "other-record",
            ["META-3"],
            _container({**schema, "name": "HoodieSecret"}, block(record)),
            "corrupt",
        ),
        (
            "field-type",
            ["META-3"],
            _container(_plan_schema(version="string"), block(b"\x02x")),
            "corrupt",
        ),
        ("sync-marker", ["TL-17"], _container(schema, block(record)[:-1] + b"\1"), "corrupt"),
        ("truncated", ["TL-17"], _container(schema, block(record)[:-1]), "truncated"),
        (
            "block-count",
            ["META-4"],
            _container(schema, _long(1 << 61) + _long(2) + record + bytes(16)),
            "truncated",
        ),
    ):
        yield Vector(f"timeline-file.{name}", rules, _TEXT, data, error=error)


def _avro_commit(
    commit: str, stat: str, namespace: str, write_stats: list[dict[str, object]] | None
) -> bytes:
    """Return a commit whose fields are null, but for the write stats of partition `p`."""

    def nullable(*types: tuple[str, object]) -> list[dict[str, object]]:
        return [{"name": name, "type": ["null", kind], "default": None} for name, kind in types]

    texts = ("fileId", "path", "prevCommit", "partitionPath", "baseFile", "prevBaseFile")
    fields = nullable(
        *((name, "string") for name in texts),
        *((name, "long") for name in (*_STAT_NUMBERS, "logOffset")),
        ("logVersion", "int"),
        ("logFiles", {"type": "array", "items": "string"}),
    )
    stats = {"type": "array", "items": {"type": "record", "name": stat, "fields": fields}}
    schema = {
        "type": "record",
        "name": commit,
        "namespace": namespace,
        "fields": nullable(
            ("partitionToWriteStats", {"type": "map", "values": stats}),
            ("compacted", "boolean"),
            ("extraMetadata", {"type": "map", "values": "string"}),
            ("operationType", "string"),
        ),
    }
    out = BytesIO()
    record = {"partitionToWriteStats": None if write_stats is None else {"p": write_stats}}
    fastavro.writer(out, fastavro.parse_schema(schema), [record], sync_marker=bytes(16))
    return out.getvalue()


def _schemas() -> Iterator[Vector]:
    table = golden("1.2.0", "evolved_ids")
    path = max(table.paths(".hoodie/.schema/", end=".schemacommit"))
    history = json.loads(table.files[path])["schemas"]
    yield Vector(
        "schema-history.golden",
        ["META-17", "META-18"],
        table.recipe(path),
        table.files[path],
        [
            {
                "version_id": str(schema["version_id"]),
                "max_column_id": schema["max_column_id"],
                "columns": {str(field["id"]): field["name"] for field in schema["fields"]},
            }
            for schema in history
        ],
    )
    versions = sorted(schema["version_id"] for schema in history)
    yield Vector(
        "schema-in-force.golden",
        ["META-18"],
        table.recipe(path),
        {
            "history": table.files[path].decode(),
            "instants": [str(version) for version in versions]
            + [str(versions[-1] + 1), str(versions[0] - 1)],
        },
        [*map(str, versions), str(versions[-1]), None],
    )
    field = {"name": "a", "optional": True, "type": "long"}
    same = [{"id": 0, **field}, {"id": 0, **field, "name": "b"}]
    yield Vector(
        "schema-history.one-id-twice",
        ["META-17"],
        _TEXT,
        json.dumps(
            {"schemas": [{"max_column_id": 0, "version_id": 1, "type": "record", "fields": same}]}
        ),
        error="corrupt",
    )
