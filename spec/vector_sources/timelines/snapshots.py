"""Vectors of whole tables: which file slices a snapshot reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO

import fastavro

from spec.vector_sources.vector import SCHEMAS, Vector

__all__ = ["vectors"]

_READ = "HoodieFileGroup and AbstractTableFileSystemView, as read in their sources"
_T = [f"2024010100000{n}000" for n in range(10)]
_ONE, _TWO = "00000001-0000-4000-8000-000000000000-0", "00000001-1111-4111-8111-111111111111-0"
_NODE = "cd524024-9cdd-3644-b9b2-3dd0a5f000e3-0"
_PROPERTIES = {
    "text": "hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.type=MERGE_ON_READ\n"
    "hoodie.timeline.layout.version=2\nhoodie.table.recordkey.fields=id\n"
    "hoodie.table.partition.fields=p\n"
}
_METAFILE = {"text": "commitTime=20240101000001000\npartitionDepth=1\n"}

Files = dict[str, dict[str, object]]


def _base(instant: str, file_id: str = _ONE) -> str:
    return f"us/{file_id}_0-1-1_{instant}.parquet"


def _log(instant: str, file_id: str = _ONE) -> str:
    return f"us/.{file_id}_{instant}.log.1_0-1-1"


def _commit(
    action: str,
    requested: str,
    completed: str,
    *paths: str,
    replaced: tuple[str, ...] = (),
    size: int = 10,
) -> Files:
    """Return the completed file of an instant that wrote files of partition us."""
    replaces = action == "replacecommit"
    name = "HoodieReplaceCommitMetadata" if replaces else "HoodieCommitMetadata"
    stats = [
        {
            "fileId": path.rpartition("/")[2].lstrip(".").partition("_")[0],
            "path": path,
            "partitionPath": "us",
            "fileSizeInBytes": size,
            "logOffset": 0 if ".log." in path else None,
        }
        for path in paths
    ]
    record: dict[str, object] = {
        "partitionToWriteStats": {"us": stats},
        "operationType": "UPSERT",
        "version": None,
    }
    if replaces:
        record["partitionToReplaceFileIds"] = {"us": list(replaced)}
    return {f".hoodie/timeline/{requested}_{completed}.{action}": _container(name, record)}


def _container(name: str, record: dict[str, object]) -> dict[str, object]:
    schema = fastavro.parse_schema(json.loads((SCHEMAS / f"{name}.avsc").read_bytes()))
    out = BytesIO()
    fastavro.writer(out, schema, [record], sync_marker=bytes(16))
    return {"hex": out.getvalue().hex()}


def _table(*paths: str, metafile: str = "us/.hoodie_partition_metadata", size: int = 10) -> Files:
    """Return a table without instants whose data files are `paths`."""
    files: Files = {".hoodie/hoodie.properties": _PROPERTIES, metafile: _METAFILE}
    return {**files, **{path: {"size": size} for path in paths}}


def _slice(
    file_id: str, instant: str, base: str | None, *logs: str, partition: str = "us"
) -> dict[str, object]:
    return {
        "partition_path": partition,
        "file_id": file_id,
        "instant": instant,
        "base_file": base,
        "log_files": list(logs),
    }


def vectors() -> Iterator[Vector]:
    """Yield them."""
    t = _T

    def vector(
        name: str,
        rules: list[str],
        files: Files,
        expected: list[dict[str, object]],
        as_of: str | None = None,
    ) -> Vector:
        question: dict[str, object] = {"files": files}
        if as_of is not None:
            question["as_of"] = as_of
        return Vector(f"snapshot.{name}", rules, _READ, question, expected)

    twice = {
        **_table(_base(t[1]), _base(t[3]), _log(t[2])),
        **_commit("commit", t[1], t[1], _base(t[1])),
        **_commit("deltacommit", t[2], t[2], _log(t[2])),
        **_commit("commit", t[3], t[3], _base(t[3])),
    }
    yield vector("newest", ["SLICE-2", "SLICE-7"], twice, [_slice(_ONE, t[3], _base(t[3]))])
    for n, logs in ((1, ()), (2, (_log(t[2]),))):
        yield vector(
            f"as-of-write-{n}",
            ["SLICE-2", "SLICE-4", "SLICE-7"],
            twice,
            [_slice(_ONE, t[1], _base(t[1]), *logs)],
            as_of=t[n],
        )
    yield vector("as-of-before-all", ["SLICE-7"], twice, [], as_of=t[0])
    late = {
        **_table(_base(t[1]), _log(t[2])),
        **_commit("commit", t[1], t[1], _base(t[1])),
        **_commit("deltacommit", t[2], t[5], _log(t[2])),
    }
    yield vector(
        "as-of-goes-by-requested-time",
        ["SLICE-7"],
        late,
        [_slice(_ONE, t[1], _base(t[1]), _log(t[2]))],
        as_of=t[3],
    )
    replaced = {
        **_table(_base(t[1]), _base(t[2], _TWO)),
        **_commit("commit", t[1], t[1], _base(t[1])),
        **_commit("replacecommit", t[2], t[4], _base(t[2], _TWO), replaced=(_ONE,)),
    }
    yield vector(
        "replaced", ["SLICE-6", "META-11"], replaced, [_slice(_TWO, t[2], _base(t[2], _TWO))]
    )
    yield vector(
        "as-of-before-it-was-replaced",
        ["SLICE-6", "SLICE-7"],
        replaced,
        [_slice(_ONE, t[1], _base(t[1]))],
        as_of=t[1],
    )
    pending = {
        **_table(_base(t[1]), _base(t[2], _TWO)),
        **_commit("commit", t[1], t[1], _base(t[1])),
        f".hoodie/timeline/{t[2]}.replacecommit.requested": {"text": ""},
        f".hoodie/timeline/{t[2]}.replacecommit.inflight": {"text": ""},
    }
    yield vector(
        "replacing-is-pending",
        ["SLICE-2", "SLICE-6", "META-12"],
        pending,
        [_slice(_ONE, t[1], _base(t[1]))],
    )
    yield vector(
        "two-file-groups-of-one-bucket",
        ["HASH-7"],
        {
            **_table(_base(t[1]), _base(t[2], _TWO)),
            **_commit("commit", t[1], t[1], _base(t[1])),
            **_commit("commit", t[2], t[2], _base(t[2], _TWO)),
        },
        [_slice(_ONE, t[1], _base(t[1])), _slice(_TWO, t[2], _base(t[2], _TWO))],
    )
    yield vector(
        "nodes-without-a-ring",
        ["RING-17", "RING-25", "DEV-26"],
        {**_table(_base(t[1], _NODE)), **_commit("commit", t[1], t[1], _base(t[1], _NODE))},
        [_slice(_NODE, t[1], _base(t[1], _NODE))],
    )
    resize = {
        **_table(_base(t[1]), _log(t[4]), _log(t[2], _NODE)),
        **_commit("commit", t[1], t[1], _base(t[1])),
        **_commit("deltacommit", t[4], t[5], _log(t[4]), _log(t[2], _NODE)),
    }
    yield vector(
        "written-twice-while-a-resize-is-pending",
        ["RING-26", "NAME-4", "SLICE-4"],
        {
            **resize,
            f".hoodie/timeline/{t[2]}.clustering.requested": {"text": ""},
            f".hoodie/timeline/{t[2]}.clustering.inflight": {"text": ""},
        },
        [_slice(_ONE, t[1], _base(t[1]), _log(t[4]))],
    )
    yield vector(
        "written-twice-and-resized",
        ["RING-26", "SLICE-6"],
        {
            **resize,
            _base(t[2], _NODE): {"size": 10},
            **_commit("replacecommit", t[2], t[6], _base(t[2], _NODE), replaced=(_ONE,)),
        },
        [_slice(_NODE, t[2], _base(t[2], _NODE), _log(t[2], _NODE))],
    )
    for name, metafile, expected in (
        ("text", "us/.hoodie_partition_metadata", [_slice(_ONE, t[1], _base(t[1]))]),
        ("parquet", "us/.hoodie_partition_metadata.parquet", [_slice(_ONE, t[1], _base(t[1]))]),
        ("missing", "us/.hoodie_partition", []),
    ):
        yield vector(
            f"metafile-{name}",
            ["PATH-11"],
            {**_table(_base(t[1]), metafile=metafile), **_later()},
            expected,
        )
    deep = f"eu/x/{_ONE}_0-1-1_{t[1]}.parquet"
    yield vector(
        "metafile-below",
        ["PATH-11"],
        {
            **_table(deep, metafile="eu/x/.hoodie_partition_metadata"),
            ".hoodie/metadata/files/.hoodie_partition_metadata": _METAFILE,
            **_later(),
        },
        [_slice(_ONE, t[1], deep, partition="eu/x")],
    )
    yield from _lost()
    yield from _cleaned()


def _later() -> Files:
    """Return an instant that wrote nothing: what is earlier counts as archived (TL-11)."""
    return _commit("commit", _T[9], _T[9])


def _lost() -> Iterator[Vector]:
    t = _T
    both = {
        **_commit("commit", t[1], t[1], _base(t[1])),
        **_commit("deltacommit", t[2], t[2], _log(t[2])),
    }
    yield Vector(
        "snapshot.short-files",
        ["META-7"],
        "written for this text: the length alone proves nothing",
        {"files": {**_table(_base(t[1]), _log(t[2]), size=9), **both}},
        [_slice(_ONE, t[1], _base(t[1]), _log(t[2]))],
    )
    for name, files in (
        ("base-file-missing", {**_table(_log(t[2])), **both}),
        ("log-file-missing", {**_table(_base(t[1])), **both}),
    ):
        yield Vector(
            f"snapshot.{name}",
            ["META-7", "SLICE-9", "DEV-18"],
            "written for this text",
            {"files": files},
            error="corrupt",
        )
    yield Vector(
        "snapshot.cleaned",
        ["META-7", "SLICE-9"],
        "written for this text: two files are cleaned, and the newest slice needs neither",
        {
            "files": {
                **_table(_base(t[3])),
                **both,
                **_commit("commit", t[3], t[3], _base(t[3])),
            }
        },
        [_slice(_ONE, t[3], _base(t[3]))],
    )


def _cleaned() -> Iterator[Vector]:
    t = _T
    first = _commit("commit", t[1], t[1], _base(t[1]))
    later = {
        **_commit("commit", t[5], t[5], _base(t[5])),
        **_commit("commit", t[6], t[6], _base(t[6])),
    }
    left = _table(_base(t[5]), _base(t[6]))
    other = {
        **_table(_base(t[1]), _base(t[5], _TWO), _base(t[6], _TWO)),
        **first,
        **_commit("commit", t[5], t[5], _base(t[5], _TWO)),
        **_commit("commit", t[6], t[6], _base(t[6], _TWO)),
    }
    history = f"{t[1]}_{t[1]}_0.parquet"
    archived: Files = {
        ".hoodie/timeline/history/_version_": {"text": "1"},
        ".hoodie/timeline/history/manifest_1": {
            "text": json.dumps({"files": [{"fileName": history, "fileLen": 9}]})
        },
        f".hoodie/timeline/history/{history}": {"size": 9},
    }
    savepoint: Files = {f".hoodie/timeline/{t[1]}_{t[2]}.savepoint": {"text": ""}}
    kept = _slice(_ONE, t[1], _base(t[1]))
    cases: list[tuple[str, str, Files, list[dict[str, object]] | None]] = [
        ("archived-and-cleaned", t[1], {**left, **archived, **later, **_clean(t[6])}, None),
        (
            "cleaned-by-any-clean",
            t[1],
            {**left, **archived, **later, **_clean(t[6]), **_clean("", t[8])},
            None,
        ),
        ("clean-keeps-versions", t[5], {**left, **archived, **later, **_clean("")}, None),
        ("cleaned-file-gone", t[1], {**left, **first, **later, **_clean(t[6])}, None),
        (
            "right-before-what-is-kept",
            t[5],
            {**left, **archived, **later, **_clean(t[6])},
            [_slice(_ONE, t[5], _base(t[5]))],
        ),
        ("cleaned-and-all-there", t[1], {**other, **_clean(t[6])}, [kept]),
        (
            "cleaned-but-savepointed",
            t[1],
            {**_table(_base(t[1]), _base(t[6])), **archived, **first, **savepoint}
            | {**later, **_clean(t[6])},
            [kept],
        ),
    ]
    for name, as_of, files, expected in cases:
        yield Vector(
            f"snapshot.as-of-{name}",
            ["SLICE-7", "SLICE-11", "DEV-32"],
            "written for this text, after TimelineUtils.validateTimestampAsOf",
            {"files": files, "as_of": as_of},
            expected,
            error=None if expected is not None else "cleaned",
        )


def _clean(first_kept: str, requested: str = _T[7]) -> Files:
    """Return the completed file of a clean that keeps what is read as of an instant."""
    record = {
        "startCleanTime": requested,
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 1,
        "earliestCommitToRetain": first_kept,
        "partitionMetadata": {},
    }
    return {
        f".hoodie/timeline/{requested}_{requested}.clean": _container("HoodieCleanMetadata", record)
    }
