"""Commands about rows and keys: read, locate, lookup."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import typer

from bucketfmt.cli.app import (
    IndexOption,
    StorageOption,
    TableArgument,
    app,
    open_table,
)
from bucketfmt.cli.render import json_text, print_table

__all__ = ["given_keys", "locate", "lookup", "read"]

_ROWS_SHOWN = 100
_CONDITION = re.compile(r"^\s*(.+?)\s*(==|!=|<=|>=|=|<|>|\bnot in\b|\bin\b)\s*(.*?)\s*$", re.DOTALL)


class RowOutput(str, Enum):
    """How rows are written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_FORMS = {
    ".csv": RowOutput.CSV,
    ".json": RowOutput.JSON,
    ".jsonl": RowOutput.JSON,
    ".parquet": RowOutput.PARQUET,
}

Columns = Annotated[
    str | None, typer.Option("--columns", "-c", metavar="A,B", help="Only these columns.")
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="'COLUMN OP VALUE'",
        help="OP is = != < <= > >= in, not in; VALUE is JSON or text; repeated, all must hold.",
    ),
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="Instant or ISO time to read at.")
]
OutFile = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="FILE", help="Write here; - is standard output."),
]
RowOutputOption = Annotated[
    RowOutput | None,
    typer.Option("--output", help="text, json (lines), csv, parquet; as FILE ends where not said."),
]
Keys = Annotated[
    list[str] | None, typer.Argument(metavar="KEY...", help="Record keys, as Hudi stores them.")
]
KeysFrom = Annotated[
    Path | None,
    typer.Option("--keys-from", metavar="FILE", help="A file with one record key a line."),
]


def parse_condition(text: str, schema: pa.Schema) -> tuple[str, str, Any]:
    """Return (column, op, value) of a `--filter`, the value typed as its column is.

    Raises:
        typer.BadParameter: it is no condition, or its column does not exist.
    """
    match = _CONDITION.match(text)
    if match is None:
        raise typer.BadParameter(f"--filter {text!r}: want COLUMN OP VALUE, for example 'qty >= 3'")
    column, op, literal = match.groups()
    if column not in schema.names:
        names = ", ".join(schema.names)
        raise typer.BadParameter(f"--filter {text!r}: no column {column!r}; there are {names}")
    try:
        value = json.loads(literal)
    except ValueError:
        value = literal
    target = schema.field(column).type
    if pa.types.is_string(target) and not isinstance(value, str | list):
        value = literal  # the text 7, not the number
    try:
        if isinstance(value, list):
            value = pa.array(value).cast(target).to_pylist()
        elif value is not None:
            value = pa.scalar(value).cast(target).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise typer.BadParameter(f"--filter {text!r}: {column} is {target}: {error}") from error
    return column, op, value


