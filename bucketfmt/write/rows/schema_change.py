"""The table's columns after a write: what incoming columns change, with the caller's consent.

Pure. Columns are added at the end of their level, and may be null; a type gives way to a wider
one that holds every stored value (`rows.column_types.find_wider_type`). Of what Hudi allows
(AvroSchemaEvolutionUtils.reconcileSchema, SchemaChangeUtils.isTypeUpdateAllow) the rest changes
stored values, and is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa

from bucketfmt.choices import Missing
from bucketfmt.errors import ConflictError, SchemaError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.columns.column_types import column_type, find_wider_type, is_list
from bucketfmt.rows.columns.exact_cast import check_castable
from bucketfmt.rows.columns.meta_columns import check_own_column
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.write.conflicts.find_conflicts import ConcurrentOperation

__all__ = [
    "GivenColumns",
    "SchemaChange",
    "find_rescaled",
    "plan_columns",
    "plan_schema",
    "settle_columns",
]


@dataclass(frozen=True)
class GivenColumns:
    """The columns of rows to write, and what they may do to the table's.

    Attributes:
        schema: The columns, without Hudi's own.
        evolve: Whether they may add columns and widen types.
        missing: What becomes of columns that the rows lack. `error`: the rows are refused.
            `null`: they are null. `keep`: rows of known keys keep the stored values, and those of
            new keys have null.
    """

    schema: pa.Schema
    evolve: bool = False
    missing: Missing = "error"


@dataclass(frozen=True)
class SchemaChange:
    """The table's columns after a write.

    Attributes:
        schema: The columns; the same object as before if nothing changes.
        changes: What is new, one text for each column that was added or widened.
        missing: The columns that the rows lack.
    """

    schema: pa.Schema
    changes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def plan_columns(table: pa.Schema, given: GivenColumns, config: TableConfig) -> SchemaChange:
    """Return the columns of a table once rows are written, as `plan_schema` with its properties."""
    own = (*config.record_key_fields, *config.partition_fields, *config.ordering_fields)
    return plan_schema(table, given, own, config.table_version)


def plan_schema(
    table: pa.Schema, given: GivenColumns, own: Collection[str] = (), table_version: int = 9
) -> SchemaChange:
    """Return the table's columns once these rows are written.

    Args:
        table: The user's columns of the table.
        given: The columns of the rows.
        own: The columns that make keys, partitions and the order of rows: they keep their types,
            and no row lacks them.
        table_version: Of the table.

    Raises:
        SchemaError: a column is new or missing, without consent, or of a type that has no value
            equal to any of the table's.
        UnsupportedError: a new column of a type that a table cannot hold.
    """
    plan = _Plan(given, own, table_version)
    fields = plan.level(list(table), list(given.schema), "")
    plan.check_new()
    names = set(given.schema.names)
    missing = tuple(field.name for field in table if field.name not in names)
    plan.check_missing(missing, table)
    if not plan.changes:
        return SchemaChange(table, (), missing)
    return SchemaChange(pa.schema(fields), tuple(plan.changes), missing)


def find_rescaled(before: pa.Schema, after: pa.Schema) -> str | None:
    """Return a decimal that has another type after a change, in words; None if there is none.

    Hudi reads a log block of Avro rows by the table's columns, and Avro knows a decimal by its
    bytes alone: 5.25 that was logged with two digits behind the point is 0.525 with three.
    """
    return _find_rescaled(pa.struct(list(before)), pa.struct(list(after)), "")


def _find_rescaled(before: pa.DataType, after: pa.DataType, path: str) -> str | None:
    if pa.types.is_decimal(before) and pa.types.is_decimal(after) and before != after:
        return f"{path}: {before} became {after}"
    inner: list[tuple[pa.DataType, pa.DataType, str]] = []
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        shared = [(field, after.get_field_index(field.name)) for field in before]
        inner = [(f.type, after.field(n).type, f.name) for f, n in shared if n >= 0]
    elif pa.types.is_map(before) and pa.types.is_map(after):
        inner = [(before.item_type, after.item_type, "value")]
    elif is_list(before) and is_list(after):
        inner = [(before.value_type, after.value_type, "element")]
    found = (
        _find_rescaled(old, new, f"{path}.{name}" if path else name) for old, new, name in inner
    )
    return next(filter(None, found), None)


class _Plan:
    """What one comparison of columns has found so far."""

    def __init__(self, given: GivenColumns, own: Collection[str], table_version: int) -> None:
        self._given = given
        self._own = own
        self._table_version = table_version
        self.changes: list[str] = []
        self._new: list[str] = []
        self._lacking: list[str] = []  # fields within columns

    def level(self, table: list[pa.Field], incoming: list[pa.Field], path: str) -> list[pa.Field]:
        """Return the fields of one level, in the table's order, and behind them what is new."""
        by_name = {field.name: field for field in incoming}
        fields = []
        for field in table:
            other = by_name.pop(field.name, None)
            inner = path + field.name
            if other is None:
                if path:
                    self._lacking.append(inner)
                    self._check_nullable(field, inner)
                fields.append(field)
                continue
            kind = self._type(field.type, other.type, inner)
            fields.append(field if kind == field.type else field.with_type(kind))
        known = {field.name.lower(): field.name for field in table}
        for field in by_name.values():
            if field.name.lower() in known:
                raise SchemaError(
                    f"the new column {path}{field.name} differs from {known[field.name.lower()]} "
                    "by case only, which Spark does not tell apart: rename it"
                )
            fields.append(self._added(field, path, [other.name for other in table]))
        return fields

    def check_new(self) -> None:
        """Raise if there are columns to add and no consent to it."""
        if self._new and not self._given.evolve:
            raise SchemaError(
                f"the table lacks columns that the rows have: {', '.join(self._new)}; rename or "
                "drop them, or pass evolve=True to add them"
            )

    def check_missing(self, missing: Collection[str], table: pa.Schema) -> None:
        """Raise if columns are missing that may not be."""
        how = self._given.missing
        lacking = [*missing, *self._lacking]
        own = [n for n in lacking if any(o == n or o.startswith(f"{n}.") for o in self._own)]
        if own and how != "error":
            raise SchemaError(
                f"the rows lack the columns {', '.join(own)}, which make keys, partitions or the "
                "order of rows; give them"
            )
        if lacking and how == "error":
            others = '; or pass missing="null" for null, or missing="keep" for the stored values'
            raise SchemaError(
                f"the rows lack the columns {', '.join(lacking)}; give them{'' if own else others}"
            )
        if self._lacking and how == "keep":
            raise SchemaError(
                f"the rows lack {', '.join(self._lacking)}, and only whole columns are kept; give "
                "these fields, or leave out the columns they are in"
            )
        for name in missing if how == "null" else ():
            self._check_nullable(table.field(name), name)

    def _check_nullable(self, field: pa.Field, path: str) -> None:
        if not field.nullable and self._given.missing == "null":
            raise SchemaError(f"the rows lack the column {path}, which is never null; give it")

    def _added(self, field: pa.Field, path: str, known: list[str]) -> pa.Field:
        inner = path + field.name
        kind = column_type(field.type, inner, inner.count("."), self._table_version)
        if not path:
            check_own_column(field.name, kind)
        near = get_close_matches(field.name, known, n=1)
        self._new.append(f"{inner} (is it {path}{near[0]}?)" if near else inner)
        self.changes.append(f"{inner}: added, {kind}")
        return pa.field(field.name, kind)

    def _type(self, table: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
        while pa.types.is_dictionary(incoming) or pa.types.is_run_end_encoded(incoming):
            incoming = incoming.value_type
        if pa.types.is_struct(table) and pa.types.is_struct(incoming):
            return pa.struct(self.level(list(table), list(incoming), f"{path}."))
        if pa.types.is_list(table) and is_list(incoming):
            element = self._type(table.value_type, incoming.value_type, f"{path}.element")
            return pa.list_(table.value_field.with_type(element))
        if pa.types.is_map(table) and pa.types.is_map(incoming):
            check_castable(incoming.key_type, table.key_type, f"{path}.key")
            value = self._type(table.item_type, incoming.item_type, f"{path}.value")
            return pa.map_(table.key_type, table.item_field.with_type(value))
        wider = find_wider_type(table, incoming) if self._given.evolve else None
        if wider is not None and path not in self._own:
            self.changes.append(f"{path}: {table} became {wider}")
            return wider
        check_castable(incoming, table, path)
        return table


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
        ConflictError: others have changed them too, or would hide the change; or rows were written
            with a decimal that has another type now.
    """
    stating = [other for other in since if other.is_completed and other.schema]
    if not stating:
        return ours
    for other in stating:
        if other.schema != ours.schema and _is_rescaled(other.schema, ours.schema):
            raise ConflictError(
                "another write, meanwhile, has a decimal column of another type, and Hudi reads "
                "logged rows of one type as other values of the other type. Nothing was published; "
                "reload the table and retry"
            )
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


def _is_rescaled(one: str | None, other: str | None) -> bool:
    if not one or not other:
        return False
    schemas = [arrow_schema(parse_avro_schema(text)) for text in (one, other)]
    return find_rescaled(*schemas) is not None
