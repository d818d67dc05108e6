"""Past moments: read as they were, or refused, once cleans and archives have gone over them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import NotFoundError
from bucketfmt.format.names.instants import State
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.history import load_history
from tests.write.crashes import open_on
from tests.write.models import NO_SERVICES, create_table, rows

pytestmark = pytest.mark.rotated

VERSIONS = (6, 8, 9)
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
WRITES = 8

Views = dict[str, pa.Table]
"""What a table held after each write, by the write's requested time."""


def make(folder: Path, version: int = 9, table_type: str = "COPY_ON_WRITE") -> bf.Table:
    return create_table(
        str(folder), bf.SimpleBucketIndex(1), table_type, table_version=version, writer=NO_SERVICES
    )


def grow(table: bf.Table) -> Views:
    """Write to every bucket in each commit."""
    views: Views = {}
    for ts in range(WRITES):
        table.upsert(rows(range(3 + ts), ts=ts))
        keep_view(table, views)
        if table.config.table_type == "MERGE_ON_READ" and ts % 2:
            table.compact()
    return views


def keep_view(table: bf.Table, views: Views) -> None:
    newest = table.timeline.writes.completed.instants[-1]
    views[newest.requested_time] = table.scan().to_arrow().sort_by("id")


def readable(table: bf.Table, views: Views) -> list[int]:
    """Return which of the moments can be read; what can be read is as it was."""
    return [
        number
        for number, (moment, view) in enumerate(views.items())
        if _is_readable(table, moment, view)
    ]


def _is_readable(table: bf.Table, moment: str, view: pa.Table) -> bool:
    try:
        then = table.scan(as_of=moment).to_arrow().sort_by("id")
    except NotFoundError as error:
        assert f"needed at {moment}" in str(error)  # noqa: PT017  (others are read)
        return False
    assert then.equals(view), moment
    return True


