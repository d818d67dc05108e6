"""What reading a file slice needs to know of its table, as one value.

A value and not a `Snapshot`, which holds listings and commits of the whole table: this is what
is sent along where slices are read by other processes. Pure, but for the store that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from bucketfmt.format.table.internal_schema import InternalSchema
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.snapshot.schema import without_meta
from bucketfmt.storage.store import Store
from bucketfmt.timeline.timeline import Timeline

__all__ = ["ReadBasis"]

_SCHEMAS_KEPT = 64  # a table has few, and each of its files asks for one


@dataclass(frozen=True, eq=False)
class ReadBasis:
    """The facts that all file slices of a snapshot share.

    Attributes:
        store: The table's files.
        config: Its properties.
        limits: The bounds it was opened with.
        as_of: The snapshot's requested time; None for the newest.
        schema_texts: What the commits of the active timeline state as columns, by requested time.
        schema_history: Schemas with column ids, newest first.
        timeline: The active timeline, where it tells which log blocks are committed. None where
            names of log files do: from table version 8 on, on tables without resizes, whose writers
            name copies of their rows by the resize.
    """

    store: Store
    config: TableConfig
    limits: Limits
    as_of: str | None
    schema_texts: Mapping[str, str | None]
    schema_history: tuple[InternalSchema, ...]
    timeline: Timeline | None

    def stated_columns(self, requested_time: str) -> pa.Schema | None:
        """Return the user's columns as the commit of an instant states them.

        None where the active timeline has no such commit, or it states none.

        Raises:
            CorruptError: the stated schema does not parse.
        """
        text = self.schema_texts.get(requested_time)
        return _columns_of(text, self.limits) if text else None

    def is_block_committed(self, requested_time: str) -> bool:
        """Return whether log blocks of an instant count, in a log file that does."""
        return self.timeline is None or self.timeline.is_block_committed(requested_time)


@lru_cache(_SCHEMAS_KEPT)
def _columns_of(text: str, limits: Limits) -> pa.Schema:
    return without_meta(arrow_schema(parse_avro_schema(text, limits)))
