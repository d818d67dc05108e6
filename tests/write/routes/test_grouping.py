"""Rows by route, in memory and on disk, and the file groups that routes lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import BucketLayout, FixedBuckets
from bucketfmt.location.routes import GroupRef, Route
from bucketfmt.write.rows import grouping
from bucketfmt.write.rows.grouping import GroupedRows, find_targets, route_rows


class _ByLayout:
    """Routes by one layout in every partition."""

    def __init__(self, layout: BucketLayout) -> None:
        self._layout = layout

    def prepare(self, partition_paths: Sequence[str]) -> None:
        pass

    def route(self, partition_path: str, record_keys: pa.ChunkedArray) -> np.ndarray:
        return self._layout.assign(record_keys)


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
    routed = list(route_rows(rows, keys, paths, _ByLayout(buckets)))
    expected: dict[Route, list[int]] = {}
    for number, (key, path) in enumerate(pairs):
        bucket = int(buckets.assign(pa.array([key]))[0])
        expected.setdefault(Route(path, bucket), []).append(number)
    assert {group: own["row"].to_pylist() for group, own in routed} == expected
    assert len(routed) == len(expected)


@settings(deadline=None)  # a disk
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=12), st.integers(0, 400))
def test_what_is_spilled_comes_back_in_order(parts: list[tuple[int, int]], bytes_max: int) -> None:
    with pytest.MonkeyPatch.context() as patch, GroupedRows() as grouped:
        patch.setattr(grouping, "_BYTES_IN_MEMORY", bytes_max)
        expected: dict[Route, list[str]] = {}
        for number, (bucket, size) in enumerate(parts):
            texts = [f"{number}-{i}" for i in range(size)]
            route = Route("p", bucket)
            grouped.add(route, pa.table({"text": pa.array(texts, pa.string())}))
            expected.setdefault(route, []).extend(texts)
        assert grouped.routes == sorted(expected)
        assert {r: grouped.rows([r])["text"].to_pylist() for r in grouped.routes} == expected
        assert {route: grouped.num_rows([route]) for route in expected} == {
            route: len(numbers) for route, numbers in expected.items()
        }
        if expected:
            in_order = [text for _, texts in sorted(expected.items()) for text in texts]
            assert grouped.rows(grouped.routes)["text"].to_pylist() == in_order
            assert grouped.num_rows(grouped.routes) == len(in_order)


def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_BYTES_IN_MEMORY", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with GroupedRows() as grouped:
        for number in range(3):
            grouped.add(Route("p", number), pa.table({"x": pa.array(range(100))}))
        (folder,) = tmp_path.iterdir()
        assert sorted(f.name for f in folder.iterdir()) == ["0.arrow", "1.arrow", "2.arrow"]
        assert grouped.rows([Route("p", 1)])["x"].to_pylist() == list(range(100))
    assert not list(tmp_path.iterdir())


def test_a_group_takes_the_rows_of_all_routes_that_lead_to_it() -> None:
    """As where a bucket is split: its file group takes all rows, a child those of its half."""
    parent, low, high = (GroupRef("a", name, 7) for name in ("parent", "low", "high"))
    other = GroupRef("b", None, 3)
    leads_to = {"a": {3: [parent, low], 7: [parent, high]}, "b": {3: [other]}}
    counts = {Route("a", 3): 1, Route("a", 7): 1, Route("b", 3): 1}
    assert list(find_targets(counts, lambda path, _: leads_to[path])) == [
        (parent, [Route("a", 3), Route("a", 7)]),
        (low, [Route("a", 3)]),
        (high, [Route("a", 7)]),
        (other, [Route("b", 3)]),
    ]


def test_the_groups_of_a_partition_are_asked_for_when_those_before_are_taken() -> None:
    asked: list[tuple[str, dict[int, int]]] = []

    def targets_of(path: str, counts: Mapping[int, int]) -> dict[int, list[GroupRef]]:
        asked.append((path, dict(counts)))
        return {number: [GroupRef(path, None, number)] for number in counts}

    found = find_targets({Route("a", 0): 5, Route("a", 1): 2, Route("b", 0): 1}, targets_of)
    assert next(found) == (GroupRef("a", None, 0), [Route("a", 0)])
    assert asked == [("a", {0: 5, 1: 2})]
    assert [group for group, _ in found] == [GroupRef("a", None, 1), GroupRef("b", None, 0)]
    assert asked[1:] == [("b", {0: 1})]
