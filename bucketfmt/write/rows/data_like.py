"""What a caller gives to write: rows from anything with an Arrow C stream, data frames, dicts.

Reads the caller's rows, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from bucketfmt.arguments import find_repeated
from bucketfmt.errors import SchemaError
from bucketfmt.rows.columns.python_values import check_unchanged, infer_table

__all__ = ["DataLike", "check_alike", "open_rows", "open_schema", "without_index"]

DataLike = Any
"""A pyarrow Table, RecordBatch or RecordBatchReader, anything with an Arrow C stream, or a list of
dicts."""

_UNNAMED = re.compile(r"__index_level_\d+__")
_OF_A_COLUMN = "; make a DataFrame of it: .to_frame()"
_NOT_CONVERTED = (pa.ArrowException, TypeError, ValueError, OverflowError)


def open_rows(data: DataLike) -> pa.RecordBatchReader:
    """Return the rows as a stream.

    Raises:
        TypeError: `data` is in no form that is known, or a column has no Arrow type in which all
            its values are equal to what was given.
        SchemaError: two columns have one name; a moment has nanoseconds.
    """
    reader = _find_reader(data)
    if reader is None:
        raise TypeError(
            "rows come as a pyarrow Table, a RecordBatchReader, anything with an Arrow C stream "
            f"(polars, pandas, duckdb) or a list of dicts, not as {_named(data)}"
        )
    return reader


def check_alike(data: DataLike) -> None:
    """Refuse dicts that lack a column which other dicts have. Rows that are no dicts are alike.

    Raises:
        SchemaError: the columns of dicts differ.
    """
    if not isinstance(data, (list, tuple)):
        return
    names = dict.fromkeys(name for row in data for name in row)
    for at, row in enumerate(data):
        if lacking := next((name for name in names if name not in row), None):
            raise SchemaError(
                f"row {at} lacks the column {lacking}, which other rows have; give the column in "
                "each row, or keep stored values with a write for each set of columns"
            )


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
    kinds = _kinds(given)
    if "polars.Schema" in kinds:
        _refuse_objects(given)
    # polars computes the columns of a LazyFrame where they are asked for, and warns of that
    if not isinstance(given, type) and "polars.LazyFrame" not in kinds:
        if isinstance(found := getattr(given, "schema", None), pa.Schema):
            return found
        if hasattr(given, "__arrow_c_schema__"):
            return _schema_of_columns(given)
    reader = _find_reader(given)
    if reader is None:
        raise TypeError(
            f"schema is a pyarrow Schema, or rows such as a DataFrame, not {_named(given)}"
        )
    return reader.schema


def _schema_of_columns(given: object) -> pa.Schema:
    try:
        return pa.schema(given)
    except pa.ArrowException as error:
        raise TypeError(
            f"this {type(given).__name__} has no columns, or some of no Arrow type: {error}; give "
            "a pyarrow Schema"
        ) from error


def _find_reader(data: DataLike) -> pa.RecordBatchReader | None:
    """Return the rows as a stream; None if these are no rows. Errors as of `open_rows`."""
    if isinstance(data, type):  # it has the methods of rows
        return None
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    kinds = _kinds(data)
    if "pandas.DataFrame" in kinds:
        return _rows_of_pandas(data)
    if "polars.DataFrame" in kinds:
        return _rows_of_polars(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _rows_of_stream(data)
    if hasattr(data, "__dataframe__") and hasattr(data, "iloc"):  # made as those of pandas
        return _rows_of_pandas(data)
    if isinstance(data, (list, tuple)) and all(isinstance(row, Mapping) for row in data):
        return infer_table(data).to_reader()
    return None


def _kinds(data: object) -> set[str]:
    """Return the classes of a value by package and name, without an import of the packages."""
    return {f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in type(data).__mro__}


def _named(given: object) -> str:
    """Return what a caller gave instead of rows, and how rows are made of it."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    name = type(given).__name__
    if "polars.LazyFrame" in _kinds(given):
        return f"{name}; run the query first: .collect()"
    if hasattr(given, "to_frame"):
        return f"{name}{_OF_A_COLUMN}"
    if isinstance(given, Mapping):
        return f"{name}; make a table of columns by pyarrow.table"
    if not isinstance(given, (list, tuple)):
        return name
    first = next(row for row in given if not isinstance(row, Mapping))
    way = ""
    if isinstance(first, pa.RecordBatch):
        way = "; make one table of them by pyarrow.Table.from_batches"
    elif isinstance(first, pa.Table):
        way = "; make one table of them by pyarrow.concat_tables"
    return f"{name} of {type(first).__name__}{way}"


