"""The table's schema after a write: what Hudi lets incoming columns change.

Pure. Sources: AvroSchemaEvolutionUtils.reconcileSchema, SchemaChangeUtils.isTypeUpdateAllow,
HoodieSchemaUtils.deduceWriterSchema, SimpleSchemaConflictResolutionStrategy. Columns may be
added, at the end of their level and nullable, and types may widen as readers widen them
(`rows.conform`). Nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from bucketfmt.errors import ConflictError, SchemaError
from bucketfmt.rows.conform import conform
from bucketfmt.table.conflicts import ConcurrentOperation
from bucketfmt.table.written_files import CommitRecord

__all__ = ["plain_schema", "plan_schema", "settle_columns"]


def plan_schema(table: pa.Schema, incoming: pa.Schema, may_miss: Collection[str] = ()) -> pa.Schema:
    """Return the table's columns once these rows are written: `table` itself if nothing changes.

    Args:
        table: The user's columns of the table.
        incoming: The columns of the rows.
        may_miss: Columns that rows may leave out, and are null then.

    Raises:
        SchemaError: a column is missing, or of a type that cannot be reconciled.
    """
    missing = [f.name for f in table if f.name not in incoming.names and f.name not in may_miss]
    if missing:
        raise SchemaError(
            f"the rows lack the columns {', '.join(missing)}; give them, null where unknown"
        )
    fields = _reconcile(list(table), list(incoming), "")
    return table if fields == list(table) else pa.schema(fields)


def _reconcile(table: list[pa.Field], incoming: list[pa.Field], path: str) -> list[pa.Field]:
    by_name = {field.name: field for field in incoming}
    fields = []
    for field in table:
        other = by_name.pop(field.name, None)
        kind = field.type if other is None else _type(field.type, other.type, path + field.name)
        fields.append(field if kind == field.type else field.with_type(kind))
    known = {field.name.lower(): field.name for field in table}
    for name in by_name:
        if name.lower() in known:
            raise SchemaError(
                f"the new column {path}{name} differs from {known[name.lower()]} by case only, "
                "which Spark does not tell apart: rename it"
            )
    added = [pa.field(name, plain_type(field.type)) for name, field in by_name.items()]
    nothing = [field.name for field in added if pa.types.is_null(field.type)]
    if nothing:
        raise SchemaError(f"new column {path}{nothing[0]} is null everywhere: give it a type")
    return [*fields, *added]


def _type(table: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
    incoming = plain_type(incoming)
    if table == incoming or pa.types.is_null(incoming):
        return table
    if pa.types.is_struct(table) and pa.types.is_struct(incoming):
        return pa.struct(_reconcile(list(table), list(incoming), f"{path}."))
    if pa.types.is_list(table) and pa.types.is_list(incoming):
        element = _type(table.value_type, incoming.value_type, f"{path}.element")
        return pa.list_(table.value_field.with_type(element))
    if pa.types.is_map(table) and pa.types.is_map(incoming):
        value = _type(table.item_type, incoming.item_type, f"{path}.value")
        return pa.map_(table.key_type, table.item_field.with_type(value))
    if _becomes(incoming, table, path) or _is_other_timestamp(table, incoming):
        return table
    if _becomes(table, incoming, path):
        return incoming
    raise SchemaError(f"column {path} is {table} in the table, and {incoming} in the rows")


def _becomes(source: pa.DataType, target: pa.DataType, path: str) -> bool:
    """Return whether values of one type are read as another, whatever they are."""
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        digits = target.precision - target.scale >= source.precision - source.scale
        return bool(digits and target.scale >= source.scale)
    if pa.types.is_timestamp(source):
        return False
    try:
        conform(pa.schema([pa.field(path, source)]).empty_table(), pa.schema([(path, target)]))
    except SchemaError:
        return False
    return True


def _is_other_timestamp(table: pa.DataType, incoming: pa.DataType) -> bool:
    """Return whether both are timestamps with, or both without a zone; the unit is the table's."""
    both = pa.types.is_timestamp(table) and pa.types.is_timestamp(incoming)
    return both and (table.tz is None) == (incoming.tz is None)


_PLAIN = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns as a table would have them."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column of `kind` has once it is in a table."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        unit = {"s": "ms", "ns": "us"}.get(kind.unit, kind.unit)
        return pa.timestamp(unit, "UTC" if kind.tz else None)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        value = kind.item_field.with_type(plain_type(kind.item_type))
        return pa.map_(plain_type(kind.key_type), value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type), kind.value_field.nullable))
    return kind


def settle_columns(
    ours: ConcurrentOperation,
    known: CommitRecord | None,
    since: Iterable[ConcurrentOperation],
    *,
    is_change: bool,
) -> ConcurrentOperation | CommitRecord:
    """Return whose columns a write is to state, so that no column is lost to readers.

    These go by the write that was requested last, whenever it completed.

    Args:
        ours: The write.
        known: Who stated the columns that it stands on.
        since: Who completed since then.
        is_change: Whether the write changes the columns.

    Raises:
        ConflictError: others have changed them too, or would hide the change.
    """
    stating = [other for other in since if other.is_completed and other.schema]
    if not stating:
        return ours
    newest: ConcurrentOperation | CommitRecord = max(stating, key=lambda o: o.requested_time)
    if known is not None and known.requested_time > newest.requested_time:
        newest = known
    if not is_change:
        return ours if newest is known else newest
    before = None if known is None else known.schema
    if newest.schema not in (before, ours.schema) or any(
        other.requested_time > ours.requested_time and other.schema != ours.schema
        for other in stating
    ):
        raise ConflictError(
            "this write changes the table's columns, and others wrote meanwhile. Nothing was "
            "published; reload the table and retry"
        )
    return ours
