"""The `dump` command: a file of a table, field by field."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from bucketfmt.cli.options import Output, OutputOption, StorageOption, parse_storage_options
from bucketfmt.cli.render import console, print_json
from bucketfmt.dump.annotation import Annotation
from bucketfmt.dump.file import annotate_file
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.open import open_store

__all__ = ["dump"]

app = typer.Typer()

_SHOWN_CHARS_MAX = 160


@app.command()
def dump(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Path or URL of a file of a table.")],
    records: Annotated[
        int, typer.Option("--records", min=0, help="Number of rows to show of each data block.")
    ] = 3,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Show a file field by field: offsets, values, and the rules of the format.

    Takes log files, timeline files, hashing metadata, properties and base files. Text shows the
    first 160 characters of a value; json has all of it.
    """
    folder, _, name = file.rpartition("/")
    store = open_store(folder or ".", parse_storage_options(storage_option))
    data = store.read(name, DEFAULT_LIMITS.log_file_bytes_max)
    annotations = annotate_file(name, data, DEFAULT_LIMITS, records)
    if output is Output.JSON:
        print_json([asdict(annotation) for annotation in annotations])
        return
    from rich.table import Table as Grid  # noqa: PLC0415  (JSON needs none)
    from rich.text import Text  # noqa: PLC0415

    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("offset", justify="right")
    grid.add_column("bytes", justify="right")
    grid.add_column("field", overflow="fold")
    grid.add_column("value", overflow="fold")
    grid.add_column("rule")
    for annotation in annotations:
        grid.add_row(*map(Text, _cells(annotation)), style="red" if annotation.is_damage else None)
    console().print(grid)
    sys.stdout.flush()


def _cells(annotation: Annotation) -> tuple[str, ...]:
    value = annotation.value
    shown = f"DAMAGED: {_on_one_line(value)}" if annotation.is_damage else _shortened(value)
    place = f"{annotation.offset:#x}", str(annotation.length)
    return (*place, _on_one_line(annotation.field), shown, annotation.rule or "")


def _shortened(value: str) -> str:
    shown = _on_one_line(value[: _SHOWN_CHARS_MAX + 1])
    return shown if len(shown) <= _SHOWN_CHARS_MAX else shown[: _SHOWN_CHARS_MAX - 1] + "…"


def _on_one_line(value: str) -> str:
    return repr(value)[1:-1]
