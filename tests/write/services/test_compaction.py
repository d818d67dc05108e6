"""Compaction: the same rows from base files alone, whatever happens on the way."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import CorruptError
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.format.timeline.plans import CompactionPlan, encode_compaction_plan
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.timeline.load import (
    load_commit_metadata,
    load_compaction_plan,
    load_instant_content,
)
from bucketfmt.timeline.transitions import put_requested
from bucketfmt.write.rows.started_write import StartedWrite
from bucketfmt.write.services.compaction import Compactor
from bucketfmt.write.services.plan_compaction import plan_compaction
from tests.write.crashes import crashes, is_as
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
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "id", "price"]


def make(
    folder: Path,
    version: int = 9,
    index: bf.Index | None = None,
    properties: dict[str, str] | None = None,
) -> tuple[bf.Table, Model]:
    """A table of base files, with updates, inserts and deletes logged."""
    table = create_table(
        str(folder),
        index or bf.SimpleBucketIndex(2),
        "MERGE_ON_READ",
        table_version=version,
        properties=properties,
        writer=NO_SERVICES,
    )
    model = Model()
    for given in (rows(range(60), ts=1), rows(range(30, 90), ts=2, price=2.0)):
        table.upsert(given)
        model.upsert(given)
    gone = rows(range(20), ts=1).select(["id", "region"])
    table.delete(gone)
    model.delete(gone["id"].to_pylist())
    return table, model


def compactor(table: bf.Table) -> Compactor:
    return Compactor(table._snapshot, table._transactions)


def log_files(table: bf.Table) -> list[str]:
    """The log files that a reader merges."""
    snapshot = table._snapshot()
    slices = snapshot.slices_of(snapshot.partitions)
    return [str(file.name) for file_slice in slices for file in file_slice.log_files]


def base_files(root: str, instant: str) -> list[Path]:
    return sorted(Path(root).glob(f"*/*_{instant}.parquet"))


@pytest.mark.rotated(1)
@pytest.mark.parametrize("index", ["simple", "ring", "rules"])
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_stay_and_logs_go(tmp_path: Path, version: int, index: str) -> None:
    chosen = {
        "simple": bf.SimpleBucketIndex(3),
        "ring": bf.ConsistentHashingIndex(2),
        "rules": bf.PartitionBucketIndex(2, "us,4;eu,3"),
    }[index]
    if index == "rules" and version < 9:
        return  # Hudi has them since 1.1
    table, model = make(tmp_path / "t", version, chosen)
    before = table.scan(META).to_arrow().sort_by("id")
    assert log_files(table)

    result = table.compact()

    assert result is not None
    assert (result.action, result.operation) == ("commit", "COMPACT")
    assert not log_files(table)
    assert table.scan(META).to_arrow().sort_by("id").equals(before)
    assert_reads_as(table.uri, model)
    read_optimized = table.scan(["id"], read_optimized=True).to_arrow()
    assert sorted(read_optimized["id"].to_pylist()) == before["id"].to_pylist()
    assert not list(Path(table.uri, ".hoodie/.temp").glob("*"))
    assert not list(Path(table.uri, ".hoodie/.heartbeat").glob("*"))
    names = table.scan(["_hoodie_file_name"]).to_arrow()["_hoodie_file_name"]
    assert {path.rpartition("/")[2] for path in result.files} == set(names.to_pylist())
    assert table.compact() is None

    for given in (rows(range(25, 100, 3), ts=3, price=3.0), rows([7], ts=9)):
        table.upsert(given)
        model.upsert(given)
    assert_reads_as(table.uri, model)
    assert table.compact() is not None
    assert_reads_as(table.uri, model)
    assert not log_files(table)


@pytest.mark.parametrize("version", VERSIONS)
def test_plan_and_commit_say_what_was_done(tmp_path: Path, version: int) -> None:
    table, _ = make(tmp_path / "t", version)
    slices = {
        (s.partition_path, s.file_id): s
        for s in table._snapshot().slices_of(table._snapshot().partitions)
    }
    sizes = {k: [f.size or 0 for f in s.log_files] for k, s in slices.items()}
    instant = compactor(table).schedule()
    assert instant is not None
    [pending] = table.timeline.pending.instants
    assert (pending.requested_time, pending.action) == (instant, "compaction")
    plan = load_instant_content(table.store, table.config, pending)
    assert isinstance(plan, CompactionPlan)
    assert (plan.version, plan.strategy, plan.preserve_hoodie_metadata) == (2, None, False)
    assert {(o.partition_path, o.file_id) for o in plan.operations} == set(slices)
    for operation in plan.operations:
        planned = slices[operation.partition_path or "", operation.file_id or ""]
        assert planned.base_file is not None
        assert operation.data_file_path == str(planned.base_file.name)
        assert operation.base_instant_time == planned.base_file.name.instant
        assert list(operation.delta_file_paths) == [str(f.name) for f in planned.log_files]
        assert operation.metrics["TOTAL_LOG_FILES"] == len(planned.log_files)

    result = table.compact()
    assert result is not None
    assert result.instant == instant
    commit = next(i for i in table.timeline.completed.instants if i.requested_time == instant)
    metadata = load_commit_metadata(table.store, table.config, commit)
    assert (metadata.compacted, metadata.operation_type) == (True, "COMPACT")
    assert set(metadata.extra_metadata) == {"schema"}
    stats = [s for own in metadata.partition_to_write_stats.values() for s in own]
    assert len(stats) == len(slices)
    for stat in stats:
        key = stat.partition_path or "", stat.file_id or ""
        base = slices[key].base_file
        assert base is not None
        assert stat.path is not None
        replaced = str(base.name) if version >= 8 else None  # before, Hudi does not tell
        assert (stat.prev_commit, stat.prev_base_file) == (base.name.instant, replaced)
        assert stat.file_size_in_bytes == (Path(table.uri) / stat.path).stat().st_size
        assert stat.total_log_files_compacted == len(sizes[key])
        assert stat.total_log_size_compacted == sum(sizes[key])
        assert stat.total_log_blocks >= stat.total_log_files_compacted
    # 60 rows at first; 60 more of which 30 are new; then the first 20 are deleted.
    assert sum(s.num_writes for s in stats) == 70
    assert sum(s.num_inserts for s in stats) == 30
    assert sum(s.num_update_writes for s in stats) == 30
    assert sum(s.num_deletes for s in stats) == 20
    assert sum(s.total_log_records for s in stats) == 80


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_written_after_scheduling_is_kept(tmp_path: Path, version: int) -> None:
    table, model = make(tmp_path / "t", version)
    instant = compactor(table).schedule()
    assert_reads_as(table.uri, model)
    later = rows(range(40, 120), ts=3, price=5.0)
    table.upsert(later)
    model.upsert(later)
    gone = rows(range(50, 56), ts=1).select(["id", "region"])
    table.delete(gone)
    model.delete(gone["id"].to_pylist())
    assert_reads_as(table.uri, model)
    if version == 6:
        assert any(f"_{instant}.log." in name for name in log_files(table))
    assert compactor(table).schedule() is None  # every group is planned already

    result = table.compact()
    assert result is not None
    assert result.instant == instant
    assert_reads_as(table.uri, model)
    assert log_files(table)
    assert table.compact() is not None
    assert_reads_as(table.uri, model)
    assert not log_files(table)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_under_way_while_a_compaction_is_scheduled(tmp_path: Path, version: int) -> None:
    """Its log file is in no plan: from version 8 on it is kept, before it is a conflict."""
    table, model = make(tmp_path / "t", version)
    writer = bf.open(table.uri, writer=NO_SERVICES)
    given = rows(range(30, 60), ts=4, price=7.0)
    scheduled: list[str | None] = []

    begin = writer._transactions.begin

    def begin_and_be_overtaken(*arguments: object) -> object:
        transaction = begin(*arguments)  # type: ignore[arg-type]
        if not scheduled:
            scheduled.append(compactor(table).schedule())
        return transaction

    writer._transactions.begin = begin_and_be_overtaken  # type: ignore[assignment,method-assign]
    result = writer.upsert(given, retries=1)
    model.upsert(given)
    assert scheduled[0] is not None
    first = [i.requested_time for i in table.timeline.instants]
    assert (result.instant > scheduled[0]) == (version == 6)  # it began anew
    assert scheduled[0] in first
    assert_reads_as(table.uri, model)
    done = table.compact()
    assert done is not None
    assert done.instant == scheduled[0]
    assert_reads_as(table.uri, model)
    assert log_files(table)


def test_a_write_that_knew_the_plan_is_no_conflict(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t", 6)
    compactor(table).schedule()
    writer = bf.open(table.uri, writer=NO_SERVICES)
    begin = writer._transactions.begin

    def begin_and_be_overtaken(*arguments: object) -> object:
        transaction = begin(*arguments)  # type: ignore[arg-type]
        assert table.compact() is not None
        return transaction

    writer._transactions.begin = begin_and_be_overtaken  # type: ignore[assignment,method-assign]
    given = rows(range(30, 60), ts=4, price=7.0)
    writer.upsert(given, retries=0)
    model.upsert(given)
    assert_reads_as(table.uri, model)


def test_slices_can_be_rewritten_elsewhere_and_twice(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t")
    work = compactor(table)
    assert work.begin() is None
    work.schedule()
    begun = work.begin()
    assert begun is not None
    task, payloads = pickle.loads(pickle.dumps((begun.task, begun.payloads)))
    assert max(map(len, payloads)) < 400
    wasted = task.compact(payloads[0], "0-0-7")
    receipts = [task.compact(each, f"{n}-0-8") for n, each in enumerate(payloads)]
    with pytest.raises(ValueError, match="a receipt for each"):
        begun.publish(receipts[1:])
    with pytest.raises(bf.ConflictError, match="being executed"):
        bf.open(table.uri, writer=NO_SERVICES).compact()
    result = begun.publish([receipts[0], wasted, *receipts[1:]])
    assert len(result.files) == len(receipts)
    assert all("-0-8_" in path for path in result.files)
    assert len(base_files(table.uri, begun.instant)) == len(receipts)
    assert_reads_as(table.uri, model)
    with pytest.raises(bf.ConflictError, match="where it should be inflight"):
        begun.publish(receipts)
    with pytest.raises(bf.ConflictError, match="has ended"):
        task.compact(payloads[0], "0-0-9")
    assert len(base_files(table.uri, begun.instant)) == len(receipts)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_preview_tells_what_compact_then_does(tmp_path: Path, version: int) -> None:
    table, _ = make(tmp_path / "t", version)
    files = sorted(path for path in Path(table.uri).rglob("*") if path.is_file())
    logs = log_files(table)
    sizes = {path.name: path.stat().st_size for path in files}
    planned = table.preview_compaction()
    assert planned == bf.CompactionPreview(
        None, len(REGIONS) * 2, len(logs), sum(sizes[name] for name in logs)
    )
    assert table.preview_compaction(min_log_files=3) == bf.CompactionPreview()
    assert sorted(path for path in Path(table.uri).rglob("*") if path.is_file()) == files

    instant = compactor(table).schedule()
    table.upsert(rows(range(40, 120), ts=3, price=5.0))
    assert table.preview_compaction() == dataclasses.replace(planned, pending=instant)
    result = table.compact()
    assert result is not None
    assert (result.instant, len(result.files)) == (instant, planned.file_groups)
    later = log_files(table)
    assert table.preview_compaction().log_files == len(later) > 0
    table.compact()
    assert table.preview_compaction() == bf.CompactionPreview()


def test_file_groups_with_few_log_files_may_wait(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t")
    assert table.compact(min_log_files=3) is None
    assert not table.timeline.pending.instants
    table.upsert(rows([60, 63], ts=5))
    model.upsert(rows([60, 63], ts=5))
    result = table.compact(min_log_files=3)
    assert result is not None
    assert {path.partition("/")[0] for path in result.files} == {"us"}
    assert_reads_as(table.uri, model)


def test_copy_on_write_has_nothing_to_compact(tmp_path: Path) -> None:
    table = bf.create(
        str(tmp_path / "t"), schema=SCHEMA, record_key=["id"], index=bf.SimpleBucketIndex(2)
    )
    table.upsert(rows(range(10), ts=1))
    table.upsert(rows(range(10), ts=2))
    assert table.compact() is None
    assert table.preview_compaction() == bf.CompactionPreview()


def test_a_bucket_that_is_all_deleted_becomes_an_empty_base_file(tmp_path: Path) -> None:
    table, _ = make(tmp_path / "t")
    table.delete(filter=[("price", ">=", 0.0)])
    result = table.compact()
    assert result is not None
    assert result.files
    assert_reads_as(table.uri, Model())
    table.upsert(rows(range(9), ts=1))
    model = Model()
    model.upsert(rows(range(9), ts=1))
    assert_reads_as(table.uri, model)


def test_virtual_keys(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t", properties={"hoodie.populate.meta.fields": "false"})
    assert table.compact() is not None
    assert not log_files(table)
    assert_reads_as(table.uri, model)


def test_new_columns_are_in_the_new_base_files(tmp_path: Path) -> None:
    table, model = make(tmp_path / "t")
    for key, row in list(model.rows.items()):
        model.rows[key] = {**row, "extra": None}
    wide = rows(range(40, 50), ts=3).append_column("extra", pa.array(range(10)))
    table.upsert(wide, evolve=True)
    model.upsert(wide)
    table.compact()
    assert_reads_as(table.uri, model)
    assert table.schema == SCHEMA.append(pa.field("extra", pa.int64()))


def begin_to_log(table: bf.Table) -> StartedWrite:
    """Return a write whose log files are written and not published."""
    started = table.start_write("upsert", SCHEMA)
    list(started.task.write(rows(range(30, 60), ts=4, price=7.0), "0-0-0"))
    return started


def listed_logs(root: Path) -> set[str]:
    return {path.name for path in root.rglob(".*.log.*")}


def load_plan(table: bf.Table, scheduled: str | None) -> CompactionPlan:
    (instant,) = table.timeline.pending.of("compaction").instants
    assert instant.requested_time == scheduled
    return load_compaction_plan(table.store, table.config, instant, table.limits)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plan_names_only_what_completed_instants_wrote(tmp_path: Path, version: int) -> None:
    """A write under way is then taken back, and its files with it."""
    table, model = make(tmp_path / "t", version)
    before = listed_logs(Path(table.uri))
    started = begin_to_log(bf.open(table.uri, writer=NO_SERVICES))
    assert listed_logs(Path(table.uri)) > before
    scheduled = compactor(bf.open(table.uri, writer=NO_SERVICES)).schedule()
    plan = load_plan(table, scheduled)
    assert {name for each in plan.operations for name in each.delta_file_paths} == before
    started.abort()
    assert listed_logs(Path(table.uri)) == before
    later = rows(range(40, 50), ts=5)
    table.upsert(later)  # named after the plan, in version 6
    model.upsert(later)
    assert table.check(depth="full").status == "clean"
    done = bf.open(table.uri, writer=NO_SERVICES).compact()
    assert done is not None
    assert done.instant == scheduled
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("is_archived", [False, True])
def test_what_an_archived_commit_or_a_rollback_logged_is_planned(
    tmp_path: Path, is_archived: bool
) -> None:
    """No commit of the active timeline names such log files of version 6."""
    table, model = make(tmp_path / "t", 6)
    root = Path(table.uri)
    before = listed_logs(root)
    dead = begin_to_log(bf.open(table.uri, writer=NO_SERVICES))
    failed = listed_logs(root) - before
    dead._transaction.heartbeat.abandon()
    Path(table.uri, ".hoodie/.heartbeat", dead.instant).unlink()
    table.upsert(later := rows(range(3), ts=6))  # rolls the dead write back
    model.upsert(later)
    if is_archived:
        assert table.archive(min_commits=1, max_commits=1)
    # The block that cancels the failed write goes along with it once both are before the timeline.
    wanted = listed_logs(root) - (set() if is_archived else failed)
    started = begin_to_log(bf.open(table.uri, writer=NO_SERVICES))
    plan = load_plan(table, compactor(bf.open(table.uri, writer=NO_SERVICES)).schedule())
    assert {name for each in plan.operations for name in each.delta_file_paths} == wanted
    started.abort()
    assert table.compact() is not None
    assert_reads_as(table.uri, model)


def plan_with(table: bf.Table, scheduled: str | None, name: str) -> list[str]:
    """Have a plan name a log file more in each of its slices, as Hudi's may; return the paths."""
    plan = load_plan(table, scheduled)
    operations = [
        msgspec.structs.replace(
            each, delta_file_paths=[*each.delta_file_paths, _next_log(each.delta_file_paths, name)]
        )
        for each in plan.operations
    ]
    path = Path(table.uri, table.config.timeline_path, f"{scheduled}.compaction.requested")
    path.write_bytes(encode_compaction_plan(msgspec.structs.replace(plan, operations=operations)))
    return [f"{each.partition_path}/{each.delta_file_paths[-1]}" for each in operations]


