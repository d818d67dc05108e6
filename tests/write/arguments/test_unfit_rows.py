"""Rows that are none, or do not convert, are refused with what to do, as rows and as a schema."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bucketfmt as bf

SCHEMA = pa.schema({"id": pa.string(), "x": pa.int64()})
ROWS = pa.table({"id": ["a"], "x": [1]})

UNFIT: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "values of several types": (
        lambda: [{"id": "a", "x": 1}, {"id": "b", "x": "c"}],
        TypeError,
        "column 'x' has values of several types.*Give a pyarrow Table",
    ),
    "a value of no Arrow type": (
        lambda: [{"id": "a", "x": 1j}],
        TypeError,
        "column 'x' has .* a value of no Arrow type: .*1j.*Give a pyarrow Table",
    ),
    "a name that is no text": (
        lambda: [{"id": "a", 5: 1}],
        TypeError,
        "columns are named by text, not by 5",
    ),
    "a number beyond 64 bits": (
        lambda: [{"id": "a", "x": 2**70}],
        TypeError,
        "column 'x'.*give integers beyond 64 bits as Decimal or as text",
    ),
    "a sparse column": (
        lambda: pd.DataFrame({"id": ["a"], "x": pd.arrays.SparseArray([0])}),
        TypeError,
        r"column 'x' is Sparse\[int64, 0\].*make it dense: \.sparse\.to_dense\(\)",
    ),
    "values of several types in pandas": (
        lambda: pd.DataFrame({"id": ["a", "b"], "x": [1, "q"]}),
        TypeError,
        "column 'x' .object in pandas. has values of several types.*'q'.*one type, such as by",
    ),
    "complex numbers of pandas": (
        lambda: pd.DataFrame({"id": ["a"], "x": [1j]}),
        TypeError,
        "column 'x' .complex128 in pandas.*give a pyarrow Table",
    ),
    "a large number of pandas": (
        lambda: pd.DataFrame({"id": ["a"], "x": [2**70]}),
        TypeError,
        "column 'x' .object in pandas.*Python int too large",
    ),
    "a named index of several types": (
        lambda: pd.DataFrame({"id": ["a", "b"]}, index=pd.Index(["a", 1], name="x")),
        TypeError,
        "the index of the DataFrame has values of several types.*reset_index",
    ),
    "an index named as a column": (
        lambda: pd.DataFrame({"id": ["a"], "x": [1]}, index=pd.Index(["b"], name="id")),
        bf.SchemaError,
        r"a column and the index are named 'id', and their values differ.*reset_index",
    ),
    "columns named twice": (
        lambda: pd.DataFrame([["a", 1, 2]], columns=["id", "x", "x"]),
        bf.SchemaError,
        "columns named twice: x",
    ),
    "a Series of pandas": (lambda: pd.Series([1], name="id"), TypeError, r"Series.*\.to_frame\(\)"),
    "a Series of polars": (lambda: pl.Series("id", [1]), TypeError, r"Series.*\.to_frame\(\)"),
    "a type of polars": (
        lambda: pl.DataFrame({"id": ["a"], "x": pl.Series([1], dtype=pl.Int128)}),
        TypeError,
        "column 'x' is Int128 in polars.*cast it, such as to Int64",
    ),
    "a LazyFrame": (
        lambda: pl.LazyFrame({"id": ["a"], "x": [1]}),
        TypeError,
        r"LazyFrame; run the query first: \.collect\(\)",
    ),
    "a column": (lambda: pa.chunked_array([["a"]]), TypeError, "ChunkedArray.*give a pyarrow"),
    "batches": (ROWS.to_batches, TypeError, r"list of RecordBatch.*pyarrow\.Table\.from_batches"),
    "tables": (lambda: [ROWS], TypeError, r"list of Table; .*pyarrow\.concat_tables"),
    "numbers": (lambda: [1], TypeError, "list of int"),
    "columns": (ROWS.to_pydict, TypeError, r"dict; make a table of columns by pyarrow\.table"),
    "a class of rows": (lambda: pa.Table, TypeError, "the class Table"),
    "a class of frames": (lambda: pd.DataFrame, TypeError, "the class DataFrame"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_the_error_says_what_to_do(name: str, tmp_path: Path) -> None:
    make, error, told = UNFIT[name]
    table = bf.create(tmp_path / "t", schema=SCHEMA, record_key="id")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # polars has one where the columns of a LazyFrame are asked
        with pytest.raises(error, match=told):
            table.upsert(make())
        with pytest.raises(error, match=told):
            bf.create(tmp_path / "new", schema=make(), record_key="id")
    assert table.scan().count() == 0
    assert not (tmp_path / "new").exists()


def test_columns_of_polars_without_an_arrow_type(tmp_path: Path) -> None:
    schema = pl.Schema({"id": pl.String(), "x": pl.Int128()})
    with pytest.raises(TypeError, match=r"this Schema has .* no Arrow type.*give a pyarrow Schema"):
        bf.create(tmp_path / "t", schema=schema, record_key="id")
    fine = pl.Schema({"id": pl.String(), "x": pl.Int64()})
    assert bf.create(tmp_path / "t", schema=fine, record_key="id").schema == SCHEMA


def test_rows_of_a_series_of_structs(tmp_path: Path) -> None:
    table = bf.create(tmp_path / "t", schema=SCHEMA, record_key="id")
    table.upsert(pl.DataFrame(ROWS.to_pydict()).to_struct("rows"))
    assert table.to_arrow() == ROWS
