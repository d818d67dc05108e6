"""Checks that the columns of a parquet footer are as nested and nullable as its schema says.

Pure. A parquet footer has no checksum. pyarrow accepts a damaged repetition type, and then reads
the levels in a page as values. Mostly the levels that follow from such a byte contradict the Arrow
type that follows from it; `check_file_columns` finds the other cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from bucketfmt.errors import CorruptError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["check_levels"]


def check_levels(schema: pa.Schema, columns: pq.ParquetSchema) -> None:
    """Check the definition and repetition levels of each leaf column.

    Args:
        schema: The columns as pyarrow presents them.
        columns: The columns as they are stored.

    Raises:
        CorruptError: the levels and the types disagree.
    """
    expected = [levels for field in schema for levels in _levels(field, 0, 0)]
    if len(expected) != len(columns):
        raise CorruptError("parquet footer: fewer columns than its Arrow schema has")
    for number, levels in enumerate(expected):
        column = columns.column(number)
        if (column.max_definition_level, column.max_repetition_level) != levels:
            raise CorruptError(
                f"parquet footer: column {column.path!r} has levels that its type does not "
                "allow; restore the file"
            )


def _levels(field: pa.Field, definition: int, repetition: int) -> Iterator[tuple[int, int]]:
    """Yield the highest levels of each leaf of a field."""
    kind = field.type
    definition += field.nullable
    if not pa.types.is_nested(kind):
        yield definition, repetition
        return
    if pa.types.is_struct(kind):
        children = list(kind)
    else:
        definition, repetition = definition + 1, repetition + 1
        is_map = pa.types.is_map(kind)
        children = [kind.key_field, kind.item_field] if is_map else [kind.value_field]
    for child in children:
        yield from _levels(child, definition, repetition)
