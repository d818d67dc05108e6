"""The command that mends what other writers, or lost files, left of the buckets of a table."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import asdict
from typing import Annotated, Any

import pyarrow as pa
import typer

import bucketfmt
from bucketfmt.choices import Duplicates
from bucketfmt.cli.commands.writing import (
    CodecOption,
    DryRun,
    LockOption,
    facts_of,
    open_to_write,
    print_outcome,
)
from bucketfmt.cli.options import IndexOption, Output, OutputOption, StorageOption, TableArgument
from bucketfmt.cli.progress import shown_progress
from bucketfmt.cli.render import print_facts, print_table
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

    File groups that share a bucket, are in none, or hold keys of other buckets are rewritten, while
    others read and write. A ring of consistent hashing that is lost is told by the keys of the file
    groups, and no row is moved for it. Partitions get the metadata file that they lack. Stop the
    writers of Hudi before. Where nothing states the index, give --index: the one that the table is
    to have.
    """
    opened = open_to_write(table, storage_option, index, lock)
    found = as_bucket_index(opened.index)
    has_groups = found is not None and not found.has_directories and found.group_bytes is None
    if duplicates == "latest" and not has_groups:
        raise typer.BadParameter(
            "--duplicates is for buckets that are numbered or on a ring, of one file group each"
        )
    partitions = opened.repair_partitions(partition, dry_run=dry_run)
    value: dict[str, Any] = {"partitions": partitions}
    facts: dict[str, Any] = {}
    if partitions and output is Output.TEXT:  # also where nothing else can be done
        name = "partitions to make again" if dry_run else "partitions made again"
        print_facts({name: ", ".join(partitions)})
    rings: list[bucketfmt.RepairedRing] = []
    # Where nothing states the index, and no file id is that of a bucket, all rings may be lost.
    may_have_rings = opened.resolved_index.lacks_buckets and not partitions
    if may_have_rings or (found is not None and found.has_rings):
        rings = _repair_rings(opened, partition, output, dry_run=dry_run)
        value["rings"] = [ring._asdict() for ring in rings]
        facts["rings to make again" if dry_run else "rings made again"] = len(rings)
    # Of a table that has no such buckets, this tells what is refused.
    is_asked = has_groups or not (may_have_rings or partitions)
    if is_asked and dry_run:
        repairs = _preview(opened, partition, {ring.partition_path for ring in rings})
        _list_repairs(repairs, output)
        value["repairs"] = [asdict(each) for each in repairs]
        facts["file groups to rewrite"] = sum(len(each.file_ids) for each in repairs)
        facts["into"] = sum(len(each.buckets) for each in repairs)
        facts["bytes to read"] = size_text(sum(each.bytes for each in repairs))
    elif is_asked:
        with shown_progress("reading keys") as progress:
            done = opened.repair_buckets(
                partition, duplicates=duplicates, codec=codec, progress=progress
            )
        value["commit"] = None if done is None else asdict(done)
        facts |= {"rows moved": "none"} if done is None else facts_of(done)
        if duplicates == "latest" and done is not None:
            facts["older rows left out"] = done.rows_deleted
    print_outcome(value, facts, output, dry_run)


def _preview(
    opened: bucketfmt.Table, partition: Sequence[str] | None, ringed: Set[str]
) -> Sequence[bucketfmt.BucketRepair]:
    """Return which rows would be moved, once these partitions have their rings again."""
    if not ringed:
        return opened.preview_repair_buckets(partition)
    known = partition or opened.inspect.partitions().column("partition_path").to_pylist()
    return opened.preview_repair_buckets([path for path in known if path not in ringed])


def _list_repairs(repairs: Sequence[bucketfmt.BucketRepair], output: Output) -> None:
    if output is not Output.TEXT or not repairs:
        return
    listed = {
        "partition": [each.partition_path for each in repairs],
        "buckets": [", ".join(map(str, each.buckets)) or "-" for each in repairs],
        "cause": [each.cause for each in repairs],
    }
    print_table(pa.table(listed))


def _repair_rings(
    opened: bucketfmt.Table, partition: Sequence[str] | None, output: Output, *, dry_run: bool
) -> list[bucketfmt.RepairedRing]:
    """Make rings again; none where keys do not tell them: their rows are moved to a new one."""
    try:
        rings = opened.repair_rings(partition, dry_run=dry_run)
    except bucketfmt.CorruptError:
        return []
    if output is Output.TEXT and rings:
        print_table(pa.Table.from_pylist([ring._asdict() for ring in rings]))
    return rings
