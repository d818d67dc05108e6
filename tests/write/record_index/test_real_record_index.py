"""Tables without buckets, and the record index that their metadata table has."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.write.models import SCHEMA, Model, create_table, rows

KINDS = [
    ("COPY_ON_WRITE", 9),
    ("MERGE_ON_READ", 9),
    ("MERGE_ON_READ", 8),
    ("COPY_ON_WRITE", 6),
    ("MERGE_ON_READ", 6),
]


@pytest.mark.rotated(0, among="every change in the metadata table", one_of=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_partitioned_index_is_in_step_with_every_write(table_type: Any) -> None:
    table = create_table(
        f"memory://partitioned_record_index/{table_type}",
        bf.RecordIndex(partitioned=True),
        table_type,
    )
    assert bf.open(table.uri).index == bf.RecordIndex(partitioned=True)
    stored: dict[tuple[str, str], float] = {}

    def upsert(keys: Iterable[int], ts: int, region: str) -> None:
        given = rows(keys, ts, price=float(ts))
        given = given.set_column(4, "region", pa.array([region] * given.num_rows))
        table.upsert(given)
        stored.update({(region, row["id"]): row["price"] for row in given.to_pylist()})

    def holds() -> None:
        found = bf.open(table.uri).scan().to_arrow()
        assert {(row["region"], row["id"]): row["price"] for row in found.to_pylist()} == stored
        located = table.locate(found.select(["id", "region"]))
        assert located["file_id"].null_count == 0
        report = table.check(depth="full")
        assert report.status == "clean", report.findings
        groups = table.metadata_table.list()
        assert groups[-1].name == "record_index"

    assert table.lookup(["key-000001"]).num_rows == 0
    upsert(range(20), 1, "eu")
    upsert(range(10, 30), 2, "a_b-c")  # the same keys in another partition, with an awkward name
    holds()
    upsert(range(15, 40), 3, "eu")
    table.delete(pa.table({"id": ["key-000016", "key-000039"], "region": ["eu", "eu"]}))
    del stored["eu", "key-000016"], stored["eu", "key-000039"]
    assert table.lookup(["key-000016"])["region"].to_pylist() == ["a_b-c"]
    holds()
    if table_type == "MERGE_ON_READ":
        assert table.compact().committed
        holds()
    table.delete_partitions(["a_b-c"])
    stored = {key: price for key, price in stored.items() if key[0] == "eu"}
    holds()
    upsert(range(3), 4, "a_b-c")
    table.insert_overwrite(rows([0, 3], ts=5))  # of another region
    stored.update({("us", row["id"]): row["price"] for row in rows([0, 3], ts=5).to_pylist()})
    holds()
    last = table.timeline.writes.completed.instants[-1].requested_time
    table.rollback(last)
    stored = {key: price for key, price in stored.items() if key[0] != "us"}
    holds()
    table.metadata_table.rebuild()
    assert [each.file_groups for each in table.metadata_table.list()] == [1, 3]
    holds()
    table.metadata_table.drop("record_index")
    table.metadata_table.init("record_index")
    assert [each.file_groups for each in table.metadata_table.list()] == [1, 3]


def assert_holds(uri: str, model: Model) -> None:
    """A fresh look at the table shows the model's rows, and the index their file groups."""
    table = bf.open(uri)
    found = table.scan(meta_columns=True).to_arrow()
    own = found.select(SCHEMA.names).to_pylist()
    in_order = sorted(own, key=lambda row: row["id"])
    assert in_order == sorted(model.rows.values(), key=lambda row: row["id"])
    located = table.locate([*found["id"].to_pylist(), "no such key"])
    names = [name.lstrip(".").split("_")[0] for name in found["_hoodie_file_name"].to_pylist()]
    assert located["file_id"].to_pylist() == [*names, None]
    assert table.lookup(found["id"].slice(0, 5)).num_rows == min(5, len(own))
    report = table.check(depth="full")
    assert report.status == "clean", report.findings


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("table_type", "version"), KINDS)
def test_a_late_delete_leaves_the_key_in_the_index(table_type: Any, version: int) -> None:
    schema = pa.schema(
        [("id", pa.string()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())]
    )

    def upsert(*given: tuple[str, int, bool]) -> None:
        table.upsert(pa.table([list(column) for column in zip(*given, strict=True)], schema))

    table = bf.create(
        f"memory://late_delete/{table_type}{version}",
        name="late",
        schema=schema,
        record_key=["id"],
        ordering=["ts"],
        index=bf.RecordIndex(),
        table_type=table_type,
        table_version=version,
    )
    upsert(("a", 5, False), ("b", 5, False))
    upsert(("a", 1, True), ("b", 7, True))
    assert table.locate(["a", "b"])["file_id"].is_valid().to_pylist() == [True, False]
    if version == 9:
        table.metadata_table.drop()
        with pytest.raises(bf.IndexUnknownError, match="has no record index"):
            bf.open(table.uri).upsert(table.scan().to_arrow())
        table.metadata_table.init("record_index")  # which the open table finds
    upsert(("a", 9, False), ("b", 3, False))
    found = table.scan(["id", "ts"]).to_arrow().sort_by("id")
    assert found.to_pydict() == {"id": ["a", "b"], "ts": [9, 3]}
    assert table.check(depth="full").status == "clean"


