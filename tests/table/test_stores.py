"""A table reads the same wherever it lies: on disk, in memory, on S3."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.open import open_store
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config
from tests.check.planting import Patient
from tests.same_rows import canonical
from tests.table.tables import opened_files

Golden = Callable[[str, str], Path]
Place = Callable[[Path], tuple[str, dict[str, Any]]]

TABLES = [("0.15.0", "mor"), ("1.2.0", "cow"), ("1.0.2", "parquet_log"), ("1.2.0", "tiny_ch")]


@pytest.fixture(params=["memory", "s3"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Copies a table to another store; returns its URL and the options that reach it."""
    options: dict[str, Any] = {}
    if request.param == "s3":
        options = request.getfixturevalue("s3_options")
    file_system = fsspec.filesystem(request.param, **options)
    folder = f"tables/{uuid.uuid4().hex}"

    def copy(root: Path) -> tuple[str, dict[str, Any]]:
        for file in root.rglob("*"):
            if file.is_file() and not file.name.endswith(".crc"):
                relative = file.relative_to(root).as_posix()
                file_system.pipe_file(f"{folder}/{relative}", file.read_bytes())
        return f"{request.param}://{folder}", options

    yield copy
    file_system.rm(folder, recursive=True)


def open_recorded(uri: str, options: dict[str, Any]) -> tuple[bf.Table, RecordingStore]:
    store = RecordingStore(open_store(uri, options))
    return bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None), store


def answers(table: bf.Table) -> list[pa.Table]:
    """What a reader may ask of a table."""
    keys = ["key-000007", "key-000125", "no such key"]
    return [
        table.scan(meta_columns=True).to_arrow(),
        table.scan(meta_columns=True).to_reader().read_all(),
        table.scan(["id"], filter=[("id", "=", keys[0])]).to_arrow(),
        table.scan(read_optimized=True).to_arrow(),
        table.scan(as_of=table.timeline.writes.completed.instants[0].requested_time).to_arrow(),
        table.changes(None).to_arrow(),
        table.locate(keys),
        table.lookup(keys),
        table.inspect.files(),
        table.inspect.buckets(),
    ]


@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "name"), TABLES)
def test_the_same_rows_and_nothing_written(
    golden: Golden, place: Place, version: str, name: str
) -> None:
    root = golden(version, name)
    table, store = open_recorded(*place(root))
    for remote, local in zip(answers(table), answers(bf.open(root)), strict=True):
        assert canonical(remote) == canonical(local)
    assert (
        table.check(depth="full").to_dict()["findings"]
        == (bf.open(root).check(depth="full").to_dict()["findings"])
    )
    assert store.writes == []


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_locating_opens_no_data_file(golden: Golden, place: Place, version: str) -> None:
    root = golden(version, "tiny_ch")  # its ring states the index
    table, store = open_recorded(*place(root))
    keys = bf.open(root).scan(["id"]).to_arrow()["id"].to_pylist()
    assert table.locate(keys) == bf.open(root).locate(keys)
    assert opened_files(store) == []
    assert store.writes == []


def test_a_table_that_is_not_there(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("no table")
    uri, options = place(tmp_path)
    with pytest.raises(bf.TableNotFoundError, match="give the folder above"):
        bf.open(uri, options)


def test_a_file_that_is_lost(golden_copy: Golden, place: Place) -> None:
    root = golden_copy("1.2.0", "tiny_mor")
    log_file = Patient(root).log_file("us")
    log_file.unlink()
    uri, options = place(root)
    with pytest.raises(bf.CorruptError, match="restore it") as caught:
        bf.open(uri, options).scan().to_arrow()
    assert caught.value.path == log_file.relative_to(root).as_posix()
