"""The forms in which a caller gives a table: its URI, the table, or a scan of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.opening import open_table

__all__ = ["Side", "is_frame", "scan_of"]

Side: TypeAlias = "str | os.PathLike[str] | bf.Table | bf.Scan"
"""A URI, a `bucketfmt.Table`, or a `bucketfmt.Scan` with its columns, filter and instant."""


def is_frame(side: Any) -> bool:
    """Return whether a side is a DataFrame, of a classic session or of Spark Connect."""
    return hasattr(side, "mapInArrow")


def scan_of(
    spark: SparkSession,
    side: Any,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
) -> bf.Scan:
    """Return the scan of a side: the given scan, or one of all rows and columns of the table.

    The options are those of a URI; a table or a scan among several sides has its own.

    Raises:
        TypeError: the side is not a URI, a table or a scan.
    """
    if isinstance(side, bf.Scan):
        return side
    if isinstance(side, bf.Table):
        return side.scan()
    if isinstance(side, str | os.PathLike):
        return open_table(spark, side, storage_options, index).scan()
    raise TypeError(
        "a table is given by its URI, as a bucketfmt.Table or as a bucketfmt.Scan, not as "
        f"{type(side).__name__}"
    )
