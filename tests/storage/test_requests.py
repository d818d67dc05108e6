"""Requests that stores count."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.errors import NotFoundError
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.storage.stores.fsspec_store import FsspecStore


def made_by(run: Callable[[], object]) -> int:
    before = bf.requests_made()
    run()
    return bf.requests_made() - before


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_each_verb_is_a_request(tmp_path: Path, kind: str) -> None:
    root = open_store(tmp_path if kind == "local" else f"memory://{uuid.uuid4().hex}")
    store: Store = FolderStore(root, "folder")  # which makes no requests of its own
    assert made_by(lambda: store.put_if_absent("a", b"0123456789")) == 1
    assert made_by(lambda: store.put_if_absent("a", b"")) == 1
    assert made_by(lambda: store.read("a", 10)) == 1
    assert made_by(lambda: store.list("")) == 1
    assert made_by(lambda: store.info("a")) == 1
    assert made_by(lambda: store.delete("b")) == 1
    before = bf.requests_made()
    with pytest.raises(NotFoundError):
        store.read("b", 10)
    assert bf.requests_made() == before + 1


@pytest.mark.parametrize(("is_remote", "of_ranges", "of_reads"), [(False, 1, 0), (True, 3, 2)])
def test_ranges_and_reads_of_an_open_file_are_requests_over_a_network(
    tmp_path: Path, is_remote: bool, of_ranges: int, of_reads: int
) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    store: Store = FsspecStore(f"file://{tmp_path}", {}) if is_remote else open_store(tmp_path)
    ranges = [(0, 2), (4, 2), (8, 2)]
    assert made_by(lambda: store.read_ranges("a", ranges)) == of_ranges
    with store.open_arrow("a") as file:
        assert made_by(lambda: [file.read(length) for _, length in ranges[1:]]) == of_reads


def test_an_empty_range_of_an_object_is_no_request(s3_options: dict[str, Any]) -> None:
    store = open_store(f"s3://tables/{uuid.uuid4().hex}", s3_options)
    store.put_if_absent("a", b"0123456789")
    for ranges, of_ranges in (
        ([], 0),
        ([(3, 0)], 0),
        ([(3, 0), (1, 2)], 1),
        ([(0, 1), (3, 0), (1, 2)], 2),
    ):
        assert made_by(lambda ranges=ranges: store.read_ranges("a", ranges)) == of_ranges
