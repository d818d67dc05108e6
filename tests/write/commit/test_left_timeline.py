"""A writer that wrote last begins with the timeline as it left it, and misses nothing by that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config
from tests.write.models import NO_SERVICES, SCHEMA, Model, create_table, rows

_TIMELINE = ".hoodie/timeline"


def opened(store: bf.Store) -> bf.Table:
    limits = bf.Limits()
    return bf.Table(store, load_config(store, limits), limits, None, NO_SERVICES)


def in_memory(path: Path, table_type: str = "MERGE_ON_READ", **options: object) -> MemoryStore:
    """A table of 30 rows in a store that never tells that a folder has changed."""
    table = bf.create(
        str(path),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type=table_type,
        writer=NO_SERVICES,
        **options,
    )
    table.upsert(rows(range(30), ts=1))
    return MemoryStore.of_folder(path)


def read(store: bf.Store) -> list[dict[str, object]]:
    found = opened(store).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["region"], row["id"]))


def test_who_wrote_last_lists_the_timeline_under_the_lock_only(tmp_path: Path) -> None:
    other = create_table(tmp_path / "t", bf.SimpleBucketIndex(1))
    store = RecordingStore(other.store)
    table = opened(store)

    def listings() -> int:
        before = len(store.operations)
        table.upsert(rows([1], ts=2))
        return store.operations[before:].count(("list", _TIMELINE))

    assert listings() == 3
    assert listings() == 2  # when it begins, and when it is published
    other.upsert(rows([2], ts=2))
    assert listings() == 3  # the folder has changed since
    assert listings() == 2
    assert table.scan().count() == 2


def test_in_layout_1_the_timeline_is_listed_each_time(tmp_path: Path) -> None:
    store = in_memory(tmp_path / "t", table_version=6)
    table = opened(store)
    table.upsert(rows([1], ts=2))
    assert table._kept_commits.find_left() is None


def upsert_to_the_same_bucket(other: bf.Table) -> object:
    return other.upsert(rows(range(30), ts=3, price=5.0))


def roll_back(other: bf.Table) -> object:
    return other.rollback()


def compact(other: bf.Table) -> object:
    return other.compact()


def archive(other: bf.Table) -> object:
    for ts in range(3, 9):
        other.upsert(rows([ts], ts=ts))
    return other.archive(min_commits=1, max_commits=1)


def rehash(other: bf.Table) -> object:
    return other.rehash(5)


def overwrite(other: bf.Table) -> object:
    return other.insert_overwrite(rows([0, 3], ts=3))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize(
    "meanwhile", [upsert_to_the_same_bucket, roll_back, compact, archive, rehash, overwrite]
)
def test_what_a_folder_time_does_not_tell_is_found_when_the_write_begins(
    tmp_path: Path, table_type: str, meanwhile: Callable[[bf.Table], object]
) -> None:
    store = in_memory(tmp_path / "t", table_type)
    table = opened(store)
    table.upsert(rows([1, 2], ts=2))
    meanwhile(opened(store))
    fresh = store.copy()

    assert table._kept_commits.find_left() is not None  # it takes the timeline for its own
    table.upsert(rows([1, 6, 40], ts=4, price=2.0))

    opened(fresh).upsert(rows([1, 6, 40], ts=4, price=2.0))
    assert read(store) == read(fresh)
    assert opened(store).check(depth="full").status == "clean"


def test_columns_that_came_meanwhile_are_not_lost(tmp_path: Path) -> None:
    store = in_memory(tmp_path / "t")
    table = opened(store)
    table.upsert(rows([1], ts=2))
    wider = rows([2], ts=3).append_column("more", pa.array([7], pa.int64()))
    opened(store).upsert(wider, evolve=True)
    with pytest.raises((bf.ConflictError, bf.SchemaError)):
        table.upsert(rows([3], ts=4))
    table.upsert(wider)
    assert [row["more"] for row in read(store) if row["id"] == "key-000002"] == [7]


@pytest.mark.parametrize("seed", range(4))
def test_two_that_write_by_turns_leave_what_a_dict_holds(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    store = in_memory(tmp_path / "t", random.choice(["COPY_ON_WRITE", "MERGE_ON_READ"]))
    model = Model()
    model.upsert(rows(range(30), ts=1))
    writers = [opened(store), opened(store)]
    for ts in range(2, 30):
        table = random.choice(writers)
        if random.random() < 0.2:
            gone = [f"key-{number:06d}" for number in random.sample(range(40), 3)]
            table.delete(filter=[("id", "in", gone)])
            model.delete(gone)
        elif random.random() < 0.2:
            table.compact()
            table.archive(min_commits=2, max_commits=4)
        else:
            given = rows(random.sample(range(40), 5), ts=ts)
            table.upsert(given)
            model.upsert(given)
    assert read(store) == [model.rows[key] for key in sorted(model.rows)]


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_that_lost_its_timeline_takes_no_write(
    tmp_path: Path, version: int, table_type: str
) -> None:
    """A first instant would make the files before it readable, beside the rows of the write."""
    table = create_table(tmp_path / "t", bf.SimpleBucketIndex(2), table_type, table_version=version)
    table.upsert(rows([1, 2], ts=1))
    before = read(table.store)
    timeline = tmp_path / "t" / table.config.timeline_path
    kept = {path: path.read_bytes() for path in timeline.iterdir() if path.is_file()}
    kept = {path: data for path, data in kept.items() if path.name[:1].isdigit()}
    for path in kept:
        path.unlink()
    lost = bf.open(table.uri)
    for act in (lost.preview_write, lost.upsert):
        with pytest.raises(bf.CorruptError, match="Put the files of the timeline back") as refused:
            act(rows([2, 3], ts=2))
        assert refused.value.path == table.config.timeline_path
    assert not [path for path in timeline.iterdir() if path.name[:1].isdigit()]
    for path, data in kept.items():
        path.write_bytes(data)
    assert read(table.store) == before
