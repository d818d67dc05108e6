"""A service loses the lock while it plans: what others did since is not in its plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.write.services.compaction import Compactor
from tests.reliability.works.lost_lock import LEASE_ENDS_S, SCHEMA, Trial, row

Others = Callable[[bf.Table], object]


def make(path: Path, version: int, table_type: bf.TableType, index: bf.Index) -> Trial:
    """Return a table of a row that was written three times."""
    table = bf.create(
        str(path / "t"),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=index,
        table_type=table_type,
        table_version=version,
        writer=bf.WriterConfig(services=None),
    )
    for value in range(3):
        table.upsert(row("x", value))
    return Trial(MemoryStore.of_folder(path / "t"))


def _compact_and_write(table: bf.Table) -> None:
    table.compact()
    table.upsert(row("x", 7))


def _plan_and_write(table: bf.Table) -> None:
    table.upsert(row("b", 8))
    assert Compactor(table._snapshot, table._transactions).schedule() is not None
    table.upsert(row("x", 7))


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("before", [".heartbeat/", ".compaction.requested"])
@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        (_compact_and_write, {"x": 7}),
        (_plan_and_write, {"x": 7, "b": 8}),
        (lambda table: table.upsert(row("x", 7)), {"x": 7}),
    ],
    ids=["compacted", "planned", "written"],
)
def test_a_late_compaction_plan_is_withdrawn(
    tmp_path: Path, version: int, before: str, meanwhile: Others, expected: dict[str, int]
) -> None:
    """It was executed over what others had compacted and written: their rows were gone."""
    trial = make(tmp_path, version, "MERGE_ON_READ", bf.SimpleBucketIndex(1))
    store = trial.paused(
        LEASE_ENDS_S, lambda: meanwhile(trial.open(services=None)), lambda path: before in path
    )
    with pytest.raises(bf.ConflictError, match="lock was lost"):
        trial.open(store, services=None).compact()
    if meanwhile is _plan_and_write:
        trial.open(services=None).compact()
    trial.check(expected)


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_plan_that_others_stand_on_stays(tmp_path: Path, version: int) -> None:
    """Its writer stands still once the plan is there: log files are named after it in version 6."""
    trial = make(tmp_path, version, "MERGE_ON_READ", bf.SimpleBucketIndex(1))
    is_there = [False]

    def after_the_plan(path: str) -> bool:
        was_there, is_there[0] = is_there[0], is_there[0] or ".compaction.requested" in path
        return was_there

    store = trial.paused(
        LEASE_ENDS_S, lambda: trial.open(services=None).upsert(row("x", 7)), after_the_plan
    )
    try:
        trial.open(store, services=None).compact()
    except bf.ConflictError:
        trial.open(services=None).compact()
    trial.check({"x": 7})


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("before", [".heartbeat/", ".clean.requested"])
def test_a_late_clean_keeps_what_a_rollback_brought_back(
    tmp_path: Path, version: int, before: str
) -> None:
    """It deleted the file that was the newest once the rollback had completed."""
    trial = make(tmp_path, version, "COPY_ON_WRITE", bf.SimpleBucketIndex(1))
    store = trial.paused(
        LEASE_ENDS_S, lambda: trial.open(services=None).rollback(), lambda path: before in path
    )
    with pytest.raises(bf.ConflictError, match="lock was lost"):
        trial.open(store, services=None).clean(retain=1, dry_run=False)
    trial.check({"x": 1})


@pytest.mark.parametrize("version", [6, 9])
def test_a_late_restore_takes_nothing_back(tmp_path: Path, version: int) -> None:
    trial = make(tmp_path, version, "COPY_ON_WRITE", bf.SimpleBucketIndex(1))
    saved = trial.open(services=None).savepoint()
    trial.open(services=None).upsert(row("x", 5))
    store = trial.paused(
        LEASE_ENDS_S,
        lambda: trial.open(services=None).upsert(row("b", 8)),
        lambda path: path.endswith(".restore.requested"),
    )
    with pytest.raises(bf.ConflictError, match="lock was lost"):
        trial.open(store, services=None).restore(saved)
    trial.check({"x": 5, "b": 8})


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_late_resize_is_rolled_back(tmp_path: Path, version: int) -> None:
    """Rows that others wrote since are in no file group of its plan."""
    index = bf.ConsistentHashingIndex(2)
    trial = make(tmp_path, version, "MERGE_ON_READ", index)
    trial.open(services=None).upsert(row("y", 1))
    store = trial.paused(
        LEASE_ENDS_S,
        lambda: _compact_and_write(trial.open(services=None)),
        lambda path: path.endswith((".clustering.requested", ".replacecommit.requested")),
    )
    with pytest.raises(bf.ConflictError, match="lock was lost"):
        trial.open(store, services=None).resize(max_file_size=1)
    trial.check({"x": 7, "y": 1})
