from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import LimitError
from bucketfmt.format.names.instants import State
from bucketfmt.limits import Limits
from bucketfmt.timeline.timeline import (
    Instant,
    NamedTimeline,
    Timeline,
    count_shared,
    plan_timeline,
)

T = [f"2024010100000{n}000" for n in range(10)]


def plan(*names: str, layout: int = 2) -> Timeline:
    return plan_timeline([(name, None) for name in names], layout)


def told(timeline: Timeline) -> list[tuple[str, str, str, str | None]]:
    return [
        (i.requested_time, i.action, i.state.name, i.completion_time) for i in timeline.instants
    ]


class TestPlan:
    @pytest.mark.rule("TL-8")
    def test_the_highest_state_counts(self) -> None:
        timeline = plan(
            f"{T[1]}.commit.requested",
            f"{T[1]}.inflight",
            f"{T[1]}_{T[2]}.commit",
            f"{T[3]}.deltacommit.requested",
            f"{T[3]}.deltacommit.inflight",
            f"{T[4]}.clean.requested",
        )
        assert timeline.instants == (
            Instant(T[1], "commit", State.COMPLETED, T[2], f"{T[1]}_{T[2]}.commit"),
            Instant(T[3], "deltacommit", State.INFLIGHT, None, f"{T[3]}.deltacommit.inflight"),
            Instant(T[4], "clean", State.REQUESTED, None, f"{T[4]}.clean.requested"),
        )

    @pytest.mark.parametrize(
        ("layout", "pending", "completed"),
        [
            (1, "compaction", "commit"),
            (2, "compaction", "commit"),
            (1, "logcompaction", "deltacommit"),
            (2, "logcompaction", "deltacommit"),
            (2, "clustering", "replacecommit"),
            (1, "replacecommit", "replacecommit"),
        ],
    )
    def test_services_complete_under_another_name(
        self, layout: int, pending: str, completed: str
    ) -> None:
        done = f"{T[1]}.{completed}" if layout == 1 else f"{T[1]}_{T[2]}.{completed}"
        files = [f"{T[1]}.{pending}.requested", f"{T[1]}.{pending}.inflight"]
        assert told(plan(*files, layout=layout)) == [(T[1], pending, "INFLIGHT", None)]
        assert [i.action for i in plan(*files, done, layout=layout).instants] == [completed]

    @pytest.mark.rule("TL-9")
    def test_a_completed_file_alone_is_enough(self) -> None:
        assert told(plan(f"{T[1]}_{T[2]}.commit")) == [(T[1], "commit", "COMPLETED", T[2])]

    def test_a_savepoint_is_an_instant_beside_its_commit(self) -> None:
        timeline = plan(
            f"{T[1]}_{T[5]}.savepoint", f"{T[1]}_{T[2]}.commit", f"{T[1]}.savepoint.inflight"
        )
        assert told(timeline) == [
            (T[1], "commit", "COMPLETED", T[2]),
            (T[1], "savepoint", "COMPLETED", T[5]),
        ]

    def test_sorted_by_requested_time_then_comparable_action(self) -> None:
        timeline = plan(
            f"{T[2]}_{T[3]}.rollback",
            f"{T[2]}.compaction.requested",
            f"{T[1]}_{T[9]}.deltacommit",
            f"{T[2]}_{T[4]}.clean",
        )
        # a compaction sorts as the commit it will be
        assert [(i.requested_time, i.action) for i in timeline.instants] == [
            (T[1], "deltacommit"),
            (T[2], "clean"),
            (T[2], "compaction"),
            (T[2], "rollback"),
        ]

    def test_two_completions_of_one_instant_count_once(self) -> None:
        timeline = plan(f"{T[1]}_{T[5]}.commit", f"{T[1]}_{T[3]}.commit")
        assert told(timeline) == [(T[1], "commit", "COMPLETED", T[3])]

    @pytest.mark.parametrize(
        "name",
        [
            "hoodie.properties",
            f".{T[1]}.commit.crc",
            f"{T[1]}.commit.d0f5a6f3-7c2a-4d26-9a7c-1c3e2c1d0b4a",
            f"{T[1]}.unknown",
            f"{T[1]}.commit.done",
            f"{T[1]}_{T[2]}_{T[3]}.commit",
            "x.commit",
            "",
            "manifest_1",
            f".bucketfmt-{'0' * 32}.tmp",
        ],
    )
    def test_other_files_are_ignored(self, name: str) -> None:
        assert plan(name, layout=1).instants == ()
        assert plan(name, layout=2).instants == ()

    @pytest.mark.rule("TL-7")
    def test_layout_1_completes_when_its_file_was_written(self) -> None:
        files = [(f"{T[1]}.commit", 1704067200.25), (f"{T[2]}.inflight", 1704067201.0)]
        timeline = plan_timeline(files, 1, timezone.utc)
        assert told(timeline) == [
            (T[1], "commit", "COMPLETED", "20240101000000250"),
            (T[2], "commit", "INFLIGHT", None),
        ]
        assert [i.legacy for i in timeline.instants] == [True, False]
        there = plan_timeline(files, 1, timezone(timedelta(hours=-5)))
        assert there.instants[0].completion_time == "20231231190000250"

    @pytest.mark.rule("TL-6")
    def test_layout_2_takes_the_files_left_by_an_upgrade(self) -> None:
        timeline = plan_timeline(
            [(f"{T[1]}.commit", 1704067200.0), (f"{T[3]}_{T[4]}.commit", 1.0)], 2, timezone.utc
        )
        assert told(timeline) == [
            (T[1], "commit", "COMPLETED", "20240101000000000"),
            (T[3], "commit", "COMPLETED", T[4]),
        ]
        assert [i.legacy for i in timeline.instants] == [True, False]

    @pytest.mark.parametrize("modified", [None, float("inf"), float("nan"), 1e300, -1e300])
    def test_without_a_modification_time_it_completes_when_requested(
        self, modified: float | None
    ) -> None:
        timeline = plan_timeline([(f"{T[1]}.commit", modified)], 1)
        assert timeline.instants[0].completion_time == T[1]

    def test_the_order_of_a_listing_does_not_matter(self) -> None:
        names = [
            f"{T[1]}.commit.requested",
            f"{T[1]}.inflight",
            f"{T[1]}_{T[2]}.commit",
            f"{T[1]}_{T[3]}.commit",
            f"{T[2]}.compaction.requested",
        ]
        assert plan(*names) == plan(*reversed(names))

    @settings(deadline=None)
    @given(
        st.lists(st.text(alphabet="0123_.commitpaenflgrqusd", max_size=30)), st.sampled_from([1, 2])
    )
    def test_any_names_make_a_sorted_timeline(self, names: list[str], layout: int) -> None:
        timeline = plan(*names, layout=layout)
        times = [i.requested_time for i in timeline.instants]
        assert times == sorted(times)
        assert {i.file_name for i in timeline.instants} <= set(names)
        assert all((i.completion_time is None) == (not i.is_completed) for i in timeline.instants)


