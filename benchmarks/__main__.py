"""Run benchmarks, print them, and keep them in `results/` and RESULTS.md."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.data import FOLDER_VARIABLE, find_data_folder, make_missing_tables
from benchmarks.environment import describe_environment, describe_load
from benchmarks.measure import Result
from benchmarks.metadata.hfile import measure_hfile
from benchmarks.metadata.listing import measure_metadata_listing
from benchmarks.metadata.record_index import measure_record_index
from benchmarks.metadata.writing import measure_metadata_cost, measure_metadata_writing
from benchmarks.reading.avro_blocks import measure_avro_blocks
from benchmarks.reading.check import measure_check
from benchmarks.reading.file_groups import measure_file_groups
from benchmarks.reading.hashing import measure_java_hash, measure_ring
from benchmarks.reading.keys import measure_locate, measure_lookup
from benchmarks.reading.memory import measure_memory
from benchmarks.reading.report_page import measure_report_page
from benchmarks.reading.small_files import measure_small_files
from benchmarks.reading.snapshots import measure_cow, measure_log_only, measure_mor
from benchmarks.reading.startup import measure_startup
from benchmarks.remote.requests import measure_remote
from benchmarks.report import encode_run, format_figures, format_results, write_report
from benchmarks.spark.buckets import measure_spark_buckets
from benchmarks.spark.reading import measure_spark_reading
from benchmarks.spark.scale import measure_spark_scale
from benchmarks.spark.writing import measure_spark_writing
from benchmarks.writing.growth import (
    SIZES,
    measure_curve,
    measure_growth,
    measure_growth_by_commits,
)
from benchmarks.writing.rehash import measure_rehash
from benchmarks.writing.rescale import measure_rescale
from benchmarks.writing.resize import measure_resize
from benchmarks.writing.writes import measure_write_memory, measure_writing

_HERE = Path(__file__).resolve().parent
_RESULTS = _HERE / "results"


@dataclass(frozen=True)
class _Benchmark:
    """What measures, and the tables it reads."""

    measure: Callable[[Path], list[Result]]
    tables: tuple[str, ...] = ()


_BENCHMARKS = {
    "cow": _Benchmark(measure_cow, ("cow",)),
    "mor": _Benchmark(measure_mor, ("mor",)),
    "log_only": _Benchmark(measure_log_only, ("log_only",)),
    "avro_blocks": _Benchmark(measure_avro_blocks, ("log_only",)),
    "java_hash": _Benchmark(measure_java_hash),
    "ring": _Benchmark(measure_ring),
    "hfile": _Benchmark(measure_hfile),
    "locate": _Benchmark(measure_locate, ("cow", "wide")),
    "lookup": _Benchmark(measure_lookup, ("wide",)),
    "file_groups": _Benchmark(measure_file_groups),
    "record_index": _Benchmark(measure_record_index),
    "check": _Benchmark(measure_check, ("cow_5x",)),
    "small_files": _Benchmark(measure_small_files),
    "writing": _Benchmark(measure_writing, ("cow",)),
    "rehash": _Benchmark(measure_rehash, ("cow", "cow_5x")),
    "rescale": _Benchmark(measure_rescale, ("cow",)),
    "resize": _Benchmark(measure_resize),
    "write_memory": _Benchmark(measure_write_memory, ("cow", "cow_5x")),
    "spark_reading": _Benchmark(measure_spark_reading),
    "spark_buckets": _Benchmark(measure_spark_buckets),
    "spark_writing": _Benchmark(measure_spark_writing),
    "spark_scale": _Benchmark(measure_spark_scale),
    "memory": _Benchmark(
        measure_memory, ("cow", "mor", "log_only", "cow_5x", "mor_5x", "log_only_5x")
    ),
    "startup": _Benchmark(measure_startup),
    "metadata_listing": _Benchmark(measure_metadata_listing),
    "metadata_cost": _Benchmark(measure_metadata_cost, ("cow",)),
    "metadata_writing": _Benchmark(measure_metadata_writing, ("cow",)),
    "remote": _Benchmark(measure_remote),
    "commits": _Benchmark(measure_growth_by_commits),
    "growth": _Benchmark(measure_growth),
    "report_page": _Benchmark(measure_report_page, ("wide",)),
}


def _measure(name: str, data: Path) -> None:
    """Run one benchmark, print it, and keep it as JSON."""
    load = describe_load()
    results = _BENCHMARKS[name].measure(data)
    figures = [figure for result in results for figure in result.figures]
    print(f"## {name}\n\n{format_results(results)}\n\n{format_figures(figures)}\n", flush=True)
    measured = datetime.now(timezone.utc).isoformat(timespec="seconds")
    run = encode_run(name, results, describe_environment(), measured, load)
    (_RESULTS / f"{name}.json").write_text(json.dumps(run, indent=1) + "\n")


def _parse_curve(text: str) -> tuple[str, list[int]]:
    """Return name and sizes of a curve given as `partitions=100,1000`."""
    name, _, sizes = text.partition("=")
    if name not in SIZES or not all(size.isdecimal() for size in sizes.split(",")):
        known = ", ".join(SIZES)
        raise argparse.ArgumentTypeError(f"{text}: CURVE=SIZE,SIZE... of the curves {known}")
    return name, sorted(map(int, sizes.split(",")))


def _print_curves(curves: Sequence[tuple[str, Sequence[int]]]) -> None:
    for name, sizes in curves:
        result = measure_curve(name, sizes)
        print(f"{format_results([result])}\n\n{format_figures(result.figures)}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(_BENCHMARKS))
    parser.add_argument(
        "--data",
        type=Path,
        default=find_data_folder(),
        help=f"folder of the tables, made if missing; also ${FOLDER_VARIABLE}; now %(default)s",
    )
    parser.add_argument(
        "--curve",
        type=_parse_curve,
        action="append",
        metavar="CURVE=SIZE,SIZE...",
        help=f"print a curve of growth at these sizes, and keep nothing; {', '.join(SIZES)}",
    )
    arguments = parser.parse_args()
    if arguments.curve:
        if arguments.names:
            parser.error("--curve prints curves of growth alone; leave the names out")
        _print_curves(arguments.curve)
        return
    names = arguments.names or list(_BENCHMARKS)
    for name in names:
        if name not in _BENCHMARKS:
            parser.error(f"no benchmark {name}; there are {', '.join(_BENCHMARKS)}")
    tables = dict.fromkeys(table for name in names for table in _BENCHMARKS[name].tables)
    make_missing_tables(arguments.data, tables)
    _RESULTS.mkdir(exist_ok=True)
    for name in names:
        _measure(name, arguments.data)
    kept = [_RESULTS / f"{name}.json" for name in _BENCHMARKS]
    runs = [json.loads(path.read_text()) for path in kept if path.exists()]
    write_report(_HERE / "RESULTS.md", runs)


if __name__ == "__main__":
    main()
