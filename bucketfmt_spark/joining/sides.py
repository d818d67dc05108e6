"""The forms in which a caller gives a table: its URI, the table, or a scan of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_kind, check_session
from bucketfmt_spark.engine.opening import open_table

__all__ = ["Side", "scan_of"]

Side: TypeAlias = "str | os.PathLike[str] | bf.Table | bf.Scan"
"""A URI, a `bucketfmt.Table`, or a `bucketfmt.Scan` with its columns, filter and instant."""


def scan_of(
    spark: SparkSession,
    name: str,
    side: Any,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> bf.Scan:
    """Return the scan of a side: the given scan, or one of all rows and columns of the table.

    The options are those of a URI; a table or a scan among several sides has its own. `name` is
    the argument.

    Raises:
        TypeError: the session is none, or the side is not a URI, a table or a scan.
    """
    check_session(spark)
    kinds = (str, os.PathLike, bf.Table, bf.Scan)
    check_kind(name, side, kinds, "the URI of a table, a bucketfmt.Table or a bucketfmt.Scan")
    if isinstance(side, bf.Scan):
        return side
    if isinstance(side, bf.Table):
        return side.scan()
    return open_table(spark, side, storage_options, index).scan()
