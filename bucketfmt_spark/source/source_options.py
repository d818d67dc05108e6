"""The options of reading with `format("bucketfmt")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

import bucketfmt as bf
from bucketfmt_spark.engine.resolver import Resolver
from bucketfmt_spark.engine.spark_types import arrow_for_spark, spark_schema
from bucketfmt_spark.source.table_options import TableOptions

__all__ = ["SourceOptions"]

_KNOWN = (
    "columns",
    "as_of",
    "read_optimized",
    "meta_columns",
    "since",
    "until",
    "maxfilespertrigger",
    "maxbytespertrigger",
)


class SourceOptions(TableOptions):
    """The options of a reader, checked. Pickles.

    They are those of `TableOptions`; `columns` (names, with commas between); `as_of`;
    `read_optimized` and `meta_columns` (true or false); `since` and `until` for changes; for
    streams also `maxFilesPerTrigger` and `maxBytesPerTrigger`.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check options.

        Raises:
            ValueError: the path is missing, an option or its value is unknown, or two options
                contradict each other.
        """
        super().__init__(options, _KNOWN)
        self._options = dict(options)
        given = self.given
        names = given.get("columns")
        self.columns = None if names is None else [n.strip() for n in names.split(",")]
        self.meta_columns = self.is_true("meta_columns")
        self.read_optimized = self.is_true("read_optimized")
        self.since, self.until = given.get("since"), given.get("until")
        self.as_of = given.get("as_of")
        self.max_files = self._number("maxfilespertrigger")
        self.max_bytes = self._number("maxbytespertrigger")
        of_changes = self.since is not None or self.until is not None
        if of_changes and (self.as_of is not None or self.read_optimized):
            raise ValueError("since and until read changes; leave as_of and read_optimized out")

    def with_columns(self, schema: st.StructType) -> SourceOptions:
        """Return the options for the columns that a user's schema names.

        Raises:
            ValueError: the table has no such column, or the column has another type.
        """
        own = spark_schema(arrow_for_spark(self.scan().schema))
        if schema.names == own.names and _types(schema) == _types(own):
            return self
        for field in schema:
            if field.name not in own.names:
                raise ValueError(
                    f"the schema names a column {field.name}, and the table has "
                    f"{', '.join(own.names)}; leave .schema() out, or name columns of the table"
                )
            kind = own[field.name].dataType
            if kind.simpleString() != field.dataType.simpleString():
                raise ValueError(
                    f"the schema has {field.name} as {field.dataType.simpleString()}, and the "
                    f"table has {kind.simpleString()}; leave .schema() out, and cast the column"
                )
        return SourceOptions({**self._options, "columns": ",".join(schema.names)})

    def table_schema(self) -> pa.Schema:
        """Return the columns of the table."""
        return self.open().schema

    def scan(self, conditions: Sequence[tuple[str, str, Any]] = ()) -> bf.Scan:
        """Return the scan of these options."""
        table, row_filter = self.open(), list(conditions) or None
        columns = self.columns_of(table)
        if self.since is not None or self.until is not None:
            return table.changes(self.since, self.until, columns, row_filter, self.meta_columns)
        return table.scan(columns, row_filter, self.as_of, self.read_optimized, self.meta_columns)

    def columns_of(self, table: bf.Table) -> list[str] | None:
        """Return the wanted columns under the names that the table has for them.

        A data source does not know how the session takes letter case, so that a name in another
        case is taken for the only column that the name fits.
        """
        if self.columns is None:
            return None
        resolver = Resolver(table.schema)
        return [resolver.name(name) for name in self.columns]

    def _number(self, name: str) -> int | None:
        text = self.given.get(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"{name} is a positive number, not {text!r}")
        return int(text)


def _types(schema: st.StructType) -> list[str]:
    return [field.dataType.simpleString() for field in schema]
