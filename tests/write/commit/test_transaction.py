"""Writers next to one another: what is a conflict, what is not, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.timeline.commit_metadata import decode_commit_metadata
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.write.commit import keyed_commits
from bucketfmt.write.commit.transaction import Transaction
from bucketfmt.write.commit.writer_config import open_transactions
from bucketfmt.write.rows.started_write import WriteOptions
from bucketfmt.write.rows.writer import TableWriter
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

VERSIONS = [6, 8, 9]
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]


@pytest.fixture(params=[(v, t) for v in VERSIONS for t in TYPES], ids=lambda kind: f"{kind}")
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    version, table_type = request.param
    table = create_table(
        str(tmp_path / "t"), bf.SimpleBucketIndex(2), table_type, table_version=version
    )
    table.upsert(rows(range(40), ts=1))
    return table


def keys_by_bucket(table: bf.Table) -> dict[tuple[str, int], list[int]]:
    located = table.locate(rows(range(200), ts=0).select(["id", "region"])).to_pylist()
    found: dict[tuple[str, int], list[int]] = {}
    for row in located:
        group = row["partition_path"], row["bucket_id"]
        found.setdefault(group, []).append(int(row["record_key"][4:]))
    return found


def slow_writer(table: bf.Table, meanwhile: Callable[[], object]) -> TableWriter:
    """A writer whose first instant is overtaken by something else."""
    other = bf.open(table.uri)
    transactions = open_transactions(other.store, other.config, other.limits, bf.WriterConfig())
    begin, overtaken = transactions.begin, [meanwhile]

    def begin_slowly(action: str) -> Transaction:
        begun = begin(action)
        if overtaken:
            overtaken.pop()()
        return begun

    transactions.begin = begin_slowly  # type: ignore[method-assign]
    return TableWriter(other._snapshot, other._adopt, other._index_finder, transactions)


def test_writers_to_the_same_bucket_are_in_conflict(table: bf.Table) -> None:
    (_, mine), *_ = keys_by_bucket(table).items()
    writer = slow_writer(table, lambda: table.upsert(rows(mine[:1], ts=2, price=2.0)))
    with pytest.raises(bf.ConflictError, match="also changes bucket"):
        writer.write_rows(WriteOperation.UPSERT, rows(mine[1:2], ts=3), WriteOptions(retries=0))
    model = Model()
    model.upsert(rows(range(40), ts=1))
    model.upsert(rows(mine[:1], ts=2, price=2.0))
    assert_reads_as(table.uri, model)
    assert not table.timeline.pending.instants
    assert not list(Path(table.uri, ".hoodie/.temp").rglob("*.marker.*"))


def test_writers_to_other_buckets_are_not(table: bf.Table) -> None:
    (_, mine), (_, others), *_ = keys_by_bucket(table).items()
    writer = slow_writer(table, lambda: table.upsert(rows(others[:1], ts=2, price=2.0)))
    writer.write_rows(
        WriteOperation.UPSERT, rows(mine[:1], ts=3, price=3.0), WriteOptions(retries=0)
    )
    model = Model()
    for given in (rows(range(40), 1), rows(others[:1], 2, 2.0), rows(mine[:1], 3, 3.0)):
        model.upsert(given)
    assert_reads_as(table.uri, model)


def test_a_write_is_tried_again(table: bf.Table) -> None:
    (_, mine), *_ = keys_by_bucket(table).items()
    writer = slow_writer(table, lambda: table.upsert(rows(mine[:1], ts=2, price=2.0)))
    writer.write_rows(
        WriteOperation.UPSERT, rows(mine[:2], ts=3, price=3.0), WriteOptions(retries=1)
    )
    model = Model()
    for given in (rows(range(40), 1), rows(mine[:1], 2, 2.0), rows(mine[:2], 3, 3.0)):
        model.upsert(given)
    assert_reads_as(table.uri, model)


def test_a_write_whose_files_are_cleaned_is_tried_again(table: bf.Table) -> None:
    (_, mine), *_ = keys_by_bucket(table).items()
    model = Model()
    model.upsert(rows(range(40), ts=1))

    def overtake() -> None:
        for ts in (2, 3, 4):
            table.upsert(rows(mine[:1], ts))
            model.upsert(rows(mine[:1], ts))
            table.compact()
        table.clean(retain=1, dry_run=False)

    given = rows(mine[1:2], ts=9, price=9.0)
    with pytest.raises(bf.ConflictError):
        slow_writer(table, overtake).write_rows(
            WriteOperation.UPSERT, given, WriteOptions(retries=0)
        )
    assert_reads_as(table.uri, model)
    slow_writer(table, overtake).write_rows(WriteOperation.UPSERT, given, WriteOptions(retries=1))
    model.upsert(given)
    assert_reads_as(table.uri, model)
    with pytest.raises(ValueError, match="retries is 0 or more"):
        table.upsert(given, retries=-1)


def test_rows_that_pass_no_more_are_not_deleted(
    table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write between the search for rows and their deletion."""
    other, changes = bf.open(table.uri), [rows([1], ts=3, price=9.0)]
    delete_keys = TableWriter.delete_keys

    def delete_late(self: TableWriter, *given: Any) -> bf.CommitResult:
        if changes:
            other.upsert(changes.pop(0))
        return delete_keys(self, *given)

    monkeypatch.setattr(TableWriter, "delete_keys", delete_late)
    table.delete(filter=[("id", "in", ["key-000001", "key-000002"]), ("price", "<", 9)])
    model = Model()
    model.upsert(rows(range(40), ts=1))
    model.upsert(rows([1], ts=3, price=9.0))
    model.delete(["key-000002"])
    assert_reads_as(table.uri, model)
    changes.append(rows([3], ts=5))
    with pytest.raises(bf.ConflictError):
        table.delete(filter=[("id", "=", "key-000003")], retries=0)


