"""A task writes its files while the write that it belongs to is taken for dead and taken back.

Its process stood still, and goes on amid the rollback. A file that it leaves counts as committed
once the timeline begins after the write, and every row of the file is then read twice.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import bucketfmt as bf
from bucketfmt.testing.crashes import SimulatedProcess
from bucketfmt.testing.interleavings import interleave_everywhere
from bucketfmt.testing.memory_store import MemoryStore
from soak.works.works import KINDS, NEXT, SCHEMA, Kind, Work, make, read_rows, rows

TASKS = [kind for kind in KINDS if kind.metadata == () and kind.index.group_bytes is None]


def upsert(table: bf.Table) -> None:
    table.upsert(rows(*NEXT))


def roll_back(table: bf.Table) -> None:
    pending = table.timeline.writes.pending.first
    if pending is not None:
        table.rollback(pending.requested_time)


def files_of(store: MemoryStore, instant: str) -> list[str]:
    """What an instant left, but for what tells that it was rolled back and files of slices."""
    return [path for path in store.files if instant in path]


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("work", [upsert, roll_back], ids=["next write", "rollback"])
@pytest.mark.parametrize("kind", TASKS, ids=str)
def test_a_task_leaves_no_file(kind: Kind, work: object) -> None:
    base = make(kind, Work("write", upsert))
    given = rows(("k0", 3, "a"), ("k1", 3, "b"), ("n", 3, "c"))
    driver = SimulatedProcess(base, 1, kind.writer).open()
    task = driver.start_write("upsert", SCHEMA).hand_over()
    receipts: list[bytes] = []

    def go_on(table: bf.Table) -> None:
        late = replace(task, table=replace(task.table, store=table.store))
        receipts.extend(late.write(given, "0-0-0"))

    expected = read_rows(base)
    if work is upsert:
        alone = base.copy()
        upsert(SimulatedProcess(alone, 2, kind.writer).open())
        expected = read_rows(alone)
    for met in interleave_everywhere(base, work, go_on, process=2, writer=kind.writer):  # type: ignore[arg-type]
        assert met.first.error is None, met
        assert met.second.error is None or isinstance(met.second.error, bf.ConflictError), met
        assert read_rows(met.store) == expected, met
        left = [path for path in files_of(met.store, task.instant) if path[0] in "abc"]
        assert left == [], met
    assert receipts, "the task comes before the rollback, too"
