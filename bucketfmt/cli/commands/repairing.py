"""The command that mends what other writers, or lost files, left of the buckets of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import pyarrow as pa
import typer

import bucketfmt
from bucketfmt.choices import Duplicates
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
from bucketfmt.cli.render import print_table
from bucketfmt.index.model import as_bucket_index
from bucketfmt.texts import size_text

__all__ = ["repair"]

app = typer.Typer()


@app.command()
def repair(
    table: TableArgument,
    partition: Annotated[
        list[str] | None, typer.Option(help="Only this partition path. Repeatable.")
    ] = None,
    duplicates: Annotated[
        Duplicates,
        typer.Option("--duplicates", help="Where rows that are moved have one key."),
    ] = "refuse",
    codec: CodecOption = None,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Move rows to the buckets of their keys; make lost or damaged hashing metadata again.

    Where buckets are numbered, file groups that share a bucket, are in none, or hold keys of other
    buckets are rewritten, while others read and write. Of consistent hashing, no row is moved: the
    keys of the file groups tell the ring. Stop the writers of Hudi before. Where nothing states the
    index, give --index: the one that the table is to have.
    """
    opened = open_to_write(table, storage_option, index, lock)
    found = as_bucket_index(opened.index)
    if found is None or not found.has_numbered_buckets:
        if duplicates == "latest":
            raise typer.BadParameter("--duplicates is for tables whose buckets are numbered")
        _repair_rings(opened, partition, output, dry_run=dry_run)
        return
    if dry_run:
        _print_plan(opened.preview_repair_buckets(partition), output)
        return
    with shown_progress("reading keys") as progress:
        done = opened.repair_buckets(
            partition, duplicates=duplicates, codec=codec, progress=progress
        )
    print_done(done, "every row is in the file group of its bucket", output)


def _print_plan(planned: Sequence[bucketfmt.BucketRepair], output: Output) -> None:
    if output is Output.TEXT and planned:
        listed = {
            "partition": [each.partition_path for each in planned],
            "buckets": [", ".join(map(str, each.buckets)) or "-" for each in planned],
            "cause": [each.cause for each in planned],
        }
        print_table(pa.table(listed))
    facts = {
        "file groups to rewrite": sum(len(each.file_ids) for each in planned),
        "into": sum(len(each.buckets) for each in planned),
        "bytes to read": size_text(sum(each.bytes for each in planned)),
    }
    print_outcome({"repairs": [asdict(each) for each in planned]}, facts, output, dry_run=True)


def _repair_rings(
    opened: bucketfmt.Table, partition: Sequence[str] | None, output: Output, *, dry_run: bool
) -> None:
    repaired = opened.repair_rings(partition, dry_run=dry_run)
    if output is Output.TEXT and repaired:
        print_table(pa.Table.from_pylist([ring._asdict() for ring in repaired]))
    facts = {"rings to make again" if dry_run else "rings made again": len(repaired)}
    print_outcome({"rings": [ring._asdict() for ring in repaired]}, facts, output, dry_run)
