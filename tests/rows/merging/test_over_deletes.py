"""What readers make of rows appended over deletes, against what they read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.rows.merging.log_entries import RowRun, Run
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.merging.over_deletes import OverDeletes, count_over_deletes
from tests.rotation import examples
from tests.rows.merging.test_merge import (
    DEFAULT_PAYLOAD,
    EVENT_TIME,
    EVENT_TIME_PAYLOAD,
    NO_ORDERING_VALUE,
    NUMBERS,
    OVERWRITE,
    SCHEMA,
    deletes,
    long,
    merged,
    rows,
)

pytestmark = pytest.mark.rule("MERGE-8", "MERGE-12", "MERGE-14")

RULES = {
    "event time": EVENT_TIME,
    "0.15 overwrite": OVERWRITE,
    "0.15 default": DEFAULT_PAYLOAD,
    "0.15 event time": EVENT_TIME_PAYLOAD,
}
DELETE = deletes(("a", NO_ORDERING_VALUE))


def of_key(table: pa.Table, keys: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table["_hoodie_record_key"], keys))


def count(base: pa.Table, log: list[Run], given: pa.Table, rules: MergeRules) -> OverDeletes:
    deleted = merge_log(log, rules, SCHEMA).deleted_keys
    given = of_key(given, deleted)
    keys = given["_hoodie_record_key"].combine_chunks()
    log = [RowRun(of_key(run.rows, keys)) if isinstance(run, RowRun) else run for run in log]
    before, after = (merge_log(each, rules, SCHEMA) for each in (log, [*log, RowRun(given)]))
    return count_over_deletes(before, after, keys, [of_key(base, keys)])


@pytest.mark.parametrize(
    ("log", "rules", "ts", "expected"),
    [
        ([DELETE], EVENT_TIME, 2, OverDeletes(1, num_revived=1, num_unordered=1)),
        ([DELETE], EVENT_TIME, 5, OverDeletes(1, num_unordered=1)),
        ([deletes(("a", long(5)))], EVENT_TIME, 2, OverDeletes(1, num_hidden=1)),
        ([deletes(("a", long(5)))], EVENT_TIME, 5, OverDeletes(1)),
        ([deletes(("a", long(3)))], EVENT_TIME, 4, OverDeletes()),  # the base row was not deleted
        ([deletes(("a", long(7)))], DEFAULT_PAYLOAD, 2, OverDeletes(1, num_revived=1)),
        ([deletes(("a", long(7)))], OVERWRITE, 2, OverDeletes(1)),
        ([RowRun(rows(("a", 7, 1, 0, True)))], OVERWRITE, 2, OverDeletes(1, num_hidden=1)),
        ([RowRun(rows(("a", 7, 1)))], EVENT_TIME, 2, OverDeletes()),  # nothing is deleted
    ],
)
def test_a_base_row_of_ordering_5(
    log: list[Run], rules: MergeRules, ts: int, expected: OverDeletes
) -> None:
    assert count(rows(("a", 5, 0)), log, rows(("a", ts, 9), ("b", 1, 8)), rules) == expected


ROW = st.tuples(st.sampled_from("abc"), NUMBERS, st.just(0), st.sampled_from([False, False, True]))
ENTRY = st.tuples(st.sampled_from("abc"), st.builds(long, NUMBERS) | st.just(NO_ORDERING_VALUE))


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=examples(60), deadline=None)
@given(
    base=st.lists(ROW, max_size=3, unique_by=lambda row: row[0]),
    runs=st.lists(st.lists(ROW, max_size=3) | st.lists(ENTRY, min_size=1, max_size=3), max_size=4),
    appended=st.lists(ROW, min_size=1, max_size=3, unique_by=lambda row: row[0]),
)
def test_tells_what_is_read(name: str, base: list, runs: list, appended: list) -> None:
    rules, number = RULES[name], iter(range(100, 10_000))

    def numbered(entries: list, marks: bool = True) -> pa.Table:
        return rows(
            *((k, ts, next(number), tie, marks and is_marked) for k, ts, tie, is_marked in entries)
        )

    log: list[Run] = [
        deletes(*run) if run and len(run[0]) == 2 else RowRun(numbered(run)) for run in runs
    ]
    base_rows, given_rows = numbered(base, marks=False), numbered(appended, marks=False)
    deleted = merge_log(log, rules, SCHEMA).deleted_keys.to_pylist()
    was_read = set(merged(base_rows, log, rules))
    is_read = set(merged(base_rows, [*log, RowRun(given_rows)], rules))
    number_in_base = dict(
        zip(base_rows["_hoodie_record_key"].to_pylist(), base_rows["row"].to_pylist(), strict=True)
    )
    hidden = revived = 0
    for key, own in zip(
        given_rows["_hoodie_record_key"].to_pylist(), given_rows["row"].to_pylist(), strict=True
    ):
        stored = number_in_base.get(key)
        if key not in deleted or stored in was_read or own in is_read:
            continue
        revived += stored in is_read
        hidden += stored not in is_read
    found = count(base_rows, log, given_rows, rules)
    assert (found.num_hidden, found.num_revived) == (hidden, revived)
