"""The timeline as a value: the actions on a table in Hudi's order, and the questions they answer.

Pure. Source: `TimelineLayout.filterHoodieInstantsByLatestState`, `BaseHoodieTimeline`,
`CompletionTimeQueryViewV1/V2`. Times are instants (text) and compare as text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from bucketfmt.format.names.instants import (
    InstantFile,
    State,
    comparable_action,
    find_instant_file,
    format_instant_time,
)
from bucketfmt.format.timeline.archived_timeline import ArchivedInstant
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import cached_property

__all__ = [
    "COMMIT_ACTIONS",
    "REPLACING_ACTIONS",
    "Instant",
    "NamedTimeline",
    "Timeline",
    "count_shared",
    "instant_key",
    "plan_timeline",
]

COMMIT_ACTIONS = ("commit", "deltacommit", "replacecommit")
"""What a write of rows is, pending or completed."""

REPLACING_ACTIONS = ("clustering", "replacecommit")
"""What replaces file groups. A pending clustering of layout 2 completes as a replacecommit."""

_COMMITTING_ACTIONS = frozenset({*COMMIT_ACTIONS, "clustering"})
_WRITE_ACTIONS = _COMMITTING_ACTIONS | {"compaction", "logcompaction"}
_STATES = tuple(State)
_LEGACY = attrgetter("legacy")
_REQUESTED_TIME, _COMPLETION_TIME = attrgetter("requested_time"), attrgetter("completion_time")
_SECONDS_DIGITS, _MILLISECONDS_DIGITS = 14, 17
_SHORT_TIME_DIGITS = 10  # below: no date, as in the metadata table's first instants
_UNSETTLED = 32  # instants at the end that change while a table is written
_FEW_CHANGES = 8  # of a folder from one listing to the next


@dataclass(frozen=True, slots=True)
class Instant:
    """One action on the table, at the state it has reached.

    Attributes:
        requested_time: When the action began; with `action` it identifies the instant.
        action: As the file name spells it: a pending `compaction` is a `commit` once completed.
        state: The highest state of its files.
        completion_time: When the action became visible; None while the action is pending. In layout
            1, and for a legacy file, the file's modification time.
        file_name: The file of that state, in the timeline folder; for an archived instant
            the file in the history folder that holds it.
        legacy: Completed, under a name without completion time.
    """

    requested_time: str
    action: str
    state: State
    completion_time: str | None
    file_name: str
    legacy: bool = False

    @property
    def is_completed(self) -> bool:
        """Whether the effects of the action are visible."""
        return self.state is State.COMPLETED


class _Kind(NamedTuple):
    """Which instants a filter of a timeline takes.

    Attributes:
        states: In which states.
        actions: Of which actions; None for all.
    """

    states: tuple[State, ...] = _STATES
    actions: frozenset[str] | None = None

    def takes(self, instant: Instant) -> bool:
        """Whether the instant is of this kind."""
        is_of_actions = self.actions is None or instant.action in self.actions
        return is_of_actions and instant.state in self.states


_COMPLETED_ONES = _Kind((State.COMPLETED,))
_PENDING_ONES = _Kind((State.REQUESTED, State.INFLIGHT))
_INFLIGHT_ONES = _Kind((State.INFLIGHT,))
_COMMITS = _Kind(actions=_COMMITTING_ACTIONS)
_WRITES = _Kind(actions=_WRITE_ACTIONS)


@dataclass(frozen=True)
class Timeline:
    """Instants in the order of (requested time, action, state), one per action.

    A filter such as `completed` or `writes` is again a Timeline. Hudi asks each question of a
    particular timeline, and the answers differ: "before the timeline starts" depends on the
    instants in it. Each method says for which timeline it is.

    Attributes:
        instants: All of them, sorted.
        layout: `TableConfig.timeline_layout`, 1 or 2.
        history: Archived instants, where someone needed them (`needs_history`).
        settled: The timeline of the first of `instants`, which the timelines before and after this
            one share, so that what is asked of it is answered once; None where there are few.
    """

    instants: tuple[Instant, ...]
    layout: int
    history: tuple[Instant, ...] = ()
    settled: Timeline | None = field(default=None, repr=False, compare=False)

    @cached_property
    def completed(self) -> Timeline:
        """Only completed instants."""
        return self._only(_COMPLETED_ONES)

    @cached_property
    def pending(self) -> Timeline:
        """Only requested and inflight instants."""
        return self._only(_PENDING_ONES)

    @cached_property
    def commits(self) -> Timeline:
        """Only writes and replacements, completed or not, without pending compactions."""
        return self._only(_COMMITS)

    @cached_property
    def writes(self) -> Timeline:
        """Only what adds data files: `commits` and compactions (`getWriteTimeline`)."""
        return self._only(_WRITES)

    def of(self, *actions: str) -> Timeline:
        """Return only the instants of these actions, spelled as their files spell them."""
        return self._only(_Kind(actions=frozenset(actions)))

    @property
    def first(self) -> Instant | None:
        """The instant that was requested first."""
        return self.instants[0] if self.instants else None

    @property
    def last(self) -> Instant | None:
        """The instant that was requested last."""
        return self.instants[-1] if self.instants else None

    @cached_property
    def requested_times(self) -> frozenset[str]:
        """When the instants were requested."""
        settled: frozenset[str] = self.settled.requested_times if self.settled else frozenset()
        return settled.union(map(_REQUESTED_TIME, self._unsettled))

    @cached_property
    def has_legacy(self) -> bool:
        """Whether an instant was completed under a name without completion time."""
        settled = self.settled is not None and self.settled.has_legacy
        return settled or any(map(_LEGACY, self._unsettled))

    @cached_property
    def latest_time(self) -> str:
        """The latest time on the timeline, requested or completed; "" where there is none."""
        times = [self.settled.latest_time] if self.settled else []
        times += map(_REQUESTED_TIME, self._unsettled[-1:])
        times += filter(None, map(_COMPLETION_TIME, self._unsettled))
        return max(times, default="")

    def contains(self, time: str) -> bool:
        """Return whether an instant was requested at this time.

        A time of 17 digits ending in 999 also finds an old instant of 14: Hudi adds the 999.
        """
        if time in self.requested_times:
            return True
        seconds, milliseconds = time[:_SECONDS_DIGITS], time[_SECONDS_DIGITS:]
        return milliseconds == "999" and seconds in self.requested_times

    def is_before_start(self, time: str) -> bool:
        """Return whether this time is before the first instant that is not a savepoint's.

        Archival leaves savepointed commits in the timeline, so these commits do not tell where
        archival stopped. `writes` holds no savepoints, so there the rule has no
        effect, as in Hudi.
        """
        return self._start is not None and time < self._start

    def contains_or_before_start(self, time: str) -> bool:
        """Return whether an instant has this time, or an instant of this time is archived.

        Source: `containsOrBeforeTimelineStarts`.
        """
        return self.contains(time) or self.is_before_start(time)

    def is_block_committed(self, time: str) -> bool:
        """Return whether log blocks with this INSTANT_TIME count. For the whole timeline.

        Source: `BaseHoodieLogRecordReader`.
        """
        if self._inflight_commits.contains(time):
            return False
        return self.commits.completed.contains_or_before_start(time)

    def is_completed(self, time: str) -> bool:
        """Return whether files written at this time are committed. For the whole timeline.

        Source: `CompletionTimeQueryView.isCompleted`.
        """
        return time in self._completion_times or self.writes.is_before_start(time)

    def is_pending(self, time: str) -> bool:
        """Return whether a write requested at this time is under way. For the whole timeline."""
        return self.writes.contains(time) and not self.is_completed(time)

    def completion_time(self, time: str) -> str | None:
        """Return when the instant requested at `time` became visible. For the whole timeline.

        None means that the instant is pending, or is archived and not in `history`
        (`needs_history`). In layout 1 an archived instant completed when it was requested.

        Source: `CompletionTimeQueryViewV1/V2.getCompletionTime`.
        """
        if self.layout == 1 and len(time) < _SHORT_TIME_DIGITS:
            return time
        found = self._completion_times.get(time)
        if found is None and self.layout == 1 and self.writes.is_before_start(time):
            return time
        return found

    def needs_history(self, time: str) -> bool:
        """Return whether only the history knows when the instant requested at `time` completed.

        Then load the history and ask the timeline that `with_history` returns.
        """
        return (
            self.layout != 1
            and self.first is not None
            and time < self.first.requested_time
            and time not in self._completion_times
        )

    def with_instant(self, instant: Instant) -> Timeline:
        """Return this timeline once an instant has come to this state. For the whole timeline."""
        instants = [*self.instants]
        place, is_known = _find_place(instants, instant_key(instant, self.layout), self.layout)
        instants[place : place + is_known] = [instant]
        return self.followed_by(instants, place)

    def followed_by(self, instants: Sequence[Instant], same: int) -> Timeline:
        """Return the timeline of these instants, without history.

        Args:
            instants: All of them, sorted.
            same: How many at the start are those of this timeline.
        """
        settled, few = self.settled, len(instants) - 2 * _UNSETTLED
        if few <= 0:
            settled = None
        elif settled is None or not few <= len(settled.instants) <= same:
            settled = Timeline(tuple(instants[:-_UNSETTLED]), self.layout)
        return Timeline(tuple(instants), self.layout, settled=settled)

    def without(self, instants: Collection[Instant]) -> Timeline:
        """Return this timeline once these instants have left it."""
        return Timeline(tuple(i for i in self.instants if i not in instants), self.layout)

    def with_history(self, history: Iterable[Instant]) -> Timeline:
        """Return this timeline with the completion times of these archived instants."""
        return replace(self, history=tuple(history))

    @property
    def _unsettled(self) -> Sequence[Instant]:
        return self.instants[len(self.settled.instants) :] if self.settled else self.instants

    @cached_property
    def _parts(self) -> dict[_Kind, Timeline]:
        return {}

    def _only(self, kind: _Kind) -> Timeline:
        """Return a timeline of the instants of a kind, without history."""
        part = self._parts.get(kind)
        if part is None:
            settled = self.settled._only(kind) if self.settled else None
            own = tuple(filter(kind.takes, self._unsettled))
            instants = settled.instants + own if settled else own
            part = self._parts[kind] = Timeline(instants, self.layout, settled=settled)
        return part

    @cached_property
    def _inflight_commits(self) -> Timeline:
        return self.commits._only(_INFLIGHT_ONES)

    @cached_property
    def _start(self) -> str | None:
        savepoints = self.of("savepoint").requested_times
        times = (instant.requested_time for instant in self.instants)
        return next((time for time in times if time not in savepoints), None)

    @cached_property
    def _completion_times(self) -> dict[str, str]:
        """Completion times by requested time; of two actions with one time, the first by name."""
        done = filter(_COMPLETED_ONES.takes, (*self._unsettled, *self.history)[::-1])
        found = {each.requested_time: each.completion_time or each.requested_time for each in done}
        return found | self.settled._completion_times if self.settled else found


def plan_timeline(
    files: Iterable[tuple[str, float | None]],
    layout: int,
    zone: tzinfo | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Timeline:
    """Return the timeline that the files of a timeline folder make up.

    Files that are not of instants are left out. Files of one instant (same requested time, and
    actions that complete alike) make one instant in their highest state; of equal states the first
    by name counts. If the name of a completed file has no completion time, the modification time is
    the completion time; if that is unknown too, the requested time is.

    Args:
        files: (file name, modification time in seconds since the epoch or None).
        layout: `TableConfig.timeline_layout`.
        zone: The time zone of the table's instants; None for the system's.
        limits: Bound the number of instants.

    Raises:
        LimitError: there are more instants than `limits.timeline_instants_max`.
    """
    highest: dict[tuple[str, str], tuple[_Named, float | None]] = {}
    for name, modified in files:
        found = _find_named(name, layout)
        if found is None:
            continue
        known = highest.get(found.key)
        if known is None or found.counts_over(known[0]):
            highest[found.key] = found, modified
            if len(highest) > limits.timeline_instants_max:
                limits.check("timeline_instants_max", len(highest))
    instants = []
    for key in sorted(highest):
        (_, _, instant), modified = highest[key]
        if instant.legacy:
            time = _format_modified(modified, zone) or instant.requested_time
            instant = replace(instant, completion_time=time)
        instants.append(instant)
    return Timeline(tuple(instants), layout)


class NamedTimeline(NamedTuple):
    """The timeline that the names of a timeline folder make up, to be planned again by others.

    Attributes:
        listed: The names, each different, those of no instant too.
        timeline: What they make up, as of `plan_timeline` without modification times.
    """

    listed: Sequence[str]
    timeline: Timeline

    def planned_again(self, names: Sequence[str], limits: Limits = DEFAULT_LIMITS) -> NamedTimeline:
        """Return what these names, each different, make up: planned by what came and what went.

        Instants that are as before are the same objects. Where a file went that told the state of
        its instant, another one may tell: then all is planned anew.

        Raises:
            LimitError: there are more instants than `limits.timeline_instants_max`.
        """
        if names is self.listed:
            return self
        gone, came = _find_changes(self.listed, names)
        layout = self.timeline.layout
        told = {each.file_name for each in self.timeline.instants} if gone else gone
        if len(came) > len(self.listed) or not gone.isdisjoint(told):
            files = ((name, None) for name in names)
            return NamedTimeline(names, plan_timeline(files, layout, None, limits))
        if not gone and not came:
            return NamedTimeline(names, self.timeline)
        instants = [*self.timeline.instants]
        same = len(instants)
        for name in came:
            found = _find_named(name, layout)
            if found is None:
                continue
            place, is_known = _find_place(instants, found.key, layout)
            same = min(same, place)
            if not is_known:
                instants.insert(place, found.told)
            else:
                known = _find_named(instants[place].file_name, layout)
                if known is None or found.counts_over(known):
                    instants[place] = found.told
        if len(instants) > limits.timeline_instants_max:
            limits.check("timeline_instants_max", len(instants))
        return NamedTimeline(names, self.timeline.followed_by(instants, same))


def _find_changes(before: Sequence[str], now: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the names that went, and those that came.

    A folder is mostly listed in the order of before, but for some names that came: to find these by
    comparing what lies between is quicker than to look all names up.
    """
    skipped: set[str] = set()
    for _ in range(_FEW_CHANGES):
        shared = count_shared(before, now)
        before, now = before[shared:], now[shared:]
        if len(now) <= len(before):
            break
        skipped.add(now[0])
        now = now[1:]
    gone, came = {*before}, {*now, *skipped}
    return gone - came, came - gone


