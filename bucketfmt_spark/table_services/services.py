"""Services that list, move and delete files on the driver; and `maintain`, which also compacts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import bucketfmt as bf
from bucketfmt.choices import CleanPolicy, TableType
from bucketfmt_spark.engine.arguments import check_kind, check_session, check_text
from bucketfmt_spark.engine.credentials import setting_of
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.opening import TableOrUri, find_storage_options, open_table
from bucketfmt_spark.engine.resolver import Resolver
from bucketfmt_spark.engine.spark_types import arrow_of
from bucketfmt_spark.table_services.compaction import rewrite_on_executors

__all__ = [
    "archive",
    "clean",
    "create",
    "delete_savepoint",
    "maintain",
    "restore",
    "rollback",
    "savepoint",
]


def create(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    schema: st.StructType | pa.Schema | str,
    *,
    record_key: Sequence[str],
    index: bf.Index,
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    table_type: TableType = "COPY_ON_WRITE",
    table_version: int = 9,
    name: str | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.Table:
    """Create a table and return it. As `bucketfmt.create`, with a schema of Spark.

    >>> bs.create(spark, uri, df.schema, record_key=["id"],                     # doctest: +SKIP
    ...           index=bf.SimpleBucketIndex(16))

    Args:
        spark: The session, for its Hadoop settings and for schemas as text.
        uri: As in `bucketfmt.create`.
        schema: The columns: of a DataFrame, in Arrow's types, or as text, `id STRING, fare DOUBLE`.
        record_key: As in `bucketfmt.create`. Names of columns, those of an index among them, are
            resolved as the session resolves them.
        index: As in `bucketfmt.create`.
        partition_by: As in `bucketfmt.create`.
        ordering: As in `bucketfmt.create`.
        table_type: As in `bucketfmt.create`.
        table_version: As in `bucketfmt.create`.
        name: As in `bucketfmt.create`.
        properties: As in `bucketfmt.create`.
        storage_options: As in `bucketfmt.open`.
        writer: As in `bucketfmt.open`.

    Raises:
        ValueError, SchemaError, TypeError, UnsupportedError: as `bucketfmt.create`.
    """
    check_session(spark)
    check_kind("uri", uri, (str, os.PathLike), "the URI of the new table")
    kinds = (str, st.StructType, pa.Schema)
    check_kind("schema", schema, kinds, "df.schema, a schema of Arrow, or text such as 'id STRING'")
    if isinstance(schema, str):
        check_text("schema", schema, "columns such as 'id STRING, fare DOUBLE'")
        schema = spark.createDataFrame([], schema).schema
    columns = schema if isinstance(schema, pa.Schema) else arrow_of(schema)
    resolver = Resolver.of(spark, columns)
    if storage_options is None:
        storage_options = find_storage_options(os.fspath(uri), setting_of(spark))
    return bf.create(
        uri,
        schema=columns,
        record_key=resolver.names("record_key", record_key),
        partition_by=resolver.names("partition_by", partition_by),
        ordering=resolver.names("ordering", ordering),
        index=_with_named_fields(resolver, index),
        table_type=table_type,
        table_version=table_version,
        name=name,
        storage_options=storage_options,
        properties=properties,
        writer=writer,
    )


def _with_named_fields(resolver: Resolver, index: bf.Index) -> bf.Index:
    fields = getattr(index, "hash_fields", None)  # an index without buckets has none
    if fields is None:
        return index
    named = tuple(resolver.name(name) for name in fields)
    return replace(index, hash_fields=named)  # type: ignore[type-var]


def clean(
    spark: SparkSession,
    uri: TableOrUri,
    *,
    policy: CleanPolicy = "KEEP_LATEST_COMMITS",
    retain: int | None = None,
    dry_run: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.CleanResult:
    """Delete files that no reader of the retained commits needs. As `bucketfmt.Table.clean`."""
    table = open_table(spark, uri, storage_options, index, writer)
    return table.clean(policy=policy, retain=retain, dry_run=dry_run)


def archive(
    spark: SparkSession,
    uri: TableOrUri,
    *,
    min_commits: int = 20,
    max_commits: int = 30,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> list[str]:
    """Move the oldest instants to the archived timeline. As `bucketfmt.Table.archive`.

    Returns:
        The requested times of the instants.
    """
    table = open_table(spark, uri, storage_options, index, writer)
    moved = table.archive(min_commits=min_commits, max_commits=max_commits, dry_run=dry_run)
    return [instant.requested_time for instant in moved]


def maintain(
    spark: SparkSession,
    uri: TableOrUri,
    services: bf.Services | None = None,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.MaintainResult:
    """Compact on the executors, clean and archive as far as that is due.

    As `bucketfmt.Table.maintain`. Writes do so by themselves after a commit.
    """
    table = open_table(spark, uri, storage_options, index, writer)
    with typed_errors():
        return table.maintain(
            services, dry_run=dry_run, rewrite=partial(rewrite_on_executors, spark)
        )


def rollback(
    spark: SparkSession,
    uri: TableOrUri,
    instant: str,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.RollbackResult:
    """Take back the newest write, or a failed write. As `bucketfmt.Table.rollback`.

    Raises:
        TypeError: the instant is not text: a job does not take back what it does not name.
    """
    check_text("instant", instant, "the requested time of the write to take back")
    table = open_table(spark, uri, storage_options, index, writer)
    return table.rollback(instant, dry_run=dry_run)


def savepoint(
    spark: SparkSession,
    uri: TableOrUri,
    instant: str | None = None,
    *,
    user: str = "",
    comments: str = "",
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> str:
    """Keep the table as it was after a write, for `restore`. As `bucketfmt.Table.savepoint`."""
    table = open_table(spark, uri, storage_options, index, writer)
    return table.savepoint(instant, user=user, comments=comments, dry_run=dry_run)


def delete_savepoint(
    spark: SparkSession,
    uri: TableOrUri,
    instant: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> None:
    """Delete a savepoint. As `bucketfmt.Table.delete_savepoint`."""
    open_table(spark, uri, storage_options, index, writer).delete_savepoint(instant)


def restore(
    spark: SparkSession,
    uri: TableOrUri,
    savepoint: str,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.RestoreResult:
    """Take back every write after a savepoint. As `bucketfmt.Table.restore`."""
    table = open_table(spark, uri, storage_options, index, writer)
    return table.restore(savepoint, dry_run=dry_run)
