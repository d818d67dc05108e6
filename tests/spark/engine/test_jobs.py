"""Jobs as they are submitted: what they answer and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine.named_jobs import allowed_retries
from bucketfmt_spark.jobs import main
from tests.resize.test_migrate import filled
from tests.spark.test_writing import make
from tests.write.models import Model, assert_reads_as, rows


@pytest.mark.usefixtures("spark")
def test_the_jobs_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = make(tmp_path, "mor"), Model()
    for number in (1, 2):
        model.upsert(given := rows(range(40), ts=number, price=float(number)))
        source = str(tmp_path / f"{number}.parquet")
        pq.write_table(given, source)
        assert main(["upsert", table.uri, source, "--idempotency-key", str(number)]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["operation"], told["files"], told["repeated"]) == ("UPSERT", 12, False)
    assert main(["upsert", table.uri, source, "--idempotency-key", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["repeated"]
    assert main(["compact", table.uri]) == 0
    assert json.loads(capsys.readouterr().out)["operation"] == "COMPACT"
    assert main(["compact", table.uri]) == 0
    assert capsys.readouterr().out == "null\n"
    assert main(["rehash", table.uri, "8", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["after"] == 8
    assert main(["rehash", table.uri, "8", "--lock", "filesystem"]) == 0
    assert json.loads(capsys.readouterr().out)["file_groups_replaced"] == 12
    assert bf.open(table.uri).index == bf.SimpleBucketIndex(8, ("id",))
    assert_reads_as(table.uri, model)

    keys, into = str(tmp_path / "keys.parquet"), tmp_path / "found"
    pq.write_table(rows([3, 9, 1000], ts=0).select(["id", "region"]), keys)
    assert main(["lookup", table.uri, keys, str(into)]) == 0
    assert json.loads(capsys.readouterr().out) == {"into": str(into)}
    assert sorted(pq.read_table(into)["id"].to_pylist()) == ["key-000003", "key-000009"]

    assert main(["check", table.uri, "--depth", "full"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "clean"
    for path in Path(table.uri).glob("us/*.parquet"):
        path.write_bytes(b"PAR1")
    assert main(["lookup", table.uri, keys, str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("TruncatedError: us/")
    assert main(["check", table.uri]) == 1
    assert json.loads(capsys.readouterr().out)["findings"]

    other = make(tmp_path / "other", "mor")
    properties = Path(other.uri, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text() + "hoodie.table.base.file.format=LANCE\n")
    assert main(["check", other.uri]) == 3
    assert json.loads(capsys.readouterr().out)["status"] == "incomplete"


def test_a_write_of_rows_of_a_moment_is_not_begun_anew(tmp_path: Path) -> None:
    assert [allowed_retries(given) for given in ({}, {"retries": 5}, {"read_at": None})] == [
        3,
        5,
        3,
    ]  # type: ignore[list-item]
    timeline = make(tmp_path, "mor").timeline
    assert allowed_retries({"read_at": timeline, "retries": 5}) == 0


@pytest.mark.usefixtures("spark")
def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("TableNotFoundError: no Hudi table at")
    assert main(["compact", str(tmp_path), "--storage-option", "x"]) == 64
    assert "KEY=VALUE, not 'x'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["merge", str(tmp_path)])
    assert ended.value.code == 64


@pytest.mark.usefixtures("spark")
def test_what_spark_refuses_is_an_error_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing")
    options = ["--like", missing, "--key", "id", "--index", "simple:2"]
    assert main(["create", str(tmp_path / "t"), *options]) == 2
    told = capsys.readouterr().err
    assert told.startswith("AnalysisException: [PATH_NOT_FOUND]")
    assert missing in told


@pytest.mark.usefixtures("spark")
def test_a_job_that_fails_in_spark_does_not_end_like_a_check_with_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make(tmp_path, "cow")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    assert main(["upsert", table.uri, str(tmp_path / "cut.parquet")]) == 2
    assert "cut.parquet" in capsys.readouterr().err


def test_storage_options_are_those_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of digits were numbers, by which no client of a store signs."""
    given: list[object] = []

    def opened(_spark: object, _uri: str, storage_options: object, *_others: object) -> None:
        given.append(storage_options)
        raise bf.TableNotFoundError("no table")

    monkeypatch.setattr("bucketfmt_spark.jobs.open_table", opened)
    options = ["--storage-option", "key=123", "--storage-option", "anon=false"]
    assert main(["compact", "s3://lake/t", *options]) == 2
    assert main(["compact", "/lake/t"]) == 2
    assert given == [{"key": "123", "anon": False}, None]


