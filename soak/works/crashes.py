"""Strikes every work on every kind of table, several at a time, and keeps the figures as JSON."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import Random
from typing import NamedTuple

from soak.covering import cover
from soak.figures import RESULTS
from soak.progress import Progress
from soak.works.strikes import ALL, FAULTS, Share, Tally, strike_recovery, strike_work
from soak.works.works import KINDS, WORKS, Kind, Work

__all__ = [
    "RECOVERIES_SAMPLED",
    "Piece",
    "plan_pieces",
    "sample_pieces",
    "sample_recovery",
    "strike_piece",
    "strike_pieces",
]

_RECOVERED = ("upsert", "delete", "insert_overwrite", "compact", "clean", "roll back", "savepoint")
_RECOVERY_STRIDE = 3


_Row = dict[str, str | int]


class Piece(NamedTuple):
    """What one process strikes at a time, by names.

    Attributes:
        kind: Of table.
        work: What is done to it.
        stride: 0 to strike it; else to kill it, and to strike who comes next in every so many of
            the states it leaves.
        faults: The only sort of fault it is struck with; all sorts if empty.
    """

    kind: str
    work: str
    stride: int = 0
    faults: str = ""

    def find(self) -> tuple[Kind, Work]:
        """Return what the names name."""
        kind = next(kind for kind in KINDS if str(kind) == self.kind)
        return kind, next(work for work in WORKS if work.name == self.work)


RECOVERIES_SAMPLED = (
    Piece("6-mor-simple", "upsert", 20),
    Piece("8-cow-simple", "upsert", 12),
    Piece("9-mor-ring", "upsert", 20),
)

_POSSIBLE = [(kind, work) for kind in KINDS for work in WORKS if work.is_possible(kind)]


def plan_pieces() -> list[Piece]:
    """Return all there is to strike."""
    pieces = [Piece(str(kind), work.name) for kind, work in _POSSIBLE]
    return pieces + [
        Piece(str(kind), work.name, _RECOVERY_STRIDE)
        for kind, work in _POSSIBLE
        if work.name in _RECOVERED
    ]


def sample_pieces(seed: str) -> list[Piece]:
    """Return what `make test` strikes: each kind of table, each work, and each sort of fault.

    Of the tables with a metadata table, where a work asks much more of the store, it strikes one.
    """
    plain, with_metadata = (
        [
            Piece(str(kind), work.name, 0, sort)
            for kind, work in _POSSIBLE
            for sort in FAULTS
            if bool(kind.metadata) is has_metadata
        ]
        for has_metadata in (False, True)
    )
    return [*cover(plain, seed, strength=1), *cover(with_metadata, seed, strength=0)]


def sample_recovery(seed: str) -> Piece:
    """Return the piece of which `make test` strikes who comes next."""
    return Random(seed).choice(RECOVERIES_SAMPLED)  # noqa: S311  (a choice, no secret)


def strike_piece(piece: Piece, share: Share = ALL) -> Tally:
    """Strike one piece, with a share of the faults."""
    warnings.simplefilter("ignore", RuntimeWarning)  # locks that could not be given back
    kind, work = piece.find()
    if piece.stride:
        return strike_recovery(kind, work, piece.stride, share)
    return strike_work(kind, work, (piece.faults,) if piece.faults else FAULTS, share)


def strike_pieces(pieces: Sequence[Piece], *, workers: int, save: bool, share: Share = ALL) -> int:
    """Strike each piece with a share of the faults, print what came of it; 1 if anything is bad."""
    began, points, bad = time.monotonic(), 0, 0
    rows: list[_Row] = []
    progress = Progress()
    for piece, tally in _struck(pieces, workers, share):
        points += tally.points.crashes + tally.points.errors
        for text in tally.bad:
            print(f"\n{piece.work}: {text}")
        bad += len(tally.bad)
        rows.append(
            {
                "table": piece.kind,
                "struck": piece.work + (", and who comes next" if piece.stride else ""),
                "crashes": tally.points.crashes,
                "errors": tally.points.errors,
                "states looked at": tally.states,
                "bad": len(tally.bad),
            }
        )
        if save:
            _save(rows)
        spent_s = time.monotonic() - began
        progress.tell(f"{len(rows)} of {len(pieces)}, {points} points, {bad} bad, {spent_s:.0f} s")
    progress.end()
    crashes, errors, states = (
        sum(int(row[name]) for row in rows) for name in ("crashes", "errors", "states looked at")
    )
    print(
        f"{crashes:,} crash points and {errors:,} error points, {states:,} different states "
        f"looked at, {bad} bad"
    )
    return int(bad > 0)


def _save(rows: Sequence[_Row]) -> None:
    """Keep the figures of what was struck, beside those of what another run struck."""
    path = RESULTS / "crashes.json"
    path.parent.mkdir(exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else []
    kept = {(row["table"], row["struck"]): row for row in [*before, *rows]}
    path.write_text(json.dumps([kept[name] for name in sorted(kept)], indent=1) + "\n")


def _struck(pieces: Sequence[Piece], workers: int, share: Share) -> Iterator[tuple[Piece, Tally]]:
    with ProcessPoolExecutor(workers) as pool:
        pending = {pool.submit(strike_piece, piece, share): piece for piece in pieces}
        for done in as_completed(pending):
            yield pending[done], done.result()
