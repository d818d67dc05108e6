"""Rows as text, JSON lines, CSV, Arrow or parquet, on standard output or in a file.

I/O: writes. A file appears under its name when it is complete; standard output cannot be taken
back, so an error that comes after its first rows says that the output is incomplete.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import typer

from bucketfmt.cli.options import check_local
from bucketfmt.cli.render import json_rows, json_text, on_terminal, print_rows, print_table
from bucketfmt.errors import BucketfmtError

__all__ = ["RowOutput", "choose_form", "completed_file", "write_rows"]


class RowOutput(str, Enum):
    """The format of rows on output."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


_FORMS = {
    ".csv": RowOutput.CSV,
    ".json": RowOutput.JSON,
    ".jsonl": RowOutput.JSON,
    ".ndjson": RowOutput.JSON,
    ".parquet": RowOutput.PARQUET,
    ".arrow": RowOutput.ARROW,
    ".feather": RowOutput.ARROW,
}


def write_rows(
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    output: RowOutput | None,
    out: Path | None,
) -> None:
    """Write rows in the given format, batch by batch where the format allows.

    Raises:
        typer.BadParameter: the format cannot be written to `out`.
        BucketfmtError: reading the rows failed. No file is left; on standard output the rows
            before the failure stay, and the message says so.
    """
    form = choose_form(output, out)
    if out is not None and str(out) != "-":
        with completed_file(out) as sink:
            _write_to(sink, form, schema, batches)
        return
    if form is RowOutput.TEXT and on_terminal():
        print_table(pa.Table.from_batches(batches, schema))  # a grid is measured before it begins
        return
    counted = _Counted(batches)
    try:
        if form is RowOutput.TEXT:
            print_rows(schema, counted)
        else:
            _write_to(sys.stdout.buffer, form, schema, counted)
    except BucketfmtError as error:
        if counted.rows:
            error.message += f"; the output is incomplete: it ends after {counted.rows} rows"
        raise
    sys.stdout.flush()


class _Counted:
    """An iterator of batches that counts the rows that it returned."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            yield batch
            self.rows += batch.num_rows


@contextmanager
def completed_file(out: Path) -> Iterator[BinaryIO]:
    """Yield a file that is renamed to `out` if the block succeeds, and removed otherwise.

    An existing `out` that is not a regular file (a pipe, a device) is written to directly.
    """
    check_local(out)
    if out.exists() and not out.is_file():
        with out.open("wb") as sink:
            yield sink
        return
    target = Path(os.path.realpath(out))  # a link stays, and the file it names is replaced
    temporary = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.tmp")
    with _named(target, out), temporary.open("xb") as sink:
        try:
            yield sink
            sink.close()
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def _named(target: Path, out: Path) -> Iterator[None]:
    """Have an error name the file that the caller gave, and not the temporary one, or none."""
    try:
        yield
    except OSError as error:
        is_of_write = error.filename is None and error.errno is not None
        if is_of_write or Path(error.filename or "").parent == target.parent:
            error.filename = str(out)
            error.filename2 = None
        raise


def choose_form(output: RowOutput | None, out: Path | None) -> RowOutput:
    """Return the format for `out`: the given format, or else the format of the file's name.

    Raises:
        typer.BadParameter: `out` cannot have this format, or its name does not tell a format.
    """
    if out is None or str(out) == "-":
        if output is RowOutput.PARQUET:
            raise typer.BadParameter("--output parquet needs -o FILE")
        return output or (RowOutput.TEXT if out is None else RowOutput.JSON)
    form = output or _FORMS.get(out.suffix.lower())
    if form is None or form is RowOutput.TEXT:
        raise typer.BadParameter(
            f"-o {out}: the format is unknown; give --output json, csv, parquet or arrow"
        )
    return form


def _write_to(
    sink: BinaryIO,
    form: RowOutput,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> None:
    if form is RowOutput.PARQUET:
        import pyarrow.parquet as pq  # noqa: PLC0415  (40 ms that other formats need not pay)

        with pq.ParquetWriter(sink, schema) as parquet:
            for batch in batches:
                parquet.write_batch(batch)
    elif form is RowOutput.ARROW:
        # What reads standard input, or a pipe, has no end of the file to begin at.
        is_file = sink is not sys.stdout.buffer and sink.seekable()
        with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(sink, schema) as arrow:
            for batch in batches:
                arrow.write_batch(batch)
    elif form is RowOutput.CSV:
        with pyarrow.csv.CSVWriter(sink, _csv_schema(schema)) as writer:
            for batch in batches:
                writer.write_batch(_csv_batch(batch))
    else:
        for batch in batches:
            for row in json_rows(batch):
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
    """Return a batch for CSV, with nested values and bytes as JSON text."""
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
