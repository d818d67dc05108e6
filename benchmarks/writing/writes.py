"""Writing: against real Hudi doing the same, and raw pyarrow reading and writing the same files.

usage: python -m benchmarks.writing.writes WORK PATH [SOURCE ROWS [COPY]]

Does one thing, and prints what it took. Every peer has the same two processors, and the rows in
memory beforehand; where memory is measured, they come as a stream. bucketfmt and pyarrow begin as a
new process each time, and Hudi is one process; each has written small tables before it is timed, so
that no imports are. Given a copy of the table, the process first does the same to the copy,
untimed: what a process does once is done then.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import bucketfmt as bf
import bucketfmt.api.table
from benchmarks.measure import Figure, Result, Timing, cpu_seconds, ratio
from benchmarks.reading.memory import peak_bytes

__all__ = [
    "COW",
    "MOR",
    "check_alike",
    "measure_write_memory",
    "measure_writing",
    "run_hudi",
    "run_writing",
    "write_input",
]

_ROOT = Path(__file__).resolve().parents[2]
_HUDI_PYTHON = _ROOT / ".venv-hudi" / "bin" / "python"
_PROCESSORS = 2
_ROUNDS = 3
_MEMORY_BOUND_MB = 700
_BUCKETS = 16
_IN_MEMORY, _STREAM = "memory", "stream"
_US, _FLOOR = "bucketfmt", "pyarrow, the same files read and written"
_US_ONE = "bucketfmt, one column changed"
_GZIP = (
    "On the machine these were measured on, Hudi takes hardly longer with gzip than with zstd. "
    "pyarrow, which only copies the same files, does not keep the bound; runs of bucketfmt come "
    "out on both sides of it."
)
_ZSTD = (
    "Of the processor time of a load, four tenths are pyarrow encoding parquet and a sixth key "
    "filters; of an upsert, three tenths are pyarrow encoding, and a quarter reads and decodes the "
    "old rows. Beside other work Hudi loses more than bucketfmt does."
)
_HUDI, _HUDI_DEFAULT = "Hudi 1.2.0, zstd", "Hudi 1.2.0, gzip (its default)"
_LEVELS = "Each writes zstd at its own default level: pyarrow, and so bucketfmt, at 1, Hudi at 3."
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
_CHANGES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "name": lambda names: pc.binary_join_element_wise(names, "changed", "-"),
    "price": lambda prices: pc.add(prices, 0.5),
    "ts": lambda times: pc.add(times, 1),
}
"""What an update changes, or `ts` alone; the key, `qty` and `day` stay."""


# ---------------------------------------------------------------------------- one piece of work


_Rows = pa.Table | pa.RecordBatchReader | None


def _load(path: str, rows: _Rows, table_type: str, partition_by: Sequence[str] = ()) -> None:
    table = bf.create(
        path,
        schema=rows.schema,
        record_key=["id"],
        partition_by=partition_by,
        ordering=["ts"],
        index=bf.SimpleBucketIndex(_BUCKETS),
        table_type=table_type,
    )
    table.bulk_insert(rows)


def _load_partition(path: str, rows: _Rows) -> None:
    """Load a table of one partition, for which rules may state a number of buckets."""
    regions = pa.repeat("all", rows.num_rows)
    _load(path, rows.append_column("region", regions), COW, ["region"])


def _upsert(path: str, rows: _Rows) -> None:
    bf.open(path).upsert(rows)


def _copy_with_pyarrow(path: str) -> None:
    """Read each base file and write it again: the least that a rewrite of all files costs."""
    files = sorted(Path(path).glob("*.parquet"))
    into = Path(path, "copies")
    into.mkdir()

    def copy(file: Path) -> None:
        pq.write_table(pq.ParquetFile(file).read(), into / file.name, compression="zstd")

    with ThreadPoolExecutor(_PROCESSORS) as pool:
        list(pool.map(copy, files))


def _read_keys_with_pyarrow(path: str) -> None:
    for file in sorted(Path(path).glob("*.parquet")):
        pq.read_table(file, columns=["_hoodie_record_key"])


_WORK = {
    "make statistics": lambda path, _: bf.open(path).metadata_table.init(
        "column_stats", "partition_stats"
    ),
    "make record index": lambda path, _: bf.open(path).metadata_table.init("record_index"),
    "read keys": lambda path, _: _read_keys_with_pyarrow(path),
    "load COPY_ON_WRITE": lambda path, rows: _load(path, rows, COW),
    "load MERGE_ON_READ": lambda path, rows: _load(path, rows, MOR),
    "load a partition": _load_partition,
    "upsert": _upsert,
    "compact": lambda path, _: bf.open(path).compact(),
    "rehash": lambda path, _: bf.open(path).rehash(2 * _BUCKETS),
    "rehash back": lambda path, _: bf.open(path).rehash(_BUCKETS),
    "copy": lambda path, _: _copy_with_pyarrow(path),
}


def _write_small_tables() -> None:
    """Do to a few rows what Hudi's side does: what is imported late is imported here.

    pyarrow imports pandas, where it is installed, for the first array of other than Arrow values.
    """
    few = pa.table({"id": [str(number) for number in range(1_000)], "ts": range(1_000)})
    with tempfile.TemporaryDirectory() as folder:
        for table_type in (COW, MOR):
            path = f"{folder}/{table_type}"
            _load(path, few, table_type)
            _upsert(path, few)
        bf.open(path).compact()


def _do(work: str, path: str, source: str = "", file: str = "", copy: str = "") -> None:
    rows: _Rows = None
    _write_small_tables()
    if source == _STREAM:
        rows = pa.ipc.open_stream(pa.OSFile(file))
    elif source == _IN_MEMORY:
        rows = pa.ipc.open_stream(pa.memory_map(file)).read_all()
    if copy:
        _WORK[work](copy, rows)
    wall, cpu = time.perf_counter(), time.process_time()
    _WORK[work](path, rows)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak_bytes()}))


# ---------------------------------------------------------------------------- the peers


def _limit_processors() -> None:
    """Leave two processors, far apart: neighbours may be two threads of one core."""
    there = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, there[:: max(1, len(there) // _PROCESSORS)][:_PROCESSORS])


def run_writing(
    timing: Timing,
    work: str,
    path: Path,
    rows: Path | None = None,
    source: str = _IN_MEMORY,
    copy: Path | None = None,
) -> None:
    """Do one thing in a process of its own, and add to the timing what it reports.

    Given a copy of the table, the process does the same to it before, untimed.
    """
    command = [sys.executable, "-m", "benchmarks.writing.writes", work, str(path)]
    if rows is not None or copy is not None:
        command += ["" if rows is None else source, "" if rows is None else str(rows)]
    if copy is not None:
        command.append(str(copy))
    os.sync()  # what the peer before wrote is on disk: nobody waits for it
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        preexec_fn=_limit_processors,
    )
    found = json.loads(done.stdout)
    timing.walls.append(found["wall"])
    timing.cpus.append(found["cpu"])
    timing.peaks.append(int(found["peak"]))


class _Hudi:
    """Spark with Hudi, which writes on order."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answer()

    def run(self, timing: Timing, **order: str) -> None:
        if self._process.stdin is None:
            raise TypeError("Hudi is ordered through a pipe")
        os.sync()
        before = cpu_seconds(self._process.pid)
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        timing.walls.append(self._answer()["wall"])
        timing.cpus.append(cpu_seconds(self._process.pid) - before)

    def _answer(self) -> dict[str, Any]:
        if self._process.stdout is None:
            raise TypeError("Hudi answers through a pipe")
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit("Hudi ended; its messages are above")


