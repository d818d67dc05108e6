"""Every table real Hudi wrote is clean, at every depth, but for two that Hudi broke itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.testing.recording_store import RecordingStore
from tests.check.planting import check_at, check_soon, found
from tests.golden import GOLDEN
from tests.index.test_assign import index_of

Golden = Callable[[str, str], Path]

BROKEN_BY_HUDI = {"virtual_bulk": {"B001"}, "restored_planned_mor": {"T002"}}
"""A bulk insert without meta columns makes one file group a task in each bucket, and a restore
leaves the log files that are named after a planned compaction, as warnings tell."""


@pytest.mark.rotated(1, one_of=4)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_table_is_clean(golden: Golden, version: str, name: str) -> None:
    root = golden(version, name)
    for depth in ("quick", "full"):
        report = check_soon(root, depth)
        assert found(report) == BROKEN_BY_HUDI.get(name, set()), report.findings
        assert report.status == ("findings" if name in BROKEN_BY_HUDI else "clean")
        assert not [s for s in report.not_checked if "failed" in s]


@pytest.mark.rotated(1)
@pytest.mark.parametrize("name", ["cow", "mor", "mor_compacted", "complexkey", "virtual_complex"])
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_table_is_clean_by_the_index_it_was_written_with(
    golden: Golden, version: str, name: str
) -> None:
    root = golden(version, name)
    index = index_of(name)
    for depth in ("default", "full"):
        report = check_soon(root, depth, index)
        assert report.status == "clean", report.findings
    assert report.checked["keys"] >= bf.open(root).scan(read_optimized=True).count()


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_awkward_keys_are_in_their_buckets(golden: Golden, version: str) -> None:
    report = check_soon(golden(version, "nonpart"), index=bf.SimpleBucketIndex(4))
    assert report.status == "clean"
    assert report.checked["keys"] == 15


@pytest.mark.parametrize("depth", ["quick", "default", "full"])
@pytest.mark.parametrize("name", ["mor", "ch_split", "pending_compaction", "uncommitted"])
def test_check_writes_nothing_and_quick_opens_no_data_file(
    golden: Golden, name: str, depth: str
) -> None:
    root = golden("1.2.0", name)
    store = RecordingStore(bf.open(root).store)
    table = bf.Table(store, bf.open(root).config, bf.Limits(), None)
    table.check(depth)
    assert not store.writes
    read = [
        p for p in store.paths("read", "read_ranges", "open_arrow") if not p.startswith(".hood")
    ]
    assert bool(read) == (depth != "quick")


def test_what_is_old_and_pending_is_stuck_unless_it_may_wait(golden: Golden) -> None:
    for name, expected in [
        ("uncommitted", {"T001"}),
        ("uncommitted_mor", {"T001"}),
        ("pending_compaction", set()),
        ("pending_clustering", set()),
        ("ch_pending", set()),
    ]:
        for version in ("0.15.0", "1.0.2", "1.2.0"):
            report = check_at(golden(version, name), timedelta(days=30))
            assert found(report) == expected, (version, name)
            assert all(finding.severity == "warning" for finding in report.findings)


def test_report_tells_what_was_not_checked(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    quick, default, full = (table.check(depth) for depth in ("quick", "default", "full"))
    assert any("data files" in s for s in quick.not_checked)
    assert any("keys and pages" in s for s in default.not_checked)
    assert any("unique within each partition only" in s for s in full.not_checked)
    assert "base files opened" not in quick.checked
    assert "keys" not in default.checked
    assert full.checked["keys"] > 0
    assert full.checked["pages"] > 0


def test_default_depth_says_that_it_leaves_the_record_index_out(golden: Golden) -> None:
    report = bf.open(golden("1.2.0", "rli")).check()
    assert any("partition record_index" in s for s in report.not_checked)
    assert report.checked["entries of the metadata table"] > 0
    assert report.checked["files in the metadata table"] > 0


def test_partitions_and_since_narrow_the_check(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    everything, one = table.check("full"), table.check("full", partitions=["us"])
    assert one.checked["partitions"] == 1
    assert one.checked["keys"] < everything.checked["keys"]
    assert any("2 partitions" in s for s in one.not_checked)
    last = table.timeline.last
    nothing = table.check("full", since=last.completion_time)
    assert "keys" not in nothing.checked
    assert any("not written to since" in s for s in nothing.not_checked)
    all_but_first = table.check("full", since=table.timeline.first.requested_time)
    assert all_but_first.checked["keys"] == everything.checked["keys"]


def test_wrong_arguments_are_refused(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    with pytest.raises(ValueError, match="no partition 'mars'"):
        table.check(partitions=["mars"])
    with pytest.raises(ValueError, match="depth"):
        table.check("deep")
    with pytest.raises(ValueError, match="max_findings"):
        table.check(max_findings=0)