def _next_log(names: Sequence[str], token: str) -> str:
    last = find_data_file_name(names[-1])
    assert isinstance(last, LogFileName)
    return str(msgspec.structs.replace(last, version=last.version + 1, write_token=token))


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_archived", [False, True])
def test_a_plan_that_names_a_file_taken_back_is_found_and_executed(
    tmp_path: Path, version: int, is_archived: bool
) -> None:
    table, model = make(tmp_path / "t", version)
    scheduled = compactor(table).schedule()
    later = rows(range(40, 50), ts=5)
    table.upsert(later)
    model.upsert(later)
    if is_archived:
        for ts in (6, 7):
            table.upsert(rows(range(3), ts=ts))
            model.upsert(rows(range(3), ts=ts))
        table.archive(min_commits=1, max_commits=1)
    gone = plan_with(table, scheduled, "7-0-7")
    table = bf.open(table.uri, writer=NO_SERVICES)
    assert sorted(table.scan(["id", "ts"]).to_arrow().to_pylist(), key=str) == sorted(
        ({"id": row["id"], "ts": row["ts"]} for row in model.rows.values()), key=str
    )
    for depth in ("quick", "default", "full"):
        (finding,) = table.check(depth=depth).findings
        assert (finding.id, finding.severity, finding.data_loss) == ("T007", "error", False)
        assert finding.paths == tuple(sorted(gone))
        assert finding.instants == (scheduled,)
    preview = table.preview_compaction()
    assert preview.pending == scheduled
    done = table.compact()
    assert done is not None
    assert done.instant == scheduled
    assert_reads_as(table.uri, model)
    if not is_archived:
        table.rollback(table.timeline.writes.completed.instants[-1].requested_time)


