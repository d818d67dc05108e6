"""A write records the index of a table that does not record it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.buckets.hashing_metadata import (
    encode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.table.properties import check_table_checksum, decode_properties
from bucketfmt.testing.crashes import (
    CRASHES,
    FAILURES,
    Aftermath,
    Ending,
    Looks,
    SimulatedProcess,
    strike_everywhere,
)
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.write.commit.transaction import Transaction
from tests.table.tables import forget_index, open_recorded, opened_files, state_buckets

SCHEMA = pa.schema({"id": pa.string(), "p": pa.string(), "v": pa.int64()})


def rows(*keys: tuple[str, str], v: int = 0) -> pa.Table:
    ids, paths = zip(*keys, strict=True)
    return pa.table([ids, paths, [v] * len(keys)], schema=SCHEMA)


def log_only_table(root: Path) -> Path:
    """58 keys in twelve file groups without a base file, as Flink writes them."""
    writer = bf.WriterConfig(concurrency="non_blocking")
    table = bf.create(
        root,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=bf.SimpleBucketIndex(4),
        table_type="MERGE_ON_READ",
        writer=writer,
    )
    table.upsert(rows(*[(f"key-{i:04d}", "abc"[i % 3]) for i in range(58)]))
    forget_index(root)
    groups = bf.open(root).inspect.file_groups()
    assert groups["base_file"].null_count == groups.num_rows == 12
    return root


def test_a_base_file_with_one_key_hides_no_keys_in_log_files(tmp_path: Path) -> None:
    root = log_only_table(tmp_path / "t")
    assert bf.open(root).index == bf.SimpleBucketIndex(4)
    bf.open(root, writer=bf.WriterConfig(pin_index=False)).upsert(rows(("new", "d")))
    groups = bf.open(root).inspect.file_groups()
    assert groups.num_rows - groups["base_file"].null_count == 1

    table = bf.open(root)
    assert table.index == bf.SimpleBucketIndex(4)
    assert table.locate(["key-0000"], partitions=["a"])["base_file"].to_pylist() == [None]
    table.upsert(rows(("key-0000", "a"), v=7))
    table.delete(rows(("key-0001", "b")).select(["id", "p"]))
    found = dict(zip(*bf.open(root).scan(["id", "v"]).to_arrow().to_pydict().values(), strict=True))
    assert len(found) == 58
    assert found["key-0000"] == 7
    assert "key-0001" not in found


def plain_table(root: Path, index: bf.Index, num_keys: int = 60) -> Path:
    """A table of three partitions that does not record its index."""
    is_ring = isinstance(index, bf.ConsistentHashingIndex)
    table = bf.create(
        root,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=index,
        table_type="MERGE_ON_READ" if is_ring else "COPY_ON_WRITE",
    )
    if num_keys:
        table.upsert(rows(*[(f"key-{i:04d}", "abc"[i % 3]) for i in range(num_keys)]))
    return forget_index(root)


def properties_of(root: Path) -> dict[str, str]:
    found = decode_properties((root / ".hoodie" / "hoodie.properties").read_bytes())
    check_table_checksum(found)
    assert found["hoodie.table.checksum"]
    assert not (root / ".hoodie" / "hoodie.properties.backup").exists()
    return found


def index_properties(root: Path) -> dict[str, str]:
    keys = ("hoodie.index.", "hoodie.bucket.index.")
    return {key: text for key, text in properties_of(root).items() if key.startswith(keys)}


SIMPLE_4 = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.bucket.index.num.buckets": "4",
}


class TestWrites:
    @pytest.mark.parametrize("given", [None, bf.SimpleBucketIndex(4)], ids=["inferred", "given"])
    @pytest.mark.parametrize("write", ["upsert", "insert", "delete", "start_write"])
    def test_a_write_records_what_create_would_have(
        self, tmp_path: Path, write: str, given: bf.Index | None
    ) -> None:
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
        before = properties_of(root)
        assert index_properties(root) == {}
        table = bf.open(root, index=given)
        if write == "delete":
            table.delete(rows(("key-0000", "a")).select(["id", "p"]))
        elif write == "start_write":
            with table.start_write("upsert", SCHEMA) as started:
                receipts = list(started.task.write(rows(("new", "d")), "0-0-0"))
                started.publish(receipts)
        else:
            getattr(table, write)(rows(("new", "d")))
        assert properties_of(root) == {**before, **SIMPLE_4}
        # The table goes on with what is recorded, and so does whoever opens it.
        assert table.resolved_index.is_recorded
        recorded = bf.open(root).resolved_index
        assert (recorded.index, recorded.source) == (
            bf.SimpleBucketIndex(4, ("id",)),
            "properties",
        )
        again, store = open_recorded(root)
        again.locate(["key-0003"])
        assert opened_files(store) == []

    def test_a_table_that_records_its_index_is_left_alone(self, tmp_path: Path) -> None:
        root = state_buckets(plain_table(tmp_path / "t", bf.SimpleBucketIndex(4)), 4)
        before = (root / ".hoodie" / "hoodie.properties").read_bytes()
        table, store = open_recorded(root)
        table.upsert(rows(("new", "d")))
        assert (root / ".hoodie" / "hoodie.properties").read_bytes() == before
        assert not any("hoodie.properties" in path for path in store.writes)

    def test_not_where_the_writer_does_not_want_it(self, tmp_path: Path) -> None:
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
        bf.open(root, writer=bf.WriterConfig(pin_index=False)).upsert(rows(("new", "d")))
        assert index_properties(root) == {}

    def test_not_where_a_partition_contradicts(self, tmp_path: Path) -> None:
        """The partition that is written proves the index; another was written by another."""
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
        other = [(f"key-{i:04d}", "d") for i in range(40)]
        bf.open(state_buckets(root, 6)).upsert(rows(*other))
        forget_index(root)
        table = bf.open(root, index=bf.SimpleBucketIndex(4))
        table.upsert(rows(("key-0000", "a"), v=1))
        assert index_properties(root) == {}
        with pytest.raises(ValueError, match=r"contradicts the table: .*partition 'd'"):
            table.pin_index()
        with pytest.raises(bf.IndexUnknownError, match="cannot be recorded"):
            bf.open(root).pin_index()
        assert index_properties(root) == {}

    def test_the_first_write_records_the_index_given(self, tmp_path: Path) -> None:
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4), num_keys=0)
        bf.open(root, index=bf.SimpleBucketIndex(4)).upsert(rows(("new", "d")))
        assert index_properties(root) == SIMPLE_4

    def test_settings_that_contradict_one_another_give_way(self, tmp_path: Path) -> None:
        root = state_buckets(plain_table(tmp_path / "t", bf.SimpleBucketIndex(4)), 8)
        path = root / ".hoodie" / "hoodie.properties"
        path.write_text(path.read_text() + "hoodie.hash.index.bucket.num=16\n")
        bf.open(root, index=bf.SimpleBucketIndex(4)).upsert(rows(("new", "d")))
        assert index_properties(root) == SIMPLE_4
        assert "hoodie.hash.index.bucket.num" not in properties_of(root)


class TestRings:
    def test_a_new_partition_gets_as_many_buckets_as_its_siblings_began_with(
        self, tmp_path: Path
    ) -> None:
        root = plain_table(tmp_path / "t", bf.ConsistentHashingIndex(4))
        assert bf.open(root).index == bf.ConsistentHashingIndex(4)
        bf.open(root).upsert(rows(("new", "d")))
        nodes = bf.open(root).inspect.hashing_metadata().to_pylist()
        assert [node["initial_buckets"] for node in nodes if node["partition_path"] == "d"] == [
            4
        ] * 4
        assert index_properties(root) == {
            **SIMPLE_4,
            "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        }

    def test_most_siblings_decide_and_a_damaged_one_does_not_count(self, tmp_path: Path) -> None:
        root = plain_table(tmp_path / "t", bf.ConsistentHashingIndex(4))
        ring = ".hoodie/.bucket_index/consistent_hashing_metadata/a/00000000000000.hashing_meta"
        (root / ring).write_bytes(b"{")
        assert bf.open(root).index == bf.ConsistentHashingIndex(4)


class TestPinIndex:
    def test_alone(self, tmp_path: Path) -> None:
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
        table = bf.open(root)
        assert table.pin_index()
        assert index_properties(root) == SIMPLE_4
        assert len(table.timeline.writes.completed.instants) == 1, "no commit"
        assert not table.pin_index()
        assert not bf.open(root).pin_index()

    def test_not_what_is_not_proved(self, tmp_path: Path) -> None:
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4), num_keys=3)
        with pytest.raises(bf.IndexUnknownError, match="3 keys of 3 file groups"):
            bf.open(root).pin_index()
        with pytest.raises(bf.UnsupportedError, match="only a bucket index"):
            bf.open(root, index=bf.BloomIndex()).pin_index()
        assert index_properties(root) == {}

    def test_an_open_table_learns_of_it_when_it_writes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4), num_keys=0)
        stale = bf.open(root, index=bf.SimpleBucketIndex(8))
        assert stale.pin_index() is True
        other = bf.open(root, index=None)
        wrong = bf.open(root, index=bf.SimpleBucketIndex(8))
        assert other.index == bf.SimpleBucketIndex(8, ("id",))
        some = rows(*[(f"key-{i:04d}", "d") for i in range(20)])
        begin = other._transactions.begin

        def begin_late(action: str) -> Transaction:
            forget_index(root)
            bf.open(root, index=bf.SimpleBucketIndex(4)).pin_index()
            return begin(action)

        with monkeypatch.context() as patch:
            patch.setattr(other._transactions, "begin", begin_late)
            with pytest.raises(bf.ConflictError, match="write again"):
                other.upsert(some, retries=0)
        for table in (stale, wrong):  # these still believe in 8
            with pytest.raises(ValueError, match="contradicts the table, which has"):
                table.upsert(rows(("new", "d")))
        other.upsert(some)
        assert other.index == bf.SimpleBucketIndex(4, ("id",))
        assert bf.open(root).check(depth="full").findings == ()

    def test_two_at_once(self, tmp_path: Path) -> None:
        root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
        tables, pinned = [bf.open(root) for _ in range(4)], []
        threads = [
            threading.Thread(target=lambda t=t: pinned.append(t.pin_index())) for t in tables
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(pinned) == 4
        assert index_properties(root) == SIMPLE_4


def in_memory(root: Path) -> MemoryStore:
    store = MemoryStore()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            store.put_if_absent(str(path.relative_to(root)), path.read_bytes())
    return store


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("faults", [CRASHES, FAILURES], ids=["crashes", "failures"])
def test_whatever_befalls_it_the_table_reads_and_can_be_written(
    tmp_path: Path, faults: tuple[object, ...]
) -> None:
    files = in_memory(plain_table(tmp_path / "t", bf.SimpleBucketIndex(4), num_keys=30))
    endings = set()

    def look(aftermath: Aftermath) -> None:
        endings.add(aftermath.ending)
        aftermath = replace(aftermath, store=aftermath.store.copy())
        table = SimulatedProcess(aftermath.store, 2).open()
        assert table.scan().count() == 30, aftermath
        assert table.index is not None, aftermath
        table.upsert(rows(("key-0000", "a"), v=1))
        after = SimulatedProcess(aftermath.store, 3).open()
        assert after.resolved_index.is_recorded, aftermath
        assert after.config.properties.items() >= SIMPLE_4.items(), aftermath
        assert after.scan().count() == 30, aftermath

    looks = Looks(look)
    for aftermath in strike_everywhere(files, lambda table: table.pin_index(), faults):  # type: ignore[arg-type]
        looks(aftermath)
    assert looks.points > looks.states
    assert Ending.DONE in endings or Ending.UNKNOWN in endings


def test_a_ring_that_another_writer_makes_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    """Else rows would go to file groups by one ring, and be looked for by another."""
    root = plain_table(tmp_path / "t", bf.ConsistentHashingIndex(4))
    started = bf.open(root).start_write("upsert", SCHEMA)
    ring = root / ".hoodie/.bucket_index/consistent_hashing_metadata"
    task = started.task
    task._basis.locator.routing("d")  # rows are routed
    (ring / "d").mkdir()
    metadata = encode_hashing_metadata(initial_hashing_metadata("d", 8))
    (ring / "d" / "00000000000000.hashing_meta").write_bytes(metadata)
    with pytest.raises(bf.ConflictError, match="another ring of buckets"):
        list(task.write(rows(("new", "d")), "0-0-0"))
    started.abort()
    bf.open(root).upsert(rows(("new", "d")))
    found = bf.open(root).lookup(rows(("new", "d")).select(["id", "p"]))
    assert found.num_rows == 1
