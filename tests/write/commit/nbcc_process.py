"""A process that logs to one bucket, next to others that do the same.

Run as `python -m tests.write.commit.nbcc_process URI NUMBER ROUNDS`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import bucketfmt as bf

NON_BLOCKING = bf.WriterConfig(concurrency="non_blocking")


def rows(number: int, turn: int) -> pa.Table:
    """A row of this process's own, and one of a key that all of them write."""
    ts = 100 * turn + number
    return pa.table({"id": [f"own-{number}-{turn}", "shared"], "ts": [ts, ts]})


def write(uri: str, number: int, rounds: int) -> None:
    table = bf.open(uri, writer=NON_BLOCKING)
    for turn in range(rounds):
        table.upsert(rows(number, turn), retries=0)


def start_processes(uri: str, processes: int, rounds: int) -> list[subprocess.Popen[bytes]]:
    writing = [sys.executable, "-m", "tests.write.commit.nbcc_process", uri]
    root = Path(__file__).parents[3]
    return [
        subprocess.Popen([*writing, str(number), str(rounds)], cwd=root)
        for number in range(processes)
    ]


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
