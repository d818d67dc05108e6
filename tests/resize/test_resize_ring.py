"""Rings that are resized: rows, files, rings, and everybody who reads and writes meanwhile."""

from __future__ import annotations

import os
import pickle
import time
from itertools import pairwise
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.format.buckets.hashing_metadata import HashingMetadata
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.location.hashing_files import load_hashing_metadata
from bucketfmt.resize.split_merge import ring as resizing_rings
from bucketfmt.resize.split_merge.plan_ring import RingOfPartition, plan_resize
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits
from bucketfmt.resize.split_merge.split_policies import EvenSplit
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.timeline.locking.heartbeat import is_kept_up
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, made_once, rows

SMALL = 1
"""A largest file size that every file exceeds, so that all buckets are split."""
LARGE = 1 << 30
"""A largest file size that no file comes near, so that all buckets are merged."""


def make(path: Path, version: int = 9, n: int = 4, **index: int) -> bf.Table:
    return create_table(
        path, bf.ConsistentHashingIndex(n, **index), "MERGE_ON_READ", table_version=version
    )


@made_once
def filled(path: Path, version: int = 9, n: int = 4) -> tuple[bf.Table, Model]:
    """Return a table with rows in base files and logs, and its model."""
    table, model = make(path, version, n), Model()
    for given_rows in (rows(range(60), 1), rows(range(20, 40), 2, 3.0)):
        table.upsert(given_rows)
        model.upsert(given_rows)
    table.delete(rows(range(5), 3))
    model.delete([f"key-{i:06d}" for i in range(5)])
    return table, model


def ring_of(table: bf.Table, path: str) -> list[int]:
    metadata = load_hashing_metadata(table._snapshot().state, path)
    assert metadata is not None
    return [node.value for node in metadata.nodes]


