from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bucketfmt.errors import (
    BucketfmtError,
    CommitUnknownError,
    ConflictError,
    LockLostError,
    StorageError,
)
from bucketfmt.format.names.instants import State
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import (
    ClusteringPlan,
    CompactionPlan,
    RequestedReplaceMetadata,
)
from bucketfmt.format.timeline.service_metadata import SavepointMetadata
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.testing.faulty_store import Fault, FaultPlan, FaultyStore, Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.unsynced_disk import UnsyncedDisk
from bucketfmt.timeline.clock import InstantClock
from bucketfmt.timeline.load import load_commit_metadata, load_instant_content, load_timeline
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.timeline.transitions import put_completed, put_inflight, put_requested
from tests.timeline.tables import config_of

T, C = "20240101000000000", "20240101000000001"
NOW = 1704067200.0  # T
DONE = CommitMetadata(
    partition_to_write_stats={"p": [WriteStat(file_id="f", path="p/f.parquet", num_writes=3)]},
    extra_metadata={"schema": "{}"},
    operation_type="UPSERT",
)
PROFILE = CommitMetadata(partition_to_write_stats={"p": [WriteStat(file_id="", num_inserts=3)]})
CLUSTERING = RequestedReplaceMetadata(operation_type="CLUSTER", clustering_plan=ClusteringPlan())
SAVEPOINT = SavepointMetadata(
    savepointed_by="me", savepointed_at=1, comments="", partition_metadata={}
)
LAYOUTS = pytest.mark.parametrize("layout", [1, 2])


def clock() -> InstantClock:
    return InstantClock("UTC", now=lambda: NOW, clock_skew_s=0)


def config(layout: int) -> TableConfig:
    return config_of(layout, **{"hoodie.table.timeline.timezone": "UTC"})


def complete(
    store: Store,
    layout: int,
    action: str = "commit",
    content: InstantContent = DONE,
    may_publish: Callable[[], bool] = lambda: True,
) -> Instant:
    timeline = load_timeline(
        store,
        config(layout),
    )
    return put_completed(store, config(layout), timeline, clock(), T, action, content, may_publish)


def begin(store: Store, layout: int, action: str = "commit") -> None:
    put_requested(store, config(layout), T, action)
    put_inflight(store, config(layout), T, action)


def names(store: Store, layout: int) -> list[str]:
    return [info.name for info in store.list(config(layout).timeline_path)]


@pytest.mark.parametrize(
    ("layout", "action", "plan", "profile", "done", "files"),
    [
        (1, "commit", None, PROFILE, DONE, ["commit", "commit.requested", "inflight"]),
        (2, "commit", None, None, DONE, ["commit.requested", "inflight", "_commit"]),
        (
            1,
            "deltacommit",
            None,
            None,
            DONE,
            ["deltacommit", "deltacommit.inflight", "deltacommit.requested"],
        ),
        (
            2,
            "deltacommit",
            None,
            PROFILE,
            DONE,
            ["deltacommit.inflight", "deltacommit.requested", "_deltacommit"],
        ),
        (
            1,
            "compaction",
            CompactionPlan(),
            None,
            DONE,
            ["commit", "compaction.inflight", "compaction.requested"],
        ),
        (
            2,
            "compaction",
            CompactionPlan(),
            None,
            DONE,
            ["compaction.inflight", "compaction.requested", "_commit"],
        ),
        (
            1,
            "clustering",
            CLUSTERING,
            None,
            DONE,
            ["replacecommit", "replacecommit.inflight", "replacecommit.requested"],
        ),
        (
            2,
            "clustering",
            CLUSTERING,
            None,
            DONE,
            ["clustering.inflight", "clustering.requested", "_replacecommit"],
        ),
        (
            2,
            "replacecommit",
            RequestedReplaceMetadata(),
            PROFILE,
            DONE,
            ["replacecommit.inflight", "replacecommit.requested", "_replacecommit"],
        ),
    ],
)
def test_files_and_what_they_hold(
    layout: int,
    action: str,
    plan: InstantContent | None,
    profile: InstantContent | None,
    done: CommitMetadata,
    files: list[str],
) -> None:
    store, settings = MemoryStore(), config(layout)
    requested = put_requested(store, settings, T, action, plan)
    assert load_timeline(store, settings).instants == (requested,)
    assert requested.state is State.REQUESTED
    assert load_instant_content(store, settings, requested) == plan
    inflight = put_inflight(store, settings, T, action, profile)
    assert load_timeline(store, settings).instants == (inflight,)
    assert inflight.state is State.INFLIGHT
    assert load_instant_content(store, settings, inflight) == profile
    completed = complete(store, layout, action, done)
    (loaded,) = load_timeline(store, settings).instants
    assert (loaded.requested_time, loaded.action, loaded.state, loaded.file_name) == (
        completed.requested_time,
        completed.action,
        completed.state,
        completed.file_name,
    )
    assert load_commit_metadata(store, settings, loaded) == done
    if layout == 2:
        assert (loaded.completion_time, completed.completion_time) == (C, C)
    expected = [f"{T}_{C}.{f[1:]}" if f.startswith("_") else f"{T}.{f}" for f in files]
    assert names(store, layout) == expected


