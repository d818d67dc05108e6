"""A write in two halves: begun and committed here, its files written by whoever has the rows."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_records import RecordLocation
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.write.commit import transaction, transactions
from bucketfmt.write.commit.receipts import (
    PointedReceipt,
    Receipt,
    RowReport,
    decode_receipt,
    encode_receipt,
    file_groups_of,
    find_winners,
    reports_by_path,
    stats_by_partition,
)
from bucketfmt.write.files import data_file
from bucketfmt.write.files.row_report import RowReporter
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics
from bucketfmt.write.rows import write_task
from bucketfmt.write.rows.bucket_writer import BucketWriter
from tests.write.models import REGIONS, SCHEMA, Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

KINDS = {
    "cow": ("COPY_ON_WRITE", bf.SimpleBucketIndex(2)),
    "mor": ("MERGE_ON_READ", bf.SimpleBucketIndex(2)),
    "ring": ("MERGE_ON_READ", bf.ConsistentHashingIndex(2)),
}


@pytest.fixture(params=[(v, k) for v in (6, 8, 9) for k in KINDS], ids=lambda kind: f"{kind}")
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    version, kind = request.param
    return make(tmp_path, version, kind)


def make(tmp_path: Path, version: int, kind: str) -> bf.Table:
    table_type, index = KINDS[kind]
    return create_table(str(tmp_path / "t"), index, table_type, table_version=version)


def by_region(given: pa.Table) -> list[pa.Table]:
    """Rows as tasks get them: all of a bucket in one, several buckets in each."""
    return [given.filter(pa.compute.equal(given["region"], region)) for region in REGIONS]


def run_task(sent: bytes, data: pa.Table, write_token: str) -> list[bytes]:
    task: bf.WriteTask = pickle.loads(sent)
    return list(task.write(data, write_token))


def data_files(table: bf.Table) -> set[str]:
    root = Path(table.uri)
    return {
        str(path.relative_to(root))
        for region in REGIONS
        for path in root.glob(f"{region}/*")
        if "partition_metadata" not in path.name
    }


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_a_task_is_sent_and_not_the_write(tmp_path: Path) -> None:
    table = make(tmp_path, 9, next(iter(KINDS)))
    with table.start_write("upsert", SCHEMA) as started:
        with pytest.raises(TypeError, match=r"a StartedWrite stays .*: send its `task`"):
            pickle.dumps(started)
        assert isinstance(pickle.loads(pickle.dumps(started.task)), bf.WriteTask)


def test_other_processes_write_the_files(table: bf.Table, processes: ProcessPoolExecutor) -> None:
    model = Model()
    steps = [
        ("insert", rows(range(60), ts=1)),
        ("upsert", rows(range(40, 90), ts=2, price=2.0)),
        ("delete", rows(range(10, 20), ts=3).select(["id", "region"])),
    ]
    for operation, given in steps:
        with table.start_write(operation, given.schema) as started:  # type: ignore[arg-type]
            sent = pickle.dumps(started.task)
            assert len(sent) < 20_000
            work = [
                processes.submit(run_task, sent, own, f"{number}-0-{number}")
                for number, own in enumerate(by_region(given))
            ]
            receipts = [receipt for task in work for receipt in task.result()]
            result = started.publish(receipts)
        assert result.operation == operation.upper()
        assert len(result.files) == len(receipts) == 6
        if operation == "delete":
            model.delete(given["id"].to_pylist())
        else:
            model.upsert(given)
    assert_reads_as(table.uri, model)
    numbers = table.scan(["_hoodie_commit_seqno"]).to_arrow().column(0).to_pylist()
    assert len(set(numbers)) == len(numbers) == 80


def test_it_is_the_write_that_the_table_does_itself(tmp_path: Path) -> None:
    found = []
    for way in ("here", "there"):
        (tmp_path / way).mkdir()
        table = make(tmp_path / way, 9, "cow")
        given = rows(range(30), ts=1)
        if way == "here":
            result = table.insert_overwrite(given, commit_metadata={"why": "test"})
        else:
            options = {"commit_metadata": {"why": "test"}}
            with table.start_write("insert_overwrite", SCHEMA, **options) as started:  # type: ignore[arg-type]
                receipts = [
                    receipt
                    for number, own in enumerate(by_region(given))
                    for receipt in started.task.write(own, f"{number}-0-0")
                ]
                result = started.publish(receipts)
        commit = table.inspect.commits().to_pylist()[0]
        for told in ("requested_time", "completion_time", "bytes"):
            commit.pop(told, None)
        found.append((result.operation, result.rows_inserted, len(result.files), commit))
    assert found[0] == found[1]


def test_attempts_that_were_repeated_leave_one_file_a_bucket(table: bf.Table) -> None:
    model = Model()
    for ts in (1, 2):
        given = rows(range(50), ts=ts, price=float(ts))
        before = data_files(table)
        with table.start_write("upsert", SCHEMA) as started:
            receipts = []
            for number, own in enumerate(by_region(given)):
                next(started.task.write(own, f"{number}-0-{number}"))  # dies after its first file
                for attempt in (10, 20):
                    receipts += started.task.write(own, f"{number}-0-{number + attempt}")
            assert len(data_files(table) - before) == 15
            result = started.publish(receipts)
        assert data_files(table) - before == set(result.files)
        assert len(result.files) == 6
        model.upsert(given)
    assert_reads_as(table.uri, model)
    assert not list(Path(table.uri, ".hoodie/.temp").glob("*"))


def test_many_small_buckets_of_a_task_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, together = make(tmp_path, 9, "cow"), threading.Barrier(2, timeout=20)
    given = by_region(rows(range(50), ts=1))[0]
    write, in_work = BucketWriter.write, set()

    def meet(*arguments: Any) -> bytes:
        together.wait()
        return write(*arguments)

    def alone(*arguments: Any) -> bytes:
        assert not in_work
        in_work.add(threading.get_ident())
        receipt = write(*arguments)
        in_work.clear()
        return receipt

    rows_most, many = write_task._SMALL_ROWS, write_task._MANY
    for most, least, way in ((rows_most, 2, meet), (1, 2, alone), (rows_most, many, alone)):
        monkeypatch.setattr(write_task, "_SMALL_ROWS", most)
        monkeypatch.setattr(write_task, "_MANY", least)
        monkeypatch.setattr(BucketWriter, "write", way)
        with table.start_write("upsert", SCHEMA) as started:
            receipts = list(started.task.write(given, "0-0-0"))
            assert len(receipts) == 2
            started.publish(receipts)
        model = Model()
        model.upsert(given)
        assert_reads_as(table.uri, model)


def test_rows_of_one_bucket_in_two_tasks_are_refused(table: bf.Table) -> None:
    table.upsert(rows(range(30), ts=1))
    before = data_files(table)
    with table.start_write("upsert", SCHEMA) as started:
        halves = rows(range(30), ts=2), rows(range(30, 60), ts=2)
        receipts = [r for n, own in enumerate(halves) for r in started.task.write(own, f"{n}-0-0")]
        with pytest.raises(ValueError, match="both had rows of file group"):
            started.publish(receipts)
    assert data_files(table) == before
    assert not table.timeline.pending.instants


def test_an_attempt_that_comes_too_late_writes_nothing(table: bf.Table) -> None:
    model = Model()
    given = rows(range(50), ts=1)
    with table.start_write("upsert", SCHEMA) as started:
        late = pickle.loads(pickle.dumps(started.task))
        started.publish(list(started.task.write(given, "0-0-0")))
    model.upsert(given)
    after = data_files(table)
    with pytest.raises(bf.ConflictError, match="has ended"):
        list(late.write(given, "0-0-1"))
    with table.start_write("upsert", SCHEMA) as started:
        late = started.task
    with pytest.raises(bf.ConflictError, match="has ended"):
        list(late.write(given, "0-0-1"))
    assert data_files(table) == after
    assert_reads_as(table.uri, model)


def test_what_a_task_writes_while_the_write_is_taken_back_is_gone(
    table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amid its removal, where the task still finds the heartbeat, and after it."""
    before, given = data_files(table), rows(range(50), ts=1)
    remove, check = transaction.delete_announced_files, data_file.check_beating
    written = []
    with monkeypatch.context() as patched, table.start_write("upsert", SCHEMA) as started:
        late = pickle.loads(pickle.dumps(started.task))

        def write_once_they_are_removed(*arguments: Any) -> object:
            removed = remove(*arguments)
            if not written:
                written.extend(late.write(given, "0-0-1"))
            return removed

        patched.setattr(transaction, "delete_announced_files", write_once_they_are_removed)
    assert written
    assert data_files(table) == before

    started = table.start_write("upsert", SCHEMA)
    late = pickle.loads(pickle.dumps(started.task))

    def take_it_back_once_checked(*arguments: Any) -> None:
        check(*arguments)
        started.abort()

    monkeypatch.setattr(data_file, "check_beating", take_it_back_once_checked)
    with pytest.raises(bf.ConflictError, match="has ended"):
        list(late.write(given, "0-0-1"))
    assert data_files(table) == before
    assert not table.timeline.instants


