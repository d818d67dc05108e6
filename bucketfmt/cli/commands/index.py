"""Commands about a table's index: `bucketfmt index pin`."""

from __future__ import annotations

import json

import typer

from bucketfmt.cli.commands.writing import Lock, LockOption, open_to_write
from bucketfmt.cli.options import IndexOption, Output, OutputOption, StorageOption, TableArgument
from bucketfmt.cli.render import print_facts

__all__ = ["pin"]

app = typer.Typer()

index_app = typer.Typer(help="Record a table's index.", no_args_is_help=True)
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
