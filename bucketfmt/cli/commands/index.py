"""Commands about a table's indexes: `bucketfmt index pin`, `list`, `check`, `init` and so on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Concatenate

import typer

from bucketfmt.api.table import Table
from bucketfmt.choices import Depth
from bucketfmt.cli.commands.check import run_check
from bucketfmt.cli.commands.writing import LockOption, open_to_write
from bucketfmt.cli.options import (
    IndexOption,
    Output,
    OutputOption,
    StorageOption,
    TableArgument,
    open_table,
)
from bucketfmt.cli.render import print_facts
from bucketfmt.texts import counted_text
from bucketfmt.write.metadata.metadata_partitions import MetadataPartitions

__all__ = ["check_partitions", "list_partitions", "pin"]

app = typer.Typer()

index_app = typer.Typer(
    help="Record a table's index, and make the indexes of its metadata table.", no_args_is_help=True
)
app.add_typer(index_app, name="index")


@index_app.command()
def pin(
    table: TableArgument,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Record the index in hoodie.properties, once every partition proves it."""
    opened = open_to_write(table, storage_option, index, lock)
    is_new = opened.pin_index()
    resolved = opened.resolved_index
    facts = {
        "index": resolved.index.text if resolved.index else "unknown",
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
        help="Partitions: files, column_stats, partition_stats, bloom_filters, record_index; and "
        "secondary indexes by the names that list prints, to rebuild or to drop.",
        show_default=False,
    ),
]


@index_app.command("list")
def list_partitions(
    table: TableArgument, output: OutputOption = Output.TEXT, storage_option: StorageOption = None
) -> None:
    """List the partitions of the metadata table."""
    _show(open_table(table, storage_option), output)


@index_app.command("check")
def check_partitions(
    table: TableArgument,
    depth: Annotated[
        Depth,
        typer.Option(
            "--depth",
            help="quick: the timelines and the partition files. default: also the other partitions "
            "but indexes of keys. full: also these, against every key of the table.",
        ),
    ] = "full",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Check the metadata table alone, by findings M001 to M006. Writes nothing.

    Exit codes: 0 clean, 1 findings, 2 could not check, 3 met an unsupported feature.
    """
    run_check(table, output, storage_option, depth=depth, metadata_table_only=True)


def _add_change(
    name: str, change: Callable[Concatenate[MetadataPartitions, ...], None], help_text: str
) -> None:
    """Add a command that changes partitions of the metadata table and lists them after."""

    @index_app.command(name, help=help_text)
    def run(
        table: TableArgument,
        names: Names = None,
        lock: LockOption = "auto",
        output: OutputOption = Output.TEXT,
        storage_option: StorageOption = None,
    ) -> None:
        opened = open_to_write(table, storage_option, None, lock)
        change(opened.metadata_table, *(names or ()))
        _show(opened, output)


_add_change(
    "init",
    MetadataPartitions.init,
    "Make partitions of the metadata table from the table's files; by default files.",
)
_add_change(
    "rebuild",
    MetadataPartitions.rebuild,
    "Make partitions of the metadata table anew; by default all that there are.",
)
_add_change(
    "drop",
    MetadataPartitions.drop,
    "Remove partitions of the metadata table; by default the whole metadata table.",
)


def _show(opened: Table, output: Output) -> None:
    """Print the partitions that are there now."""
    found = opened.metadata_table.list()
    if output is Output.JSON:
        print(json.dumps([{"name": each.name, "file_groups": each.file_groups} for each in found]))
    elif found:
        print_facts({each.name: counted_text(each.file_groups, "file group") for each in found})
    else:
        print("the table has no metadata table")
