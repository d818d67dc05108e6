"""Changes of buckets that cannot be: refused with the reason, before anything is written."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.timeline.table_properties import change_properties
from tests.resize.test_resize_ring import LARGE, SMALL, filled
from tests.write.models import SCHEMA, Model, create_table, made_once, rows

_RINGS = ".hoodie/.bucket_index/consistent_hashing_metadata"


@made_once
def _simple(path: Path, _: int = 0) -> tuple[bf.Table, Model]:
    table = create_table(path, bf.SimpleBucketIndex(2))
    table.upsert(rows(range(9), 1))
    return table, Model()


def _files(root: Path) -> dict[str, bytes]:
    """Return all files but those of locks, which are taken to look."""
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if "/.locks/" not in name}


def _change_ring(root: Path, change: Callable[[list[dict[str, object]]], object]) -> None:
    (path,) = (root / _RINGS / "us").glob("*.hashing_meta")
    ring = json.loads(path.read_text())
    change(ring["nodes"])
    path.write_text(json.dumps(ring))


def _state_ring_without_plan(root: Path) -> None:
    """State a ring as that of a resize that is on no timeline."""
    (path,) = (root / _RINGS / "us").glob("*.hashing_meta")
    ring = json.loads(path.read_text())
    for node in ring["nodes"]:
        node["fileIdPrefix"] = str(uuid.uuid4())
    ring |= {"instant": "20990101000000000", "seqNo": 1}
    path.with_name("20990101000000000.hashing_meta").write_text(json.dumps(ring))
    path.with_name("20990101000000000.commit").write_text("")


_TOO_MANY = {"max_file_size": SMALL, "max_buckets": 1_000_001}


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda t: t.rehash(0), ValueError, "1 to 99,999,999"),
        (lambda t: t.rehash(1_048_577), ValueError, "'ap' cannot get 1,048,577 buckets"),
        (lambda t: t.rescale("us,1048577"), ValueError, "'us' cannot get 1,048,577 buckets"),
        (lambda t: t.migrate(bf.ConsistentHashingIndex(2)), ValueError, "is copy-on-write"),
        (lambda t: t.resize(), bf.UnsupportedError, "another number of buckets by rehash"),
    ],
)
def test_of_numbered_buckets(
    tmp_path: Path, act: Callable[[bf.Table], object], error: type[Exception], message: str
) -> None:
    table, _ = _simple(tmp_path / "t")
    before = _files(tmp_path / "t")
    with pytest.raises(error, match=message):
        act(table)
    assert _files(tmp_path / "t") == before


@pytest.mark.parametrize(
    ("prepare", "act", "error", "message"),
    [
        (lambda _: None, lambda t: t.resize(**_TOO_MANY), bf.LimitError, "ring_nodes_max"),
        (
            lambda _: None,
            lambda t: t.rehash(8),
            bf.UnsupportedError,
            "with consistent:4; it is for a simple bucket index",
        ),
        (
            lambda _: None,
            lambda t: t.rescale("us,4"),
            bf.UnsupportedError,
            "with consistent:4; it is for a simple bucket index",
        ),
        (
            lambda root: _change_ring(root, lambda nodes: nodes.pop(1)),
            lambda t: t.resize(max_file_size=SMALL),
            bf.CorruptError,
            "on no node of the ring",
        ),
        (
            lambda root: _change_ring(root, list.reverse),
            lambda t: t.resize(max_file_size=SMALL),
            bf.CorruptError,
            "ascend strictly",
        ),
        (
            lambda root: bf.open(root).schedule_resize(max_file_size=SMALL),
            lambda t: t.schedule_resize(max_file_size=LARGE, partitions=["us"]),
            bf.ConflictError,
            "in the plan of",
        ),
        (
            _state_ring_without_plan,
            lambda t: t.resize(max_file_size=SMALL),
            bf.CorruptError,
            "on no node of the ring",
        ),
        (
            lambda root: (
                bf.open(root).schedule_resize(max_file_size=SMALL),
                shutil.rmtree(root / _RINGS / "us"),
            ),
            lambda t: t.resize(),
            bf.CorruptError,
            "without hashing metadata",
        ),
    ],
    ids=[
        "too many",
        "rehash",
        "rescale",
        "a gap",
        "out of order",
        "planned",
        "ring without plan",
        "no ring",
    ],
)
def test_of_rings(
    tmp_path: Path,
    prepare: Callable[[Path], object],
    act: Callable[[bf.Table], object],
    error: type[Exception],
    message: str,
) -> None:
    filled(tmp_path / "t")
    prepare(tmp_path / "t")
    before = _files(tmp_path / "t")
    with pytest.raises(error, match=message):
        act(bf.open(tmp_path / "t"))
    assert _files(tmp_path / "t") == before


@pytest.mark.parametrize(
    ("index", "kind", "message"),
    [
        (lambda: bf.ConsistentHashingIndex(4), "COPY_ON_WRITE", 'table_type="MERGE_ON_READ"'),
        (lambda: bf.ExtendibleHashingIndex(12), "COPY_ON_WRITE", "a power of two, not 12"),
    ],
)
def test_of_new_tables(tmp_path: Path, index: Any, kind: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bf.create(tmp_path / "t", schema=SCHEMA, record_key=["id"], index=index(), table_type=kind)
    assert not list(tmp_path.iterdir())


def test_a_ring_of_a_copy_on_write_table_is_not_resized(tmp_path: Path) -> None:
    """No release writes such a table; properties may state it all the same."""
    table, _ = _simple(tmp_path / "t")
    stated = bf.ConsistentHashingIndex(2).properties(["id"])
    change_properties(table.store, DEFAULT_LIMITS, 0, lambda old: {**old, **stated}, lambda: None)
    before = _files(tmp_path / "t")
    with pytest.raises((bf.UnsupportedError, bf.IndexUnknownError)):
        bf.open(tmp_path / "t").resize(max_file_size=SMALL)
    assert _files(tmp_path / "t") == before
