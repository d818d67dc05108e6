"""Rows and keys as they come, sorted into their buckets.

Reads the caller's stream, and spills to temporary files through `GroupedRows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa

from bucketfmt.errors import SchemaError
from bucketfmt.rows.conform import conform
from bucketfmt.rows.meta_columns import RECORD_KEY
from bucketfmt.rows.virtual_keys import partition_paths, record_keys
from bucketfmt.table.keys import KeySet
from bucketfmt.table.streams import map_in_order
from bucketfmt.write.basis import Basis
from bucketfmt.write.grouping import BucketRef, GroupedRows, route_rows
from bucketfmt.write.schema_change import plain_schema

__all__ = ["gather_keys", "gather_rows"]


def gather_rows(
    basis: Basis, tables: Iterable[pa.Table], grouped: GroupedRows, workers: int
) -> None:
    """Bring all rows to the table's columns, and sort them into their buckets.

    Args:
        basis: What the write stands on.
        tables: The rows.
        grouped: Where they go.
        workers: Threads to use.

    Raises:
        SchemaError: a value has no place in the table.
        KeyEncodingError: a key that is null or empty, that rows of other values would have too,
            or on which Hudi never returns.
        UnsafePathError: a partition value that would lead out of the table.
    """
    for routed in map_in_order(partial(_route, basis), tables, workers):
        for group, own in routed:
            grouped.add(group, own)


def gather_keys(basis: Basis, keys: KeySet, grouped: GroupedRows) -> None:
    """Sort keys into their buckets.

    Raises:
        ValueError: they do not come with their partition paths.
        KeyEncodingError: a key on which Hudi never returns.
    """
    if keys.partition_paths is None:
        raise ValueError("keys to delete come with their partitions: give the partition columns")
    rows = pa.table({RECORD_KEY: keys.record_keys})
    for group, own in route_rows(rows, keys.record_keys, keys.partition_paths, basis.buckets):
        grouped.add(group, own)


def _route(basis: Basis, given: pa.Table) -> list[tuple[BucketRef, pa.Table]]:
    """Bring rows to the table's columns, and return those of each bucket."""
    config, target = basis.snapshot.state.config, basis.schema.data
    _check_sound(given)
    plain = plain_schema(given.schema)
    try:
        rows = given if given.schema.equals(plain) else given.cast(plain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(f"a value has no place in the table: {error}") from error
    rows = conform(rows, target)
    for field in target:
        if not field.nullable and rows.column(field.name).null_count:
            raise SchemaError(f"column {field.name}: null, where the table allows none")
    keys = record_keys(rows, config, basis.key_encoding)
    paths = partition_paths(rows, config)
    return list(route_rows(rows, keys, paths, basis.buckets))


def _check_sound(given: pa.Table) -> None:
    """Refuse text that is not UTF-8, and columns whose parts do not fit together.

    Arrow believes whoever made a column; others who read the table would not.
    """
    for name, column in zip(given.column_names, given.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:  # noqa: PERF203  (columns are few)
            raise SchemaError(f"column {name} is damaged: {error}") from error