_NAMES = [
    *(f"{T[1]}.commit{state}" for state in (".requested", "")),
    f"{T[1]}.inflight",
    f"{T[1]}_{T[2]}.commit",
    f"{T[1]}_{T[3]}.commit",
    f"{T[2]}.compaction.requested",
    f"{T[2]}.compaction.inflight",
    f"{T[2]}_{T[4]}.commit",
    f"{T[3]}.clean.requested",
    f"{T[3]}_{T[5]}.clean",
    f"{T[4]}.deltacommit.inflight",
    "history",
    f"{T[4]}.deltacommit.inflight.crc",
]


def _files_of(number: int) -> list[str]:
    """Of an instant, from requested to completed; each tenth commit has a savepoint."""
    time, action = f"{number:017}", ("commit", "deltacommit", "rollback", "clean")[number % 4]
    states = [f".{action}.requested", f".{action}.inflight", f"_{number + 7:017}.{action}"]
    savepoint = [f"{time}_{time}.savepoint"] if number % 10 == 0 else []
    return [*(time + state for state in states), *savepoint]


def _answers(timeline: Timeline) -> list[object]:
    """What a timeline and its parts say."""
    parts = {
        "all": timeline,
        "completed": timeline.completed,
        "pending": timeline.pending,
        "commits": timeline.commits,
        "writes": timeline.writes,
        "pending writes": timeline.writes.pending,
        "completed commits": timeline.commits.completed,
        "undone": timeline.of("rollback", "restore"),
    }
    times = [f"{n:017}" for n in (0, 1, 2, 10, 50, 99, 150, 220)]
    return [
        (
            name,
            part.instants,
            part.first,
            part.last,
            part.latest_time,
            part.has_legacy,
            part.requested_times,
            [part.is_before_start(time) for time in times],
            [part.is_completed(time) for time in times],
            [part.is_block_committed(time) for time in times],
            [part.completion_time(time) for time in times],
        )
        for name, part in parts.items()
    ]


