"""Commands that write rows: create, upsert, delete."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import typer
from rich.progress import BarColumn, Progress, TextColumn

import bucketfmt
from bucketfmt.cli.app import (
    IndexOption,
    Output,
    OutputOption,
    StorageOption,
    TableArgument,
    app,
    parse_index,
    parse_storage_options,
)
from bucketfmt.cli.render import console, print_facts, size_text
from bucketfmt.cli.rows import Filter, Keys, KeysFrom, parse_condition

__all__ = ["Lock", "LockOption", "create", "delete", "open_to_write", "print_result", "upsert"]


class Lock(str, Enum):
    """Which lock the table's writers use."""

    AUTO = "auto"
    STORAGE = "storage"
    FILESYSTEM = "filesystem"
    PROCESS = "process"


class FileFormat(str, Enum):
    """What files of rows are."""

    AUTO = "auto"
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"


class RowsOperation(str, Enum):
    """What is done with rows."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"


_FORMAT_OF_SUFFIX = {
    ".parquet": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSONL,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".arrow": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
}

LockOption = Annotated[
    Lock, typer.Option("--lock", help="What all writers of the table lock it by.")
]
MetadataTableOption = Annotated[
    bool,
    typer.Option("--drop-metadata-table", help="Remove Hudi's metadata table, if there is one."),
]
Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Rows: parquet, csv, json lines or arrow.")
]
FormatOption = Annotated[
    FileFormat, typer.Option("--format", help="Of the files; by their names if auto.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def _names(text: str | None) -> list[str]:
    return text.split(",") if text else []


@app.command()
def create(
    table: TableArgument,
    like: Annotated[
        Path, typer.Option("--like", metavar="FILE", help="A file of rows with the columns.")
    ],
    key: Annotated[str, typer.Option("--key", metavar="A,B", help="Record key columns.")],
    index: Annotated[
        str,
        typer.Option("--index", help="simple:N[:FIELDS], partition:N:RULES, or consistent:N."),
    ],
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="A,B", help="Partition columns.")
    ] = None,
    ordering: Annotated[
        str | None, typer.Option("--ordering", metavar="A", help="Tells the newer of two rows.")
    ] = None,
    merge_on_read: Annotated[
        bool, typer.Option("--merge-on-read", help="Log changes instead of rewriting files.")
    ] = False,
    table_version: Annotated[
        int, typer.Option("--table-version", help="6 (Hudi 0.15), 8 (1.0) or 9 (1.1 and later).")
    ] = 9,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="KEY=VALUE", help="More of hoodie.properties."),
    ] = None,
    format_: FormatOption = FileFormat.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Make a new table with the columns of a file; its rows are not written."""
    properties = {name: str(value) for name, value in parse_storage_options(property_).items()}
    properties = {
        name: value.lower() if value in ("True", "False") else value
        for name, value in properties.items()
    }
    made = bucketfmt.create(
        table,
        schema=_open_rows(like, format_, None).schema,
        record_key=_names(key),
        partition_by=_names(partition_by),
        ordering=_names(ordering),
        index=parse_index(index),
        table_type="MERGE_ON_READ" if merge_on_read else "COPY_ON_WRITE",
        table_version=table_version,
        properties=properties,
        storage_options=parse_storage_options(storage_option) or None,
    )
    facts = {
        "table": made.config.name,
        "uri": made.uri,
        "type": made.config.table_type,
        "version": made.config.table_version,
        "index": str(made.index),
    }
    if output is Output.JSON:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print_facts(facts)


@app.command()
def upsert(
    table: TableArgument,
    files: Files,
    operation: Annotated[
        RowsOperation, typer.Option("--operation", help="What to do with the rows.")
    ] = RowsOperation.UPSERT,
    format_: FormatOption = FileFormat.AUTO,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="TEXT", help="The same key commits once."),
    ] = None,
    dry_run: DryRun = False,
    lock: LockOption = Lock.AUTO,
    drop_metadata_table: MetadataTableOption = False,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Write the rows of files to a table, as one commit."""
    opened = open_to_write(table, storage_option, index, lock, drop_metadata_table)
    if dry_run:
        _print_plan(_plan(opened, files, format_), output)
        return
    options: bucketfmt.WriteArguments = {}
    if idempotency_key is not None:
        options["idempotency_key"] = idempotency_key
    with _told_rows(output) as told:
        rows = _told_reader(_open_all(files, format_, opened.schema), told)
        if operation is RowsOperation.INSERT_OVERWRITE_TABLE:
            result = opened.insert_overwrite(rows, table=True, **options)
        else:
            result = getattr(opened, operation.value)(rows, **options)
    print_result(result, output)


@app.command()
def delete(
    table: TableArgument,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    filter_: Filter = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="PATH", help="Drop this partition; repeatable."),
    ] = None,
    dry_run: DryRun = False,
    lock: LockOption = Lock.AUTO,
    drop_metadata_table: MetadataTableOption = False,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Delete rows by key or by filter, or drop partitions."""
    opened = open_to_write(table, storage_option, index, lock, drop_metadata_table)
    found = list(keys or ())
    if keys_from is not None:
        found += keys_from.read_text(encoding="utf-8").splitlines()
    if [bool(found), bool(filter_), bool(partition)].count(True) != 1:
        raise typer.BadParameter("give KEY... (or --keys-from), --filter, or --partition")
    conditions = [parse_condition(text, opened.schema) for text in filter_ or ()]
    if dry_run:
        if partition:
            hidden = pc.is_in(opened.inspect.file_groups()["partition_path"], pa.array(partition))
            plan = {"file groups to hide": pc.sum(hidden).as_py() or 0}
        elif found:
            plan = {"rows to delete": opened.lookup(found, opened.schema.names[:1]).num_rows}
        else:
            plan = {"rows to delete": opened.scan(filter=conditions).count()}
        _print_plan(plan, output)
        return
    if found:
        result = opened.delete(found)
    elif conditions:
        result = opened.delete(filter=conditions)
    else:
        result = opened.delete_partitions(partition or [])
    print_result(result, output)