def test_new_file_groups_of_one_bucket_are_in_conflict(table: bf.Table) -> None:
    new = rows([3], ts=1).set_column(4, "region", pa.array(["zz"]))
    writer = slow_writer(table, lambda: table.upsert(new))
    with pytest.raises(bf.ConflictError):
        writer.write_rows(WriteOperation.UPSERT, new, WriteOptions(retries=0))
    groups = [g for g in table.inspect.file_groups().to_pylist() if g["partition_path"] == "zz"]
    assert len(groups) == 1


def test_overwriting_what_was_written_meanwhile_is_a_conflict(table: bf.Table) -> None:
    (_, mine), *_ = keys_by_bucket(table).items()
    given = rows(mine[:1], ts=5)
    writer = slow_writer(table, lambda: table.upsert(rows(mine[1:2], ts=2, price=2.0)))
    with pytest.raises(bf.ConflictError):
        writer.write_rows(WriteOperation.INSERT_OVERWRITE, given, WriteOptions(retries=0))
    region = given["region"][0].as_py()
    writer = slow_writer(table, lambda: table.delete_partitions([region]))
    with pytest.raises(bf.ConflictError):
        writer.write_rows(WriteOperation.UPSERT, given, WriteOptions(retries=0))
    model = Model()
    model.upsert(rows(range(40), ts=1))
    model.upsert(rows(mine[1:2], ts=2, price=2.0))
    model.drop(region)
    assert_reads_as(table.uri, model)


def test_what_was_worked_out_from_an_older_table(table: bf.Table) -> None:
    (_, mine), (_, others), *_ = keys_by_bucket(table).items()
    seen = table.timeline
    table.upsert(rows(mine[:1], ts=2, price=2.0))
    with pytest.raises(bf.ConflictError):
        table.upsert(rows(mine[:1], ts=3), read_at=seen)
    table.upsert(rows(others[:1], ts=3, price=3.0), read_at=seen)
    model = Model()
    for given in (rows(range(40), 1), rows(mine[:1], 2, 2.0), rows(others[:1], 3, 3.0)):
        model.upsert(given)
    assert_reads_as(table.uri, model)


def test_what_was_worked_out_before_others_were_archived(table: bf.Table) -> None:
    """Those who wrote meanwhile are no longer on the timeline to be compared with."""
    (_, mine), (_, others), *_ = keys_by_bucket(table).items()
    model = Model()
    model.upsert(rows(range(40), ts=1))
    seen = table.timeline
    for number, key in enumerate((mine[0], *others[:2])):
        table.upsert(rows([key], ts=2 + number))
        model.upsert(rows([key], ts=2 + number))
    assert table.archive(min_commits=1, max_commits=1)
    with pytest.raises(bf.ConflictError, match="was archived since"):
        table.upsert(rows(mine[:1], ts=9), read_at=seen)
    assert_reads_as(table.uri, model)
    # What was archived before is no conflict, nor is an archive next to what is still there.
    seen = table.timeline
    table.upsert(rows(others[:1], ts=8))
    table.upsert(rows(mine[:1], ts=9), read_at=seen)
    for key, ts in ((others[0], 8), (mine[0], 9)):
        model.upsert(rows([key], ts))
    assert_reads_as(table.uri, model)


