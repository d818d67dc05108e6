"""Opens the tables of verbs: by a URI, with the store's options, or as an open table.

Where no options of the store are given, the session's Hadoop settings say how stores are reached,
as for Spark's own sources. Credentials of these settings are not sent with functions of tasks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_kind, check_session
from bucketfmt_spark.engine.credentials import setting_of

__all__ = ["TableOrUri", "check_table", "find_storage_options", "open_table"]

TableOrUri: TypeAlias = "str | os.PathLike[str] | bf.Table"
"""A URI, or a `bucketfmt.Table`, which has its options."""

_S3 = {"access.key": "key", "secret.key": "secret", "session.token": "token"}


def open_table(
    spark: SparkSession,
    table: TableOrUri,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
) -> bf.Table:
    """Return the table that a caller names.

    Args:
        spark: The session, whose Hadoop settings have the credentials if `storage_options` is not
            given: `spark.hadoop.fs.s3a.access.key` and the like.
        table: The URI of the table, or the table.
        storage_options: As in `bucketfmt.open`.
        index: As in `bucketfmt.open`.
        writer: As in `bucketfmt.open`.

    Raises:
        TypeError: the session is none; the table is neither a URI nor a `bucketfmt.Table`; or
            options are given with an open table.
        TableNotFoundError: there is no table at the URI.
    """
    check_session(spark)
    check_table("uri", table)
    if isinstance(table, bf.Table):
        given = {"storage_options": storage_options, "index": index, "writer": writer}
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise TypeError(
                f"{wrong[0]}= is given with an open table; give {wrong[0]}= to bucketfmt.open, or "
                "give the URI of the table here"
            )
        return table
    if storage_options is None:
        storage_options = find_storage_options(os.fspath(table), setting_of(spark))
    return bf.open(table, storage_options, index, writer=writer)


def check_table(name: str, value: Any) -> None:
    """Refuse what names no table.

    Raises:
        TypeError: it is neither a URI nor a `bucketfmt.Table`.
    """
    kinds = (str, os.PathLike, bf.Table)
    check_kind(name, value, kinds, "the URI of a table, or a bucketfmt.Table")


def find_storage_options(uri: str, setting: Callable[[str], str | None]) -> dict[str, Any]:
    """Return the options for fsspec that Hadoop's settings state for a URI. Pure.

    Args:
        uri: The URI of the table.
        setting: Returns a setting of Hadoop by its name, such as `fs.s3a.access.key`; None if it is
            not set.
    """
    scheme, _, rest = uri.partition("://")
    host = rest.partition("/")[0]
    found: dict[str, Any] = {}
    if scheme in ("s3", "s3a"):

        def of_s3(name: str) -> str | None:  # the bucket's own setting counts
            return setting(f"fs.s3a.bucket.{host}.{name}") or setting(f"fs.s3a.{name}")

        for name, option in _S3.items():
            if value := of_s3(name):
                found[option] = value
        if endpoint := of_s3("endpoint"):
            is_plain = (of_s3("connection.ssl.enabled") or "true").strip().lower() == "false"
            scheme = "http" if is_plain else "https"
            found["endpoint_url"] = str(endpoint) if "://" in endpoint else f"{scheme}://{endpoint}"
        if region := of_s3("endpoint.region"):
            found["client_kwargs"] = {"region_name": str(region)}
    elif scheme in ("abfs", "abfss"):
        account = host.rpartition("@")[2].partition(".")[0]
        key = setting(f"fs.azure.account.key.{account}.dfs.core.windows.net")
        if account and key:
            found = {"account_name": account, "account_key": key}
    elif scheme in ("gs", "gcs") and (file := setting("fs.gs.auth.service.account.json.keyfile")):
        found = {"token": str(file)}
    return found
