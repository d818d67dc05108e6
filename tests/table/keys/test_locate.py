"""Where keys live: by hashing alone, for every index engine."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.golden import GOLDEN
from tests.index.test_assign import NO_BUCKETS, index_of
from tests.table.tables import open_recorded, opened_files, state_buckets, state_index

pytestmark = pytest.mark.rotated

Golden = Callable[[str, str], Path]


def places(located: pa.Table) -> list[tuple[str, int]]:
    """The partitions and buckets of located keys."""
    return sorted((row["partition_path"], row["bucket_id"]) for row in located.to_pylist())


COLUMNS = ["record_key", "partition_path", "bucket_id", "file_id", "base_file", "log_files"]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (v, n)
        for v, n in GOLDEN
        if n in ("cow", "mor", "complexkey", "nonpart", "intkey", "partlevel", "partrules", "nbcc")
        or n.startswith("ch_")
    ],
)
def test_locating_by_a_stated_index_opens_no_data_file_and_writes_nothing(
    golden_copy: Golden, version: str, name: str
) -> None:
    table, store = open_recorded(state_index(golden_copy(version, name), index_of(name)))
    rows = table.locate(["key-000000", "a", "nowhere"])
    assert rows.column_names == COLUMNS
    assert opened_files(store) == []
    assert store.writes == []
    # Only listings of what the table knows by name: the timeline, partitions, index files.
    assert {o.verb for o in store.operations} <= {"list", "read"}
    assert all(path.startswith(".hoodie/") for path in store.paths("read"))

    store.operations.clear()
    again = table.locate(["key-000000", "a", "nowhere"])
    assert again == rows
    listed = store.paths("list")
    assert listed[0] == table.config.timeline_path
    if not name.startswith("ch_"):
        assert store.operations == [("list", listed[0])], "the rest is kept"


@pytest.mark.parametrize("name", ["cow", "mor", "complexkey", "nbcc"])
def test_a_given_index_is_proved_once_for_each_partition(golden: Golden, name: str) -> None:
    table, store = open_recorded(golden("1.2.0", name), index_of(name))
    paths = table.inspect.partitions()["partition_path"].to_pylist()
    rows = [table.locate(["key-000000"], partitions=[path]) for path in paths]
    opened = opened_files(store)
    assert {file.split("/")[0] for file in opened} == set(paths)
    assert len(opened) <= 9 * len(paths)
    assert store.writes == []

    store.operations.clear()
    assert [table.locate(["key-000000"], partitions=[path]) for path in paths] == rows
    assert store.operations == [("list", table.config.timeline_path)] * len(paths)


def test_where_a_key_lives(golden: Golden) -> None:
    root = golden("1.2.0", "mor")
    table = bf.open(root, index=bf.SimpleBucketIndex(4))
    located = table.locate(["key-000125", "key-000126"], partitions=["us", "eu"]).to_pylist()
    assert [(row["record_key"], row["partition_path"]) for row in located] == [
        ("key-000125", "us"),
        ("key-000126", "us"),
        ("key-000125", "eu"),
        ("key-000126", "eu"),
    ]
    for row in located:
        assert row["file_id"].startswith(f"{row['bucket_id']:08d}-")
        assert row["base_file"].startswith(f"{row['partition_path']}/{row['file_id']}_")
        assert (root / row["base_file"]).is_file()
        own = root / row["partition_path"]
        logs = [
            path.relative_to(root).as_posix() for path in own.glob(f".{row['file_id']}_*.log.*")
        ]
        assert row["log_files"] == sorted(logs)
        assert len(logs) == 3
        assert row["log_files"] == sorted(row["log_files"])
        assert all((root / path).is_file() for path in row["log_files"])


def test_a_bucket_without_a_file_group(golden: Golden) -> None:
    located = bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4)).locate(
        ["key-000125"], partitions=["elsewhere"]
    )
    (row,) = located.to_pylist()
    assert row == {
        "record_key": "key-000125",
        "partition_path": "elsewhere",
        "bucket_id": 1,
        "file_id": None,
        "base_file": None,
        "log_files": None,
    }


def test_a_group_of_log_files_only(golden: Golden) -> None:
    located = bf.open(golden("1.2.0", "nbcc"), index=bf.SimpleBucketIndex(2)).locate(
        ["key-000030"], partitions=["us"]
    )
    (row,) = located.to_pylist()
    assert row["base_file"] is None
    assert row["file_id"] == f"{row['bucket_id']:08d}-0000-0000-0000-000000000000-0"
    logs = [path for path in row["log_files"] if f"us/.{row['file_id']}_" in path]
    assert row["log_files"] == logs
    assert len(logs) == 4


def test_a_ring_names_nodes(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "ch_split"))
    located = table.locate(["key-000000", "key-000001"], partitions=["us"])
    nodes = {
        node["value"]: node["file_id_prefix"]
        for node in table.inspect.hashing_metadata().to_pylist()
        if node["partition_path"] == "us"
    }
    assert len(nodes) == 16
    for row in located.to_pylist():
        assert row["file_id"] == f"{nodes[row['bucket_id']]}-0"


def test_a_partition_before_its_first_write_has_hudis_first_ring(golden: Golden) -> None:
    located = bf.open(golden("1.2.0", "ch_init"), index=bf.ConsistentHashingIndex(4)).locate(
        ["key-000000"], partitions=["new"]
    )
    (row,) = located.to_pylist()
    assert row["file_id"] is None
    assert row["bucket_id"] in (536870912, 1073741824, 1610612736, 2147483647)


def test_rows_come_back_in_the_order_of_the_keys(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4))
    rows = pa.table({"id": ["b", "a", "c", "a"], "region": ["us", "eu", "us", "ap"]})
    located = table.locate(rows)
    assert located["record_key"].to_pylist() == ["b", "a", "c", "a"]
    assert located["partition_path"].to_pylist() == ["us", "eu", "us", "ap"]


def test_no_keys_are_no_rows(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4))
    for none in (
        [],
        pa.table({"id": pa.array([], pa.string()), "region": pa.array([], pa.string())}),
    ):
        located = table.locate(none)
        assert located.column_names == COLUMNS
        assert located.num_rows == 0
    assert table.locate(["a"], partitions=[]).num_rows == 0


def test_keys_that_tell_their_partition_take_no_other(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4))
    rows = pa.table({"id": ["a"], "region": ["us"]})
    with pytest.raises(ValueError, match="leave partitions= out"):
        table.locate(rows, partitions=["us"])


def test_a_partition_path_may_not_leave_the_table(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4))
    for path in ("../cow/us", "/etc", "us/../../x"):
        with pytest.raises(bf.UnsafePathError):
            table.locate(["a"], partitions=[path])


class TestUnknownIndex:
    @pytest.mark.parametrize("name", sorted(NO_BUCKETS - {"rli"}))
    def test_reads_go_on_and_locate_says_what_to_do(self, golden: Golden, name: str) -> None:
        table = bf.open(golden("1.2.0", name))
        assert table.index is None
        assert table.resolved_index.source == "unknown"
        with pytest.raises(bf.IndexUnknownError, match=r"hold no bucket ids; lookup"):
            table.locate(["key-000001"])
        assert table.scan().count() > 0
        key = table.scan(["_hoodie_record_key"]).to_arrow()[0][0].as_py()
        assert table.lookup([key], ["_hoodie_record_key"])[0].to_pylist() == [key]

    def test_too_few_keys(self, golden: Golden) -> None:
        table = bf.open(golden("1.2.0", "nonpart"))
        with pytest.raises(bf.IndexUnknownError, match=r"15 keys of 4 file groups.*do not prove"):
            table.locate(["a"])

    def test_hash_fields_that_fit_alike(self, golden: Golden) -> None:
        table = bf.open(golden("1.2.0", "complexkey"))
        with pytest.raises(bf.IndexUnknownError, match="do not prove a single number"):
            table.locate(["id:key-000001,name:n1"])

    def test_an_index_without_buckets(self, golden: Golden) -> None:
        for index, why in (
            (bf.BloomIndex(), r"lookup\(\) finds the rows"),
            (bf.RecordIndex(), r"has no record index: .*lookup\(\) finds the rows"),
        ):
            table = bf.open(golden("1.2.0", "bloom"), index=index)
            assert table.index == index
            with pytest.raises(bf.IndexUnknownError, match=why):
                table.locate(["key-000001"])
            assert table.lookup(["key-000001"])["id"].to_pylist() == ["key-000001"]


def test_a_file_group_in_no_bucket_of_the_stated_index(golden_copy: Golden) -> None:
    """Reads go on and look into it; where hashing alone is asked, it is an error."""
    root = golden_copy("1.2.0", "bloom")
    table = bf.open(state_buckets(root, 4))
    assert table.resolved_index.source == "properties"
    with pytest.raises(bf.IndexUnknownError, match="is in no bucket of the index") as caught:
        table.locate(["key-000001"], partitions=["us"])
    assert caught.value.partition == "us"
    assert table.lookup(["key-000001"])["id"].to_pylist() == ["key-000001"]
    filtered = table.scan(filter=[("id", "=", "key-000001")]).to_arrow()
    assert filtered == table.lookup(["key-000001"])


class TestInference:
    def test_it_samples_a_few_files_once(self, golden: Golden) -> None:
        table, store = open_recorded(golden("1.2.0", "mor"))
        assert table.index == bf.SimpleBucketIndex(4)
        assert 0 < len(opened_files(store)) <= 9
        store.operations.clear()
        assert places(table.locate(["key-000125"])) == [("ap", 1), ("eu", 1), ("us", 1)]
        assert len(opened_files(store)) == 12, "each partition is held against its own keys"
        store.operations.clear()
        assert places(table.locate(["key-000125"])) == [("ap", 1), ("eu", 1), ("us", 1)]
        assert opened_files(store) == []

    def test_it_reads_logs_where_there_are_no_base_files(self, golden: Golden) -> None:
        table, store = open_recorded(golden("1.2.0", "nbcc"))
        assert table.index == bf.SimpleBucketIndex(2)
        assert table.resolved_index.source == "file ids and keys"
        assert "2 buckets by id" in table.resolved_index.evidence
        assert len(opened_files(store)) == 6, "one log file of each file group"

    def test_it_makes_virtual_keys(self, golden: Golden) -> None:
        assert bf.open(golden("1.2.0", "virtual_complex")).index == bf.SimpleBucketIndex(2)

    def test_it_passes_over_a_damaged_file(self, golden_copy: Golden) -> None:
        root = golden_copy("1.2.0", "mor")
        first = bf.open(root).inspect.files().to_pylist()[0]["path"]
        (root / first).unlink()
        assert bf.open(root).index == bf.SimpleBucketIndex(4)
        for path in root.glob("*/*.parquet"):
            path.write_bytes(b"PAR1")
        table = bf.open(root)
        assert table.index is None
        assert "0 keys of 0 file groups" in table.resolved_index.evidence
        assert "restore" in table.resolved_index.evidence

    def test_it_is_made_anew_when_the_table_moves_on(self, golden_copy: Golden) -> None:
        """Written over with another number of buckets, as insert_overwrite_table may do."""
        root, other = golden_copy("1.2.0", "cow"), golden_copy("1.2.0", "cow_commit")
        table = bf.open(root)
        assert table.index == bf.SimpleBucketIndex(4)
        shutil.rmtree(root)
        shutil.copytree(other, root)
        assert table.index == bf.SimpleBucketIndex(2)


class TestContradictions:
    def test_more_buckets_in_the_table_than_the_caller_says(self, golden: Golden) -> None:
        table = bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(2))
        message = r"contradicts the table: file group 0000000[23]-\S+ is in no bucket"
        for use in (
            lambda: table.locate(["key-000001"]),
            lambda: table.lookup(["key-000001"]),
            lambda: table.scan(filter=[("id", "=", "key-000001")]).plan(),
            lambda: table.inspect.buckets().num_rows,
        ):
            with pytest.raises(ValueError, match=message):
                use()
        whole = bf.open(golden("1.2.0", "mor")).scan().to_arrow().sort_by("id")
        assert table.scan().to_arrow().sort_by("id") == whole, "what no index is needed for goes on"

    def test_buckets_where_the_table_has_none(self, golden: Golden) -> None:
        table = bf.open(golden("1.2.0", "bloom"), index=bf.SimpleBucketIndex(4))
        with pytest.raises(ValueError, match="pass the index the table was written with, or none"):
            table.lookup(["key-000001"])

    def test_another_engine_than_the_index_files_show(self, golden: Golden) -> None:
        for name in ("ch_init", "partrules"):
            table = bf.open(golden("1.2.0", name), index=bf.SimpleBucketIndex(4))
            with pytest.raises(ValueError, match="contradicts the table, which has"):
                table.locate(["key-000001"])

    def test_hash_fields_that_are_no_key_fields(self, golden: Golden) -> None:
        with pytest.raises(ValueError, match="'name' is not among"):
            bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4, ("name",)))


class TestTwoFileGroupsInOneBucket:
    """As two writers without a lock leave it, or a second bulk insert."""

    @pytest.fixture
    def table(self, golden_copy: Golden) -> bf.Table:
        root = golden_copy("1.2.0", "cow")
        table = bf.open(root, index=bf.SimpleBucketIndex(4))
        row = table.locate(["key-000125"], partitions=["ap"]).to_pylist()[0]
        assert row["bucket_id"] == 1
        twin = row["base_file"].replace(
            row["file_id"], row["file_id"][:9] + "aaaa" + row["file_id"][13:]
        )
        shutil.copy(root / row["base_file"], root / twin)
        return bf.open(root, index=bf.SimpleBucketIndex(4))

    def test_a_scan_returns_the_rows_of_both(self, table: bf.Table) -> None:
        ids = Counter(table.scan().to_arrow()["id"].to_pylist())
        twice = {key for key, count in ids.items() if count == 2}
        assert (len(ids), len(twice), set(ids.values())) == (310, 25, {1, 2})
        filtered = table.scan(filter=[("id", "=", "key-000125")]).to_arrow()
        assert filtered["id"].to_pylist() == ["key-000125"] * 2

    def test_so_does_a_lookup(self, table: bf.Table) -> None:
        rows = table.lookup(["key-000125"], columns=["id", "_hoodie_record_key"])
        assert rows["id"].to_pylist() == ["key-000125"] * 2

    def test_locating_a_key_of_that_bucket_is_an_error_that_names_it(self, table: bf.Table) -> None:
        with pytest.raises(bf.CorruptError, match="two file groups in one bucket") as caught:
            table.locate(["key-000125"])
        assert (caught.value.partition, caught.value.bucket) == ("ap", 1)
        assert "partition 'ap', bucket 1" in str(caught.value)
        assert "run check()" in str(caught.value)

    def test_other_buckets_and_partitions_are_located(self, table: bf.Table) -> None:
        elsewhere = table.locate(["key-000125"], partitions=["us", "eu"])
        assert places(elsewhere) == [("eu", 1), ("us", 1)]
        assert places(table.locate(["key-000126"])) == [("ap", 2), ("eu", 2), ("us", 2)]

    def test_inspection_shows_both(self, table: bf.Table) -> None:
        buckets = [
            row for row in table.inspect.buckets().to_pylist() if row["partition_path"] == "ap"
        ]
        assert [row["bucket_id"] for row in buckets] == [0, 1, 1, 2, 3]


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_a_bulk_insert_of_hudis_that_made_several_groups_a_bucket(
    golden: Golden, version: str
) -> None:
    table = bf.open(golden(version, "virtual_bulk"), index=bf.SimpleBucketIndex(2))
    with pytest.raises(bf.CorruptError, match="two file groups in one bucket"):
        table.locate(["key-000001", "key-000002", "key-000003"])
    assert len(set(table.scan().to_arrow()["id"].to_pylist())) == 60
    rows = pa.table({"id": ["key-000001"], "region": ["eu"]})
    assert table.lookup(rows)["id"].to_pylist() == ["key-000001"]
