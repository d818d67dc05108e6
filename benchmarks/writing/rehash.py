"""Another number of buckets: against raw pyarrow reading and writing the same files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from benchmarks.measure import Figure, Result, Timing, ratio
from benchmarks.writing.writes import COW, run_writing, write_input

__all__ = ["measure_rehash"]

_ROUNDS = 3
_US, _BACK = "bucketfmt, 16 to 32 buckets", "bucketfmt, 32 to 16 buckets"
_FLOOR = "pyarrow, the same files read and written"
_MB = 1 << 20


def measure_rehash(data: Path) -> list[Result]:
    """Rehash a table of 2 M rows, turn about with pyarrow, and one of 10 M rows for its memory."""
    timings = [Timing(peer, [], []) for peer in (_US, _BACK, _FLOOR)]
    larger = Timing("bucketfmt, 10 M rows", [], [])
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, _, _ = write_input(data / "cow", folder, with_parquet=False)
        for _ in range(_ROUNDS):
            ours, copied = folder / "ours", folder / "copied"
            run_writing(Timing("", [], []), f"load {COW}", ours, rows)
            shutil.copytree(ours, copied)
            run_writing(timings[2], "copy", copied)
            run_writing(timings[0], "rehash", ours)
            run_writing(timings[1], "rehash back", ours)
            shutil.rmtree(ours)
            shutil.rmtree(copied)
        rows, _, _ = write_input(data / "cow_5x", folder, with_parquet=False)
        run_writing(Timing("", [], []), f"load {COW}", folder / "large", rows)
        run_writing(larger, "rehash", folder / "large")
    title = "Rehash of 2 M rows"
    figures = [
        Figure(f"{title}: {peer}, against {_FLOOR}", ratio(timings, peer, _FLOOR), "x", at_most=2)
        for peer in (_US, _BACK)
    ]
    peaks = [max(timing.peaks) / _MB for timing in (timings[0], larger)]
    figures.append(
        Figure(
            f"{title}: peak memory of 10 M rows against 2 M", peaks[1] / peaks[0], "x", at_most=5
        )
    )
    return [
        Result(
            title,
            [*timings, larger],
            figures,
            notes=[f"Peaks: {peaks[0]:.0f} MB and {peaks[1]:.0f} MB."],
        )
    ]
