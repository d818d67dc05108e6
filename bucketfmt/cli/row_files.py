"""The files of rows that commands read: parquet, csv, json lines, arrow; `-` is standard input.

I/O: reads the files, batch by batch where their format allows.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import typer

import bucketfmt
from bucketfmt.cli.options import check_local
from bucketfmt.cli.text_values import csv_type, from_csv, from_json, is_written_as_text
from bucketfmt.write.rows.incoming import written_columns

__all__ = ["FileFormat", "open_row_files"]

_JSON_ROW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = msgspec.Raw(b"null")


class FileFormat(str, Enum):
    """The format of files of rows."""

    AUTO = "auto"
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"


_ROW_BYTES_MAX = 16 << 20  # of a row of csv
_JSON_BLOCK_BYTES = 1 << 20

_FORMAT_OF_SUFFIX = {
    ".parquet": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSONL,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".arrow": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
}


def open_row_files(
    files: Sequence[Path],
    file_format: FileFormat,
    schema: pa.Schema | None,
    *,
    alike: bool = False,
) -> pa.RecordBatchReader:
    """Return the rows of all files, one after the other.

    Args:
        files: At least one.
        file_format: Their format; `AUTO` goes by their names.
        schema: The types of text columns; the types of other columns are inferred.
        alike: Whether all rows of JSON must have the same fields; if not, a field that a row
            lacks and others have is null.

    Raises:
        NotFoundError: a file does not exist.
        typer.BadParameter: a file has another format.
        SchemaError: the files, or rows that are to be alike, do not agree on the columns.
    """
    first = _open(files[0], file_format, schema, alike)
    if len(files) == 1:
        return pa.RecordBatchReader.from_batches(first.schema, _read(files[0], first))
    wanted = written_columns(first.schema)
    wanted = pa.schema([field.with_nullable(True) for field in wanted], wanted.metadata)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from _ordered(_read(files[0], first), wanted)
        for file in files[1:]:
            reader = _open(file, file_format, schema, alike)
            if different := _find_different(written_columns(reader.schema), wanted):
                raise bucketfmt.SchemaError(
                    f"{file} has other columns than {files[0]}: {different}; give files of the "
                    "same columns, or each to a write of its own"
                )
            yield from _ordered(_read(file, reader), wanted)

    return pa.RecordBatchReader.from_batches(wanted, batches())


def _ordered(batches: Iterable[pa.RecordBatch], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the columns that are wanted, as their fields describe them."""
    for batch in batches:
        columns = [batch.column(name) for name in wanted.names]
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _find_different(given: pa.Schema, wanted: pa.Schema) -> str | None:
    """Return the name and type of a column that one has and the other has not, in any order."""
    mine, others = ([(field.name, str(field.type)) for field in each] for each in (given, wanted))
    unlike = {*mine} ^ {*others}
    return next(
        (f"{name} ({kind})" for name, kind in (*mine, *others) if (name, kind) in unlike), None
    )


def _open(
    file: Path, file_format: FileFormat, schema: pa.Schema | None, alike: bool
) -> pa.RecordBatchReader:
    check_local(file)
    is_stdin = str(file) == "-"
    if not is_stdin and not file.exists():
        raise bucketfmt.NotFoundError("no such file", path=str(file))
    if is_stdin and sys.stdin is None:
        raise typer.BadParameter("standard input is closed; give a file")
    if file_format is FileFormat.AUTO:
        found = _FORMAT_OF_SUFFIX.get(file.suffix.lower())
        if found is None or is_stdin:
            what = "standard input" if is_stdin else str(file)
            raise typer.BadParameter(f"{what}: the format is unknown; give --format")
        file_format = found
    with _naming(file):
        if is_stdin and _is_read_from_its_end(file_format):
            return _open_as(file_format, pa.BufferReader(sys.stdin.buffer.read()), schema, alike)
        return _open_as(file_format, sys.stdin.buffer if is_stdin else file, schema, alike)


def _is_read_from_its_end(file_format: FileFormat) -> bool:
    """Whether standard input has to be held as a whole; a stream of Arrow need not be."""
    if file_format is FileFormat.ARROW:
        return isinstance(sys.stdin.buffer, io.BufferedReader) and (
            sys.stdin.buffer.peek(6)[:6] == b"ARROW1"
        )
    return file_format is FileFormat.PARQUET


def _open_as(
    file_format: FileFormat, source: Any, schema: pa.Schema | None, alike: bool
) -> pa.RecordBatchReader:
    if file_format is FileFormat.PARQUET:
        import pyarrow.parquet as pq  # noqa: PLC0415  (40 ms that other formats need not pay)

        opened = pq.ParquetFile(source)
        return pa.RecordBatchReader.from_batches(opened.schema_arrow, opened.iter_batches())
    if file_format is FileFormat.CSV:
        return _open_csv(source, schema)
    if file_format is FileFormat.JSONL:
        return _open_json(source, schema, alike)
    if not isinstance(source, (Path, pa.BufferReader)):
        return pa.ipc.open_stream(source)
    mapped = pa.memory_map(str(source)) if isinstance(source, Path) else source
    try:
        opened = pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        return pa.ipc.open_stream(mapped)
    batches = (opened.get_batch(number) for number in range(opened.num_record_batches))
    return pa.RecordBatchReader.from_batches(opened.schema, batches)


