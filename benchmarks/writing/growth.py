"""How the cost of a call grows with commits, partitions, file groups, columns and log files.

A table of results has a line for each size; its "x" columns are relative to the smallest size.
Tables are made here: no Hudi, local disk. The commits of `measure_commits` and the log files of
`measure_log_files` are made without services, which would take them away.
"""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import bucketfmt as bf
from benchmarks.measure import Figure, Result, Timing
from bucketfmt.format.keys.hashing_kernels import bucket_ids
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, encode_commit_metadata_avro
from bucketfmt.testing.recording_store import RecordingStore

__all__ = ["SIZES", "measure_curve", "measure_growth", "measure_growth_by_commits"]

SIZES: Mapping[str, Sequence[int]] = {
    "commits": (10, 100, 500, 2_000),
    "partitions": (10, 100, 1_000, 5_000, 10_000),
    "file_groups": (100, 1_000, 5_000, 20_000),
    "columns": (10, 100, 500, 2_000),
    "log_files": (1, 10, 50, 200),
    "left_alone": (100, 500, 1_000, 2_000),
}
"""The curves, and the sizes at which each is measured."""

_OWN = bf.WriterConfig(services=None)
_SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())])
_REPETITIONS = 3
_REPETITIONS_OF_COMMITS = 25  # of some milliseconds each
_JUDGED_PARTITIONS = 5_000
# What the time goes to where a target is missed.
_LISTINGS = (
    "A write lists the timeline twice under the lock; some two thirds of what it grows by is the "
    "operating system listing 6,000 files, and Python making their names. The rest looks for what "
    "changed, and tells each reader of 2,000 commits which columns they state."
)
_LOOKUP_LISTING = (
    "Where the timeline is on no disk of this machine, a look-up lists it once: 6,000 files."
)
_FILES = "Python opens each file alone; a look-up also decodes the statistics of its keys there."
_FIELDS = "Columns are merged and encoded one after another, each by calls from Python."


def measure_growth(_data: Path) -> list[Result]:
    """Measure all curves but that of `measure_growth_by_commits`."""
    return [measure_curve(name, sizes) for name, sizes in SIZES.items() if name != "commits"]


def measure_growth_by_commits(_data: Path) -> list[Result]:
    """Measure the curve whose targets are ratios alone, so that any machine will do."""
    return [measure_curve("commits", SIZES["commits"])]


def measure_curve(name: str, sizes: Sequence[int]) -> Result:
    """Measure one of `SIZES` at these sizes, which ascend."""
    curves: dict[str, Callable[[Path, Sequence[int]], Result]] = {
        "commits": measure_commits,
        "partitions": measure_partitions,
        "file_groups": measure_file_groups,
        "columns": measure_columns,
        "log_files": measure_log_files,
        "left_alone": measure_left_alone,
    }
    with _folder() as folder:
        return curves[name](folder, sizes)


def measure_commits(folder: Path, sizes: Sequence[int]) -> Result:
    """Measure an upsert and a look-up of one row, with many commits on the active timeline.

    The sizes take turns, so that a machine that is slower for a while is so for all.
    """
    timings: dict[str, Timing] = {}
    look_ups: dict[str, Callable[[], object]] = {}
    writes: dict[str, Callable[[], object]] = {}
    for size in sizes:
        table = _create(folder / f"commits_{size}")
        table.upsert(_rows(range(100), 1))
        _add_commits(Path(table.uri), size)
        table = bf.open(table.uri, writer=_OWN)
        look_up, upsert = partial(table.lookup, ["k1"]), partial(table.upsert, _rows([1], 2))
        cold, warm = f"{size} commits, cold look-up", f"{size} commits, look-up"
        write, behind = f"{size} commits, upsert of a row", f"{size} commits, look-up after it"
        timings[cold] = _timed(cold, look_up, 1)
        timings |= {name: Timing(name, [], []) for name in (warm, write, behind)}
        look_ups[warm] = look_up
        writes |= {write: upsert, behind: look_up}  # the latter finds a commit more
    for calls in (look_ups, writes):
        for _ in range(_REPETITIONS_OF_COMMITS):
            for name, call in calls.items():
                _add_time(timings[name], call)
    figures = []
    for call, name, cause in (
        ("upsert of a row", "an upsert of a row", _LISTINGS),
        (" commits, look-up", "a look-up", _LOOKUP_LISTING),
    ):
        cpus = [timing.cpu for peer, timing in timings.items() if peer.endswith(call)]
        told = f"{name}, {sizes[-1]} commits against {sizes[0]}"
        figures.append(Figure(told, cpus[-1] / cpus[0], "x", 1.5, cause=cause))
    return Result("Commits on the active timeline", [*timings.values()], figures)


