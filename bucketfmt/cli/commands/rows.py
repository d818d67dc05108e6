"""Commands about rows and keys: read, changes, locate, lookup."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

import bucketfmt
from bucketfmt.arguments import did_you_mean, find_repeated
from bucketfmt.cli.options import IndexOption, StorageOption, TableArgument, open_table
from bucketfmt.cli.render import on_terminal, print_table
from bucketfmt.cli.row_output import RowOutput, choose_form, write_rows
from bucketfmt.rows.columns.meta_columns import META_COLUMNS, OPERATION, PARTITION_PATH, RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import record_keys
from bucketfmt.rows.filters.filter_text import Condition, all_of, parse_filter_text
from bucketfmt.table.keys import key_columns

__all__ = ["changes", "given_keys", "locate", "lookup", "read"]

app = typer.Typer()

_ROWS_SHOWN = 100  # on a terminal, where nobody says how many
_COUNTED_BYTES_MAX = 64 << 20  # of the files of a read whose rows are counted for a note
_COUNTED_SLICES_MAX = 200
_KEYS_SHOWN = 3

Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", metavar="A,B", help="Only these columns; repeatable."),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="PATH", help="Only this partition; repeatable."),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="TEXT",
        help="Such as \"qty > 1 and city in ('sf', 'ny')\"; = != < <= > >= in, is null, and, or, "
        "not in, parentheses; repeatable, all must hold.",
    ),
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="Instant or ISO time to read at.")
]
MetaColumns = Annotated[bool, typer.Option("--meta", help="Hudi's own columns too.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most this many rows.")]
OutFile = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="FILE", help="Write to this file; - is standard output."),
]
RowOutputOption = Annotated[
    RowOutput | None,
    typer.Option(
        "--output",
        help="text, json (lines), csv, parquet or arrow; by default by the name of FILE.",
    ),
]
Keys = Annotated[
    list[str] | None, typer.Argument(metavar="KEY...", help="Record keys, as Hudi stores them.")
]
KeysFrom = Annotated[
    Path | None,
    typer.Option(
        "--keys-from",
        metavar="FILE",
        help="A file with a record key on each line; - for standard input.",
    ),
]


def parse_conditions(texts: list[str] | None, schema: pa.Schema) -> list[list[Condition]] | None:
    """Return the filter of all `--filter` options, which must all hold; None without any.

    Raises:
        typer.BadParameter: a text is no filter, or names a column that does not exist.
    """
    parts = [_parse_condition(text, schema) for text in texts or ()]
    return all_of(parts) if parts else None


def _parse_condition(text: str, schema: pa.Schema) -> list[list[Condition]]:
    try:
        return parse_filter_text(text, schema)
    except (ValueError, bucketfmt.SchemaError) as error:
        raise typer.BadParameter(f"--filter {text!r}: {error}") from error


def parse_columns(texts: Sequence[str] | None, schema: pa.Schema) -> list[str] | None:
    """Return the names in all `--columns`; None for all columns.

    Raises:
        typer.BadParameter: there is no such column.
    """
    if not texts:
        return None
    text, known = ",".join(texts), [*schema.names, *META_COLUMNS, OPERATION]
    names = [n if n in known else n.strip() for n in text.split(",")]
    for name in names:
        if name not in known:
            raise typer.BadParameter(
                f"--columns {text}: no column {name!r}; {did_you_mean(name, schema.names)}"
            )
    if repeated := find_repeated(names):
        raise typer.BadParameter(f"--columns {text}: {', '.join(repeated)} named twice")
    return names


@app.command()
def read(
    table: TableArgument,
    columns: Columns = None,
    filter_: Filter = None,
    as_of: AsOf = None,
    read_optimized: Annotated[
        bool,
        typer.Option("--read-optimized", help="Base files only: faster, without the rows in logs."),
    ] = False,
    meta_columns: MetaColumns = False,
    limit: Limit = None,
    output: RowOutputOption = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Read rows as Hudi reads them."""
    opened = open_table(table, storage_option, index)
    scan = opened.scan(
        columns=parse_columns(columns, opened.schema),
        filter=parse_conditions(filter_, opened.schema),
        as_of=as_of,
        read_optimized=read_optimized,
        meta_columns=meta_columns,
        limit=limit,
    )
    _put_rows(scan, limit, output, out)