@pytest.mark.rule("RING-18", "RING-19", "RING-22", "RING-23")
@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_rows_stay_and_rings_change(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    table.metadata_table.init("files", "column_stats", "record_index")
    paths = table._snapshot().partitions
    before = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    keys = [("_hoodie_record_key", "ascending")]
    for size, limits, num_nodes in ((SMALL, {}, 8), (LARGE, {"min_buckets": 3}, 3)):
        preview = table.preview_resize(max_file_size=size, max_buckets=8, **limits)
        done = table.resize(max_file_size=size, max_buckets=8, **limits)
        assert done is not None
        assert (preview.partitions, preview.file_groups) == (len(paths), done.file_groups_replaced)
        for path in paths:
            assert len(ring_of(table, path)) == num_nodes
        after = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
        assert after.sort_by(keys) == before.sort_by(keys)
        assert_reads_as(table.uri, model)
        assert_in_step(table)
    more = rows(range(50, 70), 4)
    table.upsert(more)
    model.upsert(more)
    assert_reads_as(table.uri, model)


def small_file(value: int, size: int, path: str = "p") -> FileSlice:
    name = BaseFileName(f"f{value}-0", "0-0-0", "1", "parquet")
    return FileSlice(path, f"f{value}-0", "1", DataFile(f"{path}/x", name, size), ())


def plan(sizes: dict[int, int], **limits: object) -> list[tuple[str, tuple[int, ...]]]:
    """Plan a ring whose nodes have these sizes; None of a node without a file."""
    nodes = tuple(HashingNode(value, f"f{value}") for value in sorted(sizes))
    metadata = HashingMetadata(0, "p", "0" * 14, len(nodes), 0, nodes)
    slices = tuple(small_file(value, size) for value, size in sizes.items() if size >= 0)
    given = ResizeLimits(**{"min_buckets": 1, "max_buckets": 99, "max_file_size": 100, **limits})  # type: ignore[arg-type]
    return [(g.kind, g.values) for g in plan_resize([RingOfPartition(metadata, slices)], given)]


def test_sizes_decide_as_hudi_has_it() -> None:
    sizes = {10: 201, 20: 200, 30: 20, 40: 20, 50: 1, 60: 21, 70: 5}
    # 40 takes 30 in backward: together they exceed the size, so that 50 is left alone.
    assert plan(sizes) == [("split", (10,)), ("merge", (30, 40))]
    assert plan(sizes, sort_by=("x",)) == [
        ("split", (10,)),
        ("merge", (30, 40)),
        *(("sort", (value,)) for value in (20, 50, 60, 70)),
    ]
    assert plan(sizes, max_buckets=7, min_buckets=7) == []
    assert plan({10: 500, 20: 500, 30: 500}, max_buckets=4) == [("split", (10,))]
    # A merge may go over the end of the ring, and a split makes room for another merge.
    assert plan({10: 1, 20: 50, 30: 1}) == [("merge", (30, 10))]
    assert plan({10: 1, 20: 201, 30: 1}, min_buckets=3) == [("split", (20,)), ("merge", (30, 10))]
    # Nodes without files lie between: no neighbours.
    assert plan({10: 1, 20: -1, 30: 1, 40: 50}) == []
    # A range of one hash value is not split.
    assert plan({10: 500, 11: 500}) == [("split", (10,))]


def test_limits_of_a_schedule_cut_the_end_off() -> None:
    sizes = dict.fromkeys(range(10, 60, 10), 300)
    assert len(plan(sizes, max_bytes=650)) == 2
    assert len(plan(sizes, max_bytes=1)) == 1
    assert len(plan(sizes, max_groups=3)) == 3


@given(
    st.lists(st.integers(-1, 400), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(0, 6),
)
def test_plans_keep_within_the_bounds(sizes: list[int], least: int, more: int) -> None:
    by_value = {(i + 1) * 100: size for i, size in enumerate(sizes)}
    bounds = {"min_buckets": least, "max_buckets": least + more}
    groups = plan(by_value, **bounds)
    touched = [value for _, values in groups for value in values]
    assert len(touched) == len(set(touched))
    num_after = len(sizes)
    for kind, values in groups:
        num_after += 1 if kind == "split" else 1 - len(values)
        order = sorted(by_value)
        places = [order.index(value) for value in values]
        assert all((b - a) % len(order) == 1 for a, b in pairwise(places))
    if any(kind == "split" for kind, _ in groups):
        assert num_after <= max(least + more, len(sizes))
    if any(kind == "merge" for kind, _ in groups):
        assert num_after >= min(least, len(sizes))


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=60),
    st.integers(0, 2**31 - 1),
    st.integers(2, 6),
)
def test_even_parts_are_as_even_as_the_hashes_allow(
    offsets: list[int], former: int, num_parts: int
) -> None:
    value = (former + 51) & 0x7FFFFFFF
    hashes = np.array([(former + 1 + i) & 0x7FFFFFFF for i in offsets], np.uint32)
    found = EvenSplit().find_values(former, value, num_parts, hashes)
    ends = [*((v - former - 1) & 0x7FFFFFFF for v in found), 50]
    assert ends == sorted(set(ends)), "in ring order, and none twice"
    begin, parts = -1, []
    for end in ends:
        parts.append(sum(begin < i <= end for i in offsets))
        begin = end
    assert sum(parts) == len(offsets)
    assert all(parts)
    assert (len(parts) == 1) == (len(set(offsets)) == 1)
    heaviest = max(offsets.count(i) for i in offsets)
    assert max(parts) <= len(offsets) / num_parts + 2 * heaviest


