"""Commands that change the buckets of a table: rehash, rescale, migrate, resize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, cast

import pyarrow as pa
import typer

from bucketfmt.api.resizes import ResizeArguments
from bucketfmt.choices import Duplicates, KeyForm, Split
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
from bucketfmt.cli.wording import in_shell_words
from bucketfmt.index.model import BucketIndex
from bucketfmt.index.numbered_buckets import PartitionBucketIndex, SimpleBucketIndex
from bucketfmt.index.stored_buckets import ConsistentHashingIndex
from bucketfmt.resize.growth import Duration
from bucketfmt.resize.migration.plan_migrate import PARTITIONS_PER_COMMIT
from bucketfmt.texts import size_text

__all__ = ["migrate", "rehash", "rescale", "resize"]

app = typer.Typer()


_RULE = typer.Option(
    "--rule",
    metavar="REGEX,NUMBER",
    help="Buckets of the partitions in whose paths the regex is found; the first rule that "
    "matches counts. Give it several times.",
)


@app.command()
def rehash(
    table: TableArgument,
    num_buckets: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, help="Buckets of each partition from then on.")
    ],
    codec: CodecOption = None,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Give every partition another number of buckets.

    Others read and write meanwhile. Stop the writers of Hudi, whose options have the number.
    """
    opened = open_to_write(table, storage_option, index, lock)
    if dry_run:
        found = opened.preview_rehash(num_buckets)
        facts = {
            "buckets": f"{found.before} -> {found.after}",
            "partitions": found.partitions,
            "file groups": found.file_groups,
            "bytes to read": size_text(found.bytes),
            "independent pieces": found.steps,
            "takes": _duration_text(found.duration),
        }
        print_outcome(asdict(found), facts, output, dry_run)
        return
    with shown_progress("planning") as progress:
        result = opened.rehash(num_buckets, codec=codec, progress=progress)
    print_done(result, f"the table has {num_buckets} buckets already", output)