@pytest.mark.rotated(0, among="every change in the metadata table", one_of=2)
@pytest.mark.parametrize(("table_type", "version"), KINDS)
def test_the_index_is_in_step_with_every_write(table_type: Any, version: int) -> None:
    uri = f"memory://real_record_index/{table_type}{version}"
    table = bf.create(
        uri,
        name="real",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.RecordIndex(update_partition_path=True),
        table_type=table_type,
        table_version=version,
    )
    assert table.index == bf.open(uri).index == bf.RecordIndex(update_partition_path=True)
    model = Model()
    for ts, first in ((1, 0), (2, 30)):
        given = rows(range(first, first + 60), ts, price=float(ts))
        table.upsert(given)
        model.upsert(given)
    assert_holds(uri, model)
    gone = ["key-000003", "key-000040", "no such key"]
    table.delete(gone)
    model.delete(gone)
    moved = rows([6, 9, 200], ts=3).set_column(4, "region", pa.array(["x", "eu", "x"]))
    table.upsert(moved)
    model.delete(["key-000006", "key-000009"])
    model.upsert(moved)
    assert_holds(uri, model)
    if table_type == "MERGE_ON_READ":
        assert table.compact().committed
        assert_holds(uri, model)
    again = rows([3, 6], ts=4)
    table.upsert(again)
    model.delete(["key-000006"])
    model.upsert(again)
    overwritten = rows([9, 300], ts=5).set_column(4, "region", pa.array(["eu", "eu"]))
    table.insert_overwrite(overwritten)
    model.drop("eu")
    model.upsert(overwritten)
    table.delete_partitions(["x"])
    model.drop("x")
    assert_holds(uri, model)


def make(uri: str) -> bf.Table:
    table = create_table(uri, bf.RecordIndex())
    table.upsert(rows(range(40), ts=1))
    return bf.open(table.uri)


def test_a_folder_of_which_a_part_was_removed_is_no_index() -> None:
    """Keys were looked for in the wrong file groups, and were new where they were not found."""
    table = make("memory://record_index_amid_its_removal")
    keys = rows(range(40), ts=1)["id"].to_pylist()
    assert table.locate(keys)["file_id"].null_count == 0
    reader = bf.open(table.uri)
    assert "record_index" in reader.state.config.metadata_partitions  # read before the removal
    config = reader.config
    # As another process removes it: first off the list, then its files in any order.
    remover = bf.open(table.uri)
    folder = ".hoodie/metadata/record_index"
    files = {
        each.name: remover.store.read(f"{folder}/{each.name}", 1 << 20)
        for each in remover.store.list(folder)
    }
    remover.metadata_table.drop("record_index")
    for name, data in files.items():
        if "-0000-" in name or "-0001-" in name:
            remover.store.put_if_absent(f"{folder}/{name}", data)
    assert reader.config is config  # as it was when the table was opened
    with pytest.raises(bf.IndexUnknownError, match="does not list record_index"):
        reader.locate(keys)
    with pytest.raises(bf.IndexUnknownError, match="does not list record_index"):
        reader.upsert(rows(range(40), ts=2))
    assert reader.lookup(keys).num_rows == 40


def test_an_index_argument_that_the_metadata_table_contradicts_is_refused() -> None:
    table = make("memory://record_index_of_another_kind")
    wrong = bf.open(table.uri, index=bf.RecordIndex(partitioned=True))
    for act in (
        lambda: wrong.locate(["key-000001"]),
        lambda: wrong.locate(["key-000001"]),  # by what was kept of the first
        lambda: wrong.upsert(rows([1], ts=2)),
    ):
        with pytest.raises(ValueError, match="unique in the table; open the table without index="):
            act()