@app.command()
def changes(
    table: TableArgument,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Rows written after this moment; by default all."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Rows as of this moment; by default the newest."
        ),
    ] = None,
    columns: Columns = None,
    filter_: Filter = None,
    meta_columns: MetaColumns = False,
    limit: Limit = None,
    output: RowOutputOption = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Read the rows that were written after a moment, up to another.

    Each row is there once, as of the later moment; deleted rows are left out.
    Moments are ISO times, or completion times as `history` prints them
    (requested times in tables of version 6).
    """
    opened = open_table(table, storage_option, index)
    scan = opened.changes(
        since,
        until,
        columns=parse_columns(columns, opened.schema),
        filter=parse_conditions(filter_, opened.schema),
        meta_columns=meta_columns,
        limit=limit,
    )
    _put_rows(scan, limit, output, out)


def _put_rows(
    scan: bucketfmt.Scan, limit: int | None, output: RowOutput | None, out: Path | None
) -> None:
    """Write the rows of a scan; on a terminal, where no limit is given, the first rows."""
    if choose_form(output, out) is RowOutput.TEXT and limit is None and on_terminal():
        _show_first(scan)
    else:
        write_rows(scan.schema, scan.to_batches(), output, out)


def _show_first(scan: bucketfmt.Scan) -> None:
    """Print the first rows, and the number of all rows, or that more follow."""
    shown, is_all = _first_rows(scan.to_batches(_ROWS_SHOWN), scan.schema)
    note = ""
    if not is_all:
        plan = scan.plan()
        is_cheap = plan.size <= _COUNTED_BYTES_MAX and len(plan.slices) <= _COUNTED_SLICES_MAX
        total = f"{_ROWS_SHOWN} of {scan.count()} rows" if is_cheap else None
        note = f"{total or f'the first {_ROWS_SHOWN} rows, and more follow'}; "
        note += "--limit N or -o FILE for more"
    print_table(shown)
    if note:
        print(note, file=sys.stderr)


def _first_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> tuple[pa.Table, bool]:
    """Return the first rows, and whether there are no others."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(map(len, found)) > _ROWS_SHOWN:
            break
    rows = pa.Table.from_batches(found, schema)
    return rows.slice(0, _ROWS_SHOWN), rows.num_rows <= _ROWS_SHOWN


@app.command()
def locate(
    table: TableArgument,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    partition: Partitions = None,
    output: RowOutputOption = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Print the bucket and the files of keys, without opening a data file."""
    opened = open_table(table, storage_option, index)
    located = opened.locate(_keys(keys, keys_from), partitions=partition or None)
    write_rows(located.schema, iter(located.to_batches()), output, out)
    if not located.num_rows:
        print("the table has no partitions yet, so keys are nowhere", file=sys.stderr)


@app.command()
def lookup(
    table: TableArgument,
    keys: Keys = None,
    keys_from: KeysFrom = None,
    partition: Partitions = None,
    columns: Columns = None,
    output: RowOutputOption = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    index: IndexOption = None,
) -> None:
    """Read the rows of given keys, opening only the buckets of the keys.

    The number of keys that the table does not have is printed on standard error.
    """
    opened = open_table(table, storage_option, index)
    asked = list(dict.fromkeys(_keys(keys, keys_from)))
    names = parse_columns(columns, opened.schema) or list(opened.schema.names)
    config = opened.config
    of_keys = [name for name in key_columns(config) if name not in names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not found is told below
        given = asked if not partition else _in_partitions(asked, partition)
        rows = opened.lookup(given, [*names, *of_keys])
    is_stored = config.populate_meta_fields
    found = rows.column(RECORD_KEY) if is_stored else record_keys(rows, config)
    wanted = rows.select(names)
    write_rows(wanted.schema, iter(wanted.to_batches()), output, out)
    _tell_missing(asked, set(found.to_pylist()), opened)


def _in_partitions(keys: Sequence[str], partitions: Sequence[str]) -> pa.Table:
    """Return each key with each partition."""
    paths = list(dict.fromkeys(partitions))
    return pa.table(
        {
            RECORD_KEY: [key for _ in paths for key in keys],
            PARTITION_PATH: [path for path in paths for _ in keys],
        }
    )


def _tell_missing(asked: list[str], found: set[str], table: bucketfmt.Table) -> None:
    """Say which keys were not found; where none was, how keys of the table look."""
    missing = [key for key in asked if key not in found]
    if not missing:
        return
    shown = ", ".join(map(repr, missing[:_KEYS_SHOWN]))
    more = ", ..." if len(missing) > _KEYS_SHOWN else ""
    if len(missing) < len(asked):
        told = f"{len(missing)} of {len(asked)} keys were not found: {shown}{more}"
    else:
        told = f"0 of {len(asked)} keys found: {shown}{more}{table.key_hint()}"
    print(told, file=sys.stderr)


def _keys(keys: list[str] | None, keys_from: Path | None) -> list[str]:
    found = given_keys(keys, keys_from)
    if not found:
        raise typer.BadParameter("give at least one KEY, or --keys-from FILE")
    return found


def given_keys(keys: list[str] | None, keys_from: Path | None) -> list[str]:
    """Return the keys of the command line, then those of a file.

    Raises:
        typer.BadParameter: the file cannot be read or has no keys, or a key is empty.
    """
    found = list(keys or ())
    if "" in found:
        raise typer.BadParameter("a KEY is empty, and Hudi stores no empty key; leave it out")
    if keys_from is not None:
        before = len(found)
        try:
            source = 0 if str(keys_from) == "-" else keys_from  # 0 is standard input
            with open(source, encoding="utf-8", closefd=source is keys_from) as lines:
                found += (line.removesuffix("\n") for line in lines)
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"--keys-from {keys_from}: {error}") from error
        if len(found) == before:
            raise typer.BadParameter(
                f"--keys-from {keys_from}: the file has no keys; give one a line"
            )
        if "" in found:
            raise typer.BadParameter(
                f"--keys-from {keys_from}: line {found.index('') - before + 1} is empty, and Hudi "
                "stores no empty key; remove the line"
            )
    return found
