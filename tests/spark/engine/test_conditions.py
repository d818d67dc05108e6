"""Filters of Spark: what the core leaves out by them, and that the rows are Spark's."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.conditions import find_condition, text_of
from bucketfmt_spark.engine.resolver import Resolver
from tests.spark.tables import make_table, rows_of

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "City": pa.string(),
        "n": pa.int32(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "x": pa.float64(),
    }
)
NOON = datetime(2024, 1, 1, 11, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("city = 'sf' AND 3 < n", [[("City", "=", "sf"), ("n", ">", 3)]]),
        ("n IN (1, 2L, -3) OR `id` LIKE 'ab%'", [
            [("n", "in", [1, 2, -3])],
            [("id", ">=", "ab"), ("id", "<", "ac")],
        ]),
        ("n BETWEEN 1 AND 3 AND lower(id) = 'q'", [[("n", ">=", 1), ("n", "<=", 3)]]),
        ("day >= DATE '2024-01-31' AND id IS NOT NULL", [
            [("day", ">=", date(2024, 1, 31)), ("id", "not in", [None])]
        ]),
        ("at = TIMESTAMP '2024-01-01 12:00:00' AND day IS NULL", [
            [("at", "=", NOON), ("day", "in", [None])]
        ]),
        # What might mean something else leaves out nothing.
        ("id NOT LIKE 'a%'", None),
        ("n > 1 AND id NOT LIKE 'a%'", [[("n", ">", 1)]]),
        ("id NOT LIKE 'a%' OR n = 1", None),
        ("id NOT IN ('a')", None),
        ("n NOT BETWEEN 1 AND 3", None),
        ("id NOT RLIKE 'a'", None),
        ("id = 'a\\tb'", None),
        ("id LIKE 'a!%' ESCAPE '!'", None),
        ("x > 1.5", None),
        ("n = '3'", None),
        ("id = 3", None),
        ("id LIKE 'a_%'", None),
        ("n <> 3", None),
        ("n = 1 OR x > 1", None),
        ("NOT (n = 1)", None),
        ("n IN (1, NULL)", None),
        ('id = "sf"', None),
        ("day = '2024-1-5'", None),
        ("n = 99999999999999999999", None),
        ("n = CAST(5000000000 AS INT)", None),
        ("n = -CAST(2147483648 AS INT)", None),
        ("n = CAST(5000000000 AS BIGINT)", [[("n", "=", 5_000_000_000)]]),
        # Clocks of Berlin have 02:30 twice on the one day, and not at all on the other.
        ("at < '2024-10-27 02:30:00'", None),
        ("at < '2024-03-31 02:30:00'", None),
        ("n = 1 AND (", None),
    ],
)  # fmt: skip
def test_the_part_that_means_the_same(text: str, alternatives: Any) -> None:
    found = find_condition(text, Resolver(SCHEMA, time_zone="Europe/Berlin"))
    assert found.alternatives == alternatives


def test_the_columns_that_a_condition_reads() -> None:
    resolver = Resolver(SCHEMA)
    assert find_condition("lower(CITY) = 'x' AND n > 1", resolver).columns == ("City", "n")
    for unknown in ("exists(array(n), z -> z > 1)", "n IN (SELECT 1)", "m = 1", "n = ("):
        assert find_condition(unknown, resolver).columns is None
    strict = Resolver(SCHEMA, is_case_sensitive=True)
    assert find_condition("CITY = 'x'", strict).columns is None
    assert find_condition(None, resolver).columns is None


def test_rows_are_those_of_spark_and_buckets_are_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    ids = [f"k{number:02d}" for number in range(40)]
    given = pa.table(
        {
            "id": ids,
            "City": ["sf", "la", None, "ny"] * 10,
            "n": pa.array(range(40), pa.int32()),
            "x": [float("nan") if n % 7 == 0 else n / 2 for n in range(40)],
        }
    )
    table = make_table(tmp_path / "t", given, bf.SimpleBucketIndex(4))
    everything = bs.read(spark, table.uri)
    for condition in (
        "city = 'sf' AND n > 3",
        "x > 15 OR id = 'k01'",
        "NOT (city = 'sf')",
        "id NOT LIKE 'k1%'",
        "n > 3 AND City not like 's%'",
        (sf.col("City") == "la") & (sf.col("n").isin(1, 5, 6)),
        sf.col("id").like("k1%") & sf.col("City").isNotNull(),
    ):
        found = bs.read(spark, table.uri, ["ID", "n"], condition)
        assert found.columns == ["id", "n"]
        assert rows_of(found) == rows_of(everything.where(condition).select("id", "n"))
        assert found.count()
    text = text_of(spark, (sf.col("ID") == "k07") & (sf.col("n") < 9), table.schema)
    assert text is not None
    assert find_condition(text, Resolver(table.schema)).alternatives == [
        [("id", "=", "k07"), ("n", "<", 9)]
    ]
    assert bs.read(spark, table.uri, filter="id = 'k07'").rdd.getNumPartitions() == 1
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        bs.read(spark, table.uri, filter="nope = 1")

    done = bs.delete(spark, table.uri, "city = 'sf' OR x > 15")
    assert done.rows_deleted == 40 - table.scan().count()
    assert rows_of(bs.read(spark, table.uri)) == rows_of(
        everything.where("NOT coalesce(city = 'sf' OR x > 15, false)")
    )


def test_a_moment_of_the_hour_that_clocks_have_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Spark gives the text of such a Column without a zone."""
    later = datetime(2024, 11, 3, 6, 30, tzinfo=timezone.utc)
    given = pa.table({"id": ["a"], "at": pa.array([later], pa.timestamp("us", "UTC"))})
    table = make_table(tmp_path / "t", given, bf.SimpleBucketIndex(2))
    told = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for condition in (sf.col("at") == sf.lit(later), sf.col("at") <= sf.lit(later)):
            found = bs.read(spark, table.uri, ["id"], condition)
            assert [row.id for row in found.collect()] == ["a"]
        assert bs.delete(spark, table.uri, sf.col("at") == sf.lit(later)).rows_deleted == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", told)
    assert table.scan().count() == 0
