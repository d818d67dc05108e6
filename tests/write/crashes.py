"""What a table is after its process died, or its store failed, at every write in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import bucketfmt as bf
from bucketfmt.errors import StorageError
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import WRITE_VERBS, Store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from soak.covering import spread
from tests.rotation import seed
from tests.write.models import Model

__all__ = ["crashes", "is_as", "open_on"]

# Heartbeats that never come, and a lock that leaves nothing: only the work itself is struck.
_QUIET = bf.WriterConfig(lock="process", heartbeat_interval_s=100_000.0, services=None)


def open_on(store: Store) -> bf.Table:
    """Return the table on any store."""
    return bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None, _QUIET)


def crashes(
    start: bf.Table, act: Callable[[bf.Table], object], fault: Fault, most: int | None = None
) -> Iterator[tuple[bf.Table, FaultyStore]]:
    """Yield the table after the fault, once for each write of `act`, and what was struck.

    The writer is gone and its heartbeat is expired. What takes effect late has not yet. Given
    `most`, some of the writes are struck, about as many, and other ones with each commit.
    """
    image = MemoryStore.of_folder(start.uri)
    whole = FaultyStore(MemoryStore(image.files))
    act(open_on(whole))
    writes = sum(operation.verb in WRITE_VERBS for operation in whole.operations)
    for at in spread(writes, most, seed()):
        disk = MemoryStore(image.files)
        broken = FaultyStore(disk, FaultPlan(at, fault, verbs=WRITE_VERBS))
        try:
            act(open_on(broken))
        except (StorageError, bf.CommitUnknownError, bf.ConflictError, Killed):
            assert broken.struck is not None
        if broken.struck is None:  # it took fewer writes
            return
        for path in [path for path in disk.files if path.startswith(".hoodie/.heartbeat/")]:
            disk.delete(path)
        yield open_on(disk), broken


def is_as(table: bf.Table, model: Model) -> bool:
    """Whether a table has the rows of a model and is sound."""
    rows = table.scan().to_arrow().to_pylist()
    found = {(row["region"], row["id"]): row for row in rows}
    whole = len(found) == len(rows) and found == model.rows
    return whole and table.check(depth="full").status == "clean"