@pytest.mark.parametrize("has_logs", [False, True])
def test_a_write_that_a_plan_names_is_taken_back(tmp_path: Path, has_logs: bool) -> None:
    """A writes a log file, B plans a compaction as Hudi does and dies, A is in conflict with it."""
    table, model = make(tmp_path / "t", 6)
    if not has_logs:
        table.compact()
    started = begin_to_log(bf.open(table.uri, writer=NO_SERVICES))
    snapshot = bf.open(table.uri, writer=NO_SERVICES)._snapshot()
    plan = plan_compaction(snapshot.slices_of(snapshot.partitions), ())
    scheduled = table._transactions.clock.next_time([])
    put_requested(table.store, table.config, scheduled, "compaction", plan)
    with pytest.raises(bf.ConflictError), started:
        started.publish(list(started.task.write(rows([31], ts=4), "0-0-1")))
    table.upsert(later := rows(range(40, 50), ts=5))
    model.upsert(later)
    (finding,) = bf.open(table.uri, writer=NO_SERVICES).check().findings
    assert (finding.id, finding.instants) == ("T007", (scheduled,))
    done = table.compact()
    assert done is not None
    assert done.instant == scheduled
    assert_reads_as(table.uri, model)
    assert table.compact() is not None  # what was logged since
    assert not log_files(table)
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_stood_still_deletes_no_file_of_who_began_it_again(
    tmp_path: Path, version: int
) -> None:
    table, model = make(tmp_path / "t", version)
    first = bf.open(table.uri, writer=NO_SERVICES).start_compaction()
    assert first is not None
    late = [first.task.compact(p, f"{i}-0-1") for i, p in enumerate(first.payloads)]
    [alive] = Path(table.uri, ".hoodie/.heartbeat").iterdir()
    first._pending.heartbeat._last = 0.0  # as after a pause
    alive.unlink()
    second = table.start_compaction()
    assert second is not None
    assert second.instant == first.instant
    receipts = [second.task.compact(p, f"{i}-0-2") for i, p in enumerate(second.payloads)]
    with pytest.raises(bf.ConflictError, match="stood still"), first:
        first.publish(late)
    assert alive.exists()
    with second:
        second.publish(receipts)
    assert not alive.exists()
    assert_reads_as(table.uri, model)
    assert table.check("full").status == "clean"


