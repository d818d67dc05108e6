"""Writes to tables without buckets, by a record index that is made up of what the table holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.location import find_index
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.table.scan import plan_scan
from tests.write.models import SCHEMA, rows

pytestmark = pytest.mark.rotated

TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")


class Scanned:
    """A record index as it would be: the location of each key that the table has."""

    def __init__(self, state: TableState, *, is_global: bool = True) -> None:
        self.is_global = is_global
        finder = find_index.IndexFinder(state.store, state.config, state.limits, bf.BloomIndex())
        self._found: dict[tuple[str | None, str], tuple[str, str]] = {}
        if not state.timeline.writes.completed.instants:
            return
        scan = plan_scan(Snapshot(state), finder, columns=["id"], meta_columns=True)
        for row in scan.to_arrow().to_pylist():
            path, name = row["_hoodie_partition_path"], row["_hoodie_file_name"]
            file_id = name.lstrip(".").split("_")[0]
            self._found[None if is_global else path, row["id"]] = path, file_id

    def check_as_of_state(self) -> None:
        """Nothing to check: it was made of the state."""

    def find(self, record_keys: pa.ChunkedArray, partition_path: str | None = None) -> pa.Table:
        none = (None, None)
        found = [self._found.get((partition_path, k), none) for k in record_keys.to_pylist()]
        return pa.table(
            {
                "partition_path": pa.array([path for path, _ in found], pa.string()),
                "file_id": pa.array([file_id for _, file_id in found], pa.string()),
            }
        )


@pytest.fixture(autouse=True)
def scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_index, "RecordLocations", Scanned)


@pytest.fixture(params=TYPES)
def uri(request: pytest.FixtureRequest) -> str:
    return make(f"memory://record_index/{request.node.name}", request.param)


def make(uri: str, table_type: Any, **properties: str) -> str:
    table = bf.create(
        uri,
        name="several",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type=table_type,
        properties=properties,
    )
    path = ".hoodie/hoodie.properties"
    text = table.store.read(path, 1 << 20).decode()
    kept = [line for line in text.splitlines() if "bucket" not in line and "index.type" not in line]
    table.store.delete(path)
    lines = [*kept, "hoodie.index.type=RECORD_INDEX", ""]
    table.store.put_if_absent(path, "\n".join(lines).encode())
    return uri


def stored(uri: str) -> dict[str, tuple[float, str, str]]:
    """Price, partition and file group of each key; no key is there twice."""
    found = bf.open(uri).scan(meta_columns=True).to_arrow().to_pylist()
    keys = Counter(row["id"] for row in found)
    assert all(count == 1 for count in keys.values()), keys.most_common(3)
    return {
        row["id"]: (
            row["price"],
            row["_hoodie_partition_path"],
            row["_hoodie_file_name"].lstrip(".").split("_")[0],
        )
        for row in found
    }


def given(key: str, region: str, ts: int, price: float) -> pa.Table:
    row = {"id": key, "name": "n", "price": price, "ts": ts, "region": region}
    return pa.Table.from_pylist([row], SCHEMA)


def test_keys_stay_in_their_file_groups_and_new_keys_fill_small_ones(uri: str) -> None:
    table = bf.open(uri)
    table.upsert(rows(range(60), ts=1))
    first = stored(uri)
    assert len({own[2] for own in first.values()}) == 3  # one a partition
    assert all(own[2].endswith("-0") and len(own[2]) == 38 for own in first.values())
    table.upsert(rows(range(30, 90), ts=2, price=2.0))
    second = stored(uri)
    assert {key: own[2] for key, own in first.items()} == {
        key: own[2] for key, own in second.items() if key in first
    }
    assert {own[2] for own in second.values()} == {own[2] for own in first.values()}
    assert second["key-000080"][0] == 160.0
    assert second["key-000010"][0] == 10.0
    assert second["key-000040"][0] == 80.0
    table.delete(["key-000010", "key-000040", "no such key"])
    assert sorted(second.keys() - stored(uri).keys()) == ["key-000010", "key-000040"]
    assert bf.open(uri).check(depth="full").status == "clean"


def test_new_groups_begin_where_small_ones_are_full(uri: str) -> None:
    uri = make(
        uri + "x",
        bf.open(uri).config.table_type,
        **{
            "hoodie.parquet.max.file.size": "2000",
            "hoodie.parquet.small.file.limit": "1",
            "hoodie.copyonwrite.record.size.estimate": "100",
            "hoodie.record.size.estimation.threshold": "1000000",
        },
    )
    table = bf.open(uri)
    table.insert(rows(range(0, 300, 3), ts=1))  # of one partition
    groups = Counter(own[2] for own in stored(uri).values())
    assert len(groups) == 5
    assert max(groups.values()) <= 22
    table.insert(rows(range(3, 9, 3), ts=2))
    assert Counter(own[2] for own in stored(uri).values()) == groups
    table.insert(rows(range(300, 306, 3), ts=2))
    assert len({own[2] for own in stored(uri).values()}) == 6


def test_a_row_of_another_partition_is_stored_where_its_key_is(uri: str) -> None:
    table = bf.open(uri)
    table.upsert(rows(range(6), ts=1))
    table.upsert(given("key-000000", "elsewhere", 2, 7.0))
    assert stored(uri)["key-000000"][:2] == (7.0, "us")
    # Of the rows of one key in one write the newest stands, whichever partitions they name.
    both = [given("new", "eu", 2, 1.0), given("new", "us", 3, 2.0), given("new", "ap", 1, 3.0)]
    table.upsert(pa.concat_tables(both))
    assert stored(uri)["new"][:2] == (2.0, "us")


def test_a_row_moves_its_key_to_another_partition(uri: str) -> None:
    table = bf.open(uri, index=bf.RecordIndex(update_partition_path=True))
    table.upsert(rows(range(6), ts=2))
    moved = [
        given("key-000000", "elsewhere", 3, 7.0),
        given("key-000001", "elsewhere", 1, 8.0),  # older than the stored row
        given("key-000003", "us", 3, 9.0),
        given("other", "elsewhere", 3, 5.0),
    ]
    table.upsert(pa.concat_tables(moved))
    found = stored(uri)
    assert found["key-000000"][:2] == (7.0, "elsewhere")
    assert found["key-000001"][:2] == (1.0, "eu")
    assert found["key-000003"][:2] == (9.0, "us")
    assert found["other"][2] == found["key-000000"][2]
    table.upsert(given("key-000000", "us", 4, 1.0))
    assert stored(uri)["key-000000"][:2] == (1.0, "us")
    assert len(found) == len(stored(uri)) == 7
    with pytest.raises(ValueError, match="move their keys"):
        table.upsert(given("key-000000", "ap", 5, 1.0).drop(["price"]), missing="keep")


def test_keys_may_be_unique_in_their_partitions_only(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_partitions(state: TableState) -> Scanned:
        return Scanned(state, is_global=False)

    monkeypatch.setattr(find_index, "RecordLocations", of_partitions)
    table = bf.open(uri)
    table.upsert(pa.concat_tables([given("a", "us", 1, 1.0), given("a", "eu", 1, 2.0)]))
    table.upsert(given("a", "eu", 2, 3.0))
    found = table.scan(["region", "price"]).to_arrow().sort_by("region")
    assert found.to_pydict() == {"region": ["eu", "us"], "price": [3.0, 1.0]}
    assert table.lookup(["a"]).num_rows == 2
    assert table.locate(["a"], partitions=["eu"])["file_id"].null_count == 0
    table.delete(pa.table({"record_key": ["a"], "partition_path": ["us"]}))
    assert table.scan(["region"]).to_arrow()["region"].to_pylist() == ["eu"]


def test_an_overwrite_begins_file_groups(uri: str) -> None:
    table = bf.open(uri)
    table.upsert(rows(range(6), ts=2))
    before = stored(uri)
    table.insert_overwrite(rows([0, 6], ts=1, price=3.0))
    after = stored(uri)
    assert after["key-000006"][2] not in {own[2] for own in before.values()}
    assert after["key-000000"][2] == after["key-000006"][2]
    assert sorted(before.keys() - after.keys()) == ["key-000003"]


def test_an_overwrite_of_a_key_that_stays_in_another_partition_is_refused(uri: str) -> None:
    """Two partitions had the key, and the index one of them."""
    table = bf.open(uri)
    table.upsert(pa.concat_tables([given("k1", "eu", 1, 1.0), given("k2", "us", 1, 1.0)]))
    before, instants = stored(uri), table.timeline.instants
    with pytest.raises(ValueError, match="overwrite of key 'k1', which partition 'eu' has, and"):
        table.insert_overwrite(given("k1", "us", 2, 2.0))
    assert stored(uri) == before
    assert [i.requested_time for i in table.timeline.completed.instants] == [
        i.requested_time for i in instants if i.is_completed
    ]
    swapped = pa.concat_tables([given("k1", "us", 2, 2.0), given("k2", "eu", 2, 2.0)])
    table.insert_overwrite(swapped)
    assert {key: row[:2] for key, row in stored(uri).items()} == {
        "k1": (2.0, "us"),
        "k2": (2.0, "eu"),
    }
    table.insert_overwrite(given("k1", "eu", 3, 3.0), table=True)
    assert {key: row[:2] for key, row in stored(uri).items()} == {"k1": (3.0, "eu")}


def test_a_bulk_insert_takes_new_keys_to_new_file_groups(uri: str) -> None:
    table = bf.open(uri)
    table.bulk_insert(rows(range(6), ts=2))
    before = stored(uri)
    assert sorted(before) == [f"key-{number:06}" for number in range(6)]
    table.bulk_insert(rows(range(6, 12), ts=1))
    after = stored(uri)
    assert {key: after[key] for key in before} == before
    new = [after[key] for key in sorted(after.keys() - before.keys())]
    assert [row[0] for row in new] == [float(number) for number in range(6, 12)]
    assert not {row[2] for row in new} & {row[2] for row in before.values()}
    instants = bf.open(uri).timeline.completed.instants
    with pytest.raises(ValueError, match="'key-000011', which partition 'ap' has already"):
        table.bulk_insert(rows([12, 11], ts=3))
    with pytest.raises(ValueError, match="key 'key-000012' twice, and"):
        table.bulk_insert(pa.concat_tables([given("key-000012", r, 1, 1.0) for r in ("eu", "us")]))
    assert bf.open(uri).timeline.completed.instants == instants
    assert bf.open(uri).check(depth="full").status == "clean"


def test_an_index_that_names_a_file_group_that_is_not_there(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bf.open(uri)
    table.upsert(rows(range(3), ts=1))
    monkeypatch.setattr(
        Scanned, "find", lambda *_: pa.table({"partition_path": ["us"], "file_id": ["gone"]})
    )
    for use in (table.locate, table.lookup, table.delete):
        with pytest.raises(bf.CorruptError, match="names file group gone, which the table"):
            use(["key-000000"])


def test_what_takes_buckets_is_refused(uri: str) -> None:
    table = bf.open(uri)
    table.upsert(rows(range(3), ts=1))
    with pytest.raises(bf.UnsupportedError, match=r"Write in one process \(upsert or insert"):
        table.start_write("upsert", SCHEMA)
    with pytest.raises(bf.IndexUnknownError, match="does not tell a file group from a key"):
        table.locator()


def test_two_writes_of_new_keys_are_in_conflict(uri: str) -> None:
    one, other = bf.open(uri), bf.open(uri)
    one.upsert(rows(range(6), ts=1))
    read_at = one.timeline
    other.upsert(given("same", "us", 1, 1.0))
    with pytest.raises(bf.ConflictError, match="also wrote new keys"):
        one.upsert(given("new", "eu", 2, 2.0), read_at=read_at)
    one.upsert(given("same", "eu", 2, 2.0))
    assert stored(uri)["same"][:2] == (2.0, "us")
    # Updates of other file groups are not.
    read_at = one.timeline
    other.upsert(given("another", "us", 1, 1.0))
    one.upsert(given("key-000001", "eu", 2, 5.0), read_at=read_at)
    assert stored(uri)["key-000001"][0] == 5.0


def test_rows_that_are_spilled(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketfmt.write.rows.grouping._BYTES_IN_MEMORY", 5_000)
    monkeypatch.setattr("bucketfmt.write.rows.placing._ROWS_AT_A_TIME", 50)
    table = bf.open(uri)
    table.upsert(rows(range(500), ts=1))
    table.upsert(rows(range(250, 750), ts=2, price=2.0))
    found = stored(uri)
    assert len(found) == 750
    assert sum(own[0] for own in found.values()) == sum(range(250)) + 2 * sum(range(250, 750))


@pytest.mark.parametrize("work", ["compact", "archive", "rollback"])
def test_services_do_not_remove_the_index_that_rows_are_found_by(
    tmp_path: Path, golden_copy: Callable[[str, str], Path], work: str
) -> None:
    root = golden_copy("1.2.0", "rli")
    dropping = bf.open(root, writer=bf.WriterConfig(metadata_table="drop"))
    with pytest.raises(bf.UnsupportedError, match=r"state no buckets.*record index alone"):
        getattr(dropping, work)()
    assert "record_index" in bf.open(root).config.metadata_partitions
    assert bf.open(root).check().status == "clean"
