"""Text with a collation is refused: what Spark takes as one key would be several in the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.spark.tables import make_table, rows_of

REFUSAL = "column id: Hudi has no type for string collate UTF8_LCASE; make it a STRING"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    rows = pa.table({"id": ["a", "b"], "x": pa.array([1, 2], pa.int64())})
    return make_table(tmp_path_factory.mktemp("collations") / "t", rows, bf.SimpleBucketIndex(2))


def save(frame: DataFrame, table: bf.Table) -> None:
    bs.register(frame.sparkSession)
    with bs.typed_errors():
        frame.coalesce(1).write.format("bucketfmt").mode("append").save(table.uri)


VERBS: dict[str, Callable[[Any, bf.Table], Any]] = {
    "join": lambda frame, table: bs.join(frame.sparkSession, table, frame.select("id")),
    "left": lambda frame, table: bs.join(frame.sparkSession, frame, table, "left", suffix="_2"),
    "write": bs.write,
    "delete": lambda frame, table: bs.write(frame.select("id"), table, "delete"),
    "merge": lambda frame, table: bs.merge(frame, table, bs.Update(), bs.Insert()),
    "locate": lambda frame, table: bs.locate(frame.select("id"), table),
    "lookup": lambda frame, table: bs.lookup(frame.select("id"), table),
    "lookup in a scan": lambda frame, table: bs.lookup(frame.select("id"), table.scan()),
    "place_rows": bs.place_rows,
    "place a struct": lambda frame, table: bs.place_rows(
        frame.select("x", sf.struct("id").alias("id")), table
    ),
    "format": save,
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_no_verb_takes_it(
    spark: SparkSession, table: bf.Table, verb: Callable[[Any, bf.Table], Any]
) -> None:
    before = table.timeline
    with pytest.raises(bf.UnsupportedError) as raised:
        verb(spark.sql("SELECT 'A' COLLATE UTF8_LCASE AS id, 9L AS x"), table)
    assert REFUSAL in str(raised.value)
    assert bf.open(table.uri).timeline == before


@pytest.mark.parametrize(
    "schema",
    ["id STRING COLLATE UTF8_LCASE", "id ARRAY<STRING COLLATE UTF8_LCASE>, key STRING"],
)
def test_no_table_gets_it(spark: SparkSession, tmp_path: Path, schema: str) -> None:
    index = bf.SimpleBucketIndex(2)
    key = schema.rpartition(", ")[2].split()[0]
    with pytest.raises(bf.UnsupportedError, match=REFUSAL):
        bs.create(spark, tmp_path / "t", schema, record_key=[key], index=index)
    assert not (tmp_path / "t").exists()


def test_a_value_of_a_merge_is_told_by_its_column(spark: SparkSession, table: bf.Table) -> None:
    source = spark.sql("SELECT 'a' AS id")
    with pytest.raises(bf.UnsupportedError, match="column x: Hudi has no type for string collate"):
        bs.merge(source, table, bs.Insert(values={"x": "'1' COLLATE UTF8_LCASE"}))


def test_a_bucket_is_not_told_of_it(spark: SparkSession, table: bf.Table) -> None:
    frame = spark.sql("SELECT 'A' COLLATE UTF8_LCASE AS id")
    for index in (bf.SimpleBucketIndex(2), table):
        with pytest.raises(Exception, match="has no collations; cast it to STRING"):
            frame.select(bs.bucket_id("id", index=index)).collect()


def test_plain_text_is_taken(spark: SparkSession, table: bf.Table) -> None:
    frame = spark.sql("SELECT cast('a' COLLATE UTF8_LCASE AS STRING) AS id, 'é' AS other")
    assert rows_of(bs.join(spark, table, frame)) == [("'a'", "1", "'é'")]
    assert rows_of(bs.lookup(frame, table)) == [("'a'", "1")]
    binary = spark.sql("SELECT 'b' COLLATE UTF8_BINARY AS id")
    assert rows_of(bs.lookup(binary, table)) == [("'b'", "2")]
    assert binary.select(bs.bucket_id("id", index=table)).collect() == (
        spark.sql("SELECT 'b' AS id").select(bs.bucket_id("id", index=table)).collect()
    )