@contextmanager
def run_hudi(rows: Path, updates: Path) -> Iterator[_Hudi]:
    job = "benchmarks.writing.hudi_writes"
    command = [str(_HUDI_PYTHON), "-m", job, str(rows), str(updates)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdin=pipe,
        stdout=pipe,
        text=True,
        cwd=_ROOT,
        preexec_fn=_limit_processors,  # noqa: PLW1509  (no threads run yet)
    ) as process:
        try:
            yield _Hudi(process)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()


# ---------------------------------------------------------------------------- the data


def write_input(table: Path, folder: Path, *, with_parquet: bool) -> tuple[Path, Path, Path]:
    """Write the rows of a table, and every tenth of them changed in several columns and in one.

    As streams, and the first two as parquet.
    """
    rows, updates, updates_of_one = (folder / f"{n}.arrow" for n in ("rows", "updates", "one"))
    scan = bf.open(table).scan()
    schema = scan.schema
    with (
        pa.ipc.new_stream(str(rows), schema) as every,
        pa.ipc.new_stream(str(updates), schema) as tenth,
        pa.ipc.new_stream(str(updates_of_one), schema) as tenth_of_one,
    ):
        for batch in scan.to_batches():
            every.write_batch(batch)
            taken = batch.take(pa.array(range(0, batch.num_rows, 10)))
            tenth.write_batch(_changed(taken, list(_CHANGES)))
            tenth_of_one.write_batch(_changed(taken, ["ts"]))
    if with_parquet:
        for path in (rows, updates):
            with pa.ipc.open_stream(str(path)) as reader:
                pq.write_table(reader.read_all(), path.with_suffix(".parquet"))
    return rows, updates, updates_of_one


