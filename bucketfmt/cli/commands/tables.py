"""Commands about a table as a whole: describe, history, files, buckets."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from bucketfmt.cli.options import (
    IndexOption,
    Output,
    OutputOption,
    StorageOption,
    TableArgument,
    open_table,
)
from bucketfmt.cli.render import (
    bar,
    console,
    json_rows,
    print_facts,
    print_json,
    print_table,
)
from bucketfmt.cli.wording import in_shell_words
from bucketfmt.index.skew import Skew, measure_skew
from bucketfmt.resize.advice import TARGET_BYTES, BucketAdvice
from bucketfmt.table.describe import load_facts
from bucketfmt.table.inspect import Inspect
from bucketfmt.texts import size_text

__all__ = ["buckets", "describe", "files", "history"]

app = typer.Typer()

_PARTITIONS_SHOWN = 20

PartitionOption = Annotated[
    str | None, typer.Option("--partition", metavar="PATH", help="Only this partition.")
]


@app.command()
def describe(
    table: TableArgument,
    output: OutputOption = Output.TEXT,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Print the type, version, keys, index, size and schema of a table."""
    opened = open_table(table, storage_option, index)
    facts = load_facts(opened)
    index_text = None if opened.index is None else opened.index.text
    evidence = in_shell_words(facts.index_evidence)
    facts = replace(facts, index=index_text, index_evidence=evidence)
    columns = {field.name: str(field.type) for field in opened.schema}
    if output is Output.JSON:
        print_json({**asdict(facts), "columns": columns})
        return
    print_facts({**facts.in_words(), "size": size_text(facts.size)})
    console().print()
    print_table(pa.table({"column": list(columns), "type": list(columns.values())}))


@app.command()
def history(
    table: TableArgument,
    output: OutputOption = Output.TEXT,
    archived: Annotated[
        bool, typer.Option("--archived", help="List the archived timeline too.")
    ] = False,
    storage_option: StorageOption = None,
) -> None:
    """List the commits and table services of a table, newest first.

    A note on standard error says if instants of the archived timeline are left out.
    """
    opened = open_table(table, storage_option)
    commits = opened.inspect.commits(archived=archived)
    _print(commits.sort_by([("requested_time", "descending")]), output)
    if not archived and any(not f.is_dir for f in opened.store.list(opened.config.history_path)):
        note = "instants of the archived timeline are left out; --archived lists them too"
        print(note, file=sys.stderr)


