"""Real processes, killed at any moment amid work on tables that keep a record index.

A child tells what it is about to do, does it, and tells that it is done, until it is killed. Then
the table has to be as before what was begun last, or as after it. The next write, or a restore that
finishes what was begun, has to put the rest right: no key is there twice, a look-up finds what a
scan does, and the check finds nothing.
"""

from __future__ import annotations

import random
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from multiprocessing.connection import Connection

import pyarrow as pa

import bucketfmt as bf
from soak.figures import tell_figures
from soak.processes.children import start_child
from soak.processes.rounds import Kind, check_clean, play_rounds

__all__ = ["KINDS", "play_kills", "run_kills"]

_SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("ts", pa.int64())]
)
_KEYS = 40
_LIFE_S = (0.02, 0.9)
_WORKS_MAX = 100
_KILLS = 8  # of a table

_Rows = dict[str, int]


def _writer(lease_s: float) -> bf.WriterConfig:
    """Return settings by which a dead writer is known to be dead before its lease has ended."""
    return bf.WriterConfig(
        lock="storage", lock_lease_s=lease_s, heartbeat_interval_s=lease_s * 0.15, services=None
    )


KINDS = [
    Kind(version, table_type, index)
    for (version, index), table_type in product(
        [(6, "record"), (6, "simple:2"), (8, "simple:2"), (9, "record"), (9, "record:partitioned")],
        ["COPY_ON_WRITE", "MERGE_ON_READ"],
    )
]


@dataclass(frozen=True)
class _Known:
    """What a table has to hold.

    Attributes:
        rows: The number of each key.
        past: The newest writes, the oldest first, each with the rows before it.
        saved: The savepoint, with the rows of that time.
        time: The last ordering value.
    """

    rows: _Rows = field(default_factory=dict)
    past: tuple[tuple[str, _Rows], ...] = ()
    saved: tuple[str, _Rows] | None = None
    time: int = 0


class _Worker:
    """Works on a table, and tells of it: first (rows it will hold, work), then what is known."""

    def __init__(self, table: bf.Table, known: _Known, connection: Connection, seed: float) -> None:
        self._table, self._known, self._connection = table, known, connection
        self._chance = random.Random(seed)  # noqa: S311  (an order, no secret)

    def work(self) -> None:
        works = [self._upsert] * 2 + [self._delete, self._rebuild, self._rebuild_keys]
        works += [self._roll_back] * 2 + [self._toggle, self._compact, self._save, self._restore]
        for _ in range(_WORKS_MAX):
            self._known = replace(self._known, time=self._known.time + 1)
            with suppress(bf.ConflictError):  # a dead writer may be alive still, by its heartbeat
                self._chance.choice(works)()
            self._connection.send(self._known)

    def _begin(self, rows: _Rows, work: str) -> None:
        self._connection.send((rows, work))

    def _wrote(self, instant: str, rows: _Rows) -> None:
        past = (*self._known.past, (instant, self._known.rows))
        self._known = replace(self._known, rows=rows, past=past)

    def _upsert(self) -> None:
        numbers = self._chance.sample(range(_KEYS), self._chance.randrange(1, 9))
        given = {f"{number}": self._known.time for number in numbers}
        rows = {**self._known.rows, **given}
        self._begin(rows, "upsert")
        self._wrote(self._table.upsert(_as_table(given)).instant, rows)

    def _delete(self) -> None:
        keys = self._chance.sample(sorted(self._known.rows), min(3, len(self._known.rows)))
        rows = {key: number for key, number in self._known.rows.items() if key not in keys}
        if keys:
            self._begin(rows, "delete")
            self._wrote(self._table.delete(keys).instant, rows)

    def _roll_back(self) -> None:
        if not self._known.past or self._known.saved is not None:
            return
        *past, (instant, rows) = self._known.past
        self._begin(rows, "rollback")
        try:
            self._table.rollback(instant)
        except (bf.ConflictError, ValueError):  # others stand on it, or it is being taken back
            self._known = replace(self._known, past=())
        else:
            self._known = replace(self._known, rows=rows, past=tuple(past))

    def _rebuild(self) -> None:
        self._begin(self._known.rows, "rebuild")
        self._table.metadata_table.rebuild()

    def _rebuild_keys(self) -> None:
        self._begin(self._known.rows, "rebuild of keys")
        self._table.metadata_table.rebuild("record_index")

    def _toggle(self) -> None:
        self._begin(self._known.rows, "init or drop of statistics")
        partitions = self._table.metadata_table
        has_columns = any(each.name == "column_stats" for each in partitions.list())
        (partitions.drop if has_columns else partitions.init)("column_stats")

    def _compact(self) -> None:
        if self._table.config.table_type == "MERGE_ON_READ":
            self._begin(self._known.rows, "compaction")
            self._table.compact()
            self._known = replace(self._known, past=())

    def _save(self) -> None:
        if self._known.saved is None and self._known.rows:
            self._begin(self._known.rows, "savepoint")
            saved = self._table.savepoint(), self._known.rows
            self._known = replace(self._known, saved=saved, past=())

    def _restore(self) -> None:
        if self._known.saved is None:
            return
        savepoint, rows = self._known.saved
        self._begin(rows, "restore")
        self._table.restore(savepoint)
        self._known = replace(self._known, rows=rows, past=())
        self._begin(rows, "end of a savepoint")
        self._table.delete_savepoint(savepoint)
        self._known = replace(self._known, saved=None)


