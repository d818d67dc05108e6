"""A table with another index, or without one, becomes a table with a bucket index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.buckets.migrations import MIGRATION
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import find_bucket_id
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.location.records.record_locations import RecordLocations
from bucketfmt.location.records.record_locator import RecordLocator
from bucketfmt.resize.migration.plan_migrate import find_ring
from bucketfmt.resize.rewrite_task import RewriteTask
from bucketfmt.timeline.table_properties import change_properties
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.services.compaction import Compactor
from bucketfmt.write.undo.rollback_conflicts import check_newest
from tests.table.keys.test_key_encoding import write_as
from tests.write.metadata.metadata_records import assert_in_step
from tests.write.models import SCHEMA, Model, assert_reads_as, create_table, made_once, rows

Golden = Callable[[str, str], Path]

KINDS = [
    (6, "MERGE_ON_READ", True),
    (8, "COPY_ON_WRITE", False),
    (9, "COPY_ON_WRITE", True),
]
RULES = bf.PartitionBucketIndex(2, "^us$,4")
RING = bf.ConsistentHashingIndex(4)


def make(path: Path, version: int = 9, kind: str = "COPY_ON_WRITE") -> bf.Table:
    return create_table(path, bf.RecordIndex(), kind, table_version=version)


def unindexed(table: bf.Table) -> bf.Table:
    """Take away what states an index, as in tables that Hudi wrote by a Bloom or a simple index."""
    table.metadata_table.drop()
    change_properties(
        table.store,
        table.limits,
        0,
        lambda old: {
            k: v for k, v in old.items() if not k.startswith(("hoodie.index", "hoodie.rec"))
        },
        lambda: None,
    )
    return bf.open(table.uri)


@made_once
def filled(path: Path, version: int = 9, kind: str = "COPY_ON_WRITE") -> tuple[bf.Table, Model]:
    """Return a table with a record index, rows in several file groups and logs; and its model."""
    table, model = make(path, version, kind), Model()
    for given in (rows(range(60), 1), rows(range(20, 40), 2, 3.0), rows(range(60, 90), 2)):
        table.upsert(given)
        model.upsert(given)
    table.delete(rows(range(5), 3))
    model.delete([f"key-{i:06d}" for i in range(5)])
    return table, model


def file_groups(table: bf.Table) -> dict[str, set[int | None]]:
    found: dict[str, set[int | None]] = {}
    for row in table.inspect.buckets().to_pylist():
        found.setdefault(row["partition_path"], set()).add(row["bucket_id"])
    return found


def upsert_and_compare(uri: str, model: Model) -> None:
    given = rows(range(30, 100), 9, 5.0)
    bf.open(uri).upsert(given)
    model.upsert(given)
    assert_reads_as(uri, model)


@pytest.mark.rule("MIGRATE-1")
@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "kind", "has_record_index"), KINDS)
def test_rows_stay_and_come_into_buckets(
    tmp_path: Path, version: int, kind: str, has_record_index: bool
) -> None:
    table, model = filled(tmp_path / "t", version, kind)
    if not has_record_index:
        table = unindexed(table)
    before = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    last = table.timeline.completed.commits.last
    assert last is not None
    preview = table.preview_migrate(bf.SimpleBucketIndex(4), partitions_per_commit=2)
    done = table.migrate(bf.SimpleBucketIndex(4), partitions_per_commit=2)
    assert done is not None
    assert (preview.partitions, preview.commits, preview.notes) == (3, 2, done.notes)
    assert (len(done.instants), done.partitions, done.rows) == (2, 3, len(model.rows))
    assert (done.keys_renamed, done.rows_dropped) == (0, 0)
    assert any("unique in their partition" in note for note in done.notes)
    assert str(table.index) == "SimpleBucketIndex(num_buckets=4, hash_fields=('id',))"
    opened = bf.open(table.uri)
    assert opened.resolved_index.source == "properties"
    assert file_groups(opened) == {path: set(range(4)) for path in ("ap", "eu", "us")}
    after = table.scan(meta_columns=True).to_arrow().drop_columns(["_hoodie_file_name"])
    keys = [("id", "ascending")]
    assert after.sort_by(keys).equals(before.sort_by(keys))
    assert_reads_as(table.uri, model)
    with pytest.raises(bf.ConflictError, match="restore the table to a savepoint from before"):
        table.rollback(done.instants[-1])
    assert table.lookup(["key-000042"]).num_rows == 1
    old = opened.scan(as_of=last.requested_time).to_arrow()
    assert sorted(old["id"].to_pylist()) == sorted(key for _, key in model.rows)
    assert opened.scan(filter=[("id", "=", "key-000042")], as_of=last.requested_time).count() == 1
    if has_record_index:
        assert "record_index" not in bf.open(table.uri).config.metadata_partitions
        assert_in_step(table)
    upsert_and_compare(table.uri, model)
    assert table.migrate(bf.SimpleBucketIndex(4)) is None
    assert table.rehash(8) is not None
    assert_reads_as(table.uri, model)


def test_file_groups_that_look_like_buckets_by_chance_do_not_come_back(tmp_path: Path) -> None:
    """One random UUID in 43 begins with eight digits."""
    table = make(tmp_path / "t")
    uuid = "-1111-4111-8111-111111111111-0"
    written = [WriteStat(file_id=f"0000000{bucket}{uuid}") for bucket in range(4)]
    metadata = CommitMetadata(
        partition_to_write_stats={"us": written},
        partition_to_replace_file_ids={"us": [f"00000003{uuid}"]},
        extra_metadata={MIGRATION: "0" * 32},
    )
    stated = {**table.config.properties, "hoodie.bucket.index.num.buckets": "4"}
    config = TableConfig.from_properties(stated)
    target = Instant(
        "20260101000000000", "replacecommit", State.COMPLETED, "20260101000001000", "any"
    )
    check_newest(config, Timeline((target,), 2), target, metadata, {})  # keys written anew
    looking = msgspec.structs.replace(
        metadata, partition_to_replace_file_ids={"us": [f"83920147{uuid}"]}
    )
    with pytest.raises(bf.ConflictError, match="restore the table to a savepoint from before"):
        check_newest(config, Timeline((target,), 2), target, looking, {})


@pytest.mark.rotated(0, among="resizes", one_of=3)
@pytest.mark.parametrize("index", [RULES, RING])
def test_rules_and_rings(tmp_path: Path, index: bf.Index) -> None:
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    assert isinstance(index, bf.PartitionBucketIndex | bf.ConsistentHashingIndex)
    assert table.migrate(index, partitions_per_commit=1) is not None
    opened = bf.open(table.uri)
    found = {path: len(buckets) for path, buckets in file_groups(opened).items()}
    assert found == {path: index.num_buckets_of(path) for path in ("ap", "eu", "us")}
    assert type(opened.index) is type(index)
    upsert_and_compare(table.uri, model)
    given = rows([200], 9)
    given = given.set_column(4, SCHEMA.field("region"), pa.array(["new"]))
    opened.upsert(given)
    model.upsert(given)
    assert_reads_as(table.uri, model)
    assert opened.migrate(index) is None
    with pytest.raises(bf.UnsupportedError, match=r"already: rehash\(\)"):
        opened.migrate(bf.SimpleBucketIndex(3))


@pytest.mark.rotated(0, among="resizes", one_of=3)
def test_a_writer_by_the_old_index_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are moved too, and the index is stated only when nobody writes by the old one."""
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    writer, reader = bf.open(table.uri), bf.open(table.uri)
    written = [rows(range(10, 50), 5, 7.0), rows(range(80, 140), 6, 8.0)]
    rewrite = RewriteTask.rewrite
    times = []

    def write_meanwhile(task: RewriteTask, *given_to_it: Any) -> list[bytes]:
        done = rewrite(task, *given_to_it)
        times.append(1)
        if len(times) in (2, 4):
            given = written.pop(0)
            writer.upsert(given)
            model.upsert(given)
            assert isinstance(writer.index, bf.RecordIndex)
            assert reader.scan().count() == len(model.rows)
        return done

    monkeypatch.setattr(RewriteTask, "rewrite", write_meanwhile)
    done = table.migrate(bf.SimpleBucketIndex(4), partitions_per_commit=1)
    assert done is not None
    assert done.partitions > 3
    assert written == []
    assert file_groups(bf.open(table.uri)) == {p: set(range(4)) for p in ("ap", "eu", "us")}
    assert_reads_as(table.uri, model)
    for user in (writer, reader):  # opened before
        given = rows(range(130, 150), 9)
        user.upsert(given)
        model.upsert(given)
        assert isinstance(user.index, bf.SimpleBucketIndex)
        assert user.lookup(["key-000140"]).num_rows == 1
    assert_reads_as(table.uri, model)
    assert_in_step(table)


