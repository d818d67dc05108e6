"""Twice as many buckets, against real Hudi's procedure on a copy of the same table."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import bucketfmt as bf
from benchmarks.measure import Figure, Result, Timing, cpu_ratio, ratio
from benchmarks.writing.writes import check_alike, run_hudi, run_writing, write_input

__all__ = ["measure_rescale"]

_ROUNDS = 2
_US, _HUDI = "bucketfmt, rehash", "Hudi 1.2.0, partition_bucket_index_manager"
_BUCKETS = 32
_FEW = 20_000


def measure_rescale(data: Path) -> list[Result]:
    """Give a table of 2 M rows 32 buckets instead of 16, turn about with Hudi."""
    timings = [Timing(_US, [], []), Timing(_HUDI, [], [])]
    with tempfile.TemporaryDirectory(prefix="bucketfmt-bench-") as temporary:
        folder = Path(temporary)
        rows, _, _ = write_input(data / "cow", folder, with_parquet=False)
        few = folder / "few.arrow"
        with pa.ipc.open_stream(str(rows)) as reader:
            taken = pa.Table.from_batches([reader.read_next_batch()]).slice(0, _FEW)
        with pa.ipc.new_stream(str(few), taken.schema) as stream:
            stream.write_table(taken)
        pq.write_table(taken, folder / "few")
        for loaded, source in (("loaded", rows), ("small", few)):
            run_writing(Timing("", [], []), "load a partition", folder / loaded, source)
        with run_hudi(folder / "few", folder / "few") as hudi:
            for number in range(1 + _ROUNDS):  # the first one, of few rows, warms up
                ours, theirs = folder / f"ours_{number}", folder / f"theirs_{number}"
                for path in (ours, theirs):
                    shutil.copytree(folder / ("loaded" if number else "small"), path)
                own = timings if number else [Timing("", [], []), Timing("", [], [])]
                run_writing(own[0], "rehash", ours)
                order = {"codec": "zstd", "num_buckets": str(_BUCKETS)}
                hudi.run(own[1], work="rescale", path=str(theirs), **order)
                check_alike(ours, theirs)
                for path in (ours, theirs):
                    buckets = bf.open(path).inspect.buckets()["bucket_id"].to_pylist()
                    if sorted(buckets) != list(range(_BUCKETS)):
                        raise SystemExit(f"{path} has the buckets {sorted(buckets)}")
                    shutil.rmtree(path)
    title = "Rescale of 2 M rows in a partition, 16 to 32 buckets"
    timings[0].peaks.clear()
    return [
        Result(
            title,
            timings,
            [
                Figure(
                    f"{title}: against {_HUDI}",
                    ratio(timings, _HUDI, to=_US),
                    "times as fast",
                    at_least=5,
                ),
                Figure(
                    f"{title}: CPU time, against {_HUDI}",
                    cpu_ratio(timings, _HUDI, to=_US),
                    "times as fast",
                    at_least=5,
                ),
            ],
            2.0,
            "M rows",
        )
    ]
