"""New keys of a table without buckets, packed into small and new file groups."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.names import BaseFileName, LogFileName
from bucketfmt.location.records.plan_inserts import InsertSizing, find_small_groups, plan_inserts
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.written_files import CommitRecord

SIZING = InsertSizing(small_file_limit=100, max_file_size=120, record_size_estimate=10)


def file_slice(file_id: str, size: int, *, logs: int = 0) -> FileSlice:
    name = BaseFileName(file_id, "1-2-3", "100", "parquet")
    log = DataFile("log", LogFileName(file_id, "100", 1, "1-2-3"), 5)
    return FileSlice("p", file_id, "100", DataFile(file_id, name, size), (log,) * logs)


def commit(*files: tuple[str, int, int], replaced: bool = False) -> CommitRecord:
    written = [
        ("p", "f", name, BaseFileName("f", "1-2-3", "1", "parquet"), 0, size, rows, 0)
        if name == "base"
        else ("p", "f", name, LogFileName("f", "1", 1, "1-2-3"), 0, size, rows, 0)
        for name, size, rows in files
    ]
    gone = (("p", "f"),) if replaced else ()
    return CommitRecord("1", "1", "UPSERT", None, None, tuple(written), gone)


def test_small_groups_are_filled_before_new_ones_begin() -> None:
    small = [file_slice("a", 90), file_slice("b", 70), file_slice("c", 119)]
    # Of rows of 10 bytes a takes 3, b takes 5, c none; a new file group takes 12.
    planned = plan_inserts([1] * 21, small, SIZING, 10)
    assert planned == [small[0]] * 3 + [small[1]] * 5 + [0] * 12 + [1]


def test_a_set_stays_together() -> None:
    small = [file_slice("a", 70)]
    assert plan_inserts([4, 4], small, SIZING, 10) == [small[0], 0]
    assert plan_inserts([30], [], SIZING, 10) == [1]
    assert plan_inserts([], small, SIZING, 10) == []
    assert plan_inserts([0, 3], small, SIZING, 10) == [small[0], small[0]]


@given(
    st.lists(st.integers(0, 50), max_size=40),
    st.lists(st.integers(0, 130), max_size=5),
    st.integers(1, 200),
)
def test_groups_come_in_order_and_are_about_as_full_as_they_may_be(
    counts: list[int], sizes: list[int], row_bytes: int
) -> None:
    small = [file_slice(str(number), size) for number, size in enumerate(sizes)]
    planned = plan_inserts(counts, small, SIZING, row_bytes)
    assert len(planned) == len(counts)
    order = [int(own.file_id) if isinstance(own, FileSlice) else 10 + own for own in planned]
    assert all(first <= second for first, second in pairwise(order))
    largest = max(counts, default=0)
    for number, size in enumerate(sizes):
        rows = sum(count for count, own in zip(counts, order, strict=True) if own == number)
        assert rows <= SIZING.room_of(size, row_bytes) + largest
    for number in set(order):
        rows = sum(count for count, own in zip(counts, order, strict=True) if own == number)
        assert number < 10 or rows <= SIZING.rows_of_new_group(row_bytes) + largest


def test_which_file_groups_are_small() -> None:
    slices = [
        file_slice("a", 60),
        file_slice("b", 10, logs=1),
        file_slice("c", 40),
        file_slice("d", 100),
        FileSlice("p", "e", "100", None, file_slice("e", 1, logs=1).log_files),
        file_slice("f", 50),
    ]

    def small(**options: bool | set[str]) -> list[str]:
        found = find_small_groups(slices, SIZING, **{"has_logs": False, **options})  # type: ignore[arg-type]
        return [own.file_id for own in found]

    assert small() == ["a", "c", "f"]
    assert small(planned={"c"}) == ["a", "f"]
    assert small(has_logs=True) == ["c"]  # the smallest, as Hudi has it


def test_the_bytes_of_a_row_follow_from_commits() -> None:
    assert SIZING.estimate_row_bytes([]) == 10
    # Small files, log files and what replaces tell nothing.
    nothing = [commit(("base", 100, 1), ("log", 1000, 1)), commit(("base", 500, 1), replaced=True)]
    assert SIZING.estimate_row_bytes(nothing) == 10
    assert SIZING.estimate_row_bytes([*nothing, commit(("base", 600, 20))]) == 30
    newer = [commit(("base", 200, 100)) for _ in range(5)]
    assert SIZING.estimate_row_bytes([commit(("base", 9999, 1)), *newer]) == 2


def test_settings_come_from_the_properties() -> None:
    assert InsertSizing.from_properties({}) == InsertSizing()
    given = {
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.parquet.max.file.size": "1000",
        "hoodie.copyonwrite.insert.auto.split": "false",
        "hoodie.copyonwrite.insert.split.size": "7",
        "hoodie.record.size.estimation.threshold": "0.5",
    }
    found = InsertSizing.from_properties(given)
    assert (found.small_file_limit, found.rows_of_new_group(1)) == (0, 7)
    assert find_small_groups([file_slice("a", 1)], found, has_logs=False) == []
    for name, wrong in (
        ("hoodie.parquet.max.file.size", "0"),
        ("hoodie.parquet.small.file.limit", "-1"),
        ("hoodie.record.size.estimation.threshold", "nan"),
    ):
        with pytest.raises(CorruptError, match=name):
            InsertSizing.from_properties({name: wrong})