@LAYOUTS
def test_a_savepoint_is_not_requested(layout: int) -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match="no REQUESTED 'savepoint'"):
        put_requested(store, config(layout), T, "savepoint")
    put_inflight(store, config(layout), T, "savepoint")
    complete(store, layout, "savepoint", SAVEPOINT)
    (loaded,) = load_timeline(store, config(layout)).instants
    assert (loaded.action, loaded.is_completed) == ("savepoint", True)


def test_a_completion_time_is_after_all_that_is_known() -> None:
    store = MemoryStore()
    folder = config(2).timeline_path
    store.put_if_absent(f"{folder}/20230101000000000_20240101000000777.clean", b"")
    begin(store, 2)
    assert complete(store, 2).completion_time == "20240101000000778"


@LAYOUTS
def test_wrong_content_is_refused_before_anything_is_written(layout: int) -> None:
    store = MemoryStore()
    with pytest.raises(TypeError):
        put_requested(store, config(layout), T, "commit", DONE)
    with pytest.raises(TypeError):
        put_requested(store, config(layout), T, "compaction")
    with pytest.raises(TypeError):
        put_inflight(store, config(layout), T, "compaction", CompactionPlan())
    assert store.files == {}
    begin(store, layout)
    with pytest.raises(TypeError):
        complete(store, layout, content=CompactionPlan())
    assert len(store.files) == 2


# --- two writers


@LAYOUTS
def test_of_two_that_make_the_same_move_one_does(layout: int, tmp_path: Path) -> None:
    settings = config(layout)

    def both(move: Callable[[Store], object]) -> list[object]:
        def attempt(_: int) -> object:
            try:
                return move(open_store(tmp_path))
            except ConflictError as error:
                return error

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(attempt, range(2)))
        assert sum(isinstance(outcome, Instant) for outcome in outcomes) == 1
        return outcomes

    both(lambda store: put_requested(store, settings, T, "commit"))
    both(lambda store: put_inflight(store, settings, T, "commit"))
    store = open_store(tmp_path)
    complete(store, layout)
    with pytest.raises(ConflictError, match="is completed where it should be inflight"):
        complete(store, layout)


@LAYOUTS
def test_what_others_rolled_back_is_not_published(layout: int) -> None:
    store = MemoryStore()
    with pytest.raises(ConflictError, match="not on the timeline"):
        complete(store, layout)
    put_requested(store, config(layout), T, "commit")
    with pytest.raises(ConflictError, match="is requested where it should be inflight"):
        complete(store, layout)
    assert len(store.files) == 1


@LAYOUTS
def test_what_is_there_and_was_not_listed_is_not_taken_for_rolled_back(layout: int) -> None:
    """Its files would be removed as far as they are listed, and the others count once archived."""
    store = MemoryStore()
    begin(store, layout)
    listed_late = Timeline((), layout)
    with pytest.raises(StorageError, match="lists files late"):
        put_completed(store, config(layout), listed_late, clock(), T, "commit", DONE)
    assert len(store.files) == 2