def _open_csv(source: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Return rows of csv. Nothing between two commas is null, and no other text is."""
    kinds = {} if schema is None else {field.name: field.type for field in schema}
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: csv_type(kind) for name, kind in kinds.items()},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parsed = pyarrow.csv.open_csv(
        source,
        pyarrow.csv.ReadOptions(block_size=_ROW_BYTES_MAX),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert,
    )
    fields = [pa.field(each.name, kinds.get(each.name, each.type)) for each in parsed.schema]
    if all(field.type == each.type for field, each in zip(fields, parsed.schema, strict=True)):
        return parsed

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in parsed:
            columns = map(from_csv, batch.columns, (field.type for field in fields))
            yield pa.RecordBatch.from_arrays([*columns], schema=pa.schema(fields))

    return pa.RecordBatchReader.from_batches(pa.schema(fields), batches())


def _open_json(source: Any, schema: pa.Schema | None, alike: bool) -> pa.RecordBatchReader:
    """Return rows of JSON lines, without columns of the schema that no row has."""
    text = source.read_bytes() if isinstance(source, Path) else source.read()
    known = {} if schema is None else {field.name: field.type for field in schema}
    floats = [name for name, kind in known.items() if pa.types.is_floating(kind)]
    counts: Counter[str] = Counter()
    quoted: set[str] = set()
    num_lines = longest = 0
    for line in _lines(text):
        fields = _JSON_ROW.decode(line)
        num_lines, longest = num_lines + 1, max(longest, len(line))
        counts.update(fields.keys())
        quoted.update(name for name in floats if _is_quoted(fields.get(name)))
    if not num_lines and schema is not None:
        return schema.empty_table().to_reader()
    given = {name: kind for name, kind in known.items() if counts[name]}
    apart = {n: kind for n, kind in given.items() if n in quoted or is_written_as_text(kind)}
    plain = pa.schema({n: kind for n, kind in given.items() if n not in apart})
    if apart:
        text, values = _split(text, apart)
    parse = pyarrow.json.ParseOptions(explicit_schema=plain)
    read = pyarrow.json.ReadOptions(block_size=max(_JSON_BLOCK_BYTES, longest + 1))
    rows = pyarrow.json.read_json(pa.BufferReader(text), read, parse)
    for name, kind in apart.items():
        rows = rows.append_column(name, from_json(values[name], kind))
    gaps = [name for name in rows.column_names if 0 < counts[name] < num_lines]
    if alike and gaps:
        raise bucketfmt.SchemaError(
            f"some rows lack the field {gaps[0]}, which other rows have; give the field in each "
            "row, or keep stored values with a file for each set of fields"
        )
    return rows.select([name for name in rows.column_names if counts[name]]).to_reader()


def _lines(text: bytes) -> Iterator[bytes]:
    return (line for line in text.splitlines() if line.strip())


def _is_quoted(value: msgspec.Raw | None) -> bool:
    """Whether a number is written as text: NaN, or infinite."""
    return value is not None and bytes(value)[:1] == b'"'


def _split(text: bytes, apart: Iterable[str]) -> tuple[bytes, dict[str, list[Any]]]:
    """Return JSON lines without some fields, and the values of these."""
    values: dict[str, list[Any]] = {name: [] for name in apart}
    lines = []
    for line in _lines(text):
        fields = _JSON_ROW.decode(line)
        for name, own in values.items():
            own.append(msgspec.json.decode(fields.pop(name, _NULL)))
        lines.append(msgspec.json.encode(fields))
    return b"\n".join(lines), values


def _read(file: Path, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with _naming(file):
        yield from reader


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Name the file in an error of pyarrow, msgspec or `text_values`."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        told = _OF_CSV_COLUMN.fullmatch(str(error))
        if told is None:
            raise typer.BadParameter(f"{file}: {error}") from error
        line, name = _find_in_csv(file, int(told["column"]), told["value"])
        where = f"{file}: {f'line {line}, ' if line else ''}column {int(told['column']) + 1}"
        if name is not None:
            where += f" ({name})"
        raise typer.BadParameter(f"{where}: {told['what']}; correct the value") from error


_OF_CSV_COLUMN = re.compile(
    r"In CSV column #(?P<column>\d+): (?P<what>.*?(?:invalid value '(?P<value>.*)')?)", re.DOTALL
)
"""An error of pyarrow, which counts columns from 0 and tells no line."""


def _find_in_csv(file: Path, column: int, value: str | None) -> tuple[int | None, str | None]:
    """Return the line of the first record with a value in a column, and the column's name."""
    if str(file) == "-":
        return None, None
    name = None
    with (
        suppress(OSError, csv.Error, IndexError),
        open(file, encoding="utf-8-sig", errors="replace", newline="") as text,
    ):
        records = csv.reader(text)
        name = next(records, [])[column]
        line = records.line_num + 1
        for record in records if value is not None else ():
            if record[column : column + 1] == [value]:
                return line, name
            line = records.line_num + 1
    return None, name
