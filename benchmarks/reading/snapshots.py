"""Whole tables to Arrow: copy on write, merge on read, and a table all in log files."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hudi import HudiReadOptions, HudiTableBuilder

import bucketfmt as bf
from benchmarks.measure import Figure, Peer, Result, cpu_ratio, race, ratio
from bucketfmt.storage.streams import worker_count

__all__ = ["measure_cow", "measure_log_only", "measure_mor"]

_COLUMNS = ["id", "name", "price", "qty", "day", "ts"]
_US, _RS, _FLOOR = "bucketfmt", "hudi-rs", "pyarrow.parquet.read_table"
_VERIFYING = "the same, verifying page checksums"
_REPETITIONS = 9
_CHECKING = (
    "The checksum of every page is verified, which pyarrow leaves out unless asked (a line of its "
    "table shows what that costs), and each footer is checked before its rows are read. The "
    "ratio of CPU time is steadier than this one where other work shares the cores."
)


def _bucketfmt(path: Path, meta_columns: bool) -> Peer:
    return Peer(_US, lambda: bf.open(path).scan(meta_columns=meta_columns).to_arrow())


def _hudi_rs(path: Path, meta_columns: bool) -> Peer:
    def run() -> pa.Table:
        options = HudiReadOptions()
        if not meta_columns:
            options = options.with_projection(_COLUMNS)
        table = HudiTableBuilder.from_base_uri(str(path)).build()
        return pa.Table.from_batches(table.read(options))

    return Peer(_RS, run)


def _pyarrow(path: Path, meta_columns: bool) -> list[Peer]:
    """The base files alone, in the ways one would read them."""
    files = sorted(path.glob("*.parquet"))
    columns = None if meta_columns else _COLUMNS

    def read_each() -> pa.Table:
        with ThreadPoolExecutor(worker_count()) as pool:
            return pa.concat_tables(
                pool.map(lambda file: pq.ParquetFile(file).read(columns=columns), files)
            )

    return [
        Peer(_FLOOR, lambda: pq.read_table(files, columns=columns)),
        Peer(
            _VERIFYING,
            lambda: pq.read_table(files, columns=columns, page_checksum_verification=True),
        ),
        Peer("pyarrow, a thread per file", read_each),
    ]


def _fingerprint(rows: pa.Table) -> tuple[object, ...]:
    times, quantities = pc.sum(rows.column("ts")), pc.sum(rows.column("qty"))
    lengths = pc.sum(pc.binary_length(rows.column("name")))
    return rows.num_rows, rows.num_columns, times.as_py(), quantities.as_py(), lengths.as_py()


def _with_and_without_meta(title: str, race_one: Callable[[str, bool], Result]) -> list[Result]:
    return [
        race_one(f"{title}, 6 columns", False),
        race_one(f"{title}, all 11 columns", True),
    ]


def measure_cow(data: Path) -> list[Result]:
    """Copy on write: against pyarrow reading the same base files, and hudi-rs."""

    def race_one(title: str, meta: bool) -> Result:
        path = data / "cow"
        peers = [_bucketfmt(path, meta), *_pyarrow(path, meta), _hudi_rs(path, meta)]
        timings = race(peers, _REPETITIONS, _fingerprint)
        times = ratio(timings, _US, _FLOOR)
        figure = Figure(title, times, "x raw pyarrow", at_most=1.15, cause=_CHECKING)
        alike = cpu_ratio(timings, _US, _VERIFYING)
        name = f"{title}: CPU time, against pyarrow that verifies page checksums too"
        figures = [figure, Figure(name, alike, "x", at_most=1.1)]
        return Result(title, timings, figures, 2.0, "M rows")

    return _with_and_without_meta("COW snapshot to Arrow", race_one)


def measure_mor(data: Path) -> list[Result]:
    """Merge on read, a tenth of the rows updated in Avro log blocks: against hudi-rs."""

    def race_one(title: str, meta: bool) -> Result:
        path = data / "mor"
        timings = race([_bucketfmt(path, meta), _hudi_rs(path, meta)], _REPETITIONS, _fingerprint)
        figure = Figure(title, ratio(timings, _US, _RS), "x hudi-rs", at_most=0.9)
        return Result(title, timings, [figure], 2.0, "M rows")

    return _with_and_without_meta("MOR snapshot to Arrow, 10 % updates", race_one)


def measure_log_only(data: Path) -> list[Result]:
    """Every row in Avro log blocks: against hudi-rs."""

    def race_one(title: str, meta: bool) -> Result:
        path = data / "log_only"
        timings = race([_bucketfmt(path, meta), _hudi_rs(path, meta)], 3, _fingerprint)
        figure = Figure(title, ratio(timings, _US, _RS), "x hudi-rs", at_most=0.45)
        return Result(title, timings, [figure], 2.0, "M rows")

    return _with_and_without_meta("Log-only table to Arrow", race_one)
