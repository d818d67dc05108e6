"""Which file groups are rewritten together, against the rules said once more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.format.keys.record_keys import dialect_for_table_version
from bucketfmt.format.names.names import format_bucket_file_id
from bucketfmt.index.layout import FixedBuckets
from bucketfmt.repair.plan_buckets import HeldBuckets, plan_bucket_repairs
from bucketfmt.snapshot.data_files.files import FileSlice

NUM_BUCKETS = 6
LAYOUT = FixedBuckets(NUM_BUCKETS, ("id",), dialect_for_table_version(9))
BUCKETS = st.integers(0, NUM_BUCKETS - 1)

# A file group: the bucket in its name, of which 6 is too large and 7 none, and those of its keys.
GROUPS = st.lists(st.tuples(st.integers(0, 7), st.sets(BUCKETS, max_size=3)), max_size=8)


def held_buckets(number: int, named: int, buckets: set[int]) -> HeldBuckets:
    uuid = f"5a3c2b1d-1111-4222-8333-{number:012}"
    file_id = f"{uuid}-0" if named == 7 else format_bucket_file_id(named, uuid)
    return HeldBuckets(FileSlice("p", file_id, "1", None, ()), tuple(sorted(buckets)))


@given(GROUPS)
def test_rows_that_share_a_bucket_are_brought_together(groups: list[tuple[int, set[int]]]) -> None:
    held = [held_buckets(number, *group) for number, group in enumerate(groups)]
    found = list(plan_bucket_repairs("p", LAYOUT, held))
    taken: set[str] = set()
    written: set[int] = set()
    for repair, step in found:
        own = {each.file_id for each in step.slices}
        assert (own & taken, written & set(step.buckets)) == (set(), set())
        taken |= own
        written |= set(step.buckets)
        assert (repair.buckets, set(repair.file_ids)) == (step.buckets, own)
        assert repair.cause
        keys = {
            bucket for each in held if each.file_slice.file_id in own for bucket in each.buckets
        }
        assert set(step.buckets) == keys
    left = [each for each in held if each.file_slice.file_id not in taken]
    for file_slice, buckets in left:
        named = LAYOUT.bucket_of(file_slice.file_id)
        assert named is not None
        assert {*buckets} <= {named}
        assert named not in written
    assert len({LAYOUT.bucket_of(each.file_slice.file_id) for each in left}) == len(left)


@given(st.sets(BUCKETS), st.sets(BUCKETS))
def test_a_sound_partition_is_left_alone(numbers: set[int], empty: set[int]) -> None:
    held = [held_buckets(n, n, set() if n in empty else {n}) for n in numbers]
    assert list(plan_bucket_repairs("p", LAYOUT, held)) == []


def test_file_groups_of_other_buckets_are_not_read() -> None:
    groups = [(0, {0}), (1, {1, 2}), (2, {2}), (3, {3}), (7, {3}), (4, set[int]())]
    held = [held_buckets(number, *group) for number, group in enumerate(groups)]
    found = [repair for repair, _ in plan_bucket_repairs("p", LAYOUT, held)]
    assert [repair.buckets for repair in found] == [(1, 2), (3,)]
    assert (
        found[0].cause == f"file group {held[1].file_slice.file_id} has keys of other buckets (2)"
    )
    assert found[1].cause == f"file group {held[4].file_slice.file_id} is in no bucket"
