"""A savepoint made while a clean is under way is refused, or holds what it promises."""

from __future__ import annotations

from contextlib import suppress

import pytest

import bucketfmt as bf
from bucketfmt.storage.store import WRITE_VERBS
from bucketfmt.testing.crashes import SimulatedProcess, strike_everywhere
from bucketfmt.testing.faulty_store import Fault
from soak.works.works import KINDS, WORKS, Kind, make, read_rows

CLEAN = next(work for work in WORKS if work.name == "clean")


def rows_as_of(table: bf.Table) -> dict[str, list[tuple]]:
    """What was to be read after each write, as far as it can be."""
    found = {}
    for instant in table.timeline.writes.completed.instants:
        with suppress(bf.CorruptError):
            scanned = table.scan(as_of=instant.requested_time).to_arrow().to_pylist()
            found[instant.requested_time] = sorted(tuple(row.values()) for row in scanned)
    return found


@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[4], KINDS[6], KINDS[8]], ids=str)
def test_whatever_a_clean_has_done_so_far(kind: Kind) -> None:
    base = make(kind, CLEAN)
    before = rows_as_of(SimulatedProcess(base, 2, kind.writer).open())
    made, refused = set(), set()
    for aftermath in strike_everywhere(
        base, CLEAN.act, [Fault.KILL_AFTER], verbs=WRITE_VERBS, process=2, writer=kind.writer
    ):
        for instant, rows in before.items():
            store = aftermath.store.copy()
            try:
                SimulatedProcess(store, 3, kind.writer).open().savepoint(instant)
            except (ValueError, bf.CorruptError):
                refused.add(instant)
                continue
            made.add(instant)
            cleaning = SimulatedProcess(store, 4, kind.writer).open()
            cleaning.clean(retain=1, dry_run=False)
            cleaning.restore(instant)
            assert read_rows(store) == rows, aftermath
    assert max(before) in made - refused, "the newest write can be savepointed at any time"
    assert min(before) in refused


def test_what_hudi_savepoints_before_a_clean_goes_on() -> None:
    """It does not look at what a pending clean has in plan."""
    kind = KINDS[3]
    base = make(kind, CLEAN)
    first, *_ = before = rows_as_of(SimulatedProcess(base, 2, kind.writer).open())
    planned = next(
        aftermath
        for aftermath in strike_everywhere(
            base, CLEAN.act, [Fault.KILL_AFTER], process=2, writer=kind.writer
        )
        if aftermath.operation.endswith(".clean.requested")
    )
    store, savepointed = planned.store, base.copy()
    with pytest.raises(ValueError, match="a clean that was begun deletes"):
        SimulatedProcess(store, 3, kind.writer).open().savepoint(first)
    SimulatedProcess(savepointed, 1, kind.writer).open().savepoint(first)
    for path in savepointed.files.keys() - base.files.keys():
        store.put_if_absent(path, savepointed.files[path])
    cleaning = SimulatedProcess(store, 4, kind.writer).open()
    cleaning.clean(retain=1, dry_run=False)
    cleaning.restore(first)
    assert read_rows(store) == before[first]
