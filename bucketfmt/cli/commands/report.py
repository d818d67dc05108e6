"""The `report` command: writes a page about a table."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import bucketfmt
from bucketfmt.choices import Depth
from bucketfmt.cli.options import (
    IndexOption,
    StorageOption,
    TableArgument,
    parse_index,
    parse_storage_options,
)
from bucketfmt.cli.progress import shown_progress
from bucketfmt.cli.row_output import completed_file
from bucketfmt.cli.wording import in_shell_words

__all__ = ["report"]

app = typer.Typer()


@app.command()
def report(
    table: TableArgument,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Write to this file; - is standard output."
        ),
    ],
    depth: Annotated[
        Depth,
        typer.Option("--depth", help="How much is checked, as in `bucketfmt check`."),
    ] = "default",
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Write a page about a table: its health, its buckets, its files and its timeline.

    The page is one file of HTML for any browser, and needs no network. A report of a damaged
    table says what could not be read. The exit code is 0 whatever the report says; `bucketfmt
    check` has one for scripts.
    """
    with shown_progress("listing") as progress:
        found = bucketfmt.report_table(
            table,
            parse_storage_options(storage_option) or None,
            parse_index(index) if index else None,
            depth=depth,
            progress=progress,
        )
        page = replace(found, shell_words=in_shell_words).html.encode()
    if str(out) == "-":
        sys.stdout.buffer.write(page)
        return
    with completed_file(out) as sink:
        sink.write(page)
    print(f"{out}: {found.contents.check.status}", file=sys.stderr)
