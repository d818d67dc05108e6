"""What hudi-rs (PyPI `hudi`) reads of the tables real Hudi wrote, against what we read.

Where they differ, what Hudi itself read back (test_golden_read) is on our side. Each such table
is listed with its reason, and the test fails when the difference goes away.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder

import bucketfmt as bf
from tests.golden import GOLDEN, expected
from tests.same_rows import canonical

Golden = Callable[[str, str], Path]

_IDS = "renames and changed types of columns with ids: values of renamed columns are null"
_IDS_LOG = "columns with ids: a log record's changed type is an error"
_TYPES = "a log record of an older schema is an error: its type changed since"
_LATE = "a later log record of a lower ordering value wins over another; in version 6 it loses"
_OLD = "tables of versions 3, 4 and 5 are not read"
_ORDERING = "several ordering fields are not built"
_DROPPED = "partition columns that are in no file are not built"
_FILLED = "nulls of the record that wins are filled, which is not built for versions 6 and 8"
_PLANNED = "the log files of a slice that a planned compaction begins are left out"
_MARKER = "text that stands for a value that the writer did not know is returned"
_CUSTOM_FIELDS = "cannot read the partition fields of a custom key generator in properties of 1.x"

REFUSED_BY_HUDI_RS = {
    ("0.15.0", "dms_mor"): ("merger of its own", "the payload's own merging is not built"),
    ("1.0.2", "dms_mor"): ("needs its own merger", "the payload's own merging is not built"),
    ("0.15.0", "evolved_mor"): ("has type|cannot be re-tagged", _TYPES),
    ("1.0.2", "evolved_mor"): ("has type|cannot be re-tagged", _TYPES),
    ("1.2.0", "evolved_mor"): ("has type|cannot be re-tagged", _TYPES),
    ("0.15.0", "evolved_ids_mor"): ("has type", _IDS_LOG),
    ("1.0.2", "evolved_ids_mor"): ("has type", _IDS_LOG),
    ("1.2.0", "evolved_ids_mor"): ("has type", _IDS_LOG),
    ("1.0.2", "customkeygen"): ("not present in the table schema", _CUSTOM_FIELDS),
    ("1.2.0", "customkeygen"): ("not present in the table schema", _CUSTOM_FIELDS),
    ("0.15.0", "dropped_column"): ("drop.partition.columns", _DROPPED),
    ("1.0.2", "dropped_column"): ("drop.partition.columns", _DROPPED),
    ("1.2.0", "dropped_column"): ("drop.partition.columns", _DROPPED),
    ("0.15.0", "filled_mor"): ("merger of its own", _FILLED),
    ("0.15.0", "filled_base_mor"): ("merger of its own", _FILLED),
    ("1.0.2", "filled_mor"): ("needs its own merger", _FILLED),
    ("1.2.0", "multiorder"): ("Multiple ordering fields", _ORDERING),
    ("1.2.0", "multiorder_mor"): ("Multiple ordering fields", _ORDERING),
    ("flink-0.13.1", "mor_bucket"): ("Found: 5", _OLD),
    ("0.15.0", "downgraded_3"): ("Found: 3", _OLD),
    ("0.15.0", "downgraded_4"): ("Found: 4", _OLD),
    ("0.15.0", "downgraded_5"): ("Found: 5", _OLD),
}
"""Tables we read and hudi-rs does not: (what its error says, why)."""

READ_OTHERWISE = {
    ("0.15.0", "evolved_ids"): (4, _IDS),
    ("1.0.2", "evolved_ids"): (4, _IDS),
    ("1.2.0", "evolved_ids"): (4, _IDS),
    ("0.15.0", "mor"): (10, _LATE),
    ("0.15.0", "mor_commit"): (4, _LATE),
    ("0.15.0", "timetravel_mor"): (5, _LATE),
    ("1.2.0", "filled_marker_mor"): (13, _MARKER),
    ("0.15.0", "pending_compaction"): (20, _PLANNED),
}
"""Tables of which hudi-rs returns other rows: (how many, why)."""

ROWS_TOO_MANY = {("flink-0.14.0", "mor_changelog"): 8, ("0.15.0", "pending_compaction"): -5}
"""Tables of which hudi-rs returns more or fewer rows: it overlooks the operation -D of a changelog,
and the rows that were logged since a compaction was planned."""

REFUSED_BY_US = {
    ("1.0.2", "dms_mor"): "the table names code of its own for its merging",
}


def read_by_hudi_rs(root: Path) -> pa.Table:
    table = HudiTableBuilder.from_base_uri(str(root)).build()
    return pa.Table.from_batches(table.read(HudiReadOptions()))


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_both_read_the_same_rows(golden: Golden, version: str, name: str) -> None:
    root = golden(version, name)
    if (version, name) in REFUSED_BY_US:
        with pytest.raises(bf.UnsupportedError):
            bf.open(root).scan().to_arrow()
        ours = expected(root.parent, name)
    else:
        ours = bf.open(root).scan(meta_columns=True).to_arrow()
        if name.endswith("changelog") or "changelog_" in name:  # hudi-rs leaves the column out
            ours = ours.drop_columns(["_hoodie_operation"])

    if (version, name) in REFUSED_BY_HUDI_RS:
        message, _ = REFUSED_BY_HUDI_RS[version, name]
        with pytest.raises(Exception, match=message):
            read_by_hudi_rs(root)
        return
    our_types, our_rows = canonical(ours)
    their_types, their_rows = canonical(read_by_hudi_rs(root))
    assert our_types == their_types
    differing, _ = READ_OTHERWISE.get((version, name), (0, ""))
    assert len(our_rows) == len(their_rows) - ROWS_TOO_MANY.get((version, name), 0)
    assert len(set(our_rows) - set(their_rows)) == differing


def test_the_page_that_compares_has_these_numbers() -> None:
    page = (Path(__file__).parents[3] / "docs/comparison.md").read_text()
    refused, otherwise = len(REFUSED_BY_HUDI_RS), len(READ_OTHERWISE | ROWS_TOO_MANY)
    of_us = len(REFUSED_BY_US)
    assert f"given the same {len(GOLDEN)} tables" in page
    same = len(GOLDEN) - refused - otherwise
    assert f"| the same rows as Hudi | {len(GOLDEN) - of_us} | {same} |" in page
    assert f"| a typed refusal | {of_us} | {refused} |" in page
    assert f"| other rows | 0 | {otherwise} |" in page


def test_the_late_record_of_table_version_6(golden: Golden) -> None:
    """Log against log, the higher ordering value wins, whichever was written later."""
    root = golden("0.15.0", "mor")
    wanted = [("id", "=", "key-000124"), ("region", "=", "eu")]
    assert bf.open(root).scan(["name", "ts"], wanted).to_arrow().to_pylist() == [
        {"name": "n124u", "ts": 2}
    ]
    theirs = read_by_hudi_rs(root).to_pylist()
    (row,) = (row for row in theirs if (row["id"], row["region"]) == ("key-000124", "eu"))
    assert (row["name"], row["ts"]) == ("n124late", 0)
