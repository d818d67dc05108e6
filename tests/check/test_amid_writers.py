"""A check amid the work of a writer: what goes meanwhile is not damage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial

import pytest

import bucketfmt as bf
from bucketfmt.check.report import CheckReport
from bucketfmt.check.run import check_table
from bucketfmt.choices import Depth
from bucketfmt.testing.interleavings import interleave_everywhere
from soak.works.works import KINDS, NEXT, Kind, Work, grow_old, make, rows

pytestmark = pytest.mark.rotated

SIMPLE = [
    kind for kind in KINDS if isinstance(kind.index, bf.SimpleBucketIndex) and kind.metadata == ()
]
NOW = datetime(2023, 11, 15, tzinfo=timezone.utc)
"""About when the simulated processes work."""


def check(table: bf.Table, depth: Depth = "quick") -> CheckReport:
    config, finder = table.config, table._index_finder
    return check_table(table.store, config, table.limits, finder, depth=depth, now=NOW)


def rehash_and_archive(table: bf.Table) -> None:
    table.rehash(4)
    table.upsert(rows(("k0", 6, "a")))
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=1, max_commits=1)


@pytest.mark.parametrize("kind", SIMPLE, ids=str)
def test_a_write_that_is_taken_back(kind: Kind) -> None:
    """The timeline that was listed has its inflight file, and the folder has neither any more."""
    base = make(kind, Work("upsert", check, dies=True))
    upsert = partial(bf.Table.upsert, data=rows(*NEXT))
    met = 0
    for each in interleave_everywhere(base, check, upsert, process=2, writer=kind.writer):
        assert each.second.error is None
        assert isinstance(each.first.value, CheckReport), each
        assert each.first.value.findings == (), each
        met += 1
    assert met > 3


@pytest.mark.parametrize("kind", SIMPLE, ids=str)
def test_a_rehash_that_is_archived(kind: Kind) -> None:
    """Then only the properties tell the number of buckets, which were read before the timeline."""
    base = make(kind, Work("rehash", check, prepare=grow_old))
    met = 0
    for each in interleave_everywhere(
        base, check, rehash_and_archive, process=2, writer=kind.writer
    ):
        assert each.second.error is None
        assert isinstance(each.first.value, CheckReport), each
        assert [f for f in each.first.value.findings if f.severity != "info"] == [], each
        met += 1
    assert met > 3


@pytest.mark.rotated(0)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.is_directory], ids=str)
def test_a_resize_that_begins(kind: Kind) -> None:
    """The timeline that was listed lacks the resize, and the partitions have its directories."""
    base = make(kind, Work("resize", check))
    resize = partial(bf.Table.resize, max_file_size=1, min_buckets=1, max_buckets=8)
    met = 0
    for each in interleave_everywhere(base, check, resize, process=2, writer=kind.writer):
        assert each.second.error is None
        assert isinstance(each.first.value, CheckReport), each
        assert [f for f in each.first.value.findings if f.severity == "error"] == [], each
        met += 1
    assert met > 3


def resize_and_mark(table: bf.Table) -> None:
    """A clean marks the ring in force as committed, and deletes the one before."""
    for v in (6, 7):
        table.resize(max_file_size=1, min_buckets=1, max_buckets=8)
        table.upsert(rows(*((f"k{number}", v, "ab"[number % 2]) for number in range(8))))
        if table.config.table_type == "MERGE_ON_READ":
            table.compact()
        table.clean(retain=1, dry_run=False)


def resize_and_archive(table: bf.Table) -> None:
    resize_and_mark(table)
    table.archive(min_commits=1, max_commits=1)
    table.clean(retain=1, dry_run=False)


@pytest.mark.rotated(0, one_of=2)
@pytest.mark.parametrize("resize", [resize_and_mark, resize_and_archive])
@pytest.mark.parametrize("kind", [k for k in KINDS if k.is_ring or k.is_directory], ids=str)
def test_a_resize_that_is_cleaned_and_archived(
    kind: Kind, resize: Callable[[bf.Table], None]
) -> None:
    """The ring in force is newer than the file groups that the timeline had, or gone."""
    base = make(kind, Work("resize", check, prepare=resize_and_mark))
    full = partial(check, depth="full")
    met = 0
    for each in interleave_everywhere(base, full, resize, process=2, writer=kind.writer):
        assert each.second.error is None, each
        assert isinstance(each.first.value, CheckReport), each
        assert [f for f in each.first.value.findings if f.severity != "info"] == [], each
        met += 1
    assert met > 3
