"""Several records of one key are merged into one."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_records import (
    ColumnStats,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    RecordLocation,
    StatValue,
)
from bucketfmt.metadata_table.merge_records import merge_records
from tests.rotation import examples

_DECIMAL, _STRING = 10, 7
_COUNTS = st.none() | st.integers(0, 3)
_BOUNDS = st.none() | st.one_of(
    st.builds(StatValue, st.sampled_from(["Int", "Long"]), st.integers(-2, 2)),
    st.builds(StatValue, st.just("Double"), st.sampled_from([-0.0, 0.0, 1.0, float("inf")])),
    st.builds(StatValue, st.just("String"), st.sampled_from(["", "a", "\uff5e", "😀"])),
    st.builds(StatValue, st.just("Bytes"), st.sampled_from([b"", b"\x01", b"\xff"])),
)
_STATISTICS = st.builds(
    ColumnStats,
    file_name=st.sampled_from(["f", "g"]),
    column=st.just("c"),
    minimum=_BOUNDS,
    maximum=_BOUNDS,
    value_count=_COUNTS,
    null_count=_COUNTS,
    total_bytes=_COUNTS,
    total_uncompressed_bytes=_COUNTS,
    is_deleted=st.booleans(),
    is_tight=st.booleans(),
    value_type=st.sampled_from([None, _STRING, _DECIMAL]),
    value_type_info=st.sampled_from([None, "5,2"]),
)
_FILES = st.builds(
    FilesRecord,
    st.dictionaries(st.sampled_from("abc"), st.builds(FileEntry, st.integers(0, 2), st.booleans())),
    st.just(False),
)


@settings(max_examples=examples(600))
@given(st.lists(_STATISTICS, min_size=1, max_size=5) | st.lists(_FILES, min_size=1, max_size=5))
def test_records_are_merged_as_one_after_the_other(records: list[MetadataRecord]) -> None:
    def merge_two(older: MetadataRecord, newer: MetadataRecord) -> MetadataRecord:
        return merge_records([older, newer])

    assert repr(merge_records(records)) == repr(reduce(merge_two, records))  # -0.0 is not 0.0


def test_statistics_of_several_files_have_the_outer_bounds_and_all_rows() -> None:
    def statistics(low: int | None, high: int | None, rows: int) -> ColumnStats:
        bounds = [None if value is None else StatValue("Int", value) for value in (low, high)]
        return ColumnStats("f", "c", *bounds, rows, 1, 10 * rows, 20 * rows, False)

    merged = merge_records([statistics(3, 4, 1), statistics(None, None, 2), statistics(-1, 2, 3)])
    assert merged == ColumnStats(
        "f", "c", StatValue("Int", -1), StatValue("Int", 4), 6, 3, 60, 120, False
    )


def test_records_of_several_types_are_refused() -> None:
    records = [RecordLocation("p", "f", 1), FilesRecord({}, False)]
    with pytest.raises(CorruptError, match="FilesRecord, RecordLocation"):
        merge_records(records)
