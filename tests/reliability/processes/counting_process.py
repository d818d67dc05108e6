"""A process that counts up rows of a table, next to others that do the same, and may be killed.

Run as a module with the arguments `URI LOCK NUMBER ROUNDS LOG [DIES_AFTER]`.
Says in the file LOG what it was told to be committed, a line each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config

COUNTERS = pa.table({"id": ["x", "y", "z"], "p": ["a", "a", "b"], "count": [0, 0, 0]})
ROUNDS_OF_THE_KILLED = 2


class DyingStore(RecordingStore):
    """Kills this process once it has put a file, if it is time."""

    def __init__(self, store: Store, dies_after: str) -> None:
        super().__init__(store)
        self._dies_after = dies_after
        self.is_time = False

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        done = super().put_if_absent(path, data)
        is_commit = path.startswith(".hoodie/") and path.endswith("commit")
        is_file = find_data_file_name(path.rpartition("/")[2]) is not None
        if self.is_time and {"commit": is_commit, "file": is_file}[self._dies_after]:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


def count_up(table: bf.Table, counter: str) -> None:
    """Add one to a counter by reading and writing it, however often others come between."""
    while True:
        seen = table.timeline
        key = COUNTERS.filter(pa.array([name == counter for name in COUNTERS["id"].to_pylist()]))
        (row,) = table.lookup(key.select(["id", "p"])).to_pylist()
        row["count"] += 1
        try:
            table.upsert(pa.Table.from_pylist([row], COUNTERS.schema), read_at=seen)
        except bf.ConflictError:
            continue
        return


def run(uri: str, lock: str, number: int, rounds: int, log: Path, dies_after: str = "") -> None:
    store = DyingStore(open_store(uri), dies_after)
    writer = bf.WriterConfig(lock=lock)  # type: ignore[arg-type]
    table = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None, writer)
    names = COUNTERS["id"].to_pylist()
    with log.open("a") as told:
        for turn in range(rounds):
            store.is_time = bool(dies_after) and turn == ROUNDS_OF_THE_KILLED
            counter = names[(number + turn) % len(names)]
            count_up(table, counter)
            told.write(f"{counter}\n")
            told.flush()


def start_process(*given: object) -> subprocess.Popen[bytes]:
    counting = [
        sys.executable,
        "-m",
        "tests.reliability.processes.counting_process",
        *map(str, given),
    ]
    return subprocess.Popen(counting, cwd=Path(__file__).parents[3])


if __name__ == "__main__":
    uri, lock, number, rounds, log, *dies_after = sys.argv[1:]
    run(uri, lock, int(number), int(rounds), Path(log), *dies_after)