@app.command()
def rescale(
    table: TableArgument,
    rule: Annotated[list[str], _RULE],
    default: Annotated[
        int | None,
        typer.Option(
            "--default", min=1, help="Buckets where no rule matches; by default as it is."
        ),
    ] = None,
    add: Annotated[
        bool, typer.Option("--add", help="Try the rules before those of now, and keep those.")
    ] = False,
    codec: CodecOption = None,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Give partitions numbers of buckets by rules; the table keeps rules from then on.

    Only partitions whose number changes are rewritten. Others read and write meanwhile. Stop the
    writers of Hudi.
    """
    opened, rules = open_to_write(table, storage_option, index, lock), ";".join(rule)
    if dry_run:
        found = opened.preview_rescale(rules, default=default, add=add)
        if output is Output.TEXT and found.partitions:
            listed = {
                "partition": [each.partition_path for each in found.partitions],
                "buckets": [each.before for each in found.partitions],
                "then": [each.after for each in found.partitions],
            }
            print_table(pa.table(listed))
        changed = sum(each.before != each.after for each in found.partitions)
        facts = {
            "rules": found.rules,
            "default": found.default,
            "partitions to rewrite": f"{changed} of {len(found.partitions)}",
            "file groups": found.file_groups,
            "bytes to read": size_text(found.bytes),
            "independent pieces": found.steps,
        }
        print_outcome(asdict(found), facts, output, dry_run)
        return
    with shown_progress("planning") as progress:
        result = opened.rescale(
            rules,
            default=default,
            add=add,
            codec=codec,
            progress=progress,
        )
    print_done(result, "the table has these rules already", output)


@app.command()
def migrate(
    table: TableArgument,
    buckets: Annotated[
        int | None,
        typer.Option("--buckets", min=1, help="Buckets of each partition; the default of rules."),
    ] = None,
    rule: Annotated[list[str] | None, _RULE] = None,
    ring: Annotated[
        int | None,
        typer.Option("--ring", min=1, help="Consistent hashing, with this many buckets at first."),
    ] = None,
    hash_fields: Annotated[
        str | None,
        typer.Option("--hash-fields", metavar="FIELD,...", help="By default all key fields."),
    ] = None,
    keys: Annotated[
        KeyForm | None,
        typer.Option("--keys", help="Write all complex keys of one field as `7` or as `id:7`."),
    ] = None,
    duplicates: Annotated[
        Duplicates, typer.Option("--duplicates", help="Where several rows have one key.")
    ] = "refuse",
    partitions_per_commit: Annotated[
        int, typer.Option("--partitions-per-commit", min=1, help="Moved by a commit.")
    ] = PARTITIONS_PER_COMMIT,
    codec: CodecOption = None,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
) -> None:
    """Give a table with another index, or without one, a bucket index.

    Others read and write meanwhile. After an error or a crash, run it again: it goes on.
    """
    index = _bucket_index(buckets, rule, ring, hash_fields, is_needed=keys is None)
    opened = open_to_write(table, storage_option, None, lock)
    if dry_run:
        found = opened.preview_migrate(
            index,
            keys=keys,
            duplicates=duplicates,
            partitions_per_commit=partitions_per_commit,
        )
        done = f" ({found.partitions_done} are done)" if found.partitions_done else ""
        facts: dict[str, Any] = {
            "index": found.index,
            "partitions": f"{found.partitions}{done}",
            "file groups": found.file_groups,
            "bytes to read": size_text(found.bytes),
            "commits": found.commits,
            "takes": _duration_text(found.duration),
        }
        print_outcome(asdict(found), facts | _notes(found.notes), output, dry_run)
        return
    with shown_progress("planning") as progress:
        result = opened.migrate(
            index,
            keys=keys,
            duplicates=duplicates,
            partitions_per_commit=partitions_per_commit,
            codec=codec,
            progress=progress,
        )
    if result is None:
        print_done(None, "the table has this index already", output)
        return
    facts = {
        "index": result.index,
        "commits": ", ".join(result.instants) or "-",
        "partitions": result.partitions,
        "rows": result.rows,
        "keys renamed": result.keys_renamed,
        "rows dropped": result.rows_dropped,
    }
    print_outcome(asdict(result), facts | _notes(result.notes), output)


@app.command()
def resize(
    table: TableArgument,
    min_buckets: Annotated[
        int | None, typer.Option(min=1, help="Smallest number of buckets of a partition.")
    ] = None,
    max_buckets: Annotated[
        int | None, typer.Option(min=1, help="Largest number of buckets of a partition.")
    ] = None,
    max_file_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="Of base files; by default 120 MiB."),
    ] = None,
    split: Annotated[
        Split, typer.Option(help="Halve ranges of hashes, or read keys and halve the rows.")
    ] = "middle",
    partition: Annotated[
        list[str] | None, typer.Option(help="Only this partition path. Repeatable.")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="Bytes to read at most; by default 2 GiB.")
    ] = None,
    codec: CodecOption = None,
    dry_run: DryRun = False,
    lock: LockOption = "auto",
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Split large buckets of consistent or extendible hashing, and merge small neighbours.

    A resize that is pending, of Hudi too, is executed. Others read and write meanwhile.
    """
    opened = open_to_write(table, storage_option, index, lock)
    given = {
        "min_buckets": min_buckets,
        "max_buckets": max_buckets,
        "max_file_size": max_file_size,
        "max_bytes": max_bytes,
        "partitions": partition,
    }
    options = cast(
        "ResizeArguments",
        {
            "split": split,
            **{name: value for name, value in given.items() if value is not None},
        },
    )
    if dry_run:
        found = opened.preview_resize(**options)
        facts = {
            "pending": found.pending or "-",
            "partitions": found.partitions,
            "splits": found.splits,
            "merges": found.merges,
            "file groups": f"{found.file_groups} -> {found.new_file_groups}",
            "bytes to read": size_text(found.bytes),
            "takes": _duration_text(found.duration),
        }
        print_outcome(asdict(found), facts, output, dry_run)
        return
    with shown_progress("planning") as progress:
        result = opened.resize(codec=codec, progress=progress, **options)
    print_done(result, "no bucket is too large or too small", output)


def _bucket_index(
    buckets: int | None,
    rules: list[str] | None,
    ring: int | None,
    hash_fields: str | None,
    *,
    is_needed: bool,
) -> BucketIndex | None:
    fields = tuple(hash_fields.split(",")) if hash_fields else None
    if ring is not None:
        if buckets is not None or rules is not None:
            raise typer.BadParameter("--ring goes with neither --buckets nor --rule")
        return ConsistentHashingIndex(ring, hash_fields=fields)
    if buckets is None:
        if is_needed or rules is not None or fields is not None:
            raise typer.BadParameter("give --buckets N, with --rule or without, or --ring N")
        return None
    if rules is not None:
        return PartitionBucketIndex(buckets, ";".join(rules), fields)
    return SimpleBucketIndex(buckets, fields)


def _duration_text(duration: Duration | None) -> str:
    if duration is None:
        return "-"
    return f"about {max(1, round(duration.seconds))} s ({duration.basis})"


def _notes(notes: Sequence[str]) -> dict[str, list[str]]:
    return {"note": [in_shell_words(note) for note in notes]} if notes else {}
