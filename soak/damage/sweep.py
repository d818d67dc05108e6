"""Damages a file in every way of one kind, reads the table, and counts what came of it.

Each file is swept in a process of its own under a memory limit, since the worst that damaged
bytes do is to end the process. Then the sweep goes on behind the case that did.
"""

from __future__ import annotations

import multiprocessing
import resource
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from typing import Protocol

from bucketfmt.testing.corruptions import Damage
from bucketfmt.testing.memory_store import MemoryStore
from soak.damage.damages import damages_of
from soak.damage.judge import GOOD, Judge, Outcome
from soak.damage.regions import FRAMING, regions_of
from soak.damage.tables import question_about, tiny_table

__all__ = ["Bad", "Sweep", "Task", "run_sweep"]

MEMORY_LIMIT = 16 << 30  # of addresses: threads and allocators reserve some gigabytes
_PATIENCE = 60  # seconds for one case, of which an ordinary one takes ten milliseconds
_EXAMPLES_MAX = 200


@dataclass(frozen=True)
class Task:
    """One file of one table, the kind of damage, and who reads; `stride` 1 tries every case."""

    table: str
    path: str
    damage: str
    seed: int = 0
    stride: int = 1
    reader: str = "bucketfmt"


@dataclass(frozen=True)
class Bad:
    """A case that was neither read right nor refused."""

    task: Task
    what: str
    region: str
    outcome: Outcome
    detail: str


@dataclass
class Sweep:
    """What became of the cases of one task, by region and outcome."""

    task: Task
    counts: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    bad: list[Bad] = field(default_factory=list)


def run_sweep(task: Task) -> Sweep:
    """Run all cases of a task."""
    sweep = Sweep(task)
    data = tiny_table(task.table).files[task.path]
    regions = regions_of(task.path, data)
    with closing(_outcomes(task)) as outcomes:
        for case in _cases(task):
            outcome, detail = next(outcomes)
            cut = task.damage == "cut"
            region = FRAMING if cut else regions[min(case.offset, len(data) - 1)]
            sweep.counts[region, outcome] += 1
            if outcome not in GOOD and len(sweep.bad) < _EXAMPLES_MAX:
                sweep.bad.append(Bad(task, case.what, region, outcome, detail))
    return sweep


def _cases(task: Task) -> Iterator[Damage]:
    data = tiny_table(task.table).files[task.path]
    return damages_of(task.damage, data, task.seed, task.stride)


def _outcomes(task: Task) -> Generator[tuple[Outcome, str], None, None]:
    """Yield the outcome of each case, in order, starting a process again whenever it ended."""
    context = multiprocessing.get_context("spawn")
    done = 0
    while True:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(task, done, theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            while True:
                if not ours.poll(_PATIENCE):
                    process.kill()
                outcome, detail = ours.recv()
                done += 1
                yield Outcome(outcome), detail
        except EOFError:
            process.join()
            if process.exitcode is None or process.exitcode >= 0:
                raise RuntimeError(f"{task}: the sweep itself failed") from None
            done += 1
            yield Outcome.ENDED, f"exit code {process.exitcode}"
        finally:
            process.kill()
            process.join()
            ours.close()


def _work(task: Task, first: int, results: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    store = tiny_table(task.table)
    judge = _judge(task, store)
    for case in islice(_cases(task), first, None):
        outcome, detail = judge.outcome(store.with_file(task.path, case.data))
        results.send((outcome.value, detail))


class _Judge(Protocol):
    def outcome(self, damaged: MemoryStore) -> tuple[Outcome, str]: ...


def _judge(task: Task, store: MemoryStore) -> _Judge:
    if task.reader == "bucketfmt":
        return Judge(store, question_about(task.table))
    from soak.damage.peers import HudiRsJudge  # noqa: PLC0415  (only those who compare need it)

    return HudiRsJudge(store)
