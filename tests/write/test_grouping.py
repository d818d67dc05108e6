"""Rows by bucket, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import FixedBuckets
from bucketfmt.write.rows import grouping
from bucketfmt.write.rows.grouping import BucketRef, GroupedRows, route_rows


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=3), st.sampled_from(["a", "b/c", ""]))),
    st.sampled_from([3, 1 << 20]),
)
def test_every_row_comes_to_its_bucket_in_the_order_given(
    pairs: list[tuple[str, str]], num_buckets: int
) -> None:
    buckets = FixedBuckets(num_buckets, ("id",), KeyDialect.INDEX_OF)
    keys = pa.chunked_array([[key for key, _ in pairs]], pa.string())
    paths = pa.chunked_array([[path for _, path in pairs]], pa.string())
    rows = pa.table({"row": pa.array(range(len(pairs)), pa.int64())})
    routed = list(route_rows(rows, keys, paths, lambda _: buckets))
    expected: dict[BucketRef, list[int]] = {}
    for number, (key, path) in enumerate(pairs):
        bucket = int(buckets.assign(pa.array([key]))[0])
        expected.setdefault(BucketRef(path, bucket), []).append(number)
    assert {group: own["row"].to_pylist() for group, own in routed} == expected
    assert len(routed) == len(expected)


@settings(deadline=None)  # a disk
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=12), st.integers(0, 400))
def test_what_is_spilled_comes_back_in_order(parts: list[tuple[int, int]], bytes_max: int) -> None:
    with pytest.MonkeyPatch.context() as patch, GroupedRows() as grouped:
        patch.setattr(grouping, "_BYTES_IN_MEMORY", bytes_max)
        expected: dict[BucketRef, list[str]] = {}
        for number, (bucket, size) in enumerate(parts):
            texts = [f"{number}-{i}" for i in range(size)]
            group = BucketRef("p", bucket)
            grouped.add(group, pa.table({"text": pa.array(texts, pa.string())}))
            expected.setdefault(group, []).extend(texts)
        assert grouped.groups == sorted(expected)
        assert {g: grouped.rows(g)["text"].to_pylist() for g in grouped.groups} == expected
        assert {group: grouped.num_rows(group) for group in expected} == {
            group: len(numbers) for group, numbers in expected.items()
        }


def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_BYTES_IN_MEMORY", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with GroupedRows() as grouped:
        for number in range(3):
            grouped.add(BucketRef("p", number), pa.table({"x": pa.array(range(100))}))
        (folder,) = tmp_path.iterdir()
        assert sorted(f.name for f in folder.iterdir()) == ["0.arrow", "1.arrow", "2.arrow"]
        assert grouped.rows(BucketRef("p", 1))["x"].to_pylist() == list(range(100))
    assert not list(tmp_path.iterdir())
