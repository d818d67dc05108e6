"""The options of `format("bucketfmt")`, read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import bucketfmt as bf

__all__ = ["SourceOptions"]

_STORAGE = "storage."
_KNOWN = {
    "path",
    "columns",
    "as_of",
    "read_optimized",
    "meta_columns",
    "since",
    "until",
    "maxfilespertrigger",
    "maxbytespertrigger",
}


class SourceOptions:
    """Options as text, checked. Pickles.

    `path`; `columns` (names, with commas between); `as_of`; `read_optimized` and `meta_columns`
    (true or false); `since` and `until` for changes; `storage.*`, handed to fsspec without the
    prefix; for streams also `maxFilesPerTrigger` and `maxBytesPerTrigger`.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Check options.

        Raises:
            ValueError: no path, an unknown option, one that contradicts another, or no such value.
        """
        given = {str(name).lower(): value for name, value in options.items()}
        unknown = sorted(n for n in given if n not in _KNOWN and not n.startswith(_STORAGE))
        if unknown:
            raise ValueError(f"bucketfmt knows no option {unknown[0]}: it has {', '.join(_KNOWN)}")
        if "path" not in given:
            raise ValueError('no path: give it as load("...") or as an option')
        self._given = given
        names = given.get("columns")
        self.columns = None if names is None else [n.strip() for n in names.split(",")]
        self.meta_columns = self._is_true("meta_columns")
        self.read_optimized = self._is_true("read_optimized")
        self.since, self.until = given.get("since"), given.get("until")
        self.as_of = given.get("as_of")
        self.max_files = self._number("maxfilespertrigger")
        self.max_bytes = self._number("maxbytespertrigger")
        of_changes = self.since is not None or self.until is not None
        if of_changes and (self.as_of is not None or self.read_optimized):
            raise ValueError("since and until ask for changes: leave as_of and read_optimized out")

    def open(self) -> bf.Table:
        """Open the table."""
        storage = {n[len(_STORAGE) :]: v for n, v in self._given.items() if n.startswith(_STORAGE)}
        return bf.open(self._given["path"], storage)

    def table_schema(self) -> pa.Schema:
        """Return all of the table's columns."""
        return self.open().schema

    def scan(self, conditions: Sequence[tuple[str, str, Any]] = ()) -> bf.Scan:
        """Return the scan that the options ask for."""
        table, row_filter = self.open(), list(conditions) or None
        if self.since is not None or self.until is not None:
            return table.changes(
                self.since, self.until, self.columns, row_filter, self.meta_columns
            )
        return table.scan(
            self.columns, row_filter, self.as_of, self.read_optimized, self.meta_columns
        )

    def _is_true(self, name: str) -> bool:
        text = self._given.get(name, "false").lower()
        if text not in ("true", "false"):
            raise ValueError(f"{name} is true or false, not {text!r}")
        return text == "true"

    def _number(self, name: str) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"{name} is a positive number, not {text!r}")
        return int(text)
