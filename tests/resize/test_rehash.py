"""Another number of buckets: rows, files, and everybody who reads and writes meanwhile."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.format.buckets.rehashes import (
    REHASH,
    REWRITTEN_UNTIL,
    Rehash,
    find_num_buckets,
    find_rewritten_until,
)
from bucketfmt.format.keys.record_keys import dialect_for_table_version
from bucketfmt.format.names.names import find_bucket_id, format_bucket_file_id, format_nbcc_file_id
from bucketfmt.index.layout import FixedBuckets
from bucketfmt.resize.bucket_service import BucketService
from bucketfmt.resize.numbered.plan_rehash import plan_rehash
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.write.services.compaction import Compactor
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, made_once, rows

KINDS = [(6, "MERGE_ON_READ"), (8, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")]
_TIME = "20260101000000000"
_UUID = "11111111-2222-3333-4444-555555555555"


def make(path: Path, version: int = 9, kind: str = "MERGE_ON_READ", n: int = 4) -> bf.Table:
    return create_table(path, bf.SimpleBucketIndex(n), kind, table_version=version)


@made_once
def filled(path: Path, version: int = 9, kind: str = "MERGE_ON_READ") -> tuple[bf.Table, Model]:
    """Return a table with rows in base files and logs, and its model."""
    table, model = make(path, version, kind), Model()
    for given_rows in (rows(range(60), 1), rows(range(20, 40), 2, 3.0)):
        table.upsert(given_rows)
        model.upsert(given_rows)
    gone = [f"key-{i:06d}" for i in range(5)]
    table.delete(rows(range(5), 3))
    model.delete(gone)
    return table, model


def buckets(table: bf.Table) -> set[int]:
    return set(table.inspect.buckets().column("bucket_id").to_pylist())


def number_of(table: bf.Table) -> int:
    index = table.index
    assert isinstance(index, bf.SimpleBucketIndex)
    return index.num_buckets


# -- pure


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1 << 31))
def test_a_hash_goes_to_a_new_bucket_of_its_step(before: int, after: int, value: int) -> None:
    old, new = (FixedBuckets(n, ("id",), dialect_for_table_version(9)) for n in (before, after))
    own = value % before
    slices = [
        FileSlice("p", format_bucket_file_id(bucket, _UUID), "1", None, ())
        for bucket in range(before)
    ]
    steps = plan_rehash(slices, lambda _: old, lambda _: new)
    assert sorted(s.file_id for step in steps for s in step.slices) == [s.file_id for s in slices]
    assert sorted(bucket for step in steps for bucket in step.buckets) == list(range(after))
    (step,) = [step for step in steps if slices[own] in step.slices]
    assert value % after in step.buckets


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=6), st.data())
def test_the_number_is_that_of_the_newest_visible_rehash(
    made: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """In hoodie.properties is any of the numbers that the table had."""
    number, known, visible, numbers = 3, [], set(), [3]
    for second, (after, is_completed) in enumerate(made, 10):
        instant = f"202601010000{second}000"
        known.append(Rehash(instant, number, after))
        if is_completed:
            visible.add(instant)
            number = after
            numbers.append(after)
    stated = data.draw(st.sampled_from(numbers))
    shuffled = data.draw(st.permutations(known + known[:1]))
    assert find_num_buckets(stated, shuffled, visible.__contains__) == number


def test_a_number_that_somebody_else_stated_stands() -> None:
    rehash = Rehash("20260101000000000", 4, 8)
    assert find_num_buckets(5, [rehash], lambda instant: True) == 5
    assert find_num_buckets(5, [], lambda instant: True) == 5
    assert find_num_buckets(None, [rehash], lambda instant: True) == 8


@pytest.mark.parametrize(
    "text",
    [
        "4,8",
        f"x,4,8,{_TIME}",
        f"{_TIME},4",
        f"{_TIME},0,8",
        f"{_TIME},4,8,{_TIME}",
        f"{_TIME},4,{'9' * 30}",
        "2026,4,8",
        f"{_TIME},٤,8",
    ],
)
def test_malformed_entries_are_refused(text: str) -> None:
    with pytest.raises(bf.CorruptError):
        Rehash.find({REHASH: text})


def test_entries_survive() -> None:
    rehash = Rehash("20260101000000000", 4, 8)
    assert Rehash.find(rehash.entry()) == rehash
    assert Rehash.find({}) is None
    assert find_rewritten_until({REWRITTEN_UNTIL: _TIME}) == _TIME
    assert find_rewritten_until({}) is None
    with pytest.raises(bf.CorruptError, match="not an instant"):
        find_rewritten_until({REWRITTEN_UNTIL: "now"})


# -- tables


@pytest.mark.rule("REHASH-2")
@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_rows_stay_and_buckets_change(tmp_path: Path, version: int, kind: str) -> None:
    table, model = filled(tmp_path / "t", version, kind)
    table.metadata_table.init("files", "column_stats", "record_index")
    before = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    last = table.timeline.completed.commits.last
    assert last is not None
    for number in (8, 2, 3):
        preview = table.preview_rehash(number)
        done = table.rehash(number)
        assert done is not None
        assert (preview.after, preview.file_groups) == (number, done.file_groups_replaced)
        assert done.rows_inserted == len(model.rows)
        after = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
        keys = [("id", "ascending")]
        assert after.sort_by(keys).equals(before.sort_by(keys)), "commit times stay too"
        assert buckets(table) <= set(range(number))
        assert number_of(table) == number_of(bf.open(table.uri)) == number
        keys_of = pa.table({"id": ["key-000030"], "region": ["us"]})
        assert table.lookup(keys_of).column("price").to_pylist() == [90.0]
        assert_in_step(table)
    assert table.rehash(3) is None
    changed = rows(range(30, 90), 9)
    table.upsert(changed)
    model.upsert(changed)
    assert_reads_as(table.uri, model)
    assert table.check(depth="full").findings == ()
    past = table.scan(as_of=last.requested_time).to_arrow()
    assert past.num_rows == before.num_rows
    stated = bf.open(table.uri).config.properties
    assert stated["hoodie.bucket.index.num.buckets"] == "3"
    assert stated[REHASH].split(",")[1:3] == ["2", "3"]


def test_readers_of_the_past_look_into_the_buckets_of_then(tmp_path: Path) -> None:
    """Their number of buckets is that of their moment, whatever the properties state now."""
    table, _ = filled(tmp_path / "t")
    before = table.timeline.completed.commits.last
    assert before is not None
    table.rehash(2)
    table.rehash(7)
    for as_of in (before.requested_time, None):
        scan = table.scan(as_of=as_of, filter=[("id", "=", "key-000030"), ("region", "=", "us")])
        assert scan.to_arrow().column("price").to_pylist() == [90.0]
        assert len(scan.plan().slices) == 1


@pytest.mark.parametrize("is_recorded", [True, False], ids=["recorded", "died before recording"])
def test_it_is_taken_back(
    tmp_path: Path, is_recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = filled(tmp_path / "t")
    if not is_recorded:
        monkeypatch.setattr(bf.Table, "pin_index", lambda self: False)
    done = table.rehash(6)
    assert done is not None
    other = bf.open(table.uri)
    assert number_of(other) == 6
    stated = other.config.properties["hoodie.bucket.index.num.buckets"]
    assert stated == ("6" if is_recorded else "4")
    table.rollback(done.instant)
    assert number_of(table) == number_of(other) == number_of(bf.open(table.uri)) == 4
    changed = rows(range(50, 70), 9)
    other.upsert(changed)
    model.upsert(changed)
    assert_reads_as(table.uri, model)
    assert bf.open(table.uri).config.properties["hoodie.bucket.index.num.buckets"] == "4"
    assert table.check(depth="full").findings == ()


def test_whoever_opened_the_table_before_goes_on(tmp_path: Path) -> None:
    """Also where the commit of the rehash was archived before they looked again (HUDI-6047)."""
    table, model = filled(tmp_path / "t")
    given_index = bf.open(table.uri, index=bf.SimpleBucketIndex(4))
    readers = [bf.open(table.uri) for _ in range(2)]
    for reader in readers:
        assert reader.scan().to_arrow().num_rows == len(model.rows)
    done = table.rehash(3)
    assert done is not None
    keys = rows(range(20, 60), 0).select(["id", "region"])
    assert readers[0].lookup(keys).num_rows == 40
    for ts in range(10, 20):
        changed = rows(range(40, 44), ts)
        table.upsert(changed)
        model.upsert(changed)
        if ts == 15:
            table.clean(retain=2, dry_run=False)
    table.archive(min_commits=2, max_commits=3)
    assert not table.timeline.contains(done.instant)
    for reader in readers:
        assert reader.lookup(keys).num_rows == 40
        assert number_of(reader) == 3
        assert_reads_as(reader.uri, model)
    with pytest.raises(ValueError, match="contradicts the table"):
        given_index.lookup(keys)


def test_a_write_that_is_under_way_routes_its_rows_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = filled(tmp_path / "t")
    other = bf.open(table.uri)
    changed = rows(range(30, 80), 9)

    def rows_while_rehashed() -> pa.RecordBatchReader:
        def batches():  # type: ignore[no-untyped-def]
            yield from changed.to_batches()
            other.rehash(6)

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())

    table.upsert(rows_while_rehashed())
    model.upsert(changed)
    assert_reads_as(table.uri, model)
    other = bf.open(table.uri)
    with table.start_rehash(2) or pytest.fail("it has six") as started:
        changed = rows(range(10, 50), 10)
        model.upsert(changed)
        stale = bf.open(table.uri)
        begun = stale.start_write("upsert", changed.schema)
        written = list(begun.task.write(changed, "0-0-0"))
        receipts = [r for n, p in enumerate(started.payloads) for r in rehash(started, p, n)]
        started.publish(receipts)
    with begun, pytest.raises(bf.ConflictError, match=r"INSERT_OVERWRITE_TABLE|BUCKET_RESCALE"):
        begun.publish(written)
    stale.upsert(changed)
    assert_reads_as(other.uri, model)
    assert table.check(depth="full").findings == ()


def rehash(started: bf.StartedRewrite, payload: bytes, number: int) -> list[bytes]:
    task = pickle.loads(pickle.dumps(started.task))
    assert isinstance(task, bf.RewriteTask)
    return task.rewrite(payload, f"{number}-0-0")


def test_what_others_change_meanwhile_is_done_again(tmp_path: Path) -> None:
    """Only that: the other steps stay as they are, byte for byte."""
    table, model = filled(tmp_path / "t")
    other = bf.open(table.uri)
    with table.start_rehash(8) or pytest.fail("it has four") as started:
        first = started.payloads
        done = {p: rehash(started, p, n) for n, p in enumerate(first)}
        changed = rows([30], 10)
        other.upsert(changed)
        model.upsert(changed)
        with pytest.raises(bf.ConflictError):
            started.publish(r for p in first for r in done[p])
        assert_reads_as(other.uri, model)
        started.catch_up()
        again = [p for p in started.payloads if p not in done]
        assert len(again) == 1
        with pytest.raises(ValueError, match="each of its steps"):
            started.publish(r for p in first for r in done[p])
        done |= {p: rehash(started, p, 100 + n) for n, p in enumerate(again)}
        started.publish(r for p in started.payloads for r in done[p])
    assert_reads_as(other.uri, model)
    assert number_of(other) == 8
    stated = bf.open(table.uri).config.properties["hoodie.bucket.index.num.buckets"]
    assert stated == "8", "writers of Hudi go by the former number"
    other.upsert(rows([31], 11))
    assert table.check(depth="full").findings == (), "files of outdated steps are gone"


def test_an_overwrite_meanwhile_has_the_change_begun_again(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    with table.start_rehash(8) as started:
        bf.open(table.uri).insert_overwrite(rows(range(40), 9))
        with pytest.raises(bf.OvertakenError, match="begin again"):
            started.run(lambda task, payloads: [task.rewrite(each, "0-0-0") for each in payloads])
    assert table.rehash(8) is not None
    assert table.check(depth="full").findings == ()


def test_what_it_is_not_for(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    for wrong in (0, -1, 100_000_000):
        with pytest.raises(ValueError, match="num_buckets"):
            table.rehash(wrong)
    with pytest.raises(TypeError):
        table.rehash("8")  # type: ignore[arg-type]
    ring = bf.create(
        tmp_path / "ring",
        schema=SCHEMA,
        record_key=["id"],
        index=bf.ConsistentHashingIndex(4),
        table_type="MERGE_ON_READ",
    )
    ring.upsert(rows(range(9), 1))
    with pytest.raises(bf.UnsupportedError, match="simple bucket index"):
        ring.rehash(8)
    shared = bf.open(
        make(tmp_path / "shared").uri, writer=bf.WriterConfig(concurrency="non_blocking")
    )
    shared.upsert(rows(range(9), 1))
    file_ids = shared.inspect.buckets().column("file_id").to_pylist()
    assert format_nbcc_file_id(0) in file_ids
    with pytest.raises(bf.UnsupportedError, match="non-blocking"):
        shared.rehash(8)
    before = len(table.timeline.instants)
    table.upsert(rows(range(30), 12))
    Compactor(table._listed_snapshot, table._transactions).schedule()
    with pytest.raises(bf.ConflictError, match="is pending"):
        table.rehash(8)
    assert len(table.timeline.instants) == before + 2, "the write and the plan"


def test_a_compaction_under_way_is_awaited(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    table.upsert(more := rows(range(30), 12))
    model.upsert(more)
    started = table.start_compaction()
    assert started is not None
    with started, ThreadPoolExecutor(1) as pool:
        rehashing = pool.submit(table.rehash, 8)
        receipts = [started.task.compact(payload, "0-0-0") for payload in started.payloads]
        time.sleep(0.4)
        assert not table.timeline.pending.of("replacecommit").instants
        started.publish(receipts)
        assert rehashing.result() is not None
    assert number_of(table) == 8
    assert_reads_as(table.uri, model)


def test_a_table_that_is_refused_waits_for_no_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(tmp_path / "t", bf.ConsistentHashingIndex(2), "MERGE_ON_READ")
    table.upsert(rows(range(30), 1))
    started = table.start_compaction()
    assert started is not None

    def wait(_: object) -> None:
        raise AssertionError("it waits for the compaction")

    monkeypatch.setattr(BucketService, "_await_compactions", wait)
    with started:
        with pytest.raises(bf.UnsupportedError, match="a rehash of a table with consistent"):
            table.rehash(8)
        with pytest.raises(bf.UnsupportedError, match="a rescale of a table with consistent"):
            table.rescale("a,3")
        with pytest.raises(
            bf.UnsupportedError, match=r"the table has the index consistent:2 already"
        ):
            table.migrate(bf.SimpleBucketIndex(4))


@pytest.mark.rule("REHASH-5")
def test_keys_of_other_buckets_are_not_spread(tmp_path: Path) -> None:
    """Damage is not divided into new buckets, where a second row of the key may be."""
    table, _ = filled(tmp_path / "t", kind="COPY_ON_WRITE")
    wrong = make(tmp_path / "other", kind="COPY_ON_WRITE", n=3)
    wrong.upsert(rows(range(60), 1))
    path = wrong.inspect.files().column("path").to_pylist()[0]
    bucket, region = find_bucket_id(path.rpartition("/")[2]), path.partition("/")[0]
    for file in table.inspect.files().to_pylist():
        name = file["path"].rpartition("/")[2]
        if file["path"].startswith(f"{region}/") and find_bucket_id(name) == bucket:
            target = Path(table.uri.removeprefix("file://")) / file["path"]
            data = Path(wrong.uri.removeprefix("file://"), path).read_bytes()
            target.write_bytes(data)
    with pytest.raises(bf.BucketfmtError):
        table.rehash(8)


def test_a_table_without_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    assert table.rehash(8) is not None
    table.upsert(rows(range(30), 1))
    assert number_of(bf.open(table.uri)) == 8
    assert table.check(depth="full").findings == ()
