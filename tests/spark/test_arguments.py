"""What verbs say of arguments that mean nothing to them, and of columns that no table can have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

import bucketfmt as bf
import bucketfmt_spark as bs
from tests.spark.tables import make_table, rows_of

ROWS = pa.table({"id": ["a", "b"], "x": pa.array([1, 2], pa.int64())})
FRAME = "a DataFrame of Spark, not"
AGGS = "aggs is a dict such as {'total': ('fare', 'sum')}, "
CONDITION = "condition is SQL text such as \"city = 'sf'\", or a Column, "


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    return make_table(tmp_path_factory.mktemp("arguments") / "t", ROWS, bf.SimpleBucketIndex(2))


Call = Callable[[SparkSession, Any, Any], Any]
WRONG: dict[str, tuple[Call, type[Exception], str]] = {
    "no kind of join": (
        lambda s, t, v: bs.join(s, t, t, None),  # type: ignore[arg-type]
        ValueError,
        "how is one of inner, left, right, full, semi, anti, not None",
    ),
    "no memory": (
        lambda s, t, v: bs.join(s, t, t, memory_bytes=0),
        ValueError,
        "memory_bytes is 1 or more, not 0",
    ),
    "memory as text": (
        lambda s, t, v: bs.aggregate(s, t, ["id"], {}, memory_bytes="1g"),  # type: ignore[arg-type]
        TypeError,
        "memory_bytes is an integer such as 4, not '1g'",
    ),
    "a side that is none": (
        lambda s, t, v: bs.join(s, t, [1]),  # type: ignore[arg-type]
        TypeError,
        "right is the URI of a table, a bucketfmt.Table or a bucketfmt.Scan, not a list",
    ),
    "no keys": (
        lambda s, t, v: bs.aggregate(s, t, None, {}),  # type: ignore[arg-type]
        TypeError,
        "keys is a list of texts, not None",
    ),
    "a Column as columns": (
        lambda s, t, v: bs.read(s, t, sf.col("id")),  # type: ignore[arg-type]
        TypeError,
        "columns is a list of texts, not a pyspark.Column",
    ),
    "a list of aggregates": (
        lambda s, t, v: bs.aggregate(s, t, ["id"], ["x"]),  # type: ignore[arg-type]
        TypeError,
        AGGS + "not a list",
    ),
    "an aggregate of no column": (
        lambda s, t, v: bs.aggregate(s, t, ["id"], {"x": "sum"}),  # type: ignore[dict-item]
        TypeError,
        AGGS + "and 'x' has 'sum'",
    ),
    "an aggregate of three": (
        lambda s, t, v: bs.aggregate(s, t, ["id"], {"n": ("x", "sum", 3)}),  # type: ignore[dict-item]
        TypeError,
        AGGS + "and 'n' has ('x', 'sum', 3)",
    ),
    "an aggregate without name": (
        lambda s, t, v: bs.aggregate(s, t, ["id"], {5: ("x", "sum")}),  # type: ignore[dict-item]
        TypeError,
        AGGS + "and 5 has ('x', 'sum')",
    ),
    "rows of pandas": (
        lambda s, t, v: bs.write(v.toPandas(), t),
        TypeError,
        f"df is {FRAME} a pandas.DataFrame; spark.createDataFrame() makes one",
    ),
    "no rows": (lambda s, t, v: bs.place_rows(None, t), TypeError, f"df is {FRAME} None"),  # type: ignore[arg-type]
    "a list of keys": (lambda s, t, v: bs.lookup(["a"], t), TypeError, f"df is {FRAME} a list"),  # type: ignore[arg-type]
    "keys of Arrow": (
        lambda s, t, v: bs.locate(ROWS, t),  # type: ignore[arg-type]
        TypeError,
        f"df is {FRAME} a pyarrow.Table",
    ),
    "no batch": (
        lambda s, t, v: bs.batch_writer(t, "q")(None, 0),  # type: ignore[arg-type]
        TypeError,
        f"rows is {FRAME} None",
    ),
    "a stream without name": (
        lambda s, t, v: bs.batch_writer(t, ""),
        ValueError,
        "query is the name of the query, and '' is empty",
    ),
    "no session": (
        lambda s, t, v: bs.read(None, t),  # type: ignore[arg-type]
        TypeError,
        "spark is a SparkSession, not None",
    ),
    "no session to register": (
        lambda s, t, v: bs.register(v),
        TypeError,
        "spark is a SparkSession, not a pyspark.DataFrame",
    ),
    "a bucket as text": (
        lambda s, t, v: bs.sample(s, t, "1", "4"),  # type: ignore[arg-type]
        TypeError,
        "bucket is an integer such as 4, not '1'",
    ),
    "a column by its number": (
        lambda s, t, v: bs.bucket_id(5, index=t),  # type: ignore[arg-type]
        TypeError,
        "columns is a list of texts, and 5 is not text",
    ),
    "a number as condition": (
        lambda s, t, v: bs.Update(5),  # type: ignore[arg-type]
        TypeError,
        CONDITION + "not 5",
    ),
    "an empty condition": (
        lambda s, t, v: bs.Insert(" "),
        ValueError,
        CONDITION + "and ' ' is empty",
    ),
    "names to set": (
        lambda s, t, v: bs.Update("true", ["x"]),  # type: ignore[arg-type]
        TypeError,
        "set is a dict such as {'fare': 'source.fare + 1'}, not a list",
    ),
    "a number as value": (
        lambda s, t, v: bs.Insert(values={"x": 1}),  # type: ignore[dict-item]
        TypeError,
        "values['x'] is SQL text such as '1', or a Column, not 1",
    ),
    "an empty filter": (
        lambda s, t, v: bs.delete(s, t, ""),
        ValueError,
        "filter is SQL text such as \"city = 'sf'\", or a Column, and '' is empty",
    ),
    "no instant": (
        lambda s, t, v: bs.rollback(s, t, None),  # type: ignore[arg-type]
        TypeError,
        "instant is the requested time of the write to take back, not None",
    ),
    "retries as text": (
        lambda s, t, v: bs.write(v, t, retries="3"),  # type: ignore[arg-type]
        TypeError,
        "retries is an integer such as 4, not '3'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_message_names_the_argument_and_what_to_give(
    spark: SparkSession, table: bf.Table, case: str
) -> None:
    call, kind, message = WRONG[case]
    frame = spark.createDataFrame(ROWS)
    with pytest.raises(kind) as raised:
        call(spark, table, frame)
    assert message in str(raised.value)
    assert type(raised.value) is kind
    assert len(bf.open(table.uri).timeline.instants) == len(table.timeline.instants)


def test_numbers_of_numpy_and_lists_of_two_are_taken(spark: SparkSession, table: bf.Table) -> None:
    pairs: Any = {"x": ["x", "sum"]}
    counted = bs.aggregate(spark, table, ["id"], pairs, memory_bytes=np.int64(1 << 20))  # type: ignore[arg-type]
    assert rows_of(counted) == [("'a'", "1"), ("'b'", "2")]
    assert rows_of(bs.sample(spark, table, np.int32(1), np.int32(1))) == rows_of(  # type: ignore[arg-type]
        bs.read(spark, table)
    )


CREATED: dict[str, tuple[Any, type[Exception], str]] = {
    "none": (None, TypeError, "schema is df.schema, a schema of Arrow, or text such as"),
    "names": (["id"], TypeError, "text such as 'id STRING', not a list"),
    "varchar": (
        st.StructType([st.StructField("id", st.VarcharType(3))]),
        bf.UnsupportedError,
        "column id: Hudi has no type for varchar(3); make it a STRING",
    ),
    "char": (
        st.StructType([st.StructField("id", st.ArrayType(st.CharType(3)))]),
        bf.UnsupportedError,
        "column id: Hudi has no type for char(3); make it a STRING",
    ),
    "map": (
        st.StructType([st.StructField("m", st.MapType(st.NullType(), st.NullType()))]),
        bf.UnsupportedError,
        "column m: Hudi has no type for map<void,void>; leave the column out, or cast it",
    ),
    "interval": (
        "id STRING, d INTERVAL DAY",
        bf.UnsupportedError,
        "column d: Hudi has no type for interval day; leave the column out, or cast it",
    ),
    "geometry": (
        st.StructType([st.StructField("g", st.GeometryType(4326))]),
        bf.UnsupportedError,
        "column g: Hudi has no type for geometry(4326); leave the column out, or cast it",
    ),
    "variant": (
        "id STRING, s STRUCT<v: VARIANT>",
        bf.UnsupportedError,
        "column s: Hudi has no type for variant; leave the column out, or cast it",
    ),
}


@pytest.mark.parametrize("case", CREATED)
def test_a_schema_that_no_table_can_have(spark: SparkSession, tmp_path: Path, case: str) -> None:
    schema, kind, message = CREATED[case]
    index = bf.SimpleBucketIndex(2)
    with pytest.raises(kind) as raised:
        bs.create(spark, tmp_path / "t", schema, record_key=["id"], index=index)
    assert message in str(raised.value)
    assert not (tmp_path / "t").exists()


TWICE: dict[str, Callable[[DataFrame, bf.Table], Any]] = {
    "write": bs.write,
    "merge": lambda frame, table: bs.merge(frame, table, bs.Update()),
    "place_rows": bs.place_rows,
    "locate": bs.locate,
    "lookup": bs.lookup,
    "join": lambda frame, table: bs.join(frame.sparkSession, table, frame, suffix="_2"),
}


@pytest.mark.parametrize("verb", TWICE.values(), ids=TWICE)
def test_rows_with_a_column_twice_are_refused(
    spark: SparkSession, table: bf.Table, verb: Callable[[DataFrame, bf.Table], Any]
) -> None:
    frame = spark.createDataFrame(ROWS)
    with pytest.raises(bf.SchemaError, match=r"^columns named twice: x; rename one of them"):
        verb(frame.select("id", "x", "x"), table)
    with pytest.raises(bf.SchemaError, match=r"^columns named twice: x, X; rename one of them"):
        verb(frame.select("id", "x", sf.col("x").alias("X")), table)
