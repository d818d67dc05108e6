"""Advice on buckets: pure plans over figures, and the figures of tables."""

from __future__ import annotations

import ast
import shlex
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.format.names.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.resize.advice import PartitionFigures, TableFigures, plan_advice
from bucketfmt.resize.growth import Growth, estimate_duration, measure_growth, measure_sizes
from bucketfmt.snapshot.data_files.written_files import CommitRecord

MIB = 1 << 20


def _figures(
    partitions: dict[str, tuple[int, int]] | list[PartitionFigures],
    index: bf.Index | None = None,
    table_type: str = "COPY_ON_WRITE",
    version: int = 9,
) -> TableFigures:
    if isinstance(partitions, dict):
        partitions = [
            PartitionFigures(path, number, (size // number * MIB,) * number)
            for path, (number, size) in partitions.items()
        ]
    return TableFigures("a table", index, table_type, version, None, tuple(partitions))


def _done(advice: bf.BucketAdvice) -> list[tuple[str, str | None]]:
    for each in advice.recommendations:
        assert (each.command is None) == (each.call is None)
        if each.call is not None:  # a call that there is, with arguments that are values
            call = ast.parse(each.call, mode="eval").body
            assert isinstance(call, ast.Call)
            assert isinstance(call.func, ast.Attribute)
            assert callable(getattr(bf.Table, call.func.attr))
    return [(each.action, each.command) for each in advice.recommendations]


@pytest.mark.parametrize(
    ("figures", "engine", "number", "done"),
    [
        # 2,400 MiB in 4 buckets: 32 buckets of 75 MiB
        (
            _figures({"": (4, 2400)}, bf.SimpleBucketIndex(4)),
            "simple",
            32,
            ("rehash", "bucketfmt rehash 'a table' 32 --dry-run"),
        ),
        # a number that is no power of two is doubled, so that each bucket is divided by itself
        (
            _figures({"": (6, 2400)}, bf.SimpleBucketIndex(6)),
            "simple",
            48,
            ("rehash", "bucketfmt rehash 'a table' 48 --dry-run"),
        ),
        (_figures({"": (16, 1600)}, bf.SimpleBucketIndex(16)), "simple", 16, ("keep", None)),
        # twice as many as are needed are fine, eight times as many are not
        (_figures({"": (16, 800)}, bf.SimpleBucketIndex(16)), "simple", 8, ("keep", None)),
        (
            _figures({"": (64, 640)}, bf.SimpleBucketIndex(64)),
            "simple",
            8,
            ("rehash", "bucketfmt rehash 'a table' 8 --dry-run"),
        ),
        (
            _figures([PartitionFigures("", None, (90 * MIB,) * 10)]),
            "simple",
            8,
            ("migrate", "bucketfmt migrate 'a table' --buckets 8 --dry-run"),
        ),
        (
            _figures({"day=1": (4, 40), "day=2": (4, 60), "day=9": (4, 2000)}),
            "rules",
            1,
            (
                "migrate",
                "bucketfmt migrate 'a table' --buckets 1 --rule '^(?:day=9)$,32' --dry-run",
            ),
        ),
        # version 8 knows no rules: the number of the largest partition
        (
            _figures({"1": (4, 40), "2": (4, 2000)}, bf.SimpleBucketIndex(4), version=8),
            "simple",
            32,
            ("rehash", "bucketfmt rehash 'a table' 32 --dry-run"),
        ),
        (
            _figures({"1": (4, 40), "2": (4, 2000)}, bf.SimpleBucketIndex(4)),
            "rules",
            1,
            ("rescale", "bucketfmt rescale 'a table' --rule '^(?:2)$,32' --default 1 --dry-run"),
        ),
        (
            _figures({"": (4, 2000)}, bf.ConsistentHashingIndex(4), "MERGE_ON_READ"),
            "consistent hashing",
            32,
            ("resize", "bucketfmt resize 'a table' --dry-run"),
        ),
    ],
)
def test_what_figures_speak_for(
    figures: TableFigures, engine: str, number: int, done: tuple[str, str | None]
) -> None:
    advice = plan_advice(figures)
    assert (advice.engine, advice.num_buckets) == (engine, number)
    assert _done(advice) == [done]


def test_growth_logs_and_skew_count() -> None:
    growing = PartitionFigures("p", 4, (50 * MIB,) * 4, 0, Growth(10 * MIB, 1000))
    advice = plan_advice(_figures([growing], bf.SimpleBucketIndex(4)), horizon_days=90)
    assert advice.partitions[0].expected_bytes == 1100 * MIB  # 200 and 90 times 10
    assert (advice.num_buckets, advice.recommendations[0].action) == (16, "rehash")
    assert "1.1 GiB" in advice.recommendations[0].reason

    ring = plan_advice(_figures([growing], table_type="MERGE_ON_READ"))
    assert ring.recommendations[0].command == "bucketfmt migrate 'a table' --ring 16 --dry-run"

    logged = PartitionFigures("p", 4, (100 * MIB,) * 4, 300 * MIB)
    advice = plan_advice(_figures([logged], bf.SimpleBucketIndex(4), "MERGE_ON_READ"))
    assert advice.partitions[0].expected_bytes == 205 * MIB  # 100 and 35 % of 300
    assert _done(advice) == [("compact", "bucketfmt compact 'a table' --dry-run"), ("keep", None)]

    uneven = PartitionFigures("p", 4, (300 * MIB, MIB, MIB, MIB))
    advice = plan_advice(_figures([uneven], bf.SimpleBucketIndex(4)))
    assert [each.action for each in advice.recommendations] == ["keep", "keep"]
    assert "300.0 times the median" in advice.recommendations[1].reason

    empty = plan_advice(_figures([]))
    assert [each.reason for each in empty.recommendations] == ["the table has no files yet"]


@given(
    st.dictionaries(
        st.text("aé. +*($^|0/=-", min_size=1, max_size=8).filter(str.strip),
        st.integers(1, 20_000),
        min_size=2,
        max_size=6,
    )
)
def test_rules_give_each_partition_the_suggested_number(sizes: dict[str, int]) -> None:
    advice = plan_advice(_figures({path: (1, size) for path, size in sizes.items()}))
    if advice.rules is None:
        return
    index = bf.PartitionBucketIndex(advice.num_buckets, advice.rules)
    for each in advice.partitions:
        assert index.num_buckets_of(each.partition_path) == each.suggested
    command = advice.recommendations[0].command
    assert command is not None
    given = shlex.split(command)
    rules = [own for option, own in pairwise(given) if option == "--rule"]
    assert advice.rules == ";".join(rules)


def _commit(
    instant: str, *files: tuple[str, str, int, int], replaced: tuple[tuple[str, str], ...] = ()
) -> CommitRecord:
    """Return a commit of files: (partition, name, size, rows)."""
    named = []
    for path, text, size, rows in files:
        name = find_data_file_name(text)
        assert isinstance(name, BaseFileName | LogFileName)
        named.append((path, name.file_id, f"{path}/{text}", name, 0, size, rows, 0))
    return CommitRecord(instant, instant, "UPSERT", None, None, tuple(named), replaced)


def test_growth_is_what_commits_added_to_partitions_that_are_written() -> None:
    day = "202601{:02d}000000000".format
    commits = [
        _commit(day(1), ("old", f"a-0_0-0-0_{day(1)}.parquet", 100, 10)),
        _commit(day(2), ("new", f"b-0_0-0-0_{day(2)}.parquet", 100, 10)),
        _commit(day(6), ("new", f"b-0_0-0-0_{day(6)}.parquet", 400, 40)),
        _commit(day(8), ("new", f".b-0_{day(6)}.log.1_0-0-0", 60, 6)),
        # A rehash is no growth.
        _commit(
            day(9), ("new", f"c-0_0-0-0_{day(9)}.parquet", 450, 46), replaced=(("new", "b-0"),)
        ),
        _commit(day(11), ("new", f"c-0_0-0-0_{day(11)}.parquet", 500, 50)),
    ]
    days, growth = measure_growth(commits, begins_empty=True)
    assert days == 10
    assert growth == {"new": Growth(51.0, 4.4)}  # 100 + 300 + 60 + 50, and 10 + 30 + 4
    _, growth = measure_growth(commits, begins_empty=False)
    assert growth == {"new": Growth(41.0, 3.4)}  # what was there before day 2 is not known
    assert measure_growth(commits[:2], begins_empty=True)[1] == {"new": Growth(100.0, 10.0)}
    assert measure_growth(commits[:1], begins_empty=True) == (None, {})


def test_sizes_are_counted_back_from_the_present_size() -> None:
    day = "202601{:02d}000000000".format
    commits = [
        _commit(day(1), ("p", f"a-0_0-0-0_{day(1)}.parquet", 100, 10)),
        _commit(day(2), ("p", f"a-0_0-0-0_{day(2)}.parquet", 160, 16)),
        _commit(day(3), ("p", f".a-0_{day(2)}.log.1_0-0-0", 40, 5)),
        _commit(day(4), ("p", f"b-0_0-0-0_{day(4)}.parquet", 30, 3)),
    ]

    def sizes(now: int, begins_empty: bool) -> list[int]:
        measured = measure_sizes(commits, bytes_now=now, begins_empty=begins_empty)
        assert [each.requested_time for each in measured] == [c.requested_time for c in commits]
        return [each.bytes for each in measured]

    assert sizes(230, begins_empty=True) == [100, 160, 200, 230]
    assert sizes(530, begins_empty=False) == [430, 490, 530, 530]  # group b may be older
    new = ("p", f"c-0_0-0-0_{day(5)}.parquet", 50, 5)
    commits.append(_commit(day(5), new, replaced=(("p", "a-0"), ("p", "b-0"))))
    assert sizes(50, begins_empty=True) == [100, 160, 200, 230, 50]
    commits[1:] = [_commit(day(5), new, replaced=(("p", "older-0"),))]
    assert sizes(150, begins_empty=False) == [150, 150]  # no commit tells the size of older-0


def test_a_duration_is_told_by_the_last_rewrite_or_a_benchmark() -> None:
    rewrite = CommitRecord(
        "20260101000000000",
        "20260101000010000",
        "BUCKET_RESCALE",
        None,
        None,
        _commit(
            "20260101000000000", ("p", "a-0_0-0-0_20260101000000000.parquet", 320 * MIB, 1)
        ).files,
        (("p", "b-0"),),
    )
    measured = estimate_duration(64 * MIB, [rewrite])
    assert (measured.seconds, measured.basis) == (2, "32 MiB/s, as measured at 20260101000000000")
    default = estimate_duration(64 * MIB, [])
    assert default.seconds == 4
    assert "benchmark" in default.basis


def test_advice_of_a_table(tmp_path: Path) -> None:
    rows = pa.table({"id": [str(n) for n in range(200)], "day": ["1"] * 200, "v": range(200)})
    t = bf.create(
        str(tmp_path / "t"),
        schema=rows.schema,
        record_key=["id"],
        partition_by=["day"],
        index=bf.SimpleBucketIndex(8),
    )
    assert t.advise_buckets().partitions == ()
    t.upsert(rows)
    advice = t.advise_buckets(target_bytes=1 << 20)
    (found,) = advice.partitions
    size = sum(t.inspect.buckets()["size"].to_pylist())
    assert (found.partition_path, found.num_buckets, found.file_groups) == ("1", 8, 8)
    assert (found.bytes, found.expected_bytes) == (size, size)
    with pytest.raises(ValueError, match="target_bytes"):
        t.advise_buckets(target_bytes=0)