def test_a_plan_whose_files_are_gone_says_so(tmp_path: Path) -> None:
    table, _ = make(tmp_path / "t")
    compactor(table).schedule()
    victim = next(Path(table.uri).glob("us/.*.log.*"))
    aside = victim.rename(tmp_path / "aside")
    with pytest.raises(CorruptError):
        table.compact()
    aside.rename(victim)
    assert bf.open(table.uri, writer=NO_SERVICES).compact() is not None


def test_a_hostile_plan_leads_nowhere(tmp_path: Path) -> None:
    table, _ = make(tmp_path / "t")
    work = compactor(table)
    work.schedule()
    [pending] = table.timeline.pending.instants
    plan = load_instant_content(table.store, table.config, pending)
    assert isinstance(plan, CompactionPlan)
    first = plan.operations[0]
    for bad, error in (
        (msgspec.structs.replace(first, partition_path="../elsewhere"), bf.UnsafePathError),
        (msgspec.structs.replace(first, data_file_path="../../etc/passwd"), CorruptError),
        (msgspec.structs.replace(first, delta_file_paths=["hoodie.properties"]), CorruptError),
        (msgspec.structs.replace(first, bootstrap_file_path="/x.parquet"), bf.UnsupportedError),
    ):
        path = Path(table.uri, table.config.timeline_path, pending.file_name)
        path.write_bytes(encode_compaction_plan(msgspec.structs.replace(plan, operations=[bad])))
        with pytest.raises(error):
            work.preview()
        with pytest.raises(error):
            work.begin()
        assert not list(Path(table.uri, ".hoodie/.heartbeat").glob("*"))


