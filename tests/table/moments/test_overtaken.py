"""Files that others take away while a table is read: not damage, and the reader is told so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.names.instants import State
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.overtaken import (
    find_completed_since,
    find_rolled_back,
    find_what_may_be_archived,
    find_what_overtook,
)
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.store import FileInfo
from bucketfmt.timeline.timeline import Instant, Timeline
from tests.write.models import SCHEMA, create_table, rows

pytestmark = pytest.mark.rotated

KEYS = [f"key-{number:06d}" for number in range(6)]


def timeline(*instants: tuple[str, str, State]) -> Timeline:
    found = (
        Instant(time, action, state, time if state is State.COMPLETED else None, "")
        for time, action, state in instants
    )
    return Timeline(tuple(found), 2)


ONE = ("20260101000000001", "commit", State.COMPLETED)
TWO = ("20260101000000002", "commit", State.COMPLETED)
CLEAN = ("20260101000000003", "clean", State.COMPLETED)
BEGUN = ("20260101000000003", "clean", State.INFLIGHT)
LATER = ("20260101000000004", "commit", State.COMPLETED)


def test_what_is_gone_was_rolled_back_unless_it_was_archived() -> None:
    before = timeline(ONE, TWO)
    assert find_rolled_back(before, timeline(ONE, TWO, LATER)) is None
    assert find_rolled_back(before, timeline(TWO, LATER)) is None, "archived"
    taken_back = find_rolled_back(before, timeline(ONE, LATER))
    assert taken_back is not None
    assert taken_back.requested_time == TWO[0]


def test_what_takes_files_away() -> None:
    before = timeline(ONE, TWO)
    assert find_what_overtook(before, before) is None
    assert find_what_overtook(before, timeline(ONE, TWO, LATER)) is None
    assert find_what_overtook(before, timeline(ONE)) == f"commit {TWO[0]} was rolled back"
    cleaned = find_what_overtook(before, timeline(ONE, TWO, BEGUN))
    assert cleaned == f"clean {BEGUN[0]} deleted files"
    assert find_what_overtook(timeline(ONE, BEGUN), timeline(ONE, CLEAN)) is not None
    assert find_what_overtook(timeline(ONE, CLEAN), timeline(ONE, CLEAN)) is None


def test_an_archival_amid_a_listing_is_no_damage() -> None:
    """The listing may lack what replaced a file group, and have what wrote to it before."""
    listed = timeline(ONE, LATER)  # not TWO, which was archived between the two
    assert find_what_overtook(listed, timeline(LATER)) == f"commit {ONE[0]} was archived"
    kept = (ONE[0], "savepoint", State.COMPLETED)
    assert find_what_overtook(timeline(ONE, kept, LATER), timeline(ONE, kept, LATER)) is None


def test_what_was_completed_since() -> None:
    before = timeline(ONE, TWO)
    assert find_completed_since(before, before) is None
    assert find_completed_since(before, timeline(ONE, TWO, CLEAN)) is None
    came = find_completed_since(before, timeline(TWO, LATER))
    assert came is not None
    assert came.requested_time == LATER[0]


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> bf.Table:
    table = create_table(str(tmp_path / "t"), bf.SimpleBucketIndex(1), request.param)
    for ts in (1, 2, 3):
        table.upsert(rows(range(6), ts))
        table.compact()
    return table


def _roll_back(table: bf.Table) -> str:
    newest = table.timeline.writes.completed.instants[-1].requested_time
    table.rollback(newest)
    return f"{newest} was rolled back while the table was read; read again"


def _clean(table: bf.Table) -> str:
    for ts in (4, 5):
        table.upsert(rows(range(6), ts))
        table.compact()
    table.clean(retain=1, dry_run=False)
    (clean,) = table.timeline.of("clean").instants
    return f"clean {clean.requested_time} deleted files while the table was read; read again"


@pytest.mark.parametrize("overtake", [_roll_back, _clean])
@pytest.mark.parametrize("read", [bf.Scan.to_arrow, lambda scan: list(scan.to_batches())])
def test_a_scan(
    table: bf.Table, overtake: Callable[[bf.Table], str], read: Callable[[bf.Scan], object]
) -> None:
    scan = table.scan()
    assert scan.plan().slices, "it has found its files, and not opened them"
    said = overtake(bf.open(table.uri))
    with pytest.raises(bf.NotFoundError) as told:
        read(scan)
    assert said in str(told.value)
    assert table.scan().to_arrow().num_rows == 6


def test_a_lookup(table: bf.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    other, said = bf.open(table.uri), []
    list_partition = table.store.list

    def list_slowly(path: str) -> list[FileInfo]:
        listed = list_partition(path)
        if path == "us" and not said:
            said.append(_roll_back(other))
        return listed

    monkeypatch.setattr(table.store, "list", list_slowly)
    assert table.lookup(KEYS)["price"].to_pylist() == table.scan().to_arrow()["price"].to_pylist()
    assert said, "it was rolled back meanwhile"


def test_errors_are_believed_of_a_table_that_is_as_it_was(table: bf.Table) -> None:
    """What is worked out from a snapshot is worked out again where others changed the table."""
    other, seen = bf.open(table.uri), []

    def fail_on_the_first(snapshot: Snapshot) -> int:
        seen.append(snapshot)
        if len(seen) == 1:
            other.upsert(rows([77], 9))
            raise bf.CorruptError("no such file")
        return len(snapshot.commits)

    before = len(table.timeline.writes.completed.instants)
    assert on_newest(table._listed_snapshot, fail_on_the_first) == before + 1
    assert len(seen) == 2
    damaged = bf.CorruptError("damaged")

    def fail(snapshot: Snapshot) -> None:
        seen.append(snapshot)
        raise damaged

    with pytest.raises(bf.CorruptError) as told:
        on_newest(table._listed_snapshot, fail)
    assert told.value is damaged
    assert len(seen) == 3


def test_properties_that_changed_are_read_again(table: bf.Table) -> None:
    """As where the partitions of the metadata table were dropped: the timeline is the same."""
    table.metadata_table.init("record_index")
    snapshot = table._listed_snapshot()
    bf.open(table.uri).metadata_table.drop("record_index")
    assert table._listed_snapshot() is snapshot
    assert snapshot.state.has_changed()
    now = table._listed_snapshot()
    assert now.state.config.metadata_partitions == ("files",)
    assert not now.state.has_changed()


def test_a_write_that_stands_on_what_has_changed_is_in_conflict(table: bf.Table) -> None:
    state = table.state
    for error in (bf.CorruptError("damaged"), bf.IndexUnknownError("unknown")):
        with pytest.raises(type(error)), state.written_upon():
            raise error
    bf.open(table.uri).upsert(rows([77], 9))
    with (
        pytest.raises(bf.ConflictError, match=r"was completed while .* \(damaged\)"),
        state.written_upon(),
    ):
        raise bf.CorruptError("damaged")
    with pytest.raises(bf.SchemaError), state.written_upon():
        raise bf.SchemaError("of the caller")


def test_a_write_that_takes_back_its_log_file(tmp_path: Path) -> None:
    """In version 6 the file is listed with the others, since its name does not tell its write."""
    table = bf.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        table_version=6,
    )
    for price in (1.0, 2.0):
        table.upsert(rows(range(6), 1, price))
    with table.start_write("upsert", SCHEMA) as started:
        list(started.task.write(rows(range(6), 1, 3.0), "0-0-0"))
        scan = table.scan()
        logs = [len(file_slice.log_files) for file_slice in scan.plan().slices]
        assert logs == [2, 2, 2], "of the second write, and of the third"
        started.abort()
    found = scan.to_arrow()
    assert sorted(found["price"].to_pylist()) == [2.0 * number for number in range(6)]
    assert scan.count() == 6


def test_damage_is_none_of_it(table: bf.Table) -> None:
    scan = table.scan()
    file_slice, *_ = scan.plan().slices
    bf.open(table.uri).upsert(rows([77], 9))
    Path(table.uri, file_slice.files[0].path).unlink()
    with pytest.raises((bf.CorruptError, bf.NotFoundError)) as told:
        scan.to_arrow()
    assert "read again" not in str(told.value)


def test_what_may_have_completed_and_been_archived_since() -> None:
    pending = ("20260101000000002", "commit", State.INFLIGHT)
    newest = ("20260101000000005", "commit", State.COMPLETED)
    find = find_what_may_be_archived
    assert find(timeline(ONE, TWO), timeline(ONE, TWO, LATER)) is None
    assert find(timeline(ONE, TWO), timeline(TWO, LATER)) is None, "those before the newest known"
    assert find(timeline(ONE, TWO), timeline(LATER)) == TWO[0], "what came between is not there"
    assert find(timeline(ONE, pending, LATER), timeline(LATER, newest)) == pending[0]
    assert find(timeline(ONE, pending, LATER), timeline(ONE, LATER)) is None, "it failed"
    assert find(timeline(ONE, pending, LATER), timeline(TWO, LATER)) is None, "it completed"
    assert find(timeline(), timeline(LATER)) == ""
