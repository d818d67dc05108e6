"""Draws the figures of the pages: `python docs/figures.py` writes docs/figures/*.svg."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).parent / "figures"
WIDTH = 940
ROOM_HEIGHT, LANE_HEIGHT, STEP_HEIGHT = 40, 56, 32
LANE_NAMES, MARGIN, GAP = 96, 12, 14  # the width of the names left of the lanes
CHARACTER = 6.7  # the width of one in the fixed font, at 11 px

STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #24292f }
.name { font: 600 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.step, .chip { font: 11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.note { font-size: 12px; fill: #57606a }
.number { font: 600 11px system-ui, sans-serif; fill: #fff; text-anchor: middle }
.room { fill: #f3f7f7; stroke: #c6d4d3 } .other { fill: #f5f3fa; stroke: #cdc6de }
.pure { fill: #fff; stroke: #00796b } .io { fill: #cdebe7; stroke: #00796b }
.dot { fill: #00796b } .chipbox { fill: #fff; stroke: #c6d4d3 }
.way { fill: none; stroke: #00796b; stroke-width: 1.4 } .head { fill: #00796b }
@media (prefers-color-scheme: dark) {
  text { fill: #e2e4e9 } .note { fill: #a5adba }
  .room { fill: #20282f; stroke: #3c4a50 } .other { fill: #28263a; stroke: #4a4563 }
  .pure { fill: #15191f; stroke: #4db6ac } .io { fill: #0f4740; stroke: #4db6ac }
  .dot { fill: #00796b } .chipbox { fill: #15191f; stroke: #3c4a50 }
  .way { stroke: #4db6ac } .head { fill: #4db6ac }
}
"""


