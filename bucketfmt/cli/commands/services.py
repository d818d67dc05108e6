"""Commands that maintain a table: services and undo."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

import bucketfmt
from bucketfmt.choices import CleanPolicy
from bucketfmt.cli.commands.writing import (
    CodecOption,
    DryRun,
    LockOption,
    open_to_write,
    print_done,
    print_outcome,
)
from bucketfmt.cli.options import IndexOption, Output, OutputOption, StorageOption, TableArgument
from bucketfmt.cli.progress import shown_progress
from bucketfmt.texts import size_text

__all__ = ["archive", "clean", "compact", "maintain", "restore", "rollback", "savepoint"]

app = typer.Typer()


@app.command()
def maintain(
    table: TableArgument,
    compact_after: Annotated[
        int,
        typer.Option(
            "--compact-after", min=1, help="Commits with log files after which a compaction is due."
        ),
    ] = 5,
    retain: Annotated[
        int, typer.Option("--retain", min=1, help="Commits whose files a clean keeps.")
    ] = 10,
    clean_after: Annotated[
        int, typer.Option("--clean-after", min=1, help="Commits after which a clean is due.")
    ] = 5,
    min_commits: Annotated[
        int, typer.Option("--min-commits", min=1, help="Commits that archiving leaves.")
    ] = 20,
    max_commits: Annotated[
        int, typer.Option("--max-commits", min=1, help="Commits above which archiving is due.")
    ] = 30,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Compact, clean and archive as far as that is due, as writes do after a commit."""
    opened = open_to_write(table, storage_option, index, lock)
    services = bucketfmt.Services(
        compact_after=compact_after,
        clean=bucketfmt.Retention(retain=retain),
        clean_after=clean_after,
        archive=bucketfmt.ArchivePolicy(min_commits, max_commits),
    )
    with shown_progress("maintaining") as progress:
        found = opened.maintain(services, dry_run=dry_run, progress=progress)
    facts: dict[str, object] = {}
    if isinstance(found.compaction, bucketfmt.CompactionPreview):
        facts["file groups to compact"] = found.compaction.file_groups
    elif found.compaction is not None:
        facts["compaction"] = found.compaction.instant
    if found.clean is not None:
        what = "files to delete" if dry_run else "files deleted"
        facts[what] = f"{len(found.clean.files)}, {size_text(found.clean.bytes)}"
    if found.archived:
        facts["instants to archive" if dry_run else "instants archived"] = len(found.archived)
    if output is Output.TEXT and not facts:
        print("nothing is due")
        return
    value = {
        "compaction": None if found.compaction is None else asdict(found.compaction),
        "clean": None if found.clean is None else asdict(found.clean),
        "archived": [instant.requested_time for instant in found.archived],
    }
    print_outcome(value, facts, output, dry_run=dry_run)


@app.command()
def compact(
    table: TableArgument,
    min_log_files: Annotated[
        int,
        typer.Option("--min-log-files", min=1, help="Leave out file groups with fewer log files."),
    ] = 1,
    codec: CodecOption = None,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Merge the log files of a merge-on-read table into new base files."""
    opened = open_to_write(table, storage_option, index, lock)
    if dry_run:
        found = opened.preview_compaction(min_log_files=min_log_files)
        facts = {
            "pending compaction": found.pending or "-",
            "file groups": found.file_groups,
            "log files": f"{found.log_files}, {size_text(found.log_bytes)}",
        }
        print_outcome(asdict(found), facts, output, dry_run)
        return
    with shown_progress("scheduling") as progress:
        result = opened.compact(
            min_log_files=min_log_files,
            codec=codec,
            progress=progress,
        )
    print_done(result, "nothing to compact", output)


@app.command()
def clean(
    table: TableArgument,
    retain: Annotated[
        int | None,
        typer.Option(
            "--retain",
            min=1,
            help="Number of commits (default 10) or file slices (default 3) to keep.",
        ),
    ] = None,
    policy: Annotated[
        CleanPolicy,
        typer.Option("--policy", help="Whether --retain counts commits or file slices."),
    ] = "KEEP_LATEST_COMMITS",
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Delete files that only reads of past commits need."""
    opened = open_to_write(table, storage_option, index, lock)
    with shown_progress("planning") as progress:
        found = opened.clean(policy=policy, retain=retain, dry_run=dry_run, progress=progress)
    facts = {
        "files": f"{len(found.files)}, {size_text(found.bytes)}",
        "earliest instant readable": found.earliest_retained or "-",
    }
    print_outcome(asdict(found), facts, output, dry_run)


@app.command()
def archive(
    table: TableArgument,
    min_commits: Annotated[
        int, typer.Option("--min-commits", min=1, help="Leave at least this many commits.")
    ] = 20,
    max_commits: Annotated[
        int,
        typer.Option(
            "--max-commits", min=1, help="Archive only if there are more commits than this."
        ),
    ] = 30,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Move old instants from the active timeline to the archive."""
    opened = open_to_write(table, storage_option, index, lock)
    with shown_progress("archiving"):
        moved = opened.archive(min_commits=min_commits, max_commits=max_commits, dry_run=dry_run)
    times = [instant.requested_time for instant in moved]
    what = "instants to archive" if dry_run else "instants archived"
    print_outcome({"instants": times}, {what: len(times)}, output, dry_run)


@app.command()
def rollback(
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="[INSTANT]",
            help="Requested time of a write, as `history` shows it; by default the newest write.",
        ),
    ] = None,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Take back the newest write, or a failed write.

    Without INSTANT, a terminal is asked for confirmation.
    """
    opened = open_to_write(table, storage_option, index, lock)
    if instant is None:
        newest = opened.rollback(dry_run=True)
        instant = newest.instant  # a write that comes now is an error, and is not taken back
        if not dry_run and sys.stdin.isatty():
            what = f"{newest.action} {instant}, {len(newest.files_deleted)} files"
            typer.confirm(f"Take back {what}?", abort=True, err=True)
    with shown_progress("rolling back"):
        found = opened.rollback(instant, dry_run=dry_run)
    facts = {
        "taken back": f"{found.instant} ({found.action})",
        "files deleted": len(found.files_deleted),
        "log files cancelled": len(found.log_files_cancelled),
    }
    print_outcome(asdict(found), facts, output, dry_run)


@app.command()
def savepoint(
    table: TableArgument,
    instant: Annotated[
        str | None,
        typer.Argument(
            metavar="[INSTANT]", help="Requested time of a write; by default the newest."
        ),
    ] = None,
    comments: Annotated[
        str, typer.Option("--comments", help="Why the savepoint is made; recorded in it.")
    ] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Remove the savepoint.")] = False,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Keep the table as it is now, for a later restore."""
    opened = open_to_write(table, storage_option, index, lock)
    if delete:
        if instant is None or dry_run:
            raise typer.BadParameter("--delete takes the savepoint's INSTANT, and no --dry-run")
        opened.delete_savepoint(instant)
        made = instant
    else:
        made = opened.savepoint(instant, comments=comments, dry_run=dry_run)
    print_outcome({"instant": made}, {"removed" if delete else "savepoint": made}, output, dry_run)


@app.command()
def restore(
    table: TableArgument,
    instant: Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Instant of the savepoint.")],
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Take back every write after a savepoint."""
    opened = open_to_write(table, storage_option, index, lock)
    with shown_progress("restoring"):
        found = opened.restore(instant, dry_run=dry_run)
    instants = ", ".join(each.instant for each in found.rollbacks) or "none"
    print_outcome(
        asdict(found), {"restored to": found.savepoint, "taken back": instants}, output, dry_run
    )
