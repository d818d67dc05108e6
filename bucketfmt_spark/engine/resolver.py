"""How a session of Spark resolves names and times. Pure, but for `of`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

__all__ = ["Resolver"]


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
            str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true",
            str(spark.conf.get("spark.sql.session.timeZone", "UTC")),
        )

    def name(self, given: str) -> str:
        """Return the column's name as the table has it; the given name if there is no column."""
        if given in self.schema.names or self.is_case_sensitive:
            return given
        found = [name for name in self.schema.names if name.lower() == given.lower()]
        return found[0] if len(found) == 1 else given
