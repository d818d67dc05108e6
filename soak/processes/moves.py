"""Processes that read, move and delete rows of one table by its record index, beside one another.

Two processes move keys to other partitions, one deletes some of them, one makes the index anew or
drops it, compacts and cleans, and one reads; each is stopped for a while at any moment. What was
acknowledged has to be there, in the order in which it was completed; a reader finds every key that
is never deleted once, and never an older row than before; and at the end the check finds nothing.
"""

from __future__ import annotations

import random
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import bucketfmt as bf
from soak.figures import tell_figures
from soak.processes.children import hear, start_child, stop_in_turns
from soak.processes.rounds import check_clean, play_rounds

__all__ = ["KINDS", "Kind", "play_moves", "run_moves"]

_SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("n", pa.int64())])
_PARTS = "abc"
_STAYING = [[f"s{mover}-{number}" for number in range(12)] for mover in range(2)]
_DOOMED = [f"d-{number}" for number in range(20)]
_SECONDS = 12  # of a table
_FIGURES = ("works", "services", "reads", "conflicts")
_CLOCKS_DIFFER_NS = 20_000_000
"""By how much the time of a file may be behind that of a process."""

_Value = tuple[str, int]
"""Partition and number of a row."""


class Kind(NamedTuple):
    """A kind of table; its record index moves keys."""

    version: int
    table_type: Any


KINDS = [
    Kind(version, table_type)
    for version in (6, 8, 9)
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
]


class _Done(NamedTuple):
    """A write that was acknowledged: the rows it put, or the keys it deleted."""

    instant: str
    began_ns: int
    rows: dict[str, _Value]
    deleted: tuple[str, ...] = ()


class _Told(NamedTuple):
    """What a process tells at its end."""

    done: list[_Done]
    counts: Counter[str]
    wrong: str | None = None


class _Worker:
    """One of the processes."""

    def __init__(self, uri: str, seed: str, until: float) -> None:
        self._table = bf.open(uri, writer=_writer())
        self._chance = random.Random(seed)  # noqa: S311  (an order, no secret)
        self._until = until
        self._done: list[_Done] = []
        self._counts: Counter[str] = Counter()
        self._seen: dict[str, int] = {}

    def work(self, role: str, number: int) -> _Told:
        """Do what the role is to do, again and again."""
        try:
            while time.monotonic() < self._until:
                self._try(getattr(self, role), number)
        except Exception:
            return _Told(self._done, self._counts, traceback.format_exc())
        return _Told(self._done, self._counts)

    def _try(self, act: Callable[[int], None], number: int) -> None:
        try:
            act(number)
        except (bf.ConflictError, bf.IndexUnknownError):  # nothing was done
            self._counts["conflicts"] += 1
            time.sleep(self._chance.uniform(0, 0.1))

    def move(self, number: int) -> None:
        """Upsert keys, each into any partition."""
        keys = self._chance.sample(_STAYING[number] + _DOOMED, 6)
        self._counts["drawn"] += 1
        own = self._counts["drawn"] * len(_STAYING) + number
        rows = {key: (self._chance.choice(_PARTS), own) for key in keys}
        began = time.time_ns()
        self._wrote(self._table.upsert(_as_table(rows)), began, rows)

    def delete(self, _: int) -> None:
        """Delete keys, wherever they are."""
        keys = self._chance.sample(_DOOMED, 3)
        began = time.time_ns()
        if self._chance.random() < 0.5:
            done = self._table.delete(keys)
        else:
            done = self._table.delete(filter=[("id", "in", keys)])
        if done.committed:
            self._wrote(done, began, {}, tuple(keys))

    def serve(self, _: int) -> None:
        """Make the index anew, or do a table service."""
        works = [lambda: self._table.metadata_table.rebuild("record_index")] * 3
        works += [self._table.metadata_table.rebuild, self._table.clean, self._drop_and_make]
        if self._table.config.table_type == "MERGE_ON_READ":
            works.append(self._table.compact)
        self._chance.choice(works)()
        self._counts["services"] += 1
        time.sleep(self._chance.uniform(0, 1))

    def _drop_and_make(self) -> None:
        names = self._chance.choice([(), ("record_index",)])
        self._table.metadata_table.drop(*names)
        self._table.metadata_table.init("record_index")

    def read(self, _: int) -> None:
        """Look all staying keys up, and compare with what was seen before."""
        keys = [key for own in _STAYING for key in own]
        self._chance.shuffle(keys)
        table = self._table if self._chance.random() < 0.7 else bf.open(self._table.uri)
        self._counts["reads"] += 1
        how = self._chance.choice(["lookup", "lookup", "scan", "locate"])
        if how == "locate":
            places = table.locate([*keys, "no such key"])["file_id"]
            found = places.is_valid().to_pylist()
            if found != [True] * len(keys) + [False]:
                raise AssertionError(f"locate finds {sum(found)} of {len(keys)} keys")
            return
        if how == "lookup":
            rows = table.lookup(keys).to_pylist()
        else:
            rows = table.scan(filter=[("id", "in", keys)]).to_arrow().to_pylist()
        numbers = {row["id"]: row["n"] for row in rows}
        if len(numbers) < len(rows) or len(numbers) < len(keys):
            lacking = sorted(set(keys) - set(numbers))
            raise AssertionError(f"{how} finds {len(rows)} rows of {len(keys)} keys; no {lacking}")
        older = [key for key in keys if numbers[key] < self._seen.get(key, 0)]
        if older:
            raise AssertionError(f"{how} finds older rows of {older} than a read before")
        self._seen = numbers

    def _wrote(
        self,
        result: bf.CommitResult,
        began: int,
        rows: dict[str, _Value],
        keys: tuple[str, ...] = (),
    ) -> None:
        self._done.append(_Done(result.instant, began, rows, keys))
        self._counts["works"] += 1