@LAYOUTS
def test_an_equal_time_of_another_action_is_another_instant(layout: int) -> None:
    store = MemoryStore()
    put_inflight(store, config(layout), T, "savepoint")
    begin(store, layout)
    complete(store, layout)
    states = {i.action: i.state for i in load_timeline(store, config(layout)).instants}
    assert states == {"commit": State.COMPLETED, "savepoint": State.INFLIGHT}


def test_a_completed_file_of_someone_else_is_a_conflict() -> None:
    """In layout 1 both would give it the same name."""
    store = MemoryStore()
    begin(store, 1)
    timeline = load_timeline(store, config(1))
    for content in (b"{}", b"x" * 10_000):
        store.files[f".hoodie/{T}.commit"] = content
        with pytest.raises(ConflictError, match="another writer published this instant"):
            put_completed(store, config(1), timeline, clock(), T, "commit", DONE)
        assert store.files[f".hoodie/{T}.commit"] == content


@LAYOUTS
def test_nothing_is_published_without_the_lock(layout: int) -> None:
    store = MemoryStore()
    begin(store, layout)
    with pytest.raises(ConflictError, match=r"lock or the heartbeat was lost.*Nothing was"):
        complete(store, layout, may_publish=lambda: False)

    def fail() -> bool:
        raise StorageError("away")

    with pytest.raises(StorageError, match="away"):
        complete(store, layout, may_publish=fail)
    assert len(store.files) == 2


# --- crashes and failures


def visible(store: Store, layout: int) -> list[tuple[str, CommitMetadata]]:
    settings = config(layout)
    return [
        (i.requested_time, load_commit_metadata(store, settings, i))
        for i in load_timeline(store, settings).completed.instants
    ]


def write(store: Store, layout: int) -> None:
    settings = config(layout)
    timeline = load_timeline(store, settings)
    requested_time = clock().next_time((timeline.latest_time,))
    put_requested(store, settings, requested_time, "commit")
    put_inflight(store, settings, requested_time, "commit", PROFILE)
    timeline = load_timeline(store, settings)
    put_completed(store, settings, timeline, clock(), requested_time, "commit", DONE)


def points(fault: Fault, layout: int, into: Callable[[], Store]) -> Iterator[tuple[Store, Any]]:
    """Yield the store and the error after each point at which a write can be struck."""
    for at in range(1, 100):
        store = into()
        faulty = FaultyStore(store, FaultPlan(at, fault))
        error = None
        try:
            write(faulty, layout)
        except (Killed, BucketfmtError) as raised:
            error = raised
        if faulty.struck is None:
            # Two listings, three files; and a look at the pending write where nothing is before it.
            assert at == (6 if len(visible(store, layout)) > 1 else 7)
            return
        yield store, error


@LAYOUTS
@pytest.mark.parametrize("fault", list(Fault))
def test_after_any_fault_the_table_reads_as_before_or_as_after(fault: Fault, layout: int) -> None:
    for before in ([], [(T, DONE)]):

        def store_with(before: list = before) -> Store:
            store = MemoryStore()
            if before:
                write(store, layout)
            return store

        for store, error in points(fault, layout, store_with):
            seen = visible(store, layout)
            assert seen[: len(before)] == before
            assert len(seen) - len(before) in (0, 1)
            if error is None:
                assert len(seen) == len(before) + 1  # what is acknowledged is there
            elif not isinstance(error, Killed):
                assert type(error) is StorageError
                assert len(seen) == len(before)  # and what is denied is not
            write(store, layout)  # the next write succeeds
            assert len(visible(store, layout)) == len(seen) + 1


@LAYOUTS
def test_what_is_acknowledged_survives_a_power_failure(layout: int, tmp_path: Path) -> None:
    for number, fault in enumerate((Fault.KILL_AFTER, None)):
        root = tmp_path / str(number)
        root.mkdir()
        for at in range(1, 8):
            store = open_store(root / str(at))
            with UnsyncedDisk(root) as disk:
                try:
                    write(FaultyStore(store, fault and FaultPlan(at, fault)), layout)
                    expected = [(T, DONE)]
                except Killed:
                    expected = [(T, DONE)] if at == 6 else []
                disk.lose_power()
            assert visible(store, layout) == expected


