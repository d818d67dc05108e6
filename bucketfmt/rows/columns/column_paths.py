"""Finding a column by the path that a table's configuration writes for it. Pure."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["find_column", "top_column"]


def find_column(rows: pa.Table, path: str) -> pa.ChunkedArray | None:
    """Return the column at `path`, in which a dot may lead into a struct; None if there is none."""
    if path in rows.schema.names:
        return rows.column(path)
    first, *inner = path.split(".")
    if not inner or first not in rows.schema.names:
        return None
    try:
        return pc.struct_field(rows.column(first), inner)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError):
        return None


def top_column(names: Collection[str], path: str) -> str:
    """Return which of the columns holds what is at `path`; it is among `names` if any does."""
    return path if path in names else path.partition(".")[0]
