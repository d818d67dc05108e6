"""Has one `Table` used by several threads, forked children and other processes at a time.

Each worker adds keys of its own and counts up a row that all share, and writes down what it was
told to be committed. Afterwards every acknowledged key is there, the count is the number of
acknowledged increments, nobody was told anything but typed errors, and a full check finds nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import tempfile
import threading
import time
import traceback
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import bucketfmt as bf
from soak.covering import cover
from soak.figures import tell_figures
from soak.progress import Progress
from soak.works.works import KINDS, SCHEMA, Kind, rows

__all__ = ["TRIALS", "Outcome", "Trial", "run_trial", "run_trials", "sample_trials"]

_WORKERS = 3
_COUNTER = "counter"
_PATIENCE_S = 240
_REFUSED = (bf.ConflictError, bf.LockTimeoutError)


class Trial(NamedTuple):
    """What is tried, by names.

    Attributes:
        concurrency: How the workers share the `Table`.
        lock: As of `WriterConfig`.
        kind: Of table.
        beside: The service that runs meanwhile, or "nothing".
        place: disk or S3.
    """

    concurrency: str
    lock: str
    kind: str
    beside: str
    place: str


@dataclass
class Outcome:
    """What came of a trial.

    Attributes:
        acknowledged: How many writes were.
        refused: How many raised a typed error that says so.
        bad: What is wrong; empty if nothing is.
    """

    acknowledged: int = 0
    refused: int = 0
    bad: list[str] = field(default_factory=list)


# --- what workers do


def _work(table: bf.Table, number: int, rounds: int, log: str) -> None:
    """Write until `rounds` keys and `rounds` increments are acknowledged; log each."""
    with open(log, "a") as told:

        def tell(*what: object) -> None:
            told.write(json.dumps(what) + "\n")
            told.flush()

        try:
            for turn in range(rounds):
                key = f"{number}-{turn}"
                row = rows((key, number, "ab"[turn % 2]))
                if not _until_done(lambda row=row: table.upsert(row, retries=0), tell):  # type: ignore[misc]
                    return
                tell("key", key, "ab"[turn % 2])
                if not _until_done(lambda: _count_up(table), tell):
                    return
                tell("count")
        except BaseException:
            tell("bad", traceback.format_exc())
        finally:
            tell("end")


def _until_done(act: Callable[[], object], tell: Callable[..., None]) -> bool:
    """Repeat until it is not refused; return False if it will always be."""
    began = time.monotonic()
    while True:
        try:
            act()
        except _REFUSED:
            tell("refused")
        except bf.NotFoundError as error:
            if "read again" not in str(error):
                raise
            tell("refused")
        except bf.UnsupportedError as error:
            if "another process" not in str(error):
                raise
            tell("unsupported")
            return False
        else:
            return True
        if time.monotonic() - began > _PATIENCE_S:
            raise TimeoutError("refused again and again")


def _count_up(table: bf.Table) -> object:
    seen = table.timeline
    key = rows((_COUNTER, 0, "a")).select(["id", "p"])
    (found,) = table.lookup(key).to_pylist()
    return table.upsert(rows((_COUNTER, found["v"] + 1, "a")), read_at=seen)


_SERVICES: Mapping[str, Callable[[bf.Table], object]] = {
    "compact": lambda t: t.compact(),
    "clean": lambda t: (t.compact(), t.clean(retain=1, dry_run=False)),
    "archive": lambda t: t.archive(min_commits=1, max_commits=1),
}


# --- how they share the table

Run = Callable[[bf.Table, int, list[str]], None]


def _in_threads(table: bf.Table, rounds: int, logs: list[str]) -> None:
    threads = [
        threading.Thread(target=_work, args=(table, number, rounds, log))
        for number, log in enumerate(logs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _in_asyncio(table: bf.Table, rounds: int, logs: list[str]) -> None:
    async def work() -> None:
        working = (
            asyncio.to_thread(_work, table, number, rounds, log) for number, log in enumerate(logs)
        )
        await asyncio.gather(*working)

    asyncio.run(work())


def _in_forks(table: bf.Table, rounds: int, logs: list[str]) -> None:
    """Fork while a thread of the parent writes."""
    mine, *theirs = logs
    thread = threading.Thread(target=_work, args=(table, 0, rounds, mine))
    thread.start()
    children = []
    for number, log in enumerate(theirs, 1):
        child = os.fork()
        if not child:
            _work(table, number, rounds, log)
            os._exit(0)
        children.append(child)
    thread.join()
    for child in children:
        os.waitpid(child, 0)


def _in_processes(method: str) -> Run:
    def run(table: bf.Table, rounds: int, logs: list[str]) -> None:
        context = multiprocessing.get_context(method)
        processes = [
            context.Process(target=_work, args=(table, number, rounds, log))  # type: ignore[attr-defined]
            for number, log in enumerate(logs)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()

    return run


def _in_a_pool(table: bf.Table, rounds: int, logs: list[str]) -> None:
    work = [(table, number, rounds, log) for number, log in enumerate(logs)]
    with multiprocessing.get_context("fork").Pool(len(logs)) as pool:
        pool.starmap(_work, work, chunksize=1)


_CONCURRENCIES: Mapping[str, Run] = {
    "threads": _in_threads,
    "to_thread": _in_asyncio,
    "fork": _in_forks,
    "pool": _in_a_pool,
    "spawn": _in_processes("spawn"),
}
_LOCKS = ("auto", "storage", "filesystem", "process")
_BESIDE = ("nothing", *_SERVICES)
_PLACES = ("disk", "S3")
_KINDS = [str(kind) for kind in KINDS]
TRIALS = [Trial(*names) for names in product(_CONCURRENCIES, _LOCKS, _KINDS, _BESIDE, _PLACES)]


def sample_trials(seed: str) -> list[Trial]:
    """Return what `make test` tries: each concurrency, lock, version, type, index, and service
    beside on a disk, and one trial on S3.
    """
    cases = {(*t.kind.split("-"), *t._replace(kind="")): t for t in TRIALS}
    on_disk = [case for case, trial in cases.items() if trial.place == "disk"]
    on_s3 = [case for case, trial in cases.items() if trial.place == "S3"]
    chosen = [*cover(on_disk, seed, strength=1), *cover(on_s3, seed, strength=0)]
    return [cases[case] for case in chosen]


# --- trials


def run_trial(trial: Trial, root: str, options: Mapping[str, Any], rounds: int) -> Outcome:
    """Try one; `root` is where tables go, a folder or a bucket."""
    kind = next(kind for kind in KINDS if str(kind) == trial.kind)
    table = _make(kind, trial.lock, f"{root}/t{uuid.uuid4().hex}", options)
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks next to threads
        logs = [str(Path(folder, f"told-{number}")) for number in range(_WORKERS)]
        with _served(table, trial.beside, outcome):
            _CONCURRENCIES[trial.concurrency](table, rounds, logs)
        told = [
            [json.loads(line) for line in Path(log).read_text().splitlines()]
            for log in logs
            if Path(log).exists()
        ]
    _judge(trial, table, told, outcome, options)
    return outcome


def _make(kind: Kind, lock: str, uri: str, options: Mapping[str, Any]) -> bf.Table:
    table = bf.create(
        uri,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=kind.index,
        table_type="MERGE_ON_READ" if kind.is_logged else "COPY_ON_WRITE",
        table_version=kind.version,
        storage_options=options or None,
        writer=bf.WriterConfig(lock=lock),  # type: ignore[arg-type]
    )
    table.upsert(rows((_COUNTER, 0, "a"), ("other", 0, "b")))
    return table


@contextlib.contextmanager
def _served(table: bf.Table, beside: str, outcome: Outcome) -> Iterator[None]:
    """Have a thread of this process serve the same `Table` meanwhile."""
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            began = time.monotonic()
            try:
                _SERVICES[beside](table)
            except _REFUSED:
                outcome.refused += 1
            except bf.NotFoundError as error:
                if "read again" not in str(error):
                    outcome.bad.append(traceback.format_exc())
                    return
            except BaseException:
                outcome.bad.append(traceback.format_exc())
                return
            # A write of version 6 that began before a compaction was planned is in conflict with
            # it: one right after the other would leave writers no time.
            ended.wait(0.02 + 4 * (time.monotonic() - began))

    thread = threading.Thread(target=serve)
    if beside != "nothing":
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if beside != "nothing":
            thread.join()


def _judge(
    trial: Trial,
    table: bf.Table,
    told: list[list[list[Any]]],
    outcome: Outcome,
    options: Mapping[str, Any],
) -> None:
    happened = Counter(what for log in told for what, *_ in log)
    keys = Counter(tuple(rest) for log in told for what, *rest in log if what == "key")
    outcome.acknowledged = happened["key"] + happened["count"]
    outcome.refused += happened["refused"]
    outcome.bad += [rest[0] for log in told for what, *rest in log if what == "bad"]
    if happened["end"] != _WORKERS:
        outcome.bad.append(f"{_WORKERS - happened['end']} workers did not come to an end")
    must_refuse = trial.lock == "process" and trial.concurrency in ("fork", "pool", "spawn")
    if must_refuse != bool(happened["unsupported"]):
        outcome.bad.append(f"{happened['unsupported']} workers were told of the lock")
    fresh = bf.open(table.uri, storage_options=options or None)
    found = [(row["id"], row["p"], row["v"]) for row in fresh.scan().to_arrow().to_pylist()]
    there = Counter((key, p) for key, p, _ in found if key not in (_COUNTER, "other"))
    if there != keys:
        outcome.bad.append(f"missing {sorted(keys - there)}, too many {sorted(there - keys)}")
    counts = [v for key, _, v in found if key == _COUNTER]
    if counts != [happened["count"]]:
        outcome.bad.append(f"the counter is {counts} after {happened['count']} increments")
    report = fresh.check(depth="full")
    findings = [finding for finding in report.findings if finding.severity != "info"]
    if findings or report.status == "incomplete":
        outcome.bad.append(f"{report.status}: {findings}")


def run_trials(
    trials: Iterable[Trial], options: Mapping[str, Any], *, rounds: int, minutes: float, save: bool
) -> int:
    """Try all of them or as many as fit, print what came of it, and return 1 if anything is bad.

    Args:
        trials: In which order.
        options: Storage options of an S3 that has the bucket `tables`.
        rounds: Keys and increments of each worker.
        minutes: Begin no trial after this.
        save: Keep the figures for the report.
    """
    until = time.monotonic() + minutes * 60
    sums: dict[tuple[str, str], Counter[str]] = {}
    progress = Progress()
    for number, trial in enumerate(trials, 1):
        if time.monotonic() > until:
            break
        with tempfile.TemporaryDirectory() as folder:
            root = folder if trial.place == "disk" else "s3://tables"
            given = {} if trial.place == "disk" else options
            outcome = run_trial(trial, root, given, rounds)
        for text in outcome.bad:
            print(f"\n{trial}: {text}")
        total = sums.setdefault((trial.concurrency, trial.lock), Counter())
        total.update(
            {
                "trials": 1,
                "acknowledged": outcome.acknowledged,
                "refused": outcome.refused,
                "bad": len(outcome.bad),
            }
        )
        progress.tell(f"{number}: {trial.concurrency}, {trial.lock}")
    progress.end()
    saved = [
        {"table": f"{concurrency}, {lock}", **total}
        for (concurrency, lock), total in sorted(sums.items())
    ]
    return tell_figures(saved, "threads", save=save)