@pytest.mark.usefixtures("spark")
def test_the_services_of_a_table_as_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, uri = str(tmp_path / "rows.parquet"), str(tmp_path / "t")
    pq.write_table(rows(range(30), ts=1), source)

    def told(*arguments: str, code: int = 0) -> Any:
        assert main([*arguments]) == code
        return json.loads(capsys.readouterr().out)

    made = ["--like", source, "--key", "id", "--partition-by", "region", "--ordering", "ts"]
    assert told("create", uri, *made, "--index", "simple:2")["uri"] == uri
    plan = told("upsert", uri, source, "--dry-run")
    assert plan == {"rows_to_write": 30, "partitions": 3, "buckets": 6}
    more = str(tmp_path / "more.parquet")
    pq.write_table(rows(range(30), ts=1).append_column("tip", pa.array([1.5] * 30)), more)
    for options in (["--dry-run"], []):
        assert main(["upsert", uri, more, *options]) == 2
        assert "lacks columns that the rows have: tip" in capsys.readouterr().err
    assert told("upsert", uri, more, "--dry-run", "--evolve") == plan
    assert told("upsert", uri, more, "--dry-run", "--operation", "delete") == plan
    first = told("upsert", uri, source, "--concurrency", "optimistic")["instant"]
    kept = told("savepoint", uri, "--comments", "before the second")["savepoint"]
    assert kept == first
    second = told("upsert", uri, source)["instant"]
    assert told("rollback", uri, second, "--dry-run")["instant"] == second
    assert told("rollback", uri, second)["files_deleted"]
    assert told("upsert", uri, source)["rows_updated"] == 30
    assert told("restore", uri, kept)["savepoint"] == kept
    assert told("savepoint", uri, kept, "--delete") == {"deleted": kept}
    assert told("clean", uri, "--retain", "1", "--dry-run")["files"] == 0
    due = told("maintain", uri, "--no-services")
    assert due == {"compaction": None, "clean": None, "archived": []}
    assert told("archive", uri, "--dry-run") == {"instants": []}
    rescaled = told("rescale", uri, "--rule", "us,4", "--dry-run")
    assert [each["after"] for each in rescaled["partitions"]].count(4) == 1
    assert told("rescale", uri, "--rule", "us,4")["file_groups_replaced"] == 2
    table = bf.open(uri)
    assert table.index == bf.PartitionBucketIndex(2, "us,4", ("id",))
    assert table.scan().count() == 30
    assert told("delete", uri, "region = 'us'", "--dry-run") == {"rows_to_delete": 10}
    assert told("delete", uri, "region = 'us' AND id > 'key-000015'")["rows_deleted"] == 4
    assert main(["resize", uri]) == 3
    assert "UnsupportedError" in capsys.readouterr().err
    assert main(["compact", uri, "--output", "text", "--dry-run"]) == 0
    assert "file groups: 0" in capsys.readouterr().out


def test_a_table_without_buckets_is_migrated_on_executors(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, model = filled(tmp_path / "t")
    assert not isinstance(table.index, bf.SimpleBucketIndex)
    done = bs.migrate(spark, table.uri, bf.SimpleBucketIndex(2), partitions_per_commit=2)
    assert done is not None
    assert (done.partitions, len(done.instants)) == (3, 2)
    assert bf.open(table.uri).index == bf.SimpleBucketIndex(2, ("id",))
    assert_reads_as(table.uri, model)
    assert bs.check(spark, table.uri, "full").status == "clean"
