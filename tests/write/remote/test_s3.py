"""Writing to S3, end to end: every operation, several writers, writers that die, no access."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.storage.stores.s3_store import S3Store
from tests.write.models import Model, create_table, rows
from tests.write.shared_counter import assert_counted, begin_counter, count_up

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")

Options = dict[str, Any]
MORTAL = bf.WriterConfig(lock_lease_s=5, heartbeat_interval_s=2.5)
"""Of a writer that dies, and of who waits for its end."""


@pytest.fixture
def uri() -> str:
    return f"s3://tables/{uuid.uuid4().hex}/trips"


def create(
    uri: str, options: Options, version: int = 9, table_type: str = "COPY_ON_WRITE"
) -> bf.Table:
    return create_table(
        uri, bf.SimpleBucketIndex(1), table_type, table_version=version, storage_options=options
    )


def us_rows(number: int, ts: int, price: float = 1.0) -> pa.Table:
    """Rows of one partition: each file costs this S3 some requests."""
    return rows(range(0, 3 * number, 3), ts, price)


def fresh(options: Options) -> Options:
    """Options of somebody who has listed nothing yet."""
    return {**options, "skip_instance_cache": True}


def read(table: bf.Table) -> dict[tuple[str, str], dict[str, Any]]:
    found = table.scan().to_arrow().to_pylist()
    assert len(found) == table.scan().count()
    return {(row["region"], row["id"]): row for row in found}


def assert_holds(uri: str, options: Options, model: Model) -> None:
    table = bf.open(uri, fresh(options))
    assert read(table) == model.rows
    report = table.check(depth="full")
    assert report.status == "clean", report.findings


@pytest.mark.rotated(0, among="works on S3", one_of=3)
def test_columns_that_stay_are_copied(
    s3_options: Options, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketfmt.rows.parquet.copying._COPIED_BYTES", 0)
    table, model = create(uri, s3_options), Model()
    for number, ts in ((50, 1), (5, 2), (60, 3)):
        given = us_rows(number, ts=ts)
        table.upsert(given)
        model.upsert(given)
    assert_holds(uri, s3_options, model)


@pytest.mark.rotated(0, among="works on S3", one_of=3)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_everything_that_is_done_to_a_table(
    s3_options: Options, uri: str, version: int, table_type: str
) -> None:
    table, model = create(uri, s3_options, version, table_type), Model()
    for ts in (1, 2):
        given = us_rows(5 * ts, ts=ts, price=float(ts))
        table.upsert(given)
        model.upsert(given)
    table.delete(["key-000003", "key-000006"])
    model.delete(["key-000003", "key-000006"])
    if table_type == "MERGE_ON_READ":
        assert table.compact() is not None
    cleaned = table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    assert cleaned.files
    assert not [path for path in cleaned.files if table.store.info(path) is not None]
    assert_holds(uri, s3_options, model)

    taken_back = table.upsert(us_rows(20, ts=9))
    table.rollback(taken_back.instant)
    if version > 6:  # where log files are cancelled and stay
        assert not [path for path in taken_back.files if table.store.info(path)]
    assert_holds(uri, s3_options, model)
    saved = table.savepoint()
    table.upsert(us_rows(20, ts=10))
    table.delete_partitions(["us"])
    table.restore(saved)
    table.delete_savepoint(saved)
    assert_holds(uri, s3_options, model)

    given = rows(range(6), ts=11)
    table.insert_overwrite(given)
    model.drop("us")
    model.upsert(given)
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    assert table.archive(min_commits=1, max_commits=2)
    assert_holds(uri, s3_options, model)


def test_a_table_is_created_once(s3_options: Options, uri: str) -> None:
    create(uri, s3_options)
    with pytest.raises(ValueError, match="already"):
        create(uri, fresh(s3_options))


def _count_up(uri: str, options: Options, number: int) -> None:
    count_up(bf.open(uri, options), 2, number)


def count_up_together(s3_options: Options, uri: str) -> None:
    """By the lock that Hudi has for S3: a lease that is replaced on condition only."""
    table = create(uri, s3_options)
    begin_counter(table)
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_count_up, args=(uri, s3_options, number)) for number in range(2)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(240)
    assert [writer.exitcode for writer in writers] == [0, 0]
    table = bf.open(uri, fresh(s3_options))
    assert_counted(table)
    lease = json.loads(table.store.read(".hoodie/.locks/table_lock.json", 10_000))
    assert lease["expired"] is True  # given back


def _upsert_and_die(uri: str, options: Options, what: str) -> None:
    """Be killed once the first data file, or the completed instant, is created."""
    put = S3Store.put_if_absent

    def put_and_die(store: S3Store, path: str, data: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        kind = "data" if name.endswith(".parquet") else folder
        if kind != what or "_" not in name:
            return put(store, path, data)
        put(store, path, data)
        os.kill(os.getpid(), signal.SIGKILL)
        return False

    S3Store.put_if_absent = put_and_die  # type: ignore[method-assign]
    bf.open(uri, options, writer=MORTAL).upsert(us_rows(10, ts=2, price=2.0))


def die_and_be_followed(s3_options: Options, uri: str, what: str) -> None:
    """Where it dies with its commit, it has the table lock."""
    table, model = create(uri, s3_options), Model()
    given = us_rows(5, ts=1)
    table.upsert(given)
    model.upsert(given)
    writer = multiprocessing.get_context("spawn").Process(
        target=_upsert_and_die, args=(uri, s3_options, what)
    )
    writer.start()
    writer.join(120)
    assert writer.exitcode == -signal.SIGKILL
    if what == ".hoodie/timeline":
        model.upsert(us_rows(10, ts=2, price=2.0))
    assert read(bf.open(uri, fresh(s3_options))) == model.rows

    time.sleep(7)  # until its heartbeat has run out; for the end of its lease the next one waits
    more = us_rows(7, ts=3, price=3.0)
    bf.open(uri, fresh(s3_options), writer=MORTAL).upsert(more)
    model.upsert(more)
    assert_holds(uri, s3_options, model)
    assert not bf.open(uri, fresh(s3_options)).timeline.pending.instants


@pytest.mark.rotated(0, among="several processes", one_of=4)
@pytest.mark.parametrize(
    "play",
    [
        pytest.param(count_up_together, id="count up together"),
        pytest.param(partial(die_and_be_followed, what="data"), id="die with a data file"),
        pytest.param(partial(die_and_be_followed, what=".hoodie/timeline"), id="die committed"),
    ],
)
def test_processes(s3_options: Options, uri: str, play: Callable[[Options, str], None]) -> None:
    play(s3_options, uri)


class TestNoAccess:
    """What is not there, or may not be done, is a typed error, and nothing is left behind."""

    def test_a_bucket_that_is_not_there(self, s3_options: Options) -> None:
        with pytest.raises(bf.StorageError, match="bucket"):
            create("s3://no-such-bucket/trips", s3_options)
        with pytest.raises(bf.TableNotFoundError):
            bf.open("s3://no-such-bucket/trips", s3_options)

    @pytest.fixture
    def reader(self, s3_options: Options, monkeypatch: pytest.MonkeyPatch) -> Iterator[Options]:
        """Options of somebody who may read and list, and nothing else."""
        given = {
            "endpoint_url": s3_options["endpoint_url"],
            "region_name": s3_options["client_kwargs"]["region_name"],
            "aws_access_key_id": s3_options["key"],
            "aws_secret_access_key": s3_options["secret"],
        }
        iam, name = boto3.client("iam", **given), f"reader-{uuid.uuid4().hex}"
        iam.create_user(UserName=name)
        allowed = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        iam.put_user_policy(UserName=name, PolicyName="read", PolicyDocument=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        yield {**s3_options, "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf")

    @pytest.mark.rotated(0, among="works on S3", one_of=3)
    @pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
    def test_who_may_only_read(
        self, s3_options: Options, uri: str, reader: Options, table_type: str
    ) -> None:
        owners = create(uri, s3_options, table_type=table_type)
        instant = owners.upsert(us_rows(5, ts=1)).instant
        owners.upsert(us_rows(5, ts=2))
        before = listing(owners)

        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0.0  # from now on, policies count
        table = bf.open(uri, fresh(reader))
        assert table.scan().count() == 5
        assert table.check(depth="full").status == "clean"
        for write in (
            lambda: table.upsert(us_rows(5, ts=3)),
            lambda: table.delete(["key-000001"]),
            lambda: table.delete_partitions(["us"]),
            lambda: table.clean(retain=1, dry_run=False),
            lambda: table.archive(min_commits=1, max_commits=1),
            lambda: table.rollback(table.timeline.instants[-1].requested_time),
            lambda: table.savepoint(instant),
            lambda: create(f"{uri}2", fresh(reader)),
        ):
            with pytest.raises(bf.StorageError, match="check the credentials"):
                write()
        if table_type == "MERGE_ON_READ":
            with pytest.raises(bf.StorageError, match="check the credentials"):
                table.compact()
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf")
        assert listing(owners) == before

    def test_a_wrong_key(self, s3_options: Options, uri: str, reader: Options) -> None:
        create(uri, s3_options)
        wrong = {**fresh(reader), "secret": "a-wrong-secret"}
        moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0.0
        with pytest.raises(bf.StorageError) as caught:
            bf.open(uri, wrong)
        assert "a-wrong-secret" not in str(caught.value)


def listing(table: bf.Table) -> list[str]:
    """Return every path of the table."""
    found, folders = [], [""]
    while folders:
        for info in table.store.list(folders.pop()):
            found.append(info.path)
            if info.is_dir:
                folders.append(info.path)
    return sorted(found)