def count_shared(before: Sequence[object], now: Sequence[object]) -> int:
    """Return how many items two sequences begin with that are the same.

    The instants of two plans of one folder are mostly the same objects: comparing them is quick.
    """
    low, high = 0, min(len(before), len(now))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == now[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class _Named(NamedTuple):
    """What the name of a file says.

    Attributes:
        key: Of its instant: requested time, and the action that the instant completes as.
        rank: Of its state: higher for a later state.
        instant: As the file alone makes it; without completion time if the name has none.
    """

    key: tuple[str, str]
    rank: int
    instant: Instant

    @property
    def told(self) -> Instant:
        """The instant, where no modification time is known."""
        if not self.instant.legacy:
            return self.instant
        return replace(self.instant, completion_time=self.instant.requested_time)

    def counts_over(self, other: _Named) -> bool:
        """Whether this file, and not the other file of the instant, tells the state."""
        if self.rank == other.rank:
            return self.instant.file_name < other.instant.file_name
        return self.rank > other.rank


@lru_cache(maxsize=1 << 16)  # each write lists the timeline several times
def _find_named(name: str, layout: int) -> _Named | None:
    found = find_instant_file(name, layout)
    if found is None:
        return None
    time, action, state = found.requested_time, found.action, found.state
    legacy = state is State.COMPLETED and found.completion_time is None
    instant = Instant(time, action, state, found.completion_time, name, legacy)
    return _Named(instant_key(instant, layout), _STATES.index(state), instant)


def _find_place(instants: Sequence[Instant], key: tuple[str, str], layout: int) -> tuple[int, bool]:
    """Return where the instant of a key is, or would be, and whether it is there."""
    place = bisect_left(instants, key, key=lambda each: instant_key(each, layout))
    return place, place < len(instants) and instant_key(instants[place], layout) == key


def instant_key(instant: Instant | InstantFile | ArchivedInstant, layout: int) -> tuple[str, str]:
    """Return what an instant is known by, in every state: its requested time and its action."""
    return instant.requested_time, comparable_action(instant.action, layout)


def _format_modified(modified: float | None, zone: tzinfo | None) -> str | None:
    if modified is None:
        return None
    try:
        return format_instant_time(datetime.fromtimestamp(modified, zone).replace(tzinfo=None))
    except (OverflowError, ValueError, OSError):  # a time no calendar has
        return None
