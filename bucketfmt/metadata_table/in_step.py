"""Whether a metadata table has everything that its table has, and nothing else.

Pure: timelines in, what is missing or too much out. Hudi's readers do not ask: to them a commit
is invisible that the metadata table lacks. Source: HoodieBackedTableMetadataWriter (update,
initializeFromFilesystem, generateUniqueInstantTime) and its subclass for table version 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bucketfmt.metadata_table.valid_instants import is_amending_instant, is_initial_instant
from bucketfmt.snapshot.overtaken import (
    find_rolled_back,
    find_undoing,
    find_what_may_be_archived,
)
from bucketfmt.texts import first_of
from bucketfmt.timeline.timeline import Instant, Timeline

__all__ = ["Step", "find_newer", "find_step", "find_times_of_services"]

_FILE_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit", "clean"})
_FILE_ACTIONS_LAYOUT_1 = _FILE_ACTIONS | {"rollback"}
_STAY_BEHIND_RESTORE = frozenset({"clean", "rollback"})
_SERVICES = ("clean", "commit", "compaction")  # a log compaction ends as a delta commit
_SUFFIX_DIGITS = 3  # added by layout 1 to instants that only the metadata table has
_MILLISECONDS_DIGITS = 17
_FIRST_INITIAL_SUFFIX = "010"


@dataclass(frozen=True)
class Step:
    """What a metadata table lacks and has too much, as requested times in their order.

    Attributes:
        missing: Completed in the table, and not in the metadata table.
        ahead: Completed in the metadata table, so that they count, and unknown to the table.
        leftovers: Completed in the metadata table and pending in the table: of writes that died
            between the two, or are about to complete. They do not count.
        doubled: Times of delta commits that services of the metadata table have too: files are
            taken for those of the one or the other.
        is_unfinished: The metadata table was never initialised to the end.
    """

    missing: tuple[str, ...] = ()
    ahead: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    is_unfinished: bool = False

    @property
    def is_in_step(self) -> bool:
        """Whether the metadata table says what the folders and files of the table say."""
        return not (self.missing or self.ahead or self.doubled or self.is_unfinished)

    def __str__(self) -> str:
        if self.is_unfinished:
            return "its initialisation was not finished"
        if self.missing:
            return f"it lacks {first_of(self.missing)}"
        if self.ahead:
            return f"it has {first_of(self.ahead)}, which the table lacks"
        if self.doubled:
            return f"it has services at the times of {first_of(self.doubled)}"
        return "it is in step with the table"


def find_step(data: Timeline, metadata: Timeline, archived: Iterable[Instant] = ()) -> Step:
    """Compare a table with its metadata table.

    Instants that the table archived are taken for known where they are older than its active
    timeline, since archival waits for the metadata table; `ahead` may name later ones. Instants
    later than all of `data` are taken for those of writes that began since.

    Args:
        data: The active timeline of the table.
        metadata: The active timeline of the metadata table, read after `data`.
        archived: The archived instants of the metadata table. They are needed where something is
            `missing` without them.
    """
    own = [instant for instant in (*archived, *metadata.instants) if instant.is_completed]
    deltas = [instant for instant in own if instant.action == "deltacommit"]
    if not deltas:
        return Step(is_unfinished=True)
    synced = {instant.requested_time for instant in deltas}
    return Step(
        missing=tuple(_find_missing(data, own, synced)),
        ahead=tuple(_find_ahead(data, metadata)),
        leftovers=tuple(sorted(synced & data.pending.requested_times)),
        doubled=tuple(sorted(synced & find_times_of_services(metadata))),
    )


def find_times_of_services(metadata: Timeline) -> frozenset[str]:
    """Return the requested times of the services of a metadata table, pending or not."""
    return metadata.of(*_SERVICES).requested_times


def find_newer(before: Timeline, now: Timeline, metadata: Timeline) -> str | None:
    """Return what happened to a table since, in words, that base files may have which were read.

    Log blocks of later instants do not count. Base files do not tell of which instants they have
    the records: of all that had completed when they were planned. None if they have no later ones.

    Args:
        before: The active timeline of the table, for which the metadata table was read.
        now: The same, listed after that.
        metadata: The active timeline of the metadata table, listed after that too.
    """
    undone = find_rolled_back(before, now)
    if undone is not None:
        return f"{undone.action} {undone.requested_time} was rolled back"
    undoing = find_undoing(before, now)
    if undoing is not None:
        return f"{undoing.action} {undoing.requested_time} was begun"
    archived = find_what_may_be_archived(before, now)
    if archived is not None:
        return f"what was written since {archived} was archived"
    made = max(_base_times(metadata), default="")
    completed = before.completed.requested_times
    for instant in now.writes.completed.instants:
        if instant.requested_time not in completed and _time_of(instant, now.layout) <= made:
            return f"{instant.action} {instant.requested_time} was completed"
    return None


def _base_times(metadata: Timeline) -> Iterator[str]:
    """Yield the times up to which base files have all records; older ones may be archived.

    In layout 1 a requested time, else a completion time.
    """
    for instant in metadata.completed.instants:
        if instant.action == "deltacommit" and _is_initial(instant, metadata.layout):
            yield _start_of(instant, metadata.layout)
        elif instant.action == "commit":
            time = instant.requested_time
            yield time[:_MILLISECONDS_DIGITS] if metadata.layout == 1 else time


def _find_missing(data: Timeline, own: list[Instant], synced: set[str]) -> list[str]:
    """Return what completed since the initialisation and was not written.

    Args:
        data: The active timeline of the table.
        own: Completed instants of the metadata table.
        synced: The requested times of those that added records.
    """
    actions = _FILE_ACTIONS_LAYOUT_1 if data.layout == 1 else _FILE_ACTIONS
    initial = [i for i in own if i.action == "deltacommit" and _is_initial(i, data.layout)]
    start = min((_start_of(instant, data.layout) for instant in initial), default="")
    restores = data.completed.of("restore").instants
    restored = [restore for restore in restores if _has_restored(restore, own, data)]
    # Hudi's restore takes back there what came since, cleans too, and then lists the table's files.
    listed = max((_time_of(restore, data.layout) for restore in restored), default="")
    missing = []
    for instant in data.completed.instants:
        if instant.action == "restore":
            if instant not in restored:
                missing.append(instant)
        elif instant.action in actions and instant.requested_time not in synced:
            stays = instant.action in _STAY_BEHIND_RESTORE
            if not stays or _time_of(instant, data.layout) > listed:
                missing.append(instant)
    return [i.requested_time for i in missing if _time_of(i, data.layout) > start]


def _find_ahead(data: Timeline, metadata: Timeline) -> list[str]:
    known = data.requested_times
    if not known:
        return []
    first, last = min(known), max(known)
    restores = [instant.requested_time for instant in data.completed.of("restore").instants]
    return [
        time
        for time in (i.requested_time for i in metadata.completed.of("deltacommit").instants)
        if first <= time <= last
        and time not in known
        and len(time) <= _MILLISECONDS_DIGITS  # longer ones are its own
        and not any(restore < time for restore in restores)  # a restore is followed by a listing
    ]


def _is_initial(instant: Instant, layout: int) -> bool:
    """Whether a deltacommit initialised a partition from a listing of the table."""
    time = instant.requested_time
    if layout == 1 or len(time) > _MILLISECONDS_DIGITS:  # so before an upgrade, too
        suffix = time[-_SUFFIX_DIGITS:]
        is_longer = len(time) > _MILLISECONDS_DIGITS or is_initial_instant(time)
        is_amending = layout > 1 and is_amending_instant(time)
        return is_longer and suffix >= _FIRST_INITIAL_SUFFIX and not is_amending
    return is_initial_instant(time)


def _start_of(instant: Instant, layout: int) -> str:
    """The time that a listing of the table saw everything before.

    In layout 1 a requested time, which the instant is named after; else a completion time.
    """
    if layout == 1:
        return instant.requested_time[:-_SUFFIX_DIGITS]
    return instant.completion_time or ""


def _time_of(instant: Instant, layout: int) -> str:
    return instant.requested_time if layout == 1 else instant.completion_time or ""


def _has_restored(restore: Instant, own: list[Instant], data: Timeline) -> bool:
    """Whether the metadata table was restored too, or has what the table had afterwards."""
    known = data.requested_times
    return any(
        instant.action == "restore"
        or instant.requested_time == restore.requested_time
        or (
            instant.action == "deltacommit"
            and instant.requested_time > restore.requested_time
            and instant.requested_time not in known
        )
        for instant in own
    )
