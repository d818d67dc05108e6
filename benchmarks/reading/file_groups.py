"""Look-ups in a bucket of 20 file groups, and a commit of a million file groups.

usage: python -m benchmarks.reading.file_groups COUNT    prints what such a commit takes

The look-ups are next to those in 20 buckets and in one file. Of the commit what the driver of a job
does is measured: receipts of tasks are decoded, and the commit is encoded; and what readers do.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

import bucketfmt as bf
from benchmarks.measure import Figure, Peer, Result, Timing, cpu_ratio, race
from benchmarks.reading.memory import peak_bytes
from bucketfmt.format.names.names import BaseFileName, format_bucket_file_id
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata_avro,
)
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.write.commit.receipts import (
    Receipt,
    encode_receipt,
    find_winners,
    stats_by_partition,
)

__all__ = ["measure_file_groups"]

_T = TypeVar("_T")

_ROWS, _GROUPS, _ROW_BYTES = 400_000, 20, 20
_SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
_GROWN, _BUCKETS, _FILE = "one bucket of 20 file groups", "20 buckets", "one bucket, one file"
_REPETITIONS = 20
_COMMITTED = 1_000_000
_UUID = "00000000-7f3a-4b1c-9d2e-000000000000"
_INSTANT = "20260101000000000"
_BEFORE_SECONDS, _BEFORE_MB = 96, 3_800  # docs/scale.md as it was: a quarter is owed


def measure_file_groups(data: Path) -> list[Result]:
    """Look one key up in a table that is open, and count the files that are opened for it."""
    size = _ROWS * _ROW_BYTES // _GROUPS
    indexes = {
        _GROWN: bf.MultiGroupBucketIndex(1, group_bytes=size),
        _BUCKETS: bf.SimpleBucketIndex(_GROUPS),
        _FILE: bf.SimpleBucketIndex(1),
    }
    numbers = np.random.default_rng(1).permutation(_ROWS)
    keys = pa.array([f"key-{number:07d}" for number in numbers])
    rows = pa.table({"id": keys, "v": numbers}, _SCHEMA)
    opened: dict[str, list[int]] = {}
    peers = []
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        for name, index in indexes.items():
            table = bf.create(
                str(Path(temporary) / f"table_{len(peers)}"),
                schema=_SCHEMA,
                record_key=["id"],
                index=index,
                properties={"hoodie.copyonwrite.record.size.estimate": str(_ROW_BYTES)},
            )
            table.insert(rows)
            store = RecordingStore(table.store)
            fresh = bf.Table(store, table.config, table.limits, None)
            opened[name] = [_count_opened(fresh, store, key.as_py()) for key in keys[:2]]
            peers.append(Peer(name, partial(fresh.lookup, [keys[2].as_py()])))
        timings = race(peers, _REPETITIONS, lambda found: str(found.to_pylist()))
    title = "Look-up of a key in a bucket of 20 file groups"
    ratio = cpu_ratio(timings, _GROWN, _BUCKETS)
    return [
        Result(
            title,
            timings,
            [
                Figure(f"{title}: files opened for a second key", opened[_GROWN][1], "", at_most=3),
                Figure(f"{title}: CPU time against {_BUCKETS}", ratio, "x", at_most=2),
            ],
            notes=[
                f"{name}: {first} files are opened for the first key, {second} for the second."
                for name, (first, second) in opened.items()
            ],
        ),
        _measure_commit(),
    ]


def _count_opened(table: bf.Table, store: RecordingStore, key: str) -> int:
    before = len(store.paths("open_arrow"))
    table.lookup([key])
    return len(store.paths("open_arrow")) - before


def _measure_commit() -> Result:
    command = [sys.executable, "-m", "benchmarks.reading.file_groups", str(_COMMITTED)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = {name: Timing(name, [w], [c], [p]) for name, w, c, p in json.loads(done.stdout)}
    written = ("receipts decoded", "commit encoded")
    seconds = sum(found[name].cpu for name in written)
    peak = max(found[written[-1]].peaks) / 1e6
    title = f"A commit of {_COMMITTED:,} file groups"
    cause = "What the tasks sent is most of it, and the commit as it is encoded."
    figures = [
        Figure(f"{title}: {' and '.join(written)}", seconds, "CPU s", _BEFORE_SECONDS / 4),
        Figure(f"{title}: peak memory", peak, "MB", _BEFORE_MB / 4, cause=cause),
    ]
    return Result(title, list(found.values()), figures, _COMMITTED / 1e6, "M file groups")


def _commit(count: int) -> None:
    """Print (step, wall and CPU seconds, peak bytes until then) of each step of a commit."""
    found: list[tuple[str, float, float, int]] = []
    limits = bf.Limits(timeline_file_bytes_max=1 << 32)
    sent = [_receipt(number) for number in range(count)]

    def timed(name: str, act: Callable[..., _T], *arguments: object) -> _T:
        wall, cpu = time.perf_counter(), time.process_time()
        result = act(*arguments)
        times = time.perf_counter() - wall, time.process_time() - cpu
        found.append((name, *times, peak_bytes()))
        return result

    def decode(receipts: list[bytes]) -> dict[str, Sequence[WriteStat]]:
        return stats_by_partition(find_winners(receipts, _INSTANT, limits))

    stats = timed("receipts decoded", decode, sent)
    metadata = CommitMetadata(partition_to_write_stats=stats, operation_type="UPSERT")
    data = timed("commit encoded", encode_commit_metadata_avro, metadata, False)
    del sent, stats, metadata
    timed("commit decoded by a reader", decode_commit_metadata, data, limits)
    print(json.dumps(found))


def _receipt(number: int) -> bytes:
    """Return what a task sends of a file group, in partitions of a thousand."""
    partition, file_id = f"2026-01-{number // 1000:05d}", format_bucket_file_id(number, _UUID)
    token = f"{number}-0-0"
    stat = WriteStat(
        file_id=file_id,
        path=f"{partition}/{BaseFileName(file_id, token, _INSTANT, 'parquet')}",
        prev_commit="20251231000000000",
        num_writes=1_000 + number,
        num_update_writes=10,
        num_inserts=3,
        total_write_bytes=123_456 + number,
        partition_path=partition,
        file_size_in_bytes=123_456 + number,
    )
    receipt = Receipt(partition_path=partition, file_id=file_id, write_token=token, stat=stat)
    return encode_receipt(receipt)


if __name__ == "__main__":
    _commit(int(sys.argv[1]))
