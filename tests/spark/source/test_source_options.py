"""The options of `format("bucketfmt")`, and what SQL may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.opening import find_storage_options
from bucketfmt_spark.source.hudi_options import translate
from bucketfmt_spark.source.sink_options import SinkOptions
from bucketfmt_spark.source.source_options import SourceOptions


def test_hudis_names_mean_the_same_or_are_refused(golden: Callable[[str, str], Path]) -> None:
    path = str(golden("1.2.0", "mor"))
    instant = bf.open(path).timeline.writes.completed.instants[0].requested_time
    past = SourceOptions({"path": path, "as.of.instant": instant})
    assert past.scan().to_arrow().num_rows == bf.open(path).scan(as_of=instant).count()
    query = {"hoodie.datasource.query.type": "read_optimized", "hoodie.table.name": "mor"}
    stated = bf.open(path).config.properties["hoodie.table.name"]
    assert SourceOptions({"path": path, **query, "hoodie.table.name": stated}).read_optimized
    sink = SinkOptions(
        {
            "path": path,
            "hoodie.datasource.write.operation": "delete",
            "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock."
            "StorageBasedLockProvider",
            "metadata_table": "drop",
        },
        overwrite=False,
    )
    assert sink.operation == "delete"
    assert {name: sink.given[name] for name in ("lock", "concurrency", "metadata_table")} == {
        "lock": "storage",
        "concurrency": "non_blocking",
        "metadata_table": "drop",
    }
    for wrong, message in (
        ({"hoodie.parquet.max.file.size": "1"}, "hoodie.parquet.max.file.size of Hudi has no"),
        ({"hoodie.datasource.query.type": "cdc"}, "query.type is one of snapshot"),
        ({"as_of": "2024", "as.of.instant": "2025"}, "contradicts as_of=2024"),
    ):
        with pytest.raises(ValueError, match=message):
            translate(wrong)
    with pytest.raises(ValueError, match=r"num.buckets is 999, and the table"):
        SourceOptions({"path": path, "hoodie.bucket.index.num.buckets": "999"}).scan()


def test_what_sql_may_not_do_is_refused_before_a_commit(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    bs.register(spark)
    path = str(golden("1.2.0", "cow"))
    rows = bf.open(path).scan().count()
    spark.sql(f"CREATE TEMPORARY VIEW options_v USING bucketfmt OPTIONS (path '{path}')")
    assert spark.sql("SELECT count(*) FROM options_v").collect()[0][0] == rows
    load = spark.read.format("bucketfmt")
    for statement, message in (
        (
            lambda: spark.sql(f"CREATE TABLE options_t USING bucketfmt LOCATION '{path}'"),
            "CREATE TABLE is not supported.*CREATE TEMPORARY VIEW",
        ),
        (lambda: spark.sql("DELETE FROM options_v"), "does not support deletes"),
        (lambda: load.schema("id string, nope int").load(path).collect(), "column nope, and the"),
        (lambda: load.schema("id int").load(path).collect(), "has id as int, and the table has"),
        (
            lambda: spark.table("options_v").write.format("bucketfmt").save(path),
            "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
        ),
    ):
        with pytest.raises(Exception, match=message):
            statement()
    spark.sql("DROP VIEW options_v")
    first = bf.open(path).schema.names[0]
    assert load.schema(f"{first} string").load(path).columns == [first]


def test_stores_are_reached_as_the_session_says() -> None:
    settings = {
        "fs.s3a.access.key": "general",
        "fs.s3a.bucket.lake.access.key": "own",
        "fs.s3a.secret.key": "s",
        "fs.s3a.endpoint": "minio:9000",
        "fs.azure.account.key.acc.dfs.core.windows.net": "k",
    }
    assert find_storage_options("s3://lake/t", settings.get) == {
        "key": "own",
        "secret": "s",
        "endpoint_url": "https://minio:9000",
    }
    assert find_storage_options("s3a://other/t", settings.get)["key"] == "general"
    azure = find_storage_options("abfss://c@acc.dfs.core.windows.net/t", settings.get)
    assert azure == {"account_name": "acc", "account_key": "k"}
    assert find_storage_options("/data/t", settings.get) == {}


def test_a_bucket_has_an_endpoint_and_a_region_of_its_own() -> None:
    settings = {
        "fs.s3a.endpoint": "minio:9000",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.bucket.lake.endpoint": "http://other:9000",
        "fs.s3a.bucket.lake.endpoint.region": "eu-west-1",
    }
    assert find_storage_options("s3a://lake/t", settings.get) == {
        "endpoint_url": "http://other:9000",
        "client_kwargs": {"region_name": "eu-west-1"},
    }
    assert find_storage_options("s3a://sea/t", settings.get) == {
        "endpoint_url": "https://minio:9000",
        "client_kwargs": {"region_name": "us-east-1"},
    }


def test_options_of_the_store_are_decoded() -> None:
    given = {
        "path": "s3://lake/t",
        "storage.anon": "false",
        "storage.key": "123",
        "storage.client_kwargs": '{"region_name": "eu-west-1"}',
    }
    assert SourceOptions(given).storage == {
        "anon": False,
        "key": "123",
        "client_kwargs": {"region_name": "eu-west-1"},
    }