def _run(
    uri: str, writer: bf.WriterConfig, known: _Known, seed: float, connection: Connection
) -> None:
    """Be the child."""
    warnings.simplefilter("ignore")
    try:
        _Worker(bf.open(uri, writer=writer), known, connection, seed).work()
    except Exception:
        connection.send(traceback.format_exc())


def play_kills(
    folder: str, kind: Kind, seed: str, kills: int = _KILLS, lease_s: float = 1.0
) -> tuple[int, str | None]:
    """Have children work on one table, and kill them.

    Args:
        folder: Of the table.
        kind: Of the table.
        seed: Of what is done, and when each child is killed.
        kills: How many children.
        lease_s: How long a child may stand still without losing the lock.

    Returns:
        The works that were done, and what is wrong, in words; None if nothing is.
    """
    chance = random.Random(f"{seed} {kind}")  # noqa: S311
    known, works = _Known(), 0
    index, writer = bf.parse_index(kind.index), _writer(lease_s)
    table = bf.create(
        folder,
        schema=_SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=index,
        table_type=kind.table_type,
        table_version=kind.version,
        writer=writer,
    )
    if not isinstance(index, bf.RecordIndex):
        table.metadata_table.init("record_index")
    for _ in range(kills):
        child = start_child(_run, folder, writer, known, chance.random())
        time.sleep(chance.uniform(*_LIFE_S))
        child.process.kill()
        child.process.join()
        begun: tuple[_Rows, str] | None = None
        with suppress(EOFError, OSError):
            while True:
                told = child.connection.recv()
                if isinstance(told, str):
                    return works, told
                if isinstance(told, _Known):
                    known, begun, works = told, None, works + 1
                else:
                    begun = told
        known = replace(known, time=known.time + 1)
        try:
            known = _go_on(folder, writer, known, begun, chance)
        except Exception:
            return works, f"{kind} with seed {seed}, {begun}: {traceback.format_exc()}"
    return works, None


def _go_on(
    uri: str,
    writer: bf.WriterConfig,
    known: _Known,
    begun: tuple[_Rows, str] | None,
    chance: random.Random,
) -> _Known:
    """Read the table that a dead process left, write to it, and return what it holds then."""
    dead_after_s = 1.2 * (writer.lock_lease_s or 0)
    possible = [known.rows] if begun is None else [known.rows, begun[0]]
    table = bf.open(uri, writer=writer)
    if table.timeline.pending.of("restore").instants and known.saved is not None:
        time.sleep(dead_after_s)
        table.restore(known.saved[0])
        possible = [known.saved[1]]
    _check_rows(uri, possible)
    time.sleep(chance.choice([0, dead_after_s]))
    given = {f"{chance.randrange(_KEYS)}": known.time}
    bf.open(uri, writer=writer).upsert(_as_table(given))
    rows = _check_rows(uri, [{**each, **given} for each in possible])
    fresh = bf.open(uri, writer=writer)
    found = fresh.lookup([f"{number}" for number in range(_KEYS)])
    if sorted(found["id"].to_pylist()) != sorted(rows):
        raise AssertionError(f"a look-up finds {sorted(found['id'].to_pylist())} of {sorted(rows)}")
    check_clean(fresh)
    for savepoint in fresh.timeline.of("savepoint").instants:
        fresh.delete_savepoint(savepoint.requested_time)
    return _Known(rows, time=known.time)


def _check_rows(uri: str, possible: list[_Rows]) -> _Rows:
    read = bf.open(uri).scan().to_arrow().to_pylist()
    found = {row["id"]: row["n"] for row in read}
    if len(found) < len(read):
        raise AssertionError(f"a key is there twice: {read}")
    if found not in possible:
        raise AssertionError(f"{found} is there, and not one of {possible}")
    return found


def _as_table(given: _Rows) -> pa.Table:
    rows = [
        {"id": key, "part": "ab"[int(key) % 2], "n": number, "ts": number}
        for key, number in given.items()
    ]
    return pa.Table.from_pylist(rows, _SCHEMA)


def run_kills(seed: int, *, minutes: float, save: bool) -> int:
    """Play on tables of every kind, print what came of it, and return 1 if anything is wrong.

    Args:
        seed: Of the first tables.
        minutes: Begin no table after this.
        save: Keep the figures for the report.
    """

    def play(folder: str, kind: Kind, own: str) -> tuple[Counter[str], str | None]:
        works, wrong = play_kills(folder, kind, own)
        return Counter(kills=_KILLS, works=works), wrong

    return tell_figures(play_rounds(KINDS, play, [2, 3, 6], seed, minutes), "kills", save=save)
