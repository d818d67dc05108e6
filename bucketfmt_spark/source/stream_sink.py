"""Writes the batches of a stream to a table, each batch once.

Spark repeats a batch after a crash, even if the batch was committed. A commit records the query's
name and the number of the batch, and a batch that is recorded is not written again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

import bucketfmt as bf
from bucketfmt_spark.writing import Operation, write_table

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["batch_writer"]


def batch_writer(
    uri: str | os.PathLike[str] | bf.Table,
    query: str,
    operation: Operation = "upsert",
    **options: Unpack[bf.WriteArguments],
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each batch of a query exactly once.

    >>> stream.writeStream.foreachBatch(bs.batch_writer(uri, "orders")).option(  # doctest: +SKIP
    ...     "checkpointLocation", "s3://lake/checkpoints/orders"
    ... ).start()

    Args:
        uri: The URI of the table, or the table. On Connect the table is sent to the server, with
            the options of its store.
        query: The name of the query. It stays the same as long as the checkpoint is used, and no
            other query that writes to this table has it: give a new name with a new checkpoint.
        operation: What to do with the rows.
        options: See `bucketfmt.WriteArguments`.

    Raises:
        ValueError: the name is empty, or `idempotency_key` is given, which is made here.
    """
    if not query or "idempotency_key" in options:
        raise ValueError(
            "batch_writer makes the idempotency key from query=; give a name there, and no key"
        )
    table = uri if isinstance(uri, bf.Table) else bf.open(uri)

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        options["idempotency_key"] = f"{query}/{batch_id}"
        write_table(rows, table, operation, **options)

    return write_batch
