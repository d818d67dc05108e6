"""Processes whose clocks differ, and that are stopped for longer than their leases last.

Three processes write to one table, with the services after their commits: the clock of one is
ahead, that of another behind. Each is stopped (SIGSTOP) at any moment. What was acknowledged has to
be there, and at the end the check finds nothing.
"""

from __future__ import annotations

import random
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.timeline.machine import Machine
from soak.figures import tell_figures
from soak.processes.children import hear, start_child, stop_in_turns
from soak.processes.rounds import Kind, check_clean, play_rounds

__all__ = ["KINDS", "play_clocks", "run_clocks"]

_SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
_SHARED = [f"shared-{number}" for number in range(20)]
_SECONDS = 25  # of a table
_LEASE_S, _HEARTBEAT_S = 1.5, 1.0
_STOPS_S = (0.2, 2.2, 4.0)
_SKEWS_S = (1, 5, 60, 3600)
_AHEAD_S = 5 * 3600  # of who made the table

KINDS = [
    Kind(version, table_type, index)
    for version in (6, 8, 9)
    for table_type in ("MERGE_ON_READ", "COPY_ON_WRITE")
    for index in ("simple:2", "record")
]


@dataclass
class _Told:
    """What a process has done.

    Attributes:
        rows: The greatest number that was acknowledged of each key.
        tried: Keys whose deletion was begun; `deleted`: and acknowledged.
        conflicts: How many operations were refused.
        works: How many were acknowledged.
        wrong: An error that should not be.
    """

    rows: dict[str, int] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    conflicts: int = 0
    works: int = 0
    wrong: str | None = None


def _now(ahead_s: float) -> float:
    return time.time() + ahead_s


def _writer(ahead_s: float = 0) -> bf.WriterConfig:
    return bf.WriterConfig(
        lock="storage",
        lock_lease_s=_LEASE_S,
        lock_timeout_s=30,
        heartbeat_interval_s=_HEARTBEAT_S,
        machine=Machine(now=partial(_now, ahead_s)),
    )


def _run(uri: str, number: int, ahead_s: float, seed: str, until: float, told: Connection) -> None:
    """Be a child."""
    warnings.simplefilter("ignore")
    done = _Told()
    try:
        _work(bf.open(uri, writer=_writer(ahead_s)), number, random.Random(seed), until, done)  # noqa: S311
    except Exception:
        done.wrong = traceback.format_exc()
    told.send(done)


def _work(table: bf.Table, number: int, chance: random.Random, until: float, done: _Told) -> None:
    """Write, delete and clean until the time is over."""
    turn = 0
    while time.monotonic() < until:
        turn += 1
        work = chance.choice(["upsert", "upsert", "upsert", "delete", "clean"])
        try:
            if work == "clean":
                table.clean(retain=2)
            elif work == "delete" and turn > 3:
                key = f"own-{number}-{chance.randrange(1, turn)}"
                done.tried.add(key)
                table.delete([key])
                done.deleted.add(key)
            else:
                rows = dict.fromkeys([f"own-{number}-{turn}", chance.choice(_SHARED)], turn * 3)
                table.upsert(_as_table(rows))
                for key in rows:
                    done.rows[key] = max(done.rows.get(key, 0), turn * 3)
            done.works += 1
        except (bf.ConflictError, bf.LockLostError, bf.LockTimeoutError):
            done.conflicts += 1


def play_clocks(
    folder: str, kind: Kind, seed: str, seconds: float
) -> tuple[Counter[str], str | None]:
    """Have the processes work on one table.

    Args:
        folder: Of the table.
        kind: Of the table.
        seed: Of what is done; when it is done, the machine decides.
        seconds: How long.

    Returns:
        How often what was done, and what is wrong, in words; None if nothing is.
    """
    chance = random.Random(seed)  # noqa: S311  (an order, no secret)
    ahead_s = chance.choice([0, _AHEAD_S])
    table = bf.create(
        folder,
        schema=_SCHEMA,
        record_key=["id"],
        ordering=["n"],
        index=bf.parse_index(kind.index),
        table_type=kind.table_type,
        table_version=kind.version,
        writer=_writer(ahead_s),
    )
    table.upsert(_as_table(dict.fromkeys(_SHARED, 0)))
    skews = [0, chance.choice(_SKEWS_S), -chance.choice(_SKEWS_S)]
    until = time.monotonic() + seconds
    children = [
        start_child(_run, folder, number, skew, f"{seed} {number}", until)
        for number, skew in enumerate(skews)
    ]
    stops = stop_in_turns(
        children, until, chance, lambda: (chance.uniform(0, 1.2), chance.choice(_STOPS_S))
    )
    told: list[_Told] = hear(children)
    figures = Counter(works=sum(each.works for each in told), stops=stops)
    figures["conflicts"] = sum(each.conflicts for each in told)
    wrong = [each.wrong for each in told if each.wrong is not None]
    if not wrong:
        try:
            _check(folder, told)
        except Exception:
            wrong.append(traceback.format_exc())
    of_what = f"{kind} with seed {seed}, clocks {skews}, made {ahead_s} s ahead"
    return figures, f"{of_what}: {wrong[0]}" if wrong else None


def _check(folder: str, told: list[_Told]) -> None:
    """Compare the table with what was acknowledged."""
    time.sleep(2 * _HEARTBEAT_S + _LEASE_S)  # nobody who was refused looks alive any more
    table = bf.open(folder, writer=_writer())
    table.upsert(_as_table({"last": 0}))
    read = table.scan().to_arrow().to_pylist()
    found = {row["id"]: row["n"] for row in read}
    if len(found) < len(read):
        raise AssertionError(f"{len(read)} rows of {len(found)} keys")
    acknowledged: dict[str, int] = {}
    for each in told:
        for key, number in each.rows.items():
            if key not in each.tried:
                acknowledged[key] = max(number, acknowledged.get(key, 0))
    lost = {k: (found.get(k), n) for k, n in acknowledged.items() if found.get(k, -1) < n}
    if lost:
        raise AssertionError(f"keys with what is there, and what was acknowledged: {lost}")
    left = sorted(key for each in told for key in each.deleted if key in found)
    if left:
        raise AssertionError(f"deleted keys that are there: {left}")
    pending = table.timeline.pending.of("commit", "deltacommit").instants
    if pending:
        raise AssertionError(f"writes are pending: {pending}")
    check_clean(table)


def _as_table(rows: dict[str, int]) -> pa.Table:
    return pa.table({"id": [*rows], "n": pa.array([*rows.values()], pa.int64())}, _SCHEMA)


def run_clocks(seed: int, *, minutes: float, save: bool) -> int:
    """Play on tables of every kind, print what came of it, and return 1 if anything is wrong.

    Args:
        seed: Of the first tables.
        minutes: Begin no table after this.
        save: Keep the figures for the report.
    """
    play = partial(play_clocks, seconds=_SECONDS)
    return tell_figures(play_rounds(KINDS, play, [1, 3, 6], seed, minutes), "clocks", save=save)
