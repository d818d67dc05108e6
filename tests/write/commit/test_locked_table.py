"""Every change is published through the locked table, and its hooks run right before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.names.instants import comparable_action
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import change_properties
from bucketfmt.write.commit.locked_table import LockedTable, PendingChange
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, rows

pytestmark = pytest.mark.rotated

_METADATA = "hoodie.table.metadata.partitions"


@dataclass
class Watched:
    """A table, and what its hook saw: action and operation type of each change."""

    table: bf.Table
    seen: list[tuple[str, str | None]]


def make(path: Path, version: int = 9, metadata_table: str = "refuse") -> bf.Table:
    writer = bf.WriterConfig(metadata_table=metadata_table)  # type: ignore[arg-type]
    table = create_table(
        str(path), bf.SimpleBucketIndex(2), "MERGE_ON_READ", table_version=version, writer=writer
    )
    table.upsert(rows(range(40), ts=1))
    return table


def hook_into(table: bf.Table, hook: Callable[[LockedTable, PendingChange], None]) -> None:
    transactions = table._transactions
    transactions.publish_hooks = (*transactions.publish_hooks, hook)


@pytest.fixture(params=[6, 8, 9])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Watched:
    table, seen = make(tmp_path / "t", request.param), []

    def watch(locked: LockedTable, change: PendingChange) -> None:
        assert locked.lock.holds()
        now = load_timeline(locked.store, locked.config)
        action = comparable_action(change.instant.action, 2)
        of_time = [i for i in now.instants if i.requested_time == change.instant.requested_time]
        own = [i for i in of_time if comparable_action(i.action, 2) == action]
        assert [i.is_completed for i in own] == [False]
        content = change.content
        of_commit = content.operation_type if isinstance(content, CommitMetadata) else None
        seen.append((change.instant.action, of_commit))

    hook_into(table, watch)
    return Watched(table, seen)


def test_whatever_is_published_goes_through_the_hooks(watched: Watched) -> None:
    table, seen = watched.table, watched.seen
    table.upsert(rows(range(5), ts=2))
    table.compact()
    point = table.savepoint()
    table.delete(["key-000001"])
    table.rollback(table.insert(rows([90], ts=3)).instant)
    table.insert_overwrite(rows([91], ts=4))
    table.restore(point)
    for ts in (5, 6):
        table.upsert(rows(range(5), ts=ts))
        table.compact()
    table.delete_savepoint(point)
    table.clean(retain=1, dry_run=False)
    assert seen == [
        ("deltacommit", "UPSERT"),
        ("compaction", "COMPACT"),
        ("savepoint", None),
        ("deltacommit", "DELETE"),
        ("deltacommit", "INSERT"),
        ("rollback", None),
        ("replacecommit", "INSERT_OVERWRITE"),
        ("restore", None),
        *[("deltacommit", "UPSERT"), ("compaction", "COMPACT")] * 2,
        ("clean", None),
    ]


def test_where_a_hook_raises_nothing_is_published(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t"), Model()
    model.upsert(rows(range(40), ts=1))
    table.upsert(rows(range(5), ts=2))
    model.upsert(rows(range(5), ts=2))

    def refuse(locked: LockedTable, change: PendingChange) -> None:
        raise bf.UnsupportedError("out of step")

    before = table._transactions.publish_hooks
    hook_into(table, refuse)
    for act in (lambda: table.upsert(rows(range(5), ts=3)), table.compact, table.savepoint):
        with pytest.raises(bf.UnsupportedError, match="out of step"):
            act()
    assert_reads_as(table.uri, model)
    # The write was taken back; a compaction and a savepoint are left to be done again.
    assert [i.action for i in table.timeline.pending.instants] == ["savepoint", "compaction"]
    table._transactions.publish_hooks = before
    assert table.compact() is not None
    assert table.savepoint() in [i.requested_time for i in table.timeline.of("savepoint").instants]
    assert_reads_as(table.uri, model)


def test_a_change_in_conflict_reaches_no_hook(watched: Watched) -> None:
    table = watched.table
    first, second = (table.start_write("upsert", SCHEMA) for _ in range(2))
    for started, ts in ((first, 2), (second, 3)):
        receipts = list(started.task.write(rows([1], ts=ts), "0-0-0"))
        with started:
            if started is first:
                started.publish(receipts)
                continue
            with pytest.raises(bf.ConflictError):
                started.publish(receipts)
    assert watched.seen == [("deltacommit", "UPSERT")]


def make_metadata_table(table: bf.Table) -> None:
    table.store.put_if_absent(".hoodie/metadata/files/some", b"x")
    change_properties(
        table.store, DEFAULT_LIMITS, 0.0, lambda given: {**given, _METADATA: "files"}, lambda: None
    )


def test_a_metadata_table_that_comes_during_a_write_is_met(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    started = table.start_write("upsert", SCHEMA)
    receipts = list(started.task.write(rows([1], ts=5), "0-0-0"))
    make_metadata_table(table)
    with pytest.raises(bf.UnsupportedError, match="metadata table"), started:
        started.publish(receipts)
    assert not table.timeline.pending.instants
    # No data file comes or goes with a savepoint.
    assert table.savepoint() == table.timeline.writes.completed.instants[-1].requested_time


def test_a_metadata_table_that_comes_during_a_write_is_dropped(tmp_path: Path) -> None:
    table = make(tmp_path / "t", metadata_table="drop")
    with table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(rows([1], ts=5), "0-0-0"))
        make_metadata_table(table)
        result = started.publish(receipts)
    assert result.instant == table.timeline.writes.completed.instants[-1].requested_time
    assert not bf.open(table.uri).config.metadata_partitions
    assert not Path(table.uri, ".hoodie/metadata").exists()
