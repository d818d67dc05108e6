"""A stream into a table, each batch once.

Spark repeats a batch after a crash, also one that was committed. A commit keeps the query's name
and the number of the batch, and the same again is not made a second time.
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
        uri: The table, by where it is or open. On Connect it is sent to the server, with the
            options of its store.
        query: What names the query, the same for as long as its checkpoint is used and for no
            other query that writes to this table: give a new name with a new checkpoint.
        operation: What to do with the rows.
        options: See `bucketfmt.WriteArguments`.

    Raises:
        ValueError: no name, or an `idempotency_key`, which is made here.
    """
    if not query or "idempotency_key" in options:
        raise ValueError("batch_writer makes the idempotency key, of the query's name: give one")
    table = uri if isinstance(uri, bf.Table) else bf.open(uri)

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        options["idempotency_key"] = f"{query}/{batch_id}"
        write_table(rows, table, operation, **options)

    return write_batch
