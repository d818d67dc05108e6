"""The `create` command: a new table."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import bucketfmt
from bucketfmt.arguments import did_you_mean, find_repeated
from bucketfmt.cli.commands.writing import DryRun, FormatOption, print_plan
from bucketfmt.cli.options import (
    Output,
    OutputOption,
    StorageOption,
    TableArgument,
    parse_index,
    parse_pair,
    parse_storage_options,
)
from bucketfmt.cli.render import print_facts
from bucketfmt.cli.row_files import FileFormat, open_row_files
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.storage.open import open_above, open_store
from bucketfmt.write.properties.create import check_no_table
from bucketfmt.write.properties.plan_create import DEFAULT_INDEX, name_of, plan_properties

__all__ = ["create"]

app = typer.Typer()

_DEFAULT_TOLD = (
    "8 buckets suit partitions of about 1 GiB; `bucketfmt buckets TABLE --advise` tells when "
    "another number suits them, and `bucketfmt rehash` changes it"
)


def _names(option: str, text: str | None, schema: pa.Schema) -> list[str]:
    """Return the columns that an option names.

    Raises:
        typer.BadParameter: there is no such column.
    """
    names = text.split(",") if text else []
    if repeated := find_repeated(names):
        raise typer.BadParameter(f"{option}: {', '.join(repeated)} named twice")
    for name in names:
        if find_column(schema.empty_table(), name.partition(":")[0]) is None:
            hint = did_you_mean(name, schema.names)
            raise typer.BadParameter(f"{option}: no column {name!r}; {hint}")
    return names


@app.command()
def create(
    table: TableArgument,
    like: Annotated[
        Path, typer.Option("--like", metavar="FILE", help="A file with the columns of the table.")
    ],
    key: Annotated[str, typer.Option("--key", metavar="A,B", help="Record key columns.")],
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            help="simple:N[:FIELDS], partition:N:RULES, consistent:N[:virtual-logs], extendible:N, "
            "multigroup:N[:BYTES], or record[:moving|:partitioned]; by default simple:8, for about "
            "1 GiB in each partition.",
        ),
    ] = None,
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="A,B", help="Partition columns.")
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(
            "--ordering", metavar="A", help="Ordering columns: of two rows, the greater is newer."
        ),
    ] = None,
    merge_on_read: Annotated[
        bool, typer.Option("--merge-on-read", help="Log changes instead of rewriting files.")
    ] = False,
    table_version: Annotated[
        int, typer.Option("--table-version", help="6 (Hudi 0.15), 8 (1.0) or 9 (1.1 and later).")
    ] = 9,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the table; by default the last part of its path."),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="KEY=VALUE", help="Entry of hoodie.properties; repeatable."
        ),
    ] = None,
    format_: FormatOption = FileFormat.AUTO,
    dry_run: DryRun = False,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Create a table with the columns of a file; the rows of the file are not written."""
    options = parse_storage_options(storage_option) or None
    schema = open_row_files([like], format_, None).schema
    if repeated := find_repeated(schema.names):
        raise bucketfmt.SchemaError(f"{like}: columns named twice: {', '.join(repeated)}")
    arguments: dict[str, Any] = {
        "schema": schema,
        "record_key": _names("--key", key, schema),
        "partition_by": _names("--partition-by", partition_by, schema),
        "ordering": _names("--ordering", ordering, schema),
        "index": parse_index(index) if index else DEFAULT_INDEX,
        "table_type": "MERGE_ON_READ" if merge_on_read else "COPY_ON_WRITE",
        "table_version": table_version,
        "properties": dict(parse_pair("--property", text) for text in property_ or ()),
    }
    if dry_run:
        store = open_store(table, options)
        check_no_table(store, open_above(store, options))
        print_plan(plan_properties(name=name or name_of(table), **arguments), output)
        return
    made = bucketfmt.create(table, name=name, storage_options=options, **arguments)
    facts = {
        "table": made.config.name,
        "uri": made.uri,
        "type": made.config.table_type,
        "version": made.config.table_version,
        "index": made.index.text if made.index else "unknown",
    }
    if output is Output.JSON:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print_facts(facts)
        if index is None:
            print(_DEFAULT_TOLD, file=sys.stderr)
