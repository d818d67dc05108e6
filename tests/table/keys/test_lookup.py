"""The rows of given keys: those a full scan has, from the files that may hold them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.snapshot.snapshot import Snapshot
from tests.golden import GOLDEN
from tests.index.test_assign import NO_BUCKETS, index_of
from tests.table.reading.test_golden_read import UNSUPPORTED
from tests.table.tables import open_recorded, opened_files, state_buckets

Golden = Callable[[str, str], Path]

NOT_MERGED = {(v, n) for v, n in GOLDEN if n in UNSUPPORTED or f"{n}@{v}" in UNSUPPORTED}


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def full_rows(table: bf.Table, *keys: str) -> list[str]:
    """The rows that a full scan has of these ids."""
    rows = table.scan().to_arrow()
    return rows_of(rows.filter(pc.is_in(rows["id"], pa.array(keys))))


def every_key(table: bf.Table) -> tuple[pa.Table, list[str]]:
    """The full scan with its record keys, and keys it has and has not, among them deleted ones."""
    if table.config.populate_meta_fields:
        rows = table.scan(["_hoodie_record_key", *table.schema.names]).to_arrow()
        written = [
            key
            for commit in table.timeline.writes.completed.instants[::2]
            for key in keys_as_of(table, commit.requested_time)
        ]
        present = rows["_hoodie_record_key"].to_pylist()
        return rows, sorted({*present, *written, "nowhere", "", "ß"})
    from bucketfmt.rows.columns.virtual_keys import record_keys

    rows = table.scan().to_arrow()
    keys = record_keys(rows, table.config)
    return rows.add_column(0, "_hoodie_record_key", keys), [*keys.to_pylist(), "nowhere"]


def keys_as_of(table: bf.Table, instant: str) -> list[str]:
    try:
        return table.scan(["_hoodie_record_key"], as_of=instant).to_arrow()[0].to_pylist()
    except bf.CorruptError:  # cleaned
        return []


@pytest.mark.rotated(1, one_of=6)
@pytest.mark.parametrize(
    ("version", "name"), [table for table in GOLDEN if table not in NOT_MERGED]
)
def test_a_lookup_is_the_full_scan_filtered_by_key(golden: Golden, version: str, name: str) -> None:
    index = None if name in NO_BUCKETS else index_of(name)
    table = bf.open(golden(version, name), index=index)
    rows, keys = every_key(table)
    assert rows_of(table.lookup(keys)) == rows_of(rows.select(table.schema.names))
    random = np.random.default_rng(7)
    for size in (1, 2, 10):
        some = random.choice(keys, min(size, len(keys)), replace=False).tolist()
        found = rows.filter(pc.is_in(rows["_hoodie_record_key"], pa.array(some, pa.string())))
        assert rows_of(table.lookup(some)) == rows_of(found.select(table.schema.names))


@pytest.mark.parametrize(("version", "name"), sorted(NOT_MERGED))
def test_where_merging_is_not_built_a_lookup_says_so(
    golden: Golden, version: str, name: str
) -> None:
    with pytest.raises(bf.UnsupportedError):
        bf.open(golden(version, name)).lookup([f"key-{i:03d}" for i in range(50)])


class TestRows:
    @pytest.fixture
    def table(self, golden: Golden) -> bf.Table:
        return bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4))

    def test_of_present_deleted_and_unknown_keys(self, table: bf.Table) -> None:
        rows = table.lookup(["key-000125", "key-000007", "key-000310", "nowhere"])
        assert rows.schema == table.schema
        assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == [
            {
                "id": "key-000125",
                "name": "n125u",
                "price": 187.5,
                "qty": 6,
                "ts": 2,
                "region": "ap",
            },
            {
                "id": "key-000310",
                "name": "n310",
                "price": 465.0,
                "qty": 2,
                "ts": 2,
                "region": "eu",
            },
        ]

    def test_of_no_key_at_all(self, table: bf.Table) -> None:
        for none in ([], ["nowhere"], ["key-000007"]):
            assert table.lookup(none) == table.schema.empty_table()

    def test_a_key_given_twice_is_returned_once(self, table: bf.Table) -> None:
        rows = table.lookup(["key-000125"] * 3)
        assert rows_of(rows) == full_rows(table, "key-000125")
        assert rows.num_rows == 1

    def test_only_in_the_partition_the_key_comes_with(self, table: bf.Table) -> None:
        here = pa.table({"id": ["key-000125"], "region": ["ap"]})
        elsewhere = pa.table({"id": ["key-000125"], "region": ["eu"]})
        assert rows_of(table.lookup(here)) == full_rows(table, "key-000125")
        assert table.lookup(elsewhere) == table.schema.empty_table()

    def test_columns(self, table: bf.Table) -> None:
        rows = table.lookup(["key-000125"], columns=["qty", "_hoodie_record_key"])
        assert rows.to_pylist() == [{"qty": 6, "_hoodie_record_key": "key-000125"}]
        with pytest.raises(bf.SchemaError, match="'nope'"):
            table.lookup(["key-000125"], columns=["nope"])


def test_a_key_in_several_partitions(golden_copy: Golden) -> None:
    """A record key is unique in its partition only."""
    root = golden_copy("1.2.0", "cow")
    key = "key-000125"
    (home,) = bf.open(root).lookup([key], columns=["_hoodie_file_name"])[0].to_pylist()
    shutil.copy(root / "ap" / home, root / "us" / home)
    rows = bf.open(root).lookup([key])
    assert rows["id"].to_pylist() == [key, key]
    assert rows.slice(0, 1) == rows.slice(1), "the file was copied"
    assert rows_of(bf.open(root).scan(filter=[("id", "=", key)]).to_arrow()) == rows_of(rows)


class TestWhatItOpens:
    @pytest.mark.parametrize(
        ("version", "name"), [("0.15.0", "mor"), ("1.2.0", "cow"), ("1.2.0", "ch_split")]
    )
    def test_only_files_of_the_keys_buckets(
        self, golden_copy: Golden, version: str, name: str
    ) -> None:
        table, store = open_recorded(state_buckets(golden_copy(version, name), 4))
        keys = ["key-000125", "key-000126"]
        located = table.locate(keys)
        store.operations.clear()
        found = table.lookup(keys)
        opened = opened_files(store)
        assert store.writes == []
        bases = {*located["base_file"].to_pylist()}
        logs = {path for paths in located["log_files"].to_pylist() for path in paths}
        assert set(opened) <= bases | logs
        assert len(store.paths("open_arrow")) <= len(bases)
        assert rows_of(found) == full_rows(table, *keys)
        assert found.num_rows == 2

    def test_one_file_group_of_a_partition_that_comes_with_the_key(
        self, golden_copy: Golden
    ) -> None:
        table, store = open_recorded(state_buckets(golden_copy("1.2.0", "cow"), 4))
        row = pa.table({"id": ["key-000125"], "region": ["ap"]})
        (located,) = table.locate(row).to_pylist()
        store.operations.clear()
        found = table.lookup(row)
        assert opened_files(store) == [located["base_file"]]
        assert rows_of(found) == full_rows(table, "key-000125")

    def test_an_index_that_the_caller_gives_is_held_against_some_keys_once(
        self, golden: Golden
    ) -> None:
        table, store = open_recorded(golden("1.2.0", "cow"), bf.SimpleBucketIndex(4))
        row = pa.table({"id": ["key-000125"], "region": ["ap"]})
        found = table.lookup(row)
        assert len(opened_files(store)) == 5
        store.operations.clear()
        assert table.lookup(row) == found
        assert len(opened_files(store)) == 1
        assert rows_of(found) == full_rows(table, "key-000125")

    @pytest.mark.parametrize("num_buckets", [5, 8, 16, 256])
    def test_an_index_that_puts_keys_elsewhere_is_refused(
        self, golden: Golden, num_buckets: int
    ) -> None:
        """Else a lookup would miss rows, and so would a scan that is filtered by key."""
        for name in ("cow", "mor"):
            table = bf.open(golden("1.2.0", name), index=bf.SimpleBucketIndex(num_buckets))
            for read in (
                lambda: table.lookup(["key-000125"]),  # noqa: B023
                lambda: table.scan(filter=[("id", "=", "key-000125")]).count(),  # noqa: B023
            ):
                with pytest.raises(
                    ValueError, match=r"contradicts the table: it puts key key-\d+ "
                ):
                    read()

    def test_no_rows_of_a_base_file_whose_bloom_filter_excludes_the_keys(
        self, golden_copy: Golden, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read = self.count_reads(monkeypatch)
        table = bf.open(state_buckets(golden_copy("1.2.0", "cow"), 4))
        only_keys = ["_hoodie_record_key"]
        assert table.lookup(["key-000125x"]) == table.schema.empty_table()
        assert read, "within the range of keys, and in no bloom filter; which is made sure of"
        assert all(columns == only_keys for columns in read)
        found = table.lookup(["key-000125"])
        rows_read = [columns for columns in read if columns != only_keys]
        assert len(rows_read) == 1, "the bucket of each partition was asked, one was read"
        assert rows_of(found) == full_rows(table, "key-000125")

    def test_no_rows_of_a_base_file_whose_key_range_excludes_the_keys(
        self, golden_copy: Golden, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read = self.count_reads(monkeypatch)
        root = state_buckets(golden_copy("1.2.0", "timetravel"), 2)
        for path in root.glob("*/*.parquet"):
            with pa.OSFile(str(path)) as source:
                keys = BaseFileReader(source).keys
                assert keys.bloom_filter is None, "this table has no bloom filters"
        for key in ("key-9", "a", "zebra"):
            assert bf.open(root).lookup([key])["id"].to_pylist() == []
        assert read == []

    def test_without_an_index_all_groups_of_the_partition_are_asked(self, golden: Golden) -> None:
        table, store = open_recorded(golden("1.2.0", "bloom"))
        row = pa.table({"id": ["key-000125"], "region": ["ap"]})
        found = table.lookup(row)
        assert {path.split("/")[0] for path in store.paths("open_arrow")} == {"ap"}
        assert rows_of(found) == full_rows(table, "key-000125")
        assert found.num_rows == 1

    @staticmethod
    def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
        """Make base files note which columns are read."""
        read: list[object] = []
        for name in ("read", "iter_batches"):
            original = getattr(BaseFileReader, name)

            def noting(self: BaseFileReader, *arguments: Any, _original: Any = original) -> Any:
                read.append(arguments[0])
                return _original(self, *arguments)

            monkeypatch.setattr(BaseFileReader, name, noting)
        return read


def test_reading_anything_writes_nothing(golden: Golden) -> None:
    """Not even the commit marker Hudi's reader leaves beside hashing metadata."""
    for name in ("ch_split", "ch_pending", "mor", "uncommitted_mor", "pending_compaction"):
        table, store = open_recorded(golden("1.2.0", name))
        table.scan().to_arrow()
        table.scan(as_of=table.timeline.instants[0].requested_time).count()
        table.changes(None).count()
        table.locate(["key-000125"])
        table.lookup(["key-000125"])
        for look in ("commits", "files", "file_groups", "buckets", "partitions"):
            getattr(table.inspect, look)()
        table.inspect.hashing_metadata()
        table.inspect.commits(archived=True)
        assert store.writes == []
        assert Snapshot(table.state).partitions
