"""All verbs and jobs take the same options, and take names as the session takes them."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark import jobs
from bucketfmt_spark.source.source_options import SourceOptions
from tests.spark.tables import make_table, rows_of

READERS = {
    *("aggregate", "changes", "check", "join", "locate", "lookup", "place_rows", "read"),
    *("read_buckets", "sample"),
}
WITHOUT_A_TABLE = {
    *("bucket_id", "claim", "read_scan", "register", "task_requests", "typed_errors"),
}
WITH_AN_INDEX_OF_THEIR_OWN = {"create", "migrate"}
"""Their index= is that which the table gets."""
OPTIONS_OF_WRITERS = {
    *("lock", "concurrency", "drop_metadata_table", "no_services", "dry_run"),
}


def verbs() -> dict[str, set[str]]:
    functions = {name: getattr(bs, name) for name in bs.__all__}
    return {
        name: set(inspect.signature(verb).parameters)
        for name, verb in functions.items()
        if inspect.isfunction(verb) and name not in WITHOUT_A_TABLE
    }


def test_every_verb_takes_the_options_of_the_store_and_every_writer_those_of_writers() -> None:
    found = verbs()
    assert set(found) > READERS
    for name, parameters in found.items():
        assert {"storage_options", "index"} <= parameters, name
        assert ("writer" in parameters) == (name not in READERS), name


def test_every_job_has_the_options_of_its_verb() -> None:
    (commands,) = (
        action
        for action in jobs._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    jobs_of_verbs = {"upsert": "write"}
    for name, parser in commands.choices.items():
        options = {action.dest for action in parser._actions}
        assert {"storage_option", "output", "table"} <= options, name
        assert ("index" in options) or name in WITH_AN_INDEX_OF_THEIR_OWN, name
        if jobs_of_verbs.get(name, name) not in READERS:
            lacking = OPTIONS_OF_WRITERS - options
            assert not lacking or (name, lacking) == ("create", {"dry_run"}), name


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    rows = pa.table(
        {
            "Id": [f"k{n}" for n in range(20)],
            "City": [["sf", "la"][n % 2] for n in range(20)],
            "Fare": pa.array(range(20), pa.int64()),
            "_hoodie_is_deleted": pa.array([False] * 20),
        }
    )
    folder = tmp_path_factory.mktemp("case") / "t"
    return make_table(
        folder, rows, bf.SimpleBucketIndex(2), record_key=["Id"], partition_by=["City"]
    )


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def lower(spark: SparkSession, rows: str) -> Any:
    return spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, city, FARE)")


def test_names_are_those_of_the_table_in_any_case(spark: SparkSession, table: bf.Table) -> None:
    found = bs.read(spark, table, ["FARE"], [("city", "=", "sf")])
    assert (found.columns, found.count()) == (["Fare"], 10)
    assert bs.changes(spark, table, None, columns=["ID"], filter="fare < 3").count() == 3
    keys = lower(spark, "('k4', 'sf', 0L), ('k5', 'la', 0L)")
    assert rows_of(bs.lookup(keys, table, ["fare"])) == [("4",), ("5",)]
    assert bs.locate(keys, table).where("base_file is not null").count() == 2
    counted = bs.aggregate(spark, table, ["ID"], {"most": ("fare", "max")})
    assert counted.agg({"most": "sum"}).collect()[0][0] == sum(range(20))


def test_a_data_source_and_a_new_table_take_names_in_any_case(
    spark: SparkSession, table: bf.Table, tmp_path: Path
) -> None:
    given = {"path": table.uri, "columns": "FARE, city"}
    assert SourceOptions(given).scan().schema.names == ["Fare", "City"]
    bs.register(spark)
    found = spark.read.format("bucketfmt").options(**given).load().where("fare < 3")
    assert (found.columns, found.count()) == (["Fare", "City"], 3)
    made = bs.create(
        spark,
        tmp_path / "t",
        "Id STRING, Day STRING, Ts BIGINT",
        record_key=["ID"],
        partition_by=["day"],
        ordering=["TS"],
        index=bf.SimpleBucketIndex(2, hash_fields=["iD"]),
    )
    assert made.index == bf.SimpleBucketIndex(2, hash_fields=["Id"])
    assert made.config.record_key_fields == ("Id",)
    assert made.config.partition_fields == ("Day",)
    assert made.config.ordering_fields == ("Ts",)


def test_rows_are_written_by_names_in_any_case(spark: SparkSession, table: bf.Table) -> None:
    missing: Any = {"missing": "keep"}
    assert bs.write(lower(spark, "('k4', 'sf', 40L)"), table, **missing).rows_updated == 1
    merged = bs.merge(
        lower(spark, "('k6', 'sf', 60L), ('new', 'la', 1L), ('k8', 'sf', 0L)"),
        table,
        bs.Delete("source.fare = 0"),
        bs.Update(set={"fare": "source.fare + 1"}),
        bs.Insert(values={"FARE": sf.col("source.fare")}),
    )
    assert merged.committed
    assert bs.delete(spark, table, "id = 'k9'").rows_deleted == 1
    bs.write(lower(spark, "('k7', 'la', 0L)").select("id", "CITY"), table, "delete")
    placed = bs.place_rows(lower(spark, "('k1', 'la', 0L)"), table)
    assert placed.columns == ["Id", "City", "Fare"]
    found = {row["Id"]: row["Fare"] for row in bf.open(table.uri).scan().to_arrow().to_pylist()}
    assert (found["k4"], found["k6"], found["new"]) == (40, 61, 1)
    assert not {"k7", "k8", "k9"} & set(found)


def test_columns_of_both_sides_of_a_join_get_a_suffix(spark: SparkSession, table: bf.Table) -> None:
    other = table.scan(["Id", "City", "Fare"])
    joined = bs.join(spark, other, other, "full", on=["ID"], suffix="_2", columns=["FARE_2", "id"])
    whole = bs.join(spark, other, other, on=["id"], suffix="_2")
    assert joined.columns == ["Fare_2", "Id"]
    assert whole.columns == ["Id", "City", "Fare", "City_2", "Fare_2"]
    assert rows_of(joined) == rows_of(bs.read(spark, table, ["Fare", "Id"]))
    frame = bs.read(spark, table, ["Id", "Fare"]).toDF("ID", "fare")
    beside = bs.join(spark, other, frame, suffix="_given")
    assert beside.columns == ["Id", "City", "Fare", "Fare_given"]
    assert beside.where("Fare <> Fare_given").count() == 0
    with pytest.raises(bf.SchemaError, match="give suffix="):
        bs.join(spark, other, frame)
    with pytest.raises(bf.SchemaError, match="two columns City; give another suffix="):
        bs.join(spark, other, other, suffix="")


@pytest.mark.usefixtures("case_sensitive")
def test_a_session_may_tell_cases_apart(spark: SparkSession, table: bf.Table) -> None:
    keys = lower(spark, "('k4', 'sf', 0L)")
    calls: list[Callable[[], Any]] = [
        lambda: bs.read(spark, table, ["FARE"]),
        lambda: bs.aggregate(spark, table, ["ID"], {"most": ("Fare", "max")}),
        lambda: bs.join(spark, table, table, on=["ID"]),
        lambda: bs.write(keys, table),
        lambda: bs.merge(keys, table, bs.Update()),
    ]
    for call in calls:
        with pytest.raises((bf.BucketfmtError, ValueError)):
            call()
