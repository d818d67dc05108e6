"""What every work writes, as digests: to compare one revision of the code with another.

Each work is done by a simulated process, whose clock and chance are always the same. Two
revisions that print the same lines leave the same bytes in the same files, and ask the store for
the same things in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from bucketfmt.testing.crashes import SimulatedProcess
from bucketfmt.testing.memory_store import MemoryStore
from soak.works import KINDS, WORKS, Kind, Work, make

__all__ = ["Written", "digest_works"]

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
        only: Works whose kind and name have this in them.
    """
    for kind in KINDS:
        for work in WORKS:
            name = f"{kind} {work.name}"
            if work.is_possible(kind) and only in name:
                yield _digest(name, kind, work)


def _digest(name: str, kind: Kind, work: Work) -> Written:
    store: MemoryStore = make(kind, work)
    running = SimulatedProcess(store, 2, kind.writer)
    work.act(running.open())
    content, operations = hashlib.sha256(), hashlib.sha256()
    for path, data in sorted(store.files.items()):
        undated = _without_date(data) if path.startswith(_PROPERTIES) else data
        content.update(f"{path}\n{len(undated)}\n".encode() + undated)
    for verb, path in running.store.operations:
        operations.update(f"{verb} {path}\n".encode())
    return Written(name, len(store.files), content.hexdigest()[:16], operations.hexdigest()[:16])


def _without_date(properties: bytes) -> bytes:
    lines = properties.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(b"#"))