@dataclass(frozen=True)
class Room:
    """A package of bucketfmt, its idea, and its own rooms."""

    name: str
    idea: str
    rooms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One step of a way: in which room, and by which function. `does_io`: it reads or writes."""

    room: str
    function: str
    does_io: bool = False


ROOMS = (
    Room("cli", "the commands"),
    Room(
        "bucketfmt_spark",
        "the same plans, a task for each bucket",
        ("source", "joining", "table_services", "engine"),
    ),
    Room("testing", "what tests of tables need: crashes, faults, a model"),
    Room("api", "open, create, Table: the public way in"),
    Room("report", "one page about a table: its figures and pictures"),
    Room("repair", "rings made again, rows moved to their buckets"),
    Room(
        "check, dump",
        "findings; one file, field by field",
        ("placement", "contents", "files", "metadata"),
    ),
    Room(
        "resize",
        "other buckets for the rows of a table",
        ("numbered", "split_merge", "migration"),
    ),
    Room(
        "write",
        "from rows to a commit",
        ("commit", "conflicts", "rows", "files", "services", "undo", "metadata", "properties"),
    ),
    Room("table", "scan, lookup, locate, inspect"),
    Room("location", "which index a table has, and its proof", ("file_groups", "records")),
    Room(
        "metadata_table", "what the metadata table says of files, columns and keys", ("skipping",)
    ),
    Room("slices", "the rows of one file slice"),
    Room("snapshot", "which files count at an instant", ("data_files",)),
    Room("index", "which bucket holds a key, as values; pure"),
    Room("timeline", "instants, locks, heartbeats, transitions", ("locking",)),
    Room("storage", "all I/O: the Store protocol", ("stores",)),
    Room(
        "rows",
        "data files to and from Arrow, merging; pure",
        ("avro", "parquet", "merging", "columns", "filters"),
    ),
    Room(
        "format",
        "bytes and values; pure",
        ("encoding", "names", "table", "timeline", "log", "keys", "buckets", "hfile", "metadata"),
    ),
    Room("errors, limits, ...", "what all rooms share"),
)

READ = (
    Step("table", "Table.scan"),
    Step("timeline", "load_timeline", does_io=True),
    Step("snapshot", "TableState.load", does_io=True),
    Step("table", "plan_partitions"),
    Step("snapshot", "Snapshot.slices_of", does_io=True),
    Step("location", "IndexFinder.layout"),
    Step("table", "plan_slices"),
    Step("slices", "SliceReader.read"),
    Step("storage", "Store.open_arrow", does_io=True),
    Step("rows", "BaseFileReader"),
    Step("rows", "merge_log"),
    Step("table", "Scan.to_batches"),
)

WRITE = (
    Step("api", "Table.upsert"),
    Step("write", "Basis"),
    Step("location", "BucketLocator.route"),
    Step("write", "gather_rows"),
    Step("timeline", "put_requested", does_io=True),
    Step("write", "plan_group_write"),
    Step("slices", "SliceReader.merge", does_io=True),
    Step("rows", "BaseFileWriter"),
    Step("storage", "Store.put_if_absent", does_io=True),
    Step("write", "find_conflicts"),
    Step("timeline", "put_completed", does_io=True),
)

SPARK_WRITE = (
    Step("driver", "write_table"),
    Step("bucketfmt", "Table.start_write", does_io=True),
    Step("driver", "place_rows"),
    Step("executors", "write_batches"),
    Step("bucketfmt", "WriteTask.write", does_io=True),
    Step("executors", "receipts"),
    Step("driver", "DataFrame.collect"),
    Step("bucketfmt", "StartedWrite.publish", does_io=True),
)


def draw_rooms() -> str:
    """Return the rooms, one above the other: each may import those below."""
    parts = []
    for place, room in enumerate(ROOMS):
        top = MARGIN + place * (ROOM_HEIGHT + 4)
        middle = top + ROOM_HEIGHT / 2 + 4
        kind = "other" if room.name == "bucketfmt_spark" else "room"
        parts.append(_box(MARGIN, top, WIDTH - 2 * MARGIN, ROOM_HEIGHT, kind))
        parts.append(_text(MARGIN + 14, middle, room.name, "name"))
        parts.append(_text(MARGIN + 204, middle, room.idea, "note"))
        right = WIDTH - MARGIN - 10.0
        for name in reversed(room.rooms):
            width = len(name) * CHARACTER + 14
            right -= width
            parts.append(_box(right, top + 8, width, ROOM_HEIGHT - 16, "chipbox"))
            parts.append(_text(right + 7, middle, name, "chip"))
            right -= 6
        if MARGIN + 204 + len(room.idea) * CHARACTER > right:
            raise ValueError(f"the text of {room.name} meets its rooms; shorten the text")
    return _svg(WIDTH, 2 * MARGIN + len(ROOMS) * (ROOM_HEIGHT + 4), parts)


def draw_way(steps: tuple[Step, ...], lanes: tuple[str, ...]) -> str:
    """Return a way through the rooms, from left to right."""
    widths = [len(step.function) * CHARACTER + 44 for step in steps]
    pitch = _pitch(steps, widths)
    lefts = _lefts(steps, widths, pitch)
    parts = []
    for place, lane in enumerate(lanes):
        top = MARGIN + place * LANE_HEIGHT
        parts.append(_box(MARGIN, top, WIDTH - 2 * MARGIN, LANE_HEIGHT - 6, "room"))
        parts.append(_text(MARGIN + 12, top + 29, lane, "name"))
    boxes = [
        (left, MARGIN + lanes.index(step.room) * LANE_HEIGHT + 9, width)
        for step, left, width in zip(steps, lefts, widths, strict=True)
    ]
    for before, after in pairwise(boxes):
        parts.append(_arrow(before, after))
    for number, (step, (left, top, width)) in enumerate(zip(steps, boxes, strict=True), 1):
        parts.append(_box(left, top, width, STEP_HEIGHT, "io" if step.does_io else "pure"))
        parts.append(f'<circle class="dot" cx="{left + 16:g}" cy="{top + 16:g}" r="10"/>')
        parts.append(_text(left + 16, top + 20, str(number), "number"))
        parts.append(_text(left + 32, top + 20, step.function, "step"))
    height = MARGIN + len(lanes) * LANE_HEIGHT
    left = LANE_NAMES + MARGIN
    parts.append(_box(left, height + 6, 22, 14, "io"))
    parts.append(_text(left + 30, height + 17, "reads or writes the store", "note"))
    parts.append(_box(left + 200, height + 6, 22, 14, "pure"))
    parts.append(_text(left + 230, height + 17, "decides, or works in memory", "note"))
    return _svg(WIDTH, height + 30, parts)


def draw_bucket() -> str:
    """Return the way from a key to its files, of the table that Getting started is about."""
    width, height, top, buckets = 486, 206, 96, 4
    key, value, bucket = "key-000125", 1413237073, 1
    steps = (key, f"hash {value}", f"mod {buckets} = {value % buckets}")
    parts, left = [], float(MARGIN)
    for number, text in enumerate(steps):
        wide = len(text) * CHARACTER + 24
        if number:
            parts.append(_arrow((left, MARGIN, 0), (left + 34, MARGIN, 0)))
            left += 34
        parts.append(_box(left, MARGIN, wide, STEP_HEIGHT, "pure"))
        parts.append(_text(left + 12, MARGIN + 20, text, "step"))
        left += wide
    down, across = left - 40, MARGIN + bucket * 116 + 54
    way = f"M{down:g} {MARGIN + STEP_HEIGHT}V{top - 28}H{across:g}V{top - 6}"
    parts.append(f'<path class="way" d="{way}"/>')
    parts.append(f'<path class="head" d="M{across:g} {top}l-4 -7h8z"/>')
    for place in range(buckets):
        left = MARGIN + place * 116
        parts.append(_box(left, top, 108, 76, "io" if place == bucket else "room"))
        parts.append(_text(left + 12, top + 22, f"bucket {place}", "name"))
        parts.append(_text(left + 12, top + 44, "a base file", "note"))
        parts.append(_text(left + 12, top + 62, "3 log files", "note"))
    told = "One of four file groups is opened, and none to find it."
    parts.append(_text(MARGIN, top + 98, told, "note"))
    return _svg(width, height, parts)


def _lefts(steps: tuple[Step, ...], widths: list[float], pitch: float) -> list[float]:
    """Return where the boxes begin: `pitch` apart, and never over another one of their lane."""
    lefts: list[float] = []
    ends: dict[str, float] = {}
    for step, width in zip(steps, widths, strict=True):
        left = lefts[-1] + pitch if lefts else float(LANE_NAMES + MARGIN)
        left = max(left, ends.get(step.room, 0.0) + GAP)
        lefts.append(left)
        ends[step.room] = left + width
    return lefts


def _pitch(steps: tuple[Step, ...], widths: list[float]) -> float:
    """Return the largest distance of steps with which all fit."""
    right = WIDTH - 2 * MARGIN
    pitch = 160.0
    while pitch > 1:
        lefts = _lefts(steps, widths, pitch)
        if all(left + width <= right for left, width in zip(lefts, widths, strict=True)):
            return pitch
        pitch -= 1
    raise ValueError(f"{len(steps)} steps do not fit; shorten the way")


def _arrow(before: tuple[float, float, float], after: tuple[float, float, float]) -> str:
    left, top, width = before
    to_left, to_top, _ = after
    middle, to_middle = top + STEP_HEIGHT / 2, to_top + STEP_HEIGHT / 2
    if top == to_top:
        path, x, y = f"M{left + width:g} {middle:g}H{to_left - 5:g}", to_left, to_middle
        head = f"M{x:g} {y:g}l-7 -4v8z"
    else:
        down = to_top > top
        x, y = to_left + 16, to_top if down else to_top + STEP_HEIGHT
        end = y - 5 if down else y + 5
        if x > left + width - 6:
            path = f"M{left + width:g} {middle:g}H{x - 8:g}q8 0 8 {8 if down else -8}V{end:g}"
        else:
            path = f"M{x:g} {top + STEP_HEIGHT if down else top:g}V{end:g}"
        head = f"M{x:g} {y:g}l-4 {-7 if down else 7}h8z"
    return f'<path class="way" d="{path}"/><path class="head" d="{head}"/>'


def _box(left: float, top: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" '
        'rx="6"/>'
    )


def _text(left: float, base: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{left:g}" y="{base:g}">{escape(text)}</text>'


def _svg(width: float, height: float, parts: list[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


FIGURES = {
    "bucket": draw_bucket,
    "rooms": draw_rooms,
    "read": partial(
        draw_way, READ, ("table", "location", "slices", "snapshot", "timeline", "storage", "rows")
    ),
    "write": partial(
        draw_way, WRITE, ("api", "write", "location", "slices", "timeline", "storage", "rows")
    ),
    "spark-write": partial(draw_way, SPARK_WRITE, ("driver", "executors", "bucketfmt")),
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(draw())