@app.command()
def files(
    table: TableArgument,
    output: OutputOption = Output.TEXT,
    partition: PartitionOption = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """List the files a reader of the table opens."""
    inspect = open_table(table, storage_option, index).inspect
    _print(_of_partition(inspect.files(), inspect, partition), output)


def _of_partition(rows: pa.Table, inspect: Inspect, partition: str | None) -> pa.Table:
    """Return the rows of one partition, or of all.

    Raises:
        ValueError: the table has no such partition.
    """
    if partition is None:
        return rows
    if partition not in inspect.partitions()["partition_path"].to_pylist():
        raise ValueError(f"the table has no partition {partition!r}")
    return rows.filter(pc.equal(rows["partition_path"], partition))


def _print(table: pa.Table, output: Output) -> None:
    if output is Output.JSON:
        print_json(json_rows(table))
    else:
        print_table(table)


@app.command()
def buckets(
    table: TableArgument,
    output: OutputOption = Output.TEXT,
    partition: PartitionOption = None,
    advise: Annotated[
        bool,
        typer.Option("--advise", help="Print which buckets suit the table, and what to run next."),
    ] = False,
    target_mib: Annotated[
        int,
        typer.Option("--target-mib", min=1, help="With --advise: MiB of a bucket's base file."),
    ] = TARGET_BYTES >> 20,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Draw the size of each bucket, and print how even the sizes are."""
    opened = open_table(table, storage_option, index)
    if advise:
        if partition is not None:
            raise typer.BadParameter("--advise is about all partitions; leave out --partition")
        print_advice(opened.advise_buckets(target_bytes=target_mib << 20), output)
        return
    inspect = opened.inspect
    sizes = _of_partition(inspect.buckets(), inspect, partition)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in sizes.to_pylist():
        rows.setdefault(row["partition_path"], []).append(row)
    skews = {
        path: measure_skew([row["size"] for row in bucket_rows])
        for path, bucket_rows in rows.items()
    }
    if output is Output.JSON:
        print_json(
            [
                {"partition_path": path, **vars(skews[path]), "buckets": bucket_rows}
                for path, bucket_rows in rows.items()
            ]
        )
        return
    largest = max((row["size"] for row in sizes.to_pylist()), default=0)
    for path, bucket_rows in rows.items():
        draw_buckets(path, bucket_rows, skews[path], largest)


def print_advice(advice: BucketAdvice, output: Output) -> None:
    """Print the numbers of partitions, the largest first, and what to do."""
    if output is Output.JSON:
        told = asdict(advice)
        for each in told["recommendations"]:
            del each["call"]  # of Python
        print_json(told)
        return
    by_size = sorted(advice.partitions, key=lambda each: -each.expected_bytes)
    shown = [
        {
            "partition": each.partition_path or "(table)",
            "buckets": each.num_buckets,
            "file groups": each.file_groups,
            "size": size_text(each.bytes),
            "logs": size_text(each.log_bytes),
            "largest / median": f"{each.largest_to_median:.1f}",
            "a day": "-" if each.bytes_per_day is None else size_text(each.bytes_per_day),
            f"in {advice.horizon_days} days": size_text(each.expected_bytes),
            "suggested": each.suggested,
        }
        for each in by_size[:_PARTITIONS_SHOWN]
    ]
    if shown:
        print_table(pa.Table.from_pylist(shown))
    if len(by_size) > len(shown):
        console().print(f"and {len(by_size) - len(shown)} smaller partitions", style="dim")
    measured = advice.measured_days
    console().print(
        f"suggested: {advice.engine}, {advice.num_buckets} buckets"
        f"{f', rules {advice.rules}' if advice.rules else ''}, for base files of at most "
        f"{size_text(advice.target_bytes)}; growth "
        f"{'unknown' if measured is None else f'as over {measured:.0f} days'}",
        markup=False,
    )
    for each in advice.recommendations:
        reason = in_shell_words(each.reason)
        console().print(f"{each.action}: {reason}", markup=False)
        if each.command is not None:
            console().print(f"  {each.command}", markup=False, soft_wrap=True)


def draw_buckets(partition_path: str, rows: list[dict[str, Any]], skew: Skew, largest: int) -> None:
    """Draw a bar for each bucket; bars of several partitions share one scale."""
    console().print(f"[bold]{'partition ' if partition_path else 'table'}[/]", end="")
    console().print(partition_path or "", markup=False)
    width = max(10, min(60, console().width - 40))
    names = [
        row["file_id"][:8] if row["bucket_id"] is None else f"{row['bucket_id']:08d}"
        for row in rows
    ]
    name_width = max(map(len, names), default=0)
    for name, row in zip(names, rows, strict=True):
        logs = f"  + {row['log_files']} log" if row["log_files"] else ""
        drawn = f"{bar(row['size'], largest, width):<{width}}"
        console().print(
            f"{name:>{name_width}}  {drawn} {size_text(row['size']):>10}{logs}", markup=False
        )
    has_buckets = any(row["bucket_id"] is not None for row in rows)
    counted = f"{'bucket' if has_buckets else 'file group'}{'s' * (len(rows) != 1)}"
    console().print(
        f"{len(rows)} {counted}, {size_text(skew.total_bytes)}; largest / median "
        f"{skew.largest_to_median:.2f}, Gini {skew.gini:.2f}\n"
        f"suggested N {skew.suggested_buckets} (for {size_text(skew.target_bytes)} a bucket)",
        markup=False,
    )
    console().print()
