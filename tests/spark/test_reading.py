"""Tables that real Hudi wrote, read as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import bucketfmt_spark as bs
from tests.same_rows import assert_same

# Among them: every type there is, logs of each kind, renamed columns, virtual keys, a ring.
TABLES = [
    ("0.15.0", "mor"),
    ("0.15.0", "uncommitted_mor"),
    ("1.0.2", "nbcc"),
    ("1.2.0", "cow"),
    ("1.2.0", "mor"),
    ("1.2.0", "ch_split"),
    ("1.2.0", "evolved_ids_mor"),
    ("1.2.0", "nested_mor"),
    ("1.2.0", "parquet_log"),
    ("1.2.0", "virtual_mor"),
]


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_spark_has_the_rows_and_types_that_hudi_has(
    spark: SparkSession,
    golden: Callable[[str, str], Path],
    golden_expected: Callable[..., pa.Table],
    version: str,
    name: str,
) -> None:
    found = bs.read(spark, golden(version, name), meta_columns=not name.startswith("virtual"))
    hudis = golden_expected(version, name)
    assert_same(
        found.toArrow(), hudis.select([c for c in hudis.column_names if c in found.columns])
    )
    assert len(found.columns) >= len(hudis.column_names) - 5
