"""Text of base files that is not UTF-8: in which columns, and of which keys. T011.

Pure: rows come in batches, findings go out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bucketfmt.check.report import Finding
from bucketfmt.rows.columns.broken_text import find_broken_text
from bucketfmt.snapshot.data_files.files import DataFile

__all__ = ["TextTally"]

_KEYS_NAMED = 3


class TextTally:
    """The rows of one base file whose text is not UTF-8."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._keys: dict[str, None] = {}

    def add(self, rows: pa.Table, keys: pa.ChunkedArray | None) -> None:
        """Take a batch of rows, and their record keys where the table has keys."""
        for column, broken in find_broken_text(rows):
            self._counts[column] = self._counts.get(column, 0) + len(broken)
            if keys is not None:
                named = keys.take(broken[:_KEYS_NAMED]).cast(pa.binary()).to_pylist()
                self._keys |= {(key or b"").decode(errors="replace"): None for key in named}

    def findings(self, file: DataFile, partition_path: str) -> Iterator[Finding]:
        """Yield what was found of the base file."""
        if self._counts:
            named = ", ".join(repr(key[:80]) for key in list(self._keys)[:_KEYS_NAMED])
            yield Finding.of(
                "T011",
                ", ".join(f"column {name}: {count} rows" for name, count in self._counts.items())
                + (f"; keys such as {named}" if named else ""),
                partition=partition_path,
                paths=[file.path],
                instants=[file.name.instant],
            )