@pytest.mark.rotated(1)
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_cleaned_moment_is_refused_before_and_after_it_is_archived(
    tmp_path: Path, version: int, table_type: str
) -> None:
    table = make(tmp_path / "t", version, table_type)
    views = grow(table)
    assert readable(table, views) == [*range(WRITES)]
    # Two commits stay readable, and what was there right before them. The last one of the logged
    # table is a compaction.
    result = table.clean(retain=2, dry_run=False)
    kept = [5, 6, 7] if table_type == "COPY_ON_WRITE" else [6, 7]
    assert readable(bf.open(table.uri), views) == kept
    assert table.archive(min_commits=4, max_commits=4)
    assert readable(bf.open(table.uri), views) == kept
    assert readable(table, views) == kept
    # Once the write before the first of the two is archived, nothing tells when it was.
    assert table.archive(min_commits=2, max_commits=2)
    assert readable(bf.open(table.uri), views) == kept[1:]
    [clean] = result.instants
    with pytest.raises(NotFoundError, match=rf"a clean \({clean}\) may have deleted files"):
        table.scan(as_of="2020-01-01 00:00:00").count()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_moment_that_an_archived_clean_kept_is_read(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    views: Views = {}
    for ts in range(WRITES):
        table.upsert(rows(range(3 + ts), ts=ts))
        keep_view(table, views)
        if ts == 2:  # the file slices of the first two writes are gone
            [clean] = table.clean(retain=1, dry_run=False).instants
    table.archive(min_commits=2, max_commits=2)
    archived = load_history(table.store, table.config)
    assert {clean, list(views)[5]} <= {instant.requested_time for instant in archived}
    assert readable(bf.open(table.uri), views) == [*range(1, WRITES)]
    table.clean(retain=1, dry_run=False)
    assert readable(bf.open(table.uri), views) == [6, 7]


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_up_to_a_cleaned_moment_are_refused(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    grow(table)
    writes = table.timeline.writes.completed.instants
    times = [w.requested_time if version == 6 else w.completion_time for w in writes]
    middle, last = times[2], times[6]
    before = table.changes(middle, last).to_arrow().sort_by("id")
    assert before.num_rows
    table.clean(retain=2, dry_run=False)
    table.archive(min_commits=2, max_commits=2)
    assert table.changes(middle, last).to_arrow().sort_by("id").equals(before)
    with pytest.raises(NotFoundError, match=f"needed at {middle}"):
        table.changes(None, middle).count()


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_that_was_at_work_before_a_read_began_is_named(
    tmp_path: Path, version: int, table_type: str
) -> None:
    """The clean was planned before the read, and deletes the first file amid it."""
    table = make(tmp_path / "t", version, table_type)
    moment = next(iter(grow(table)))

    def die(_progress: object) -> None:
        raise Killed("before it deletes")

    kept = tmp_path / "kept"
    shutil.copytree(table.uri, kept)
    with pytest.raises(Killed):
        table.clean(retain=2, dry_run=False, progress=die)
    for path in kept.glob("**/*.parquet"):  # what it deleted before it told so
        there = Path(table.uri, path.relative_to(kept))
        if not there.exists():
            shutil.copy(path, there)
    reader = bf.open(table.uri)
    [clean] = reader.timeline.pending.of("clean").instants
    scan = reader.scan(as_of=moment)
    for file in scan.plan().slices[0].files:
        Path(table.uri, file.path).unlink()
    for again in (scan, reader.scan(as_of=moment)):
        with pytest.raises(NotFoundError, match=rf"\({clean.requested_time}\) deletes this file"):
            again.to_arrow()
    with pytest.raises(NotFoundError, match=f"needed at {moment}"):
        bf.open(table.uri).scan(as_of=moment).to_arrow()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_moment_whose_files_are_all_there_is_read_while_commits_name_them(
    tmp_path: Path, version: int
) -> None:
    table = make(tmp_path / "t", version)
    views: Views = {}
    for number in range(5):
        table.upsert(rows([number], ts=1))  # the regions take turns
        keep_view(table, views)
    table.clean(retain=1, dry_run=False)
    # What the second write to "us" and the one to "eu" overtook is gone: 0 to 3.
    assert readable(bf.open(table.uri), views) == [3, 4]
    for moment, view in views.items():
        of_ap = table.scan(as_of=moment, filter="region = 'ap'").count()
        assert of_ap == view["region"].to_pylist().count("ap")
    table.archive(min_commits=2, max_commits=2)
    with pytest.raises(NotFoundError):
        table.scan(as_of=next(iter(views)), filter="region = 'ap'").count()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_savepoint_stays_readable(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    views: Views = {}
    for ts in range(3):
        table.upsert(rows(range(3 + ts), ts=ts))
        keep_view(table, views)
    table.savepoint()
    for ts in range(3, WRITES):
        table.upsert(rows(range(3 + ts), ts=ts))
        keep_view(table, views)
    table.clean(retain=1, dry_run=False)
    table.archive(min_commits=2, max_commits=2)
    assert readable(bf.open(table.uri), views) == [2, 6, 7]


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_of_files_are_kept_from_when_a_clean_was_planned(
    tmp_path: Path, version: int
) -> None:
    table = make(tmp_path / "t", version)
    views = grow(table)
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    table.upsert(rows([1], ts=9))
    keep_view(table, views)
    table.archive(min_commits=3, max_commits=3)
    assert readable(bf.open(table.uri), views) == [WRITES - 1, WRITES]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_that_died_counts(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    views = grow(table)
    table.archive(min_commits=3, max_commits=3)
    disk = MemoryStore.of_folder(table.uri)
    assert readable(open_on(disk), views) == [*range(WRITES)]
    broken = FaultyStore(disk, FaultPlan(3, Fault.KILL_AFTER, verbs=("delete",)))
    with pytest.raises(Killed):
        open_on(broken).clean(retain=2, dry_run=False)
    again = open_on(disk)
    assert again.timeline.of("clean").instants[-1].state is not State.COMPLETED
    assert readable(again, views) == [5, 6, 7]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_archived_clean_counts(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    views = grow(table)
    table.clean(retain=2, dry_run=False)
    for ts in range(WRITES, WRITES + 6):
        table.upsert(rows(range(3 + ts), ts=ts))
        keep_view(table, views)
    table.archive(min_commits=2, max_commits=2)
    history = load_history(table.store, table.config)
    active = table.timeline.of("clean").instants
    assert [i.action for i in (*history, *active)].count("clean") == 1
    kept = readable(bf.open(table.uri), views)
    assert set(kept) >= {*range(WRITES + 4, WRITES + 6)}
    assert not {*range(5)} & {*kept}


@pytest.mark.rotated(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_no_rows_are_missing_in_silence(
    tmp_path: Path, version: int, table_type: str, seed: int
) -> None:
    chance = random.Random(seed)
    table = make(tmp_path / "t", version, table_type)
    views: Views = {}
    for ts in range(25):
        _do_something(table, chance, ts)
        keep_view(table, views)
        if chance.random() < 0.15:
            policy, retain = chance.choice([("KEEP_LATEST_COMMITS", 4), ("KEEP_LATEST_COMMITS", 2)])
            if chance.random() < 0.3:
                policy, retain = "KEEP_LATEST_FILE_VERSIONS", 1
            table.clean(policy=policy, retain=retain, dry_run=False)  # type: ignore[arg-type]
        if chance.random() < 0.2:
            table.archive(min_commits=4, max_commits=5)
        if chance.random() < 0.1:
            table.savepoint()
    assert len(views) - 1 in readable(bf.open(table.uri), views)


def _do_something(table: bf.Table, chance: random.Random, ts: int) -> None:
    numbers = chance.sample(range(12), chance.randrange(1, 5))
    what = chance.random()
    if what < 0.7 or not table.timeline.writes.completed.instants:
        table.upsert(rows(numbers, ts=ts))
    elif what < 0.8:
        table.insert_overwrite(rows(numbers, ts=ts))
    elif what < 0.9 and table.config.table_type == "MERGE_ON_READ":
        table.compact()
    else:
        table.delete(rows(numbers, ts=ts))


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_columns_of_archived_commits_stay_those_of_their_moment(
    tmp_path: Path, version: int, table_type: str
) -> None:
    """They were the columns that the table was created with: a later one was lost in silence."""
    table = make(tmp_path / "t", version, table_type)
    before = table.scan().to_arrow().schema
    views: Views = {}
    for ts in range(WRITES):
        given = rows(range(3 + ts), ts=ts)
        if ts >= 1:
            given = given.append_column("added", pa.array([f"at {ts}"] * given.num_rows))
        if ts >= 3:
            given = given.append_column("later", pa.array([ts] * given.num_rows, pa.int64()))
        table.upsert(given, evolve=True)
        keep_view(table, views)
    assert table.archive(min_commits=2, max_commits=3)
    later = bf.open(table.uri, writer=NO_SERVICES)
    for ts, (moment, view) in enumerate(views.items()):
        assert later.scan(as_of=moment).to_arrow().sort_by("id") == view
        added = [*before.names, *["added"] * (ts >= 1), *["later"] * (ts >= 3)]
        assert view.column_names == added
        if ts >= 1:
            assert later.scan(as_of=moment, filter=f"added = 'at {ts}'").count() == 3 + ts
