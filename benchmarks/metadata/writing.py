"""The metadata table kept in step: what an upsert costs more, and real Hudi doing the same."""

from __future__ import annotations

import shutil
import tempfile
import time
from itertools import product
from pathlib import Path

from benchmarks.measure import Figure, Result, Timing, cpu_ratio, ratio
from benchmarks.writing.writes import COW, MOR, check_alike, run_hudi, run_writing, write_input
from bucketfmt.format.hfile.block import BlockType, Codec, encode_block, read_block
from bucketfmt.format.hfile.reader import HFile

__all__ = ["measure_metadata_cost", "measure_metadata_writing"]

_ROUNDS = 3
_COST_ROUNDS = 7
_PLAIN = "bucketfmt, no metadata table"
_STATISTICS = "bucketfmt, files and statistics in step"
_INDEXED = "bucketfmt, record index in step too"
_US, _KEYS = "bucketfmt", "pyarrow, the key columns read"
_HUDI = "Hudi 1.2.0, the same partitions"
_UPSERTS = (_PLAIN, _STATISTICS, _INDEXED)
_KINDS = {COW: "COW", MOR: "MOR"}
_MAKE_INDEX = "make record index"
_COMPRESSION = "the entries compressed, alone"
_UPSERT_NOTE = (
    "Each process has done the same to a copy of the table before, so that nothing is imported; "
    "the tables take turns, in the one order and in the other."
)
_MERGED = (
    "Of what is added under the table lock, half to two thirds make the statistics of the "
    "partitions anew, from the records of all files of the newest file slices: Python decodes each "
    "record, and merges it with those of other files. The rest was not taken apart."
)
_LOGGED = (
    "Two thirds of what the record index adds lay out 200,000 entries, compress them, and write "
    "them to ten files; the rest hashes and sorts their keys. A log does not tell which keys are "
    "new, so that all have an entry."
)


def measure_metadata_cost(data: Path) -> list[Result]:
    """Upsert into tables with more and more of a metadata table, and make a record index."""
    upserts = {kind: [Timing(peer, [], []) for peer in _UPSERTS] for kind in _KINDS}
    making, keys, compression = (Timing(n, [], []) for n in (_US, _KEYS, _COMPRESSION))
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, updates, _ = write_input(data / "cow", folder, with_parquet=False)
        for kind, timings in upserts.items():
            plain, statistics, indexed = tables = [folder / f"{kind}_{name}" for name in "psi"]
            ignored = Timing("", [], [])
            run_writing(ignored, f"load {kind}", plain, rows)
            shutil.copytree(plain, statistics)
            run_writing(ignored, "make statistics", statistics)
            shutil.copytree(statistics, indexed)
            run_writing(ignored, _MAKE_INDEX, indexed)
            for turn in range(_COST_ROUNDS):
                pairs = list(zip(timings, tables, strict=True))
                if turn % 2:
                    pairs.reverse()
                check_alike(*(_run_warm(each, "upsert", table, updates) for each, table in pairs))
                if kind == COW:
                    _run_warm(keys, "read keys", statistics)
                    _run_warm(making, _MAKE_INDEX, statistics)
                    _time_compression(compression, indexed)
                for copies in folder.glob("copies*"):
                    shutil.rmtree(copies)
    results = []
    for kind, timings in upserts.items():
        title = f"{_KINDS[kind]} upsert of 200 k rows of 2 M with a metadata table"
        figures = [
            Figure(
                f"{title}: {peer}",
                cpu_ratio(timings, peer, _PLAIN),
                "x CPU",
                at_most=bound,
                cause=cause,
            )
            for peer, bound, cause in (
                (_STATISTICS, 1.15, _MERGED),
                (_INDEXED, 1.3, _LOGGED),
            )
        ]
        results.append(Result(title, timings, figures, 0.2, "M rows", [_UPSERT_NOTE]))
    made = "A record index made of 2 M rows"
    timings = [making, keys, compression]
    floor = 1 + cpu_ratio(timings, _COMPRESSION, _KEYS)
    cause = (
        f"Reading the keys and compressing the entries take {floor:.1f} times as long as reading "
        "the keys, so that no less can be had with entries that are compressed. The rest hashes "
        "and sorts the keys, and lays the entries out."
    )
    times = cpu_ratio(timings, _US, _KEYS)
    bound = Figure(f"{made}: against {_KEYS}", times, "x CPU", at_most=3, cause=cause)
    results.append(Result(made, timings, [bound], 2.0, "M rows"))
    for timing in (timing for result in results for timing in result.timings):
        timing.peaks.clear()
    return results