def measure_partitions(folder: Path, sizes: Sequence[int]) -> Result:
    """Measure calls that touch every partition, of two rows each, in a process of its own."""
    timings: list[Timing] = []
    figures: list[Figure] = []
    for size in sizes:
        path = folder / f"partitions_{size}"
        _create(path, partition_by=["p"], buckets=1).upsert(_partitioned(size, 1))
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            found, peak = pool.apply(_use_partitions, (str(path), size))
        timings += found
        if size == _JUDGED_PARTITIONS:
            figures = _judge_partitions(size, found, peak)
    return Result("Partitions", timings, figures)


def _judge_partitions(size: int, found: Sequence[Timing], peak: int) -> list[Figure]:
    figures = []
    for name, bound in (("count", 2.0), ("look-up without partition", 3.0), ("upsert", 25.0)):
        seconds = next(t.cpu for t in found if t.peer.endswith(name))
        figures.append(
            Figure(f"{name} of {size} partitions", seconds, "CPU s", bound, cause=_FILES)
        )
    return [*figures, Figure(f"peak memory, {size} partitions", peak / 1e6, "MB", 600)]


def measure_file_groups(folder: Path, sizes: Sequence[int]) -> Result:
    """Measure calls on a table without partitions, of as many buckets, each of which has a row."""
    timings: list[Timing] = []
    for size in sizes:
        numbers = _one_for_each_bucket(size)
        table = _create(folder / f"file_groups_{size}", buckets=size)
        table.upsert(_rows(numbers, 1))
        key, row = [f"k{numbers[0]}"], _rows(numbers[:1], 2)
        table = bf.open(table.uri, writer=_OWN)
        calls: list[tuple[str, Callable[[bf.Table], object], int]] = [
            ("cold look-up", lambda t: t.lookup(key), 1),  # noqa: B023
            ("look-up", lambda t: t.lookup(key), _REPETITIONS),  # noqa: B023
            ("upsert of a row", lambda t: t.upsert(row), _REPETITIONS),  # noqa: B023
            ("count", lambda t: t.scan().count(), 1),
        ]
        timings += [
            _timed(f"{size} file groups, {name}", partial(call, table), repetitions)
            for name, call, repetitions in calls
        ]
    return Result("File groups of a table without partitions", timings)


def measure_columns(folder: Path, sizes: Sequence[int]) -> Result:
    """Measure an upsert, a scan and a compaction of two rows of many columns."""
    timings: list[Timing] = []
    for size in sizes:
        kinds = [pa.int64(), pa.string(), pa.float64(), pa.timestamp("us")]
        fields = [(f"c{number}", kinds[number % 4]) for number in range(size - 1)]
        schema = pa.schema([("id", pa.string()), *fields])
        table = _create(folder / f"columns_{size}", schema, kind="MERGE_ON_READ")
        table.upsert(_wide_rows(schema, 1))
        rows = _wide_rows(schema, 2)
        timings += [
            _timed(f"{size} columns, upsert", lambda t=table, r=rows: t.upsert(r)),
            _timed(f"{size} columns, scan", lambda t=table: t.scan().to_arrow()),
            _timed(f"{size} columns, compact", table.compact, 1),
        ]
    figures = [
        Figure(timing.peer, timing.cpu, "CPU s", 1.0, cause=_FIELDS) for timing in timings[-3:]
    ]
    return Result("Columns of a table of two rows", timings, figures)


def measure_log_files(folder: Path, sizes: Sequence[int]) -> Result:
    """Measure reads of a file slice of 10,000 rows with many log files of one row."""
    table = _create(folder / "log_files", kind="MERGE_ON_READ", buckets=1)
    table.upsert(_rows(range(10_000), 1))
    timings, made = [], 0
    for size in sizes:
        while made < size:
            made += 1
            table.upsert(_rows([made], made))
        timings.append(_timed(f"{size} log files, look-up", lambda: table.lookup(["k1"])))
        timings.append(_timed(f"{size} log files, scan", lambda: table.scan().to_arrow()))
    return Result("Log files of a file slice", timings)


