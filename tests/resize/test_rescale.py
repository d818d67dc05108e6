"""Numbers of buckets by rules: what is rewritten, and which rules count when and for whom."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.buckets.partition_rules import plan_archived_rules
from bucketfmt.write.services.compaction import Compactor
from tests.resize.test_rehash import filled, make
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, assert_reads_as, rows

CONFIGS = ".hoodie/.bucket_index/partition_bucket_index_meta"


def numbers(table: bf.Table) -> dict[str, set[int]]:
    """Return the bucket ids of each partition."""
    found: dict[str, set[int]] = {}
    for row in table.inspect.buckets().to_pylist():
        found.setdefault(row["partition_path"], set()).add(row["bucket_id"])
    return found


def rule_files(table: bf.Table, folder: str = "configs") -> list[str]:
    path = Path(table.uri.removeprefix("file://"), CONFIGS, folder)
    return sorted(file.name.partition(".")[0] for file in path.glob("*.hashing_config"))


def file_ids(table: bf.Table, partition: str) -> set[str]:
    found = table.inspect.buckets().to_pylist()
    return {row["file_id"] for row in found if row["partition_path"] == partition}


@pytest.mark.rule("PBR-10")
@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_only_partitions_whose_number_changes_are_rewritten(tmp_path: Path, kind: str) -> None:
    table, model = filled(tmp_path / "t", 9, kind)
    table.metadata_table.init("files", "column_stats", "record_index")
    stated = bf.open(table.uri).config.properties
    before = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    untouched = file_ids(table, "eu")
    preview = table.preview_rescale("^us$,8", default=4)
    assert {(p.partition_path, p.before, p.after) for p in preview.partitions} == {
        ("ap", 4, 4),
        ("eu", 4, 4),
        ("us", 4, 8),
    }
    done = table.rescale("^us$,8", default=4)
    assert done is not None
    assert done.file_groups_replaced == preview.file_groups == 4
    assert file_ids(table, "eu") == untouched
    after = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    keys = [("id", "ascending")]
    assert after.sort_by(keys).equals(before.sort_by(keys)), "commit times stay too"
    assert max(numbers(table)["us"]) > 3
    assert table.index == bf.open(table.uri).index == bf.PartitionBucketIndex(4, "^us$,8", ("id",))
    assert bf.open(table.uri).config.properties == stated, "the number before the rules"
    (config,) = Path(table.uri.removeprefix("file://"), CONFIGS, "configs").iterdir()
    assert json.loads(config.read_text()) == {
        "expressions": "^us$,8",
        "defaultBucketNumber": 4,
        "rule": "regex",
        "version": 1,
        "instant": done.instant,
    }
    assert config.name == f"{done.instant}.hashing_config"
    assert_in_step(table)
    assert table.rescale("^us$,8") is None
    for rules, added in (("u,3", False), ("^eu$,1", True), (".,5", False)):
        assert table.rescale(rules, add=added) is not None
        assert_in_step(table)
        changed = rows(range(30, 90), 9)
        table.upsert(changed)
        model.upsert(changed)
        assert_reads_as(table.uri, model)
        keys_of = pa.table({"id": ["key-000030"], "region": ["us"]})
        assert table.lookup(keys_of).num_rows == 1
    assert table.index.rules == ".,5"  # type: ignore[union-attr]
    assert table.check(depth="full").findings == ()


def test_the_rules_before_are_kept_where_some_are_added(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    table.rescale("us,2")
    table.rescale("^eu$,3", add=True)
    assert table.index == bf.PartitionBucketIndex(4, "^eu$,3;us,2", ("id",))


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.rule("PBR-9")
def test_readers_of_the_past_go_by_the_rules_of_then(tmp_path: Path) -> None:
    """Also where there were none, and the number of hoodie.properties holds."""
    table, _ = filled(tmp_path / "t")
    moments = []
    for rules in (None, ".,1", "us,7", ".,2"):
        if rules is not None:
            table.rescale(rules)
        last = table.timeline.completed.commits.last
        assert last is not None
        moments.append(last.requested_time)
    seen = set()
    for as_of in (*moments, None):
        reader = bf.open(table.uri)
        for key in range(10, 60):
            where = [("id", "=", f"key-{key:06d}"), ("region", "=", "us")]
            scan = reader.scan(as_of=as_of, filter=where)
            assert scan.to_arrow().num_rows == (key % 3 == 0), (as_of, key)
            seen |= {each.file_id[:8] for each in scan.plan().slices}
    assert len(seen) == 7


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.rule("PBR-14")
def test_readers_of_before_the_rules_where_nothing_recorded_the_number(tmp_path: Path) -> None:
    """Hudi does not record it; and what is recorded later states the rules."""
    table, _ = filled(tmp_path / "t")
    before = table.timeline.completed.commits.last
    assert before is not None
    table.rescale("us,7", default=2)
    path = Path(table.uri.removeprefix("file://"), ".hoodie/hoodie.properties")
    kept = [line for line in path.read_text().splitlines() if "bucket" not in line.lower()]
    path.write_text("\n".join(kept) + "\n")
    reader = bf.open(table.uri)
    reader.pin_index()
    assert "partition.expressions" in path.read_text()
    for key in range(10, 60):
        where = [("id", "=", f"key-{key:06d}"), ("region", "=", "us")]
        for as_of in (before.requested_time, None):
            scan = bf.open(table.uri).scan(as_of=as_of, filter=where)
            assert scan.to_arrow().num_rows == (key % 3 == 0)


@pytest.mark.rule("PBR-11")
def test_it_is_taken_back(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    other = bf.open(table.uri)
    first = table.rescale("us,6")
    second = table.rescale("us,3")
    assert first is not None
    assert second is not None
    other.scan().to_arrow()
    table.rollback(second.instant)
    assert rule_files(table) == [first.instant]
    assert other.index == table.index == bf.PartitionBucketIndex(4, "us,6", ("id",))
    other.upsert(rows(range(50, 70), 9))
    model.upsert(rows(range(50, 70), 9))
    assert_reads_as(table.uri, model)
    assert table.check(depth="full").findings == ()


def test_back_to_one_number(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    done = table.rescale("us,6")
    assert done is not None
    table.rollback(done.instant)
    assert rule_files(table) == []
    assert table.index == bf.SimpleBucketIndex(4, ("id",))
    assert_reads_as(table.uri, model)
    assert table.rehash(3) is not None
    assert table.rescale(".,3") is not None
    assert table.rescale(".,8") is not None
    assert max(bucket for own in numbers(table).values() for bucket in own) > 3
    assert_reads_as(table.uri, model)


def test_a_write_that_is_under_way_routes_its_rows_anew(tmp_path: Path) -> None:
    """Also to a partition that is new, and that nothing of the rescale names."""
    table, model = filled(tmp_path / "t")
    other = bf.open(table.uri)
    changed = rows(range(30, 80), 9).set_column(4, "region", pa.array(["new"] * 50))

    def rows_while_rescaled() -> pa.RecordBatchReader:
        def batches():  # type: ignore[no-untyped-def]
            yield from changed.to_batches()
            other.rescale("new,16;us,8")

        return pa.RecordBatchReader.from_batches(SCHEMA, batches())

    table.upsert(rows_while_rescaled())
    model.upsert(changed)
    assert max(numbers(table)["new"]) > 3
    assert_reads_as(other.uri, model)
    assert table.check(depth="full").findings == ()


@pytest.mark.rule("PBR-13")
def test_of_two_rescales_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of the newest instant count, so an older one may not be published after them."""
    table, model = filled(tmp_path / "t")
    other = bf.open(table.uri)
    begin = table._transactions.begin

    def begin_and_be_overtaken(action: str) -> object:
        transaction = begin(action)
        other.rescale("us,3")
        return transaction

    monkeypatch.setattr(table._transactions, "begin", begin_and_be_overtaken)
    with pytest.raises(bf.ConflictError, match="changed the buckets"):
        table.rescale("us,8")
    assert other.index == bf.PartitionBucketIndex(4, "us,3", ("id",))
    assert len(rule_files(other)) == 1
    assert_reads_as(table.uri, model)
    assert other.check(depth="full").findings == ()


