"""Look-ups in a bucket of 20 file groups, next to 20 buckets and to one file."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import bucketfmt as bf
from bucketfmt.testing.recording_store import RecordingStore

from .measure import Figure, Peer, Result, cpu_ratio, race

__all__ = ["measure_file_groups"]

_ROWS, _GROUPS, _ROW_BYTES = 400_000, 20, 20
_SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
_GROWN, _BUCKETS, _FILE = "one bucket of 20 file groups", "20 buckets", "one bucket, one file"
_REPETITIONS = 20


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
        )
    ]


def _count_opened(table: bf.Table, store: RecordingStore, key: str) -> int:
    before = len(store.paths("open_arrow"))
    table.lookup([key])
    return len(store.paths("open_arrow")) - before
