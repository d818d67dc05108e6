"""The `hash` command: the bucket of a key, without a table."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer

from bucketfmt.cli.options import Output, OutputOption
from bucketfmt.cli.render import print_json, print_table
from bucketfmt.format.keys.hashing import bucket_of_hash, java_list_hash, xxhash32
from bucketfmt.format.keys.record_keys import KeyDialect, extract_hash_values
from bucketfmt.limits import DEFAULT_LIMITS

__all__ = ["hash_keys"]

app = typer.Typer()


@app.command("hash")
def hash_keys(
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Record keys, as Hudi stores them.")
    ],
    buckets: Annotated[
        int,
        typer.Option(
            "--buckets",
            "-n",
            min=1,
            max=DEFAULT_LIMITS.num_buckets_max,
            help="Number of buckets of a simple bucket index.",
        ),
    ] = 256,
    field: Annotated[
        list[str] | None, typer.Option("--field", help="Hash field of a complex key; repeatable.")
    ] = None,
    dialect: Annotated[
        KeyDialect, typer.Option("--dialect", help="How the Hudi release reads a complex key.")
    ] = KeyDialect.INDEX_OF,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print the hash values, the bucket and the ring position of record keys."""
    rows = []
    for key in keys:
        values = extract_hash_values(key, field or [], dialect)
        text = "".join("null" if value is None else value for value in values)
        rows.append(
            {
                "record_key": key,
                "hash_values": values,
                "java_hash": java_list_hash(values),
                "bucket_id": bucket_of_hash(java_list_hash(values), buckets),
                "ring_hash": xxhash32(text.encode()) & 0x7FFFFFFF,
            }
        )
    if output is Output.JSON:
        print_json(rows)
    else:
        print_table(pa.Table.from_pylist(rows))
