"""What every work writes, as digests: to compare one revision of the code with another.

The works are those of `soak.works`, and for each table of tests/data an upsert of rows that the
table has, a delete, a compaction, a clean and an archival. Each work is done by a simulated
process, whose clock and chance are always the same. Two revisions that print the same lines leave
the same bytes in the same files, and ask the store for the same things in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.testing.crashes import SimulatedProcess
from bucketfmt.testing.memory_store import MemoryStore
from soak.damage.tables import table_files
from soak.works.works import KINDS, WORKS, make

__all__ = ["Written", "digest_works"]

_DATA = Path(__file__).parents[2] / "tests" / "data"
_WRITER = bf.WriterConfig(lock="process", metadata_table="drop")
_PROPERTIES = ".hoodie/hoodie.properties"


class Written(NamedTuple):
    """What one work did to a table of one kind.

    Attributes:
        work: The kind of table and the work.
        files: How many files the table has afterwards.
        content: Digest of the path and the bytes of each file, but for the date that
            hoodie.properties has in its comments.
        operations: Digest of the operations on the store, in order, with their paths.
    """

    work: str
    files: int
    content: str
    operations: str

    def __str__(self) -> str:
        return f"{self.content} {self.operations} {self.files:4} {self.work}"


def digest_works(only: str = "") -> Iterator[Written]:
    """Yield what each work writes, for each kind of table that can have it done.

    Args:
        only: Works whose table and name have this in them.
    """
    for kind in KINDS:
        for work in WORKS:
            name = f"{kind} {work.name}"
            if work.is_possible(kind) and only in name:
                yield _digest(name, make(kind, work), kind.writer, work.act)
    for path in sorted(_DATA.glob("*/*.tar.xz")):
        table = f"{path.parent.name}/{path.name.removesuffix('.tar.xz')}"
        if any(only in f"{table} {name}" for name in _CHANGES):
            store = MemoryStore(table_files(table))
            for number, (name, change) in enumerate(_CHANGES.items(), 2):
                act = partial(_change_some, change, store.copy(), number)
                yield _digest(f"{table} {name}", store, _WRITER, act, number)


def _digest(
    name: str,
    store: MemoryStore,
    writer: bf.WriterConfig,
    act: Callable[[bf.Table], object],
    number: int = 2,
) -> Written:
    """Do a work, as the process of a number. A refusal is told with the name of the error.

    Threads that are stopped by an error ask the store for more or less, so that the operations of
    a refused work are not told.
    """
    running = SimulatedProcess(store, number, writer)
    asked = running.store.operations
    try:
        act(running.open())
    except (bf.BucketfmtError, ValueError) as error:
        name, asked = f"{name}: {type(error).__name__}", []
    content, operations = hashlib.sha256(), hashlib.sha256()
    for path, data in sorted(store.files.items()):
        undated = _without_date(data) if path.startswith(_PROPERTIES) else data
        content.update(f"{path}\n{len(undated)}\n".encode() + undated)
    for verb, path in asked:
        operations.update(f"{verb} {path}\n".encode())
    return Written(name, len(store.files), content.hexdigest()[:16], operations.hexdigest()[:16])


def _without_date(properties: bytes) -> bytes:
    lines = properties.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(b"#"))


def _change_some(
    change: Callable[[bf.Table, pa.Table], object], before: MemoryStore, first: int, table: bf.Table
) -> None:
    change(table, _some_rows(before, first))


def _some_rows(store: MemoryStore, first: int) -> pa.Table:
    """Return every seventh row, whatever the order that threads read the rows in."""
    rows = SimulatedProcess(store, 0, _WRITER).open().scan().to_arrow()
    texts = [repr(row) for row in rows.to_pylist()]
    in_order = sorted(range(rows.num_rows), key=texts.__getitem__)
    return rows.take(pa.array(in_order[first::7], pa.int64()))


_CHANGES: dict[str, Callable[[bf.Table, pa.Table], object]] = {
    "upsert": lambda table, rows: table.upsert(rows),
    "delete": lambda table, rows: table.delete(rows),
    "compact": lambda table, rows: table.compact(),
    "clean": lambda table, rows: table.clean(retain=1, dry_run=False),
    "archive": lambda table, rows: table.archive(min_commits=1, max_commits=1),
}