def measure_left_alone(folder: Path, sizes: Sequence[int]) -> Result:
    """Measure a table to which two processes in turns write rows, and nobody calls a service.

    A size is a number of commits.
    """
    uri = str(folder / "left_alone")
    _create(Path(uri), kind="MERGE_ON_READ", writer=bf.WriterConfig())
    context = multiprocessing.get_context("spawn")
    timings, notes = [], []
    done = 0
    with context.Pool(1) as first, context.Pool(1) as second:
        for commits in sizes:
            half = (commits - done) // 2
            tasks = [
                pool.apply_async(_write_alone, (uri, n, half))
                for n, pool in enumerate((first, second))
            ]
            for task in tasks:
                task.get()
            done = commits
            table = bf.open(uri)
            store = RecordingStore(table.store)
            watched = bf.Table(store, table.config, table.limits, None, bf.WriterConfig())
            cold = _timed(
                f"after {commits} commits, cold look-up", partial(watched.lookup, ["k1"]), 1
            )
            write = partial(watched.upsert, _rows([1], 0))
            upsert = _timed(f"after {commits} commits, upsert of a row", write)
            operations = len(store.operations)
            logs = max(table.inspect.file_groups()["log_files"].to_pylist())
            timings += [cold, upsert]
            files = sum(1 for path in Path(uri, ".hoodie/timeline").iterdir() if path.is_file())
            notes.append(
                f"After {commits} commits: {files} timeline files, {len(table.timeline.instants)} "
                f"instants, at most {logs} log files in a slice, {operations} operations "
                f"on the store by a cold look-up and {_REPETITIONS} upserts."
            )
    upserts = [timing.cpu for timing in timings if "upsert" in timing.peer]
    figure = Figure(
        f"an upsert after {sizes[-1]} commits against one after {sizes[0]}",
        upserts[-1] / upserts[0],
        "x",
        1.5,
    )
    return Result("A table left alone, with services", timings, [figure], notes=notes)


# -- tables


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bucketfmt_growth_"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _create(
    path: Path,
    schema: pa.Schema = _SCHEMA,
    *,
    kind: Any = "COPY_ON_WRITE",
    partition_by: Sequence[str] = (),
    buckets: int = 4,
    writer: bf.WriterConfig = _OWN,
) -> bf.Table:
    return bf.create(
        str(path),
        schema=schema,
        record_key=["id"],
        partition_by=partition_by,
        index=bf.SimpleBucketIndex(buckets),
        table_type=kind,
        writer=writer,
    )


def _rows(numbers: Sequence[int], value: int) -> pa.Table:
    count = len(numbers)
    keys = [f"k{number}" for number in numbers]
    return pa.table({"id": keys, "v": [value] * count, "p": ["p"] * count}, _SCHEMA)


def _one_for_each_bucket(buckets: int) -> list[int]:
    """Return numbers of rows, whose keys have these many buckets, one each."""
    keys = pa.array([f"k{number}" for number in range(20 * buckets)])
    _, first = np.unique(bucket_ids([keys], buckets), return_index=True)
    return [int(number) for number in first]


def _partitioned(partitions: int, value: int) -> pa.Table:
    numbers = range(2 * partitions)
    paths = [f"p{number % partitions:05d}" for number in numbers]
    keys = [f"k{number}" for number in numbers]
    return pa.table({"id": keys, "v": [value] * len(numbers), "p": paths}, _SCHEMA)


def _wide_rows(schema: pa.Schema, value: int) -> pa.Table:
    numbers = pa.array([value, value + 1], pa.int64())
    columns = {field.name: numbers.cast(field.type) for field in schema}
    return pa.table({**columns, "id": ["a", "b"]}, schema)


def _add_commits(root: Path, count: int) -> None:
    """Add commits that wrote no file: their cost is that of the timeline alone."""
    content = encode_commit_metadata_avro(CommitMetadata(operation_type="UPSERT"), replace=False)
    timeline = root / ".hoodie" / "timeline"
    for number in range(count):
        requested, completed = f"2025010100{number:05d}00", f"2025010100{number:05d}50"
        (timeline / f"{requested}.commit.requested").touch()
        (timeline / f"{requested}.inflight").touch()
        (timeline / f"{requested}_{completed}.commit").write_bytes(content)


# -- processes


def _use_partitions(uri: str, partitions: int) -> tuple[list[Timing], int]:
    rows = _partitioned(partitions, 2)
    timings = []
    calls: list[tuple[str, Callable[[bf.Table], object]]] = [
        ("count", lambda t: t.scan().count()),
        ("look-up without partition", lambda t: t.lookup(["k1"])),
        ("upsert", lambda t: t.upsert(rows)),
    ]
    for name, act in calls:
        table = bf.open(uri, writer=_OWN)
        timings.append(_timed(f"{partitions} partitions, {name}", lambda: act(table), 1))  # noqa: B023
    return timings, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _write_alone(uri: str, number: int, count: int) -> None:
    table = bf.open(uri)
    for turn in range(count):
        table.upsert(_rows([(turn * 2 + number) % 50], turn), retries=50)


def _timed(name: str, act: Callable[[], object], repetitions: int = _REPETITIONS) -> Timing:
    timing = Timing(name, [], [])
    for _ in range(repetitions):
        _add_time(timing, act)
    return timing


def _add_time(timing: Timing, act: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    timing.walls.append(time.perf_counter() - wall)
    timing.cpus.append(time.process_time() - cpu)
