"""A report on 20,000 file groups: the table is read, its page is made, and Chromium shows it."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import bucketfmt as bf
from benchmarks.measure import Figure, Result, Timing, cpu_seconds
from bucketfmt.report.contents import ReportContents
from bucketfmt.report.table_report import TableReport
from tests.report.conftest import FLAGS, find_browser
from tests.report.made import made_contents

__all__ = ["measure_report_page"]

_REPETITIONS = 7
_READ, _MADE, _SHOWN = "the table is read", "the page is made", "Chromium shows the page"
_PAINTED = """() => new Promise(done =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() / 1000))))"""
_NOTE = (
    "Shown: from the begin of the navigation until two frames are painted; CPU is that of all "
    "processes of the browser. Read: at depth quick, which opens no data file."
)


def measure_report_page(data: Path) -> list[Result]:
    """Return the times of a page of many partitions, and of one of many buckets."""
    made, wide = made_contents(200, 100), data / "wide"
    read = _repeat(_READ, lambda: bf.open(wide).report("quick"), 3)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        partitions = _measure_page(browser, made)
        buckets = _measure_page(browser, bf.open(wide).report("quick").contents)
        browser.close()
    return [
        Result(
            "Report: 200 partitions of 100 buckets",
            partitions,
            _figures("200 x 100", partitions),
            notes=[_NOTE],
        ),
        Result(
            "Report: one partition of 20,000 buckets",
            [*buckets, read],
            _figures("1 x 20,000", buckets),
        ),
    ]


def _figures(what: str, timings: list[Timing]) -> list[Figure]:
    together = sum(timing.cpu for timing in timings)
    return [Figure(f"CPU of a report page of {what}, made and shown", together, "s", at_most=1.0)]


def _measure_page(browser: Browser, contents: ReportContents) -> list[Timing]:
    made = _repeat(_MADE, lambda: TableReport(contents).html)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        TableReport(contents).save(file)
        return [made, _show(browser, file.as_uri())]


def _repeat(name: str, run: Callable[[], object], repetitions: int = _REPETITIONS) -> Timing:
    timing = Timing(name, [], [])
    for turn in range(-1, repetitions):
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        if turn >= 0:  # the round before compiles the template
            timing.walls.append(time.perf_counter() - wall)
            timing.cpus.append(time.process_time() - cpu)
    return timing


def _show(browser: Browser, uri: str) -> Timing:
    timing = Timing(_SHOWN, [], [])
    for turn in range(-1, _REPETITIONS):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        before = cpu_seconds(of_children=True)
        page.goto(uri)
        wall = float(page.evaluate(_PAINTED))
        if turn >= 0:
            timing.walls.append(wall)
            timing.cpus.append(cpu_seconds(of_children=True) - before)
        context.close()
    return timing
