from __future__ import annotations

import os
from pathlib import Path

import pytest

from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.testing.unsynced_disk import UnsyncedDisk


def files(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t" / "d").mkdir(parents=True)
    (tmp_path / "t" / "d" / "old").write_bytes(b"old")
    return tmp_path / "t"


def test_names_are_lost_until_the_folder_is_synced(root: Path) -> None:
    with UnsyncedDisk(root) as disk:
        sync(root / "d" / "old")
        os.link(root / "d" / "old", root / "d" / "new")
        os.mkdir(root / "e")
        disk.lose_power()
    assert files(root) == {"d/old": b"old"}
    assert not (root / "e").exists()
    with UnsyncedDisk(root) as disk:
        sync(root / "d" / "old")
        os.link(root / "d" / "old", root / "d" / "new")
        sync(root / "d")
        disk.lose_power()
    assert files(root) == {"d/old": b"old", "d/new": b"old"}


def test_content_is_lost_until_the_file_is_synced(root: Path) -> None:
    with UnsyncedDisk(root) as disk:
        (root / "d" / "tmp").write_bytes(b"new")
        os.replace(root / "d" / "tmp", root / "d" / "old")
        sync(root / "d")
        disk.lose_power()
    assert files(root) == {"d/old": b""}


def test_what_was_replaced_or_removed_comes_back(root: Path) -> None:
    with UnsyncedDisk(root) as disk:
        (root / "d" / "tmp").write_bytes(b"new")
        os.replace(root / "d" / "tmp", root / "d" / "old")
        os.unlink(root / "d" / "old")
        os.rmdir(root / "d")
        assert not (root / "d").exists()
        disk.lose_power()
    assert files(root) == {"d/old": b"old"}


def test_what_lies_elsewhere_is_left_alone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"1")
    with UnsyncedDisk(root) as disk:
        os.unlink(tmp_path / "elsewhere")
        disk.lose_power()
    assert sorted(os.listdir(tmp_path)) == ["t"]


def test_no_verb_of_a_local_store_returns_before_its_effect_is_safe(root: Path) -> None:
    """One after another on one table, each with the power failing right after it."""
    store = LocalStore(str(root))
    store.put_if_absent("gone/x/y", b"1")
    _, version = store.read_versioned("d/old", 9)
    expected = files(root)
    for act, effect in (
        (lambda: store.put_if_absent("a/b/c", b"1"), {"a/b/c": b"1"}),
        (lambda: store.put_if_absent("empty", b""), {"empty": b""}),
        (lambda: store.replace("a/b/c", b"22"), {"a/b/c": b"22"}),
        (lambda: store.replace("e/new", b"3"), {"e/new": b"3"}),
        (lambda: store.replace_if("d/old", b"newer", version), {"d/old": b"newer"}),
        (lambda: store.delete("e/new"), {"e/new": None}),
        (lambda: store.delete_tree("gone"), {"gone/x/y": None}),
    ):
        with UnsyncedDisk(root) as disk:
            act()
            disk.lose_power()
        expected = {p: data for p, data in {**expected, **effect}.items() if data is not None}
        assert files(root) == expected