@pytest.mark.rotated(1)
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
@pytest.mark.parametrize("failed", [False, True])
def test_a_compaction_that_hudi_planned(
    version: str, failed: bool, golden_copy: Callable[[str, str], Path]
) -> None:
    """As Hudi would leave it: requested, or inflight with base files of a failed attempt."""
    root = golden_copy(version, "mor_compacted")
    table = bf.open(str(root), index=bf.SimpleBucketIndex(4))
    before = table.scan(META[2:]).to_arrow().sort_by("_hoodie_record_key")
    [commit] = table.timeline.completed.of("commit").instants
    timeline = root / table.config.timeline_path
    (timeline / commit.file_name).unlink()
    left = base_files(str(root), commit.requested_time)
    if not failed:
        (timeline / f"{commit.requested_time}.compaction.inflight").unlink()
        for path in left:
            path.unlink()
    table = bf.open(str(root), index=bf.SimpleBucketIndex(4))
    result = table.compact()
    assert result is not None
    assert result.instant == commit.requested_time
    done = {root / path for path in result.files}
    assert done == set(base_files(str(root), commit.requested_time))
    assert len(done) == len(left)
    assert not done & set(left)
    after = table.scan(META[2:]).to_arrow().sort_by("_hoodie_record_key")
    assert after.equals(before)
    assert table.check(depth="full").status == "clean"


@pytest.mark.rotated(0, among="crashes at each write", one_of=6)
@pytest.mark.parametrize("fault", [Fault.KILL_AFTER, Fault.FAIL_LATE])
@pytest.mark.parametrize("version", [6, 9])
def test_a_crash_at_every_write(tmp_path: Path, version: int, fault: Fault) -> None:
    """The table reads the same after it, and the next call completes."""
    table, model = make(tmp_path / "t", version, bf.SimpleBucketIndex(1))
    expected = table.scan(META).to_arrow().sort_by("id")
    points = 0
    for again, broken in crashes(table, lambda broken: broken.compact(), fault):
        points += 1
        assert again.scan(META).to_arrow().sort_by("id").equals(expected), broken.struck
        broken.deliver()
        assert again.scan(META).to_arrow().sort_by("id").equals(expected), broken.struck
        again.compact()
        assert not log_files(again), broken.struck
        assert not again.timeline.pending.instants
        assert is_as(again, model), broken.struck
        [done] = again.timeline.completed.of("commit").instants
        listed = [info.name for path in REGIONS for info in again.store.list(path)]
        assert sum(name.endswith(f"_{done.requested_time}.parquet") for name in listed) == 3
    assert points >= 10
