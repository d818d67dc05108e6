"""Scans in groups of buckets, and reports of some partitions put together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.choices import Depth
from tests.golden import GOLDEN
from tests.same_rows import assert_same

Golden = Callable[[str, str], Path]

BUCKETED = [(v, n) for v, n in GOLDEN if v == "1.2.0" and n in {
    "mor", "cow", "ch_split", "ch_init", "complexkey", "nonpart", "partrules", "intkey", "tiny_ch"
}]  # fmt: skip


@pytest.mark.parametrize(("version", "name"), BUCKETED)
def test_groups_hold_every_row_in_the_group_of_its_hash(
    golden: Golden, version: str, name: str
) -> None:
    # What the keys of these two prove is too little.
    indexes = {"nonpart": bf.SimpleBucketIndex(4), "complexkey": bf.SimpleBucketIndex(4, ("id",))}
    scan = bf.open(golden(version, name), index=indexes.get(name)).scan()
    groups, reader = bf.group_buckets(scan), scan.task_reader()
    buckets = groups.buckets
    found = []
    for number, tasks in enumerate(groups.tasks[0]):
        for _, task in tasks:
            for batch in reader.read(task.payload):
                found.append(batch)
                if buckets.columns.names_single is not None:
                    values = [batch.column(field) for field in buckets.columns.fields]
                    assert set(buckets.assign_rows(values).tolist()) <= {number}
    assert len(groups.tasks[0]) == buckets.num_buckets
    assert_same(pa.Table.from_batches(found, scan.schema), scan.to_arrow())


def test_two_tables_are_in_groups_of_one_numbering(golden: Golden) -> None:
    scans = [bf.open(golden("1.2.0", name)).scan() for name in ("mor", "cow")]
    both = bf.group_buckets(*scans)
    assert len(both.tasks) == 2
    assert {len(groups) for groups in both.tasks} == {both.buckets.num_buckets}


def test_an_index_that_tells_no_bucket_is_refused(golden: Golden) -> None:
    with pytest.raises(bf.IndexUnknownError):
        bf.group_buckets(bf.open(golden("1.2.0", "bloom")).scan())


@pytest.mark.parametrize("depth", ["default", "full"])
def test_reports_of_all_partitions_are_the_report_of_the_table(
    golden: Golden, depth: Depth
) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    paths = table.partitions_to_check()
    assert len(paths) > 1
    parts = [table.check(depth, [path]) for path in paths]
    merged, whole = bf.merge_reports(parts, 100), table.check(depth)
    assert merged.checked == whole.checked
    assert (merged.status, merged.findings) == (whole.status, whole.findings)
    assert not any("not asked for" in sentence for sentence in merged.not_checked)
    assert bf.CheckReport.from_dict(whole.to_dict()) == whole
    with pytest.raises(ValueError, match="no reports"):
        bf.merge_reports([], 100)
