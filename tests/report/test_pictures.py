"""What pictures show is what they were given."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.report.bucket_grid import BucketGrid, make_bucket_grid
from bucketfmt.report.charts import count_sizes, draw_bars, draw_curve
from bucketfmt.report.heat_map import LEVELS, draw_levels, plan_shape
from bucketfmt.report.timeline_picture import draw_timeline, find_gaps
from bucketfmt.resize.growth import SizeAt
from bucketfmt.texts import (
    count_text,
    duration_text,
    instant_text,
    round_text,
    size_text,
    visible_text,
)
from tests.report.made import instant, made_contents

SCHEMA = made_contents(1, 2).file_groups.schema
RUN = re.compile(r"M(\d+) (\d+)h(\d+)")


def grid_of(sizes: dict[str, list[int | None]]) -> BucketGrid:
    """A grid of one base file in each bucket; None is a bucket without one."""
    rows = [
        {
            "partition_path": path,
            "file_id": None if size is None else f"{path}-{at}",
            "bucket_id": at,
            "base_instant": None if size is None else instant(0),
            "base_size": size,
            "base_rows": None if size is None else size // 10,
            "log_files": None if size is None else 0,
            "log_size": None if size is None else 0,
        }
        for path, own in sizes.items()
        for at, size in enumerate(own)
    ]
    return make_bucket_grid(pa.Table.from_pylist(rows, SCHEMA))


class TestGrid:
    def test_a_bucket_has_what_its_file_groups_have(self) -> None:
        rows = made_contents(["b", "a"], 3).file_groups.to_pylist()
        twice = {**rows[0], "file_id": "another", "base_rows": None}
        grid = make_bucket_grid(pa.Table.from_pylist([*rows, twice]))
        assert grid.partitions == ("a", "b")
        assert grid.starts.tolist() == [0, 3, 6]
        in_a, in_b = rows[3:], rows[:3]
        assert grid.base_bytes.tolist() == [
            in_a[0]["base_size"],
            in_a[1]["base_size"],
            0,
            2 * in_b[0]["base_size"],
            in_b[1]["base_size"],
            0,
        ]
        assert grid.num_groups.tolist() == [1, 1, 0, 2, 1, 0]
        assert grid.rows.tolist()[3] == -1, "one of both groups does not tell"
        assert grid.rows.tolist()[:3] == [in_a[0]["base_rows"], in_a[1]["base_rows"], 0]

    def test_file_groups_without_buckets_stand_for_themselves(self) -> None:
        rows = [{**row, "bucket_id": None} for row in made_contents(1, 5).file_groups.to_pylist()]
        grid = make_bucket_grid(pa.Table.from_pylist(rows[:4], SCHEMA))
        assert grid.base_bytes.tolist() == [row["base_size"] for row in rows[:4]]

    def test_a_table_without_files(self) -> None:
        grid = make_bucket_grid(SCHEMA.empty_table())
        shape = plan_shape(grid)
        assert (grid.partitions, shape.lines, draw_levels(shape, grid.bytes, str)) == ((), 0, ())


class TestHeatMap:
    @given(
        st.dictionaries(
            st.text("ab", max_size=3),
            st.lists(st.none() | st.integers(0, 1 << 40), min_size=1, max_size=9),
            min_size=1,
            max_size=6,
        )
    )
    def test_each_bucket_is_one_cell_of_its_level(self, sizes: dict[str, list[int | None]]) -> None:
        grid = grid_of(sizes)
        shape = plan_shape(grid)
        levels = draw_levels(shape, grid.bytes, str)
        found: dict[tuple[int, int], str] = {}
        for level in levels:
            for x, y, length in ([int(n) for n in run] for run in RUN.findall(level.path)):
                for at in range(x, x + length):
                    assert (y, at) not in found
                    found[y, at] = level.text
        largest = max(int(grid.bytes.max()), 1)
        given_sizes = {
            (line, at): size or 0
            for line, path in enumerate(sorted(sizes))
            for at, size in enumerate(sizes[path])
        }
        assert found.keys() == given_sizes.keys()
        for cell, text in found.items():
            size = given_sizes[cell]
            if size == 0:
                assert text == "empty"
                continue
            bound = int(text.removeprefix("up to "))
            assert size <= bound
            assert size > bound // 2 or bound <= -(-largest // (1 << (LEVELS - 1)))

    def test_many_buckets_take_several_lines(self) -> None:
        shape = plan_shape(grid_of({"": [1] * 1000}))
        assert (shape.columns, shape.lines) == (128, 8)
        assert shape.cells.reshape(-1)[:1000].tolist() == list(range(1000))
        assert set(shape.cells.reshape(-1)[1000:].tolist()) == {-1}

    def test_of_many_partitions_the_largest_are_shown(self) -> None:
        grid = grid_of({f"{number:03}": [number, number] for number in range(300)})
        shape = plan_shape(grid)
        assert shape.partitions == tuple(range(60, 300))
        assert shape.left_out == 60
        assert [label.text for label in shape.labels][:2] == ["060", "065"]
        gaps = np.diff([label.y for label in shape.labels])
        assert gaps.min() >= 15

    def test_rows_that_are_not_recorded_have_a_colour_of_their_own(self) -> None:
        shape = plan_shape(grid_of({"": [10, 20, 30]}))
        levels = draw_levels(shape, np.array([-1, 0, 30]), count_text)
        runs = [(each.text, each.path) for each in levels if each.path]
        assert runs == [("not recorded", "M0 0h1"), ("empty", "M1 0h1"), ("up to 30", "M2 0h1")]


class TestCharts:
    def test_bars(self) -> None:
        bars = draw_bars(np.array([50, 0, 100, 1]), np.array([0, 0, 100, 0]))
        assert (bars.number, bars.each, bars.largest) == (4, 1, 200)
        assert bars.base == "M0 100V75M2 100V50M3 100V99"  # the smallest is seen too
        assert bars.logs == "M2 50V0"

    def test_a_bar_for_neighbours_shows_the_largest(self) -> None:
        sizes = np.zeros(1000, np.int64)
        sizes[[5, 999]] = 100, 50
        bars = draw_bars(sizes, np.zeros(1000, np.int64))
        assert (bars.number, bars.each) == (250, 4)
        assert bars.base == "M1 100V0M249 100V50"

    def test_sizes_of_files(self) -> None:
        bins = count_sizes(np.array([1024, 1500, 5000]), np.array([900]), size_text)
        assert [(each.text, each.base, each.logs) for each in bins] == [
            ("512 B to 1.0 KiB", 0, 1),
            ("1.0 KiB to 2.0 KiB", 2, 0),
            ("2.0 KiB to 4.0 KiB", 0, 0),
            ("4.0 KiB to 8.0 KiB", 1, 0),
        ]
        wide = count_sizes(np.array([0, 1 << 50]), np.array([], np.int64), size_text)
        assert len(wide) <= 12
        assert sum(each.base for each in wide) == 2

    def test_growth(self) -> None:
        curve = draw_curve([SizeAt(instant(0), 50), SizeAt("no date", 7), SizeAt(instant(10), 100)])
        assert curve is not None
        assert curve.path == "M0 50H1000V0"
        assert (curve.first, curve.last, curve.largest) == (50, 100, 100)
        assert draw_curve([SizeAt(instant(0), 50)]) is None


class TestTimeline:
    def test_instants_gaps_and_what_is_pending(self) -> None:
        contents = made_contents()
        rows = contents.commits.to_pylist()
        picture = draw_timeline([*rows, {**rows[0], "requested_time": "007"}], contents.made_at)
        assert picture is not None
        assert [(lane.action, lane.completed, lane.pending) for lane in picture.lanes] == [
            ("commit", 5, 0),
            ("deltacommit", 8, 0),
            ("compaction", 0, 1),
        ]
        assert picture.lanes[0].strokes.startswith("M0 2v6M0 5H5M")  # an hour of 214
        assert picture.lanes[2].open_strokes == "M1000 22v6M1000 25H1000"
        assert picture.undated == 1
        (gap,) = picture.gaps
        assert gap.text == "6 days without an instant: 2026-05-03 06:00:00 to 2026-05-09 08:00:00"
        assert (gap.x, gap.width) == (252, 683)
        assert picture.pending == (
            f"compaction {instant(214)} is requested since 2026-05-09 22:00:00, 3 days ago",
        )
        assert draw_timeline([], contents.made_at) is None

    def test_gaps_are_long_beside_what_is_usual(self) -> None:
        assert find_gaps([0, 1, 2, 3, 20, 21, 22]) == [(3, 20)]
        assert find_gaps([0, 5, 10, 15]) == []
        assert find_gaps([0, 1000]) == []


def test_texts() -> None:
    assert [size_text(n) for n in (0, 1023, 1 << 20, 3 << 40, 5000 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 MiB",
        "3.0 TiB",
        "5,000.0 TiB",
    ]
    assert [round_text(n) for n in (9_999_999, 12_345_678, 10**10)] == [
        "9,999,999",
        "12.3 million",
        "10.0 billion",
    ]
    assert [duration_text(n) for n in (0, 60, 7_300, 86_400)] == [
        "less than a second",
        "1 minute",
        "2 hours",
        "1 day",
    ]
    assert instant_text("20260501120000000") == "2026-05-01 12:00:00"
    assert instant_text("00000000000000") == "00000000000000"
    assert visible_text("a\x1b[2Jb\u202eexe\ud800\u2028") == r"a\x1b[2Jb\u202eexe\ud800\u2028"
    assert visible_text("Zürich 東京 👩‍🚀\n") == "Zürich 東京 👩‍🚀\n"


STYLE = (Path(__file__).parents[2] / "bucketfmt/report/page/style.css").read_text()


def luminance(colour: str) -> float:
    """Of a colour `#rrggbb`, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_are_told_apart(mode: int) -> None:
    root = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[mode]
    palette = dict(re.findall(r"--([\w-]+): (#\w{6})", root))
    seen = {name: luminance(colour) for name, colour in palette.items()}

    def contrast(one: str, other: str) -> float:
        low, high = sorted((seen[one], seen[other]))
        return (high + 0.05) / (low + 0.05)

    for text in ("text", "soft", "accent", "good", "warn", "bad"):
        assert contrast(text, "ground") >= 4.5, text
        assert contrast(text, "raised") >= 4.5, text
    for verdict in ("good", "warn", "bad"):
        assert contrast(verdict, f"{verdict}-ground") >= 4.5, verdict
    for picture in ("base", "logs"):
        assert contrast(picture, "ground") >= 3, picture
    levels = [seen[f"l{level}"] for level in range(1, LEVELS + 1)]
    assert levels == sorted(levels, reverse=mode == 0), "lightness alone tells the levels apart"
    steps = [contrast(f"l{level}", f"l{level + 1}") for level in range(1, LEVELS)]
    assert min(steps) >= 1.25
