"""Where keys live and their rows: `locate` and `lookup`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from hudi import HudiReadOptions, HudiTableBuilder

import bucketfmt as bf
from benchmarks.measure import ABSOLUTE_CAUSE, Figure, Peer, Result, race
from benchmarks.wide_table import BUCKETS, ROWS, wide_key
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.open import open_store
from bucketfmt.table.table import Table
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config

__all__ = ["measure_locate", "measure_lookup"]

_REPETITIONS = 7
_KEYS = 1_000_000


def measure_locate(data: Path) -> list[Result]:
    """Locate 1 M keys in a table of 16 buckets and in one of 20,000."""
    files = sorted((data / "cow").glob("*.parquet"))
    keys = pq.read_table(files, columns=["id"]).column("id").slice(0, _KEYS).combine_chunks()
    return [
        _race_locate(data / "cow", 16, bf.SimpleBucketIndex(16), keys),
        _race_locate(data / "wide", BUCKETS, None, keys),
    ]


def _race_locate(path: Path, buckets: int, index: bf.Index | None, keys: pa.Array) -> Result:
    table = bf.open(path, index=index)
    timings = race(
        [
            Peer("bucketfmt, table open", lambda: table.locate(keys)),
            Peer(
                "bucketfmt, opening the table too", lambda: bf.open(path, index=index).locate(keys)
            ),
        ],
        _REPETITIONS,
        lambda found: (found.num_rows, pc.sum(found.column("bucket_id")).as_py()),
    )
    title = f"locate of 1 M keys, {buckets:,} buckets"
    figure = Figure(title, timings[0].wall, "s", at_most=0.5, cause=ABSOLUTE_CAUSE)
    note = (
        "Opening a table reads its timeline: the commit metadata name every file ever written "
        "by the instants still active."
    )
    return Result(title, timings, [figure], _KEYS / 1e6, "M keys", [note])


def measure_lookup(data: Path) -> list[Result]:
    """Look up 10 keys among 20,000 file groups."""
    path = data / "wide"
    keys = [wide_key(row) for row in range(0, ROWS, ROWS // 10)]
    table = bf.open(path)
    table.lookup(keys)
    title = f"lookup of 10 keys in {BUCKETS:,} file groups"
    timings = race(
        [
            Peer("bucketfmt, timeline loaded", _first_lookups(path, keys)),
            Peer("bucketfmt, again in the same table", lambda: table.lookup(keys)),
            Peer("bucketfmt, opening the table too", lambda: bf.open(path).lookup(keys)),
        ],
        _REPETITIONS,
        _values,
    )
    # The peers search every file, so one round of them is enough.
    timings += race(
        [
            Peer("pyarrow.dataset with a filter", lambda: _filter_dataset(path, keys)),
            Peer("hudi-rs with a filter", lambda: _filter_with_hudi_rs(path, keys)),
        ],
        1,
        _values,
    )
    opened = _count_opened(path, keys)
    figures = [
        Figure(f"{title}: time with the timeline loaded", timings[0].wall, "s", at_most=0.3),
        Figure(f"{title}: data files opened", opened, "files", at_most=10),
    ]
    return [Result(title, timings, figures)]


def _first_lookups(path: Path, keys: list[str]) -> Callable[[], pa.Table]:
    """Return what looks keys up, each time in another table of which the timeline is loaded."""
    tables = [bf.open(path) for _ in range(_REPETITIONS + 1)]
    for table in tables:
        _ = table.state
    return lambda: tables.pop().lookup(keys)


def _filter_dataset(path: Path, keys: list[str]) -> pa.Table:
    files = ds.dataset(sorted(map(str, path.glob("*.parquet"))), format="parquet")
    return files.to_table(filter=pc.field("_hoodie_record_key").isin(keys))


def _filter_with_hudi_rs(path: Path, keys: list[str]) -> pa.Table:
    options = HudiReadOptions().with_filters([("_hoodie_record_key", "IN", ",".join(keys))])
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    return pa.Table.from_batches(table.read(options))


def _count_opened(path: Path, keys: list[str]) -> int:
    """Return how many data files a lookup opens."""
    store = RecordingStore(open_store(path))
    Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None).lookup(keys)
    verbs = ("read", "read_versioned", "read_ranges", "open_arrow")
    return len({opened for opened in store.paths(*verbs) if not opened.startswith(".hoodie")})


def _values(rows: pa.Table) -> object:
    return tuple(sorted(rows.column("ts").to_pylist())), tuple(
        sorted(rows.column("id").to_pylist())
    )
