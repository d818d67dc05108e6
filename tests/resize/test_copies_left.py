"""Copies of rows for a resize that stay once Hudi has taken its plan back, and what cleans do."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.instant_content import encode_instant_content
from bucketfmt.format.timeline.plans import InstantInfo
from bucketfmt.format.timeline.service_metadata import RollbackMetadata
from tests.resize.pending import find_copies, schedule_resize
from tests.resize.test_dual_write import execute, filled, write
from tests.write.models import NO_SERVICES, Model, assert_reads_as, rows

VERSIONS = (6, 8, 9)
ROLLED_BACK_ACTION = {6: "replacecommit", 8: "clustering", 9: "clustering"}


def files_of(folder: Path, instant: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.glob(f"us/.*_{instant}.log.*")}


def roll_back_as_hudi(table: bf.Table, resize: str) -> set[str]:
    """Take a plan back without the files of other instants, and return their paths."""
    folder = Path(table.uri)
    copies = files_of(folder, resize)
    table.rollback(resize)
    for path, content in copies.items():
        path.write_bytes(content)
    return {path.relative_to(folder).as_posix() for path in copies}


def opened(path: Path, version: int, *, virtual_logs: bool = False) -> tuple[bf.Table, Model, str]:
    """Return a table with copies for a resize that is planned."""
    table, model = filled(path, version, virtual_logs=virtual_logs)
    table = bf.open(table.uri, writer=NO_SERVICES)
    resize = schedule_resize(table, split=[0], merge=[1, 2])
    write(table, model, 9)
    return table, model, resize


def write_on(table: bf.Table, model: Model, first_ts: int) -> None:
    for ts in range(first_ts, first_ts + 4):
        write(table, model, ts)


@pytest.mark.rule("TL-31")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_deletes_them_before_an_archival_lets_them_count(
    tmp_path: Path, version: int
) -> None:
    table, model, resize = opened(tmp_path / "t", version)
    left = roll_back_as_hudi(table, resize)
    assert left
    write_on(table, model, 10)
    table.compact()
    table.archive(min_commits=2, max_commits=3)
    assert table.timeline.writes.instants[0].requested_time < resize
    assert {f.subject.paths[0] for f in table.check("full").findings if f.id == "T002"} == left
    rows_by_key = {(row["region"], row["id"]): row for row in table.scan().to_arrow().to_pylist()}
    assert rows_by_key == model.rows
    assert table.scan().count() == len(model.rows)

    done = table.clean(retain=1, dry_run=False)
    assert left <= set(done.files)
    assert find_copies(table, resize) == []
    table.archive(min_commits=2, max_commits=3)
    assert table.timeline.writes.instants[0].requested_time > resize
    assert_reads_as(table.uri, model)


@pytest.mark.parametrize("version", VERSIONS)
def test_those_of_a_resize_that_completed_later_stay(tmp_path: Path, version: int) -> None:
    """Hudi rolls a failed attempt back by a rollback that names the resize."""
    table, model, resize = opened(tmp_path / "t", version)
    execute(table, model)
    write_on(table, model, 10)
    table.clean(retain=1, dry_run=False)  # what the resize has replaced
    taken_back = table.upsert(rows(range(5), 50))
    rollback = table.rollback(taken_back.instant)
    name_instead(table, rollback.rollback_instant or "", resize, ROLLED_BACK_ACTION[version])
    table = bf.open(table.uri, writer=NO_SERVICES)
    write_on(table, model, 20)
    table.archive(min_commits=8, max_commits=8)
    assert not table.timeline.contains(resize)
    assert table.timeline.contains(rollback.rollback_instant or "")
    table.clean(retain=1, dry_run=False)
    assert_reads_as(table.uri, model)
    table.compact()
    assert_reads_as(table.uri, model)


def name_instead(table: bf.Table, rollback: str, instant: str, action: str) -> None:
    """Have a completed rollback name another instant."""
    done = RollbackMetadata(
        start_rollback_time=rollback,
        time_taken_in_millis=0,
        total_files_deleted=0,
        commits_rollback=[instant],
        partition_metadata={},
        instants_rollback=[InstantInfo(commit_time=instant, action=action)],
    )
    config = table.config
    found = [i for i in table.timeline.instants if i.requested_time == rollback]
    path = Path(table.uri) / config.timeline_path / found[0].file_name
    layout = config.timeline_layout
    path.write_bytes(bytes(encode_instant_content(done, "rollback", State.COMPLETED, layout)))


def test_rows_that_virtual_logs_point_to_stay(tmp_path: Path) -> None:
    """The file groups to come have the only copy."""
    table, model, resize = opened(tmp_path / "t", 9, virtual_logs=True)
    folder = Path(table.uri)
    copies = files_of(folder, resize)
    assert copies
    (plan,) = folder.glob(f".hoodie/timeline/{resize}.*requested")
    plan.unlink()  # a rollback of bucketfmt is refused
    taken_back = table.upsert(rows(range(5), 50))
    rollback = table.rollback(taken_back.instant)
    name_instead(table, rollback.rollback_instant or "", resize, "clustering")
    table = bf.open(table.uri, writer=NO_SERVICES)
    write_on(table, model, 10)
    table.clean(retain=1, dry_run=False)
    assert files_of(folder, resize) == copies
