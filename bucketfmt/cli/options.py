"""Options and arguments that commands share, and what their text means."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import bucketfmt

__all__ = ["IndexOption", "Output", "OutputOption", "StorageOption", "TableArgument"]
__all__ += ["check_local", "open_table", "parse_index", "parse_pair", "parse_storage_options"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class Output(str, Enum):
    """How a command prints."""

    TEXT = "text"
    JSON = "json"


TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Path or URL of the table's root folder.")
]
OutputOption = Annotated[
    Output, typer.Option("--output", help="text is for people, json for programs.")
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option("--storage-option", metavar="KEY=VALUE", help="Passed to fsspec; repeatable."),
]
IndexOption = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="INDEX",
        help="Index, where none is recorded: simple:N[:FIELDS], partition:N:RULES, consistent:N, "
        "extendible:N, multigroup:N[:BYTES], record[:moving|:partitioned].",
    ),
]


def parse_index(text: str) -> bucketfmt.Index:
    """Return the index a `--index` option names.

    Raises:
        typer.BadParameter: the text names no index.
    """
    try:
        return bucketfmt.parse_index(text)
    except ValueError as error:
        raise typer.BadParameter(f"--index {error}") from error


def open_table(
    uri: str, storage_option: list[str] | None = None, index: str | None = None
) -> bucketfmt.Table:
    """Open the table of a command."""
    return bucketfmt.open(
        uri,
        storage_options=parse_storage_options(storage_option) or None,
        index=parse_index(index) if index else None,
    )


def check_local(file: Path) -> None:
    """Refuse the URL of a file that is not a table's. `Path` has made one slash of two.

    Raises:
        typer.BadParameter: it is one.
    """
    if _URL.match(str(file)) and not file.parent.exists():
        raise typer.BadParameter(
            f"{file} is a URL: rows and reports are read from and written to local files, and "
            "tables alone may be elsewhere; copy the file"
        )


def parse_pair(option: str, text: str) -> tuple[str, str]:
    """Return the texts before and after the equals sign.

    Raises:
        typer.BadParameter: there is no equals sign, or no text before it.
    """
    name, separator, value = text.partition("=")
    if not (separator and name):
        raise typer.BadParameter(f"{option} {text}: give KEY=VALUE")
    return name, value


def parse_storage_options(pairs: list[str] | None) -> dict[str, Any]:
    """Return the options of the store, as `bucketfmt.parse_storage_options` reads them.

    Raises:
        typer.BadParameter: an option is not KEY=VALUE.
    """
    given = dict(parse_pair("--storage-option", pair) for pair in pairs or ())
    return bucketfmt.parse_storage_options(given)
