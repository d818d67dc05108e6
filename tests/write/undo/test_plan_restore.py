"""What a savepoint keeps and a restore takes back, decided from values: no store, no files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import ConflictError, CorruptError
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import InstantInfo, RestorePlan
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    SavepointMetadata,
    SavepointPartitionMetadata,
)
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.undo.plan_restore import RestoreBasis, find_restorable, plan_restore
from bucketfmt.write.undo.plan_savepoint import (
    check_not_cleaned,
    find_completed_write,
    find_savepoint,
    plan_savepoint,
)
from bucketfmt.write.undo.rollback_conflicts import find_after

F = "00000001-1ad8-4c4f-84b0-f9f06e6013ae-0"


def instant(text: str) -> Instant:
    """`10` is a commit completed at 10, `10>25` at 25, `10*` a pending one; `11clean` a clean."""
    text, _, completed = text.partition(">")
    time, action = text[:2], text[2:].rstrip("*") or "commit"
    if text.endswith("*"):
        return Instant(time, action, State.INFLIGHT, None, text)
    return Instant(time, action, State.COMPLETED, completed or time, text)


def timeline_of(*texts: str, layout: int = 2) -> Timeline:
    return Timeline(tuple(map(instant, texts)), layout)


def config_of(layout: int = 2, kind: str = "COPY_ON_WRITE") -> TableConfig:
    return TableConfig.from_properties(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": "6" if layout == 1 else "8",
            "hoodie.table.type": kind,
            "hoodie.timeline.layout.version": str(layout),
        }
    )


def saved(files: Mapping[str, Sequence[str]]) -> SavepointMetadata:
    return SavepointMetadata(
        savepointed_by="me",
        savepointed_at=1,
        comments="",
        partition_metadata={
            path: SavepointPartitionMetadata(partition_path=path, savepoint_data_file=names)
            for path, names in files.items()
        },
    )


def basis_of(
    *texts: str,
    layout: int = 2,
    kind: str = "COPY_ON_WRITE",
    clusterings: Collection[str] = (),
    history: Sequence[str] = (),
    files: Mapping[str, Sequence[str]] | None = None,
    listed: Mapping[str, Collection[str]] | None = None,
) -> RestoreBasis:
    """A table savepointed at 10."""
    timeline = timeline_of("10", "10savepoint", *texts, layout=layout)
    return RestoreBasis(
        config=config_of(layout, kind),
        timeline=timeline,
        clusterings=clusterings,
        history=[instant(text) for text in history],
        savepoint=find_restorable(timeline, "10"),
        files=saved(files or {}),
        listed=listed or {},
    )


def taken_back(plan: RestorePlan) -> list[str]:
    return [target.commit_time or "" for target in plan.instants_to_rollback]


@pytest.mark.parametrize(
    ("basis", "expected"),
    [
        (basis_of(), []),
        (basis_of("11", "12", "13clean"), ["12", "11"]),
        pytest.param(basis_of("11>15", "12"), ["11", "12"], id="the last to complete goes first"),
        pytest.param(
            basis_of("11>15", "12", layout=1), ["12", "11"], id="layout 1 goes by requested times"
        ),
        pytest.param(basis_of("11*", "12"), ["11", "12"], id="pending is newest"),
        pytest.param(
            basis_of("11replacecommit*", "12", clusterings=["11"]),
            ["11", "12"],
            id="a pending clustering goes before all",
        ),
        pytest.param(
            basis_of("11replacecommit*", "12", clusterings=["11"], layout=1),
            ["12", "11"],
            id="layout 1 appends to the log files of a pending clustering before they go",
        ),
        pytest.param(basis_of("09>12"), ["09"], id="requested before, completed after"),
        pytest.param(
            basis_of("09>12", layout=1), [], id="layout 1 does not tell when it completed"
        ),
        pytest.param(
            basis_of("09>12", "11compaction*", kind="MERGE_ON_READ"),
            ["11"],
            id="a completed compaction counts from its request",
        ),
    ],
)  # fmt: skip
def test_what_is_taken_back(basis: RestoreBasis, expected: list[str]) -> None:
    plan = plan_restore(basis)
    assert taken_back(plan) == expected
    actions = {i.requested_time: i.action for i in basis.timeline.writes.instants}
    assert plan == RestorePlan(
        instants_to_rollback=[InstantInfo(commit_time=t, action=actions[t]) for t in expected],
        savepoint_to_restore_timestamp="10",
    )


@pytest.mark.parametrize(
    ("basis", "error", "message"),
    [
        (basis_of("11", "11savepoint", "12"), ConflictError, "a later savepoint, 11"),
        (basis_of("13", history=["11"]), ConflictError, "commit 11, .* was archived"),
        (
            basis_of(files={"p": ["a", "b"]}, listed={"p": ["a"]}),
            CorruptError,
            "the savepoint needs this file",
        ),
        (basis_of(files={"p": ["a"]}), CorruptError, "it is gone"),
    ],
)
def test_what_cannot_be_restored(basis: RestoreBasis, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan_restore(basis)


def test_what_is_archived_and_still_active_can_be_taken_back() -> None:
    basis = basis_of("11", "12", history=["09", "11"])
    assert taken_back(plan_restore(basis)) == ["12", "11"]


def test_only_savepoints_are_restored() -> None:
    timeline = timeline_of("10", "11", "11savepoint*")
    for time in ("10", "11", "99"):
        with pytest.raises(ValueError, match=f"no savepoint '{time}'"):
            find_restorable(timeline, time)
    assert find_savepoint(timeline, "11") == timeline.instants[2]
    assert find_savepoint(timeline, "10") is None


@given(
    st.lists(st.tuples(st.integers(11, 40), st.integers(0, 9), st.booleans()), max_size=8),
    st.sampled_from((1, 2)),
)
def test_a_restored_table_is_as_the_savepoint_saw_it(
    drawn: list[tuple[int, int, bool]], layout: int
) -> None:
    texts = {
        t: f"{t}*" if is_pending else f"{t}>{min(t + delay, 99)}" for t, delay, is_pending in drawn
    }
    basis = basis_of(*(texts[t] for t in sorted(texts)), layout=layout)
    gone = taken_back(plan_restore(basis))
    assert sorted(gone) == sorted(map(str, texts))
    if layout == 2:
        done = {i.requested_time: i.completion_time or "9" for i in basis.timeline.writes.instants}
        assert [done[t] for t in gone] == sorted((done[t] for t in gone), reverse=True)
    else:
        assert gone == sorted(gone, reverse=True)


# -- savepoints


@pytest.mark.parametrize(
    ("timeline", "asked", "expected"),
    [
        (timeline_of("10", "11"), None, "11"),
        (timeline_of("10>15", "11>12"), None, "10"),
        (timeline_of("10", "11*"), None, "10"),
        (timeline_of("10", "11clean"), None, "10"),
        (timeline_of("10", "11"), "10", "10"),
        (timeline_of("10>15", "11>12", layout=1), None, "11"),
    ],
)
def test_which_write_is_savepointed(timeline: Timeline, asked: str | None, expected: str) -> None:
    assert find_completed_write(config_of(timeline.layout), timeline, asked) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("10deltacommit", "11commit>15", "12deltacommit", "13deltacommit>14"), "13"),
        (("10deltacommit", "11commit>13", "12replacecommit>16", "14deltacommit>15"), "12"),
        (("10deltacommit", "12commit>15", "11deltacommit>14"), "12"),
        (("10deltacommit>15", "11commit", "12deltacommit"), "10"),
    ],
    ids=["written amid it", "replaced amid it", "nothing amid it", "not the newest"],
)
def test_a_compaction_is_savepointed_if_nothing_was_requested_since(
    texts: tuple[str, ...], expected: str
) -> None:
    config = config_of(kind="MERGE_ON_READ")
    assert find_completed_write(config, timeline_of(*texts), None) == expected


@pytest.mark.parametrize(
    ("timeline", "asked", "message"),
    [
        (timeline_of(), None, "the table has no completed write"),
        (timeline_of("10*"), None, "the table has no completed write"),
        (timeline_of("10", "11*"), "11", "no completed write '11'"),
        (timeline_of("10", "11clean"), "11", "no completed write '11'"),
    ],
)
def test_nothing_to_savepoint(timeline: Timeline, asked: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_completed_write(config_of(), timeline, asked)


def clean(earliest: str = "") -> CleanMetadata:
    return CleanMetadata(
        start_clean_time="13",
        time_taken_in_millis=1,
        total_files_deleted=1,
        earliest_commit_to_retain=earliest,
        last_completed_commit_timestamp="12",
        partition_metadata={},
    )


@pytest.mark.parametrize(
    ("timeline", "last_clean", "allowed"),
    [
        (timeline_of("10", "11", "12"), None, ["10", "11", "12"]),
        (timeline_of("10", "11", "12", "13clean"), clean("11"), ["11", "12"]),
        pytest.param(
            timeline_of("10", "11", "12", "13clean"), clean(), ["12"], id="by versions"
        ),
        pytest.param(timeline_of("10", "11", "12", "13clean"), None, ["12"], id="an empty clean"),
        pytest.param(
            timeline_of("10", "13clean"), clean("12"), ["10"], id="what came after was restored"
        ),
        pytest.param(
            timeline_of("10>15", "11>12", "13clean"), clean("11"), ["10", "11"], id="overtaken"
        ),
    ],
)  # fmt: skip
def test_what_a_clean_leaves_to_savepoint(
    timeline: Timeline, last_clean: CleanMetadata | None, allowed: list[str]
) -> None:
    for write in timeline.writes.instants:
        time = write.requested_time
        after = find_after(config_of(), timeline, write, ())
        if time in allowed:
            check_not_cleaned(timeline, time, after, last_clean)
        else:
            with pytest.raises(ValueError, match=f"{time} cannot be savepointed: a clean may"):
                check_not_cleaned(timeline, time, after, last_clean)


def file(name: str, size: int | None = 10) -> DataFile:
    parsed = find_data_file_name(name)
    assert parsed is not None
    return DataFile(f"p/{name}", parsed, size)


BASE, LOG = f"{F}_1-0-1_10.parquet", f".{F}_11.log.1_1-0-1"


def slice_of(path: str, base: str | None, *logs: str, size: int | None = 10) -> FileSlice:
    base_file = file(base, size) if base else None
    return FileSlice(path, F, "10", base_file, tuple(file(log, size) for log in logs))


def test_what_a_savepoint_keeps() -> None:
    slices = [slice_of("p", BASE, LOG), slice_of("q", BASE), slice_of("p", BASE)]
    kept = plan_savepoint("10", slices, [("q", LOG)])
    assert {path: own.savepoint_data_file for path, own in kept.items()} == {
        "p": [BASE, LOG],
        "q": [BASE],
    }
    assert [own.partition_path for own in kept.values()] == ["p", "q"]
    with pytest.raises(ValueError, match=f"10 cannot be savepointed: .* deletes q/{BASE}"):
        plan_savepoint("10", slices, [("q", BASE)])
    with pytest.raises(CorruptError, match="does not exist"):
        plan_savepoint("10", [slice_of("p", BASE, size=None)], [])
