"""The metadata table kept in step: what an upsert costs more, and real Hudi doing the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from .measure import Figure, Result, Timing, cpu_ratio, ratio
from .writing import COW, check_alike, run_hudi, run_writing, write_input

__all__ = ["measure_metadata_cost", "measure_metadata_writing"]

_ROUNDS = 3
_PLAIN = "bucketfmt, no metadata table"
_STATISTICS = "bucketfmt, files and statistics in step"
_INDEXED = "bucketfmt, record index in step too"
_US, _KEYS = "bucketfmt", "pyarrow, the key columns read"
_HUDI = "Hudi 1.2.0, the same partitions"
_COMPRESSED = (
    "A quarter of the processor time is the start of the process, a sixth is compression, and most "
    "of the rest sorts keys by file group, and lays entries out: reading keys does none of these."
)


def measure_metadata_cost(data: Path) -> list[Result]:
    """Upsert into tables with more and more of a metadata table, and make a record index."""
    upserts = [Timing(peer, [], []) for peer in (_PLAIN, _STATISTICS, _INDEXED)]
    making, keys = Timing(_US, [], []), Timing(_KEYS, [], [])
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, updates, _ = write_input(data / "cow", folder, with_parquet=False)
        for _ in range(_ROUNDS):
            plain, statistics, indexed = (folder / name for name in ("p", "s", "i"))
            run_writing(Timing("", [], []), f"load {COW}", plain, rows)
            shutil.copytree(plain, statistics)
            run_writing(Timing("", [], []), "make statistics", statistics)
            shutil.copytree(statistics, indexed)
            run_writing(keys, "read keys", indexed)
            run_writing(making, "make record index", indexed)
            for timing, path in zip(upserts, (plain, statistics, indexed), strict=True):
                run_writing(timing, "upsert", path, updates)
            check_alike(plain, statistics, indexed)
            for path in (plain, statistics, indexed):
                shutil.rmtree(path)
    title = "COW upsert of 200 k rows of 2 M with a metadata table"
    figures = [
        Figure(f"{title}: {peer}", cpu_ratio(upserts, peer, _PLAIN), "x CPU", at_most=bound)
        for peer, bound in ((_STATISTICS, 1.15), (_INDEXED, 1.3))
    ]
    made = "A record index made of 2 M rows"
    times = cpu_ratio([making, keys], _US, _KEYS)
    bound = Figure(f"{made}: against {_KEYS}", times, "x CPU", at_most=3, cause=_COMPRESSED)
    for timing in (*upserts, making, keys):
        timing.peaks.clear()
    return [
        Result(title, upserts, figures, 0.2, "M rows"),
        Result(made, [making, keys], [bound], 2.0, "M rows"),
    ]


def measure_metadata_writing(data: Path) -> list[Result]:
    """Make a record index, and upsert with the metadata table in step, turn about with Hudi."""
    makings, upserts = ([Timing(_US, [], []), Timing(_HUDI, [], [])] for _ in range(2))
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, updates, _ = write_input(data / "cow", folder, with_parquet=True)
        with run_hudi(rows.with_suffix(".parquet"), updates.with_suffix(".parquet")) as hudi:
            for turn in range(_ROUNDS):
                ours, theirs = folder / f"ours{turn}", folder / f"theirs{turn}"
                ignored = Timing("", [], [])
                run_writing(ignored, f"load {COW}", ours, rows)
                run_writing(ignored, "make statistics", ours)
                order = {"path": str(theirs), "table_type": COW, "codec": "zstd"}
                hudi.run(ignored, work="load", metadata="statistics", **order)
                run_writing(makings[0], "make record index", ours)
                hudi.run(makings[1], work="index", **order)
                run_writing(upserts[0], "upsert", ours, updates)
                hudi.run(upserts[1], work="upsert", metadata="record index", **order)
                check_alike(ours, theirs)
                shutil.rmtree(ours)
                shutil.rmtree(theirs)
    for timing in (*makings, *upserts):
        timing.peaks.clear()
    return [
        _against_hudi("COW upsert of 200 k rows of 2 M, statistics and record index", upserts, 6),
        _against_hudi("A record index made of 2 M rows, beside Hudi", makings, 5),
    ]


def _against_hudi(title: str, timings: list[Timing], at_least: float) -> Result:
    times = ratio(timings, _HUDI, _US)
    figure = Figure(f"{title}: against {_HUDI}", times, "times as fast", at_least=at_least)
    return Result(title, timings, [figure])
