"""Every operation, on every kind of table, against a dict."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.write.files import group_writer
from bucketfmt.write.rows import gathering
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

INDEXES = {
    "simple": bf.SimpleBucketIndex(4),
    "ring": bf.ConsistentHashingIndex(4),
    "rules": bf.PartitionBucketIndex(2, "us,4;eu,3"),
    "directory": bf.ExtendibleHashingIndex(4),
    "groups": bf.MultiGroupBucketIndex(2, group_bytes=25_000),
}
KINDS = [
    (version, table_type, index)
    for version, table_type, index in product(
        (6, 8, 9), ("COPY_ON_WRITE", "MERGE_ON_READ"), INDEXES
    )
    if not (index == "ring" and table_type == "COPY_ON_WRITE")
    and not (index == "rules" and version < 9)
    and not (
        index == "groups"
        and (version, table_type) not in ((6, "MERGE_ON_READ"), (9, "COPY_ON_WRITE"))
    )
]


@pytest.fixture(params=KINDS, ids=lambda kind: "-".join(map(str, kind)))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    version, table_type, index = request.param
    return create_table(str(tmp_path / "trips"), INDEXES[index], table_type, table_version=version)


def is_logged(table: bf.Table) -> bool:
    return table.config.table_type == "MERGE_ON_READ"


def test_all_operations_one_after_the_other(table: bf.Table) -> None:
    model = Model()
    assert table.scan().count() == 0
    assert table.schema == SCHEMA

    first = rows(range(300), ts=10)
    result = table.upsert(first)
    model.upsert(first)
    assert_reads_as(table.uri, model)
    is_ring = isinstance(table.index, bf.ConsistentHashingIndex)  # which begins with log files
    counted = (result.rows_inserted, result.rows_updated)
    assert (result.operation, counted) == ("UPSERT", (0, 300) if is_ring else (300, 0))
    assert result.action == ("deltacommit" if is_logged(table) else "commit")
    assert all((Path(table.uri) / path).exists() for path in result.files)

    second = rows(range(200, 400), ts=20, price=2.0)
    result = table.upsert(second)
    model.upsert(second)
    assert_reads_as(table.uri, model)
    if not is_logged(table):
        assert (result.rows_inserted, result.rows_updated) == (100, 100)

    stale = rows(range(0, 250, 10), ts=15, price=9.0)  # older than 200-249, newer than the others
    table.upsert(stale)
    model.upsert(stale)
    assert_reads_as(table.uri, model)

    with_partitions = rows(range(30), ts=0).select(["id", "region"])
    result = table.delete(with_partitions)
    model.delete(with_partitions["id"].to_pylist())
    assert_reads_as(table.uri, model)
    assert (result.operation, result.rows_deleted) == ("DELETE", 30)

    table.delete(["key-000100", "nowhere", "key-000399"])
    model.delete(["key-000100", "key-000399"])
    assert_reads_as(table.uri, model)

    table.delete(filter=[("price", ">", 700.0)])
    model.delete(row["id"] for row in list(model.rows.values()) if row["price"] > 700)
    assert_reads_as(table.uri, model)

    back = rows([0, 100], ts=30)
    table.insert(back)
    model.upsert(back)
    assert_reads_as(table.uri, model)


def test_overwriting_and_dropping_partitions(table: bf.Table) -> None:
    model = Model()
    everything = rows(range(90), ts=1)
    if table.index.group_bytes is None:
        table.bulk_insert(everything)
    else:
        with pytest.raises(bf.UnsupportedError, match="use insert"):
            table.bulk_insert(everything)
        table.insert(everything)
    model.upsert(everything)
    assert_reads_as(table.uri, model)
    new = rows(range(500, 530), ts=1)
    of_us = new.filter(pc.equal(new["region"], "us"))
    if isinstance(table.index, bf.ConsistentHashingIndex):
        for change in (
            lambda: table.insert_overwrite(of_us),
            lambda: table.insert_overwrite(of_us, table=True),
            lambda: table.delete_partitions(["eu"]),
        ):
            with pytest.raises(bf.UnsupportedError, match="rings state the file ids"):
                change()
        assert_reads_as(table.uri, model)
        assert not table.timeline.pending.instants
        return
    result = table.insert_overwrite(of_us)
    model.drop("us")
    model.upsert(of_us)
    assert_reads_as(table.uri, model)
    assert (result.action, result.operation) == ("replacecommit", "INSERT_OVERWRITE")
    assert result.file_groups_replaced > 0

    result = table.delete_partitions(["eu"])
    model.drop("eu")
    assert_reads_as(table.uri, model)
    assert (result.operation, result.files) == ("DELETE_PARTITION", ())

    again = rows(range(1, 60, 3), ts=1)  # of the dropped partition
    table.upsert(again)
    model.upsert(again)
    assert_reads_as(table.uri, model)

    table.insert_overwrite(of_us, table=True)
    model = Model()
    model.upsert(of_us)
    assert_reads_as(table.uri, model)
    before = table.timeline.writes.completed.instants[0].requested_time
    assert table.scan(as_of=before).count() == 90


def test_of_rows_with_one_key_the_newest_is_written(table: bf.Table) -> None:
    given = pa.concat_tables([rows([1, 2], ts=5), rows([1], ts=9, price=3.0), rows([1, 2], ts=5)])
    table.upsert(given)
    model = Model()
    model.upsert(rows([2], ts=5))
    model.upsert(rows([1], ts=9, price=3.0))
    assert_reads_as(table.uri, model)


def test_a_key_is_one_within_its_partition(table: bf.Table) -> None:
    """As with Hudi's bucket indexes: in another partition it is another record."""
    given = rows([1, 4], ts=5)
    table.upsert(given)
    moved = given.set_column(4, "region", pa.array(["ap", "ap"]))
    table.upsert(moved)
    model = Model()
    model.upsert(given)
    model.upsert(moved)
    assert_reads_as(table.uri, model)
    table.delete(moved.select(["id", "region"]))
    model.drop("ap")
    assert_reads_as(table.uri, model)
    table.delete(["key-000001"])
    model.delete(["key-000001"])
    assert_reads_as(table.uri, model)