_ROLES = [("move", 0), ("move", 1), ("delete", 0), ("serve", 0), ("read", 0)]


def _writer() -> bf.WriterConfig:
    return bf.WriterConfig(lock="storage", lock_lease_s=10, services=None)


def _run(uri: str, seed: str, until: float, role: tuple[str, int], connection: Connection) -> None:
    """Be a child."""
    warnings.simplefilter("ignore")
    connection.send(_Worker(uri, f"{seed} {role}", until).work(*role))


def play_moves(
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
    table = bf.create(
        folder,
        schema=_SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        index=bf.RecordIndex(update_partition_path=True),
        table_type=kind.table_type,
        table_version=kind.version,
        writer=_writer(),
    )
    rows = dict.fromkeys([*_STAYING[0], *_STAYING[1], *_DOOMED], (_PARTS[0], 0))
    first = _Done(table.upsert(_as_table(rows)).instant, 0, rows)
    until, chance = time.monotonic() + seconds, random.Random(seed)  # noqa: S311
    children = [start_child(_run, folder, seed, until, role) for role in _ROLES]
    stop_in_turns(children, until, chance, lambda: (chance.uniform(0, 0.3), chance.uniform(0, 0.3)))
    told: list[_Told] = hear(children)
    counts = sum((each.counts for each in told), Counter[str]())
    wrong = [each.wrong for each in told if each.wrong is not None]
    if not wrong:
        try:
            _check(folder, [first, *(done for each in told for done in each.done)])
        except Exception:
            wrong.append(traceback.format_exc())
    return counts, f"{kind} with seed {seed}: {wrong[0]}" if wrong else None


def _check(folder: str, done: list[_Done]) -> None:
    """Compare the table with what was acknowledged, in the order in which it was completed."""
    table = bf.open(folder, writer=_writer())
    completed = {instant.requested_time: instant for instant in table.timeline.completed.instants}
    lost = [each.instant for each in done if each.instant not in completed]
    if lost:
        raise AssertionError(f"acknowledged writes are not on the timeline: {lost}")
    timeline = Path(folder, table.config.timeline_path)
    ended_ns = {
        time: (timeline / instant.file_name).stat().st_mtime_ns
        for time, instant in completed.items()
    }
    done.sort(key=lambda each: completed[each.instant].completion_time or ended_ns[each.instant])
    possible: dict[str, set[_Value | None]] = {}
    inserted_ns: dict[str, int] = {}
    for each in done:
        for key, value in each.rows.items():
            if possible.get(key, {None}) != {value} and None in possible.get(key, {None}):
                inserted_ns[key] = ended_ns[each.instant]
            possible[key] = {value}
        for key in each.deleted:
            # A row may have come after the rows to delete were found.
            came = inserted_ns.get(key, 0) + _CLOCKS_DIFFER_NS >= each.began_ns
            possible[key] = {*possible[key], None} if came else {None}
    read = table.scan().to_arrow().to_pylist()
    found = {row["id"]: (row["part"], row["n"]) for row in read}
    if len(found) < len(read):
        raise AssertionError(f"a key is there twice: {read}")
    bad = {key: (found.get(key), values) for key, values in possible.items()}
    bad = {key: pair for key, pair in bad.items() if pair[0] not in pair[1]}
    if bad:
        raise AssertionError(f"keys with what is there, and what may be: {bad}")
    looked_up = table.lookup(sorted(possible))["id"].to_pylist()
    if sorted(looked_up) != sorted(found):
        raise AssertionError(f"a look-up finds {sorted(looked_up)} of {sorted(found)}")
    check_clean(table)


def _as_table(rows: dict[str, _Value]) -> pa.Table:
    given = [{"id": key, "part": part, "n": number} for key, (part, number) in rows.items()]
    return pa.Table.from_pylist(given, _SCHEMA)


def run_moves(seed: int, *, minutes: float, save: bool) -> int:
    """Play on tables of every kind, print what came of it, and return 1 if anything is wrong.

    Args:
        seed: Of the first tables.
        minutes: Begin no table after this.
        save: Keep the figures for the report.
    """

    def play(folder: str, kind: Kind, own: str) -> tuple[Counter[str], str | None]:
        counts, wrong = play_moves(folder, kind, own, _SECONDS)
        return Counter({name: counts[name] for name in _FIGURES}), wrong

    return tell_figures(play_rounds(KINDS, play, [1, 3, 6], seed, minutes), "moves", save=save)
