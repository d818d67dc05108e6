"""The page of a report as values: what its template shows, in the order of the page. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from bucketfmt.check.report import CheckReport, Finding
from bucketfmt.report.bucket_grid import BucketGrid, make_bucket_grid
from bucketfmt.report.charts import Bars, Curve, SizeBin, count_sizes, draw_bars, draw_curve
from bucketfmt.report.contents import ReportContents
from bucketfmt.report.heat_map import HeatMap, Shape, draw_levels, plan_shape
from bucketfmt.report.sheets import Sheet, make_file_groups, make_instants, make_partitions
from bucketfmt.report.timeline_picture import TimelinePicture, draw_timeline
from bucketfmt.resize.advice import Recommendation
from bucketfmt.texts import (
    count_text,
    counted_text,
    duration_text,
    instant_text,
    ratio_text,
    round_text,
    seconds_of,
    size_text,
)

__all__ = ["Page", "Tile", "make_page"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top: what it is, how much, and a few words beside it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the table is: `good`, `bad`, `warn` or `unsure`, and a sentence."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class PartitionBars:
    """The bars of one partition."""

    partition: str
    bars: Bars
    note: str


@dataclass(frozen=True)
class Page:
    """What the template shows.

    Attributes:
        name: The table's name.
        uri: Where the table is.
        made_at: When it was read.
        verdict: The outcome of the check.
        tiles: Figures.
        facts: What the table is.
        columns: Name and type.
        unreadable: A sentence for each part that is missing.
        findings: The check's, the worst first.
        checked: What was checked.
        not_checked: What was not.
        advice: What to do about buckets.
        grid_note: The buckets in words.
        shape: Where the cells of the heat map are.
        heat_maps: One for each measure.
        bars: Of the largest partition.
        size_bins: How large files are.
        timeline: The picture of instants.
        since_last: How long before the report the last instant was completed, in words.
        curve: The size over time.
        sheets: Tables, by name.
    """

    name: str
    uri: str
    made_at: str
    verdict: Verdict
    tiles: tuple[Tile, ...]
    facts: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    unreadable: tuple[str, ...]
    findings: tuple[Finding, ...]
    checked: str
    not_checked: tuple[str, ...]
    advice: tuple[Recommendation, ...]
    grid_note: str
    shape: Shape
    heat_maps: tuple[HeatMap, ...]
    bars: PartitionBars | None
    size_bins: tuple[SizeBin, ...]
    timeline: TimelinePicture | None
    since_last: str
    curve: Curve | None
    sheets: dict[str, Sheet]

    def to_plain(self) -> dict[str, Any]:
        """Return what the script of the page works with, for JSON."""
        is_whole = not self.sheets["file-groups"].left_out
        return {
            "sheets": {name: sheet.to_plain() for name, sheet in self.sheets.items()},
            "heat": {
                "columns": self.shape.columns,
                "lines": self.shape.lines,
                "partitions": self.shape.partitions if is_whole else [],
            },
        }


def make_page(contents: ReportContents) -> Page:
    """Return the page of some contents."""
    grid = make_bucket_grid(contents.file_groups)
    shape = plan_shape(grid)
    sheets = (
        make_partitions(grid, contents.advice),
        make_file_groups(grid),
        make_instants(contents.commits),
    )
    return Page(
        name=contents.name,
        uri=contents.facts["uri"],
        made_at=instant_text(contents.made_at),
        verdict=_judge(contents.check),
        tiles=_tiles(contents, grid),
        facts=tuple(_fact(name, value) for name, value in contents.facts.items()),
        columns=contents.columns,
        unreadable=contents.unreadable,
        findings=contents.check.findings,
        checked=_checked(contents.check),
        not_checked=contents.check.not_checked,
        advice=contents.advice.recommendations if contents.advice else (),
        grid_note=_grid_note(grid),
        shape=shape,
        heat_maps=_heat_maps(grid, shape),
        bars=_largest_partition(grid),
        size_bins=_size_bins(contents),
        timeline=draw_timeline(contents.commits.to_pylist(), contents.made_at),
        since_last=_since_last(contents),
        curve=draw_curve(contents.sizes),
        sheets={sheet.name: sheet for sheet in sheets},
    )


def _judge(check: CheckReport) -> Verdict:
    counts = Counter[str](finding.severity for finding in check.findings)
    told = [
        counted_text(counts[severity], name)
        for severity, name in (("error", "error"), ("warning", "warning"), ("info", "note"))
        if counts[severity]
    ]
    if check.status == "findings":
        return Verdict("bad" if counts["error"] else "warn", " and ".join(told))
    if check.status == "incomplete":
        return Verdict("unsure", "Nothing found, but not all could be checked")
    return Verdict("good", "Clean" + (f", with {told[0]}" if told else ""))


def _checked(check: CheckReport) -> str:
    told = ", ".join(f"{count_text(number)} {what}" for what, number in check.checked.items())
    return f"Checked at depth {check.depth}: {told or 'nothing'}."


def _fact(name: str, value: object) -> tuple[str, str]:
    if name == "size" and isinstance(value, int):
        return name, size_text(value)
    if name == "last instant" and isinstance(value, str):
        return name, f"{instant_text(value)} ({value})"
    return name, count_text(value) if isinstance(value, int) and value > 9999 else str(value)


def _tiles(contents: ReportContents, grid: BucketGrid) -> tuple[Tile, ...]:
    base, logs = int(grid.base_bytes.sum()), int(grid.log_bytes.sum())
    known = grid.rows[grid.rows >= 0]
    untold = len(grid.rows) - len(known)
    groups = int(grid.num_groups.sum())
    empty = int((grid.num_groups == 0).sum())
    log_files = int(grid.log_files.sum())
    states = contents.commits["state"]
    completed = pc.sum(pc.equal(states, "COMPLETED")).as_py() or 0
    pending = contents.commits.num_rows - completed
    return (
        Tile("Size", size_text(base + logs), f"{size_text(base)} in base files"),
        Tile(
            "Rows in base files",
            round_text(int(known.sum())),
            f"{counted_text(untold, 'bucket')} not recorded" if untold else "as commits recorded",
        ),
        Tile("Partitions", count_text(len(grid.partitions))),
        Tile("File groups", count_text(groups), counted_text(empty, "empty bucket")),
        Tile(
            "Logs to base",
            ratio_text(logs / base) if base else "–",
            f"{counted_text(log_files, 'log file')}, {size_text(logs)}",
        ),
        Tile("Instants", count_text(completed), f"completed; {count_text(pending)} pending"),
    )


def _grid_note(grid: BucketGrid) -> str:
    total = grid.bytes
    if not len(total) or not total.max():
        return "The table has no files."
    largest = int(np.argmax(total))
    partition = grid.partitions[int(np.searchsorted(grid.starts, largest, side="right")) - 1]
    median = float(np.median(total[total > 0]))
    where = f" (partition {partition})" if partition else ""
    what = "bucket" if grid.groups["bucket_id"].null_count == 0 else "file group"
    empty = int((total == 0).sum())
    of_them = f", {count_text(empty)} of them empty," if empty else ""
    partitions = counted_text(len(grid.partitions), "partition")
    return (
        f"{counted_text(len(total), what)}{of_them} in {partitions}. "
        f"The largest{where} has {size_text(int(total[largest]))}, "
        f"{ratio_text(total[largest] / median)} times the median of {size_text(median)}."
    )


def _heat_maps(grid: BucketGrid, shape: Shape) -> tuple[HeatMap, ...]:
    measures = (
        ("bytes", "Bytes", grid.bytes, size_text),
        ("rows", "Rows", grid.rows, count_text),
        ("logs", "Log files", grid.log_files, count_text),
    )
    return tuple(
        HeatMap(name, title, draw_levels(shape, values, as_text))
        for name, title, values, as_text in measures
    )


def _largest_partition(grid: BucketGrid) -> PartitionBars | None:
    if not len(grid.partitions):
        return None
    sizes = np.add.reduceat(grid.bytes, grid.starts[:-1])
    number = int(np.argmax(sizes))
    own = grid.buckets_of(number)
    bars = draw_bars(grid.base_bytes[own], grid.log_bytes[own])
    return PartitionBars(grid.partitions[number] or "(table)", bars, bars_note(bars))


def bars_note(bars: Bars) -> str:
    """Return what bars show, in words; the script of the page says the same (`showBars`)."""
    each = "bucket" if bars.each == 1 else f"{bars.each} buckets, the largest of them"
    highest = size_text(bars.largest)
    return f"{count_text(bars.number)} bars, one for each {each}; the highest is {highest}."


def _size_bins(contents: ReportContents) -> tuple[SizeBin, ...]:
    sizes = {}
    for kind in ("base", "log"):
        own = contents.files.filter(pc.equal(contents.files["kind"], kind))["size"]
        sizes[kind] = np.asarray(own.drop_null().to_numpy(), dtype=np.int64)
    return count_sizes(sizes["base"], sizes["log"], size_text)


def _since_last(contents: ReportContents) -> str:
    now = seconds_of(contents.made_at)
    last = contents.commits["completion_time"].drop_null().to_pylist()
    then = seconds_of(max(last, default=None))
    if now is None or then is None:
        return ""
    return (
        f"The last instant was completed {duration_text(max(0.0, now - then))} before this report."
    )
