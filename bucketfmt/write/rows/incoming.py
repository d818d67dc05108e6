"""What a caller gives to write: rows from anything with an Arrow C stream.

Reads the caller's stream, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from bucketfmt.arguments import find_repeated
from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.meta_columns import META_COLUMNS

__all__ = [
    "DataLike",
    "IncomingRows",
    "open_rows",
    "open_schema",
    "without_index",
    "written_columns",
]

DataLike = Any
"""A pyarrow Table, RecordBatch or RecordBatchReader, anything with an Arrow C stream, or a list of
dicts."""

_UNNAMED = re.compile(r"__index_level_\d+__")
_CHUNK_BYTES = 8 << 20  # of rows to work on at a time; each thread has some


class IncomingRows:
    """Rows that come once, in batches.

    Attributes:
        schema: Their columns, without Hudi's own and an unnamed index of pandas.
    """

    def __init__(self, data: DataLike) -> None:
        """Begin to read.

        Raises:
            TypeError: `data` is in no form that is known.
            SchemaError: two columns have one name.
        """
        self._reader = open_rows(data)
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


def open_rows(data: DataLike) -> pa.RecordBatchReader:
    """Return the rows as a stream.

    Raises:
        TypeError: `data` is in no form that is known.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__dataframe__"):  # of pandas before release 2.2
        return pa.Table.from_pandas(data).to_reader()
    if isinstance(data, (list, tuple)) and all(isinstance(row, Mapping) for row in data):
        return _rows_of_dicts(data)
    raise TypeError(
        f"rows come as a pyarrow Table, a RecordBatchReader, anything with an Arrow C stream "
        f"(polars, pandas, duckdb) or a list of dicts, not as {type(data).__name__}"
    )


def written_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of rows that are written: without Hudi's own and an unnamed index.

    Raises:
        SchemaError: two columns have one name.
    """
    if repeated := find_repeated(schema.names):
        raise SchemaError(f"columns named twice: {', '.join(repeated)}")
    return pa.schema([f for f in without_index(schema) if f.name not in META_COLUMNS])


def without_index(schema: pa.Schema) -> pa.Schema:
    """Return the columns without those that pandas makes of an index which nobody named.

    A data frame that was filtered has such an index: the numbers of the rows.
    """
    told: object = None
    with suppress(ValueError, TypeError, KeyError):  # metadata that pandas did not write
        told = schema.pandas_metadata["index_columns"]
    if not isinstance(told, list):
        return schema
    unnamed = {name for name in told if isinstance(name, str) and _UNNAMED.fullmatch(name)}
    return pa.schema([field for field in schema if field.name not in unnamed], schema.metadata)


def open_schema(given: object) -> pa.Schema:
    """Return the columns of a schema, or of rows as `open_rows` takes them; reads no rows.

    Raises:
        TypeError: `given` has no columns.
    """
    return without_index(_schema_of(given))


def _schema_of(given: object) -> pa.Schema:
    if isinstance(given, pa.Schema):
        return given
    if hasattr(given, "schema") and isinstance(given.schema, pa.Schema):
        return given.schema
    if hasattr(given, "__arrow_c_schema__"):
        return pa.schema(given)
    try:
        return open_rows(given).schema
    except (TypeError, AttributeError):  # a class of rows has their methods
        kind = type(given).__name__
        raise TypeError(
            f"schema is a pyarrow Schema, or rows such as a DataFrame, not {kind}"
        ) from None


_NULLS = ("NaTType", "NAType")  # of pandas


def _rows_of_dicts(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatchReader:
    """Return rows of dicts; a column that a row lacks is null, and comes where it first appears."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: _column_of(name, [row.get(name) for row in rows]) for name in names}
    return pa.table(columns).to_reader()


def _column_of(name: str, values: list[Any]) -> pa.Array:
    values = [None if type(value).__name__ in _NULLS else value for value in values]
    if any(getattr(value, "nanosecond", 0) for value in values):
        raise SchemaError(
            f"column {name!r} has nanoseconds, which a table does not keep: round them"
        )
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(
            f"column {name!r} has values of several types, or a map: {error}. Give a pyarrow "
            "Table, whose columns have types"
        ) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise TypeError(f"column {name!r} has a value of no Arrow type: {error}") from error


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    step = max(1, _CHUNK_BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)
