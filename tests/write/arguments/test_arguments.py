"""Arguments of a wrong type are refused by name, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from tests.write.arguments.test_bad_input import tree
from tests.write.models import SCHEMA, rows

pytestmark = pytest.mark.rotated

Call = Callable[[bf.Table], object]


def create(root: Path, **given: Any) -> bf.Table:
    arguments: dict[str, Any] = {
        "schema": SCHEMA,
        "record_key": ["id"],
        "partition_by": ["region"],
        "ordering": ["ts"],
        "index": bf.SimpleBucketIndex(4),
    }
    return bf.create(str(root / "t"), **(arguments | given))


@pytest.fixture(scope="module", params=[6, 9])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = create(tmp_path_factory.mktemp("made"), table_version=request.param)
    table.upsert(rows(range(8), ts=1))
    return Path(table.uri)


@pytest.fixture
def table(made: Path, tmp_path: Path) -> bf.Table:
    return bf.open(shutil.copytree(made, tmp_path / made.name))


def upsert(**options: Any) -> Call:
    return lambda table: table.upsert(rows([1], ts=2), **options)


REFUSED_WRITES: dict[str, tuple[Call, type[Exception], str]] = {
    "idempotency key": (upsert(idempotency_key=3), TypeError, "idempotency_key is text, not 3"),
    "empty idempotency key": (upsert(idempotency_key=""), ValueError, "idempotency_key is not emp"),
    "no partition": (lambda t: t.delete_partitions([]), ValueError, "paths is empty: name"),
    "half a surrogate": (upsert(idempotency_key="\ud800"), ValueError, "idempotency_key is text"),
    "commit metadata of numbers": (
        upsert(commit_metadata={"a": 1}),
        TypeError,
        "commit_metadata is a dict of texts; write 'a': '1'",
    ),
    "commit metadata by numbers": (
        upsert(commit_metadata={1: "a"}),
        TypeError,
        "commit_metadata is a dict of texts; write '1': 'a'",
    ),
    "commit metadata in a list": (
        upsert(commit_metadata=[("a", "1")]),
        TypeError,
        "commit_metadata is a dict of texts",
    ),
    "null commit metadata": (
        upsert(commit_metadata={"a": None}),
        TypeError,
        "commit_metadata is a dict of texts",
    ),
    "empty entry": (upsert(commit_metadata={"": "1"}), ValueError, "a key of commit_metadata is"),
    "the schema": (upsert(commit_metadata={"schema": "{}"}), ValueError, "'schema' is set by the"),
    "the latest schema": (
        upsert(commit_metadata={"latest_schema": "{}"}),
        ValueError,
        "'latest_schema' is set by the writer",
    ),
    "the key as an entry": (
        upsert(commit_metadata={"bucketfmt.idempotency_key": "a"}),
        ValueError,
        "is set by the writer",
    ),
    "read_at": (upsert(read_at="2020"), TypeError, "read_at is the `timeline` of a table"),
    "retries": (upsert(retries="1"), TypeError, "retries is an integer"),
    "retries of True": (upsert(retries=True), TypeError, "retries is an integer"),
    "negative retries": (upsert(retries=-1), ValueError, "retries is 0 or more, not -1"),
    "progress": (upsert(progress=3), TypeError, "progress is a function, not 3"),
    "evolve": (upsert(evolve="no"), TypeError, "evolve is True or False, not 'no'"),
    "missing": (upsert(missing=3), ValueError, "missing is error, null or keep, not 3"),
    "find_commit": (lambda t: t.find_commit(3), TypeError, "idempotency_key is text"),  # type: ignore[arg-type]
    "user": (lambda t: t.savepoint(user=3), TypeError, "user is text, not 3"),  # type: ignore[arg-type]
    "task": (
        lambda t: t.resume_write(3),
        TypeError,
        "task is the result of StartedWrite.hand_over",
    ),  # type: ignore[arg-type]
    "living task": (
        lambda t: t.keep_alive(3),
        TypeError,
        "task is the result of StartedWrite.hand_over",
    ),  # type: ignore[arg-type]
    "clean for real": (lambda t: t.clean(dry_run="no"), TypeError, "dry_run is True or False"),  # type: ignore[arg-type]
    "retain": (lambda t: t.clean(retain="1"), TypeError, "retain is an integer"),  # type: ignore[arg-type]
    "retain nothing": (lambda t: t.clean(retain=0), ValueError, "retain is 1 or more, not 0"),
    "policy": (lambda t: t.clean(policy=3), ValueError, "policy is KEEP_LATEST"),  # type: ignore[arg-type]
    "min_commits": (lambda t: t.archive(min_commits="1"), TypeError, "min_commits is an integer"),  # type: ignore[arg-type]
    "max_commits": (lambda t: t.archive(max_commits=2.5), TypeError, "max_commits is an integer"),  # type: ignore[arg-type]
    "archive for real": (lambda t: t.archive(dry_run=0), TypeError, "dry_run is True or False"),  # type: ignore[arg-type]
    "rollback": (lambda t: t.rollback(3), TypeError, "instant is text"),  # type: ignore[arg-type]
    "rollback for real": (lambda t: t.rollback("1", dry_run="no"), TypeError, "dry_run is True"),  # type: ignore[arg-type]
    "savepoint": (lambda t: t.savepoint(3), TypeError, "instant is text"),  # type: ignore[arg-type]
    "savepoint for real": (lambda t: t.savepoint(dry_run="no"), TypeError, "dry_run is True"),  # type: ignore[arg-type]
    "no savepoint": (lambda t: t.delete_savepoint(3), TypeError, "instant is text"),  # type: ignore[arg-type]
    "restore": (lambda t: t.restore(3), TypeError, "savepoint is text"),  # type: ignore[arg-type]
    "min_log_files": (lambda t: t.compact(min_log_files="1"), TypeError, "min_log_files is an int"),  # type: ignore[arg-type]
    "preview": (lambda t: t.preview_compaction(min_log_files=1.5), TypeError, "min_log_files is"),  # type: ignore[arg-type]
    "codec": (lambda t: t.compact(codec=3), ValueError, "codec is .* or none, not 3"),  # type: ignore[arg-type]
    "columns of a write": (
        lambda t: t.start_write("upsert", 3),  # type: ignore[arg-type]
        TypeError,
        "schema is a pyarrow Schema, not 3",
    ),
    "no partitions": (lambda t: t.delete_partitions(None), TypeError, "paths is a list of texts"),  # type: ignore[arg-type]
    "overwrite": (
        lambda t: t.insert_overwrite(rows([1], ts=2), table="no"),  # type: ignore[arg-type]
        TypeError,
        "table is True or False",
    ),
    "filter of a delete": (lambda t: t.delete(filter=3), TypeError, "filter is a text such as"),  # type: ignore[arg-type]
    "operation column": (
        lambda t: t.start_write(
            "upsert", SCHEMA.append(pa.field("_hoodie_operation", pa.string())), evolve=True
        ),
        bf.SchemaError,
        "_hoodie_operation is Hudi's own",
    ),
    "Hudi's column in capitals": (
        lambda t: t.upsert(
            rows([1], ts=2).append_column("_HOODIE_FILE_NAME", pa.array(["x"])), evolve=True
        ),
        bf.SchemaError,
        "_HOODIE_FILE_NAME is Hudi's own",
    ),
    "deletes that are text": (
        lambda t: t.upsert(
            rows([1], ts=2).append_column("_hoodie_is_deleted", pa.array(["true"])), evolve=True
        ),
        bf.SchemaError,
        "_hoodie_is_deleted marks rows as deleted and is bool, not string",
    ),
    "comments": (lambda t: t.savepoint(comments=b"x"), TypeError, "comments is text"),  # type: ignore[arg-type]
}


@pytest.mark.rotated(1)
@pytest.mark.parametrize("name", REFUSED_WRITES)
def test_a_write_whose_arguments_mean_nothing(table: bf.Table, name: str) -> None:
    call, error, message = REFUSED_WRITES[name]
    before = tree(Path(table.uri))
    with pytest.raises(error, match=message):
        call(table)
    assert tree(Path(table.uri)) == before
    assert bf.open(table.uri).scan().count() == 8


@pytest.mark.parametrize("extra", [{"a": 1}, {1: "a"}, {"a": ["b"]}, {b"a": "b"}])
def test_a_commit_is_never_encoded_with_extra_metadata_that_is_not_text(extra: Any) -> None:
    metadata = CommitMetadata(extra_metadata=extra)
    with pytest.raises(TypeError, match="extra metadata must be text"):
        encode_commit_metadata_json(metadata)
    with pytest.raises(TypeError, match="extra metadata must be text"):
        encode_commit_metadata_avro(metadata, replace=False)


@pytest.mark.parametrize("count", [1.5, 2.0, True, "4", None])
def test_numbers_of_buckets_are_integers(count: Any) -> None:
    with pytest.raises(TypeError, match="num_buckets is an integer"):
        bf.SimpleBucketIndex(count)
    with pytest.raises(TypeError, match="num_buckets is an integer"):
        bf.ConsistentHashingIndex(count)
    with pytest.raises(TypeError, match="default is an integer"):
        bf.PartitionBucketIndex(count, "a,1")
    if count is not None:
        with pytest.raises(TypeError, match="min_buckets is an integer"):
            bf.ConsistentHashingIndex(4, min_buckets=count)
        with pytest.raises(TypeError, match="max_buckets is an integer"):
            bf.ConsistentHashingIndex(4, max_buckets=count)


def test_an_index_is_made_of_plain_values() -> None:
    index = bf.SimpleBucketIndex(np.int32(4), ["id"])  # type: ignore[arg-type]
    assert index == bf.SimpleBucketIndex(4, ("id",))
    assert type(index.num_buckets) is int
    assert hash(index) == hash(bf.SimpleBucketIndex(4, ("id",)))
    for make in (
        lambda fields: bf.SimpleBucketIndex(4, fields),
        lambda fields: bf.ConsistentHashingIndex(4, hash_fields=fields),
        lambda fields: bf.PartitionBucketIndex(4, "a,1", fields),
    ):
        assert make("id") == make(("id",))
        with pytest.raises(TypeError, match="hash_fields is a list of texts, and 3 is not text"):
            make([3])
    with pytest.raises(TypeError, match="rules is text"):
        bf.PartitionBucketIndex(4, ["a,1"])  # type: ignore[arg-type]


REFUSED_TABLES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "version of floats": ({"table_version": 6.0}, TypeError, "table_version is an integer"),
    "version of text": ({"table_version": "9"}, TypeError, "table_version is an integer"),
    "name": ({"name": 3}, TypeError, "name is text, not 3"),
    "number to part by": ({"partition_by": [3]}, TypeError, "partition_by is a list of texts, and"),
    "nothing to part by": ({"partition_by": None}, TypeError, "partition_by is a list of texts"),
    "no ordering": ({"ordering": None}, TypeError, "ordering is a list of texts, not None"),
    "keys": ({"record_key": 3}, TypeError, "record_key is a list of texts, not 3"),
    "list of properties": ({"properties": ["a"]}, TypeError, "properties is a dict of texts"),
    "properties": ({"properties": {"a": 1}}, TypeError, "properties is a dict of texts; write"),
    "limits": ({"limits": 3}, TypeError, "limits is a value such as Limits"),
    "writer": ({"writer": {}}, TypeError, "writer is a value such as WriterConfig"),
    "index": ({"index": 3}, TypeError, "index is a value such as SimpleBucketIndex"),
    "codec": (
        {"properties": {"hoodie.parquet.compression.codec": "lzx"}},
        ValueError,
        "hoodie.parquet.compression.codec is one of zstd, snappy, .*, not 'lzx'",
    ),
    "operation column": (
        {"schema": SCHEMA.append(pa.field("_hoodie_operation", pa.string()))},
        bf.SchemaError,
        "_hoodie_operation is Hudi's own",
    ),
    "deletes that are numbers": (
        {"schema": SCHEMA.append(pa.field("_hoodie_is_deleted", pa.int32()))},
        bf.SchemaError,
        "_hoodie_is_deleted marks rows as deleted and is bool, not int32",
    ),
}


@pytest.mark.parametrize("name", REFUSED_TABLES)
def test_a_table_whose_arguments_mean_nothing(tmp_path: Path, name: str) -> None:
    given, error, message = REFUSED_TABLES[name]
    with pytest.raises(error, match=message):
        create(tmp_path, **given)
    assert tree(tmp_path) == {}


def test_a_table_with_a_bool_that_marks_deletes(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    assert create(tmp_path, schema=schema).schema.field("_hoodie_is_deleted").type == pa.bool_()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limits": 3}, "limits is a value such as Limits"),
        ({"writer": 3}, "writer is a value such as WriterConfig"),
        ({"writer": {}}, "writer is a value such as WriterConfig"),
        ({"index": 3}, "index is a value such as SimpleBucketIndex"),
        ({"storage_options": "x"}, "storage_options is a dict"),
    ],
)
def test_opening_with_arguments_of_other_types(
    table: bf.Table, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        bf.open(table.uri, **given)
    if "writer" not in given:
        with pytest.raises(TypeError, match=message):
            bf.check_table(table.uri, **given)


REFUSED_READS: dict[str, tuple[Call, str]] = {
    "columns": (lambda t: t.scan(3), "columns is a list of texts, not 3"),  # type: ignore[arg-type]
    "changed columns": (lambda t: t.changes(None, columns=3), "columns is a list of texts"),  # type: ignore[arg-type]
    "columns to look up": (lambda t: t.lookup(["a"], 3), "columns is a list of texts"),  # type: ignore[arg-type]
    "number of a column": (lambda t: t.scan([3]), "columns is a list of texts, and 3 is not"),  # type: ignore[list-item]
    "filter": (lambda t: t.scan(filter=3), "filter is a text such as"),  # type: ignore[arg-type]
    "filter of numbers": (lambda t: t.scan(filter=[3]), "filter is a list of .* 3 is not"),  # type: ignore[list-item]
    "filter of a dict": (lambda t: t.scan(filter={"id": "a"}), "filter is a text such as"),  # type: ignore[arg-type]
    "limit": (lambda t: t.scan(limit="1"), "limit is an integer"),  # type: ignore[arg-type]
    "read_optimized": (lambda t: t.scan(read_optimized="no"), "read_optimized is True or False"),  # type: ignore[arg-type]
    "meta_columns": (lambda t: t.scan(meta_columns="no"), "meta_columns is True or False"),  # type: ignore[arg-type]
    "as_of": (lambda t: t.scan(as_of=3), "text or a datetime"),  # type: ignore[arg-type]
    "places": (lambda t: t.locate(["a"], 3), "partitions is a list of texts, not 3"),  # type: ignore[arg-type]
    "locator": (lambda t: t.locator(3), "partitions is a list of texts"),  # type: ignore[arg-type]
    "checked": (lambda t: t.check(partitions=3), "partitions is a list of texts"),  # type: ignore[arg-type]
    "findings": (lambda t: t.check(max_findings="1"), "max_findings is an integer"),  # type: ignore[arg-type]
    "told": (lambda t: t.check(progress=3), "progress is a function"),  # type: ignore[arg-type]
}


@pytest.mark.rotated(1)
@pytest.mark.parametrize("name", REFUSED_READS)
def test_a_read_whose_arguments_mean_nothing(table: bf.Table, name: str) -> None:
    call, message = REFUSED_READS[name]
    with pytest.raises(TypeError, match=message):
        call(table)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"pin_index": "no"}, TypeError, "pin_index is True or False, not 'no'"),
        ({"lock": "zookeeper"}, ValueError, "lock is auto, storage, filesystem or process"),
        ({"lock": 3}, ValueError, "lock is auto"),
        ({"metadata_table": "keep"}, ValueError, "metadata_table is sync, drop or refuse"),
        ({"concurrency": None}, ValueError, "concurrency is optimistic or non_blocking"),
        ({"lock_timeout_s": "1"}, TypeError, "lock_timeout_s is a number"),
        ({"lock_lease_s": 0.5}, ValueError, "lock_lease_s is 1"),
        ({"lock_timeout_s": -1}, ValueError, "lock_timeout_s is 0 or more"),
        ({"lock_timeout_s": float("nan")}, ValueError, "lock_timeout_s is 0 or more"),
        ({"lock_expire_minutes": 0.5}, TypeError, "lock_expire_minutes is an integer"),
        ({"clock_skew_s": True}, TypeError, "clock_skew_s is a number"),
        ({"heartbeat_interval_s": None}, TypeError, "heartbeat_interval_s is a number"),
        ({"machine": 3}, TypeError, "machine is a Machine"),
    ],
)
def test_settings_of_a_writer(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bf.WriterConfig(**given)


def test_limits_are_integers() -> None:
    with pytest.raises(TypeError, match="ring_nodes_max is an integer"):
        bf.Limits(ring_nodes_max="1")  # type: ignore[arg-type]