class TestPlanAgain:
    @settings(deadline=None)
    @given(
        st.lists(
            st.permutations(_NAMES).flatmap(lambda n: st.integers(0, 12).map(lambda k: n[:k]))
        ),
        st.sampled_from([1, 2]),
    )
    def test_listing_after_listing_is_as_planned_at_once(
        self, listings: list[list[str]], layout: int
    ) -> None:
        named = NamedTimeline((), Timeline((), layout))
        for names in listings:
            named = named.planned_again(names)
            assert named.timeline == plan(*names, layout=layout)
            assert named.listed == names

    def test_what_did_not_change_is_the_same_object(self) -> None:
        first = NamedTimeline((), Timeline((), 2)).planned_again(_NAMES[:4])
        assert first.planned_again([*reversed(_NAMES[:4])]).timeline is first.timeline
        second = first.planned_again([*_NAMES[:4], _NAMES[5]])
        assert second.timeline.instants[0] is first.timeline.instants[0]
        assert told(second.timeline)[1:] == [(T[2], "compaction", "REQUESTED", None)]

    @settings(deadline=None, max_examples=30)
    @given(
        st.lists(st.tuples(st.integers(0, 2**31), st.sampled_from(["end", "any", "gone"]))),
        st.integers(0, 200),
    )
    def test_a_long_timeline_that_is_written_answers_as_one_that_is_new(
        self, steps: list[tuple[int, str]], count: int
    ) -> None:
        """What the timelines before and after share, `settled`, is in every answer once."""
        files = [name for n in range(count) for name in _files_of(n)]
        named = NamedTimeline((), Timeline((), 2))
        for number, kind in [(0, "gone"), *steps]:
            if kind == "end":
                files += _files_of(count)[: number % 3 + 1]
                count += 1
            elif kind == "any" and files:
                files.insert(number % len(files), f"{number % 10_000:017}.rollback.inflight")
                files = [*dict.fromkeys(files)]
            elif files:
                del files[number % len(files)]
            named = named.planned_again([*files])
            timeline, flat = named.timeline, Timeline(plan(*files).instants, 2)
            assert _answers(timeline) == _answers(flat)
            archived = Instant("1", "commit", State.COMPLETED, "2", "1_2.commit")
            known = timeline.with_history([archived])
            assert (known.completion_time("1"), timeline.completion_time("1")) == ("2", None)
            done = Instant(f"{count:017}", "commit", State.COMPLETED, "3", "x")
            assert _answers(timeline.with_instant(done)) == _answers(flat.with_instant(done))

    def test_instants_that_come_are_bounded(self) -> None:
        names = [f"{time}.clean.requested" for time in T[:5]]
        limits = Limits(timeline_instants_max=5)
        full = NamedTimeline((), Timeline((), 2)).planned_again(names, limits)
        with pytest.raises(LimitError, match="timeline_instants_max = 5"):
            full.planned_again([*names, f"{T[6]}.clean.requested"], limits)

    def test_count_shared(self) -> None:
        instants = plan(*(f"{time}.clean.requested" for time in T)).instants
        assert count_shared(instants, instants) == 10
        assert count_shared(instants, instants[:7]) == 7
        assert count_shared((*instants[:4], *instants[5:]), instants) == 4
        assert count_shared((), instants) == 0