def test_partitions_are_made_once() -> None:
    """Without names, all that were there went, and only the list of files was made."""
    table = make("memory://metadata_table_made_twice")
    listed = table.metadata_table.list()
    for names in ((), ("files",), ("record_index",), ("column_stats", "files")):
        with pytest.raises(ValueError, match=r"is there already; rebuild makes it anew"):
            table.metadata_table.init(*names)
    assert table.metadata_table.list() == listed
    table.metadata_table.drop()
    table.metadata_table.init()
    assert [each.name for each in table.metadata_table.list()] == ["files"]


@pytest.mark.parametrize("name", ["record_index", ".hoodie/hoodie.properties"])
def test_errors_about_damage_say_how_to_make_the_metadata_table_anew(name: str) -> None:
    """They said to restore a file, or nothing."""
    table = make(f"memory://{name.strip('.').replace('/', '_')}/damaged_metadata_table")
    store, path = table.store, f".hoodie/metadata/{name}"
    if "/" not in name:
        logs = [each for each in store.list(path) if each.name.startswith(".") and each.size > 200]
        path = f"{path}/{logs[-1].name}"
    store.delete(path)
    store.put_if_absent(path, b"damaged")
    advice = r"make the metadata table anew: metadata_table\.rebuild\(\)$"
    with pytest.raises(bf.CorruptError, match=advice):
        bf.open(table.uri).upsert(rows(range(40), ts=2))
    bf.open(table.uri).metadata_table.rebuild()
    bf.open(table.uri).upsert(rows(range(40), ts=2))
    assert bf.open(table.uri).check(depth="full").status == "clean"


def test_a_partitioned_index_without_file_groups_is_damaged_once_the_table_has_files() -> None:
    """No key was found by it: upserts wrote rows a second time, and deletes deleted nothing."""
    table = create_table("memory://partitioned_record_index/lost", bf.RecordIndex(partitioned=True))
    table.upsert(rows(range(6), ts=1))
    keys = table.scan().to_arrow().select(["id", "region"])
    table.store.delete_tree(".hoodie/metadata/record_index")
    lost = bf.open(table.uri)
    for act in (
        lambda: lost.locate(keys),
        lambda: lost.upsert(rows(range(6), ts=2)),
        lambda: lost.delete(keys),
    ):
        with pytest.raises(bf.CorruptError, match=r"record_index .* has no file group.*rebuild"):
            act()
    assert {finding.id for finding in lost.check(depth="full").findings} == {"M002"}
    lost.metadata_table.rebuild("record_index")
    lost.upsert(rows(range(6), ts=2))
    assert lost.scan().count() == 6
    assert lost.check(depth="full").status == "clean"


def test_a_filter_on_the_partition_column_goes_by_paths() -> None:
    table = make("memory://record_index_and_filters")
    key = "key-000001"
    moved = rows([1], ts=2).set_column(4, "region", pa.array(["us"]))
    assert table.lookup([key])["region"].to_pylist() == ["eu"]
    table.upsert(moved)
    assert table.locate([key])["partition_path"].to_pylist() == ["eu"]
    assert table.lookup([key])["region"].to_pylist() == ["us"]
    assert table.scan(["id"], "region = 'us' and id = 'key-000001'").count() == 0
    assert table.scan(["id"], "region != 'eu' and id = 'key-000001'").count() == 1


@pytest.mark.parametrize(("table_type", "version"), KINDS)
@pytest.mark.parametrize("is_ahead", [True, False])
def test_a_write_makes_an_index_anew_that_is_out_of_step(
    tmp_path: Path, table_type: Any, version: int, is_ahead: bool
) -> None:
    """A writer stood still, was taken back, and put its part into the metadata table then."""
    table = create_table(tmp_path / "t", bf.RecordIndex(), table_type, table_version=version)
    model = Model()
    for ts in (1, 2, 3):
        table.upsert(rows(range(5 * ts), ts))
        model.upsert(rows(range(5 * ts), ts))
    known = [i.requested_time for i in table.timeline.writes.completed.instants]
    below = tmp_path / "t/.hoodie/metadata" / table.config.timeline_path
    if is_ahead:
        late = str(int(known[1]) + 1)
        for path in [*below.glob(f"{known[1]}*")]:
            shutil.copy(path, below / path.name.replace(known[1], late))
    else:
        for path in [*below.glob(f"{known[-1]}*")]:
            path.unlink()
    table = bf.open(tmp_path / "t")
    why = f"it has {late}, which the table lacks" if is_ahead else f"it lacks {known[-1]}"
    with pytest.raises(bf.IndexUnknownError, match=why):
        table.locate(["key-000001"])
    with pytest.warns(UserWarning, match="the metadata table is made anew"):
        table.upsert(rows(range(20), 4))
    model.upsert(rows(range(20), 4))
    assert_holds(table.uri, model)
    assert table.check(depth="full").status == "clean"
