"""Vectors of file slices and of merging."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.timelines.merge_properties import (
    COMMIT_TIME,
    EVENT_TIME,
    MODEL,
    of_payload,
)
from spec.vector_sources.vector import Vector

__all__ = ["vectors"]

_T = [f"2024010100000{n}000" for n in range(10)]
_ID = "00000001-0000-4000-8000-000000000000-0"


def _base(instant: str, attempt: str = "0-1-1") -> str:
    return f"{_ID}_{attempt}_{instant}.parquet"


def _log(instant: str, version: int = 1, suffix: str = "") -> str:
    return f".{_ID}_{instant}.log.{version}_0-1-1{suffix}"


def _slice(instant: str, base: str | None, *logs: str) -> dict[str, object]:
    return {"instant": instant, "base_file": base, "log_files": list(logs)}


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield from _slices()
    yield from _merging()


def _slices() -> Iterator[Vector]:
    recipe = "HoodieFileGroup.addLogFile and AbstractTableFileSystemView, as read in their sources"

    def vector(
        name: str,
        rules: list[str],
        version: int,
        files: list[str],
        expected: list[dict[str, object]],
        completed: dict[str, str] | None = None,
        pending_compaction: str | None = None,
    ) -> Vector:
        question = {
            "table_version": version,
            "files": files,
            "completed": completed or {time: time for time in _T},
            "pending_compaction": pending_compaction,
        }
        return Vector(f"file-slices.{name}", rules, recipe, question, expected)

    t = _T
    yield vector(
        "v6",
        ["SLICE-1", "SLICE-2", "SLICE-3", "NAME-4"],
        6,
        [_base(t[1]), _log(t[1], 2), _log(t[1], 1), _base(t[5]), _log(t[5])],
        [
            _slice(t[1], _base(t[1]), _log(t[1], 1), _log(t[1], 2)),
            _slice(t[5], _base(t[5]), _log(t[5])),
        ],
    )
    yield vector(
        "v6-slice-that-was-never-begun",
        ["SLICE-3", "NAME-4"],
        6,
        [_base(t[1]), _log(t[1]), _log(t[3], 1), _log(t[3], 2), _base(t[5])],
        [
            _slice(t[1], _base(t[1]), _log(t[1]), _log(t[3], 1), _log(t[3], 2)),
            _slice(t[5], _base(t[5])),
        ],
    )
    yield vector(
        "v8-by-completion-time",
        ["SLICE-4", "NAME-4"],
        8,
        [_base(t[1]), _base(t[5]), _log(t[2]), _log(t[4])],
        [_slice(t[1], _base(t[1]), _log(t[2])), _slice(t[5], _base(t[5]), _log(t[4]))],
        {t[1]: t[1], t[2]: t[3], t[4]: t[6], t[5]: t[7]},
    )
    yield vector(
        "v8-logs-only",
        ["SLICE-4"],
        8,
        [_log(t[3]), _log(t[2])],
        [_slice(t[2], None, _log(t[2]), _log(t[3]))],
    )
    yield vector(
        "v8-log-before-every-base",
        ["SLICE-4"],
        9,
        [_base(t[5]), _log(t[2])],
        [_slice(t[2], None, _log(t[2])), _slice(t[5], _base(t[5]))],
    )
    yield vector(
        "v8-uncommitted",
        ["SLICE-2", "SLICE-4"],
        8,
        [_base(t[1]), _base(t[3]), _log(t[2]), _log(t[4])],
        [_slice(t[1], _base(t[1]), _log(t[2]))],
        {t[1]: t[1], t[2]: t[2]},
    )
    for version in (6, 8):
        late = _log(t[4]) if version == 8 else _log(t[3])
        early = _log(t[2]) if version == 8 else _log(t[1])
        yield vector(
            f"v{version}-pending-compaction",
            ["SLICE-5"],
            version,
            [_base(t[1]), early, late],
            [_slice(t[1], _base(t[1]), early, late)],
            {time: time for time in (t[1], t[2], t[4])},
            t[3],
        )
    yield vector(
        "cdc-left-out",
        ["SLICE-1", "NAME-6"],
        8,
        [_base(t[1]), _log(t[2]), _log(t[2], suffix=".cdc")],
        [_slice(t[1], _base(t[1]), _log(t[2]))],
    )
    yield vector(
        "retried-base-file",
        ["SLICE-8", "NAME-2"],
        9,
        [_base(t[1], "2-0-1"), _base(t[1], "10-0-1")],
        [_slice(t[1], _base(t[1], "2-0-1"))],
    )
    yield vector("nothing-visible", ["SLICE-2"], 6, [_base(t[3])], [], {t[1]: t[1]})


def _row(key: str, ts: int | str | None, value: str, deleted: bool = False) -> dict[str, object]:
    return {"key": key, "ts": ts, "value": value, "deleted": deleted}


def _rows(*rows: dict[str, object]) -> dict[str, object]:
    return {"rows": list(rows)}


def _deletes(*deletes: tuple[str, str, int | str]) -> dict[str, object]:
    return {"deletes": [[key, kind, value] for key, kind, value in deletes]}


def _merging() -> Iterator[Vector]:
    source = "BufferedRecordMergerFactory and DeleteContext of Hudi 1.2.0, as read in their sources"

    def vector(
        name: str,
        rules: list[str],
        properties: dict[str, str],
        base: list[dict[str, object]],
        log: list[dict[str, object]],
        expected: dict[str, str],
        recipe: str = source,
        ordering_type: str = "long",
    ) -> Vector:
        question = {
            "properties": properties,
            "ordering_type": ordering_type,
            "base": base,
            "log": log,
        }
        return Vector(f"merge.{name}", rules, recipe, question, expected)

    base = [_row("a", 10, "old"), _row("b", 10, "old"), _row("c", 10, "old"), _row("d", 10, "old")]
    update = _rows(
        _row("a", 5, "new"), _row("b", 10, "new"), _row("c", 20, "new"), _row("e", 1, "new")
    )
    kept = {"c": "new", "d": "old", "e": "new", "b": "new"}
    yield vector(
        "event-time-rows", ["MERGE-2", "MERGE-4"], EVENT_TIME, base, [update], {"a": "old", **kept}
    )
    yield vector("commit-time-rows", ["MERGE-3"], COMMIT_TIME, base, [update], {"a": "new", **kept})
    yield vector(
        "event-time-in-the-log",
        ["MERGE-2", "MERGE-4"],
        EVENT_TIME,
        [],
        [_rows(_row("a", 5, "1"), _row("b", 5, "1")), _rows(_row("a", 4, "2"), _row("b", 5, "2"))],
        {"a": "1", "b": "2"},
    )
    no_ordering = {key: value for key, value in EVENT_TIME.items() if "ordering.fields" not in key}
    yield vector(
        "event-time-without-field", ["MERGE-5"], no_ordering, base, [update], {"a": "new", **kept}
    )
    deletes = _deletes(("a", "LONG", "5"), ("b", "LONG", "10"), ("c", "INT", 0), ("d", "INT", 5))
    yield vector(
        "event-time-deletes",
        ["MERGE-6", "MERGE-8", "DEL-4"],
        EVENT_TIME,
        base,
        [deletes],
        {"a": "old"},
        source + ": of d the class differs, so the delete wins",
    )
    yield vector("commit-time-deletes", ["MERGE-3", "MERGE-8"], COMMIT_TIME, base, [deletes], {})
    yield vector(
        "deleted-and-written-again",
        ["MERGE-6", "MERGE-8"],
        EVENT_TIME,
        [],
        [
            _rows(_row("a", 10, "1"), _row("b", 10, "1")),
            _deletes(("a", "INT", 0), ("b", "LONG", "20")),
            _rows(_row("a", 1, "2"), _row("b", 15, "2")),
        ],
        {"a": "2"},
    )
    yield vector(
        "base-row-after-a-lost-delete",
        ["MERGE-8"],
        EVENT_TIME,
        [_row("a", 10, "old")],
        [_deletes(("a", "INT", 0)), _rows(_row("a", 5, "new"))],
        {"a": "old"},
    )
    # the class and value of each delete, and whether the record stays against it
    classes: list[tuple[str, int | str, list[tuple[str, int | str, bool]]]] = [
        ("string", "m", [("STRING", "a", True), ("STRING", "z", False)]),
        ("date", 5, [("INT", 4, True), ("INT", 6, False), ("DATE", 4, False)]),
        ("timestamp", 5, [("LONG", "4", True), ("TIMESTAMP_MICROS", "4", False)]),
        ("long", 5, [("LONG", "4", True), ("INT", 4, False), ("DOUBLE", 4, False)]),
    ]
    for kind, row_value, told in classes:
        yield vector(
            f"class-of-{kind}-deletes",
            ["MERGE-10", "DEL-4"],
            EVENT_TIME,
            [_row(f"k{n}", row_value, "old") for n in range(len(told))],
            [_deletes(*((f"k{n}", name, value) for n, (name, value, _) in enumerate(told)))],
            {f"k{n}": "old" for n, (*_, stays) in enumerate(told) if stays},
            ordering_type=kind,
        )
    # a null is the int 0: equal in class to a date, to nothing else
    nulls: list[tuple[str, dict[str, str], dict[str, str]]] = [
        ("date", {"a": "old", "b": "new", "c": "old", "d": "new", "e": "new"}, {"b": "old"}),
        ("long", {"a": "old", "b": "old", "c": "new", "d": "new", "e": "new"}, {}),
    ]
    for kind, rows_kept, deletes_kept in nulls:
        yield vector(
            f"null-{kind}-rows",
            ["MERGE-4", "MERGE-5"],
            EVENT_TIME,
            [
                _row(*row, "old")
                for row in (("a", 5), ("b", -5), ("c", None), ("d", None), ("e", None))
            ],
            [
                _rows(
                    *(
                        _row(*row, "new")
                        for row in (("a", None), ("b", None), ("c", -5), ("d", 5), ("e", None))
                    )
                )
            ],
            rows_kept,
            "written for this text" if kind == "long" else source,
            ordering_type=kind,
        )
        of_class, values = ("INT", (4, -4)) if kind == "date" else ("LONG", ("4", "-4"))
        yield vector(
            f"null-{kind}-against-deletes",
            ["MERGE-5", "MERGE-6"],
            EVENT_TIME,
            [_row(key, None, "old") for key in "abc"],
            [_deletes(("a", of_class, values[0]), ("b", of_class, values[1]), ("c", "INT", 0))],
            deletes_kept,
            ordering_type=kind,
        )
    yield vector(
        "marked-deletes",
        ["MERGE-7"],
        EVENT_TIME,
        [*base, _row("m", 1, "marked", deleted=True)],
        [_rows(_row("a", 20, "gone", deleted=True), _row("b", 5, "late", deleted=True))],
        {"b": "old", "c": "old", "d": "old", "m": "marked"},
        source + ": base rows are not tested",
    )
    yield vector(
        "real-deletes",
        ["MERGE-4", "MERGE-6"],
        EVENT_TIME,
        [_row(key, 10, "old") for key in ("k1", "k2", "k3")],
        [_rows(_row("k3", 10, "new")), _deletes(("k2", "LONG", "5"), ("k1", "LONG", "20"))],
        {"k2": "old", "k3": "new"},
        "an upsert with _hoodie_is_deleted, as Hudi 1.2.0 wrote and read it",
    )
    overwrite, default = (
        of_payload("OverwriteWithLatestAvroPayload"),
        of_payload("DefaultHoodieRecordPayload"),
    )
    legacy = "payload classes of Hudi 0.15.0, as read in their sources"
    yield vector(
        "v6-overwrite", ["MERGE-11"], overwrite, base, [update], {"a": "new", **kept}, legacy
    )
    yield vector("v6-default", ["MERGE-11"], default, base, [update], {"a": "old", **kept}, legacy)
    stated_none = {key: value for key, value in default.items() if "payload.class" not in key}
    yield vector(
        "v6-without-payload-class",
        ["MERGE-13"],
        stated_none,
        base,
        [update],
        {"a": "old", **kept},
        "HoodieTableConfig.inferMergingConfigsForPreV9Table of Hudi 1.2.0, as read in its source",
    )
    two = [_rows(_row("a", 5, "1")), _rows(_row("a", 4, "2"))]
    yield vector(
        "v6-overwrite-in-the-log", ["MERGE-11", "DEV-15"], overwrite, [], two, {"a": "1"}, legacy
    )
    yield vector(
        "v6-deletes",
        ["MERGE-12"],
        default,
        [_row("a", 10, "old")],
        [
            _rows(_row("b", 10, "1")),
            _deletes(("a", "LONG", "5"), ("b", "LONG", "20")),
            _rows(_row("b", 1, "2")),
        ],
        {"b": "2"},
        legacy,
    )
    yield vector(
        "v6-class-of-string-deletes",
        ["MERGE-10", "DEV-15"],
        default,
        [],
        [_rows(_row("a", "m", "old")), _deletes(("a", "STRING", "a"))],
        {},
        legacy,
        ordering_type="string",
    )
    yield vector(
        "v6-dms",
        ["MERGE-11"],
        of_payload("AWSDmsAvroPayload"),
        base,
        [_rows(_row("a", 5, "new"), _row("c", 20, "new"))],
        {"a": "new", "b": "old", "c": "new", "d": "old"},
        legacy,
    )
    custom = {**EVENT_TIME, "hoodie.record.merge.mode": "CUSTOM"}
    non_defaults = MODEL + "OverwriteNonDefaultsWithLatestAvroPayload"
    of_version_8 = {"hoodie.table.version": "8", "hoodie.compaction.payload.class": non_defaults}
    partly = {**EVENT_TIME, "hoodie.record.merge.mode": "CUSTOM", **of_version_8}
    for name, properties in (
        ("custom", custom),
        ("v8-other-payload", partly),
        ("v6-other-payload", of_payload("debezium.PostgresDebeziumAvroPayload")),
    ):
        yield Vector(
            f"merge.{name}",
            ["MERGE-9", "DEV-25"],
            "written for this text",
            {"properties": properties, "base": [], "log": [], "ordering_type": "long"},
            error="unsupported",
        )
    half = {**EVENT_TIME, "hoodie.record.merge.property.hoodie.payload.delete.field": "value"}
    yield Vector(
        "merge.delete-field-alone",
        ["MERGE-7"],
        "written for this text",
        {"properties": half, "base": [], "log": [], "ordering_type": "long"},
        error="corrupt",
    )
    marker = {**half, "hoodie.record.merge.property.hoodie.payload.delete.marker": "D"}
    logged = [_rows(_row("a", 20, "D"), _row("b", 20, "U"), _row("c", 5, "D"))]
    yield vector(
        "delete-marker-of-writers",
        ["MERGE-7"],
        marker,
        base,
        logged,
        {"a": "D", "b": "U", "c": "old", "d": "old"},
        "read by Hudi 1.2.0",
    )
    prefix = "hoodie.record.merge.property."
    yield vector(
        "delete-marker",
        ["MERGE-7"],
        {name.removeprefix(prefix): value for name, value in marker.items()},
        base,
        logged,
        {"b": "U", "c": "old", "d": "old"},
    )