def _changed(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    for name in names:
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, batch.schema.field(at), _CHANGES[name](batch.column(at)))
    return batch


def _fingerprint(path: Path) -> tuple[object, ...]:
    rows = bf.open(path).scan(["id", "name", "price", "ts"]).to_arrow()
    of_texts = (pc.count_distinct(rows.column(name)).as_py() for name in ("id", "name"))
    of_numbers = (round(pc.sum(rows.column(name)).as_py(), 2) for name in ("price", "ts"))
    return rows.num_rows, *of_texts, *of_numbers


def check_alike(*tables: Path) -> None:
    found = {str(path): _fingerprint(path) for path in tables}
    if len(set(found.values())) != 1:
        raise SystemExit(f"the peers disagree: {found}")


# ---------------------------------------------------------------------------- what is measured


def measure_writing(data: Path) -> list[Result]:
    """Load, upsert and compact tables of 2 M rows, turn about with Hudi."""
    timings: dict[str, dict[str, Timing]] = {
        "load": {peer: Timing(peer, [], []) for peer in (_US, _HUDI, _HUDI_DEFAULT)},
        "COW": {
            peer: Timing(peer, [], []) for peer in (_US, _US_ONE, _FLOOR, _HUDI, _HUDI_DEFAULT)
        },
        "MOR": {peer: Timing(peer, [], []) for peer in (_US, _HUDI)},
        "compact": {peer: Timing(peer, [], []) for peer in (_US, _HUDI)},
    }
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, updates, updates_of_one = write_input(data / "cow", folder, with_parquet=True)
        with run_hudi(rows.with_suffix(".parquet"), updates.with_suffix(".parquet")) as hudi:
            for _ in range(_ROUNDS):
                _race(timings, hudi, folder, rows, updates, updates_of_one)
    for own in timings.values():
        for timing in own.values():
            timing.peaks.clear()  # memory has a benchmark of its own
    return [
        _result(
            "Load of 2 M rows into a new table (bulk_insert)", timings["load"], 2.0, {_HUDI: 8}
        ),
        _result(
            "COW upsert of 200 k rows of 2 M",
            timings["COW"],
            0.2,
            {_HUDI: 15, _HUDI_DEFAULT: 15},
            floor_at_most=2,
        ),
        _result("MOR upsert of 200 k rows of 2 M", timings["MOR"], 0.2, {_HUDI: 5}),
        _result(
            "Compaction of 2 M rows, 200 k of them logged", timings["compact"], 2.0, {_HUDI: 5}
        ),
    ]