@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "kind"), [case[:2] for case in KINDS])
def test_rows_that_came_before_a_migration_and_are_written_after_it(
    tmp_path: Path, version: int, kind: str
) -> None:
    """Rows that were routed by the record index go to the buckets of their own partitions."""
    table, model = filled(tmp_path / "t", version, kind)
    given = rows(range(30, 120), 9, 5.0)

    def come() -> Iterator[pa.RecordBatch]:
        for batch in given.to_batches(max_chunksize=60):
            yield batch
            bf.open(table.uri).migrate(bf.SimpleBucketIndex(3))

    done = table.upsert(pa.RecordBatchReader.from_batches(given.schema, come()))
    model.upsert(given)
    assert (done.rows_inserted, done.rows_updated) == (30, 60) or kind == "MERGE_ON_READ"
    assert file_groups(bf.open(table.uri)) == {p: set(range(3)) for p in ("ap", "eu", "us")}
    assert_reads_as(table.uri, model)
    assert_in_step(table)


@pytest.mark.rule("MIGRATE-2")
def test_nothing_is_stated_while_a_write_is_under_way(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", 9)
    writer = bf.open(table.uri)
    pending = writer._transactions.begin("commit")
    with pytest.raises(bf.ConflictError, match="under way, by the old index"):
        table.migrate(bf.SimpleBucketIndex(4))
    assert isinstance(bf.open(table.uri).index, bf.RecordIndex)
    assert_reads_as(table.uri, model)
    pending.abort()
    done = table.migrate(bf.SimpleBucketIndex(4))
    assert done is not None
    assert (done.instants, done.partitions) == ((), 0)
    upsert_and_compare(table.uri, model)


@pytest.mark.parametrize("index", [bf.SimpleBucketIndex(4), RING])
def test_an_interrupted_migration_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Any
) -> None:
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    rewrite = RewriteTask.rewrite
    left = [1, 1]

    def die(task: RewriteTask, *arguments: Any) -> list[bytes]:
        if not left:
            raise bf.StorageError("the machine is gone")
        left.pop()
        return rewrite(task, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RewriteTask, "rewrite", die)
        with pytest.raises(bf.StorageError):
            table.migrate(index, partitions_per_commit=1)
    assert isinstance(bf.open(table.uri).index, bf.RecordIndex)
    assert_reads_as(table.uri, model)
    again = bf.open(table.uri)
    given = rows([3, 300], 8)  # both in a partition that is done: ap is moved first, then eu
    given = given.filter(pa.array([r == "us" for r in given["region"].to_pylist()]))
    again.upsert(given)
    model.upsert(given)
    preview = again.preview_migrate(index)
    assert (preview.partitions, preview.partitions_done) == (1, 2)
    done = again.migrate(index)
    assert done is not None
    assert done.partitions == 1
    upsert_and_compare(table.uri, model)


