"""Arrow tables and figures as text for a terminal, or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

__all__ = ["bar", "console", "print_facts", "print_json", "print_table", "size_text"]

console = Console(highlight=False)
if not console.is_terminal:
    console = Console(highlight=False, width=4_000)  # a file or a pipe has no width to fold to

_BLOCKS = " ▏▎▍▌▋▊▉█"


def print_json(value: Any) -> None:
    """Print a value as JSON; what JSON has no form for is printed as text."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write("\n")


def print_table(table: pa.Table, title: str | None = None) -> None:
    """Print rows as a grid. Nothing in a cell is taken as markup."""
    grid = Grid(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        grid.add_column(field.name, justify="right" if number else "left", overflow="fold")
    for row in table.to_pylist():
        grid.add_row(*(_cell(value) for value in row.values()))
    console.print(grid)


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
