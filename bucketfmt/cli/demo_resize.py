"""The part of the demo that resizes a skewed table while a writer and a reader run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa

import bucketfmt
from bucketfmt.cli.commands.tables import draw_buckets
from bucketfmt.cli.render import console
from bucketfmt.format.keys.hashing import HASH_VALUE_MASK
from bucketfmt.format.keys.hashing_kernels import xxhash32s
from bucketfmt.index.skew import measure_skew

__all__ = ["show_resizing"]

_ROWS, _BATCH = 40_000, 20
_CROWDED = HASH_VALUE_MASK // 20  # four fifths of the rows are in this twentieth of the ring


def show_resizing(root: Path, step: Callable[[str, str], None]) -> None:
    """Fill a ring unevenly, and split its buckets evenly while others read and write.

    Args:
        root: Where the table is made.
        step: Prints code and a comment.
    """
    step(
        "t = bucketfmt.create(path, index=bucketfmt.ConsistentHashingIndex(4), ...)",
        "a ring of 4 buckets; four fifths of the keys hash into a twentieth of it",
    )
    rides = _skewed_rides()
    table = bucketfmt.create(
        root,
        schema=rides.schema,
        record_key=["id"],
        ordering=["ts"],
        index=bucketfmt.ConsistentHashingIndex(4),
        table_type="MERGE_ON_READ",
    )
    table.upsert(rides)
    table.compact()
    largest = _draw(table, None)

    step("t.resize(split='even', ...)", "large buckets are split while a writer and a reader run")
    target = largest // 8
    written, read = [0], [0]

    def write() -> None:
        number = written[0]
        ids = [f"new-{n:06d}" for n in range(number * _BATCH, (number + 1) * _BATCH)]
        given = {"id": ids, "ts": [number] * _BATCH, "note": ["meanwhile"] * _BATCH}
        bucketfmt.open(root).upsert(pa.table(given, rides.schema))
        written[0] += 1

    def read_all() -> None:
        before = written[0]
        count = bucketfmt.open(root).scan().count()
        after = written[0] + 1  # a commit is visible before the writer has counted it
        if not before * _BATCH <= count - _ROWS <= after * _BATCH:
            raise RuntimeError(f"a reader saw {count} rows")
        read[0] += 1

    with _repeated(write), _repeated(read_all):
        while table.resize(split="even", max_file_size=target, max_buckets=64, min_buckets=4):
            pass
    _draw(table, largest)
    console().print(
        f"{written[0]} commits and {read[0]} reads meanwhile;",
        f"{table.scan().count()} rows, of which {written[0] * _BATCH} are new",
    )
    console().print("check:", table.check(depth="full").status)


def _skewed_rides() -> pa.Table:
    ids = pa.array([f"ride-{n:07d}" for n in range(_ROWS * 20)])
    is_crowded = (xxhash32s([ids]) & HASH_VALUE_MASK) < _CROWDED
    crowded, others = np.flatnonzero(is_crowded), np.flatnonzero(~is_crowded)
    chosen = np.concatenate([crowded[: _ROWS * 4 // 5], others[: _ROWS // 5]])
    random = np.random.default_rng(0)
    notes = [random.bytes(75).hex() for _ in range(_ROWS)]
    return pa.table(
        {"id": ids.take(pa.array(chosen)), "ts": np.zeros(_ROWS, np.int64), "note": notes}
    )


def _draw(table: bucketfmt.Table, largest: int | None) -> int:
    """Draw the sizes of buckets, and return the largest size."""
    rows = table.inspect.buckets().to_pylist()
    sizes: list[int] = [row["size"] for row in rows]
    draw_buckets("", rows, measure_skew(sizes), max(sizes) if largest is None else largest)
    return max(sizes)


@contextmanager
def _repeated(work: Callable[[], None]) -> Iterator[None]:
    """Repeat some work on a thread of its own until the block ends; raise what it raised."""
    stop, errors = Event(), []

    def run() -> None:
        try:
            while not stop.is_set():
                work()
        except Exception as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    for error in errors:
        raise error
