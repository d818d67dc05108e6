"""Arrow tables and figures as text for a terminal, or as JSON."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

__all__ = ["bar", "console", "json_text", "print_facts", "print_json", "print_table", "size_text"]

_WIDTH_MAX = 100_000  # of a grid nobody folds


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise it, as other output does; rich would exit with the code for findings."""
        raise BrokenPipeError


console = _Console(highlight=False)
if not console.is_terminal:
    console = _Console(highlight=False, width=4_000)  # a file or a pipe has no width to fold to

_BLOCKS = " ▏▎▍▌▋▊▉█"


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON.

    What JSON has no form for becomes text: bytes as base64, NaN and infinity by their names.
    """
    try:
        return json.dumps(
            value, ensure_ascii=False, indent=indent, allow_nan=False, default=_plain_text
        )
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, indent=indent, default=_plain_text)


def _plain_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """Print a value as JSON, as `json_text` has it."""
    sys.stdout.write(json_text(value, indent=2) + "\n")


def print_table(table: pa.Table) -> None:
    """Print rows as a grid, or one below the other where the grid is wider than the console.

    Nothing in a cell is taken as markup.
    """
    rows = table.to_pylist()
    grid = Grid(header_style="bold", box=None, pad_edge=False)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        grid.add_column(field.name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(_cell(value) for value in row.values()))
    unbounded = console.options.update(max_width=_WIDTH_MAX)
    if not rows or console.measure(grid, options=unbounded).maximum <= console.width:
        console.print(grid)
        return
    for number, row in enumerate(rows):
        if number:
            console.print()
        print_facts(row)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, list):
        return Text("\n".join(str(item) for item in value))
    return Text(str(value).replace("\n", "\\n"))


def print_facts(facts: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
    """Print name and value pairs, one a line."""
    grid = Grid(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in facts.items() if isinstance(facts, Mapping) else facts:
        grid.add_row(name, _cell(value))
    console.print(grid)


def bar(value: float, largest: float, width: int) -> str:
    """Return a bar of at most `width` characters for `value` out of `largest`."""
    if largest <= 0:
        return ""
    eighths = round(value / largest * width * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_BLOCKS[rest] if rest else "")


def size_text(size: float) -> str:
    """Return bytes as people write them: `1.4 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""
