"""Which instants are archived, decided from values: no store, no files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.services.plan_archive import (
    ArchiveBasis,
    ArchivePolicy,
    plan_archive,
)

OLD_GROUP = ("p", "00000001-1ad8-4c4f-84b0-f9f06e6013ae-0")


def timeline_of(*texts: str) -> Timeline:
    """`10` is a completed commit, `10*` a pending one; `11clean` a clean."""
    found = []
    for text in texts:
        time, action = text[:2], text[2:].rstrip("*") or "commit"
        state = State.INFLIGHT if "*" in text else State.COMPLETED
        found.append(Instant(time, action, state, time, text))
    return Timeline(tuple(found), 2)


def record(
    time: str,
    schema: str | None = None,
    operation: str = "UPSERT",
    latest_schema: str | None = None,
    replaced: Sequence[tuple[str, str]] = (),
    written: Sequence[tuple[str, str]] = (),
) -> CommitRecord:
    names = ((*group, BaseFileName(group[1], "0-0-0", time, "parquet")) for group in written)
    files = tuple((path, i, f"{path}/{name}", name, 0, 1, 1, 0) for path, i, name in names)
    return CommitRecord(time, time, operation, schema, latest_schema, files, tuple(replaced))


def times(instants: Sequence[Instant]) -> list[str]:
    return [instant.requested_time for instant in instants]


@pytest.mark.parametrize(
    ("timeline", "expected"),
    [
        (timeline_of("10", "11", "12"), []),
        (timeline_of("10", "11", "12", "13"), ["10", "11"]),
        (timeline_of("10", "11", "12*", "13", "14"), ["10"]),
        (timeline_of("09*", "10", "11", "12", "13"), []),
        (timeline_of("10", "11", "11savepoint", "12", "13"), ["10"]),
        (timeline_of("10", "11", "11savepoint*", "12", "13"), ["10"]),
        (timeline_of("10", "10clean", "11", "11clean", "12", "13"), ["10", "10", "11"]),
        (timeline_of("10", "10rollback*", "11", "12", "13"), []),
        (timeline_of("10", "11", "12", "13", "14*"), ["10", "11"]),
        (timeline_of("09clean", "10", "10savepoint", "11", "12", "13"), []),
    ],
)
def test_the_timeline_bounds_what_goes(timeline: Timeline, expected: list[str]) -> None:
    assert times(plan_archive(ArchiveBasis(timeline, ()), ArchivePolicy(2, 3))) == expected


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([record("10"), record("11")], ["10", "11", "12"]),
        pytest.param([record("11", schema="s")], ["10"], id="the only one that states columns"),
        pytest.param(
            [record("11", schema="s"), record("13", schema="s")],
            ["10", "11", "12"],
            id="a newer one states the columns",
        ),
        pytest.param(
            [record("11", schema="s"), record("13", schema="s", operation="COMPACT")],
            ["10"],
            id="a compaction says nothing new about the columns",
        ),
        pytest.param(
            [record("10", latest_schema="i"), record("12", latest_schema="i")],
            ["10", "11"],
            id="the newest that states ids of columns",
        ),
        pytest.param(
            [record("11", replaced=[OLD_GROUP])], ["10"], id="it hides files that are still there"
        ),
        pytest.param(
            [record("11", replaced=[("q", "gone")]), record("12", replaced=[OLD_GROUP])],
            ["10", "11"],
            id="what another one hid is gone",
        ),
        pytest.param(
            [record("11", replaced=[("q", "gone")]), record("13", written=[("q", "gone")])],
            ["10"],
            id="a commit that stays wrote to what it replaced",
        ),
        pytest.param(
            [record("11", replaced=[("q", "gone")]), record("12", written=[("q", "gone")])],
            ["10", "11", "12"],
            id="no commit that stays did",
        ),
        pytest.param(
            [
                record("10", replaced=[("q", "older")]),
                record("11", replaced=[("q", "gone")], written=[("q", "older")]),
                record("13", written=[("q", "gone")]),
            ],
            [],
            id="one that stays for that wrote to what another one replaced",
        ),
    ],
)
def test_a_commit_that_alone_says_something_stays(
    commits: list[CommitRecord], expected: list[str]
) -> None:
    timeline = timeline_of("10", "11", "12", "13", "14")
    basis = ArchiveBasis(timeline, commits, still_listed={OLD_GROUP})
    assert times(plan_archive(basis, ArchivePolicy(2, 3))) == expected


def test_what_a_dead_archival_left_goes_first() -> None:
    timeline = timeline_of("10", "10clean", "11", "12*", "13", "14")
    before = timeline_of("10", "10clean").instants
    commits = [record("10", replaced=[OLD_GROUP], schema="s"), record("11", schema="s")]
    basis = ArchiveBasis(timeline, commits, {OLD_GROUP}).without(before)
    assert times(basis.timeline.instants) == ["11", "12", "13", "14"]
    assert basis.commits == [commits[1]]


@st.composite
def bases(draw: st.DrawFn) -> ArchiveBasis:
    """Any table; what completed commits say is drawn too."""
    instants, commits = [], []
    for number in range(10, 10 + draw(st.integers(0, 14))):
        action = draw(st.sampled_from(("commit", "commit", "commit", "deltacommit", "clean")))
        is_pending = draw(st.integers(0, 11)) == 0
        state = State.INFLIGHT if is_pending else State.COMPLETED
        time = str(number)
        instants.append(Instant(time, action, state, None if is_pending else time, time))
        if action == "clean" or is_pending:
            continue
        if draw(st.integers(0, 9)) == 0:
            instants.append(Instant(time, "savepoint", State.COMPLETED, time, time))
        commits.append(
            record(
                time,
                schema=draw(st.sampled_from((None, "s"))),
                operation=draw(st.sampled_from(("UPSERT", "COMPACT"))),
                replaced=draw(st.sampled_from(((), (), (), (OLD_GROUP,)))),
                written=draw(st.sampled_from(((), (OLD_GROUP,)))),
            )
        )
    still_listed = draw(st.sampled_from(((), (OLD_GROUP,))))
    return ArchiveBasis(Timeline(tuple(instants), 2), commits, still_listed)


def _hidden(basis: ArchiveBasis) -> set[tuple[str, str]]:
    """The file groups that are listed and that a commit of the active timeline hides."""
    return {group for c in basis.commits for group in c.replaced if group in basis.still_listed}


def _read(basis: ArchiveBasis) -> set[tuple[str, str]]:
    """The file groups that commits of the active timeline wrote to, and none replaced."""
    written = {(path, file_id) for c in basis.commits for path, file_id, *_ in c.files}
    return written - {group for c in basis.commits for group in c.replaced}


@given(bases(), st.integers(1, 4), st.integers(0, 3))
def test_the_active_timeline_still_decides_all_it_did(
    basis: ArchiveBasis, min_commits: int, more: int
) -> None:
    kept = ArchivePolicy(min_commits, min_commits + more)
    planned = plan_archive(basis, kept)
    left = basis.without(planned)
    before, after = basis.timeline.writes.completed, left.timeline.writes.completed

    assert list(planned) == sorted(planned, key=lambda i: (i.requested_time, i.action))
    assert all(instant.is_completed for instant in planned)
    assert before.instants[len(before.instants) - len(after.instants) :] == after.instants
    if not planned:
        return
    assert len(after.instants) >= min_commits
    assert len(before.instants) > kept.max_commits
    newest = max(times(planned))
    for instant in basis.timeline.instants:
        if not instant.is_completed or instant.action == "savepoint":
            assert newest < instant.requested_time
    assert _hidden(left) == _hidden(basis)
    assert _read(left) <= _read(basis)
    stating = [c.schema for c in basis.commits if c.schema and c.operation_type == "UPSERT"]
    stating_left = [c.schema for c in left.commits if c.schema and c.operation_type == "UPSERT"]
    assert stating[-1:] == stating_left[-1:]
    if len(after.instants) <= kept.max_commits:
        assert plan_archive(left, kept) == ()
