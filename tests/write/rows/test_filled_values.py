"""Writes to tables that fill values of a record from the record that it wins over."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.table.describe import load_facts

pytestmark = pytest.mark.rotated

SCHEMA = pa.schema(
    [
        *(("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())),
        *(("a", pa.int32()), ("b", pa.string()), ("l", pa.list_(pa.int32()))),
    ]
)
PAYLOAD = "hoodie.compaction.payload.class"
MODE, UNKNOWN = "hoodie.table.partial.update.mode", "unavailable.value"
PROPERTIES: dict[str, tuple[int, dict[str, str]]] = {
    "nulls": (9, {MODE: "IGNORE_DEFAULTS"}),
    "newest": (9, {MODE: "IGNORE_DEFAULTS", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
    "marker": (
        9,
        {
            MODE: "FILL_UNAVAILABLE",
            f"hoodie.record.merge.property.hoodie.write.partial.update.{UNKNOWN}": "?",
        },
    ),
    "version 8": (8, {PAYLOAD: "org.apache.hudi.common.model.PartialUpdateAvroPayload"}),
    "version 6": (6, {PAYLOAD: "org.apache.hudi.common.model.PartialUpdateAvroPayload"}),
}


def create(folder: Path, kind: str, table_type: str, **more: Any) -> bf.Table:
    version, properties = PROPERTIES[kind]
    return bf.create(
        folder / "t",
        schema=more.pop("schema", SCHEMA),
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=more.pop("index", bf.SimpleBucketIndex(1)),
        table_type=table_type,
        table_version=version,
        properties=properties,
        writer=bf.WriterConfig(services=None),
        **more,
    )


def row(ts: int, a: int | None, b: str | None, *tags: int, key: str = "k") -> dict[str, Any]:
    return {"id": key, "part": "p", "ts": ts, "a": a, "b": b, "l": [*tags] or None}


def read(table: bf.Table) -> list[tuple[Any, ...]]:
    rows = bf.open(table.uri).scan(["ts", "a", "b", "l"]).to_arrow().to_pylist()
    return [(found["ts"], found["a"], found["b"], found["l"]) for found in rows]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    ("kind", "newer", "late"),
    [
        ("nulls", (6, 1, "?", None), (6, 1, "?", [3])),
        ("newest", (6, 1, "?", None), (4, 9, "?", [3])),
        ("marker", (6, None, "old", None), (6, None, "old", None)),
        ("version 8", (6, 1, "?", None), (6, 1, "?", [3])),
        ("version 6", (6, 1, "?", None), (6, 1, "?", [3])),
    ],
)
def test_unknown_values_are_filled(
    tmp_path: Path,
    table_type: str,
    kind: str,
    newer: tuple[Any, ...],
    late: tuple[Any, ...],
) -> None:
    table = create(tmp_path, kind, table_type)
    table.upsert([row(5, 1, "old")])
    table.upsert([row(6, None, "?")])
    assert read(table) == [newer]
    if table_type == "MERGE_ON_READ":  # else the log is merged before it meets the base row
        table.compact()
        assert read(table) == [newer]
    table.upsert([row(4, 9, None, 3)])
    assert read(table) == [late]
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert read(table) == [late]
    assert [f.code for f in bf.open(table.uri).check(depth="full").findings] == []


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_of_one_write_fill_one_another(tmp_path: Path, table_type: str) -> None:
    table = create(tmp_path, "nulls", table_type)
    table.upsert(
        [row(5, 1, None), row(7, None, None, 7), row(6, 6, "six"), row(1, 2, "x", key="z")]
    )
    assert sorted(read(table)) == [(1, 2, "x", None), (7, 1, "six", [7])]


def test_other_columns_are_not_read_to_fill_one(tmp_path: Path) -> None:
    table = create(tmp_path, "nulls", "MERGE_ON_READ")
    table.upsert([row(5, 1, "old", 5)])
    table.upsert([row(6, None, "new")])
    again = bf.open(table.uri)
    assert again.scan(["a"]).to_arrow().to_pylist() == [{"a": 1}]
    assert again.scan(["l"], [("b", "=", "new")]).to_arrow().to_pylist() == [{"l": [5]}]
    # No file alone has a row that the filter lets pass.
    assert again.scan(["ts"], [("a", "=", 1), ("b", "=", "new")]).count() == 1
    assert again.scan(["ts"], [("a", "=", 1), ("b", "=", "old")]).count() == 0
    assert again.lookup(["k"], columns=["a", "b"]).to_pylist() == [{"a": 1, "b": "new"}]


@pytest.mark.parametrize("kind", ["nulls", "newest", "version 6"])
def test_a_deleted_row_fills_nothing(tmp_path: Path, kind: str) -> None:
    """A delete in a log would let it, until the log is compacted."""
    table = create(tmp_path, kind, "MERGE_ON_READ")
    table.upsert([row(5, 1, "old", 5)])
    table.delete(keys=["k"])
    assert read(table) == []
    table.upsert([row(6, None, "back")])
    assert read(table) == [(6, None, "back", None)]


def test_rows_that_move_to_another_partition_are_refused(tmp_path: Path) -> None:
    """They would lose what they do not know."""
    index = bf.RecordIndex(update_partition_path=True)
    table = create(tmp_path, "nulls", "COPY_ON_WRITE", index=index)
    table.upsert([row(5, 1, "old")])
    table.upsert([row(6, None, "new")])
    with pytest.raises(bf.UnsupportedError, match="1 rows move their keys to another"):
        table.upsert([row(7, None, "moved") | {"part": "q"}])
    assert read(table) == [(6, 1, "new", None)]


def test_a_row_that_says_no_partition_takes_none_from_another(tmp_path: Path) -> None:
    table = create(tmp_path, "nulls", "COPY_ON_WRITE", index=bf.RecordIndex())
    table.upsert([row(1, 1, "old") | {"part": "x"}, row(2, None, "new") | {"part": None}])
    assert bf.open(table.uri).scan(["part", "a"], "part is null").to_arrow().to_pylist() == [
        {"part": None, "a": 1}
    ]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("kind", ["nulls", "version 8", "version 6"])
@pytest.mark.parametrize("ordering", [pa.string(), pa.date32(), pa.decimal128(9, 2)], ids=str)
def test_an_ordering_field_of_any_type(
    tmp_path: Path, table_type: str, kind: str, ordering: pa.DataType
) -> None:
    schema = SCHEMA.set(2, pa.field("ts", ordering))
    is_compared = kind == "nulls" or (kind == "version 6" and ordering == pa.string())
    if table_type == "MERGE_ON_READ" and not is_compared:
        with pytest.raises(bf.UnsupportedError, match="its ordering field ts is"):
            create(tmp_path, kind, table_type, schema=schema)
        return
    table = create(tmp_path, kind, table_type, schema=schema)

    def write(*rows: dict[str, Any], **more: Any) -> None:
        of_numbers = pa.Table.from_pylist(list(rows), SCHEMA)
        numbers = of_numbers.column("ts").cast(
            pa.int32() if ordering == pa.date32() else pa.int64()
        )
        wide = pa.decimal128(21, 2) if pa.types.is_decimal(ordering) else ordering
        given = of_numbers.set_column(2, "ts", numbers.cast(wide).cast(ordering))
        if more:
            given = given.append_column("_hoodie_is_deleted", pa.array([True] * len(given)))
        table.upsert(given, evolve=bool(more), missing="null")

    write(row(1, 1, "old"))
    write(row(5, None, "new"), row(3, 3, "late", 3))
    write(row(4, 4, None), row(2, 2, None, 2))
    found = bf.open(table.uri).scan(["a", "b", "l"]).to_arrow().to_pylist()
    assert found == [{"a": 3, "b": "new", "l": [3]}]
    write(row(6, None, None), deleted=True)
    assert bf.open(table.uri).scan().count() == 0
    write(row(7, None, "back"))
    assert bf.open(table.uri).scan(["a", "b"]).to_arrow().to_pylist() == [{"a": None, "b": "back"}]


def test_an_ordering_field_within_a_struct_in_logs_of_version_6(tmp_path: Path) -> None:
    """Hudi 0.15 finds it in no log record, and compares base rows with nothing, or with 0."""
    version, properties = PROPERTIES["version 6"]
    schema = pa.schema([("id", pa.string()), ("m", pa.struct([("ts", pa.int64())]))])

    def make(table_type: str) -> bf.Table:
        return bf.create(
            tmp_path / table_type,
            schema=schema,
            record_key="id",
            ordering="m.ts",
            index=bf.SimpleBucketIndex(1),
            table_type=table_type,  # type: ignore[arg-type]
            table_version=version,
            properties=properties,
        )

    with pytest.raises(bf.UnsupportedError, match=r"its ordering field m\.ts is within a struct"):
        make("MERGE_ON_READ")
    table = make("COPY_ON_WRITE")
    table.upsert([{"id": "k", "m": {"ts": 5}}, {"id": "k", "m": {"ts": 3}}])
    assert table.scan().to_arrow().to_pylist() == [{"id": "k", "m": {"ts": 5}}]


@pytest.mark.parametrize("version", [6, 8])
def test_a_table_that_is_refused_for_its_columns(tmp_path: Path, version: int) -> None:
    """No compaction is planned that cannot be executed, and a check says what it leaves out."""
    schema = SCHEMA.set(2, pa.field("ts", pa.date32()))
    table = bf.create(
        tmp_path / "t",
        schema=schema,
        record_key="id",
        ordering="ts",
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        table_version=version,
        writer=bf.WriterConfig(services=None),
    )
    for day in (1, 2, 3):
        table.upsert(
            pa.Table.from_pylist([row(day, day, "x")], SCHEMA).set_column(
                2, schema.field(2), pa.array([date(2020, 1, day)])
            )
        )
    path = tmp_path / "t/.hoodie/hoodie.properties"
    text = path.read_text().replace("DefaultHoodieRecordPayload", "PartialUpdateAvroPayload")
    if version == 8:
        text = text.replace("EVENT_TIME_ORDERING", "CUSTOM")
        text = text.replace("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "0" * 8 + "-0000" * 4 + "0" * 8)
    path.write_text(text)
    again = bf.open(table.uri)
    for refused in (again.compact, again.preview_compaction, again.scan().to_arrow):
        with pytest.raises(bf.UnsupportedError, match="its ordering field ts is date32"):
            refused()
    assert not bf.open(table.uri).timeline.pending.instants
    report = again.check(depth="full")
    assert report.status == "clean"
    assert any(told.startswith("how log files are merged: ") for told in report.not_checked)


def test_a_mode_that_older_versions_have_not(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"partial\.update\.mode takes table version 9; before, set"
    ):
        bf.create(
            tmp_path / "t",
            schema=SCHEMA,
            record_key="id",
            ordering="ts",
            table_version=6,
            properties={MODE: "IGNORE_DEFAULTS"},
        )


def test_defaults_other_than_null_are_refused(tmp_path: Path) -> None:
    table = create(tmp_path, "nulls", "MERGE_ON_READ")
    path = tmp_path / "t/.hoodie/hoodie.properties"
    lines = path.read_text().splitlines()
    prefix = "hoodie.table.create.schema="
    (at,) = (n for n, line in enumerate(lines) if line.startswith(prefix))
    stated = json.loads(lines[at].removeprefix(prefix).replace("\\", ""))
    (field,) = (f for f in stated["fields"] if f["name"] == "a")
    field.update(type=["int", "null"], default=0)
    lines[at] = prefix + json.dumps(stated).replace(":", "\\:")
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(bf.UnsupportedError, match="a have defaults other than null"):
        bf.open(table.uri).upsert([row(5, 1, "old")])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("nulls", "EVENT_TIME_ORDERING, partial update mode IGNORE_DEFAULTS"),
        ("newest", "COMMIT_TIME_ORDERING, partial update mode IGNORE_DEFAULTS"),
        ("marker", "EVENT_TIME_ORDERING, partial update mode FILL_UNAVAILABLE"),
        ("version 8", "CUSTOM, PartialUpdateAvroPayload"),
        ("version 6", "CUSTOM, PartialUpdateAvroPayload"),
    ],
)
def test_a_description_tells_what_is_filled(tmp_path: Path, kind: str, told: str) -> None:
    assert load_facts(create(tmp_path, kind, "COPY_ON_WRITE")).in_words()["merge mode"] == told


def test_a_table_that_fills_unavailable_values_states_their_marker(tmp_path: Path) -> None:
    """Without it Hudi fills nothing, and stores the marker over the value."""
    with pytest.raises(ValueError, match=r"record\.merge\.property\..*unavailable\.value"):
        bf.create(
            tmp_path / "t",
            schema=SCHEMA,
            record_key="id",
            ordering="ts",
            properties={MODE: "FILL_UNAVAILABLE"},
        )
    assert not (tmp_path / "t").exists()
