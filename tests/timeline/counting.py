"""A process that adds to a counter under a table lock: what a lost lock would lose shows.

Run as `python -m tests.timeline.counting KIND URI OPTIONS ROUNDS`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.timeline.locking.file_system_based_lock import FileSystemBasedLock
from bucketfmt.timeline.locking.lock import TableLock, Waiting
from bucketfmt.timeline.locking.storage_based_lock import StorageBasedLock

COUNTER = "counter"
WAITING = Waiting(timeout_s=240, longest_pause_s=0.05)


def lock_of(kind: str, store: Store) -> TableLock:
    if kind == "file":
        return FileSystemBasedLock(store, waiting=WAITING)
    return StorageBasedLock(store, waiting=WAITING)


def count(kind: str, store: Store, rounds: int) -> None:
    for _ in range(rounds):
        with lock_of(kind, store) as lock:
            number = int(store.read(COUNTER, 100))
            if not lock.holds():
                raise RuntimeError("the lock was lost")
            store.replace(COUNTER, b"%d" % (number + 1))


def count_in_processes(
    kind: str, uri: str, options: Mapping[str, Any], processes: int, rounds: int
) -> list[int]:
    """Return how the processes ended, all of which counted at the same time."""
    counting = [sys.executable, "-m", "tests.timeline.counting", kind, uri, json.dumps(options)]
    root = Path(__file__).parents[2]
    running = [subprocess.Popen([*counting, str(rounds)], cwd=root) for _ in range(processes)]
    return [process.wait() for process in running]


if __name__ == "__main__":
    count(sys.argv[1], open_store(sys.argv[2], json.loads(sys.argv[3])), int(sys.argv[4]))