def open_to_write(
    table: str,
    storage_option: list[str] | None,
    index: str | None,
    lock: Lock = Lock.AUTO,
    drop_metadata_table: bool = False,
) -> bucketfmt.Table:
    """Open the table a writing command was given."""
    return bucketfmt.open(
        table,
        storage_options=parse_storage_options(storage_option) or None,
        index=parse_index(index) if index else None,
        writer=bucketfmt.WriterConfig(
            lock=lock.value, metadata_table="drop" if drop_metadata_table else "refuse"
        ),
    )


def print_result(result: bucketfmt.CommitResult, output: Output) -> None:
    """Print what a commit did."""
    if output is Output.JSON:
        print(json.dumps(asdict(result), ensure_ascii=False))
        return
    facts: dict[str, Any] = {
        "instant": f"{result.instant} ({result.action})",
        "operation": result.operation,
        "rows": f"{result.rows_inserted} inserted, {result.rows_updated} updated or logged, "
        f"{result.rows_deleted} deleted",
        "files": f"{len(result.files)}, {size_text(result.bytes_written)}",
    }
    if result.file_groups_replaced:
        facts["file groups replaced"] = result.file_groups_replaced
    if result.repeated:
        facts["note"] = "committed before with this idempotency key; nothing was written now"
    print_facts(facts)


def _plan(table: bucketfmt.Table, files: Sequence[Path], format_: FileFormat) -> dict[str, Any]:
    config = table.config
    wanted = list(dict.fromkeys([*config.record_key_fields, *config.partition_fields]))
    reader = _open_all(files, format_, table.schema)
    count, groups = 0, []
    for batch in reader:
        located = table.locate(pa.Table.from_batches([batch]).select(wanted))
        count += located.num_rows
        groups.append(located.group_by(["partition_path", "bucket_id", "file_id"]).aggregate([]))
    found = pa.concat_tables(groups) if groups else None
    if found is not None:
        found = found.group_by(["partition_path", "bucket_id", "file_id"]).aggregate([])
    new = [name for name in reader.schema.names if name not in table.schema.names]
    return {
        "rows to write": count,
        "partitions": 0 if found is None else len(pc.unique(found["partition_path"])),
        "buckets": 0 if found is None else found.num_rows,
        "of these new": 0 if found is None else found["file_id"].null_count,
        "new columns": ", ".join(new) or "none",
    }


def _print_plan(facts: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print(json.dumps({name.replace(" ", "_"): value for name, value in facts.items()}))
        return
    print_facts(facts)
    console.print("nothing was written (--dry-run)", style="dim")


def _open_all(
    files: Sequence[Path], format_: FileFormat, schema: pa.Schema
) -> pa.RecordBatchReader:
    """Return the rows of all files; they must agree on the columns."""
    first = _open_rows(files[0], format_, schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first
        for file in files[1:]:
            reader = _open_rows(file, format_, schema)
            if not reader.schema.equals(first.schema):
                raise bucketfmt.SchemaError(f"{file} has other columns than {files[0]}")
            yield from reader

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _open_rows(file: Path, format_: FileFormat, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Return the rows of a file; text is read by the types of `schema`."""
    if format_ is FileFormat.AUTO:
        found = _FORMAT_OF_SUFFIX.get(file.suffix.lower())
        if found is None:
            raise typer.BadParameter(f"{file}: say what it is with --format")
        format_ = found
    types = {field.name: field.type for field in schema} if schema is not None else None
    try:
        if format_ is FileFormat.PARQUET:
            opened = pq.ParquetFile(file)
            return pa.RecordBatchReader.from_batches(opened.schema_arrow, opened.iter_batches())
        if format_ is FileFormat.CSV:
            convert = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
            return pyarrow.csv.open_csv(file, convert_options=convert)
        if format_ is FileFormat.JSONL:
            parse = pyarrow.json.ParseOptions(explicit_schema=schema)
            return pyarrow.json.read_json(file, parse_options=parse).to_reader()
        source = pa.memory_map(str(file))
        try:
            return pa.ipc.open_file(source).read_all().to_reader()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source)
    except (OSError, pa.ArrowInvalid) as error:
        raise typer.BadParameter(f"{file}: {error}") from error


@contextmanager
def _told_rows(output: Output) -> Iterator[Any]:
    """Show how many rows were read, on a terminal."""
    if output is Output.JSON or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} rows"))
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("reading", total=None)
        yield lambda rows: bars.advance(task, rows)


def _told_reader(reader: pa.RecordBatchReader, told: Any) -> pa.RecordBatchReader:
    if told is None:
        return reader

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            told(batch.num_rows)
            yield batch

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