def test_new_columns_and_wider_types(table: bf.Table) -> None:
    model = Model()
    table.upsert(rows(range(20), ts=1))
    for row in rows(range(20), ts=1).to_pylist():
        model.rows[row["region"], row["id"]] = {**row, "extra": None}
    wide = rows(range(10, 30), ts=2).append_column("extra", pa.array(range(20), pa.int32()))
    table.upsert(wide, evolve=True)
    model.upsert(wide)
    assert_reads_as(table.uri, model)
    assert table.schema == SCHEMA.append(pa.field("extra", pa.int32()))

    wider = rows([5], ts=3).append_column("extra", pa.array([2**40]))
    table.upsert(wider, evolve=True)
    model.upsert(wider)
    assert_reads_as(table.uri, model)
    assert table.schema.field("extra").type == pa.int64()

    narrow = rows([6], ts=3).append_column("extra", pa.array([6], pa.int8()))
    table.upsert(narrow)
    model.upsert(narrow)
    assert_reads_as(table.uri, model)
    assert table.schema.field("extra").type == pa.int64()


def test_nothing_to_write_is_a_commit_too(table: bf.Table) -> None:
    results = [table.upsert(SCHEMA.empty_table()), table.upsert([])]
    assert [(result.files, result.rows_inserted) for result in results] == [((), 0)] * 2
    assert [i.requested_time for i in table.timeline.completed.instants] == [
        result.instant for result in results
    ]
    assert_reads_as(table.uri, Model())


def test_a_delete_that_finds_nothing_makes_no_commit(table: bf.Table) -> None:
    nothing = table.delete(["key-000001"])
    assert (nothing.committed, nothing.instant) == (False, "00000000000000")
    written = table.upsert(rows(range(3), ts=1))
    before = table.timeline.instants
    for found in (table.delete(["nowhere"]), table.delete(filter=[("ts", ">", 5)])):
        assert (found.committed, found.operation) == (False, "DELETE")
        assert found.instant == written.instant
        assert (found.files, found.rows_deleted) == ((), 0)
    assert table.timeline.instants == before
    keyed = table.delete(["nowhere"], idempotency_key="once")
    assert keyed.committed
    assert table.delete(["key-000001"], idempotency_key="once").instant == keyed.instant
    told = table.delete(["nowhere"], commit_metadata={"batch": "7"})
    assert (told.committed, len(table.timeline.instants)) == (True, len(before) + 2)
    assert bf.open(table.uri).scan().count() == 3


def test_marked_rows_delete(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = bf.create(
            str(tmp_path / table_type.lower()),
            schema=schema,
            record_key=["id"],
            ordering=["ts"],
            index=bf.SimpleBucketIndex(2),
            table_type=table_type,
        )
        given = rows(range(10), ts=1)
        table.upsert(given.append_column("_hoodie_is_deleted", pa.array([False] * 10)))
        marks = rows([3, 4, 99], ts=2)
        table.upsert(marks.append_column("_hoodie_is_deleted", pa.array([True] * 3)))
        left = sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())
        assert left == [f"key-{i:06d}" for i in (0, 1, 2, 5, 6, 7, 8, 9)]


