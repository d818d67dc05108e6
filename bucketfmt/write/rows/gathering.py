"""Rows and keys as they come, sorted by their routes: by what is written to one place.

Reads the caller's stream, and spills to temporary files through `GroupedRows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from bucketfmt.errors import SchemaError
from bucketfmt.format.names.paths import find_nested, nested_partition_error
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.location.routes import Route
from bucketfmt.rows.columns.column_types import find_wider_type
from bucketfmt.rows.columns.exact_cast import cast_exactly
from bucketfmt.rows.columns.hidden_nulls import fill_hidden_nulls
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import partition_paths, record_keys
from bucketfmt.snapshot.listing import is_partition
from bucketfmt.storage.streams import map_in_order
from bucketfmt.table.keys import KeySet
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.grouping import GroupedRows, route_rows

__all__ = ["gather_again", "gather_keys", "gather_rows"]

_FOLDER_BYTES_MAX = 255


def gather_rows(
    basis: Basis, tables: Iterable[pa.Table], grouped: GroupedRows, workers: int
) -> None:
    """Bring all rows to the table's columns, and sort them by their routes.

    Args:
        basis: What the write stands on.
        tables: The rows.
        grouped: Where they go.
        workers: Threads to use.

    Raises:
        SchemaError: a value has no place in the table, or a new partition lies within another.
        KeyEncodingError: a key that is null or empty, that rows of other values would have too,
            or on which Hudi never returns.
        UnsafePathError: a partition value that would lead out of the table.
    """
    for routed in map_in_order(partial(_route, basis), tables, workers):
        for route, own in routed:
            grouped.add(route, own)
    lister = basis.snapshot.state.lister
    for inner, outer in find_nested({route.partition_path for route in grouped.routes}):
        if not (is_partition(lister, inner) and is_partition(lister, outer)):  # as Hudi made them
            raise nested_partition_error(inner, outer)


def gather_keys(basis: Basis, keys: KeySet, grouped: GroupedRows) -> None:
    """Sort keys by their routes.

    Raises:
        ValueError: they do not come with their partition paths.
        KeyEncodingError: a key on which Hudi never returns.
    """
    if keys.partition_paths is None:
        raise ValueError("keys to delete come with their partitions: give the partition columns")
    rows = pa.table({RECORD_KEY: keys.record_keys})
    for route, own in route_rows(rows, keys.record_keys, keys.partition_paths, basis.locator):
        grouped.add(route, own)


def gather_again(basis: Basis, before: GroupedRows, grouped: GroupedRows) -> None:
    """Sort rows, or keys, by the routes of another basis: after the buckets were changed.

    Args:
        basis: What the write stands on now, with the columns of the basis before.
        before: The rows by the routes of that basis.
        grouped: Where they go.

    Raises:
        KeyEncodingError: a key on which Hudi never returns.
    """
    config = basis.snapshot.state.config
    for route in before.routes:
        rows = before.rows([route])
        if RECORD_KEY in rows.column_names:
            keys = rows.column(RECORD_KEY)
            paths = _in_all(rows, route.partition_path)
            routed = route_rows(rows, keys, paths, basis.locator)
        else:
            # The route may be of an index whose keys are of the whole table: the rows tell.
            routed = _route_rows(basis, rows, partition_paths(rows, config))
        for again, own in routed:
            grouped.add(again, own)


def _route(basis: Basis, given: pa.Table) -> list[tuple[Route, pa.Table]]:
    """Bring rows to the table's columns, and return the rows of each route."""
    config = basis.snapshot.state.config
    _check_sound(given)
    fields = [field for field in basis.schema.data if field.name not in basis.kept]
    rows = pa.table([_column(given, field) for field in fields], schema=pa.schema(fields))
    paths = partition_paths(rows, config)
    _check_lengths(paths, config)
    return list(_route_rows(basis, rows, paths))


def _route_rows(
    basis: Basis, rows: pa.Table, paths: pa.ChunkedArray
) -> Iterator[tuple[Route, pa.Table]]:
    """Yield the rows of each route; `paths` are the partitions that they name."""
    keys = record_keys(rows, basis.snapshot.state.config, basis.key_encoding)
    if basis.locator.late is not None and basis.locator.late.has_global_keys:
        # Rows of one key are to come together, whichever partitions they name.
        paths = _in_all(rows, "")
    return route_rows(rows, keys, paths, basis.locator)


def _in_all(rows: pa.Table, partition_path: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(partition_path, pa.string()), rows.num_rows)])


def _check_lengths(paths: pa.ChunkedArray, config: TableConfig) -> None:
    """Refuse partition paths with names of folders that file systems do not take."""
    if not config.partition_fields:
        return
    for path in paths.unique().to_pylist():
        parts = path.split("/")
        for number, part in enumerate(parts):
            size = len(part.encode())
            if size <= _FOLDER_BYTES_MAX:
                continue
            fields = config.partition_fields
            field = fields[number] if len(parts) == len(fields) else ", ".join(fields)
            raise SchemaError(
                f"column {field}: the value {part[:40]!r}... makes a folder whose name has {size} "
                f"bytes, and file systems take {_FOLDER_BYTES_MAX}; shorten the value"
            )


def _column(given: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return the values of a column in the table's type; nulls if the rows lack the column."""
    index = given.schema.get_field_index(field.name)
    if index < 0:
        return pa.chunked_array([pa.nulls(given.num_rows, field.type)])
    column = given.column(index)
    if column.null_count and not field.nullable:
        raise SchemaError(f"column {field.name}: null, where the table allows none")
    try:
        chunks = [cast_exactly(chunk, field.type, field.name) for chunk in column.chunks]
    except SchemaError as error:
        wider = find_wider_type(field.type, column.type)
        if wider is not None:
            error.message += f", or pass evolve=True, which may make the column {wider}"
        raise
    chunks = [fill_hidden_nulls(chunk, field.name) for chunk in chunks]
    return pa.chunked_array(chunks, field.type)


def _check_sound(given: pa.Table) -> None:
    """Refuse text that is not UTF-8, and columns whose parts do not fit together.

    Arrow believes whoever made a column; others who read the table would not.
    """
    for name, column in zip(given.column_names, given.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:  # noqa: PERF203  (columns are few)
            raise SchemaError(f"column {name} is damaged: {error}") from error