def test_a_write_that_began_earlier_and_was_archived_meanwhile(table: bf.Table) -> None:
    """It completed while another was at work that had begun later."""
    (_, mine), (_, others), *_ = keys_by_bucket(table).items()
    early = table.start_write("upsert", SCHEMA)
    receipts = list(early.task.write(rows(mine[:1], ts=5), "0-0-0"))
    table.upsert(rows(others[:1], ts=2))

    def end_and_archive() -> None:
        early.publish(receipts)
        bf.open(table.uri).archive(min_commits=1, max_commits=1)

    writer = slow_writer(table, end_and_archive)
    with pytest.raises(bf.ConflictError):
        writer.write_rows(WriteOperation.UPSERT, rows(mine[:1], ts=3), WriteOptions(retries=0))
    model = Model()
    for given in (rows(range(40), 1), rows(mine[:1], 5), rows(others[:1], 2)):
        model.upsert(given)
    assert_reads_as(table.uri, model)


def test_one_idempotency_key_commits_once(table: bf.Table) -> None:
    given = rows([1], ts=7, price=7.0)
    first = table.upsert(given, idempotency_key="batch 7", commit_metadata={"job": "nightly"})
    again = table.upsert(rows([1], ts=8), idempotency_key="batch 7")
    assert (first.repeated, again.repeated) == (False, True)
    assert replace(again, repeated=False, completion_time=first.completion_time) == first
    model = Model()
    model.upsert(rows(range(40), ts=1))
    model.upsert(given)
    assert_reads_as(table.uri, model)
    # A second writer that looked before the first had committed.
    writer = slow_writer(table, lambda: table.upsert(rows([1], ts=9), idempotency_key="9"))
    late = writer.write_rows(
        WriteOperation.UPSERT, rows([2], ts=9), WriteOptions(idempotency_key="9")
    )
    assert late.repeated
    model.upsert(rows([1], ts=9))
    assert_reads_as(table.uri, model)


def test_an_idempotency_key_counts_among_as_many_archived_commits_as_is_said(
    table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table version 6 archives three files of a commit; other instants count for nothing."""
    monkeypatch.setattr(keyed_commits, "_ARCHIVED_COMMITS_MAX", 4)
    writer = bf.WriterConfig(services=None)
    first = bf.open(table.uri, writer=writer).upsert(rows([1], ts=7), idempotency_key="seven")
    for ts in range(8, 15):
        opened = bf.open(table.uri, writer=writer)
        opened.upsert(rows([2], ts=ts))
        opened.clean(retain=1)
        opened.archive(min_commits=1, max_commits=2)
        archived = [i.requested_time for i in table.timeline.writes.completed.instants]
        found = bf.open(table.uri).find_commit("seven")
        if ts <= 11:  # three more commits are archived behind it
            assert found is not None
            assert found.instant == first.instant
    assert first.instant not in archived
    assert found is None


def test_what_a_commit_says(table: bf.Table) -> None:
    result = table.upsert(rows(range(35, 45), ts=2), commit_metadata={"job": "nightly"})
    (instant,) = (i for i in table.timeline.writes.instants if i.requested_time == result.instant)
    path = Path(table.uri, table.config.timeline_path, instant.file_name)
    metadata = decode_commit_metadata(path.read_bytes())
    assert metadata.operation_type == "UPSERT"
    assert metadata.extra_metadata["job"] == "nightly"
    assert '"name":"t_record"' in (metadata.extra_metadata["schema"] or "")
    stats = [s for own in metadata.partition_to_write_stats.values() for s in own]
    assert sorted(s.path or "" for s in stats) == sorted(result.files)
    version, logged = table.config.table_version, table.config.table_type == "MERGE_ON_READ"
    for stat in stats:
        size = Path(table.uri, stat.path or "").stat().st_size
        assert stat.file_size_in_bytes == stat.total_write_bytes == size
        assert stat.partition_path == (stat.path or "").rpartition("/")[0]
        if not logged:
            assert stat.prev_commit < result.instant
            named = f"_{stat.prev_commit}.parquet" if version >= 8 else ""
            assert (stat.prev_base_file or "").endswith(named)
            assert (stat.prev_base_file is None) == (version == 6)
            assert stat.log_files is None
        elif version == 6:
            assert stat.base_file.endswith(f"_{stat.prev_commit}.parquet")
            assert stat.log_files == [(stat.path or "").rpartition("/")[2]]
            assert stat.prev_commit < result.instant
        else:
            assert (stat.prev_commit, stat.base_file) == (result.instant, "")
            assert stat.log_files == [(stat.path or "").rpartition("/")[2]]
    times = {i.requested_time for i in table.timeline.instants}
    names = sorted(p.name for p in path.parent.iterdir() if p.name.startswith(result.instant))
    assert len(names) == 3, names  # requested, inflight, completed
    assert len(times) == 2