def test_what_it_is_not_for(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t")
    instants = len(table.timeline.instants)
    for rules, error in (
        ("", ValueError),
        ("us", ValueError),
        ("us,x", ValueError),
        ("us,0", ValueError),
        ("us,100000000", ValueError),
        ("us,2;eu,0", ValueError),
        ("(us,2", bf.UnsupportedError),
        (";".join(["us,2"] * 100_000), bf.LimitError),
    ):
        for act in (table.rescale, table.preview_rescale):
            with pytest.raises(error):
                act(rules)
    for default in (0, 100_000_000):
        with pytest.raises(ValueError, match="default"):
            table.rescale("us,2", default=default)
    with pytest.raises(TypeError):
        table.rescale(["us,2"])  # type: ignore[arg-type]
    ring = bf.create(
        tmp_path / "ring",
        schema=SCHEMA,
        record_key=["id"],
        index=bf.ConsistentHashingIndex(4),
        table_type="MERGE_ON_READ",
    )
    ring.upsert(rows(range(9), 1))
    with pytest.raises(bf.UnsupportedError, match="simple bucket index"):
        ring.rescale("us,2")
    for version in (6, 8):
        old = make(tmp_path / f"v{version}", version)
        with pytest.raises(bf.UnsupportedError, match="table version 9"):
            old.rescale("us,2")
    assert len(table.timeline.instants) == instants
    assert rule_files(table) == []
    Compactor(table._listed_snapshot, table._transactions).schedule()
    with pytest.raises(bf.ConflictError, match="is pending"):
        table.rescale("us,2")
    assert rule_files(table) == []


@pytest.mark.rule("PBR-12")
def test_old_rules_are_archived() -> None:
    known = ["00000000000000", "20260101000000000", "20260102000000000", "20260103000000000"]
    first, one, two, three = known
    assert plan_archived_rules(known, [], three) == [first, one]
    assert plan_archived_rules(known, [], "20260104000000000") == [first, one, two]
    assert plan_archived_rules(known, [one, three], "20260104000000000") == [first]
    assert plan_archived_rules(known, [], None) == plan_archived_rules(known, [], one) == []


def test_a_rescale_archives_the_rules_that_nobody_needs(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    made = [table.rescale(f"us,{number}") for number in (2, 3)]
    for ts in range(10, 16):
        table.upsert(rows(range(40, 44), ts))
        model.upsert(rows(range(40, 44), ts))
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=1, max_commits=2)
    assert table.timeline.is_completed(made[1].instant)  # type: ignore[union-attr]
    newest = table.rescale("us,5")
    assert newest is not None
    assert rule_files(table) == [made[1].instant, newest.instant]  # type: ignore[union-attr]
    assert rule_files(table, "archive") == [made[0].instant]  # type: ignore[union-attr]
    assert_reads_as(bf.open(table.uri).uri, model)
    assert table.check(depth="full").findings == ()


def test_a_table_without_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    assert table.rescale("us,8") is not None
    table.upsert(rows(range(60), 1))
    assert max(numbers(table)["us"]) > 3 >= max(numbers(table)["eu"])
    assert table.check(depth="full").findings == ()


@pytest.mark.rule("REHASH-6")
@pytest.mark.parametrize("does", ["rehash", "rescale"])
def test_an_overwrite_meanwhile_is_never_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """The new file groups must not be older than the commit that replaced the old ones."""
    table, _ = filled(tmp_path / "t")
    held = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    other, begin, begun = bf.open(table.uri), table._transactions.begin, []
    overwritten = rows(range(40), 9, 7.0)

    def begin_and_be_overtaken(action: str) -> object:
        transaction = begin(action)
        begun.append(transaction.instant)
        if len(begun) == 1:
            begun.append(other.insert_overwrite(overwritten).instant)
        return transaction

    monkeypatch.setattr(table._transactions, "begin", begin_and_be_overtaken)
    done = table.rehash(8) if does == "rehash" else table.rescale(".,8")
    assert done is not None
    assert begun == sorted(begun)
    assert begun[2:] == [done.instant]
    new = {row["id"]: row for row in overwritten.to_pylist()}
    for as_of, expected in ((begun[0], held), (begun[1], new), (None, new)):
        found = bf.open(table.uri).scan(as_of=as_of).to_arrow().sort_by("id").to_pylist()
        assert found == [expected[key] for key in sorted(expected)], as_of
    assert bf.open(table.uri).check(depth="full").findings == ()