@pytest.fixture
def timeline() -> Timeline:
    """A table of every kind of instant; the write at T[2] began first but is under way."""
    return plan(
        f"{T[1]}_{T[1]}5.clean",
        f"{T[2]}.deltacommit.inflight",
        f"{T[3]}_{T[5]}.deltacommit",
        f"{T[4]}.compaction.requested",
        f"{T[5]}.logcompaction.inflight",
        f"{T[6]}_{T[8]}.replacecommit",
        f"{T[7]}.clustering.requested",
        f"{T[8]}.commit.requested",
        f"{T[9]}_{T[9]}5.rollback",
    )


class TestViews:
    def test_the_latest_time_is_of_a_request_or_a_completion(self) -> None:
        assert plan().latest_time == ""
        assert plan("1.commit.requested", "1_9.commit", "3.clean.inflight").latest_time == "9"
        assert plan("1_2.commit", "3.clean.inflight").latest_time == "3"

    def test_completed_and_pending(self, timeline: Timeline) -> None:
        assert [i.requested_time for i in timeline.completed.instants] == [T[1], T[3], T[6], T[9]]
        assert [i.requested_time for i in timeline.pending.instants] == [
            T[2],
            T[4],
            T[5],
            T[7],
            T[8],
        ]

    @pytest.mark.rule("TL-13")
    def test_by_action(self, timeline: Timeline) -> None:
        assert [i.action for i in timeline.writes.instants] == [
            "deltacommit",
            "deltacommit",
            "compaction",
            "logcompaction",
            "replacecommit",
            "clustering",
            "commit",
        ]
        assert [i.requested_time for i in timeline.commits.instants] == [
            T[2],
            T[3],
            T[6],
            T[7],
            T[8],
        ]
        assert [i.action for i in timeline.of("clean", "rollback").instants] == [
            "clean",
            "rollback",
        ]

    def test_ends(self, timeline: Timeline) -> None:
        assert timeline.first.requested_time == T[1]
        assert timeline.last.requested_time == T[9]
        empty = plan()
        assert (empty.first, empty.last) == (None, None)

    def test_filters_compose(self, timeline: Timeline) -> None:
        assert timeline.completed.writes == timeline.writes.completed
        assert timeline.layout == timeline.completed.layout == 2


class TestContains:
    @pytest.mark.rule("TL-11")
    def test_contains_or_before_start(self, timeline: Timeline) -> None:
        completed = timeline.writes.completed  # starts at T[3]
        assert completed.contains_or_before_start(T[3])
        assert completed.contains_or_before_start(T[2]), "before the first completed write"
        assert completed.contains_or_before_start(T[0])
        assert not completed.contains_or_before_start(T[4])
        assert not completed.contains_or_before_start(T[5])
        assert not completed.contains_or_before_start(T[7])
        assert not completed.contains_or_before_start(f"{T[6]}0")

    def test_in_an_empty_timeline_nothing_is_before_the_start(self) -> None:
        assert not plan().contains_or_before_start(T[0])
        assert not plan().is_before_start("")
        assert not plan().is_completed(T[0])

    @pytest.mark.rule("TL-11")
    def test_savepointed_commits_are_not_the_start(self) -> None:
        """Archival leaves them behind, and what lies between them and the start is archived."""
        timeline = plan(
            f"{T[1]}_{T[2]}.commit",
            f"{T[1]}_{T[3]}.savepoint",
            f"{T[5]}_{T[6]}.commit",
        )
        assert timeline.contains_or_before_start(T[4])
        assert timeline.is_before_start(T[4])
        assert not timeline.is_before_start(T[5])
        assert not timeline.writes.contains_or_before_start(T[4]), "as Hudi's file system view"
        only = plan(f"{T[1]}_{T[2]}.commit", f"{T[1]}_{T[3]}.savepoint")
        assert not only.is_before_start(T[0])
        assert not only.contains_or_before_start(T[4])

    @pytest.mark.rule("TL-14")
    def test_old_instants_of_seconds_are_found_by_milliseconds(self) -> None:
        timeline = plan("20240101000000.commit", layout=1)
        assert timeline.contains("20240101000000")
        assert timeline.contains("20240101000000999")
        assert not timeline.contains("20240101000000998")
        assert not plan("20240101000000999.commit", layout=1).contains("20240101000000")

    @pytest.mark.rule("LOG-18")
    def test_log_blocks(self, timeline: Timeline) -> None:
        assert timeline.is_block_committed(T[3])
        assert timeline.is_block_committed(T[6])
        assert not timeline.is_block_committed(T[2]), "inflight, though before the first completed"
        assert timeline.is_block_committed(T[1]), "no write's: taken for archived"
        assert timeline.is_block_committed(T[0])
        assert not timeline.is_block_committed(T[4]), "a compaction writes no log blocks"
        assert not timeline.is_block_committed(T[7])
        assert not timeline.is_block_committed("20250101000000000")


