"""What whoever runs jobs sees of them: names, log lines, errors; and no secrets in what is sent."""

from __future__ import annotations

import gc
import logging
import pickle
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.clientserver import ClientServerConnection, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayProperty, PythonProxyPool
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt_spark.engine import executors, named_jobs
from bucketfmt_spark.engine.credentials import Credential, setting_of
from bucketfmt_spark.engine.failures import find_cause
from bucketfmt_spark.engine.opening import find_storage_options
from tests.write.models import SCHEMA, rows

SECRET = "a secret that no task is sent"


def make(folder: Path, **given: Any) -> bf.Table:
    index = bf.SimpleBucketIndex(2)
    return bf.create(folder / "trips", schema=SCHEMA, record_key=["id"], index=index, **given)


def test_jobs_and_stages_are_named_after_table_verb_and_instant(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "bucketfmt.spark")
    monkeypatch.setattr(named_jobs, "_PROGRESS_S", 0.02)
    table = make(tmp_path, table_type="MERGE_ON_READ")
    spark.sparkContext.setLocalProperty("spark.job.description", "the caller's own")
    writing = [bs.write(spark.createDataFrame(rows(range(20), ts=ts)), table) for ts in (1, 2)]
    compacted = bs.compact(spark, table)
    assert compacted is not None
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "the caller's own"
    spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    names = [f"bucketfmt upsert trips {result.instant}" for result in writing]
    names.append(f"bucketfmt compact trips {compacted.instant}")
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    found = store.jobsList(None)
    jobs = [found.apply(number) for number in range(min(found.size(), 10))]
    told = {job.description().get(): job.name() for job in jobs if job.description().isDefined()}
    assert {name: told[name] for name in names} == {name: name for name in names}
    lines = caplog.text
    for line in (
        f"{names[0]}: the job begins",
        "rows of trips go to 2 tasks by their buckets",
        f"upsert of trips: UPSERT at {writing[0].instant}: 20 rows inserted",
        f"compaction at {compacted.instant}: 2 file groups of",
        f"{names[2]}: the job took",
        " requests",
        "tasks are done",
    ):
        assert line in lines, line


def test_requests_of_tasks_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, table_type="MERGE_ON_READ")
    for ts in (1, 2):
        table.upsert(rows(range(20), ts=ts))
    counted = bs.task_requests(spark)
    assert bs.read(spark, table.uri).count() == 20
    of_read = bs.task_requests(spark) - counted
    reader, tasks = table.scan().task_reader(), table.scan().tasks()
    before = bf.requests_made()
    for task in tasks:
        assert sum(batch.num_rows for batch in reader.read(task.payload)) > 0
    assert of_read == bf.requests_made() - before >= 4  # two base files and two log files
    bs.write(spark.createDataFrame(rows(range(20), ts=3)), table)
    assert bs.task_requests(spark) - counted - of_read >= 4  # a marker and a file of each bucket


def test_rows_files_and_bytes_of_a_read_are_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bucketfmt.spark")
    table = make(tmp_path)
    table.upsert(rows(range(20), ts=1))
    size = table.scan().plan().size
    makers: list[Callable[[], Any]] = [
        lambda: bs.read(spark, table.uri, ["id"]),
        lambda: bs.aggregate(spark, table, ["id"], {"n": ("*", "count")}),
        lambda: bs.join(spark, table, table.scan(["id"]), "semi"),
    ]
    for make_frame in makers:
        frame = make_frame()
        assert f"2 file groups, 2 files, {size} bytes" in caplog.messages[-1]
        frame.collect()
        metrics: Any = frame._jdf.queryExecution().executedPlan().metrics()
        assert metrics.apply("pythonNumRowsReceived").value() == 20
        assert metrics.apply("pythonDataReceived").value() > 100


def test_tries_after_conflicts_are_told(caplog: pytest.LogCaptureFixture) -> None:
    left = [bf.ConflictError("a bucket changed"), bf.ConflictError("again")]

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    assert named_jobs.repeat_on_conflict("a write", 2, attempt) == "done"
    assert [record.getMessage() for record in caplog.records] == [
        "a write is tried again, at most 2 times: a bucket changed",
        "a write is tried again, at most 1 times: again",
    ]
    left.append(bf.ConflictError("for good"))
    with pytest.raises(bf.ConflictError, match="for good"):
        named_jobs.repeat_on_conflict("a write", 0, attempt)


def test_errors_of_tasks_are_typed_and_have_no_traceback_of_sparks(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path)
    table.upsert(rows(range(20), ts=1))
    frame = bs.read(spark, table.uri)
    for path in Path(table.uri).glob("*.parquet"):
        path.write_bytes(b"PAR1")
    with pytest.raises(bf.CorruptError) as raised, bs.typed_errors():
        frame.collect()
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_what_a_worker_has_imported_is_left_alone_by_the_garbage_collector(
    spark: SparkSession,
) -> None:
    """Which Spark runs after each task."""

    class Frame:
        sparkSession = spark  # noqa: N815

        def mapInArrow(self, run: Any, schema: Any) -> Any:  # noqa: N802
            return run

    task: Any = executors.map_batches(Frame(), lambda batches: batches, "id long")  # type: ignore[arg-type]
    gc.unfreeze()
    try:
        assert list(task(iter([1, 2]))) == [1, 2]
        frozen = gc.get_freeze_count()
        assert frozen > 10_000
        assert list(task(iter([]))) == []
        assert gc.get_freeze_count() <= frozen  # once
    finally:
        gc.unfreeze()


