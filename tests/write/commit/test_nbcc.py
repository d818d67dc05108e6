"""Non-blocking concurrency control: overlapping writes to one bucket all stand."""

from __future__ import annotations

import pickle
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.names.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.write.services.compaction import Compactor
from tests.write.commit.nbcc_process import NON_BLOCKING, rows, start_processes

pytestmark = pytest.mark.rotated

FILE_ID = "00000000-0000-0000-0000-000000000000-0"


def make(
    folder: Path,
    *,
    version: int = 9,
    index: bf.Index | None = None,
    ordering: tuple[str, ...] = ("ts",),
    table_type: str = "MERGE_ON_READ",
    writer: bf.WriterConfig = NON_BLOCKING,
) -> bf.Table:
    return bf.create(
        str(folder),
        schema=one("a", 1).schema,
        record_key=["id"],
        ordering=ordering,
        index=index or bf.SimpleBucketIndex(1),
        table_type=table_type,  # type: ignore[arg-type]
        table_version=version,
        writer=writer,
    )


def one(key: str, ts: int) -> pa.Table:
    return pa.table({"id": [key], "ts": [ts]})


def start(
    table: bf.Table, operation: str = "upsert", writer: bf.WriterConfig = NON_BLOCKING
) -> bf.StartedWrite:
    opened = bf.open(table.uri, writer=writer)
    return opened.start_write(operation, one("", 0).schema)  # type: ignore[arg-type]


def publish(started: bf.StartedWrite, given: pa.Table) -> None:
    task = pickle.loads(pickle.dumps(started.task))
    started.publish(list(task.write(given, "0-0-0")))


def read(table: bf.Table) -> dict[str, int]:
    """Return what a fresh look at the table shows, once the check is clean."""
    opened = bf.open(table.uri)
    assert opened.check(depth="full").status == "clean"
    found = opened.scan().to_arrow().to_pylist()
    assert len(found) == opened.scan().count()
    return {row["id"]: row["ts"] for row in found}


def indexed(table: bf.Table) -> list[str]:
    entries = bf.open(table.uri).inspect.metadata_entries("record_index")
    return sorted(entries["record_key"].to_pylist())


def file_ids(table: bf.Table) -> list[str]:
    return sorted(set(bf.open(table.uri).inspect.file_groups()["file_id"].to_pylist()))


@pytest.mark.parametrize("version", [8, 9])
def test_a_new_bucket_begins_with_a_log_file_of_a_known_group(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version, index=bf.SimpleBucketIndex(4))
    result = table.upsert(pa.table({"id": [f"k{i}" for i in range(40)], "ts": [1] * 40}))
    names = [find_data_file_name(path) for path in result.files]
    assert all(isinstance(name, LogFileName) for name in names)
    fixed = [f"{bucket:08d}-0000-0000-0000-000000000000-0" for bucket in range(4)]
    assert sorted(name.file_id for name in names if name is not None) == fixed
    table.compact()
    assert len(read(table)) == 40
    again = table.upsert(one("k1", 2))
    (path,) = again.files
    assert find_data_file_name(path).file_id in fixed  # type: ignore[union-attr]
    assert read(table)["k1"] == 2


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("is_crossed", [True, False])
def test_overlapping_writes_both_stand(
    tmp_path: Path, version: int, is_new: bool, is_crossed: bool
) -> None:
    table = make(tmp_path / "t", version=version)
    if not is_new:
        table.upsert(one("shared", 1))
    with start(table) as first, start(table) as second:
        early = (first, pa.table({"id": ["a", "shared"], "ts": [3, 3]}))
        late = (second, pa.table({"id": ["b", "shared"], "ts": [2, 2]}))
        for started, given in (late, early) if is_crossed else (early, late):
            publish(started, given)
    assert read(table) == {"a": 3, "b": 2, "shared": 3}  # by the ordering field, whoever was last
    assert file_ids(table) == [FILE_ID]
    table.compact()
    assert read(table) == {"a": 3, "b": 2, "shared": 3}


def test_without_ordering_fields_the_later_request_stands(tmp_path: Path) -> None:
    """As Hudi has it, which sorts log files by the time in their names."""
    table = make(tmp_path / "t", ordering=())
    with start(table) as first, start(table) as second:
        publish(second, one("shared", 2))
        publish(first, one("shared", 1))
    assert read(table) == {"shared": 2}


