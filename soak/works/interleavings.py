"""Has every two things done to a table at a time, in every way one can come amid the other.

What is left is what one after the other would leave, or one of them where the other was refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import bucketfmt as bf
from bucketfmt.testing.crashes import SimulatedProcess
from bucketfmt.testing.interleavings import Interleaving, interleave_everywhere
from bucketfmt.testing.memory_store import MemoryStore
from soak.covering import spread
from soak.figures import tell_figures
from soak.progress import Progress
from soak.works.works import (
    KINDS,
    NEXT,
    Kind,
    Row,
    Work,
    grow_old,
    is_migrated,
    is_ring,
    lose_buckets,
    make,
    migrate,
    newest_write,
    read_rows,
    rows,
    schedule,
)

__all__ = ["FIRSTS", "MEETINGS", "SECONDS", "Meeting", "Tally", "interleave", "interleave_all"]

_PROCESS, _FOLLOWER = 2, 3
_LESS_THAN_A_LEASE_S = 5.0
_MORE_THAN_A_LEASE_S = 30.0
Act = Callable[[bf.Table], object]


class Meeting(NamedTuple):
    """Two pieces of work on one table, by names: the second is done amid the first.

    By two processes, by two threads that share one `Table`, or by two processes of which the first
    stands still meanwhile, for longer than its lease: "stalled".
    """

    kind: str
    first: str
    second: str
    writers: str = "processes"


@dataclass
class Tally:
    """What came of two pieces of work.

    Attributes:
        ways: In how many ways they met.
        refused: In how many of them one was refused.
        states: How many different states they left, each of which was looked at.
        bad: What is wrong with those where something is.
    """

    ways: int = 0
    refused: int = 0
    states: int = 0
    bad: list[str] = field(default_factory=list)


def _read(t: bf.Table) -> tuple[Row, ...]:
    found = t.scan().to_arrow().to_pylist()
    return tuple(sorted((row["id"], row["v"], row["p"]) for row in found))


def _read_and_write(t: bf.Table) -> object:
    """Work out rows from those there are."""
    before = t.timeline
    found = t.scan(filter=[("v", "<", 5)]).to_arrow().to_pylist()
    raised = [(row["id"], row["v"] + 10, row["p"]) for row in found]
    return t.upsert(rows(*raised), read_at=before)


def _roll_back(t: bf.Table) -> object:
    newest = newest_write(t)
    try:
        return t.rollback(newest)
    except ValueError as error:  # the other has rolled it back
        raise bf.ConflictError(str(error)) from error


_RESIZES = {"resize", "schedule a resize"}

SECONDS: Mapping[str, Act] = {
    "upsert": lambda t: t.upsert(rows(("k0", 6, "a"), ("k1", 6, "b"), ("n", 6, "b"))),
    "upsert of others": lambda t: t.upsert(rows(("m", 6, "c"))),
    "delete by filter": lambda t: t.delete(filter=[("v", ">", 3), ("v", "<", 6)]),
    "insert_overwrite": lambda t: t.insert_overwrite(rows(("o", 7, "a"))),
    "rehash": lambda t: t.rehash(3),
    "resize": lambda t: t.resize(max_file_size=1, max_buckets=4),
    "schedule a resize": lambda t: t.schedule_resize(max_file_size=1, max_buckets=4),
    "rescale": lambda t: t.rescale("a,3;c,1"),
    "roll back": _roll_back,
    "compact": lambda t: t.compact(),
    "schedule a compaction": schedule,  # and die: whoever comes next executes the plan
    "clean": lambda t: t.clean(retain=1, dry_run=False),
    "archive": lambda t: t.archive(min_commits=1, max_commits=1),
}
"""What is done amid something else."""

FIRSTS: Mapping[str, Act] = {
    **SECONDS,
    "read": _read,
    "read and write": _read_and_write,
    "delete_partitions": lambda t: t.delete_partitions(["b"]),
    "savepoint": lambda t: t.savepoint(),
    "migrate": migrate,
}
"""What something else is done amid."""

MEETINGS = [
    Meeting(str(kind), first, second, writers)
    for kind in KINDS
    for first in FIRSTS
    for second in SECONDS
    for writers in ("processes", "threads", "stalled")
    # A migration that stands still while it replaces hoodie.properties, and no sooner or later, is
    # known to leave the index stated (docs/decisions/0013).
    if (first, writers) != ("migrate", "stalled")
    if is_ring(kind)
    or not _RESIZES & {first, second}
    or (kind.is_directory and "schedule a resize" not in (first, second))
    if first != "migrate" or is_migrated(kind)
]
_READS = ("read", "read and write")
_TAKES_FILES = ("clean", "roll back")


def interleave_all(
    meetings: Iterable[Meeting], *, workers: int, most: int | None = None, save: bool
) -> int:
    """Have all of them meet, print what came of it, and return 1 if anything is bad.

    Args:
        meetings: What is done.
        workers: How many processes have works meet.
        most: As of `interleave`.
        save: Keep the figures for the report.
    """
    sums: dict[str, Tally] = {}
    progress = Progress()
    with ProcessPoolExecutor(workers) as pool:
        pending = {pool.submit(interleave, meeting, most): meeting for meeting in meetings}
        for number, done in enumerate(as_completed(pending), 1):
            meeting, tally = pending[done], done.result()
            for text in tally.bad:
                print(f"\n{meeting.first}, {meeting.second}: {text}", flush=True)
            total = sums.setdefault(f"{meeting.kind}, {meeting.writers}", Tally())
            total.ways += tally.ways
            total.refused += tally.refused
            total.states += tally.states
            total.bad += tally.bad
            progress.tell(f"{number} of {len(pending)}")
    progress.end()
    rows_saved = [
        {
            "table": kind,
            "ways": total.ways,
            "one refused": total.refused,
            "states looked at": total.states,
            "bad": len(total.bad),
        }
        for kind, total in sorted(sums.items())
    ]
    return tell_figures(rows_saved, "interleavings", save=save)


def interleave(meeting: Meeting, most: int | None = None, seed: str = "") -> Tally:
    """Have two things done at a time, in every way.

    Args:
        meeting: What is done.
        most: Before how many operations of the first the second works at most; all if None.
        seed: Another seed takes other operations.
    """
    warnings.simplefilter("ignore", RuntimeWarning)  # locks that could not be given back
    kind = next(kind for kind in KINDS if str(kind) == meeting.kind)
    # Who waits for a lock as long as its lease is takes it for that of a dead writer.
    kind = replace(kind, writer=replace(kind.writer, lock_timeout_s=_LESS_THAN_A_LEASE_S))
    first, second = FIRSTS[meeting.first], SECONDS[meeting.second]
    prepare = lose_buckets if meeting.first == "migrate" else grow_old
    base = make(kind, Work("", first, prepare=prepare))
    serial = _Serial(base, kind, first, second)
    numbers = None
    if most is not None:
        alone = SimulatedProcess(base.copy(), _PROCESS, kind.writer)
        table = alone.open()
        opening = len(alone.store.operations) if meeting.writers == "threads" else 0
        with suppress(bf.BucketfmtError):
            first(table)
        numbers = spread(len(alone.store.operations) - opening, most, f"{seed} {meeting}")
    tally, seen = Tally(), set()
    for met in interleave_everywhere(
        base,
        first,
        second,
        process=_PROCESS,
        writer=kind.writer,
        shared=meeting.writers == "threads",
        still_s=_MORE_THAN_A_LEASE_S if meeting.writers == "stalled" else 0,
        numbers=numbers,
    ):
        tally.ways += 1
        tally.refused += met.first.error is not None or met.second.error is not None
        state = met.store.state, str(met.first), met.first.value, str(met.second)
        if state in seen:
            continue
        seen.add(state)
        try:
            wrong = _find_wrong(met, kind, serial, meeting)
        except bf.BucketfmtError as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            tally.bad.append(f"{kind}: {met}: {wrong}")
    tally.states = len(seen)
    return tally


class _Serial:
    """What a table holds after each of two, and after both."""

    def __init__(self, base: MemoryStore, kind: Kind, first: Act, second: Act) -> None:
        self.neither = [read_rows(base)]
        self.first = _results(base, kind, first)
        self.second = _results(base, kind, second)
        self.both = _results(base, kind, first, second) + _results(base, kind, second, first)


def _results(base: MemoryStore, kind: Kind, *acts: Act) -> list[list[Row]]:
    """Return what is there after these; nothing if one of them cannot be done then."""
    store = base.copy()
    for number, act in enumerate(acts):
        table = SimulatedProcess(store, _PROCESS, kind.writer, chance=number).open()
        try:
            act(table)
        except bf.BucketfmtError:
            return []
    return [read_rows(store)]


def _find_wrong(met: Interleaving, kind: Kind, serial: _Serial, meeting: Meeting) -> str | None:
    """Return what is wrong with a table that two have worked on."""
    for outcome in (met.first, met.second):
        is_late = meeting.writers == "stalled" and outcome is met.first
        if is_late and isinstance(outcome.error, bf.LockLostError):
            continue
        if outcome.error is not None and not _may_be_told(outcome.error, meeting):
            return f"not a conflict, but {type(outcome.error).__name__}"
    done = met.first.error is None, met.second.error is None
    may_be = {
        (True, True): serial.both,
        (True, False): serial.first,
        (False, True): serial.second,
        (False, False): serial.neither,
    }[done]
    if meeting.writers == "stalled":
        may_be = [*may_be, *_stalled_orders(met, serial, meeting)]
    now = read_rows(met.store)
    if now not in may_be:
        return f"no order of the two leaves {now}, but {may_be}"
    has_read = meeting.first == "read" and done[0]
    if has_read and met.first.value not in map(tuple, (*serial.neither, *serial.second)):
        return f"it read {met.first.value}"
    store = met.store.copy()
    table = SimulatedProcess(store, _FOLLOWER, kind.writer).open()
    table.upsert(rows(*NEXT))
    if table._snapshot().state.pending_ring_changes:
        table.resize()
    table.compact()
    wanted = {(row[0], row[2]): row for row in (*now, *NEXT)}
    if read_rows(store) != sorted(wanted.values()):
        return f"the next write left {read_rows(store)}"
    findings = [f for f in table.check(depth="full").findings if f.severity != "info"]
    if findings or table.timeline.pending.of("commit", "deltacommit", "replacecommit").instants:
        return f"{findings}, {table.timeline.pending.instants} pending"
    return None


def _stalled_orders(met: Interleaving, serial: _Serial, meeting: Meeting) -> list[list[Row]]:
    """Return what else may be left where the first has published, and then stood still."""
    if meeting.second == "roll back":
        # It takes back what the first published, which is refused then, or writes it again.
        return [*serial.neither, *serial.first, *serial.both]
    is_unknown = isinstance(met.first.error, bf.LockLostError)
    is_finished = meeting.first == "roll back" and met.first.error is not None  # by the next
    return [*serial.both, *serial.first] if is_unknown or is_finished else []


def _may_be_told(error: bf.BucketfmtError, meeting: Meeting) -> bool:
    """Whether someone who met another may be told this."""
    if isinstance(error, bf.NotFoundError) and "read again" in str(error):
        return meeting.first in _READS and meeting.second in _TAKES_FILES
    return isinstance(error, bf.ConflictError | bf.LockTimeoutError | bf.UnsupportedError)
