"""How a session of Spark resolves names and times. Pure, but for what takes a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import bucketfmt as bf
from bucketfmt_spark.engine.arguments import check_names

__all__ = ["META_COLUMNS", "Resolver", "is_case_sensitive", "matched_names", "named_as"]

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
    "_hoodie_operation",
)
"""Hudi's own columns, which a write leaves out of its rows."""


@dataclass(frozen=True)
class Resolver:
    """How a session resolves names and times.

    Attributes:
        schema: The columns of the table.
        is_case_sensitive: `spark.sql.caseSensitive`.
        time_zone: `spark.sql.session.timeZone`.
    """

    schema: pa.Schema
    is_case_sensitive: bool = False
    time_zone: str = "UTC"

    @classmethod
    def of(cls, spark: SparkSession, schema: pa.Schema) -> Resolver:
        """Return the resolver of a session for a table."""
        return cls(
            schema,
            is_case_sensitive(spark),
            str(spark.conf.get("spark.sql.session.timeZone", "UTC")),
        )

    def name(self, given: str) -> str:
        """Return the column's name as the table has it; the given name if there is no column."""
        return given if self.is_case_sensitive else _find_name(given, self.schema.names)

    def names(self, what: str, given: str | Sequence[str]) -> list[str]:
        """Return columns as the table names them; one name may come alone.

        Raises:
            TypeError: a name is no text; `what` is the argument.
        """
        return [self.name(name) for name in check_names(what, given)]

    def predicates(self, row_filter: Any) -> Any:
        """Return a filter of `bucketfmt.Table.scan` with the names of its predicates resolved."""
        if isinstance(row_filter, tuple) and len(row_filter) == 3:
            name, operator, value = row_filter
            return (self.name(name) if isinstance(name, str) else name, operator, value)
        if isinstance(row_filter, list):
            return [self.predicates(item) for item in row_filter]
        return row_filter


def named_as(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a DataFrame whose columns have the given names where the session takes them as equal.

    Args:
        df: The DataFrame; a stream will do.
        names: The columns of a table, to which Hudi's own columns are added. A column of the
            DataFrame that matches none of them, or several, stays as it is.

    Raises:
        SchemaError: the session takes the names of two columns of the DataFrame as equal.
    """
    own, is_exact = df.columns, is_case_sensitive(df.sparkSession)
    counts = Counter(own if is_exact else [name.lower() for name in own])
    repeated = [name for name in own if counts[name if is_exact else name.lower()] > 1]
    if repeated:
        raise bf.SchemaError(
            f"columns named twice: {', '.join(dict.fromkeys(repeated))}; rename one of them, or "
            "leave it out"
        )
    if is_exact:
        return df
    renamed = matched_names(own, names)
    return df if renamed == own else df.toDF(*renamed)


def matched_names(own: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return names as a table has them, whose columns are `names`, or as they are."""
    return [_find_name(name, [*names, *META_COLUMNS]) for name in own]


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether a session takes names that differ in case alone as different."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def _find_name(given: str, names: Sequence[str]) -> str:
    if given in names:
        return given
    found = [name for name in names if name.lower() == given.lower()]
    return found[0] if len(found) == 1 else given
