"""The model does what is documented of tables, and says where a table differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.testing.table_model import TableModel

Rows = list[dict[str, object]]


def row(key: str, ts: int, p: str = "a") -> dict[str, object]:
    return {"id": key, "ts": ts, "p": p}


def result(instant: str) -> bf.CommitResult:
    return bf.CommitResult(instant, f"{instant}9", "commit", "UPSERT")


@pytest.fixture
def model() -> TableModel:
    """Rows x, y in a and x in b, in one commit."""
    model = TableModel(["id"], ["p"], ["ts"])
    model.upsert([row("x", 1), row("y", 1), row("x", 1, "b")])
    model.commit(result("1"))
    return model


def found(model: TableModel) -> set[tuple[object, ...]]:
    return {(*key, held["ts"]) for key, held in model.rows.items()}


FIRST = {("a", "x", 1), ("a", "y", 1), ("b", "x", 1)}


def test_upsert_by_ordering(model: TableModel) -> None:
    model.upsert(pa.Table.from_pylist([row("x", 0), row("y", 2), row("z", 0)]))
    assert found(model) == {("a", "x", 1), ("a", "y", 2), ("a", "z", 0), ("b", "x", 1)}
    later = TableModel(["id"])
    later.upsert([row("x", 2), row("x", 1)])
    assert [held["ts"] for held in later.rows.values()] == [1], "without ordering the later"


def test_deletes(model: TableModel) -> None:
    model.delete([{"id": "x", "p": "a"}, {"id": "none", "p": "a"}])
    assert found(model) == {("a", "y", 1), ("b", "x", 1)}
    model.delete_where(lambda held: held["id"] == "y")
    assert found(model) == {("b", "x", 1)}
    model.delete_partitions([["b"]])
    assert found(model) == set()


def test_overwrites(model: TableModel) -> None:
    model.insert_overwrite([row("n", 0)])
    assert found(model) == {("a", "n", 0), ("b", "x", 1)}
    model.insert_overwrite([row("m", 0)], table=True)
    assert found(model) == {("a", "m", 0)}


def test_the_past(model: TableModel) -> None:
    model.upsert([row("x", 2)])
    model.commit(result("2"))
    model.delete([row("y", 0)])
    model.undo()
    assert found(model) == {("a", "x", 2), ("a", "y", 1), ("b", "x", 1)}
    first, second = model.commits
    assert {held["ts"] for held in first.rows.values()} == {1}
    assert (second.instant, second.completion_time) == ("2", "29")
    assert model.changes("1", by_completion=True) == {("a", "x"): row("x", 2)}
    assert model.changes("2", by_completion=False) == {}
    model.forget("2")
    assert model.retained == [second]
    model.return_to("1")
    assert found(model) == FIRST
    model.return_to(None)
    assert found(model) == set()


def test_what_commits_nothing_is_no_commit(model: TableModel) -> None:
    model.upsert([row("x", 2)])
    model.commit(result("2"))
    before = list(model.commits)
    model.delete([row("none", 0)])
    model.commit(replace(result("2"), committed=False))
    assert model.commits == before
    model.return_to(model.commits[-2].instant)
    assert found(model) == FIRST


def test_dicts_of_other_columns(tmp_path: Path) -> None:
    """As a table: rows that lacked the partition column were a KeyError."""
    schema = pa.schema({"id": pa.string(), "p": pa.string(), "ts": pa.int64(), "n": pa.int64()})
    table = bf.create(
        tmp_path / "t", schema=schema, record_key="id", partition_by="p", ordering="ts"
    )
    model = TableModel(["id"], ["p"], ["ts"])
    given: Rows = [row("x", 1), {"id": "x", "ts": 1}, {"id": "y", "ts": 1, "n": 7}, row("z", 1)]
    model.upsert(given)
    model.commit(table.upsert(given))
    model.check(table)
    assert found(model) == {("a", "x", 1), (None, "x", 1), (None, "y", 1), ("a", "z", 1)}
    for keys in ([{"id": "z", "p": "b"}, {"id": "y", "p": None}], [{"id": "x"}]):
        model.delete(keys)
        model.commit(table.delete(keys))
        model.check(table)
    assert found(model) == {("a", "z", 1)}
    given = [{"id": "z", "ts": 2}]
    with pytest.raises(bf.SchemaError, match="the rows lack the columns"):
        table.upsert(given)
    for write in (model.upsert, model.insert_overwrite):
        with pytest.raises(ValueError, match="the rows lack the columns p; give them"):
            write(given)
    model.insert_overwrite([])
    assert found(model) == {("a", "z", 1)}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("x", 1), row("y", 1)], "missing rows [('b', 'x')]"),
        ([row("x", 1), row("y", 1), row("x", 1, "b"), row("n", 1)], "unexpected rows [('a', 'n')]"),
        (
            [row("x", 1), row("y", 7), row("x", 1, "b")],
            "different rows (found, expected) {('a', 'y')",
        ),
        ([row("x", 1), row("x", 1)], "two rows of key ('a', 'x')"),
    ],
)
def test_what_differs_is_told(model: TableModel, rows: Rows, said: str) -> None:
    with pytest.raises(AssertionError) as told:
        model.check_rows(pa.Table.from_pylist(rows), model.rows)
    assert said in str(told.value)


def test_next_to_a_table(tmp_path: Path, model: TableModel) -> None:
    """As the documentation has it."""
    given = pa.Table.from_pylist(list(model.rows.values()))
    table = bf.create(
        str(tmp_path / "t"),
        schema=given.schema,
        record_key=["id"],
        partition_by=["p"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
    )
    model = TableModel(["id"], ["p"], ["ts"])
    model.upsert(given)
    model.commit(table.upsert(given))
    model.check(table)
    older = pa.Table.from_pylist([row("x", 0), row("n", 0)])
    model.upsert(older)
    model.commit(table.upsert(older))
    model.check(table)
    first, _ = model.commits
    model.check_rows(table.scan(as_of=first.instant).to_arrow(), first.rows)
    changed = model.changes(first.instant, by_completion=True)
    model.check_rows(table.changes(first.completion_time).to_arrow(), changed)
    table.delete(["y"])
    with pytest.raises(AssertionError, match=r"missing rows \[\('a', 'y'\)\]"):
        model.check(table)