def _rows_of_stream(data: DataLike) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException as error:
        way = _OF_A_COLUMN if hasattr(data, "to_frame") else "; give a pyarrow Table"
        raise TypeError(
            f"this {type(data).__name__} does not come as rows, or has columns of no Arrow type: "
            f"{error}{way}"
        ) from error


def _rows_of_polars(frame: DataLike) -> pa.RecordBatchReader:
    _refuse_objects(frame.schema)
    try:
        return pa.RecordBatchReader.from_stream(frame)
    except pa.ArrowException as error:
        unknown = (name for name in frame.columns if not _is_exported(frame.clear().select(name)))
        name = next(unknown, None)
        if name is None:
            raise
        raise TypeError(
            f"column {name!r} is {frame.schema[name]} in polars, of which Arrow has no type: "
            f"{error}; cast it, such as to Int64, Decimal or String"
        ) from error


def _is_exported(frame: DataLike) -> bool:
    try:
        pa.RecordBatchReader.from_stream(frame)
    except pa.ArrowException:
        return False
    return True


def _refuse_objects(schema: Any) -> None:
    """Refuse columns of polars that hold Python objects: what is exported are their addresses."""
    if objects := [name for name, kind in schema.items() if str(kind) == "Object"]:
        raise TypeError(
            "columns of Python objects (Object in polars) have no Arrow type: "
            f"{', '.join(objects)}; cast them in polars, or leave them out"
        )


def _rows_of_pandas(frame: DataLike) -> pa.RecordBatchReader:
    """Return rows of pandas, without an index that nobody named or that repeats a column."""
    names = [str(name) for name in frame.columns]
    if repeated := find_repeated(names):
        raise SchemaError(f"columns named twice: {', '.join(repeated)}")
    for name, kind in zip(names, frame.dtypes, strict=True):
        if str(kind).startswith("Sparse["):
            raise TypeError(
                f"column {name!r} is {kind}, of which Arrow has no type; make it dense: "
                ".sparse.to_dense()"
            )
    has_index = any(name is not None for name in frame.index.names)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=None if has_index else False)
    except _NOT_CONVERTED as error:
        for at, name in enumerate(names):
            if reason := _find_reason(frame.iloc[:, [at]]):
                raise TypeError(
                    f"column {name!r} ({frame.dtypes.iloc[at]} in pandas) has values of several "
                    f"types, or of no Arrow type: {reason}. Give its values one type, such as by "
                    ".astype(), or give a pyarrow Table, whose columns have types"
                ) from error
        raise TypeError(
            f"the index of the DataFrame has values of several types, or of no Arrow type: "
            f"{_reason(error)}. Leave it out by .reset_index(drop=True)"
        ) from error
    for at, name in enumerate(names):
        _check_objects(name, table.column(at), frame.dtypes.iloc[at], frame.iloc[:, at])
    for at, name in enumerate(frame.index.names):
        if name is not None and str(name) in table.column_names[len(names) :]:
            level = frame.index.get_level_values(at)
            _check_objects(str(name), table.column(str(name)), level.dtype, level)
        # As of `set_index("id", drop=False)`: such a level has no name in Arrow.
        level_name = f"__index_level_{at}__"
        is_known = str(name) in names and level_name in table.column_names[len(names) :]
        if is_known and not table.column(level_name).equals(table.column(str(name))):
            raise SchemaError(
                f"a column and the index are named {name!r}, and their values differ; leave the "
                "index out by .reset_index(drop=True), or rename one of them"
            )
    return table.to_reader()


def _check_objects(name: str, column: pa.ChunkedArray, kind: Any, values: Any) -> None:
    """Refuse Python values that the conversion changed. Values of other dtypes stay."""
    if str(kind) == "object":
        check_unchanged(name, column, values.tolist)
    elif str(kind) == "category" and str(kind.categories.dtype) == "object" and column.num_chunks:
        check_unchanged(name, column.chunk(0).dictionary, kind.categories.tolist)


def _find_reason(frame: DataLike) -> str | None:
    """Return why a DataFrame does not convert; None if it does."""
    try:
        pa.Table.from_pandas(frame, preserve_index=False)
    except _NOT_CONVERTED as error:
        return _reason(error)
    return None


def _reason(error: Exception) -> str:
    return str(error.args[0] if isinstance(error, pa.ArrowException) else error)  # then the column