def test_a_task_of_another_release_is_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an executor that came after the check of executors."""
    monkeypatch.setattr(bf, "__version__", "999")
    frame = executors.map_batches(spark.range(1), lambda batches: batches, "id long")
    monkeypatch.undo()
    with (
        pytest.raises(bs.ExecutorError, match=r"driver has bucketfmt 999 and executors have 0\."),
        bs.typed_errors(),
    ):
        frame.collect()


def test_a_session_that_ended_is_told() -> None:
    for text in (
        "py4j.protocol.Py4JNetworkError: Error while sending or receiving",
        "org.apache.spark.SparkException: Job 1 cancelled because SparkContext was shut down",
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
        "[INVALID_HANDLE.SESSION_CLOSED] The handle x is invalid. Session was closed.",
        "An error occurred while calling o35.getLocalProperty",
    ):
        assert type(find_cause(text)) is bs.SessionError, text
    told = "An error occurred while calling o35.collect.\n: java.io.IOException: a disk is full"
    assert find_cause(told) is None


def test_a_jvm_that_died_is_a_session_that_ended() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        lost = JavaParameters(port=unused.getsockname()[1])
        known = GatewayProperty(False, PythonProxyPool())
        connection = ClientServerConnection(lost, PythonParameters(), known, None)
        with pytest.raises(bs.SessionError, match="start a session"), bs.typed_errors():
            connection.connect_to_java_server()
    with pytest.raises(ConnectionRefusedError), bs.typed_errors():
        raise ConnectionRefusedError("of the caller's own")


@pytest.fixture
def session_of_the_store(
    spark: SparkSession, s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[SparkSession]:
    """A session whose settings, and nothing else, say how the store is reached."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    settings = {
        "spark.hadoop.fs.s3a.endpoint": s3_options["endpoint_url"],
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.access.key": "the key of the session",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    hadoop: Any = spark.sparkContext._jsc
    hadoop.hadoopConfiguration().set("fs.s3a.secret.key", SECRET)  # as core-site.xml states it
    yield spark
    for name in (*settings, "spark.hadoop.fs.s3a.secret.key"):
        spark.conf.unset(name)
    hadoop.hadoopConfiguration().unset("fs.s3a.secret.key")


def test_credentials_of_the_session_reach_the_store_and_are_in_no_function(
    session_of_the_store: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, sent = session_of_the_store, []
    dumps: Callable[..., bytes] = CloudPickleSerializer.dumps

    def record(self: CloudPickleSerializer, value: Any) -> bytes:
        sent.append(dumps(self, value))
        return sent[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", record)
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    index = bf.SimpleBucketIndex(1)
    bs.create(spark, "s3://tables/of_a_session", schema, record_key=["id"], index=index)
    given = spark.createDataFrame([("a", 1), ("b", 2)], "id string, v long")
    assert bs.write(given, "s3://tables/of_a_session").rows_inserted == 2
    found = bs.read(spark, "s3://tables/of_a_session").collect()
    assert sorted(map(tuple, found)) == [("a", 1), ("b", 2)]
    assert len(sent) >= 2
    for secret in (SECRET, "the key of the session"):
        assert not any(secret.encode() in function for function in sent)
    assert any(b"spark.hadoop.fs.s3a.secret.key" in function for function in sent)


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"endpoint": "s3.lake"}, "https://s3.lake"),
        ({"endpoint": "s3.lake", "connection.ssl.enabled": "false"}, "http://s3.lake"),
        ({"endpoint": "https://s3.lake", "connection.ssl.enabled": "false"}, "https://s3.lake"),
        ({"endpoint": "s3.lake", "bucket.b.connection.ssl.enabled": "False"}, "http://s3.lake"),
        ({"endpoint": "s3.lake", "bucket.b.endpoint": "http://own"}, "http://own"),
    ],
)
def test_the_scheme_of_an_endpoint(settings: dict[str, str], url: str) -> None:
    hadoop = {f"fs.s3a.{name}": value for name, value in settings.items()}
    assert find_storage_options("s3a://b/t", hadoop.get) == {"endpoint_url": url}


def test_blanks_around_settings_are_no_part_of_them(spark: SparkSession) -> None:
    stated = {"access.key": "\n  the key\n", "endpoint": " ", "endpoint.region": " eu-west-1 "}
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in stated.items()}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        found = find_storage_options("s3://b/t", setting_of(spark))
        assert found == {"key": "the key", "client_kwargs": {"region_name": "eu-west-1"}}
        assert pickle.loads(pickle.dumps(found)) == found
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_a_credential_does_not_show_itself() -> None:
    found = Credential(SECRET, "spark.hadoop.fs.s3a.secret.key")
    assert (found, f"{found!r}") == (SECRET, "<spark.hadoop.fs.s3a.secret.key>")
