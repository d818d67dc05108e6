"""`delete`: deletes the rows that pass a filter, as one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt_spark.bucket_id import key_fields
from bucketfmt_spark.engine.named_jobs import (
    allowed_retries,
    options_of_try,
    repeat_on_conflict,
)
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.reading import read
from bucketfmt_spark.writing import write_table

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["delete"]


def delete(
    spark: SparkSession,
    uri: TableOrUri,
    filter: Any,  # noqa: A002  (as bucketfmt.Table.delete)
    *,
    num_tasks: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
    **options: Unpack[bf.WriteArguments],
) -> bf.CommitResult:
    """Delete the rows that pass a filter, on the executors.

    The filter is evaluated at one moment, and again if another writer wrote to the buckets of the
    rows before they were deleted. To delete keys, use `write(keys, uri, "delete")`.

    >>> bs.delete(spark, "s3://lake/trips", "city = 'sf' AND fare < 0")         # doctest: +SKIP

    Args:
        spark: The session.
        uri: The URI of the table, or the table.
        filter: As in `read`.
        num_tasks: As in `write`.
        storage_options: As in `bucketfmt.open`.
        index: As in `bucketfmt.open`.
        writer: As in `bucketfmt.open`.
        options: See `bucketfmt.WriteArguments`.

    Raises:
        ValueError: the filter is None.
        ExecutorError: executors have no bucketfmt, or another release.
        ConflictError: other writers wrote to the same buckets, in every try.
    """
    if filter is None:
        raise ValueError(
            'delete takes a filter; to delete all rows, use write(..., "insert_overwrite_table")'
        )
    table = open_table(spark, uri, storage_options, index, writer)
    retries = allowed_retries(options)

    def attempt() -> bf.CommitResult:
        given = options_of_try(options, table)
        keys = read(spark, table, key_fields(table), filter)
        return write_table(keys, table, "delete", num_tasks, **given)

    return repeat_on_conflict(f"a delete in {table.config.name}", retries, attempt)
