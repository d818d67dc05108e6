"""The command of the benchmarks: one curve of growth, printed and not kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import main

KEPT = Path(benchmarks.__file__).parent


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
        (["--curve", "rows=4"], "of the curves commits, partitions, columns"),
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
