"""How fast a table grows and is rewritten, by the commits of its timeline. Pure.

Sizes are those that commits record of their files. A table whose older commits are archived is
measured from the first commit that is left: what such a commit wrote to a file group is where the
file group begins to be counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.instants import parse_instant_time
from bucketfmt.format.names.names import BaseFileName, FileGroupId
from bucketfmt.snapshot.data_files.written_files import CommitRecord

__all__ = ["Duration", "Growth", "SizeAt", "estimate_duration", "measure_growth", "measure_sizes"]

_DAY = 86_400.0
_DAYS_MIN = 1.0
"""A shorter timeline tells of its load, and not of the days to come."""

_BYTES_PER_SECOND = 16 << 20
"""Of one process with two processors, on a local disk: benchmarks/results/rehash.json."""

_MEASURED_BYTES_MIN = 16 << 20
"""Rewrites of fewer bytes take as long as their fixed costs."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What one partition gains.

    Attributes:
        bytes_per_day: Of its files.
        rows_per_day: Of its base files; rows in logs are not counted before they are compacted.
    """

    bytes_per_day: float
    rows_per_day: float


@dataclass(frozen=True, slots=True)
class Duration:
    """How long rewriting files is expected to take.

    Attributes:
        seconds: The estimate.
        basis: The rate, and where it was measured, as a clause.
    """

    seconds: float
    basis: str


@dataclass
class _Group:
    """A file group as the commits so far have it: the newest base file, and logs by path."""

    base_instant: str = ""
    base: tuple[int, int] = (0, 0)
    logs: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return self.base[0] + sum(size for _, size in self.logs.values())

    def take(self, commit: str, path: str, name: object, size: int, rows: int) -> None:
        if not isinstance(name, BaseFileName):
            self.logs[path] = commit, size
        elif name.instant >= self.base_instant:
            self.base_instant, self.base = name.instant, (size, rows)
            self.logs = {p: (at, n) for p, (at, n) in self.logs.items() if at > name.instant}


def measure_growth(
    commits: Iterable[CommitRecord], *, begins_empty: bool
) -> tuple[float | None, Mapping[str, Growth]]:
    """Return over how many days commits tell of growth, and the growth of partitions.

    Args:
        commits: The commits of the active timeline, in any order.
        begins_empty: Whether the first of them is the first of the table, so that nothing was
            there before.

    Returns:
        The days from the first commit to the last, None where they are too few to go by; and the
        growth of the partitions that were written in the second half of this time. Partitions
        that were not are complete, as those of past days are.
    """
    dated = [(time, each) for each in commits if (time := _seconds(each.requested_time))]
    dated.sort(key=lambda pair: pair[1].completion_time)
    times = [time for time, _ in dated]
    days = (max(times) - min(times)) / _DAY if times else 0.0
    if days < _DAYS_MIN:
        return None, {}
    middle = (max(times) + min(times)) / 2
    groups = _FileGroups(begins_empty)
    grown: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    active: set[str] = set()
    for time, commit in dated:
        gains = groups.take(commit)
        if time >= middle:
            active.update(gains)
        for path in gains.keys() - {path for path, _ in commit.replaced}:  # which is no growth
            for which, gain in enumerate(gains[path]):
                grown[path][which] += gain
        groups.drop(commit)
    found = {path: grown[path] for path in sorted(active)}
    return days, {path: Growth(size / days, rows / days) for path, (size, rows) in found.items()}


@dataclass(frozen=True, slots=True)
class SizeAt:
    """How large a table was after a commit.

    Attributes:
        requested_time: The commit's.
        bytes: Of the files that a reader opened.
    """

    requested_time: str
    bytes: int


def measure_sizes(
    commits: Iterable[CommitRecord], *, bytes_now: int, begins_empty: bool
) -> tuple[SizeAt, ...]:
    """Return how large a table was after each commit, in the order of their completion.

    Sizes are counted back from the present size by what commits recorded. A file group that is
    older than the first commit is taken to have had the size that its next commit left it with,
    and those that replaced it to have its size.

    Args:
        commits: The commits of the active timeline, in any order.
        bytes_now: Of the table's files.
        begins_empty: As of `measure_growth`.
    """
    groups = _FileGroups(begins_empty)
    ordered = sorted(commits, key=lambda each: each.completion_time)
    changes = []
    for commit in ordered:
        gains, dropped = groups.take(commit), groups.drop(commit)
        rewritten = {path for path, _ in commit.replaced} if dropped is None else set()
        gained = sum(size for path, (size, _) in gains.items() if path not in rewritten)
        changes.append(gained - (dropped or 0))
    sizes, size = [], bytes_now
    for commit, change in zip(reversed(ordered), reversed(changes), strict=True):
        sizes.append(SizeAt(commit.requested_time, size))
        size = max(0, size - change)
    return tuple(reversed(sizes))


class _FileGroups:
    """The file groups of a table as the commits so far have them.

    Args:
        begins_empty: As of `measure_growth`.
    """

    def __init__(self, begins_empty: bool) -> None:
        self._begins_empty = begins_empty
        self._is_first = True
        self._groups: dict[FileGroupId, _Group] = {}

    def take(self, commit: CommitRecord) -> dict[str, list[int]]:
        """Take the next commit; return what the partitions that it wrote gained: bytes, rows.

        A file group that may be older than the first commit gains nothing when it is first met.
        """
        rewritten = {path for path, _ in commit.replaced}  # whose files are of new file groups
        gains: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for path, file_id, file, name, _, size, rows, _ in commit.files:
            group = self._groups.get((path, file_id))
            is_new = path in rewritten or (self._begins_empty and not self._is_first)
            is_known = group is not None or is_new
            group = self._groups.setdefault((path, file_id), _Group())
            size_before, rows_before = group.bytes, group.base[1]
            group.take(commit.requested_time, file, name, size, rows)
            gain = gains[path]
            if is_known:
                gain[0] += group.bytes - size_before
                gain[1] += group.base[1] - rows_before
        self._is_first = False
        return gains

    def drop(self, commit: CommitRecord) -> int | None:
        """Forget the file groups that a commit replaced.

        Returns:
            How many bytes they had; None if some were not met before.
        """
        dropped = [self._groups.pop(replaced, None) for replaced in commit.replaced]
        known = [group.bytes for group in dropped if group is not None]
        return sum(known) if len(known) == len(dropped) else None


def estimate_duration(rewritten: int, commits: Iterable[CommitRecord]) -> Duration:
    """Return how long files of `rewritten` bytes take to be read and written once more.

    The rate is that of the newest commit that rewrote file groups of the table, a rehash or a
    clustering, if commits tell one that was large enough; else the rate of a benchmark.

    Args:
        rewritten: Bytes.
        commits: The commits of the active timeline.
    """
    for commit in sorted(commits, key=lambda each: each.requested_time, reverse=True):
        # In timeline layout 1 a commit does not tell when it completed: both times are equal.
        seconds = _seconds(commit.completion_time) - _seconds(commit.requested_time)
        written = sum(size for *_, size, _, _ in commit.files)
        if commit.replaced and written >= _MEASURED_BYTES_MIN and seconds > 0:
            rate = written / seconds
            basis = f"{rate / (1 << 20):.0f} MiB/s, as measured at {commit.requested_time}"
            return Duration(rewritten / rate, basis)
    basis = f"{_BYTES_PER_SECOND >> 20} MiB/s, as a benchmark has it; this table tells no rate"
    return Duration(rewritten / _BYTES_PER_SECOND, basis)


def _seconds(instant: str) -> float:
    """Return an instant as seconds of some epoch; 0 for an instant that is not a date."""
    try:
        return parse_instant_time(instant).timestamp()
    except (CorruptError, ValueError):
        return 0.0