def test_rows_come_larger_than_memory_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketfmt.write.rows.grouping._BYTES_IN_MEMORY", 4_000)
    monkeypatch.setattr("bucketfmt.write.rows.incoming._CHUNK_BYTES", 1_000)
    table = bf.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        index=bf.SimpleBucketIndex(4),
    )
    given = rows(range(2_000), ts=1)
    table.upsert(given.to_reader())
    model = Model()
    model.upsert(given)
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_without_meta_columns(tmp_path: Path, version: int) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = create_table(
            str(tmp_path / table_type.lower()),
            bf.SimpleBucketIndex(2),
            table_type,
            table_version=version,
            properties={"hoodie.populate.meta.fields": "false"},
        )
        model = Model()
        for given in (rows(range(50), ts=1), rows(range(25, 75), ts=2, price=2.0)):
            table.upsert(given)
            model.upsert(given)
            assert_reads_as(table.uri, model)
        gone = rows(range(10), ts=1).select(["id", "region"])
        table.delete(gone)
        model.delete(gone["id"].to_pylist())
        assert_reads_as(table.uri, model)
        table.delete(["key-000020", "key-000021", "nowhere"])
        table.delete(filter=[("id", ">=", "key-000070")])
        model.delete(f"key-{number:06d}" for number in (20, 21, *range(70, 75)))
        assert_reads_as(table.uri, model)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_without_meta_columns_a_key_within_a_struct(tmp_path: Path, table_type: str) -> None:
    """Keys were looked for in a column `meta.id`: no write, and no read of a log, came through."""

    def of(*numbers: int, ts: int) -> list[dict[str, Any]]:
        return [
            {"meta": {"id": f"k{number}", "ts": ts}, "loc": {"city": "eu"}, "v": number * ts}
            for number in numbers
        ]

    def stored() -> list[dict[str, Any]]:
        found = bf.open(table.uri).scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: row["meta"]["id"])

    table = bf.create(
        str(tmp_path / "t"),
        schema=pa.Table.from_pylist(of(1, ts=1)).schema,
        record_key="meta.id",
        partition_by="loc.city",
        ordering="meta.ts",
        table_type=table_type,
        index=bf.SimpleBucketIndex(2),
        properties={"hoodie.populate.meta.fields": "false"},
    )
    table.upsert(of(*range(6), ts=2))
    table.upsert([*of(1, 7, ts=3), *of(2, ts=1)])
    assert stored() == [*of(0, ts=2), *of(1, ts=3), *of(2, 3, 4, 5, ts=2), *of(7, ts=3)]
    assert table.scan(["v"], filter=[("v", "=", 8)]).to_arrow().to_pylist() == [{"v": 8}]
    assert table.lookup(["k1", "k9"]).to_pylist() == of(1, ts=3)
    table.delete(["k3"])
    table.delete(of(4, ts=2))
    expected = [*of(0, ts=2), *of(1, ts=3), *of(2, 5, ts=2), *of(7, ts=3)]
    assert stored() == expected
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert stored() == expected
    assert not table.check(depth="full").findings


@pytest.mark.parametrize("url_encoded", [False, True])
def test_a_partition_within_another_is_refused(tmp_path: Path, url_encoded: bool) -> None:
    """Hudi, where it lists folders, does not find it: its rows were lost there."""

    def of(*values: str) -> pa.Table:
        return pa.table({"id": [f"of {value}" for value in values], "c": values})

    encoding = {"hoodie.datasource.write.partitionpath.urlencode": str(url_encoded).lower()}
    table = bf.create(
        tmp_path / "t",
        schema=of("x"),
        record_key="id",
        partition_by="c",
        index=bf.SimpleBucketIndex(1),
        properties=encoding,
    )
    table.upsert(of("x", "a/b/c", "x-1", "xy"))
    for inner in ("x/z", "a/b", "a", "n/m"):
        given = of(inner) if inner != "n/m" else of("n", "n/m")
        if url_encoded:
            table.upsert(given)
            continue
        with pytest.raises(bf.SchemaError, match="would lie within the partition"):
            table.upsert(given)
    assert table.check(depth="full").status == "clean"
    assert table.scan().count() == (9 if url_encoded else 4)


def test_partitions_that_lie_within_one_another_already_are_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hudi makes them. Rows of both, in one write, were refused."""
    given = pa.table({"id": ["1", "2", "3"], "c": ["x", "x/z", "y"]})
    table = bf.create(
        tmp_path / "t",
        schema=given,
        record_key="id",
        partition_by="c",
        index=bf.SimpleBucketIndex(1),
    )
    with monkeypatch.context() as patch:
        patch.setattr(gathering, "find_nested", lambda _: ())
        patch.setattr(group_writer, "check_apart", lambda *_: None)
        table.upsert(given)
    again = bf.open(table.uri)
    assert again.upsert(given).rows_updated == 3
    assert again.scan().to_arrow().sort_by("id") == given
    with pytest.raises(bf.SchemaError, match="'x/z/a' would lie within the partition 'x'"):
        again.upsert(pa.table({"id": ["4"], "c": ["x/z/a"]}))