class TestCompletion:
    @pytest.mark.rule("TL-12")
    def test_is_completed(self, timeline: Timeline) -> None:
        # here the start is that of all writes, pending ones too: T[2]
        assert [timeline.is_completed(time) for time in T] == [
            True,  # archived
            True,
            False,
            True,
            False,
            False,
            True,
            False,
            False,
            True,
        ]

    def test_is_pending(self, timeline: Timeline) -> None:
        pending = [time for time in T if timeline.is_pending(time)]
        assert pending == [T[2], T[4], T[5], T[7], T[8]]
        assert not timeline.is_pending("20250101000000000")

    def test_completion_time(self, timeline: Timeline) -> None:
        assert timeline.completion_time(T[3]) == T[5]
        assert timeline.completion_time(T[2]) is None
        assert timeline.completion_time(T[4]) is None
        assert timeline.completion_time("20250101000000000") is None

    def test_of_a_commit_and_its_savepoint_the_commit_counts(self) -> None:
        timeline = plan(f"{T[1]}_{T[5]}.savepoint", f"{T[1]}_{T[2]}.deltacommit")
        assert timeline.completion_time(T[1]) == T[2]

    def test_layout_1_archived_instants_complete_when_requested(self) -> None:
        timeline = plan_timeline([(f"{T[3]}.commit", 1704067209.0)], 1, timezone.utc)
        assert timeline.completion_time(T[1]) == T[1]
        assert timeline.completion_time(T[3]) == T[9]
        assert timeline.completion_time(T[4]) is None
        assert timeline.completion_time("0000001") == "0000001"
        assert not timeline.needs_history(T[1])

    def test_layout_2_archived_instants_need_history(self, timeline: Timeline) -> None:
        assert timeline.needs_history(T[0])
        assert not any(timeline.needs_history(time) for time in T[1:])
        assert timeline.completion_time(T[0]) is None
        archived = Instant(T[0], "deltacommit", State.COMPLETED, f"{T[0]}7", "x.parquet")
        undone = Instant("20230101000000000", "commit", State.INFLIGHT, None, "x.parquet")
        with_history = timeline.with_history([archived, undone])
        assert with_history.completion_time(T[0]) == f"{T[0]}7"
        assert not with_history.needs_history(T[0])
        assert with_history.needs_history("20230101000000000")
        assert with_history.instants == timeline.instants
        assert timeline.completion_time(T[0]) is None

    @pytest.mark.rule("TL-24")
    def test_what_is_active_still_overrules_history(self) -> None:
        """Archiving that was interrupted leaves an instant in both."""
        timeline = plan(f"{T[1]}_{T[2]}.commit").with_history(
            [Instant(T[1], "commit", State.COMPLETED, T[5], "x.parquet")]
        )
        assert timeline.completion_time(T[1]) == T[2]

    def test_an_empty_table_needs_no_history(self) -> None:
        assert not plan().needs_history(T[1])
