"""Which store a path or URL means."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.storage.open import open_above, open_store
from bucketfmt.storage.stores.local_store import LocalStore
from tests.write.models import create_table, rows


def test_an_empty_path_is_not_the_folder_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bucketfmt delete "$TABLE"` without such a variable wrote to the table it was called in."""
    create_table(f"{tmp_path}/t", bf.SimpleBucketIndex(1)).upsert(rows([1], ts=1))
    monkeypatch.chdir(tmp_path / "t")
    with pytest.raises(ValueError, match="a table is at a path or a URL, not"):
        bf.open("")
    assert bf.open(".").scan().count() == 1


@pytest.mark.parametrize("url", ["s3:/lake/t", "gs:/t", "abfss:/c@a/t", "memory:/t"])
def test_a_url_has_two_slashes(url: str) -> None:
    with pytest.raises(ValueError, match=url.replace(":/", "://")):
        open_store(url, {"key": "k"})


@pytest.mark.parametrize("url", ["file://localhost/lake/t", "file://lake/t", "file://"])
def test_the_url_of_a_local_path_has_no_host(url: str) -> None:
    """It was a path below the folder of the process."""
    with pytest.raises(ValueError, match="has three slashes: file:///lake/trips"):
        bf.open(url)


@pytest.mark.parametrize("path", ["c:/t", "a:/b", "x/s3:/t", "/s3:/t", "file:/t", "file:///t"])
def test_other_paths_are_local(path: str) -> None:
    assert isinstance(open_store(path), LocalStore)


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("memory://lake//raw///t//", "memory://lake/raw/t"),
        ("memory:///lake//t", "memory:///lake/t"),
        ("memory://lake//", "memory://lake"),
        ("memory://lake/./raw/x/../t", "memory://lake/raw/t"),
        ("memory://lake/../t", "memory://lake/t"),
        ("simplecache::memory://lake//t", "simplecache::memory://lake//t"),
    ],
)
def test_a_url_is_taken_as_hadoop_takes_it(url: str, uri: str) -> None:
    assert open_store(url).uri == uri


@pytest.mark.parametrize(
    ("url", "above"),
    [
        ("/lake/raw/t", ["/lake/raw", "/lake", "/"]),
        ("memory://lake/raw/t", ["memory://lake/raw", "memory://lake"]),
        ("memory://lake", []),
        ("/", []),
        ("simplecache::memory://lake/t", []),
    ],
)
def test_folders_above(url: str, above: list[str]) -> None:
    assert [store.uri for store in open_above(open_store(url))] == above
