"""Rows that are passed where another argument belongs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bucketfmt as bf


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (pa.table({"id": ["secret"]}), "a pyarrow.Table"),
        (pd.DataFrame({"id": ["secret"]}), "a pandas.DataFrame"),
        (pl.DataFrame({"id": ["secret"]}), "a polars.DataFrame"),
        (["secret"] * 100, "a list"),
    ],
    ids=["arrow", "pandas", "polars", "list"],
)
def test_the_error_does_not_show_them(tmp_path: Path, rows: object, told: str) -> None:
    """It had the rows, on many lines."""
    schema = pa.schema({"id": pa.string()})
    table = bf.create(tmp_path / "t", schema=schema, record_key="id")
    for refused in (
        lambda: table.preview_schema_changes(rows),  # type: ignore[arg-type]
        lambda: table.upsert([], idempotency_key=rows),  # type: ignore[arg-type]
        lambda: table.rehash(rows),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError) as raised:
            refused()
        assert str(raised.value).endswith(f", not {told}")
