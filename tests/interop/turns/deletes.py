"""What was deleted does not come back by what bucketfmt writes afterwards (ADR 0016)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import TABLE_VERSIONS, Tally, index_of
from tests.interop.turns.sides import Bucketfmt, Hudi, Side, assert_clean

__all__ = ["play_deletes"]

_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.string()),
        ("ts", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
_PLACES = ("base", "log", "both")
_WAYS = ("deleted by us", "marked by us", "deleted by Hudi", "marked by Hudi")
_KEYS = [f"{place}, {way}, {number}" for place in _PLACES for way in _WAYS for number in range(2)]


def play_deletes(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Delete in every way, write lower ordering values over it, compact, take back, clean."""
    table_type, index = index_of(kind)
    table = bf.create(
        folder / "deletes",
        schema=_SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        index=index,
        table_type=table_type,  # type: ignore[arg-type]
        table_version=TABLE_VERSIONS[session.version],
    )
    game = _Game(table, Hudi(session, table))
    us, hudi = game.us, game.hudi
    is_logged = table_type == "MERGE_ON_READ"
    game.upsert(us, [*_of("base"), *_of("both"), "kept"], 5 + seed)
    if is_logged:
        us.compact()
    game.upsert(us, [*_of("log"), *_of("both")], 6 + seed)
    game.delete(us, _of("deleted by us"))
    game.delete(hudi, _of("deleted by Hudi"))
    game.mark(us, _of("marked by us"), 7 + seed)
    game.mark(hudi, _of("marked by Hudi"), 7 + seed)
    game.upsert(us, _KEYS, 2)
    game.upsert(hudi, [*_of("base"), "kept"], 1)
    game.upsert(us, _of("both"), 3)

    game.delete(us, _of("base"))
    game.mark(us, _of("log"), 8)
    if is_logged:
        hudi.schedule()
    game.upsert(us, [*_of("base"), *_of("log")], 1)
    game.upsert(us, [*_of("base"), *_of("log, deleted")], 2)
    game.upsert(hudi, _of("log"), 3)
    if is_logged:
        hudi.compact()
        game.compare("compacted by Hudi")

    game.delete(us, _of("both"))
    before = dict(game.rows)
    game.upsert(us, _of("both"), 1)
    newest = table.timeline.writes.completed.instants[-1].requested_time
    hudi.rollback(newest)
    game.rows = before
    game.compare("rolled back by Hudi")
    game.upsert(us, _of("both"), 2)
    hudi.clean("KEEP_LATEST_FILE_VERSIONS")
    game.compare("cleaned by Hudi")
    game.upsert(hudi, [*_of("log"), *_of("both")], 9)
    if is_logged:
        us.compact()
        game.compare("compacted by us")
    return game.tally()


def _of(what: str) -> list[str]:
    return [key for key in _KEYS if what in key]


class _Game:
    """A table, and the rows that both are to read."""

    def __init__(self, table: bf.Table, hudi: Hudi) -> None:
        self.us, self.hudi, self._table = Bucketfmt(table), hudi, table
        self.rows: dict[str, dict[str, Any]] = {}
        self._done: list[str] = []

    def upsert(self, side: Side, keys: Iterable[str], ts: int) -> None:
        given = [self._row(key, f"of {len(self._done)}", ts) for key in keys]
        side.upsert(pa.Table.from_pylist(given, _SCHEMA))
        for row in given:
            known = self.rows.get(row["id"])
            if known is None or ts >= known["ts"]:
                self.rows[row["id"]] = row
        self.compare(f"upsert of ts={ts} by {side.name}")

    def delete(self, side: Side, keys: Iterable[str]) -> None:
        given = [self._row(key, "gone", 1) for key in keys]
        side.delete(pa.Table.from_pylist(given, _SCHEMA))
        self._remove(given, f"delete by {side.name}")

    def mark(self, side: Side, keys: Iterable[str], ts: int) -> None:
        """Upsert rows that are marked as deleted."""
        given = [self._row(key, "gone", ts) | {"_hoodie_is_deleted": True} for key in keys]
        side.upsert(pa.Table.from_pylist(given, _SCHEMA))
        self._remove(given, f"marks by {side.name}")

    def compare(self, done: str) -> None:
        """Both read the rows, and the check is clean."""
        self._done.append(done)
        expected = [self.rows[key] for key in sorted(self.rows)]
        table = bf.open(self._table.uri)
        for whose, found in (("we", table.scan().to_arrow()), ("Hudi", self.hudi.read())):
            read = found.select(_SCHEMA.names).cast(_SCHEMA).sort_by("id").to_pylist()
            assert read == expected, f"{whose} misread after {self._done}"
        assert_clean(self.hudi.session, table, self._done)

    def tally(self) -> Tally:
        hudis = sum(done.endswith("by Hudi") for done in self._done)
        return Tally(len(self._done), len(self._done) - hudis, hudis)

    def _remove(self, given: Iterable[dict[str, Any]], done: str) -> None:
        for row in given:
            self.rows.pop(row["id"], None)
        self.compare(done)

    def _row(self, key: str, value: str, ts: int) -> dict[str, Any]:
        return {"id": key, "v": value, "ts": ts, "_hoodie_is_deleted": None}
