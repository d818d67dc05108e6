"""A picture of numbers, one for each bucket: a line for each partition, a cell for each bucket.

Pure. Cells of one colour are one path of SVG, and neighbours of one colour are one stroke of the
path: tens of thousands of cells are a few elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bucketfmt.report.bucket_grid import BucketGrid

__all__ = ["HeatMap", "Label", "Level", "Shape", "draw_levels", "plan_shape"]

LEVELS = 6
_COLUMNS_MAX = 256  # of a partition with more buckets, each line has the same number
_COLUMNS_OF_MANY = 128
_LINES_MAX = 240
_HEIGHT = 720  # pixels
_LINE_MIN, _LINE_MAX = 3, 22
_CELL_MAX = 44
_LABEL_HEIGHT = 15
_LABEL_CHARACTERS = 22


@dataclass(frozen=True, slots=True)
class Label:
    """A partition's name beside its line: where its middle is, in pixels, and the text."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Level:
    """The cells of one colour.

    Attributes:
        name: The class of the colour.
        text: What the colour stands for.
        path: The cells, as `d` of an SVG path whose strokes are one unit wide.
    """

    name: str
    text: str
    path: str


@dataclass(frozen=True)
class HeatMap:
    """One measure of all buckets.

    Attributes:
        name: The measure.
        title: For people.
        levels: The colours that occur, the lowest first.
    """

    name: str
    title: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Shape:
    """Where cells are.

    Attributes:
        columns: Cells of a line.
        lines: How many.
        line_height: In pixels.
        width: In pixels, at most.
        labels: Names of partitions, as many as there is room for.
        partitions: The partitions that are shown, as indices.
        cells: The bucket of each cell, and -1 where a line has fewer: (lines, columns).
        left_out: How many partitions are not shown.
    """

    columns: int
    lines: int
    line_height: int
    width: int
    labels: tuple[Label, ...]
    partitions: tuple[int, ...]
    cells: NDArray[np.int64]
    left_out: int

    @property
    def height(self) -> int:
        """In pixels."""
        return self.lines * self.line_height

    @property
    def has_gaps(self) -> bool:
        """Whether cells are large enough for lines between them."""
        return self.line_height >= 8 and self.columns <= 160


def plan_shape(grid: BucketGrid) -> Shape:
    """Return where the buckets of a table are shown: the largest partitions, if they are many."""
    counts = np.diff(grid.starts)
    largest = int(counts.max(initial=1))
    columns = largest
    if largest > _COLUMNS_MAX:
        columns = max(_COLUMNS_OF_MANY, -(-largest // _LINES_MAX))
    lines_of = -(-counts // columns)
    shown = np.arange(len(counts))
    if lines_of.sum() > _LINES_MAX:
        sizes = np.add.reduceat(grid.bytes, grid.starts[:-1])
        by_size = np.argsort(-sizes, kind="stable")
        shown = np.sort(by_size[: np.searchsorted(np.cumsum(lines_of[by_size]), _LINES_MAX + 1)])
    lines = int(lines_of[shown].sum())
    cells = np.full((lines, columns), -1, np.int64)
    line, firsts = 0, []
    for partition in shown.tolist():
        own = grid.buckets_of(partition)
        number = own.stop - own.start
        cells[line:].reshape(-1)[:number] = np.arange(own.start, own.stop)
        firsts.append(line)
        line += int(lines_of[partition])
    height = int(np.clip(_HEIGHT // max(lines, 1), _LINE_MIN, _LINE_MAX))
    return Shape(
        columns=columns,
        lines=lines,
        line_height=height,
        width=columns * _CELL_MAX,
        labels=tuple(_labels(grid, shown, firsts, height)),
        partitions=tuple(shown.tolist()),
        cells=cells,
        left_out=len(counts) - len(shown),
    )


def _labels(
    grid: BucketGrid, shown: NDArray[np.int64], firsts: list[int], height: int
) -> Iterator[Label]:
    free_from = 0
    for partition, line in zip(shown, firsts, strict=True):
        y = line * height
        if y < free_from:
            continue
        free_from = y + max(_LABEL_HEIGHT, height)
        text = grid.partitions[partition] or "(table)"
        if len(text) > _LABEL_CHARACTERS:
            text = f"…{text[1 - _LABEL_CHARACTERS :]}"
        yield Label(y + max(height, _LABEL_HEIGHT) / 2, text)


def draw_levels(
    shape: Shape, values: NDArray[np.int64], as_text: Callable[[int], str]
) -> tuple[Level, ...]:
    """Return the cells by colour: each colour stands for twice as much as the one before.

    Args:
        shape: Where the cells are.
        values: Of each bucket; -1 where it is not known.
        as_text: A value, for the legend.
    """
    if not shape.lines:
        return ()
    largest = max(int(values.max(initial=0)), 1)
    bounds = [-(-largest // (1 << power)) for power in range(LEVELS - 1, -1, -1)]
    bounds = sorted(set(bounds))
    names = [f"l{LEVELS - len(bounds) + number + 1}" for number in range(len(bounds))]
    # 0: no bucket, 1: not known, 2: nothing, 3 and above: the bounds
    levels = np.where(values < 0, 1, np.where(values == 0, 2, np.searchsorted(bounds, values) + 3))
    of_cells = np.where(shape.cells < 0, 0, levels[shape.cells])
    texts = [f"up to {as_text(bound)}" for bound in bounds]
    kinds = [("unknown", "not recorded"), ("empty", "empty"), *zip(names, texts, strict=True)]
    paths = _paths(of_cells, len(kinds) + 1)
    return tuple(
        Level(name, text, path)
        for (name, text), path in zip(kinds, paths[1:], strict=True)
        if path or name.startswith("l")
    )


def _paths(levels: NDArray[np.int64], number: int) -> list[str]:
    """Return a path for each level, of a stroke for each run of its cells in a line."""
    lines, columns = levels.shape
    flat = levels.reshape(-1)
    begins = np.ones(len(flat), bool)
    begins[1:] = flat[1:] != flat[:-1]
    begins[::columns] = True
    first = np.flatnonzero(begins)
    lengths = np.diff(np.append(first, lines * columns))
    of_run = flat[first]
    paths = []
    for level in range(number):
        own = of_run == level
        y, x = np.divmod(first[own], columns)
        runs = zip(x.tolist(), y.tolist(), lengths[own].tolist(), strict=True)
        paths.append("".join([f"M{at} {line}h{length}" for at, line, length in runs]))
    return paths