def test_a_delete_next_to_an_upsert(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.upsert(pa.table({"id": ["a", "b"], "ts": [1, 1]}))
    with start(table) as upserting:
        bf.open(table.uri, writer=NON_BLOCKING).delete(["a"])
        publish(upserting, pa.table({"id": ["b", "c"], "ts": [2, 2]}))
    assert read(table) == {"b": 2, "c": 2}


@pytest.mark.parametrize("version", [8, 9])
def test_the_record_index_has_a_row_that_outlives_a_delete_begun_later(
    tmp_path: Path, version: int
) -> None:
    """Records of the index are merged in the order in which their writes were begun."""
    table = make(tmp_path / "t", version=version)
    table.metadata_table.init("record_index")
    table.upsert(pa.table({"id": ["a", "b", "c"], "ts": [10, 10, 10]}))
    with start(table) as first, start(table) as second:
        table.delete(["a", "b"])
        publish(second, one("a", 20))
        publish(first, one("b", 30))
    assert indexed(table) == sorted(read(table)) == ["a", "b", "c"]
    table.delete(["a"])  # begun after all of these
    assert indexed(table) == sorted(read(table)) == ["b", "c"]
    for turn in range(12):  # until the metadata table has been compacted
        table.upsert(one(f"d{turn}", 40))
    assert indexed(table) == sorted(read(table))
    assert len(indexed(table)) == 14


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("version", [8, 9])
def test_the_record_index_has_the_keys_that_readers_see(
    tmp_path: Path, version: int, is_replaced: bool
) -> None:
    """Nobody looks for deletes before a row is logged, nor for rows before a delete is."""
    table = make(tmp_path / "t", version=version)
    table.metadata_table.init("record_index")
    first = pa.table({"id": ["a", "b", "c"], "ts": [10, 10, 10]})
    table.upsert(first)
    if is_replaced:  # from then on, readers ask the timeline which blocks of logs count
        optimistic = bf.WriterConfig(lock="filesystem", services=None)
        bf.open(table.uri, writer=optimistic).insert_overwrite(first)
    table.delete(["a"])
    table.upsert(pa.table({"id": ["a", "d"], "ts": [5, 5]}))  # the delete of "a" hides its row
    assert indexed(table) == sorted(read(table)) == ["b", "c", "d"]
    with start(table, "delete") as deleting:
        table.delete(["c"])
        table.upsert(pa.table({"id": ["b"], "ts": [20]}))
        publish(deleting, pa.table({"id": ["b", "d"], "ts": [15, 15]}))
    assert indexed(table) == sorted(read(table)) == ["b"]
    table.compact()
    assert indexed(table) == sorted(read(table)) == ["b"]


@pytest.mark.parametrize("version", [8, 9])
def test_the_record_index_keeps_a_key_whose_row_a_pending_compaction_brings_back(
    tmp_path: Path, version: int
) -> None:
    """The base file has no delete that would hide a row which was logged since."""
    table = make(tmp_path / "t", version=version)
    table.metadata_table.init("record_index")
    table.upsert(pa.table({"id": ["a", "b"], "ts": [10, 10]}))
    table.delete(["a"])
    opened = bf.open(table.uri, writer=bf.WriterConfig(lock="filesystem", services=None))
    Compactor(opened._snapshot, opened._transactions).schedule()
    with start(table) as late:
        publish(late, pa.table({"id": ["a"], "ts": [5]}))
    table.compact()
    assert indexed(table) == sorted(read(table)) == ["a", "b"]


@pytest.mark.parametrize("version", [8, 9])
def test_a_compaction_in_between(tmp_path: Path, version: int) -> None:
    """A log file belongs to the slice that was there when it completed: none is left behind."""
    table = make(tmp_path / "t", version=version)
    with start(table) as slow:
        table.upsert(pa.table({"id": ["a", "shared"], "ts": [1, 5]}))
        table.compact()
        publish(slow, pa.table({"id": ["b", "shared"], "ts": [1, 4]}))
    assert read(table) == {"a": 1, "b": 1, "shared": 5}
    table.compact()
    assert read(table) == {"a": 1, "b": 1, "shared": 5}
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    assert read(table) == {"a": 1, "b": 1, "shared": 5}


def test_a_bucket_that_an_optimistic_writer_began(tmp_path: Path) -> None:
    """Two file groups would be in the bucket; begun anew, its group is appended to."""
    table = make(tmp_path / "t")
    optimistic = bf.WriterConfig()
    with start(table) as ours:
        begun = bf.open(table.uri, writer=optimistic).upsert(one("a", 1))
        with pytest.raises(bf.ConflictError, match="bucket 0"):
            publish(ours, one("b", 1))
    table.upsert(one("b", 1))
    assert read(table) == {"a": 1, "b": 1}
    (path,) = begun.files
    assert file_ids(table) == [find_data_file_name(path).file_id]  # type: ignore[union-attr]


def test_an_optimistic_writer_sees_that_others_wrote(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    with start(table, writer=bf.WriterConfig()) as theirs:
        table.upsert(one("a", 1))
        with pytest.raises(bf.ConflictError, match="bucket 0"):
            publish(theirs, one("b", 1))
    assert read(table) == {"a": 1}


def test_what_was_worked_out_from_the_table_is_a_conflict(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.upsert(one("a", 1))
    seen = table.timeline
    table.upsert(one("a", 2))
    with pytest.raises(bf.ConflictError, match="bucket 0"):
        table.upsert(one("a", 3), read_at=seen)
    assert read(table) == {"a": 2}


def test_an_overwrite_in_between_is_a_conflict(tmp_path: Path) -> None:
    """What is logged to a file group that was replaced would be hidden."""
    table = make(tmp_path / "t")
    table.upsert(one("a", 1))
    with start(table) as ours:
        bf.open(table.uri).insert_overwrite(one("b", 1))
        with pytest.raises(bf.ConflictError, match="INSERT_OVERWRITE"):
            publish(ours, one("a", 2))
    assert read(table) == {"b": 1}
    table.upsert(one("a", 2))
    assert read(table) == {"a": 2, "b": 1}


def test_a_bulk_insert_finds_the_bucket_empty_or_not(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    with start(table, "bulk_insert") as bulk, start(table) as upserting:
        task = pickle.loads(pickle.dumps(bulk.task))
        receipts = list(task.write(one("a", 1), "0-0-0"))
        publish(upserting, one("b", 1))
        with pytest.raises(bf.ConflictError, match="bucket 0"):
            bulk.publish(receipts)
    assert read(table) == {"b": 1}

    other = make(tmp_path / "other")
    with start(other) as upserting:
        result = bf.open(other.uri, writer=NON_BLOCKING).bulk_insert(one("a", 1))
        assert isinstance(find_data_file_name(result.files[0]), BaseFileName)
        publish(upserting, one("b", 1))
    assert read(other) == {"a": 1, "b": 1}
    assert file_ids(other) == [FILE_ID]


@pytest.mark.parametrize(
    ("version", "table_type", "index"),
    [
        (9, "COPY_ON_WRITE", bf.SimpleBucketIndex(1)),
        (6, "MERGE_ON_READ", bf.SimpleBucketIndex(1)),
        (9, "MERGE_ON_READ", bf.ConsistentHashingIndex(2)),
    ],
)
def test_tables_that_do_not_have_it(
    tmp_path: Path, version: int, table_type: str, index: bf.Index
) -> None:
    table = make(tmp_path / "t", version=version, table_type=table_type, index=index)
    for write in (table.upsert, table.insert, table.bulk_insert):
        with pytest.raises(ValueError, match="takes a merge-on-read table of version 8"):
            write(one("a", 1))
    assert not table.timeline.instants
    assert table.scan().count() == 0


def test_what_would_hide_log_files_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.upsert(one("a", 1))
    before = table.timeline.instants
    for operation in (
        lambda: table.insert_overwrite(one("b", 1)),
        lambda: table.insert_overwrite(one("b", 1), table=True),
        lambda: table.delete_partitions([""]),
    ):
        with pytest.raises(bf.UnsupportedError, match="next to non-blocking writers"):
            operation()
    assert table.timeline.instants == before
    assert read(table) == {"a": 1}


def test_rules_by_partition_have_it_too(tmp_path: Path) -> None:
    given = pa.table({"id": [f"k{i}" for i in range(20)], "p": ["us", "eu"] * 10})
    table = bf.create(
        str(tmp_path / "t"),
        schema=given.schema,
        record_key=["id"],
        partition_by=["p"],
        index=bf.PartitionBucketIndex(1, "us,4"),
        table_type="MERGE_ON_READ",
        writer=NON_BLOCKING,
    )
    with table.start_write("upsert", given.schema) as started:
        table.upsert(given)
        publish(started, given)
    assert table.scan().count() == 20
    assert table.check(depth="full").status == "clean"
    assert {i[8:] for i in file_ids(table)} == {FILE_ID[8:]}


def test_an_unknown_mode() -> None:
    with pytest.raises(ValueError, match="optimistic or non_blocking"):
        bf.create(
            "memory://nbcc/unknown",
            schema=one("a", 1).schema,
            record_key=["id"],
            index=bf.SimpleBucketIndex(1),
            writer=bf.WriterConfig(concurrency="none"),  # type: ignore[arg-type]
        ).upsert(one("a", 1))


@pytest.mark.rotated(0, among="several processes", one_of=4)
def test_processes_that_log_to_one_bucket_while_it_is_compacted(tmp_path: Path) -> None:
    """No write is tried again, and none is lost."""
    processes, rounds = 2, 4
    table = make(tmp_path / "t")
    running = start_processes(table.uri, processes, rounds)
    compactions, refusals = 0, set[str]()
    while any(process.poll() is None for process in running):
        try:
            compactions += table.compact() is not None
        except bf.ConflictError as error:
            refusals.add(re.sub(r"[0-9]{17}", "T", str(error)))
        time.sleep(0.02)  # the others need the processor
    assert [process.wait() for process in running] == [0] * processes
    assert refusals <= {
        "compaction T is being executed, as its heartbeat tells; wait for it, or for two minutes "
        "if its writer is dead"
    }  # when the services of a writer are at one
    table.compact()
    compacted = table.timeline.completed.of("commit").instants
    assert len(compacted) >= max(compactions, 1)
    expected: dict[str, int] = {}
    for number in range(processes):
        for turn in range(rounds):
            for row in rows(number, turn).to_pylist():
                expected[row["id"]] = max(row["ts"], expected.get(row["id"], 0))
    assert read(table) == expected
    assert file_ids(table) == [FILE_ID]
    commits = table.timeline.completed.of("deltacommit").instants
    assert len(commits) == processes * rounds