def last_put(store: FaultyStore, fault: Fault, *, lasting: bool = False) -> None:
    """Have the fault strike the publication, and all that comes after it if it is lasting."""
    store._plan = FaultPlan(len(store.operations) + 1, fault, lasting=lasting)


class _Remote(MemoryStore):
    """Where a request may arrive after its sender gave up."""

    @property
    def failures_are_final(self) -> bool:
        return False


@LAYOUTS
@pytest.mark.parametrize(
    ("fault", "lasting", "is_known"),
    [
        (Fault.FAIL_BEFORE, False, True),
        (Fault.FAIL_AFTER, False, True),
        (Fault.FAIL_LATE, False, True),
        (Fault.FAIL_BEFORE, True, False),
        (Fault.FAIL_AFTER, True, False),
        (Fault.FAIL_LATE, True, False),
    ],
)
def test_over_a_network_a_commit_is_there_or_its_fate_is_unknown(
    layout: int, fault: Fault, lasting: bool, is_known: bool
) -> None:
    remote = _Remote()
    store = FaultyStore(remote)
    begin(store, layout)
    timeline = load_timeline(store, config(layout))
    last_put(store, fault, lasting=lasting)
    arguments = (store, config(layout), timeline, clock(), T, "commit", DONE)
    if is_known:
        put_completed(*arguments)
        assert visible(remote, layout) == [(T, DONE)]
    else:
        with pytest.raises(CommitUnknownError, match="clean up nothing") as caught:
            put_completed(*arguments)
        assert caught.value.path.endswith(".commit")
    store.deliver()
    assert len(visible(remote, layout)) == (1 if is_known or fault is not Fault.FAIL_BEFORE else 0)


@pytest.mark.parametrize(
    ("fault", "lasting", "error"),
    [
        (Fault.FAIL_BEFORE, False, StorageError),
        (Fault.FAIL_AFTER, False, None),
        (Fault.FAIL_BEFORE, True, CommitUnknownError),
        (Fault.FAIL_AFTER, True, CommitUnknownError),
    ],
)
def test_on_a_disk_a_look_tells(
    fault: Fault, lasting: bool, error: type[BucketfmtError] | None
) -> None:
    memory = MemoryStore()
    store = FaultyStore(memory)
    begin(store, 2)
    timeline = load_timeline(store, config(2))
    last_put(store, fault, lasting=lasting)
    arguments = (store, config(2), timeline, clock(), T, "commit", DONE)
    if error is None:
        put_completed(*arguments)
    else:
        with pytest.raises(error) as caught:
            put_completed(*arguments)
        assert type(caught.value) is error
    assert len(visible(memory, 2)) == (1 if fault is Fault.FAIL_AFTER else 0)


def test_no_second_try_without_the_lock() -> None:
    """It was lost while the first one failed, so the second might overtake another writer."""
    for fault, error in (
        (Fault.FAIL_LATE, CommitUnknownError),
        (Fault.FAIL_AFTER, LockLostError),
    ):
        remote = _Remote()
        store = FaultyStore(remote)
        begin(store, 2)
        timeline: Timeline = load_timeline(store, config(2))
        last_put(store, fault)
        answers = iter([True, False, False])
        arguments = (store, config(2), timeline, clock(), T, "commit", DONE, answers.__next__)
        with pytest.raises(error):
            put_completed(*arguments)
        assert visible(remote, 2) == ([] if fault is Fault.FAIL_LATE else [(T, DONE)])
        store.deliver()
        assert visible(remote, 2) == [(T, DONE)]


@LAYOUTS
def test_on_s3(layout: int, s3_options: dict[str, Any]) -> None:
    store = open_store(f"s3://tables/{uuid.uuid4().hex}", s3_options)
    write(store, layout)
    assert visible(store, layout) == [(T, DONE)]
    with pytest.raises(ConflictError):
        put_requested(store, config(layout), T, "commit")
