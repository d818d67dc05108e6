"""Arguments of a wrong type are refused by name, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bucketfmt as bf
from bucketfmt.format.commit_metadata import (
    CommitMetadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from tests.write.models import SCHEMA, rows
from tests.write.test_bad_input import tree

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


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    table = create(tmp_path, table_version=request.param)
    table.upsert(rows(range(8), ts=1))
    return table


def upsert(**options: Any) -> Call:
    return lambda table: table.upsert(rows([1], ts=2), **options)


REFUSED_WRITES: dict[str, tuple[Call, type[Exception], str]] = {
    "idempotency key": (upsert(idempotency_key=3), TypeError, "idempotency_key is text, not 3"),
    "empty idempotency key": (upsert(idempotency_key=""), ValueError, "idempotency_key is not emp"),
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
    "comments": (lambda t: t.savepoint(comments=b"x"), TypeError, "comments is text"),  # type: ignore[arg-type]
}


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
    with pytest.raises(TypeError, match="extra metadata is text"):
        encode_commit_metadata_json(metadata)
    with pytest.raises(TypeError, match="extra metadata is text"):
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
        with pytest.raises(TypeError, match=r"hash_fields is a list of texts; .*write \['id'\]"):
            make("id")
        with pytest.raises(TypeError, match="hash_fields is a list of texts, and 3 is not text"):
            make([3])
    with pytest.raises(TypeError, match="rules is text"):
        bf.PartitionBucketIndex(4, ["a,1"])  # type: ignore[arg-type]


REFUSED_TABLES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "version of floats": ({"table_version": 6.0}, TypeError, "table_version is an integer"),
    "version of text": ({"table_version": "9"}, TypeError, "table_version is an integer"),
    "name": ({"name": 3}, TypeError, "name is text, not 3"),
}


@pytest.mark.parametrize("name", REFUSED_TABLES)
def test_a_table_whose_arguments_mean_nothing(tmp_path: Path, name: str) -> None:
    given, error, message = REFUSED_TABLES[name]
    with pytest.raises(error, match=message):
        create(tmp_path, **given)
    assert tree(tmp_path) == {}
