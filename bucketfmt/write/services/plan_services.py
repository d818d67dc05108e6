"""Which services of a table are due, and in which partitions.

Pure. Told by the timeline and its commits, so that a commit after which nothing is due costs no
request. Source: ScheduleCompactionActionExecutor.needCompact, CleanPlanner
(getPartitionPathsForIncrementalCleaning), CleanPlanActionExecutor.needsCleaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bucketfmt.arguments import check_int, check_kind
from bucketfmt.format.timeline.service_metadata import CleanMetadata
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.services.plan_archive import ArchivePolicy
from bucketfmt.write.services.plan_clean import (
    Retention,
    find_earliest_retained,
    find_savepoint_times,
)

__all__ = [
    "Services",
    "find_clean_partitions",
    "find_compaction_partitions",
    "find_retiring",
    "find_since_compaction",
    "may_be_due",
]


@dataclass(frozen=True, slots=True)
class Services:
    """The services that run by themselves after a commit, each once it is due.

    The numbers are the defaults of Hudi, but for `clean_after`, which is 1 in Hudi: a clean would
    then come after each commit to a copy-on-write table.

    Attributes:
        compact_after: A merge-on-read table is compacted after so many delta commits with log files
            (`hoodie.compact.inline.max.delta.commits`), so that readers merge about so many log
            files. None: never.
        clean: Which old files stay (`hoodie.clean.commits.retained`, by default those that the last
            10 commits read). None: no file is deleted.
        clean_after: A clean comes after at least so many commits
            (`hoodie.clean.trigger.max.commits`).
        archive: How many commits stay on the active timeline (`hoodie.keep.min.commits` and
            `hoodie.keep.max.commits`, by default 20 to 30). None: all.

    Raises:
        TypeError: a setting has the wrong type.
        ValueError: a number is not positive.
    """

    compact_after: int | None = 5
    clean: Retention | None = field(default=Retention())
    clean_after: int = 5
    archive: ArchivePolicy | None = field(default=ArchivePolicy())

    def __post_init__(self) -> None:
        if self.compact_after is not None:
            check_int("compact_after", self.compact_after, 1)
        if self.clean is not None:
            check_kind("clean", self.clean, Retention, "a Retention")
        check_int("clean_after", self.clean_after, 1)
        if self.archive is not None:
            kind = "an ArchivePolicy"
            check_kind("archive", self.archive, ArchivePolicy, kind)


def may_be_due(timeline: Timeline, services: Services) -> bool:
    """Return whether a service may be due, by the timeline alone."""
    pending = timeline.pending.of("compaction", "clean").instants
    wanted = [services.compact_after, services.clean]
    if any(wanted) and pending:
        return True
    if services.compact_after is not None:
        deltas = timeline.completed.of("deltacommit").instants
        if len(find_since_compaction(timeline, deltas)) >= services.compact_after:
            return True
    if services.clean is not None:
        last = timeline.completed.of("clean").last
        if len(_after(timeline.writes.completed.instants, last)) >= services.clean_after:
            return True
    writes = timeline.writes.completed.instants
    return services.archive is not None and len(writes) > services.archive.max_commits


def find_since_compaction(timeline: Timeline, instants: Sequence[Instant]) -> Sequence[Instant]:
    """Return those of completed instants whose log files the last compaction has not merged."""
    compactions = timeline.completed.of("commit").instants
    if not compactions:
        return instants
    last = compactions[-1].requested_time
    if timeline.layout == 1:
        return [i for i in instants if i.requested_time > last]
    return [i for i in instants if (i.completion_time or i.requested_time) > last]


def find_compaction_partitions(
    timeline: Timeline, commits: Sequence[CommitRecord], services: Services, idle_since: str = ""
) -> Sequence[str]:
    """Return the partition paths in which to compact; none if no compaction is due.

    These are the partitions in which any commit of the active timeline wrote log files.

    Args:
        timeline: The active timeline.
        commits: Its completed writes.
        services: What is wanted.
        idle_since: The requested time of the newest write when nothing was there to be compacted.
    """
    if services.compact_after is None:
        return ()
    logged = {c.requested_time: c for c in commits if c.writes_logs}
    deltas = timeline.completed.of("deltacommit").instants
    since = [
        instant
        for instant in find_since_compaction(timeline, deltas)
        if instant.requested_time in logged and instant.requested_time > idle_since
    ]
    if len(since) < services.compact_after:
        return ()
    return sorted({path for commit in logged.values() for path in _partitions_of(commit)})


def find_retiring(
    timeline: Timeline,
    commits: Sequence[CommitRecord],
    services: Services,
    last: CleanMetadata | None,
) -> Sequence[CommitRecord]:
    """Return the commits that retired files which may be deleted now; none if no clean is due.

    Args:
        timeline: The active timeline.
        commits: Its completed writes.
        services: What is wanted.
        last: The last completed clean; None if there is none on the timeline.
    """
    retention = services.clean
    if retention is None:
        return ()
    writes = timeline.writes.completed.instants
    if len(_after(writes, timeline.completed.of("clean").last)) < services.clean_after:
        return ()
    retiring = [commit for commit in commits if commit.retires]
    if retention.policy != "KEEP_LATEST_COMMITS":
        return retiring
    earliest = find_earliest_retained(timeline, retention.number)
    if earliest is None:
        return ()
    retiring = [c for c in retiring if c.requested_time < earliest.requested_time]
    before = _cleaned_until(commits, last)
    if before is None:
        return retiring
    return [
        commit
        for commit in retiring
        if commit.requested_time >= before.requested_time
        or commit.completion_time > before.completion_time
    ]


def find_clean_partitions(
    timeline: Timeline,
    commits: Sequence[CommitRecord],
    retiring: Sequence[CommitRecord],
    last: CleanMetadata | None,
) -> Sequence[str] | None:
    """Return the partition paths in which to clean; None if any may have files to delete.

    What was retired before the commits `retiring` the last clean has deleted, unless it kept the
    files of a savepoint that is gone. A restore may have left log files anywhere.
    """
    if _cleaned_until(commits, last) is None or last is None:
        return None
    savepoints = timeline.completed.of("savepoint").requested_times
    if not savepoints >= find_savepoint_times(last):
        return None
    if _after(timeline.completed.of("restore").instants, timeline.completed.of("clean").last):
        return None
    paths = {path for commit in retiring for path in _partitions_of(commit)}
    return sorted(paths | {path for commit in retiring for path, _ in commit.replaced})


def _cleaned_until(
    commits: Sequence[CommitRecord], last: CleanMetadata | None
) -> CommitRecord | None:
    """Return the earliest commit that the last clean retained, if it is on the active timeline."""
    if last is None or not last.earliest_commit_to_retain:
        return None
    wanted = last.earliest_commit_to_retain
    return next((commit for commit in commits if commit.requested_time == wanted), None)


def _partitions_of(commit: CommitRecord) -> set[str]:
    return {file[0] for file in commit.files}


def _after(instants: Sequence[Instant], last: Instant | None) -> Sequence[Instant]:
    if last is None:
        return instants
    return [instant for instant in instants if instant.requested_time > last.requested_time]
