"""A change of buckets is published, cleaned and archived while a table is read.

Of the file groups that a reader knows nothing is left then. The reader is told to read again, or
returns the rows as they are afterwards; rows are never missing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import bucketfmt as bf
from bucketfmt.testing.interleavings import interleave_everywhere
from soak.works.works import KINDS, Kind, Row, Work, make, read_rows, rows

CHANGING = [
    kind
    for kind in KINDS
    if kind.metadata == ()
    and (kind.is_ring or kind.is_directory or isinstance(kind.index, bf.SimpleBucketIndex))
]


def change_and_archive(table: bf.Table) -> None:
    if isinstance(table.index, bf.SimpleBucketIndex):
        table.rehash(4)
    else:
        table.resize(max_file_size=1, min_buckets=1, max_buckets=8)
    for v in (6, 7):
        table.upsert(rows(*((f"k{number}", v, "ab"[number % 2]) for number in range(8))))
    if table.config.table_type == "MERGE_ON_READ":
        table.compact()
    table.archive(min_commits=1, max_commits=1)
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=1, max_commits=1)


def sorted_rows(found: object) -> list[Row]:
    return sorted(tuple(row.values()) for row in found.to_pylist())  # type: ignore[attr-defined]


READS: dict[str, Callable[[bf.Table], list[Row]]] = {
    "scan": lambda table: sorted_rows(table.scan().to_arrow()),
    "filtered scan": lambda table: sorted_rows(table.scan(filter="id = 'k1'").to_arrow()),
    "lookup": lambda table: sorted_rows(table.lookup(["k1"])),
}


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", CHANGING, ids=str)
def test_no_row_is_missing(kind: Kind, read: str) -> None:
    base = make(kind, Work("read", READS[read]))
    everything = read_rows(base)
    before = everything if read == "scan" else [row for row in everything if row[0] == "k1"]
    after = [(key, 7, partition) for key, _, partition in before]
    overtaken = 0
    for met in interleave_everywhere(
        base, READS[read], change_and_archive, process=2, writer=kind.writer
    ):
        assert met.second.error is None, met
        if met.first.error is None:
            assert met.first.value in (before, after), met
        else:
            assert isinstance(met.first.error, bf.NotFoundError), met
            assert "read again" in str(met.first.error), met
            overtaken += 1
    assert overtaken or read == "lookup", "a lookup begins again by itself"
