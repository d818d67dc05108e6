"""No path leaves the root of a table: not those that files state, nor those that listings show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.errors import UnsafePathError
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from soak.damage.judge import open_table_in, scan_all
from soak.damage.tables import tiny_table

OUTSIDE = {
    "parent": "../outside",
    "parent below": "us/../../outside",
    "parent with a blank": ".. /outside",
    "absolute": "/etc",
    "absolute twice": "//etc",
    "URL": "file:///etc",
    "drive": "c:/outside",
    "percent": "%2e%2e/outside",
    "percent and slash": "us%2F..%2F..%2Foutside",
    "backslash": "..\\outside",
    "NUL": "us\0/../outside",
    "fullwidth dots": "．．/outside",
}

Edit = Callable[[dict[str, Any], str], None]


def _write_path(commit: dict[str, Any], path: str) -> None:
    for stats in commit["partitionToWriteStats"].values():
        for stat in stats:
            stat["path"] = f"{path}/{stat['path'].rpartition('/')[2]}"


def _base_file(commit: dict[str, Any], path: str) -> None:
    for stats in commit["partitionToWriteStats"].values():
        for stat in stats:
            stat["baseFile"] = f"{path}/{stat.get('baseFile')}"
            stat["logFiles"] = [f"{path}/{name}" for name in stat.get("logFiles") or ()]


def _partition(commit: dict[str, Any], path: str) -> None:
    stats = commit["partitionToWriteStats"]
    for partition in list(stats):
        stats[path] = stats.pop(partition)
        for stat in stats[path]:
            stat["partitionPath"] = path


def _replaced(commit: dict[str, Any], path: str) -> None:
    commit["partitionToReplaceFileIds"] = {path: [f"{path}/x"]}


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("table", ["0.15.0/tiny_mor", "0.15.0/tiny_cow"])
def test_paths_of_written_files(table: str, path: str) -> None:
    store = _with_commits(tiny_table(table), _write_path, path)
    with pytest.raises(UnsafePathError):
        scan_all(open_table_in(store))
    _check_nothing_outside(store)


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
def test_partitions_of_written_files(path: str) -> None:
    store = _with_commits(tiny_table("0.15.0/tiny_mor"), _partition, path)
    with pytest.raises(UnsafePathError):
        scan_all(open_table_in(store))


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("edit", [_base_file, _replaced])
def test_what_else_commits_name_leads_nowhere(edit: Edit, path: str) -> None:
    table = tiny_table("0.15.0/tiny_mor")
    store = _with_commits(table, edit, path)
    assert scan_all(open_table_in(store)) == scan_all(open_table_in(table))
    _check_nothing_outside(store)


def _with_commits(store: MemoryStore, edit: Edit, path: str) -> RecordingStore:
    files = dict(store.files)
    for name, data in files.items():
        if name.endswith("commit"):
            commit = json.loads(data)
            edit(commit, path)
            files[name] = json.dumps(commit).encode()
    return RecordingStore(MemoryStore(files))


def _check_nothing_outside(store: RecordingStore) -> None:
    assert store.operations
    for operation in store.operations:
        assert check_relative_path(operation.path) == operation.path


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("key", ["hoodie.timeline.path", "hoodie.timeline.history.path"])
def test_folders_in_properties(key: str, path: str) -> None:
    table = tiny_table("1.2.0/tiny_mor")
    name = ".hoodie/hoodie.properties"
    lines = [
        line
        for line in table.files[name].decode().splitlines()
        if not line.startswith((f"{key}=", "hoodie.table.checksum="))
    ]
    stated = path.replace("\\", "\\\\").replace("\0", "\\u0000").replace("．", "\\uff0e")
    text = "\n".join([*lines, f"{key}={stated}"])
    store = RecordingStore(table.with_file(name, text.encode()))
    with pytest.raises(UnsafePathError):
        open_table_in(store)
    _check_nothing_outside(store)


@pytest.mark.parametrize(
    "name", ["%2e%2e", "..%2Foutside", "..\\outside", ".. ", "．．", "a\x01b", "c:"]
)
def test_folders_in_listings(golden_copy: Callable[[str, str], Path], name: str) -> None:
    """A local disk can hold names that mean something else elsewhere."""
    table = golden_copy("1.2.0", "tiny_mor")
    (table / name).mkdir()
    shutil.copy(table / "us/.hoodie_partition_metadata", table / name)
    with pytest.raises(UnsafePathError):
        bf.open(str(table)).scan().to_arrow()


@pytest.mark.parametrize(
    "pattern",
    [
        ".hoodie/hoodie.properties",
        ".hoodie/timeline/*.deltacommit",
        ".hoodie/timeline",
        "us/*.parquet",
        "us/.[0-9]*.log.*",
        "us",
    ],
)
def test_links_out_of_the_table(
    golden_copy: Callable[[str, str], Path], tmp_path: Path, pattern: str
) -> None:
    """What the link leads to is as sound as can be, and is not read for all that."""
    table = golden_copy("1.2.0", "tiny_mor")
    found = next(table.glob(pattern))
    shutil.move(found, tmp_path / "outside")
    found.symlink_to(tmp_path / "outside")
    with pytest.raises(UnsafePathError, match="leads out"):
        bf.open(str(table)).scan().to_arrow()


def test_what_no_reader_opens_may_lead_out(
    golden_copy: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """A listing follows no link, so that a link nobody reads is in nobody's way."""
    table = golden_copy("1.2.0", "tiny_mor")
    rows = bf.open(str(table)).scan().to_arrow()
    metafile = table / "us/.hoodie_partition_metadata"
    shutil.move(metafile, tmp_path / "outside")
    metafile.symlink_to(tmp_path / "outside")
    (table / "us/secret.parquet").symlink_to("/etc/passwd")
    (table / "us/folder").symlink_to("/")
    assert bf.open(str(table)).scan().to_arrow() == rows


def test_links_within_the_table(golden_copy: Callable[[str, str], Path]) -> None:
    table = golden_copy("1.2.0", "tiny_mor")
    rows = bf.open(str(table)).scan().to_arrow()
    found = next(table.glob("us/*.parquet"))
    found.rename(table / ".hoodie/moved")
    found.symlink_to("../.hoodie/moved")
    assert bf.open(str(table)).scan().to_arrow() == rows
