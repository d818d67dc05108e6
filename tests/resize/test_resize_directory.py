"""Extendible directories that are resized, while others read and write."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.format.buckets.extendible_directory import directory_entries, initial_directory
from bucketfmt.format.buckets.extendible_metadata import (
    ExtendibleMetadata,
    initial_extendible_metadata,
)
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.names import format_consistent_file_id, parse_base_file_name
from bucketfmt.location.directory_files import list_directory_files, load_directory
from bucketfmt.resize.split_merge.plan_directory import (
    DirectoryOfPartition,
    plan_directories,
    resized_metadata,
)
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, made_once, rows

SMALL = 1
"""A largest file size that every file exceeds, so that all buckets are split."""
LARGE = 1 << 30
"""A largest file size that no file comes near, so that all buckets are merged."""


def make(path: Path, kind: str = "MERGE_ON_READ", version: int = 9, number: int = 2) -> bf.Table:
    return create_table(
        path,
        bf.ExtendibleHashingIndex(number),
        "MERGE_ON_READ" if kind == "MERGE_ON_READ" else "COPY_ON_WRITE",
        table_version=version,
    )


@made_once
def filled(path: Path, kind: str = "MERGE_ON_READ", version: int = 9) -> tuple[bf.Table, Model]:
    """Return a table with rows in base files, and in logs where there may be logs; its model."""
    table, model = make(path, kind, version), Model()
    for rows_ in (rows(range(60), 1), rows(range(20, 40), 2, 3.0)):
        table.upsert(rows_)
        model.upsert(rows_)
    table.delete(rows(range(5), 3))
    model.delete([f"key-{i:06d}" for i in range(5)])
    return table, model


def directory_of(table: bf.Table, path: str) -> ExtendibleMetadata:
    metadata = load_directory(table._snapshot(), path)
    assert metadata is not None
    return metadata


@pytest.mark.rule("EXT-7", "EXT-8", "EXT-10", "EXT-11")
@pytest.mark.rotated(0)
@pytest.mark.parametrize(
    ("kind", "version"),
    [("COPY_ON_WRITE", 6), ("MERGE_ON_READ", 6), ("MERGE_ON_READ", 8), ("COPY_ON_WRITE", 9)],
)
def test_rows_stay_and_directories_change(tmp_path: Path, kind: str, version: int) -> None:
    table, model = filled(tmp_path / "t", kind, version)
    table.metadata_table.init("files", "column_stats", "record_index")
    before = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    keys = [("_hoodie_record_key", "ascending")]
    for size, limits, depth in ((SMALL, {}, 2), (LARGE, {}, 1), (LARGE, {"min_buckets": 1}, 0)):
        preview = table.preview_resize(max_file_size=size, max_buckets=4, **limits)
        done = table.resize(max_file_size=size, max_buckets=4, **limits)
        assert done is not None
        assert (preview.partitions, preview.file_groups) == (3, done.file_groups_replaced)
        assert (done.action, done.operation) == ("replacecommit", "CLUSTER")
        for path in ("ap", "eu", "us"):
            metadata = directory_of(table, path)
            assert (metadata.global_depth, metadata.instant) == (depth, done.instant)
            assert metadata.num_buckets == 2
        after = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
        assert after.sort_by(keys) == before.sort_by(keys)
        assert_reads_as(table.uri, model)
        assert_in_step(table)
    assert directory_of(table, "us").seq_no == 3
    more = rows(range(50, 70), 4)
    table.upsert(more)
    model.upsert(more)
    assert_reads_as(table.uri, model)
    assert table.resize(max_file_size=LARGE, min_buckets=1) is None
    assert bf.open(table.uri).scan(as_of=done.instant).to_arrow().num_rows == before.num_rows


@pytest.mark.rotated(0, among="resizes", one_of=3)
def test_many_rounds_of_writes_and_resizes(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t"), Model()
    choose = random.Random(7)
    largest = 0
    for ts in range(1, 9):
        start = choose.randrange(200)
        batch = rows(range(start, start + choose.randrange(1, 80)), ts)
        table.upsert(batch)
        model.upsert(batch)
        if choose.random() < 0.3:
            gone = rows(range(start, start + 10), 0)
            table.delete(gone.select(["id", "region"]))
            model.delete(gone["id"].to_pylist())
        if choose.random() < 0.3:
            table.compact()
        partition = choose.choice([["us"], ["eu"], None])
        size, least = choose.choice([(SMALL, 1), (LARGE, 1), (LARGE, 2), (SMALL, 4)])
        options = {} if partition is None else {"partitions": partition}
        table.resize(max_file_size=size, min_buckets=least, max_buckets=16, **options)
        largest = max(largest, len(directory_of(table, "us").buckets))
        assert_reads_as(table.uri, model)
        if ts % 4 == 0:
            table.clean(retain=2, dry_run=False)
            assert_reads_as(table.uri, model)
    assert largest == 16


@pytest.mark.rule("EXT-9", "EXT-12")
def test_an_empty_bucket_is_merged_only_if_nobody_writes_to_it(tmp_path: Path) -> None:
    """Its file group is named as replaced, so that whoever begins it meanwhile is in conflict."""
    table, model = make(tmp_path / "t", number=4), Model()
    first = rows([0], 1)
    table.upsert(first)
    model.upsert(first)
    (place,) = table.locate(first.select(["id", "region"])).to_pylist()
    started = table.start_resize(max_file_size=LARGE, min_buckets=1)
    assert started is not None
    receipts = [r for p in started.payloads for r in started.task.rewrite(p, "0-0-0")]
    others = rows(range(3, 60, 3), 1)
    bf.open(table.uri).upsert(others)  # begins the file groups of the empty buckets
    model.upsert(others)
    with started, pytest.raises(bf.ConflictError, match="us"):
        started.publish(receipts)
    assert_reads_as(table.uri, model)
    done = table.resize(max_file_size=LARGE, min_buckets=1)
    assert done is not None
    assert_reads_as(table.uri, model)
    assert table._snapshot().is_replaced("us", place["file_id"])


def test_a_write_under_way_routes_its_rows_anew(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    late = rows(range(100, 130), 9)
    writer = bf.open(table.uri)
    basis = writer.start_write("upsert", SCHEMA)
    receipts = basis.task.write(late, "7-0-0")
    done = table.resize(max_file_size=SMALL, max_buckets=4)
    assert done is not None
    with basis, pytest.raises(bf.ConflictError, match="CLUSTER"):
        basis.publish(receipts)
    writer.upsert(late)
    model.upsert(late)
    assert_reads_as(table.uri, model)


def test_a_resize_catches_up_with_what_others_write(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    started = table.start_resize(max_file_size=SMALL, max_buckets=4)
    assert isinstance(started, bf.StartedRewrite)
    other = rows(range(30, 90), 7)
    begun = iter([other])

    def execute(task: bf.RewriteTask, payloads):  # type: ignore[no-untyped-def]
        done = [task.rewrite(p, f"{n}-0-1") for n, p in enumerate(payloads)]
        for batch in begun:
            bf.open(table.uri).upsert(batch)
        return done

    with started:
        started.run(execute)
    model.upsert(other)
    assert_reads_as(table.uri, model)
    assert directory_of(table, "us").global_depth == 2


def test_rollback_and_restore_bring_the_old_directory_back(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    before = directory_of(table, "us")
    table.savepoint()
    assert table.resize(max_file_size=SMALL, max_buckets=4) is not None
    table.resize(max_file_size=LARGE, min_buckets=1)
    assert len(list_directory_files(table.store, "us")) == 3
    assert directory_of(table, "us").global_depth == 0
    (savepoint,) = table.timeline.completed.of("savepoint").instants
    table.restore(savepoint.requested_time)
    assert directory_of(bf.open(table.uri), "us") == before
    assert len(list_directory_files(table.store, "us")) == 1
    assert_reads_as(table.uri, model)
    more = rows(range(50, 70), 4)
    table.upsert(more)
    model.upsert(more)
    assert_reads_as(table.uri, model)


@pytest.mark.rule("EXT-8")
def test_directories_outlive_their_commits_and_outdated_ones_are_cleaned(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    for size in (SMALL, LARGE, SMALL):
        assert table.resize(max_file_size=size, max_buckets=4, partitions=["us"]) is not None
    kept = directory_of(table, "us")
    leftover = Path(table.uri) / ".hoodie/.bucket_index/extendible_hashing_metadata/eu"
    (leftover / "29990101000000000.hashing_meta").write_bytes(b"{}")  # of a rollback by Hudi
    table.clean(retain=1, dry_run=False)
    assert len(list_directory_files(table.store, "us")) == 4
    assert len(list_directory_files(table.store, "eu")) == 1
    batch = rows(range(90, 99), 8)
    for _ in range(2):
        table.upsert(batch)
    model.upsert(batch)
    assert table.archive(min_commits=1, max_commits=1)
    opened = bf.open(table.uri)
    assert directory_of(opened, "us") == kept
    assert_reads_as(table.uri, model)
    planned = opened.clean(retain=1)
    cleaned = opened.clean(retain=1, dry_run=False)
    assert [p for p in planned.files if p.endswith(".hashing_meta")] == [
        p for p in cleaned.files if p.endswith(".hashing_meta")
    ]
    assert len(list_directory_files(table.store, "us")) == 1
    assert directory_of(bf.open(table.uri), "us") == kept
    assert_reads_as(table.uri, model)


def test_what_cannot_be_resized_is_refused(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    with pytest.raises(bf.UnsupportedError, match="scheduling"):
        table.schedule_resize()
    for options, message in (
        ({"split": "even"}, "split by bits"),
        ({"sort_by": ["price"]}, "split by bits"),
        ({"partitions": ["nowhere"]}, "no partition 'nowhere'"),
        ({"min_buckets": 9, "max_buckets": 8}, "contradict"),
    ):
        with pytest.raises(ValueError, match=message):
            table.resize(**options)
    with pytest.raises(bf.UnsupportedError, match="rehash"):
        table.rehash(8)
    assert [i.action for i in table.timeline.pending.instants] == []
    assert table.resize(partitions=["us"]) is None  # neither too large nor too small


def make_slices(sizes: dict[int, int], metadata: ExtendibleMetadata) -> dict[int, FileSlice]:
    ids = {b.bucket_id: format_consistent_file_id(b.file_id_prefix) for b in metadata.buckets}
    found = {}
    for number, size in sizes.items():
        name = f"{ids[number]}_0-0-0_20260101000000000.parquet"
        file = DataFile(f"p/{name}", parse_base_file_name(name), size, None)
        found[number] = FileSlice("p", ids[number], "20260101000000000", file, ())
    return found


@given(
    st.integers(0, 4),
    st.lists(st.integers(0, 5000), min_size=16, max_size=16),
    st.integers(1, 16),
    st.integers(1, 64),
)
def test_plans_keep_the_bounds(depth: int, sizes: list[int], least: int, more: int) -> None:
    metadata = initial_extendible_metadata("p", 1 << depth)
    assert metadata.buckets == initial_directory("p", 1 << depth)
    given_sizes = {n: sizes[n] for n in range(1 << depth) if sizes[n]}
    busy = frozenset(n for n in given_sizes if sizes[n] % 7 == 0)
    limits = ResizeLimits(
        min_buckets=least, max_buckets=least + more, max_file_size=500, max_bytes=1 << 40
    )
    slices = make_slices(given_sizes, metadata)
    groups = plan_directories([DirectoryOfPartition(metadata, slices, busy)], limits, 8)
    taken = [b.bucket_id for group in groups for b in group.buckets]
    assert len(taken) == len(set(taken))
    assert busy.isdisjoint(taken)
    if not groups:
        return
    (after,) = resized_metadata(groups, "20260102000000000")
    directory_entries(after.buckets)  # whole
    assert (after.seq_no, after.instant) == (1, "20260102000000000")
    assert metadata.instant == INIT_INSTANT
    before = len(metadata.buckets)
    assert min(before, least) <= len(after.buckets) <= max(before, least + more)
    for group in groups:
        if group.kind == "split":
            assert group.size > limits.split_size
        else:
            assert all(own.size <= limits.merge_size for own in group.slices)
            assert group.slices
    kept = {b.file_id_prefix for b in after.buckets} & {b.file_id_prefix for b in metadata.buckets}
    assert len(kept) == before - len(taken)


@pytest.mark.rule("EXT-12")
def test_a_merge_of_an_empty_bucket_is_rolled_back(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t", number=4), Model()
    table.upsert(rows([0], 1))
    model.upsert(rows([0], 1))
    before = directory_of(table, "us")
    done = table.resize(max_file_size=LARGE, min_buckets=1)
    assert done is not None
    assert done.file_groups_replaced == 2  # a bucket with a row, and an empty one
    table.rollback(done.instant)
    assert directory_of(table, "us") == before
    assert_reads_as(table.uri, model)


def test_later_writes_to_other_buckets_leave_the_record_index_in_step(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", "MERGE_ON_READ", 9)
    table.metadata_table.init("files", "record_index")
    started = table.start_resize(max_file_size=SMALL, max_buckets=4, partitions=["us"])
    assert started is not None
    receipts = [r for p in started.payloads for r in started.task.rewrite(p, "0-0-0")]
    later = rows(range(1, 90, 3), 5)  # all of eu, with keys that are known and keys that are new
    done = bf.open(table.uri).upsert(later)
    model.upsert(later)
    with started:
        resized = started.publish(receipts)
    assert done.instant > resized.instant
    assert "record_index" in bf.open(table.uri).config.metadata_partitions
    assert_reads_as(table.uri, model)
    assert_in_step(bf.open(table.uri))
    again = rows(range(0, 120, 3), 6)
    table.upsert(again)
    model.upsert(again)
    assert_reads_as(table.uri, model)
    assert_in_step(bf.open(table.uri))
