"""Commands that write rows: upsert, delete."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

import bucketfmt
from bucketfmt.choices import Codec, Concurrency, DataFormat, LockKind, Missing, RowsOperation
from bucketfmt.cli.commands.rows import Filter, Keys, KeysFrom, given_keys, parse_conditions
from bucketfmt.cli.options import (
    IndexOption,
    Output,
    OutputOption,
    StorageOption,
    TableArgument,
    parse_index,
    parse_pair,
    parse_storage_options,
)
from bucketfmt.cli.progress import shown_progress
from bucketfmt.cli.render import console, print_facts
from bucketfmt.cli.row_files import FileFormat, open_row_files
from bucketfmt.progress import Progress, ProgressCallback
from bucketfmt.rows.filters.filter import FilterLike
from bucketfmt.texts import size_text
from bucketfmt.write.commit.result import rows_text

__all__ = [
    "CodecOption",
    "DryRun",
    "FormatOption",
    "LockOption",
    "delete",
    "open_to_write",
    "print_done",
    "print_outcome",
    "print_plan",
    "print_result",
    "upsert",
]

app = typer.Typer()


LockOption = Annotated[
    LockKind, typer.Option("--lock", help="The lock of all writers of the table.")
]
ConcurrencyOption = Annotated[
    Concurrency,
    typer.Option(
        "--concurrency", help="Of two writes to one bucket, one is tried again, or both log rows."
    ),
]
ServicesOption = Annotated[
    bool,
    typer.Option(
        "--services/--no-services", help="Then compact, clean and archive, as far as that is due."
    ),
]
MetadataTableOption = Annotated[
    bool,
    typer.Option(
        "--drop-metadata-table", help="Remove Hudi's metadata table, if the table has one."
    ),
]
CodecOption = Annotated[
    Codec | None,
    typer.Option("--codec", help="Codec of parquet files; by default that of the table."),
]
EvolveOption = Annotated[
    bool, typer.Option("--evolve", help="Add new columns to the table, and widen its types.")
]
MissingOption = Annotated[
    Missing,
    typer.Option(
        "--missing",
        help="Columns that rows lack: refuse the rows, store null, or keep the stored values.",
    ),
]
LogFormatOption = Annotated[
    DataFormat, typer.Option("--log-format", help="Format of the rows in log files.")
]
CommitMetadataOption = Annotated[
    list[str] | None,
    typer.Option(
        "--commit-metadata",
        metavar="KEY=VALUE",
        help="Entry of the commit's extraMetadata; repeatable.",
    ),
]
Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Rows: parquet, csv, json lines or arrow; - is standard input (with --format).",
    ),
]
FormatOption = Annotated[
    FileFormat, typer.Option("--format", help="Format of the files; auto goes by their names.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would happen, and change nothing.")
]


@app.command()
def upsert(
    table: TableArgument,
    files: Files,
    operation: Annotated[
        RowsOperation, typer.Option("--operation", help="What to do with the rows.")
    ] = "upsert",
    format_: FormatOption = FileFormat.AUTO,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", metavar="TEXT", help="A write with this key commits once."
        ),
    ] = None,
    evolve: EvolveOption = False,
    missing: MissingOption = "error",
    commit_metadata: CommitMetadataOption = None,
    codec: CodecOption = None,
    log_format: LogFormatOption = "avro",
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    services: ServicesOption = True,
    concurrency: ConcurrencyOption = "optimistic",
    drop_metadata_table: MetadataTableOption = False,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Write the rows of files to a table, as one commit."""
    opened = open_to_write(
        table, storage_option, index, lock, concurrency, drop_metadata_table, services
    )
    options = _arguments(commit_metadata, codec, log_format)
    options["evolve"], options["missing"] = evolve, missing
    if idempotency_key is not None:
        options["idempotency_key"] = idempotency_key
    if dry_run:
        rows = open_row_files(files, format_, opened.schema, alike=missing == "keep")
        print_plan(_plan(opened.preview_write(rows, operation, **options)), output)
        return
    with shown_progress("opening") as progress:
        if progress is not None:
            options["progress"] = progress
        alike = missing == "keep"
        rows = _counting(open_row_files(files, format_, opened.schema, alike=alike), progress)
        if operation == "insert_overwrite_table":
            result = opened.insert_overwrite(rows, table=True, **options)
        else:
            result = getattr(opened, operation)(rows, **options)
    print_result(result, output)