def test_one_that_comes_too_late_by_an_instant_hurts_no_one(
    table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    for ts in (1, 2):
        given = rows(range(50), ts=ts, price=float(ts))
        with table.start_write("upsert", SCHEMA) as started:
            result = started.publish(list(started.task.write(given, "0-0-0")))
            with monkeypatch.context() as patched:
                patched.setattr(data_file, "check_beating", lambda *_: None)
                late = [
                    stat.path
                    for r in started.task.write(given, "0-0-1")
                    if (stat := decode_receipt(r, started.instant, DEFAULT_LIMITS).stat)
                ]
        model.upsert(given)
        groups = bf.open(table.uri).inspect.file_groups()
        assert groups.num_rows == len(result.files) == 6, "one file group in a bucket"
        assert bf.open(table.uri).scan().to_arrow().num_rows == 50
        found = sorted(bf.open(table.uri).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        assert found == sorted(model.rows.values(), key=lambda row: row["id"])
        assert {Path(table.uri, str(path)).exists() for path in late} == {True}
    for ts in (3, 4, 5):
        model.upsert(given := rows(range(50), ts=ts, price=float(ts)))
        table.upsert(given)
        if table.config.table_type == "MERGE_ON_READ":
            table.compact()
    table.clean(dry_run=False, retain=1)
    assert not [path for path in late if Path(table.uri, str(path)).exists()]
    assert_reads_as(table.uri, model)


def test_a_dead_driver_is_cleaned_up_after(table: bf.Table) -> None:
    model = Model()
    model.upsert(given := rows(range(50), ts=1))
    table.upsert(given)
    before = data_files(table)
    driver = bf.open(table.uri)
    started = driver.start_write("upsert", SCHEMA)
    list(started.task.write(rows(range(20, 90), ts=2), "0-0-0"))
    assert data_files(table) > before
    started._transaction.heartbeat.abandon()
    Path(table.uri, ".hoodie/.heartbeat", started.instant).unlink()
    assert_rows(table, model)
    model.upsert(given := rows(range(40, 60), ts=3))
    result = table.upsert(given)
    wanted = before | set(result.files)
    is_appended = table.config.table_version == 6 and table.config.table_type == "MERGE_ON_READ"
    # Hudi's rollbacks before version 8 leave log files, and append what takes their blocks back.
    assert data_files(table) >= wanted if is_appended else data_files(table) == wanted
    with pytest.raises(bf.ConflictError, match="has ended"):
        list(started.task.write(rows(range(20, 90), ts=2), "0-0-1"))
    with pytest.raises(bf.BucketfmtError):
        started.publish([])
    assert_reads_as(table.uri, model)


def assert_rows(table: bf.Table, model: Model) -> None:
    found = sorted(bf.open(table.uri).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == sorted(model.rows.values(), key=lambda row: row["id"])


def test_a_table_pickles_as_it_was_opened(tmp_path: Path) -> None:
    make(tmp_path, 9, "cow").upsert(rows(range(5), ts=1))
    index, writer = bf.SimpleBucketIndex(2), bf.WriterConfig(lock="filesystem")
    table = bf.open(tmp_path / "t", index=index, writer=writer)
    table.upsert(rows(range(5), ts=2))
    again = pickle.loads(pickle.dumps(table))
    assert (again.uri, again.index) == (table.uri, table.index)
    assert again._writer_config == writer
    again.upsert(rows(range(9), ts=3))
    assert table.scan().to_arrow()["ts"].to_pylist() == [3] * 9


def heartbeats(table: bf.Table) -> list[Path]:
    return list(Path(table.uri, ".hoodie/.heartbeat").glob("*"))


def test_another_process_publishes(table: bf.Table) -> None:
    model = Model()
    for ts in (1, 2):
        given = rows(range(50), ts=ts, price=float(ts))
        with table.start_write("upsert", SCHEMA) as started:
            sent = pickle.dumps(started.hand_over())
        (alive,) = heartbeats(table)
        receipts = []
        for number, own in enumerate(by_region(given)):
            with bf.open(table.uri).keep_alive(pickle.loads(sent)):
                receipts += run_task(sent, own, f"{number}-0-{number}")
        assert heartbeats(table) == [alive]
        task = pickle.loads(sent)
        with bf.open(table.uri).resume_write(task, idempotency_key=f"batch {ts}") as started:
            assert started.instant == alive.name
            result = started.publish(receipts)
        assert table.find_commit(f"batch {ts}") is not None
        assert result.instant == alive.name
        model.upsert(given)
        for again in (table.resume_write, table.keep_alive):
            with pytest.raises(bf.ConflictError, match="has ended"), again(task):
                raise AssertionError("resumed")
        assert heartbeats(table) == []
    assert_reads_as(table.uri, model)


def renewals() -> int:
    return sum(thread.name == "bucketfmt-renewal" for thread in threading.enumerate())


def test_one_that_could_not_be_taken_up_is_not_kept_alive(
    table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeat went on for as long as the process, and nobody took the write back."""
    with table.start_write("upsert", SCHEMA) as started:
        sent = started.hand_over()
    again, before = bf.open(table.uri), renewals()

    def fail(*_: object) -> None:
        raise bf.StorageError("the store failed once")

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "load_config", fail)
        with pytest.raises(bf.StorageError, match="failed once"):
            again.resume_write(sent)
    assert renewals() == before
    with again.resume_write(sent) as started:
        assert renewals() == before + 1
        started.publish(list(started.task.write(rows(range(3), ts=1), "0-0-0")))


def test_another_process_takes_it_back(table: bf.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.upsert(rows(range(30), ts=1))
    before = data_files(table)
    task = table.start_write("upsert", SCHEMA).hand_over()
    receipts = list(task.write(rows(range(50), ts=2), "0-0-0"))
    with monkeypatch.context() as network:
        # What failed may take effect late, and a process before this one may have published.
        network.setattr(LocalStore, "failures_are_final", False)
        bf.open(table.uri).resume_write(task).abort()
    assert data_files(table) > before
    with pytest.raises(ZeroDivisionError), bf.open(table.uri).resume_write(task):
        raise ZeroDivisionError
    assert data_files(table) == before
    assert heartbeats(table) == []
    assert not table.timeline.pending.instants
    with pytest.raises(bf.ConflictError, match="has ended"):
        bf.open(table.uri).resume_write(task).publish(receipts)


def test_one_that_nobody_kept_alive(table: bf.Table) -> None:
    for is_overtaken in (False, True):
        model = Model()
        task = table.start_write("upsert", SCHEMA).hand_over()
        (alive,) = heartbeats(table)
        os.utime(alive, (0, 0))
        model.upsert(given := rows(range(20), ts=5))
        if is_overtaken:
            # Recovery begins with a plan. It died there, and its lock has expired.
            name = f"{task.instant[:-1]}9.rollback.requested"
            timeline = Path(table.uri, table.config.timeline_path)
            (timeline / name).touch()
            for again in (table.resume_write, table.keep_alive):
                with pytest.raises(bf.ConflictError, match="taken back; write again"), again(task):
                    raise AssertionError("resumed")
            (timeline / name).unlink()
            other = bf.open(table.uri).upsert(rows([100], ts=6))
            assert other.files
            for again in (table.resume_write, table.keep_alive):
                with pytest.raises(bf.ConflictError, match="write again"), again(task):
                    raise AssertionError("resumed")
            assert table.lookup(["key-000100"])["ts"].to_pylist() == [6]
        else:
            with bf.open(table.uri).keep_alive(task):
                receipts = list(task.write(given, "0-0-0"))
            os.utime(alive, (0, 0))
            with bf.open(table.uri).resume_write(task) as started:
                started.publish(receipts)
            assert_reads_as(table.uri, model)
        assert heartbeats(table) == []


def test_a_concurrent_commit_is_a_conflict(table: bf.Table) -> None:
    table.upsert(rows(range(30), ts=1))
    before = data_files(table)
    with table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(rows(range(30), ts=3), "0-0-0"))
        other = bf.open(table.uri).upsert(rows([4], ts=2))
        with pytest.raises(bf.ConflictError, match="also changes"):
            started.publish(receipts)
    assert data_files(table) == before | set(other.files)
    assert table.lookup(["key-000004"])["ts"].to_pylist() == [2]


def test_a_task_has_the_table_as_the_write_began_on_it(table: bf.Table) -> None:
    table.upsert(rows(range(30), ts=1))
    with table.start_write("upsert", SCHEMA) as started:
        other = rows([i for i in range(30) if i % 3 == 0], ts=2)  # of one partition
        bf.open(table.uri).upsert(other)
        mine = rows([1, 4], ts=3)
        started.publish(list(pickle.loads(pickle.dumps(started.task)).write(mine, "0-0-0")))
    model = Model()
    for given in (rows(range(30), ts=1), other, mine):
        model.upsert(given)
    assert_reads_as(table.uri, model)


def test_what_cannot_be_written_is_refused_before_it_begins(table: bf.Table) -> None:
    with pytest.raises(bf.SchemaError, match="lack the columns ts"):
        table.start_write("upsert", SCHEMA.remove(3))
    with pytest.raises(ValueError, match="no operation 'merge'"):
        table.start_write("merge", SCHEMA)  # type: ignore[arg-type]
    assert not table.timeline.instants
    with table.start_write("upsert", SCHEMA) as started:
        null = rows([1], ts=1).set_column(0, "id", pa.array([None], pa.string()))
        with pytest.raises(bf.KeyEncodingError):
            list(started.task.write(null, "0-0-0"))
    with table.start_write("upsert", SCHEMA) as started:
        started.publish(list(started.task.write(rows([1], ts=1), "0-0-0")))
    with table.start_write("delete", SCHEMA) as started:
        deletes = started.task.write(pa.table({"id": ["a"]}), "0-0-0")
        with pytest.raises(ValueError, match="partition columns"):
            list(deletes)
    assert len(table.timeline.instants) == 1


def test_a_commit_is_found_by_its_key(table: bf.Table) -> None:
    assert table.find_commit("batch 1") is None
    given = rows(range(9), ts=1)
    results = []
    for _ in range(2):
        with table.start_write("upsert", SCHEMA, idempotency_key="batch 1") as started:
            results.append(started.publish(list(started.task.write(given, "0-0-0"))))
    assert results[1].repeated
    assert results[1].instant == results[0].instant
    assert table.find_commit("batch 1") == results[1]
    assert data_files(table) == set(results[0].files)


def test_archive_files_that_are_gone_are_not_kept(tmp_path: Path) -> None:
    """A process that wrote for months kept each file that the archive ever had."""
    table = create_table(
        str(tmp_path / "t"), bf.SimpleBucketIndex(1), writer=bf.WriterConfig(services=None)
    )
    for ts in range(30):
        table.upsert(rows([1], ts), idempotency_key=str(ts))
        if ts % 3 == 2:
            table.archive(min_commits=2, max_commits=3)
        assert table.find_commit("none") is None
    assert table.find_commit("3") is not None
    history = Path(table.uri, table.config.history_path)
    names = {path.name for path in history.glob("*.parquet")}
    kept = table._transactions._keyed_commits._archived
    assert {name for name, _ in kept} <= names


STAT = WriteStat(file_id="f", path="p/f_1-0-2_9.parquet", partition_path="p", num_writes=3)


def receipt(token: str, stat: WriteStat | None = STAT) -> Receipt:
    return Receipt(partition_path="p", file_id="f", write_token=token, stat=stat)


def with_statistics(record: bytes) -> bytes:
    sent = msgspec.json.decode(encode_receipt(receipt("1-0-2")))
    return msgspec.json.encode({**sent, "report": {"columnStats": [record]}})


def test_receipts_are_small_and_come_back_whole() -> None:
    sent = encode_receipt(receipt("1-0-2"))
    assert decode_receipt(sent, "9", DEFAULT_LIMITS) == receipt("1-0-2")
    assert len(sent) < 200
    logged = msgspec.structs.replace(STAT, prev_commit="null", log_version=1, log_offset=0)
    sent = encode_receipt(receipt("1-0-2", logged))
    assert decode_receipt(sent, "9", DEFAULT_LIMITS) == receipt("1-0-2", logged)


def test_receipts_say_what_recurs_once() -> None:
    stats = [
        WriteStat(file_id=f, path=f"p/{f}_1-0-2_9.parquet", partition_path="p", prev_commit="8")
        for f in ("f", "g")
    ]
    sent = [
        encode_receipt(Receipt(partition_path="p", file_id=f, write_token="1-0-2", stat=stat))
        for f, stat in zip("fg", stats, strict=True)
    ]
    assert msgspec.json.decode(sent[0])["stat"] == {
        "path": "p/f_1-0-2_9.parquet",
        "prevCommit": "8",
    }
    assert [decode_receipt(each, "9", DEFAULT_LIMITS).stat for each in sent] == stats


KEYS = pa.chunked_array([["a", "b"]])
REPORTED = pa.table(
    {
        "name": pa.array(["é", None], pa.string()),
        "qty": pa.array([1, 2], pa.int32()),
        "price": pa.array([Decimal("-1.50"), Decimal("2.25")], pa.decimal128(10, 2)),
        "day": pa.array([1, 2], pa.int32()).cast(pa.date32()),
        "at": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "data": pa.array([b"\xff", b""], pa.binary()),
        "nothing": pa.nulls(2, pa.float64()),
    }
)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_receipt_that_is_sent_has_the_statistics_and_not_the_keys(version: int) -> None:
    reporter = RowReporter(ColumnStatistics(DEFAULT_LIMITS, None, version), takes_keys=True)
    report = reporter.of_log_file("f", REPORTED, KEYS, KEYS[:1])
    assert report.keys is not None
    assert [keys.to_pylist() for keys in report.keys] == [["a", "b"], ["a"]]
    assert report.column_stats is not None
    assert [each.column for each in report.column_stats] == REPORTED.column_names
    empty = reporter.of_log_file("f", REPORTED[:0], KEYS[:0], KEYS)
    whole = replace(
        receipt("1-0-2"), report=report, pointed=(PointedReceipt(STAT, empty), PointedReceipt(STAT))
    )
    found = decode_receipt(encode_receipt(whole), "9", DEFAULT_LIMITS)
    assert found == replace(
        whole,
        report=RowReport(report.column_stats),
        pointed=(PointedReceipt(STAT, RowReport([])), PointedReceipt(STAT)),
    )


def test_a_receipt_of_this_process_is_taken_as_it_is_if_its_file_is_of_the_write() -> None:
    own = replace(receipt("1-0-2"), report=RowReport(keys=(pa.array(["a"]), pa.array([]))))
    assert decode_receipt(own, "9", DEFAULT_LIMITS) is own
    with pytest.raises(bf.CorruptError, match="no file of it"):
        decode_receipt(own, "8", DEFAULT_LIMITS)


def test_keys_are_reported_where_they_are_wanted_and_few_and_hold_no_other_rows() -> None:
    statistics = ColumnStatistics(DEFAULT_LIMITS, None, 9)
    assert RowReporter(statistics, takes_keys=False).of_log_file("f", REPORTED, KEYS, KEYS) == (
        RowReport(statistics.of_rows("f", [REPORTED]))
    )
    many = pa.chunked_array([["a" * 1000] * 1100])
    reporter = RowReporter(None, takes_keys=True)
    assert reporter.of_log_file("f", REPORTED, many, KEYS) == RowReport()
    keys = reporter.of_log_file("f", REPORTED, many[:2], many[:0]).keys
    assert keys is not None
    assert [len(each) for each in keys] == [2, 0]
    assert keys[0].buffers()[2].size < 10_000


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{}",
        b"\xff",
        encode_receipt(receipt("1-0-3")),
        encode_receipt(receipt("x")),
        encode_receipt(Receipt(partition_path="..", file_id="f", write_token="1-0-2", stat=STAT)),
        encode_receipt(
            receipt("1-0-2", WriteStat(file_id="f", path="q/f_1-0-2_9.parquet", partition_path="p"))
        ),
        with_statistics(b"no record"),
        with_statistics(encode_metadata_record(RecordLocation("p", "f", 0), metadata_schema(9))),
    ],
)
def test_receipts_that_are_none_are_refused(bad: bytes) -> None:
    with pytest.raises((bf.CorruptError, bf.UnsafePathError)):
        decode_receipt(bad, "9", DEFAULT_LIMITS)
    with pytest.raises(bf.CorruptError):
        decode_receipt(encode_receipt(receipt("1-0-2")), "8", DEFAULT_LIMITS)


@pytest.mark.parametrize("is_sent", [False, True])
def test_of_several_attempts_the_last_counts(is_sent: bool) -> None:
    attempts = [
        receipt(token, msgspec.structs.replace(STAT, path=f"p/f_{token}_9.parquet"))
        for token in ("3-1-9", "3-1-11", "3-0-40")
    ]
    sent = [encode_receipt(each) if is_sent else each for each in attempts]
    winners = find_winners(sent, "9", DEFAULT_LIMITS)
    assert winners == {"p": {"f": sent[1]}}
    assert list(stats_by_partition(winners)["p"]) == [attempts[1].stat]
    with pytest.raises(ValueError, match="tasks 3 and 4 both had rows of file group f"):
        find_winners([*sent, receipt("4-0-0", None)], "9", DEFAULT_LIMITS)


def test_sent_receipts_of_one_file_stay_as_they_are_and_give_the_same_commit() -> None:
    def stat_of(partition: str, file_id: str) -> WriteStat:
        path = f"{partition}/{file_id}_1-0-2_9.parquet"
        return WriteStat(file_id, path, prev_commit="8", partition_path=partition, num_writes=7)

    def receipt_of(partition: str, file_id: str, **given: Any) -> Receipt:
        stat = stat_of(partition, file_id)
        said = {"partition_path": partition, "file_id": file_id, "write_token": "1-0-2"}
        return Receipt(**{**said, "stat": stat, **given})

    plain, late = receipt_of("p", "f"), receipt_of("q", "f")
    reported = receipt_of("p", "g", report=RowReport([]))
    virtual = receipt_of("p", "h", pointed=(PointedReceipt(stat_of("p", "i"), RowReport([])),))
    empty, lone = receipt_of("p", "j", stat=None), receipt_of("r", "k", stat=None)
    receipts = (plain, late, reported, virtual, empty, lone)
    sent = [encode_receipt(each) for each in receipts]
    winners = find_winners(sent, "9", DEFAULT_LIMITS)
    assert winners == {
        "p": {"f": sent[0], "g": reported, "h": virtual, "j": empty},
        "q": {"f": sent[1]},
        "r": {"k": lone},
    }
    assert file_groups_of(winners) == [*(("p", f) for f in "fghj"), ("q", "f"), ("r", "k")]
    assert reports_by_path(winners) == dict.fromkeys(
        ("p/g_1-0-2_9.parquet", "p/i_1-0-2_9.parquet"), RowReport([])
    )
    listed = {"p": [stat_of("p", f) for f in "fghi"], "q": [stat_of("q", "f")]}
    stats = stats_by_partition(winners)
    assert {path: list(own) for path, own in stats.items()} == listed
    assert (len(stats["p"]), stats["p"][0], stats["p"][1:]) == (4, listed["p"][0], listed["p"][1:])
    lazy, whole = (CommitMetadata(partition_to_write_stats=each) for each in (stats, listed))
    for encode in (encode_commit_metadata_avro, encode_commit_metadata_json):
        assert encode(lazy, False) == encode(whole, False)
        assert decode_commit_metadata(encode(lazy, False)) == whole
