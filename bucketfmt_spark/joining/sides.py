"""The forms in which a caller gives a table: its URI, the table, or a scan of it."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import bucketfmt as bf

__all__ = ["Side", "is_frame", "scan_of"]

Side: TypeAlias = "str | os.PathLike[str] | bf.Table | bf.Scan"
"""A URI, a `bucketfmt.Table`, or a `bucketfmt.Scan` with its columns, filter and instant."""


def is_frame(side: Any) -> bool:
    """Return whether a side is a DataFrame, of a classic session or of Spark Connect."""
    return hasattr(side, "mapInArrow")


def scan_of(side: Any) -> bf.Scan:
    """Return the scan of a side: the given scan, or one of all rows and columns of the table.

    Raises:
        TypeError: the side is not a URI, a table or a scan.
    """
    if isinstance(side, bf.Scan):
        return side
    if isinstance(side, bf.Table):
        return side.scan()
    if isinstance(side, str | os.PathLike):
        return bf.open(side).scan()
    raise TypeError(
        "a table is given by its URI, as a bucketfmt.Table or as a bucketfmt.Scan, not as "
        f"{type(side).__name__}"
    )
