"""The `check` command: checks a table as a file-system check does."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer

import bucketfmt
from bucketfmt.check.report import CheckReport
from bucketfmt.check.report_text import report_lines
from bucketfmt.choices import Depth
from bucketfmt.cli.options import (
    IndexOption,
    Output,
    OutputOption,
    StorageOption,
    TableArgument,
    parse_index,
    parse_storage_options,
)
from bucketfmt.cli.progress import shown_progress
from bucketfmt.cli.render import console, print_json
from bucketfmt.cli.wording import in_shell_words

__all__ = ["check", "print_report", "run_check"]

app = typer.Typer()

_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim", "outcome": "bold"}


@app.command()
def check(
    table: TableArgument,
    depth: Annotated[
        Depth,
        typer.Option(
            "--depth",
            help="quick: timeline, listings and names. default: also footers, log frames and "
            "hashing metadata. full: also every page and every key.",
        ),
    ] = "default",
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="PATH", help="Only this partition; repeatable."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Open only files written after this time."),
    ] = None,
    max_findings: Annotated[
        int, typer.Option("--max-findings", min=1, help="Keep this many findings, the worst first.")
    ] = 100,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Open data files in so many processes.")
    ] = 1,
    output: OutputOption = Output.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output json.")] = False,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Check a table and print what is wrong, why, and what to do. Writes nothing.

    Exit codes: 0 clean, 1 findings, 2 could not check, 3 met an unsupported feature, 64 wrong
    usage, 130 Ctrl-C.
    """
    run_check(
        table,
        Output.JSON if as_json else output,
        storage_option,
        parse_index(index) if index else None,
        depth=depth,
        partitions=partition,
        since=since,
        max_findings=max_findings,
        processes=processes,
    )


def run_check(
    table: str,
    output: Output,
    storage_option: list[str] | None,
    index: bucketfmt.Index | None = None,
    **options: Any,
) -> NoReturn:
    """Check a table, print the report, and exit with its code.

    Args:
        table: The URI of the table.
        output: How to print.
        storage_option: As given to the command.
        index: As of `bucketfmt.check_table`.
        options: More arguments of `bucketfmt.check_table`.
    """
    with shown_progress("listing") as progress:
        report = bucketfmt.check_table(
            table,
            parse_storage_options(storage_option) or None,
            index,
            progress=progress,
            **options,
        )
    if output is Output.JSON:
        print_json(_reworded(report.to_dict()))
    else:
        print_report(report)
    raise typer.Exit(report.exit_code)


def print_report(report: CheckReport) -> None:
    """Print the findings, what was not checked, and the outcome."""
    for line in report_lines(report):
        text = in_shell_words(line.text)
        console().print(text, style=_STYLES.get(line.kind), markup=False, soft_wrap=True)


def _reworded(value: Any) -> Any:
    """Return a report's dict with its sentences in the words of the command line."""
    if isinstance(value, dict):
        return {name: _reworded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_reworded(item) for item in value]
    return in_shell_words(value) if isinstance(value, str) else value