def test_rounds_of_splits_and_merges(tmp_path: Path) -> None:
    """Keys that all lie in a sliver of the ring, split again and again, and merged again."""
    table, model = make(tmp_path / "t", n=2), Model()
    layout = table._index_finder.layout(table._snapshot(), "us")
    numbers = list(range(0, 30_000, 3))
    hashes = layout.hash_keys(pa.array([f"key-{n:06d}" for n in numbers]))
    sliver = [n for n, h in zip(numbers, hashes, strict=True) if h < 2**31 // 50]
    assert len(sliver) > 100
    turns = [("middle", 4), ("even", 8), ("even", 16), ("merge", 2), ("even", 16)]
    for ts, (policy, number) in enumerate(turns):
        given_rows = rows(sliver[ts::3], ts)
        table.upsert(given_rows)
        model.upsert(given_rows)
        if policy == "merge":
            done = table.resize(max_file_size=LARGE, min_buckets=number)
        else:
            done = table.resize(max_file_size=SMALL, max_buckets=number, split=policy)  # type: ignore[arg-type]
        assert done is not None
        assert_reads_as(table.uri, model)
    assert len(ring_of(table, "us")) == 16
    names = table.scan(meta_columns=True).to_arrow().column("_hoodie_file_name").combine_chunks()
    sizes = pc.value_counts(pc.utf8_slice_codeunits(names, 0, 36)).field("counts").to_pylist()
    assert max(sizes) <= 2 * sorted(sizes)[len(sizes) // 2]


def test_a_resize_is_executed_by_others_and_in_pieces(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    scheduled = table.schedule_resize(max_file_size=SMALL, max_buckets=8, partitions=["us"])
    other = table.schedule_resize(max_file_size=SMALL, max_buckets=8, partitions=["eu"])
    assert scheduled is not None
    assert other is not None
    assert scheduled < other
    assert table.preview_resize().pending == scheduled
    with pytest.raises(bf.ConflictError, match=scheduled):
        table.schedule_resize(max_file_size=SMALL, max_buckets=8, partitions=["us"])
    assert_reads_as(table.uri, model)
    first, second = table.start_resize(), table.start_resize()
    assert first is not None
    assert second is not None
    assert (first.instant, second.instant) == (scheduled, other)
    for started in (second, first):  # several in flight, on different partitions
        task = pickle.loads(pickle.dumps(started.task))
        receipts = [r for i, p in enumerate(started.payloads) for r in task.rewrite(p, f"{i}-0-0")]
        receipts += task.rewrite(started.payloads[0], "0-1-1")  # an attempt too many
        with started:
            with pytest.raises(ValueError, match="each of its groups"):
                started.publish(receipts[:1])
            started.publish(receipts)
        assert_reads_as(table.uri, model)
    assert [len(ring_of(table, path)) for path in ("us", "eu", "ap")] == [8, 8, 4]


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.parametrize("version", [6, 9])
def test_what_was_left_is_executed_again_or_taken_back(tmp_path: Path, version: int) -> None:
    table, model = filled(tmp_path / "t", version)
    before = {path: ring_of(table, path) for path in table._snapshot().partitions}
    files = set(table.inspect.files().column("path").to_pylist())
    started = table.start_resize(max_file_size=SMALL, max_buckets=8)
    assert started is not None
    started.task.rewrite(started.payloads[0], "0-0-0")
    started.abandon()
    table.rollback(started.instant)
    assert not table.timeline.pending.instants
    assert {path: ring_of(table, path) for path in before} == before
    assert set(table.inspect.files().column("path").to_pylist()) == files
    assert_reads_as(table.uri, model)
    started = table.start_resize(max_file_size=SMALL, max_buckets=8)
    assert started is not None
    started.task.rewrite(started.payloads[0], "0-0-0")
    started.abandon()
    assert table.resize() is not None
    assert_reads_as(table.uri, model)
    table.rollback(started.instant)
    assert {path: ring_of(table, path) for path in before} == before
    assert_reads_as(table.uri, model)
    given_rows = rows(range(80), 9)
    table.upsert(given_rows)
    model.upsert(given_rows)
    assert_reads_as(table.uri, model)


def test_who_stood_still_deletes_no_file_of_who_began_a_resize_again(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    first = table.start_resize(max_file_size=SMALL, max_buckets=8)
    assert first is not None
    late = [r for i, p in enumerate(first.payloads) for r in first.task.rewrite(p, f"{i}-0-1")]
    [alive] = Path(table.uri, ".hoodie/.heartbeat").iterdir()
    first._pending.heartbeat._last = 0.0  # as after a pause
    alive.unlink()
    second = bf.open(table.uri).start_resize()
    assert second is not None
    assert second.instant == first.instant
    receipts = [
        r for i, p in enumerate(second.payloads) for r in second.task.rewrite(p, f"{i}-0-2")
    ]
    with pytest.raises(bf.ConflictError, match="stood still"), first:
        first.publish(late)
    assert alive.exists()
    with second:
        second.publish(receipts)
    assert_reads_as(table.uri, model)


@made_once
def resized_and_compacted(path: Path) -> tuple[bf.Table, Model]:
    """Return a table of two resizes and many commits, so that the resizes may be archived."""
    table, model = filled(path)
    for ts in range(4, 12):
        if ts in (4, 5):
            assert table.resize(max_file_size=SMALL, max_buckets=4 * (ts - 2)) is not None
        given_rows = rows(range(ts, 60, 5), ts)
        table.upsert(given_rows)
        model.upsert(given_rows)
        table.compact()
    return table, model


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.rule("RING-14", "RING-15", "RING-16", "RING-32", "RING-33")
@pytest.mark.parametrize("has_markers", [True, False])
def test_archived_resizes_keep_their_rings(tmp_path: Path, has_markers: bool) -> None:
    """HUDI-6047: without its replacecommit a ring was passed over, and every key came twice."""
    table, model = resized_and_compacted(tmp_path / "t")
    folder = tmp_path / "t/.hoodie/.bucket_index/consistent_hashing_metadata"
    ring = ring_of(table, "us")
    if not has_markers:
        for marker in folder.rglob("*.commit"):
            marker.unlink()
    assert len(list((folder / "us").glob("*.hashing_meta"))) == 3
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=2, max_commits=3)
    assert not table.timeline.completed.of("replacecommit").instants
    assert ring_of(table, "us") == ring
    assert [m.stem for m in (folder / "us").glob("*.commit")] != []
    preview = table.clean(retain=1)
    done = table.clean(retain=1, dry_run=False)
    assert [p for p in done.files if "bucket_index" in p]
    assert set(done.files) >= set(preview.files)
    (left,) = (folder / "us").glob("*.hashing_meta")
    assert [m.stem for m in (folder / "us").glob("*.commit")] == [left.stem]
    assert ring_of(table, "us") == ring
    given_rows = rows(range(60), 20)
    table.upsert(given_rows)
    model.upsert(given_rows)
    assert_reads_as(table.uri, model)


@pytest.mark.rule("TL-27")
@pytest.mark.parametrize("version", [6, 9])
def test_a_resize_stays_as_long_as_writes_amid_it(tmp_path: Path, version: int) -> None:
    """Their commits name the old file groups, of which files seemed lost without the resize."""
    table, model = filled(tmp_path / "t", version)
    resize = table.schedule_resize(max_file_size=SMALL, max_buckets=8)

    def upsert(ts: int) -> str:
        given_rows = rows(range(ts, 60, 7), ts)
        model.upsert(given_rows)
        return table.upsert(given_rows).instant

    amid = [upsert(ts) for ts in range(10, 14)]
    assert table.resize() is not None
    after = [upsert(20)]
    table.clean(retain=1, dry_run=False)
    archived = [i.requested_time for i in table.archive(min_commits=4, max_commits=4)]
    assert archived, "commits from before the resize"
    assert not {resize, *amid, *after} & set(archived)
    assert_reads_as(table.uri, model)
    after += [upsert(ts) for ts in range(21, 25)]
    archived = [i.requested_time for i in table.archive(min_commits=4, max_commits=4)]
    assert {resize, *amid} <= set(archived)
    assert_reads_as(table.uri, model)
    assert upsert(30) not in archived
    assert_reads_as(table.uri, model)


@pytest.mark.rule("RING-32")
@pytest.mark.parametrize(("version", "is_marked"), [(6, False), (8, True), (9, True)])
def test_the_ring_of_a_completed_resize_is_marked_where_hudi_can_resize_it_again(
    tmp_path: Path, version: int, is_marked: bool
) -> None:
    """Hudi 0.15 found no ring beside a marked one, once it had written that of its own resize."""
    table, _ = filled(tmp_path / "t", version)
    assert table.resize(max_file_size=SMALL, max_buckets=8) is not None
    folder = tmp_path / "t/.hoodie/.bucket_index/consistent_hashing_metadata/us"
    (resize,) = table.timeline.completed.of("clustering", "replacecommit").instants
    made, first = sorted((m.stem for m in folder.glob("*.hashing_meta")), reverse=True)
    assert (made, first) == (resize.requested_time, "00000000000000")
    marked = [m.stem for m in folder.glob("*.commit")]
    assert marked == ([resize.requested_time] if is_marked else [])
    assert len(ring_of(table, "us")) == 8


def test_a_ring_that_a_rollback_of_hudi_left_is_passed_over_and_deleted(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    ring = ring_of(table, "us")
    started = table.start_resize(max_file_size=SMALL, max_buckets=8)
    assert started is not None
    started.abandon()
    folder = tmp_path / "t/.hoodie/.bucket_index/consistent_hashing_metadata/us"
    path = folder / f"{started.instant}.hashing_meta"
    first = next(folder.glob("*.hashing_meta")).read_bytes()
    table.rollback(started.instant)
    path.write_bytes(first.replace(b"00000000000000", started.instant.encode()))
    assert ring_of(table, "us") == ring
    assert table.clean(dry_run=False).files == (path.relative_to(tmp_path / "t").as_posix(),)
    assert not path.exists()
    assert_reads_as(table.uri, model)


def test_a_resize_begins_when_the_writes_under_way_are_done(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    more = rows(range(55, 65), 4)
    model.upsert(more)
    with table.start_write("upsert", more.schema) as started:
        receipts = list(started.task.write(more, "0-0-0"))
        resizing = Thread(target=lambda: table.resize(max_file_size=SMALL, max_buckets=8))
        resizing.start()
        time.sleep(0.4)
        assert not table.timeline.pending.of("clustering").instants
        started.publish(receipts)
    resizing.join()
    assert len(ring_of(table, "us")) == 8
    assert_reads_as(table.uri, model)


def test_a_resize_takes_the_file_groups_of_a_compaction_that_ends(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    table.upsert(more := rows(range(60), 4))
    model.upsert(more)
    started = table.start_compaction()
    assert started is not None
    assert not table.preview_resize(max_file_size=SMALL, max_buckets=8).file_groups
    with started:
        resizing = Thread(target=lambda: table.resize(max_file_size=SMALL, max_buckets=8))
        resizing.start()
        receipts = [started.task.compact(payload, "0-0-0") for payload in started.payloads]
        time.sleep(0.4)
        assert not table.timeline.pending.of("clustering").instants
        started.publish(receipts)
    resizing.join()
    assert len(ring_of(table, "us")) == 8
    assert_reads_as(table.uri, model)


def test_rows_are_sorted_where_that_is_asked_for(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    with pytest.raises(ValueError, match="nowhere"):
        table.resize(sort_by=["nowhere"])
    assert table.resize(sort_by=["price"], max_buckets=4) is not None
    assert_reads_as(table.uri, model)
    found = table.scan(meta_columns=True).to_arrow().to_pylist()
    for name in {row["_hoodie_file_name"] for row in found}:
        prices = [row["price"] for row in found if row["_hoodie_file_name"] == name]
        assert prices == sorted(prices)


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resizing_rings, "_WRITERS_TRIES", 1)
    table, _ = filled(tmp_path / "t")
    for options in ({"min_buckets": 9, "max_buckets": 8}, {"partitions": ["x"]}, {"split": "x"}):
        with pytest.raises(ValueError, match=r"contradict|no partition|one of"):
            table.resize(**options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'n'"):
        table.resize(n=1)  # type: ignore[call-arg]
    started = table.start_write("upsert", rows(range(1), 1).schema)
    with started, pytest.raises(bf.ConflictError, match="under way"):
        table.resize(max_file_size=SMALL)
    simple = bf.create(
        tmp_path / "simple",
        schema=SCHEMA,
        record_key=["id"],
        index=bf.SimpleBucketIndex(2),
        ordering=["ts"],
    )
    simple.upsert(rows(range(3), 1))
    with pytest.raises(bf.UnsupportedError, match="rehash"):
        simple.resize()
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    text = properties.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE")
    properties.write_text(
        "\n".join(line for line in text.splitlines() if "checksum" not in line) + "\n"
    )
    with pytest.raises(bf.BucketfmtError):
        bf.open(tmp_path / "t").resize(max_file_size=SMALL)


def test_one_that_may_have_been_published_is_not_kept_alive(tmp_path: Path) -> None:
    """Its heartbeat went on for as long as the process, and nobody could resize."""
    table, model = filled(tmp_path / "t")
    started = table.start_resize(max_file_size=SMALL, max_buckets=8)
    assert started is not None

    def unknown(*_: object) -> None:
        raise bf.CommitUnknownError("the store does not tell")

    started._pending.complete = unknown  # type: ignore[method-assign, assignment]
    with pytest.raises(bf.CommitUnknownError), started:
        started.run_in_threads()
    assert not is_kept_up(table.store, started.instant)
    heartbeat = Path(table.uri, ".hoodie/.heartbeat", started.instant)
    assert heartbeat.exists()  # nobody begins it again before it has expired
    os.utime(heartbeat, (0, 0))
    done = bf.open(table.uri).resize(max_file_size=SMALL, max_buckets=8)
    assert done is not None
    assert done.instant == started.instant
    assert_reads_as(table.uri, model)
