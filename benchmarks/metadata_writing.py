"""The metadata table kept in step: what an upsert costs more, and real Hudi doing the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from .measure import Figure, Result, Timing, cpu_ratio, ratio
from .writing import COW, MOR, check_alike, run_hudi, run_writing, write_input

__all__ = ["measure_metadata_cost", "measure_metadata_writing"]

_ROUNDS = 3
_PLAIN = "bucketfmt, no metadata table"
_STATISTICS = "bucketfmt, files and statistics in step"
_INDEXED = "bucketfmt, record index in step too"
_US, _KEYS = "bucketfmt", "pyarrow, the key columns read"
_HUDI = "Hudi 1.2.0, the same partitions"
_UPSERTS = (_PLAIN, _STATISTICS, _INDEXED)
_KINDS = {COW: "COW", MOR: "MOR"}
_MAKE_INDEX = "make record index"
_COMPRESSED = (
    "Of the processor time a sixth is the start of the process, a fifth is compression, a sixth "
    "reads the keys, and most of the rest hashes and sorts keys, and copies them into their file "
    "groups and entries: reading keys does only one of these."
)


def measure_metadata_cost(data: Path) -> list[Result]:
    """Upsert into tables with more and more of a metadata table, and make a record index."""
    upserts = {kind: [Timing(peer, [], []) for peer in _UPSERTS] for kind in _KINDS}
    making, keys = Timing(_US, [], []), Timing(_KEYS, [], [])
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, updates, _ = write_input(data / "cow", folder, with_parquet=False)
        for _ in range(_ROUNDS):
            for kind, timings in upserts.items():
                plain, statistics, indexed = tables = [folder / name for name in "psi"]
                run_writing(Timing("", [], []), f"load {kind}", plain, rows)
                shutil.copytree(plain, statistics)
                run_writing(Timing("", [], []), "make statistics", statistics)
                shutil.copytree(statistics, indexed)
                if kind == COW:
                    run_writing(keys, "read keys", indexed)
                run_writing(making if kind == COW else Timing("", [], []), _MAKE_INDEX, indexed)
                for timing, path in zip(timings, tables, strict=True):
                    run_writing(timing, "upsert", path, updates)
                check_alike(*tables)
                for path in tables:
                    shutil.rmtree(path)
    results = []
    for kind, timings in upserts.items():
        title = f"{_KINDS[kind]} upsert of 200 k rows of 2 M with a metadata table"
        figures = [
            Figure(f"{title}: {peer}", cpu_ratio(timings, peer, _PLAIN), "x CPU", at_most=bound)
            for peer, bound in ((_STATISTICS, 1.15), (_INDEXED, 1.3))
        ]
        results.append(Result(title, timings, figures, 0.2, "M rows"))
    made = "A record index made of 2 M rows"
    times = cpu_ratio([making, keys], _US, _KEYS)
    bound = Figure(f"{made}: against {_KEYS}", times, "x CPU", at_most=3, cause=_COMPRESSED)
    results.append(Result(made, [making, keys], [bound], 2.0, "M rows"))
    for timing in (timing for result in results for timing in result.timings):
        timing.peaks.clear()
    return results


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
                run_writing(makings[0], _MAKE_INDEX, ours)
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