@app.command()
def delete(
    table: TableArgument,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    filter_: Filter = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            "--partition", metavar="PATH", help="Delete all rows of this partition; repeatable."
        ),
    ] = None,
    commit_metadata: CommitMetadataOption = None,
    codec: CodecOption = None,
    log_format: LogFormatOption = "avro",
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    services: ServicesOption = True,
    concurrency: ConcurrencyOption = "optimistic",
    drop_metadata_table: MetadataTableOption = False,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Delete rows by key or by filter, or drop partitions."""
    opened = open_to_write(
        table, storage_option, index, lock, concurrency, drop_metadata_table, services
    )
    found = given_keys(keys, keys_from)
    if [bool(found), bool(filter_), bool(partition)].count(True) != 1:
        raise typer.BadParameter("give one of KEY... (or --keys-from), --filter and --partition")
    conditions = parse_conditions(filter_, opened.schema)
    options = _arguments(commit_metadata, codec, log_format)
    if dry_run:
        # Refused as a write of no rows would be; a partition is dropped as an overwrite drops it.
        opened.preview_write([], "insert_overwrite_table" if partition else "upsert", **options)
        print_plan(_plan_delete(opened, found, conditions, partition or []), output)
        return
    with shown_progress("looking for rows") as progress:
        if progress is not None:
            options["progress"] = progress
        if found:
            result = opened.delete(found, **options)
        elif conditions is not None:
            result = opened.delete(filter=conditions, **options)
        else:
            result = opened.delete_partitions(partition or [], **options)
    print_result(result, output)


def open_to_write(
    table: str,
    storage_option: list[str] | None,
    index: str | None,
    lock: LockKind = "auto",
    concurrency: Concurrency = "optimistic",
    drop_metadata_table: bool = False,
    services: bool = False,
) -> bucketfmt.Table:
    """Open the table of a writing command."""
    return bucketfmt.open(
        table,
        storage_options=parse_storage_options(storage_option) or None,
        index=parse_index(index) if index else None,
        writer=bucketfmt.WriterConfig(
            lock=lock,
            concurrency=concurrency,
            metadata_table="drop" if drop_metadata_table else "sync",
            services=bucketfmt.Services() if services else None,
        ),
    )


def _arguments(
    commit_metadata: list[str] | None, codec: Codec | None, log_format: DataFormat
) -> bucketfmt.WriteArguments:
    return {
        "commit_metadata": dict(parse_pair("--commit-metadata", t) for t in commit_metadata or ()),
        "codec": codec,
        "log_format": log_format,
    }


def print_result(result: bucketfmt.CommitResult, output: Output) -> None:
    """Print the result of a commit."""
    if output is Output.JSON:
        print(json.dumps(asdict(result), ensure_ascii=False))
        return
    if not result.committed:
        console().print("nothing to delete")
        return
    print_facts(facts_of(result))


def facts_of(result: bucketfmt.CommitResult) -> dict[str, Any]:
    """Return a commit in words."""
    facts: dict[str, Any] = {
        "instant": f"{result.instant} ({result.action})",
        "operation": result.operation,
        "rows": rows_text(result).replace(" rows", "", 1),
        "files": f"{len(result.files)}, {size_text(result.bytes_written)}",
    }
    if result.schema_changes:
        facts["columns"] = "; ".join(result.schema_changes)
    if result.file_groups_replaced:
        facts["file groups replaced"] = result.file_groups_replaced
    if result.repeated:
        facts["note"] = "committed before with this idempotency key; nothing was written now"
    return facts


def print_done(result: bucketfmt.CommitResult | None, why_not: str, output: Output) -> None:
    """Print the commit of a service, or why there is none."""
    if result is not None:
        print_result(result, output)
    elif output is Output.JSON:
        print("null")
    else:
        console().print(why_not)


def print_outcome(
    value: dict[str, Any], facts: dict[str, Any], output: Output, dry_run: bool = False
) -> None:
    """Print what a service did or would do.

    Args:
        value: For programs, in full.
        facts: For people.
        output: For whom.
        dry_run: Whether nothing was done.
    """
    if output is Output.JSON:
        print(json.dumps(value, ensure_ascii=False))
        return
    print_facts(facts)
    if dry_run:
        console().print("nothing was done (--dry-run)", style="dim")


def _plan(found: bucketfmt.WritePreview) -> dict[str, Any]:
    if found.repeated:
        return {"rows to write": 0, "note": "committed before with this idempotency key"}
    return {
        "rows to write": found.rows,
        "partitions": found.partitions,
        "file groups": found.file_groups,
        "of these new": found.new_file_groups,
        "file groups replaced": found.file_groups_replaced,
        "columns": "; ".join(found.schema_changes) or "as they are",
    }


def _plan_delete(
    table: bucketfmt.Table, keys: list[str], conditions: FilterLike | None, partitions: list[str]
) -> dict[str, Any]:
    if keys:
        return {"rows to delete": table.lookup(keys, table.schema.names[:1]).num_rows}
    if conditions is not None:
        return {"rows to delete": table.scan(filter=conditions).count()}
    known = table.inspect.partitions()["partition_path"].to_pylist()
    unknown = sorted(set(partitions) - set(known))
    if unknown:
        raise typer.BadParameter(
            f"the table has no partition {unknown[0]!r}; `bucketfmt files` lists the partitions"
        )
    hidden = pc.is_in(table.inspect.file_groups()["partition_path"], pa.array(partitions))
    return {"file groups to hide": pc.sum(hidden).as_py() or 0}


def print_plan(facts: Mapping[str, Any], output: Output) -> None:
    """Print what a write would do."""
    if output is Output.JSON:
        print(json.dumps({name.replace(" ", "_"): value for name, value in facts.items()}))
        return
    print_facts(facts)
    console().print("nothing was written (--dry-run)", style="dim")


def _counting(
    reader: pa.RecordBatchReader, progress: ProgressCallback | None
) -> pa.RecordBatchReader:
    """Return the same rows; `progress` gets their number as they are read."""

    def batches() -> Iterator[pa.RecordBatch]:
        count = 0
        for batch in reader:
            count += batch.num_rows
            if progress is not None:
                progress(Progress("reading", count, 0))
            yield batch

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
