"""Cleaning: what nobody needs any more goes, and nothing else."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_keys import format_bloom_filter_key
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.timeline.plans import OWN_PLAN, CleanerPlan, encode_cleaner_plan
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    SavepointMetadata,
    SavepointPartitionMetadata,
)
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.load import load_instant_content
from bucketfmt.timeline.timeline import Instant
from bucketfmt.timeline.transitions import put_completed, put_inflight, put_requested
from bucketfmt.write.services.cleaning import Cleaner
from bucketfmt.write.services.compaction import Compactor
from bucketfmt.write.services.pending_cleans import load_doomed
from bucketfmt.write.services.plan_clean import Retention
from tests.storage.fake_webhdfs import fake_webhdfs
from tests.write.crashes import crashes, is_as, open_on
from tests.write.metadata.metadata_records import records_of
from tests.write.models import (
    NO_SERVICES,
    REGIONS,
    SCHEMA,
    Model,
    assert_reads_as,
    create_table,
    rows,
)

pytestmark = pytest.mark.rotated

VERSIONS = (6, 8, 9)
KEEP_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


def make(
    folder: Path, version: int = 9, table_type: str = "COPY_ON_WRITE", writes: int = 5
) -> tuple[bf.Table, Model]:
    """A table whose every bucket was written to in every commit."""
    table = create_table(
        str(folder), bf.SimpleBucketIndex(1), table_type, table_version=version, writer=NO_SERVICES
    )
    model = Model()
    for ts in range(writes):
        given = rows(range(9 + ts), ts=ts, price=float(ts))
        table.upsert(given)
        model.upsert(given)
        if table_type == "MERGE_ON_READ" and ts % 2:
            table.compact()
    return table, model


def data_files(table: bf.Table) -> set[str]:
    return {
        info.path
        for region in REGIONS
        for info in table.store.list(region)
        if not info.name.startswith(".hoodie_partition")
    }


def commits(table: bf.Table) -> list[Instant]:
    return list(table.timeline.writes.completed.instants)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_commits_can_still_be_read(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version)
    done = commits(table)
    views = [table.scan(as_of=i.requested_time).to_arrow().sort_by("id") for i in done]
    before = data_files(table)
    assert len(before) == 15

    planned = table.clean(retain=2)
    assert data_files(table) == before
    assert not table.timeline.of("clean").instants
    # Of the commits 0..4, 3 and 4 are retained, and what was there when 3 began: 2.
    gone = {path for path in before for i in done[:2] if i.requested_time in path}
    assert set(planned.files) == gone
    assert len(gone) == 6
    assert planned.bytes == sum((tmp_path / "t" / path).stat().st_size for path in gone)
    assert (planned.earliest_retained, planned.instants) == (done[3].requested_time, ())

    result = table.clean(retain=2, dry_run=False)
    assert data_files(table) == before - gone
    assert (set(result.files), result.bytes) == (gone, planned.bytes)
    assert_reads_as(table.uri, model)
    for instant, view in list(zip(done, views, strict=True))[2:]:
        again = bf.open(table.uri, writer=NO_SERVICES).scan(as_of=instant.requested_time)
        assert again.to_arrow().sort_by("id").equals(view)
    [clean] = table.timeline.completed.instants[-1:]
    assert (clean.action, (clean.requested_time,)) == ("clean", result.instants)

    assert table.clean(retain=2).files == ()
    assert table.clean(retain=2, dry_run=False).instants == ()
    assert table.clean(retain=10).files == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_plan_and_metadata_say_what_was_done(tmp_path: Path, version: int) -> None:
    table, _ = make(tmp_path / "t", version)
    done = commits(table)
    result = table.clean(retain=1, dry_run=False)
    clean = table.timeline.of("clean").instants[0]
    name = f"{clean.requested_time}.clean.requested"
    requested = replace(clean, file_name=name)
    plan = load_instant_content(table.store, table.config, requested)
    assert isinstance(plan, CleanerPlan)
    assert plan.earliest_instant_to_retain is not None
    assert msgspec.to_builtins(plan.earliest_instant_to_retain) == {
        "timestamp": done[4].requested_time,
        "action": "commit",
        "state": "COMPLETED",
    }
    assert plan.last_completed_commit_timestamp == done[4].requested_time
    assert (plan.policy, plan.version) == ("KEEP_LATEST_COMMITS", 2)
    paths = {
        info.file_path or ""
        for files in plan.file_paths_to_be_deleted_per_partition.values()
        for info in files
    }
    assert paths == {f"file:{table.uri}/{path}" for path in result.files}
    assert (plan.partitions_to_be_deleted, plan.extra_metadata) == ([], OWN_PLAN)

    metadata = load_instant_content(table.store, table.config, clean)
    assert isinstance(metadata, CleanMetadata)
    assert metadata.start_clean_time == clean.requested_time
    assert metadata.total_files_deleted == len(result.files) == 9
    assert metadata.earliest_commit_to_retain == done[4].requested_time
    assert metadata.last_completed_commit_timestamp == done[4].requested_time
    assert metadata.version == 2
    for region, own in metadata.partition_metadata.items():
        assert (own.partition_path, own.policy) == (region, "KEEP_LATEST_COMMITS")
        assert {f"{region}/{name}" for name in own.success_delete_files} == {
            path for path in result.files if path.startswith(f"{region}/")
        }
        assert own.delete_path_patterns == own.success_delete_files
        assert (own.failed_delete_files, own.is_partition_deleted) == ([], False)


@pytest.mark.parametrize("version", VERSIONS)
def test_log_files_go_with_their_slice(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version, "MERGE_ON_READ", writes=7)
    assert any(".log." in path for path in data_files(table))
    result = table.clean(retain=1, dry_run=False)
    assert sum(".log." in path for path in result.files) > 3
    assert sum(path.endswith(".parquet") for path in result.files) > 3
    assert_reads_as(table.uri, model)
    table.compact()
    table.clean(policy=KEEP_VERSIONS, retain=1, dry_run=False)  # type: ignore[arg-type]
    assert len(data_files(table)) == 3
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_so_many_versions_of_each_file_group(tmp_path: Path, table_type: str) -> None:
    table, model = make(tmp_path / "t", 9, table_type)
    new = rows(range(100, 110), ts=1)
    of_us = new.filter(pc.equal(new["region"], "us"))
    table.insert_overwrite(of_us)
    model.drop("us")
    model.upsert(of_us)
    result = table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=2, dry_run=False)
    assert result.earliest_retained is None
    left = data_files(table)
    assert sum(path.startswith("us/") for path in left) == 1  # of what was replaced, nothing
    bases = [p for p in left if p.startswith("eu/") and p.endswith(".parquet")]
    assert len(bases) == 2
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_replaced_file_groups_go_with_the_commits_that_saw_them(
    tmp_path: Path, version: int
) -> None:
    table, model = make(tmp_path / "t", version, writes=2)
    old = {path for path in data_files(table) if path.startswith("eu/")}
    table.delete_partitions(["eu"])
    model.drop("eu")
    table.upsert(rows([0], ts=9))
    model.upsert(rows([0], ts=9))
    assert not old & set(table.clean(retain=2).files)
    assert old <= set(table.clean(retain=1, dry_run=False).files)
    assert_reads_as(table.uri, model)
    assert not [path for path in data_files(table) if path.startswith("eu/")]
    back = rows([1, 4], ts=1)
    table.upsert(back)
    model.upsert(back)
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_savepoints_stay(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version)
    saved = commits(table)[1]
    files = {path for path in data_files(table) if saved.requested_time in path}
    partitions = {
        region: SavepointPartitionMetadata(
            partition_path=region,
            savepoint_data_file=[p.rpartition("/")[2] for p in files if p.startswith(region)],
        )
        for region in REGIONS
    }
    content = SavepointMetadata(
        savepointed_by="me", savepointed_at=1, comments="", partition_metadata=partitions
    )
    put_inflight(table.store, table.config, saved.requested_time, "savepoint")
    put_completed(
        table.store,
        table.config,
        table.timeline,
        table._transactions.clock,
        saved.requested_time,
        "savepoint",
        content,
    )
    result = table.clean(retain=1, dry_run=False)
    assert files <= data_files(table)
    assert len(result.files) == 6
    clean = table.timeline.of("clean").instants[0]
    metadata = load_instant_content(table.store, table.config, clean)
    assert isinstance(metadata, CleanMetadata)
    assert metadata.extra_metadata == {
        **OWN_PLAN,
        "savepointed_timestamps": saved.requested_time,
    }
    assert_reads_as(table.uri, model)
    assert table.scan(as_of=saved.requested_time).count() == 10


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_pending_compaction_needs_stays(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version, "MERGE_ON_READ", writes=3)
    Compactor(table._snapshot, table._transactions).schedule()
    for ts in (20, 21, 22):
        table.upsert(rows(range(5), ts=ts))
        model.upsert(rows(range(5), ts=ts))
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    assert_reads_as(table.uri, model)
    assert table.compact() is not None
    assert_reads_as(table.uri, model)


def test_nothing_after_a_pending_write_is_cleaned(tmp_path: Path) -> None:
    table, _ = make(tmp_path / "t", 9, writes=2)
    pending = table._transactions.clock.next_time([])
    heartbeat = table._transactions.heartbeats.start(pending)
    put_requested(table.store, table.config, pending, "commit")
    for ts in range(10, 14):
        table.upsert(rows(range(9), ts=ts))
    result = table.clean(retain=1)
    heartbeat.stop()
    assert (result.files, result.earliest_retained) == ((), None)


def test_retaining_nothing_is_a_mistake(tmp_path: Path) -> None:
    table, _ = make(tmp_path / "t", writes=1)
    with pytest.raises(ValueError, match="retain is 1 or more, not 0"):
        table.clean(retain=0)
    with pytest.raises(ValueError, match="policy is KEEP_LATEST_COMMITS or"):
        table.clean(policy="KEEP_NOTHING")  # type: ignore[arg-type]


def test_a_pending_clean_is_shown_and_completed_first(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t")
    cleaner = Cleaner(table._snapshot, table._transactions)
    planned = table.clean(retain=3)
    plan = cleaner._plan(table._snapshot(), Retention(retain=3))
    assert plan is not None
    time = table._transactions.clock.next_time([])
    put_requested(table.store, table.config, time, "clean", plan)
    assert set(table.clean(retain=9).files) == set(planned.files)
    result = table.clean(retain=9, dry_run=False)
    assert result.instants == (time,)
    assert set(result.files) == set(planned.files)
    assert not data_files(table) & set(planned.files)
    assert_reads_as(table.uri, model)


def test_a_hostile_plan_deletes_nothing(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t")
    (tmp_path / "precious.parquet").write_bytes(b"x")
    before = data_files(table)
    time = table._transactions.clock.next_time([])
    requested = put_requested(
        table.store, table.config, time, "clean", CleanerPlan(policy="KEEP_LATEST_COMMITS")
    )
    file = Path(table.uri, table.config.timeline_path, requested.file_name)
    for partition, name, error in (
        ("..", "a_1-0-1_20200101000000000.parquet", bf.UnsafePathError),
        (".hoodie", "a_1-0-1_20200101000000000.parquet", CorruptError),
        (".hoodie/timeline", "a_1-0-1_20200101000000000.parquet", CorruptError),
        ("us", ".hoodie_partition_metadata", CorruptError),
        ("us", "..", CorruptError),
        ("us", "", CorruptError),
    ):
        plan = CleanerPlan(
            policy="KEEP_LATEST_COMMITS", files_to_be_deleted_per_partition={partition: [name]}
        )
        file.write_bytes(encode_cleaner_plan(plan))
        with pytest.raises(error):
            table.clean()
        with pytest.raises(error):
            table.clean(dry_run=False)
    assert data_files(table) == before
    assert (tmp_path / "precious.parquet").exists()
    file.unlink()
    assert_reads_as(table.uri, model)


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("fault", [Fault.KILL_AFTER, Fault.FAIL_LATE])
@pytest.mark.parametrize("version", [6, 9])
def test_a_crash_at_every_write(tmp_path: Path, version: int, fault: Fault) -> None:
    table, model = make(tmp_path / "t", version, "MERGE_ON_READ", writes=4)
    clean = data_files(table) - set(table.clean(retain=1).files)
    points = 0
    for again, broken in crashes(table, lambda t: t.clean(retain=1, dry_run=False), fault):
        points += 1
        assert is_as(again, model), broken.struck
        broken.deliver()
        again.clean(retain=1, dry_run=False)
        assert data_files(again) == clean, broken.struck
        assert is_as(again, model), broken.struck
        assert not again.timeline.pending.instants
        assert len(again.timeline.completed.of("clean").instants) == 1
    assert points >= 9


def test_what_killed_writers_left_goes_after_an_hour(tmp_path: Path) -> None:
    table, model = make(tmp_path, writes=2)
    partition = tmp_path / REGIONS[0]
    old, young, foreign = (partition / n for n in (".bucketfmt-1.tmp", ".bucketfmt-2.tmp", "x.tmp"))
    now = time.time()
    for path, age in ((old, 3700), (young, 3500), (foreign, 9000)):
        path.write_bytes(b"12345")
        os.utime(path, (now - age, now - age))
    told = f"{partition.name}/{old.name}"
    with table.start_write("upsert", SCHEMA):  # a writer that is alive, and may be at the file
        assert table.clean().files == ()
        table.clean(dry_run=False)
        assert old.exists()
    planned = table.clean()
    assert (planned.files, planned.bytes) == ((told,), 5)
    assert old.exists()
    done = table.clean(dry_run=False)
    assert (done.files, done.bytes, done.instants) == ((told,), 5, ())
    assert not old.exists()
    assert young.exists()
    assert foreign.exists()
    assert_reads_as(str(tmp_path), model)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_on_hdfs", [False, True])
def test_what_killed_writers_left_beside_instants_and_the_lease_goes_too(
    tmp_path: Path, version: int, *, is_on_hdfs: bool
) -> None:
    table, model = make(tmp_path / "t", version, writes=2)
    folders = (REGIONS[0], table.config.timeline_path, ".hoodie/.locks")
    left = [f"{folder}/.bucketfmt-1.tmp" for folder in folders]
    long_ago = time.time() - 3700
    for path in left:
        file = tmp_path / "t" / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"12345")
        os.utime(file, (long_ago, long_ago))
    if is_on_hdfs:
        with fake_webhdfs(tmp_path) as url:
            uri = url.replace("http://", "webhdfs://") + "/t"
            done = bf.open(uri, {"user": "tests"}).clean(dry_run=False)
    else:
        done = table.clean(dry_run=False)
    assert sorted(done.files) == sorted(left)
    assert not [path for path in left if (tmp_path / "t" / path).exists()]
    assert_reads_as(str(tmp_path / "t"), model)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_are_made_anew_while_a_clean_of_another_process_deletes(
    tmp_path: Path, version: int
) -> None:
    """The clean holds no lock as it deletes: files were gone between the listing and the read."""

    class CleanedStore(FaultyStore):
        """A store whose doomed files go when the first file of the table is opened."""

        def open_arrow(self, path: str) -> pa.NativeFile:
            while doomed and not path.startswith(".hoodie"):
                disk.delete(join_path(*doomed.pop()))
            return super().open_arrow(path)

    made, model = make(tmp_path / "t", version)
    names = ("column_stats", "bloom_filters")
    made.metadata_table.init(*names)
    disk = MemoryStore.of_folder(made.uri)
    dies = FaultyStore(disk, FaultPlan(1, Fault.KILL_BEFORE, frozenset({"delete"})))
    with pytest.raises(Killed):
        open_on(dies).clean(retain=1, dry_run=False)
    table = open_on(disk)
    doomed = load_doomed(disk, table.config, table.timeline, DEFAULT_LIMITS)
    assert len(doomed) >= 9

    open_on(CleanedStore(disk)).metadata_table.rebuild(*names)

    assert not doomed
    for path in [path for path in disk.files if path.startswith(".hoodie/.heartbeat/")]:
        disk.delete(path)
    assert open_on(disk).clean(retain=1, dry_run=False).instants
    assert is_as(open_on(disk), model)
    listed = {file.path for file in disk.list("us")}
    kept = {file for file in listed if file.endswith(".parquet")}
    assert {format_bloom_filter_key("us", file.rpartition("/")[2]) for file in kept} <= records_of(
        open_on(disk), "bloom_filters"
    ).keys()
