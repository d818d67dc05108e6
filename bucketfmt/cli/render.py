"""Arrow tables and figures as text for a terminal, or as JSON."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, time
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from rich.cells import cell_len

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

__all__ = ["bar", "console", "json_rows", "json_text", "on_terminal", "print_facts", "print_json"]
__all__ += ["print_rows", "print_table"]

_UNBOUNDED = 1_000_000_000  # columns: a file or a pipe has no width to fold to
_PAGE_ROWS = 1_000
_GAP = "  "
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_terminal() -> bool:
    """Whether standard output is a terminal; FORCE_COLOR does not count."""
    return sys.stdout.isatty()


@cache
def console() -> Console:
    """Return the console that prints on standard output.

    Most of rich is imported here and where a grid is made: it takes 30 ms, and JSON and files of
    rows need none of it.
    """
    from rich.console import Console  # noqa: PLC0415

    class RaisingConsole(Console):
        def on_broken_pipe(self) -> None:
            """Raise the error, as other output does; rich would exit with the code for findings."""
            raise BrokenPipeError

    return RaisingConsole(highlight=False, width=None if on_terminal() else _UNBOUNDED)


def _grid(**options: Any) -> Grid:
    from rich.table import Table  # noqa: PLC0415

    return Table(box=None, pad_edge=False, **options)


def _fill(grid: Grid, rows: Iterable[Iterable[Any]]) -> None:
    """Add rows to a grid. Nothing in a cell is taken as markup."""
    from rich.text import Text  # noqa: PLC0415

    for row in rows:
        cells = [Text(_cell_text(value), style="dim" if value is None else "") for value in row]
        grid.add_row(*cells)


_BLOCKS = " ▏▎▍▌▋▊▉█"


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON.

    Values without a JSON form become text: moments as ISO 8601 has them, bytes as base64, NaN and
    infinity by their names.
    """
    try:
        return json.dumps(
            value, ensure_ascii=False, indent=indent, allow_nan=False, default=_plain_text
        )
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, indent=indent, default=_plain_text)


def json_rows(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Return rows for `json_text`: a map is an object if the keys of all maps are text."""
    kinds = [field.type for field in batch.schema]
    if any(map(_has_map, kinds)) and all(map(_has_text_keys, kinds)):
        with suppress(KeyError):  # a map has a key twice
            return list(batch.to_pylist(maps_as_pydicts="strict"))
    return list(batch.to_pylist())


def _has_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) or any(map(_has_map, _inner(kind)))


def _has_text_keys(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
        return False
    return all(map(_has_text_keys, _inner(kind)))


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(number).type for number in range(kind.num_fields)]


def _plain_text(value: Any) -> str:
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
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
    """Print rows as a grid; on a narrower terminal, each value on a line of its own."""
    if not on_terminal():
        print_rows(table.schema, table.to_batches())
        return
    rows = table.to_pylist()
    grid = _grid(header_style="bold")
    for field in table.schema:
        justify: Literal["left", "right"] = "right" if _is_number(field.type) else "left"
        grid.add_column(field.name, justify=justify, overflow="fold")
    _fill(grid, (row.values() for row in rows))
    unbounded = console().options.update(max_width=_UNBOUNDED)
    if not rows or console().measure(grid, options=unbounded).maximum <= console().width:
        console().print(grid)
        return
    for number, row in enumerate(rows):
        if number:
            console().print()
        print_facts(row)


def print_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Print rows as they come, in aligned columns: a line for each row, or more for lists.

    Columns become wider where a later page of rows has wider values. Where the first page is wider
    than the variable COLUMNS says, each value is on a line of its own.
    """
    widths = [cell_len(name) for name in schema.names]
    is_number = [_is_number(field.type) for field in schema]
    is_first, is_wide = True, False

    def show(cells: list[list[list[str]]]) -> None:
        for column, texts in enumerate(zip(*cells, strict=True)):
            lengths = (cell_len(line) for lines in texts for line in lines)
            widths[column] = max(widths[column], *lengths)
        for row in cells:
            for lines in zip_longest(*row, fillvalue=""):
                sys.stdout.write(_aligned(lines, widths, is_number) + "\n")

    for batch in batches:
        for start in range(0, batch.num_rows, _PAGE_ROWS):
            page = batch.slice(start, _PAGE_ROWS).to_pylist()
            cells = [[_cell_text(value).split("\n") for value in row.values()] for row in page]
            if is_first:
                is_wide = _is_wider_than_columns(schema.names, cells)
            if is_wide:
                for row in page:
                    print_facts(row)
                    sys.stdout.write("\n")
                is_first = False
                continue
            show([[[name] for name in schema.names], *cells] if is_first else cells)
            is_first = False
    if is_first:
        show([[[name] for name in schema.names]])


def _is_wider_than_columns(names: list[str], cells: list[list[list[str]]]) -> bool:
    """Return whether rows in columns are wider than COLUMNS says that lines may be."""
    wanted = os.environ.get("COLUMNS", "")
    if not wanted.isdecimal():
        return False
    widths = [cell_len(name) for name in names]
    for row in cells:
        widths = [max(w, *map(cell_len, lines)) for w, lines in zip(widths, row, strict=True)]
    return sum(widths) + len(_GAP) * (len(widths) - 1) > int(wanted)


def _aligned(texts: Iterable[str], widths: list[int], is_number: list[bool]) -> str:
    padded = []
    for text, width, right in zip(texts, widths, is_number, strict=True):
        padding = " " * (width - cell_len(text))
        padded.append(padding + text if right else text + padding)
    return _GAP.join(padded).rstrip(" ")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _cell_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return "\n".join(_printable(str(item)) for item in value)
    return _printable(str(value))


def _printable(text: str) -> str:
    """Return the text without what a terminal obeys: values of a table are not to be trusted."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def print_facts(facts: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
    """Print pairs of name and value, a line for each pair."""
    if not on_terminal():
        pairs = list(facts.items() if isinstance(facts, Mapping) else facts)
        width = max((cell_len(name) for name, _ in pairs), default=0)
        for name, value in pairs:
            first, *rest = _cell_text(value).split("\n")
            sys.stdout.write(f"{name}{' ' * (width - cell_len(name))}{_GAP}{first}".rstrip() + "\n")
            sys.stdout.writelines(f"{' ' * width}{_GAP}{line}\n" for line in rest)
        return
    grid = _grid(show_header=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    _fill(grid, facts.items() if isinstance(facts, Mapping) else facts)
    console().print(grid)


def bar(value: float, largest: float, width: int) -> str:
    """Return a bar of at most `width` characters for `value` out of `largest`."""
    if largest <= 0:
        return ""
    eighths = round(value / largest * width * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_BLOCKS[rest] if rest else "")
