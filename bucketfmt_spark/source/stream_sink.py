"""Writes the batches of a stream to a table, each batch once.

Spark repeats a batch after a crash, even if the batch was committed. A commit records the query's
name and the number of the batch, and a batch that is recorded is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from pyspark.sql import DataFrame

import bucketfmt as bf
from bucketfmt.choices import StartedOperation
from bucketfmt_spark.engine.arguments import check_choice, check_frame, check_text
from bucketfmt_spark.engine.opening import TableOrUri, check_table, open_table
from bucketfmt_spark.writing import write_table

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["batch_writer"]


def batch_writer(
    uri: TableOrUri,
    query: str,
    operation: StartedOperation = "upsert",
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
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
        storage_options: As in `bucketfmt.open`, for a table that is given by its URI.
        index: As in `bucketfmt.open`, likewise.
        writer: As in `bucketfmt.open`, likewise.
        options: See `bucketfmt.WriteArguments`.

    Raises:
        ValueError: the name is empty, or `idempotency_key` is given, which is made here.
    """
    check_table("uri", uri)
    check_text("query", query, "the name of the query")
    check_choice("operation", operation, get_args(StartedOperation))
    if "idempotency_key" in options:
        raise ValueError("batch_writer makes the idempotency_key from query=; leave it out")
    opened: list[bf.Table] = []

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        check_frame("rows", rows)
        if not opened:
            opened.append(open_table(rows.sparkSession, uri, storage_options, index, writer))
        options["idempotency_key"] = f"{query}/{batch_id}"
        write_table(rows, opened[0], operation, **options)

    return write_batch
