"""The schema of a table at a snapshot, and the names its columns had in older files.

Pure. Source: TableSchemaResolver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bucketfmt.arguments import did_you_mean
from bucketfmt.errors import BucketfmtError, CorruptError, SchemaError
from bucketfmt.format.table.internal_schema import InternalSchema, parse_internal_schema
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import SERVICE_OPERATIONS
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.columns.meta_columns import META_COLUMNS, OPERATION
from bucketfmt.rows.merging.merge_rules import MergeRules, find_log_rules
from bucketfmt.snapshot.data_files.written_files import CommitRecord

__all__ = [
    "META_COLUMNS",
    "TableSchema",
    "find_stated_schema",
    "find_stated_text",
    "find_stating_commit",
    "without_meta",
    "without_path_columns",
]


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table.

    Attributes:
        data: The user's columns, in table order.
        internal: The same with column ids, where the table keeps them; None where columns go
            by name.
        meta_columns: Hudi's own columns; none where keys are virtual
            (`hoodie.populate.meta.fields=false`).
        defaulted: The columns that have a default value other than null.
    """

    data: pa.Schema
    internal: InternalSchema | None = None
    meta_columns: tuple[str, ...] = META_COLUMNS
    defaulted: tuple[str, ...] = ()

    def merge_rules(self, config: TableConfig) -> MergeRules:
        """Return how records of these columns merge that logs hold.

        Raises:
            UnsupportedError: as `find_log_rules` and `MergeRules.check_columns`.
            CorruptError: as `find_log_rules`.
        """
        rules = find_log_rules(config)
        rules.check_columns(self.data, self.defaulted)
        return rules

    @property
    def with_meta(self) -> pa.Schema:
        """All of Hudi's own columns, then the user's: what rows are merged and filtered in."""
        names = dict.fromkeys((*META_COLUMNS, *self.meta_columns))
        meta = [pa.field(name, pa.string()) for name in names]
        return pa.schema([*meta, *self.data])

    def select(self, names: Iterable[str]) -> pa.Schema:
        """Return columns by name, in the order given.

        Raises:
            SchemaError: there is none of a name; the message names columns that are close.
        """
        schema, fields = self.with_meta, []
        for name in names:
            index = schema.get_field_index(name)
            if index < 0 or (name in META_COLUMNS and name not in self.meta_columns):
                known = [*self.data.names, *self.meta_columns]
                raise SchemaError(f"no column {name!r}; {did_you_mean(name, known)}")
            fields.append(schema.field(index))
        return pa.schema(fields)


def find_stated_schema(
    commits: Sequence[CommitRecord], config: TableConfig, limits: Limits
) -> TableSchema | None:
    """Return the schema that the newest commit or the table's creation states.

    None when neither states one: then only a data file can tell.

    Raises:
        CorruptError: the stated schema does not parse.
    """
    stated = find_stating_commit(commits)
    if stated is not None and stated.schema:
        text, origin = stated.schema, f"commit {stated.requested_time}"
    elif config.create_schema is not None:
        text, origin = config.create_schema, "hoodie.table.create.schema"
    else:
        return None
    latest_schema = None
    for commit in reversed(commits):
        latest_schema = latest_schema or commit.latest_schema
        if commit is stated:
            break
    try:
        record = parse_avro_schema(text, limits)
        schema = arrow_schema(record)
    except CorruptError as error:
        raise CorruptError(f"table schema of {origin}: {error.message}") from error
    except BucketfmtError as error:
        error.message = f"table schema of {origin}: {error.message}"
        raise
    internal = parse_internal_schema(latest_schema, limits) if latest_schema else None
    meta_columns = META_COLUMNS if config.populate_meta_fields else ()
    columns = _with_dropped(without_meta(schema), config)
    defaulted = (f.name for f in record.fields if f.has_default and f.default is not None)
    return TableSchema(columns, internal, meta_columns, tuple(defaulted))


def without_path_columns(schema: pa.Schema, config: TableConfig) -> pa.Schema:
    """Return the columns whose values files tell: statistics of the others mean nothing."""
    if not config.path_columns:
        return schema
    return pa.schema([field for field in schema if field.name not in config.path_columns])


def _with_dropped(schema: pa.Schema, config: TableConfig) -> pa.Schema:
    """Return the schema with the partition columns that a copy-on-write commit does not state.

    They are in no file, and their values are texts in partition paths. Source:
    TableSchemaResolver.appendPartitionColumns.
    """
    dropped = [name for name in config.path_columns if name not in schema.names]
    return pa.schema([*schema, *(pa.field(name, pa.string()) for name in dropped)])


def find_stated_text(commits: Sequence[CommitRecord], config: TableConfig) -> str | None:
    """Return the Avro JSON of the columns as it is stated; None if it has Hudi's own in it."""
    stated = find_stating_commit(commits)
    text = stated.schema if stated is not None else config.create_schema
    return None if text is None or f'"{META_COLUMNS[0]}"' in text else text


def find_stating_commit(commits: Sequence[CommitRecord]) -> CommitRecord | None:
    """Return the newest commit that states the table's columns."""
    for commit in reversed(commits):
        if commit.schema and commit.operation_type not in SERVICE_OPERATIONS:
            return commit
    return None


def without_meta(schema: pa.Schema) -> pa.Schema:
    """Return the schema without Hudi's own columns."""
    own = {*META_COLUMNS, OPERATION}
    return pa.schema([field for field in schema if field.name not in own])
