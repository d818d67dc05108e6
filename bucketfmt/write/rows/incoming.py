"""Rows to write as they come: once, in batches of some size.

Reads the caller's stream, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bucketfmt.arguments import find_repeated
from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.meta_columns import META_COLUMNS
from bucketfmt.write.rows.data_like import DataLike, check_alike, open_rows, without_index

__all__ = ["IncomingRows", "written_columns"]

_CHUNK_BYTES = 8 << 20  # of rows to work on at a time; each thread has some


class IncomingRows:
    """Rows that come once, in batches.

    Attributes:
        schema: Their columns, without Hudi's own and an unnamed index of pandas.
    """

    def __init__(self, data: DataLike, *, alike: bool = False) -> None:
        """Begin to read.

        Args:
            data: The caller's rows.
            alike: Whether dicts that lack a column which others have are refused.

        Raises:
            TypeError: `data` is in no form that is known.
            SchemaError: two columns have one name; dicts are not alike.
        """
        self._reader = open_rows(data)
        if alike:
            check_alike(data)
        self.schema = written_columns(self._reader.schema)

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield all rows once, as tables of some size."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in self._reader:
            for piece in _pieces(batch.select(self.schema.names)):
                waiting.append(piece)
                size += piece.nbytes
                if size >= _CHUNK_BYTES:
                    yield pa.Table.from_batches(waiting, self.schema)
                    waiting, size = [], 0
        if waiting:
            yield pa.Table.from_batches(waiting, self.schema)


def written_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of rows that are written: without Hudi's own and an unnamed index.

    Raises:
        SchemaError: two columns have one name.
    """
    if repeated := find_repeated(schema.names):
        raise SchemaError(f"columns named twice: {', '.join(repeated)}")
    return pa.schema([f for f in without_index(schema) if f.name not in META_COLUMNS])


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    step = max(1, _CHUNK_BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)
