"""Commands about a table's indexes: `bucketfmt index pin`, `list`, `init`, `rebuild`, `drop`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from bucketfmt.api import Table
from bucketfmt.cli.commands.writing import Lock, LockOption, open_to_write
from bucketfmt.cli.options import IndexOption, Output, OutputOption, StorageOption, TableArgument
from bucketfmt.cli.render import print_facts

__all__ = ["drop", "init", "list_partitions", "pin", "rebuild"]

app = typer.Typer()

index_app = typer.Typer(
    help="Record a table's index, and make the indexes of its metadata table.", no_args_is_help=True
)
app.add_typer(index_app, name="index")


@index_app.command()
def pin(
    table: TableArgument,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Record the index in hoodie.properties, once every partition proves it."""
    opened = open_to_write(table, storage_option, index, lock)
    is_new = opened.pin_index()
    resolved = opened.resolved_index
    facts = {
        "index": str(resolved.index),
        "recorded": "now" if is_new else "already",
        "evidence": resolved.evidence,
    }
    if output is Output.JSON:
        print(json.dumps({**facts, "changed": is_new}))
    else:
        print_facts(facts)


Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Partitions: files, column_stats, partition_stats, bloom_filters, record_index.",
        show_default=False,
    ),
]


@index_app.command("list")
def list_partitions(
    table: TableArgument, output: OutputOption = Output.TEXT, storage_option: StorageOption = None
) -> None:
    """List the partitions of the metadata table."""
    _show(open_to_write(table, storage_option, None, Lock.AUTO), output)


@index_app.command()
def init(
    table: TableArgument,
    names: Names = None,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Make partitions of the metadata table from the table's files; by default files."""
    opened = open_to_write(table, storage_option, None, lock)
    opened.metadata_table.init(*(names or ()))
    _show(opened, output)


@index_app.command()
def rebuild(
    table: TableArgument,
    names: Names = None,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Make partitions of the metadata table anew; by default all that there are."""
    opened = open_to_write(table, storage_option, None, lock)
    opened.metadata_table.rebuild(*(names or ()))
    _show(opened, output)


@index_app.command()
def drop(
    table: TableArgument,
    names: Names = None,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Remove partitions of the metadata table; by default the whole metadata table."""
    opened = open_to_write(table, storage_option, None, lock)
    opened.metadata_table.drop(*(names or ()))
    _show(opened, output)


def _show(opened: Table, output: Output) -> None:
    """Print the partitions that are there now."""
    found = opened.metadata_table.list()
    if output is Output.JSON:
        print(json.dumps([{"name": each.name, "file_groups": each.file_groups} for each in found]))
    elif found:
        print_facts({each.name: f"{each.file_groups} file groups" for each in found})
    else:
        print("the table has no metadata table")
