"""Commands that look after a table: compact, clean, archive, rollback, savepoint, restore."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from bucketfmt.cli.app import (
    IndexOption,
    Output,
    OutputOption,
    StorageOption,
    TableArgument,
    app,
)
from bucketfmt.cli.render import console, print_facts, size_text
from bucketfmt.cli.writing import DryRun, Lock, LockOption, open_to_write, print_result

__all__ = ["archive", "clean", "compact", "restore", "rollback", "savepoint"]

Instant = Annotated[
    str, typer.Argument(metavar="INSTANT", help="Its requested time, as `history` shows it.")
]


@app.command()
def compact(
    table: TableArgument,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Merge the log files of a merge-on-read table into new base files."""
    result = open_to_write(table, storage_option, index, lock).compact()
    if result is not None:
        print_result(result, output)
    elif output is Output.JSON:
        print("null")
    else:
        console.print("nothing to compact")


@app.command()
def clean(
    table: TableArgument,
    retain: Annotated[
        int | None, typer.Option("--retain", min=1, help="Commits that stay readable; 10.")
    ] = None,
    dry_run: DryRun = False,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Delete files that only reads of the past would open."""
    opened = open_to_write(table, storage_option, index, lock)
    found = opened.clean(retain=retain, dry_run=dry_run)
    facts = {
        "files": f"{len(found.files)}, {size_text(found.bytes)}",
        "earliest instant readable": found.earliest_retained or "-",
    }
    _print(asdict(found), facts, output, dry_run)


@app.command()
def archive(
    table: TableArgument,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Move old instants from the active timeline to the archive."""
    moved = open_to_write(table, storage_option, index, lock).archive()
    times = [instant.requested_time for instant in moved]
    _print({"instants": times}, {"instants archived": len(times)}, output)


@app.command()
def rollback(
    table: TableArgument,
    instant: Instant,
    dry_run: DryRun = False,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Take the newest write back."""
    opened = open_to_write(table, storage_option, index, lock)
    found = opened.rollback(instant, dry_run=dry_run)
    facts = {
        "taken back": f"{found.instant} ({found.action})",
        "files deleted": len(found.files_deleted),
        "log files cancelled": len(found.log_files_cancelled),
    }
    _print(asdict(found), facts, output, dry_run)


@app.command()
def savepoint(
    table: TableArgument,
    instant: Annotated[
        str | None, typer.Argument(metavar="[INSTANT]", help="Of a write; the newest by default.")
    ] = None,
    comments: Annotated[str, typer.Option("--comments", help="Why, for the record.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Remove the savepoint.")] = False,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Keep the table as it is now for a later restore."""
    opened = open_to_write(table, storage_option, index, lock)
    if delete:
        if instant is None:
            raise typer.BadParameter("--delete takes the savepoint's INSTANT")
        opened.delete_savepoint(instant)
        made = instant
    else:
        made = opened.savepoint(instant, comments=comments)
    _print({"instant": made}, {"removed" if delete else "savepoint": made}, output)


@app.command()
def restore(
    table: TableArgument,
    instant: Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Its instant.")],
    dry_run: DryRun = False,
    lock: LockOption = Lock.AUTO,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Take the table back to a savepoint; what was written since is gone."""
    opened = open_to_write(table, storage_option, index, lock)
    found = opened.restore(instant, dry_run=dry_run)
    taken = ", ".join(each.instant for each in found.rollbacks) or "none"
    _print(asdict(found), {"restored to": found.savepoint, "taken back": taken}, output, dry_run)


def _print(
    value: dict[str, Any], facts: dict[str, Any], output: Output, dry_run: bool = False
) -> None:
    if output is Output.JSON:
        print(json.dumps(value, ensure_ascii=False))
        return
    print_facts(facts)
    if dry_run:
        console.print("nothing was done (--dry-run)", style="dim")