def _race(
    timings: dict[str, dict[str, Timing]],
    hudi: _Hudi,
    folder: Path,
    rows: Path,
    updates: Path,
    updates_of_one: Path,
) -> None:
    ours, theirs, default = (folder / name for name in ("ours", "theirs", "default"))
    copied, ours_of_one = folder / "copied", folder / "ours of one"
    try:
        run_writing(timings["load"][_US], f"load {COW}", ours, rows)
        for peer, path, codec in ((_HUDI, theirs, "zstd"), (_HUDI_DEFAULT, default, "gzip")):
            order = {"path": str(path), "table_type": COW, "codec": codec}
            hudi.run(timings["load"][peer], work="load", **order)
        check_alike(ours, theirs, default)
        shutil.copytree(ours, copied)
        shutil.copytree(ours, ours_of_one)
        run_writing(timings["COW"][_FLOOR], "copy", copied)
        run_writing(timings["COW"][_US], "upsert", ours, updates)
        run_writing(timings["COW"][_US_ONE], "upsert", ours_of_one, updates_of_one)
        for peer, path, codec in ((_HUDI, theirs, "zstd"), (_HUDI_DEFAULT, default, "gzip")):
            order = {"path": str(path), "table_type": COW, "codec": codec}
            hudi.run(timings["COW"][peer], work="upsert", **order)
        check_alike(ours, theirs, default)
        for path in (ours, theirs, default):
            shutil.rmtree(path)

        ignored = Timing("", [], [])
        run_writing(ignored, f"load {MOR}", ours, rows)
        order = {"path": str(theirs), "table_type": MOR, "codec": "zstd"}
        hudi.run(ignored, work="load", **order)
        run_writing(timings["MOR"][_US], "upsert", ours, updates)
        hudi.run(timings["MOR"][_HUDI], work="upsert", **order)
        check_alike(ours, theirs)
        run_writing(timings["compact"][_US], "compact", ours)
        hudi.run(timings["compact"][_HUDI], work="compact", **order)
        check_alike(ours, theirs)
        for path in (ours, theirs):
            if any(file_slice.log_files for file_slice in bf.open(path).scan().plan().slices):
                raise SystemExit(f"{path} is not compacted")
    finally:
        for path in (ours, theirs, default, copied, ours_of_one):
            shutil.rmtree(path, ignore_errors=True)


def _result(
    title: str,
    timings: dict[str, Timing],
    million_rows: float,
    targets: dict[str, float],
    floor_at_most: float | None = None,
) -> Result:
    """Return a table of peers; `targets` are the least ratios of a peer's time to ours."""
    every = list(timings.values())
    figures = [
        Figure(
            f"{title}: against {peer}",
            ratio(every, peer, to=_US),
            "times as fast",
            at_least=n,
            cause=_GZIP if peer == _HUDI_DEFAULT else _ZSTD,
        )
        for peer, n in targets.items()
    ]
    if floor_at_most is not None:
        times = ratio(every, _US, to=_FLOOR)
        figures.append(Figure(f"{title}: against {_FLOOR}", times, "x", at_most=floor_at_most))
    return Result(title, every, figures, million_rows, "M rows", notes=[_LEVELS])


def measure_write_memory(data: Path) -> list[Result]:
    """Peak memory of a load and of an upsert of a tenth, from a stream of rows."""
    results = []
    for table, million_rows in (("cow", 2.0), ("cow_5x", 10.0)):
        load, upsert = (Timing(name, [], [], []) for name in ("load", "upsert of a tenth"))
        with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
            folder = Path(temporary)
            rows, updates, _ = write_input(data / table, folder, with_parquet=False)
            for turn in range(_ROUNDS):
                path = folder / f"t{turn}"
                run_writing(load, f"load {COW}", path, rows, _STREAM)
                run_writing(upsert, "upsert", path, updates, _STREAM)
                shutil.rmtree(path)
        title = f"Peak memory of writing, COW, {million_rows:.0f} M rows"
        figures = [
            Figure(
                f"{title}: {timing.peer}",
                max(timing.peaks) / 1e6,
                "MB",
                at_most=_MEMORY_BOUND_MB,
            )
            for timing in (load, upsert)
        ]
        results.append(Result(title, [load, upsert], figures, million_rows, "M rows"))
    return results


if __name__ == "__main__":
    _do(*sys.argv[1:])