def measure_metadata_writing(data: Path) -> list[Result]:
    """Make a record index, and upsert with the metadata table in step, turn about with Hudi."""
    makings = [Timing(_US, [], []), Timing(_HUDI, [], [])]
    upserts = {kind: [Timing(_US, [], []), Timing(_HUDI, [], [])] for kind in _KINDS}
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, updates, _ = write_input(data / "cow", folder, with_parquet=True)
        with run_hudi(rows.with_suffix(".parquet"), updates.with_suffix(".parquet")) as hudi:
            for turn, (kind, timings) in product(range(_ROUNDS), upserts.items()):
                ours, theirs = folder / f"ours_{kind}{turn}", folder / f"theirs_{kind}{turn}"
                ignored = Timing("", [], [])
                our_making, their_making = makings if kind == COW else (ignored, ignored)
                run_writing(ignored, f"load {kind}", ours, rows)
                run_writing(ignored, "make statistics", ours)
                order = {"path": str(theirs), "table_type": kind, "codec": "zstd"}
                hudi.run(ignored, work="load", metadata="statistics", **order)
                run_writing(our_making, _MAKE_INDEX, ours)
                hudi.run(their_making, work="index", **order)
                run_writing(timings[0], "upsert", ours, updates)
                hudi.run(timings[1], work="upsert", metadata="record index", **order)
                check_alike(ours, theirs)
                shutil.rmtree(ours)
                shutil.rmtree(theirs)
    for timing in (*makings, *(each for timings in upserts.values() for each in timings)):
        timing.peaks.clear()
    return [
        *(
            _against_hudi(
                f"{_KINDS[kind]} upsert of 200 k rows of 2 M, statistics and record index",
                timings,
                6,
            )
            for kind, timings in upserts.items()
        ),
        _against_hudi("A record index made of 2 M rows, beside Hudi", makings, 5),
    ]


def _run_warm(timing: Timing, work: str, table: Path, rows: Path | None = None) -> Path:
    """Do one thing to a copy of a table in a process that has done it before; return the copy."""
    folder = Path(tempfile.mkdtemp(prefix="copies", dir=table.parent))
    before, copy = folder / "before", folder / "copy"
    shutil.copytree(table, before)
    shutil.copytree(table, copy)
    run_writing(timing, work, copy, rows, copy=before)
    return copy


def _time_compression(timing: Timing, table: Path) -> None:
    """Compress the blocks of a record index again, as its writer does."""
    contents = []
    for path in sorted((table / ".hoodie/metadata/record_index").glob("*.hfile")):
        data = path.read_bytes()
        file = HFile.of(data)
        codec = file.trailer.codec
        blocks = (read_block(data, codec, at=offset) for _, offset, _ in file.data_blocks)
        contents += [block.decoded().content for block in blocks]
    wall, cpu = time.perf_counter(), time.process_time()
    for content in contents:
        encode_block(BlockType.DATA, content, Codec.GZ)
    timing.walls.append(time.perf_counter() - wall)
    timing.cpus.append(time.process_time() - cpu)


def _against_hudi(title: str, timings: list[Timing], at_least: float) -> Result:
    times = ratio(timings, _HUDI, _US)
    figure = Figure(f"{title}: against {_HUDI}", times, "times as fast", at_least=at_least)
    return Result(title, timings, [figure])
