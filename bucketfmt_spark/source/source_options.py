"""The options of reading with `format("bucketfmt")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import bucketfmt as bf
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

    def table_schema(self) -> pa.Schema:
        """Return the columns of the table."""
        return self.open().schema

    def scan(self, conditions: Sequence[tuple[str, str, Any]] = ()) -> bf.Scan:
        """Return the scan of these options."""
        table, row_filter = self.open(), list(conditions) or None
        if self.since is not None or self.until is not None:
            return table.changes(
                self.since, self.until, self.columns, row_filter, self.meta_columns
            )
        return table.scan(
            self.columns, row_filter, self.as_of, self.read_optimized, self.meta_columns
        )

    def _number(self, name: str) -> int | None:
        text = self.given.get(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"{name} is a positive number, not {text!r}")
        return int(text)