@app.command()
def read(
    table: TableArgument,
    columns: Columns = None,
    filter_: Filter = None,
    as_of: AsOf = None,
    read_optimized: Annotated[
        bool, typer.Option("--read-optimized", help="Base files only: faster, without the newest.")
    ] = False,
    meta_columns: Annotated[bool, typer.Option("--meta", help="Hudi's own columns too.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="At most so many rows.")
    ] = None,
    output: RowOutputOption = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Read rows as Hudi reads them."""
    opened = open_table(table, storage_option, index)
    if choose_form(output, out) is RowOutput.TEXT and limit is None:
        limit = _ROWS_SHOWN
    scan = opened.scan(
        columns=columns.split(",") if columns else None,
        filter=[parse_condition(text, opened.schema) for text in filter_ or ()] or None,
        as_of=as_of,
        read_optimized=read_optimized,
        meta_columns=meta_columns,
        limit=limit,
    )
    write_rows(scan.schema, scan.to_batches(), output, out)


@app.command()
def locate(
    table: TableArgument,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", metavar="PATH", help="Only here; repeatable.")
    ] = None,
    output: RowOutputOption = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Say which bucket and files hold keys, opening no data file."""
    opened = open_table(table, storage_option, index)
    located = opened.locate(_keys(keys, keys_from), partitions=partition or None)
    write_rows(located.schema, iter(located.to_batches()), output, out)


@app.command()
def lookup(
    table: TableArgument,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    columns: Columns = None,
    output: RowOutputOption = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Read the rows of given keys, opening only their buckets."""
    opened = open_table(table, storage_option, index)
    rows = opened.lookup(_keys(keys, keys_from), columns=columns.split(",") if columns else None)
    write_rows(rows.schema, iter(rows.to_batches()), output, out)


def _keys(keys: list[str] | None, keys_from: Path | None) -> list[str]:
    found = given_keys(keys, keys_from)
    if not found:
        raise typer.BadParameter("give at least one KEY, or --keys-from FILE")
    return found


def given_keys(keys: list[str] | None, keys_from: Path | None) -> list[str]:
    """Return the keys of the command line and of a file.

    Raises:
        typer.BadParameter: the file cannot be read.
    """
    found = list(keys or ())
    if keys_from is not None:
        try:
            found += keys_from.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"--keys-from {keys_from}: {error}") from error
    return found


def write_rows(
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    output: RowOutput | None,
    out: Path | None,
) -> None:
    """Write rows in the wanted form, batch by batch where the form allows.

    A file that could not be finished is removed: half a table is not to be taken for one.

    Raises:
        typer.BadParameter: the form and the place do not go together.
    """
    form = choose_form(output, out)
    if form is RowOutput.TEXT:
        print_table(pa.Table.from_batches(batches, schema))
    elif out is None or str(out) == "-":
        _write_to(sys.stdout.buffer, form, schema, batches)
        sys.stdout.buffer.flush()
    else:
        with out.open("wb") as sink:
            try:
                _write_to(sink, form, schema, batches)
            except BaseException:
                if out.is_file():  # and no pipe or terminal
                    out.unlink()
                raise


def choose_form(output: RowOutput | None, out: Path | None) -> RowOutput:
    """Return how to write to `out`: as was said, or else as the file's name ends.

    Raises:
        typer.BadParameter: that goes not together, or the name does not tell.
    """
    if out is None or str(out) == "-":
        if output is RowOutput.PARQUET:
            raise typer.BadParameter("--output parquet wants -o FILE")
        return output or (RowOutput.TEXT if out is None else RowOutput.JSON)
    form = output or _FORMS.get(out.suffix.lower())
    if form is None or form is RowOutput.TEXT:
        raise typer.BadParameter(f"-o {out}: say --output json, csv or parquet")
    return form


def _write_to(
    sink: BinaryIO, form: RowOutput, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> None:
    if form is RowOutput.PARQUET:
        with pq.ParquetWriter(sink, schema) as parquet:
            for batch in batches:
                parquet.write_batch(batch)
    elif form is RowOutput.CSV:
        with pyarrow.csv.CSVWriter(sink, _csv_schema(schema)) as writer:
            for batch in batches:
                writer.write_batch(_csv_batch(batch))
    else:
        for batch in batches:
            for row in batch.to_pylist():
                sink.write(json_text(row).encode("utf-8", "surrogatepass") + b"\n")


def _csv_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        pa.field(field.name, field.type if _fits_csv(field.type) else pa.string())
        for field in schema
    )


def _fits_csv(kind: pa.DataType) -> bool:
    return not (
        pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


def _csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CSV has no form for nested values and bytes: they become what they are in JSON."""
    columns = [
        column
        if _fits_csv(column.type)
        else pa.array(map(_csv_text, column.to_pylist()), pa.string())
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_csv_schema(batch.schema))


def _csv_text(value: Any) -> str | None:
    if value is None:
        return None
    text = json_text(value)
    return text.strip('"') if isinstance(value, bytes) else text
