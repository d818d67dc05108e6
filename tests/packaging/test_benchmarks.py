"""The command of the benchmarks, what its tables say, and what is judged."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import main
from benchmarks.measure import Result, Timing
from benchmarks.remote.requests import _OWED
from benchmarks.report import format_results
from benchmarks.writing import growth
from benchmarks.writing.growth import measure_curve

KEPT = Path(benchmarks.__file__).parent


README, COMPARISON, SCALE = "README.md", "docs/comparison.md", "docs/scale.md"
FAQ = "docs/faq.md"
QUOTED = [
    (README, "6 columns | {:.2f} x the time of raw pyarrow", "COW snapshot to Arrow, 6 columns"),
    (README, "own 5 columns | {:.2f} x the time", "COW snapshot to Arrow, all 11 columns"),
    (README, "in logs | {:.2f} x the time", "MOR snapshot to Arrow, 10 % updates, 6 columns"),
    (README, "row in log files | {:.2f} x the time", "Log-only table to Arrow, 6 columns"),
    (
        README,
        "32-byte ASCII | {:.0f} M keys",
        "Java bucket ids, 32-byte ASCII keys: record keys to buckets",
    ),
    (README, "`locate` of 1 M keys | {:.2f} s", "locate of 1 M keys, 16 buckets"),
    (
        README,
        "20,000 file groups | {:.2f} s, 10 files",
        "lookup of 10 keys in 20,000 file groups: time with the timeline loaded",
    ),
    (README, "100,000 file groups | {:.1f} s, ", "check --depth quick, 100,000 file groups"),
    (README, " s, {:.0f} MB |", "check --depth quick, 100,000 file groups: peak memory"),
    (FAQ, "100,000 file groups took {:.1f} s", "check --depth quick, 100,000 file groups"),
    (FAQ, " s and {:.0f} MB", "check --depth quick, 100,000 file groups: peak memory"),
    (
        README,
        "streaming 2 M and 10 M rows | {:.0f} to ",
        "Peak memory of a stream, COW, 2 M rows",
    ),
    (README, " to {:.0f} MB |", "Peak memory of a stream, log-only, 10 M rows"),
    (
        README,
        "loading and upserting, 2 M and 10 M rows | {:.0f} to ",
        "Peak memory of writing, COW, 2 M rows: upsert of a tenth",
    ),
    (README, " to {:.0f} MB |", "Peak memory of writing, COW, 10 M rows: load"),
    (
        README,
        "16 to 32 buckets, and back | {:.2f} and ",
        "Rehash of 2 M rows: bucketfmt, 16 to 32 buckets, against pyarrow, "
        "the same files read and written",
    ),
    (
        README,
        " and {:.2f} x the time of raw pyarrow",
        "Rehash of 2 M rows: bucketfmt, 32 to 16 buckets, against pyarrow, "
        "the same files read and written",
    ),
    (
        README,
        "largest bucket {:.1f} x the median",
        "80% of the rows in 5% of a ring: largest bucket against median",
    ),
    (
        README,
        "the median, {:.2f} x the bytes",
        "80% of the rows in 5% of a ring: bytes rewritten, even splits against splits in the "
        "middle",
    ),
    (
        README,
        "100,000 nodes | {:.2f} s to load",
        "A ring of 100,000 nodes: CPU time, load of the metadata",
    ),
    (
        README,
        "to load, {:.2f} s for 1 M keys",
        "A ring of 100,000 nodes: CPU time, 1 M keys looked up",
    ),
    (
        README,
        "of one row each | {:.1f} x the time",
        "Scan of 5,000 file groups of a row: time by that of pyarrow, the same files as a dataset",
    ),
    (
        README,
        "level of zstd | {:.1f} x as fast as Hudi",
        "Load of 2 M rows into a new table (bulk_insert): against Hudi 1.2.0, zstd",
    ),
    (
        README,
        "zstd likewise | {:.1f} x as fast as Hudi",
        "COW upsert of 200 k rows of 2 M: against Hudi 1.2.0, zstd",
    ),
    (
        README,
        "| merge-on-read upsert of 200 k rows of 2 M | {:.1f} x",
        "MOR upsert of 200 k rows of 2 M: against Hudi 1.2.0, zstd",
    ),
    (
        README,
        "compaction of the same rows | {:.1f} x",
        "Compaction of 2 M rows, 200 k of them logged: against Hudi 1.2.0, zstd",
    ),
    (
        README,
        "{:.1f} x as fast as the rescale of Hudi",
        "Rescale of 2 M rows in a partition, 16 to 32 buckets: against Hudi 1.2.0, "
        "partition_bucket_index_manager",
    ),
    (COMPARISON, "updated in logs | {:.2f} x", "MOR snapshot to Arrow, 10 % updates, 6 columns"),
    (COMPARISON, "every row in logs | {:.2f} x", "Log-only table to Arrow, 6 columns"),
    (
        COMPARISON,
        "merge-on-read | {:.1f} x as fast as Hudi",
        "MOR upsert of 200 k rows of 2 M: against Hudi 1.2.0, zstd",
    ),
    (SCALE, "on disk | {:.0f} bytes", "a mapping of the record index on disk"),
    (
        SCALE,
        "Initialising takes {:.1f} times",
        "A record index made of 2 M rows: against pyarrow, the key columns read",
    ),
]
"""A page, what it says of a figure, and the figure."""


@pytest.mark.parametrize(("page", "said", "name"), QUOTED)
def test_pages_quote_the_last_run(page: str, said: str, name: str) -> None:
    values = [
        figure["value"]
        for path in (KEPT / "results").iterdir()
        for result in json.loads(path.read_bytes())["results"]
        for figure in result["figures"]
        if figure["name"] == name
    ]
    (value,) = values
    assert said.format(value) in (KEPT.parent / page).read_text()


def kept_files() -> dict[str, int]:
    return {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(KEPT / "results")} | {
        "RESULTS.md": (KEPT / "RESULTS.md").stat().st_mtime_ns
    }


def test_a_curve_is_printed_at_the_sizes_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = kept_files()
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--curve", "columns=6,4"])
    main()
    printed = capsys.readouterr().out
    lines = [line.split("|")[1].strip() for line in printed.splitlines() if " columns, " in line]
    calls = ("upsert", "scan", "compact")
    in_order = [f"{size} columns, {call}" for size in (4, 6) for call in calls]
    assert lines == [*in_order, *in_order[3:]]  # the table, then the figures of the last size
    assert kept_files() == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--curve", "rows=4"], "of the curves commits, partitions, file_groups, columns"),
        (["--curve", "columns"], "columns: CURVE=SIZE,SIZE..."),
        (["--curve", "columns=4,x"], "columns=4,x: CURVE=SIZE,SIZE..."),
        (["growth", "--curve", "columns=4"], "leave the names out"),
    ],
)
def test_what_is_no_curve(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    error: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert error in capsys.readouterr().err


def test_times_are_the_medians_over_the_rounds() -> None:
    """Of the medians of all rounds, both would be 2."""
    first = Timing("us", [1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    other = Timing("them", [3.0, 4.0, 4.0], [3.0, 2.0, 4.0])
    (line,) = (
        line
        for line in format_results([Result("a work", [first, other])]).splitlines()
        if line.startswith("| them")
    )
    assert [cell.strip() for cell in line.split("|")[1:-1]] == [
        *("them", "4.000", "3.000", "3.000", "2.00", "1.00")
    ]


def test_upserts_and_look_ups_are_judged_by_their_growth_with_commits() -> None:
    figures = measure_curve("commits", [2, 3]).figures
    assert [figure.name for figure in figures] == [
        "an upsert of a row, 3 commits against 2",
        "a look-up, 3 commits against 2",
    ]
    assert all(figure.value > 0 and figure.at_most == 1.5 for figure in figures)


def test_every_bucket_of_the_curve_of_file_groups_has_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []
    monkeypatch.setattr(growth, "_timed", lambda name, call, _: tables.append(call.args[0]) or name)
    result = growth.measure_file_groups(tmp_path, [3, 50])
    assert len(result.timings) == 8
    for table, size in ((tables[0], 3), (tables[-1], 50)):
        groups = table.inspect.file_groups()
        assert groups.num_rows == table.scan().count() == size
        assert sorted(groups["bucket_id"].to_pylist()) == list(range(size))


def test_works_on_an_object_store_are_judged_at_the_latency_that_is_owed() -> None:
    """And once more at 1 s, where the processors do not hold requests back."""
    for work in ("upsert into 160 file groups", "compaction of 160 file groups"):
        assert _OWED[work] == _OWED[f"{work}, 1 s each"]
        assert (_OWED[work].depth, _OWED[work].requests) == (25, 960)
