"""What completed commits prove about the files that must be there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.errors import UnsafePathError
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.snapshot.data_files.written_files import (
    CommitRecord,
    find_written_files,
    group_committed_files,
)
from bucketfmt.snapshot.snapshot import Snapshot
from tests.golden import GOLDEN

F = "00000001-1ad8-4c4f-84b0-f9f06e6013ae-0"
BASE_1, BASE_3 = f"{F}_0-1-1_1001.parquet", f"{F}_0-2-2_1003.parquet"
LOG_1, LOG_2 = f".{F}_1001.log.1_0-1-1", f".{F}_1001.log.2_0-1-1"
LOG_4 = f".{F}_1003.log.1_0-3-3"


def commit(
    instant: str,
    *files: tuple[str, int, int],
    completed: str | None = None,
    replaced: dict[str, list[str]] | None = None,
) -> CommitRecord:
    """A commit that wrote (name, offset, size in all) into partition `us`."""
    stats = [
        WriteStat(path=f"us/{name}", file_id=F, log_offset=offset, file_size_in_bytes=size)
        for name, offset, size in files
    ]
    metadata = CommitMetadata(
        partition_to_write_stats={"us": stats}, partition_to_replace_file_ids=replaced or {}
    )
    return CommitRecord.from_metadata(instant, completed or instant, metadata, DEFAULT_LIMITS)


def written(*commits: CommitRecord) -> dict[str, tuple[int, tuple[tuple[int, int], ...]]]:
    return {
        path.removeprefix("us/"): (file.size, file.spans)
        for group in group_committed_files(commits).get("us", {}).values()
        for path, file in find_written_files(group).items()
    }


def test_appends_to_one_log_file_add_up() -> None:
    found = written(commit("1001", (BASE_1, 0, 50)), commit("1002", (LOG_1, 0, 100)),
                    commit("1003", (LOG_1, 100, 180), (LOG_2, 0, 7)))  # fmt: skip
    assert found == {
        BASE_1: (50, ((0, 50),)),
        LOG_1: (180, ((0, 100), (100, 180))),
        LOG_2: (7, ((0, 7),)),
    }


def test_what_a_newer_base_file_replaces_may_be_cleaned() -> None:
    commits = [
        commit("1001", (BASE_1, 0, 50)),
        commit("1002", (LOG_1, 0, 100)),
        commit("1003", (BASE_3, 0, 60)),
        commit("1004", (LOG_4, 0, 9)),
    ]
    for order in (commits, commits[::-1]):
        assert set(written(*order)) == {BASE_3, LOG_4}
    assert set(written(*commits[:2])) == {BASE_1, LOG_1}


def test_a_log_completed_behind_a_compaction_is_still_needed() -> None:
    late = commit("1002", (LOG_1, 0, 100), completed="1005")
    assert set(written(late, commit("1003", (BASE_3, 0, 60), completed="1004"))) == {BASE_3, LOG_1}


def test_a_stat_without_path_or_size_names_nothing_sure() -> None:
    empty = CommitMetadata(
        partition_to_write_stats={
            "us": [WriteStat(file_id=F), WriteStat(path="us/.hoodie_partition_metadata")]
        }
    )
    record = CommitRecord.from_metadata("1001", "1001", empty, DEFAULT_LIMITS)
    assert record.files == ()
    assert written(record, commit("1002", (LOG_1, 0, 0))) == {LOG_1: (0, ())}


def test_what_reading_needs_of_a_replacecommit() -> None:
    record = commit("1001", replaced={"us": ["a", "b"], "eu": ["c"]})
    assert record.replaced == (("us", "a"), ("us", "b"), ("eu", "c"))


@pytest.mark.parametrize("path", ["../x_1-1-1_1.parquet", "/etc/passwd", "us/../../x", "a\\..\\b"])
def test_a_path_out_of_the_table_is_refused(path: str) -> None:
    metadata = CommitMetadata(partition_to_write_stats={"us": [WriteStat(path=path)]})
    with pytest.raises(UnsafePathError):
        CommitRecord.from_metadata("1001", "1001", metadata, DEFAULT_LIMITS)


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_files_of_real_tables_are_as_their_commits_recorded(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    """Every file a reader opens is recorded, and its spans fill it from end to end."""
    table = bf.open(golden(version, name))
    snapshot = Snapshot(table.state)
    first = table.timeline.writes.first
    assert first is not None
    for file_slice in snapshot.slices_of(snapshot.partitions):
        for file in file_slice.files:
            if file.written is None:  # its commit is archived, or was never completed
                assert file.name.instant < first.requested_time or version == "0.15.0"
                continue
            assert file.size is not None
            assert not file.is_short
            position = 0
            for start, end in sorted(file.written.spans):
                assert start <= position < end
                position = end
            assert position == file.written.size == file.size