@pytest.mark.parametrize("rings_put", [1, 3])
def test_a_process_that_dies_while_it_puts_rings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rings_put: int
) -> None:
    """Rows are neither lost nor doubled by whoever writes then, and a next call goes on."""
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    left = [find_ring] * rings_put

    def die(*arguments: Any) -> Any:
        if not left:
            raise bf.StorageError("the machine is gone")
        return left.pop()(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("bucketfmt.resize.migration.migrate.find_ring", die)
        patch.setattr("bucketfmt.write.commit.locked_table.change_properties", lambda *_: die())
        with pytest.raises(bf.StorageError):
            table.migrate(RING)
    between = bf.open(table.uri)
    given = rows(range(30, 100), 7, 4.0)
    try:
        between.upsert(given)
        model.upsert(given)
    except bf.IndexUnknownError:
        assert rings_put == 1
    found = bf.open(table.uri).scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == sorted(key for _, key in model.rows)
    assert bf.open(table.uri).migrate(RING) is not None
    upsert_and_compare(table.uri, model)


def test_a_write_to_a_partition_that_is_done_has_it_moved_again(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t")
    pending = bf.open(table.uri)._transactions.begin("commit")
    with pytest.raises(bf.ConflictError):
        table.migrate(bf.SimpleBucketIndex(4))
    pending.abort()
    given = rows(range(0, 30, 3), 8)  # of us
    table.upsert(given)
    model.upsert(given)
    preview = table.preview_migrate(bf.SimpleBucketIndex(4))
    assert (preview.partitions, preview.partitions_done) == (1, 2)
    assert table.migrate(bf.SimpleBucketIndex(4)) is not None
    assert_reads_as(table.uri, model)


def test_undone_by_restoring_a_savepoint_and_done_again(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    savepoint = table.savepoint()
    for index in (RING, bf.SimpleBucketIndex(4)):
        if index is RING:
            assert table.migrate(index) is not None
            table.restore(savepoint)
            assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == sorted(
                key for _, key in model.rows
            )
            assert bf.open(table.uri).migrate(RING) is not None
            upsert_and_compare(table.uri, model)


# -- keys


ROWS = pa.table({"id": [str(i) for i in range(12)], "p": ["a", "b"] * 6, "ts": [1] * 12})


def mixed(path: Path, *, is_bucketed: bool) -> tuple[bf.Table, dict[str, int]]:
    """Return a table with keys of both encodings, and what it holds by the newest ts."""
    table = bf.create(
        path,
        schema=ROWS.schema,
        record_key=["id"],
        partition_by=["p"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(4) if is_bucketed else bf.RecordIndex(),
        table_type="MERGE_ON_READ",
        table_version=8,
        properties={"hoodie.table.keygenerator.type": "COMPLEX"},
    )
    held: dict[str, int] = {}
    for encoding, ids, ts in (
        (KeyEncoding.NAMED, range(10), 5),
        (KeyEncoding.VALUE, range(4, 12), 3),
        (KeyEncoding.VALUE, range(8, 12), 7),
    ):
        given = ROWS.take(pa.array(list(ids))).set_column(2, "ts", pa.array([ts] * len(ids)))
        write_as(encoding, table, given)
        for i in ids:
            held[str(i)] = max(held.get(str(i), 0), ts)
    return table, held


@pytest.mark.parametrize(("keys", "is_bucketed"), [("value", True), ("named", False)])
def test_keys_are_made_uniform(tmp_path: Path, keys: Any, is_bucketed: bool) -> None:
    table, held = mixed(tmp_path / "t", is_bucketed=is_bucketed)
    assert table.scan().count() == 18
    index = None if is_bucketed else bf.SimpleBucketIndex(3)
    if index is not None:
        with pytest.raises(bf.UnsupportedError, match="as `7` and as `id:7`|--keys value"):  # noqa: RUF043
            table.migrate(index)
        assert not table.timeline.pending.instants
    done = table.migrate(index, keys=keys)
    assert done is not None
    assert (done.rows, done.rows_dropped) == (12, 6)
    # the later rows: 0 to 7 are named, 8 to 11 are not
    assert done.keys_renamed == (8 if keys == "value" else 4)
    found = bf.open(table.uri)
    scanned = found.scan(["_hoodie_record_key", "id", "ts"]).to_arrow().to_pylist()
    prefix = "" if keys == "value" else "id:"
    assert {row["_hoodie_record_key"]: row["ts"] for row in scanned} == {
        prefix + key: ts for key, ts in held.items()
    }
    assert len(scanned) == 12
    found.upsert(ROWS.set_column(2, "ts", pa.array([9] * 12)))
    assert found.scan().count() == 12
    assert found.check(depth="full").status == "clean"


def doubled(path: Path, monkeypatch: pytest.MonkeyPatch) -> bf.Table:
    """Return a table in which some keys have two or three rows, as appending makes them."""
    table = make(path)
    table.upsert(rows(range(20), 1))
    find = RecordLocations.find
    with monkeypatch.context() as patch:
        patch.setattr(
            RecordLocations, "find", lambda own, keys, path=None: find(own, _unknown(keys), path)
        )
        patch.setattr(RecordLocator, "_small", lambda own, path: [])
        table.upsert(rows(range(0, 20, 5), 3))
        table.upsert(rows([5], 2))
    return unindexed(table)


def _unknown(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([f"unknown {key}" for key in keys.to_pylist()])])


def test_duplicates_are_refused_or_the_latest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = doubled(tmp_path / "t", monkeypatch)
    assert table.scan().count() == 25
    with pytest.raises(bf.UnsupportedError, match=r"1 keys .* 2 rows too many: 'key-000005'"):
        table.migrate(bf.SimpleBucketIndex(1))
    assert not table.timeline.pending.instants
    assert table.scan().count() == 25
    done = table.migrate(bf.SimpleBucketIndex(1), duplicates="latest")
    assert done is not None
    assert (done.rows, done.rows_dropped) == (20, 5)
    model = Model()
    for given in (rows(range(20), 1), rows(range(0, 20, 5), 3)):
        model.upsert(given)
    assert_reads_as(table.uri, model)


# -- bad input


def test_what_cannot_be_migrated_is_refused(tmp_path: Path) -> None:
    table, _ = filled(tmp_path / "t", 9, "COPY_ON_WRITE")
    instants = table.timeline.instants
    for index, problem in (
        (
            RING,
            r"^index: consistent hashing is for .* and this table is copy-on-write$",
        ),
        (bf.SimpleBucketIndex(4, ("name",)), "not among"),
        (bf.ExtendibleHashingIndex(4), "is for new tables"),
        (bf.MultiGroupBucketIndex(4), "is for new tables"),
    ):
        with pytest.raises(ValueError, match=problem):
            table.migrate(index)
    with pytest.raises(ValueError, match="one encoding"):
        table.migrate(bf.SimpleBucketIndex(4), keys="named")
    with pytest.raises(ValueError, match="takes the index"):
        table.migrate()
    with pytest.raises(ValueError, match="duplicates is"):
        table.migrate(bf.SimpleBucketIndex(4), duplicates="both")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bucket index"):
        table.migrate(bf.RecordIndex())  # type: ignore[arg-type]
    assert table.timeline.instants == instants

    other = bf.create(
        tmp_path / "other",
        schema=SCHEMA,
        record_key=["id"],
        index=bf.SimpleBucketIndex(4),
        table_version=8,
    )
    other.upsert(rows(range(9), 1))
    with pytest.raises(bf.UnsupportedError, match=r"already: rehash\(\)"):
        other.migrate(bf.SimpleBucketIndex(8))
    with pytest.raises(ValueError, match="version 9"):
        other.migrate(RULES)


def test_a_pending_compaction_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    table, model = filled(tmp_path / "t", 9, "MERGE_ON_READ")
    compactor = Compactor(table._listed_snapshot, table._transactions)
    started = compactor.start(1, None)
    assert started is not None
    instants = bf.open(table.uri).timeline.instants
    with pytest.raises(bf.ConflictError, match="pending; have it executed"):
        bf.open(table.uri).migrate(bf.SimpleBucketIndex(4))
    assert bf.open(table.uri).timeline.instants == instants
    with started:
        pass
    table.compact()
    assert table.migrate(bf.SimpleBucketIndex(4)) is not None
    assert_reads_as(table.uri, model)


# -- tables that Hudi wrote


@pytest.mark.parametrize("name", ["bloom", "rli", "positions"])
def test_tables_that_hudi_wrote(golden_copy: Golden, name: str) -> None:
    table = bf.open(golden_copy("1.2.0", name))
    before = table.scan().to_arrow()
    done = table.migrate(bf.SimpleBucketIndex(3))
    assert done is not None
    opened = bf.open(table.uri)
    order = [(name, "ascending") for name in opened.config.record_key_fields]
    assert opened.scan().to_arrow().sort_by(order).equals(before.sort_by(order))
    assert opened.check(depth="full").status == "clean"
    assert all(find_bucket_id(i) in range(3) for i in opened.inspect.files()["file_id"].to_pylist())
    done_again = opened.upsert(before)
    assert done_again.rows_inserted == 0
    assert opened.scan().to_arrow().sort_by(order).equals(before.sort_by(order))


def test_a_table_with_rules_has_another_index(tmp_path: Path) -> None:
    """It was said to have the index already, by the number that the rules replaced."""
    rows = pa.table({"id": ["a", "b"], "c": ["x", "y"]})
    index = bf.SimpleBucketIndex(4)
    table = bf.create(tmp_path / "t", schema=rows, record_key="id", partition_by="c", index=index)
    table.upsert(rows)
    table.rescale("^x,2")
    with pytest.raises(bf.UnsupportedError, match="already"):
        table.migrate(index)
