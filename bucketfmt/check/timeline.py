"""The timeline: every instant whole, and none stuck.

`find_*` are pure; `load_timeline_faults` reads the files of instants. T001.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial

from bucketfmt.check.examined import ExaminedState, event_of_error, event_of_instant
from bucketfmt.check.report import Counted, Event, Finding
from bucketfmt.errors import BucketfmtError, CorruptError, NotFoundError
from bucketfmt.format.names.instants import (
    State,
    comparable_action,
    find_instant_file,
    parse_instant_time,
)
from bucketfmt.format.names.layout import HEARTBEAT_FOLDER
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.internal_schema import parse_internal_schema
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.late_commits import LateCommits
from bucketfmt.timeline.load import (
    load_clustering_plan,
    load_commit_metadata,
    load_instant_content,
    load_requested_content,
    requested_name,
)
from bucketfmt.timeline.timeline import COMMIT_ACTIONS, Instant, Timeline

__all__ = [
    "STALE_AFTER",
    "find_empty_commits",
    "find_folders_for_files",
    "find_lost_timeline",
    "find_missing_requests",
    "find_stale_instants",
    "find_unreadable_schemas",
    "load_timeline_faults",
]

STALE_AFTER = timedelta(hours=24)
"""How old a write that is not completed must be to count as stuck."""

# These wait for whoever runs them next, for as long as it takes.
_WAITING = frozenset({"compaction", "logcompaction", "clustering", "indexing", "clean"})
# Without a plan in the requested file; that of a compaction is told through the state.
_UNPLANNED = frozenset({"commit", "deltacommit", "compaction", "savepoint"})


def load_timeline_faults(state: ExaminedState, now: datetime) -> Iterator[Event]:
    """Yield what is wrong with the timeline, up to the content of each instant's file.

    `now` has a time zone.
    """
    folder = state.config.timeline_path
    entries = state.store.list(folder)
    files = [entry for entry in entries if not entry.is_dir]
    timeline = state.timeline
    yield from find_folders_for_files(entries, state.config.timeline_layout)
    yield Counted("instants", len(timeline.instants))
    empty = list(find_empty_commits(files, state.config.timeline_layout))
    yield from empty
    for finding in find_missing_requests(files, timeline, folder):
        # Whoever takes an instant back meanwhile removes its inflight file first.
        if any(state.store.info(path) is not None for path in finding.paths):
            yield finding
    yield from _load_late(state)
    pending = [i for i in timeline.pending.instants if not _may_wait(state, i)]
    heard = _signs_of_life(state, files)
    yield from find_stale_instants(pending, heard, now, state.config.timezone, folder)

    _ = state.pending_compactions  # their damage is told through the state, as that of commits
    paths = {i.requested_time: join_path(folder, i.file_name) for i in timeline.instants}
    yield from find_unreadable_schemas(state.commits, paths, state.limits)
    services = [i for i in timeline.completed.instants if i.action not in COMMIT_ACTIONS]
    planned = [i for i in timeline.pending.instants if i.action not in _UNPLANNED]
    workers = waiting_count(state.store)
    for find, instants in ((_content_fault, services), (_plan_fault, planned)):
        for event in map_in_threads(partial(find, state), instants, workers):
            if event is not None:
                yield event


def _load_late(state: ExaminedState) -> Iterator[Event]:
    """Yield T001 for each commit that appeared once it had been rolled back."""
    completed = state.timeline.writes.completed.instants
    try:
        late_commits = LateCommits(state.store, state.limits)
        found = late_commits.find(state.config, state.timeline, completed)
    except BucketfmtError:
        return  # `_content_fault` tells, or the state
    for late in found:
        path = join_path(state.config.timeline_path, late.file_name)
        yield Finding.of(
            "T001",
            f"the {late.action} appeared once it had been rolled back, since its writer stood "
            "still meanwhile: readers look for its files, which are gone",
            paths=[path],
            instants=[late.requested_time],
            fix="Write to the table with bucketfmt: its next write removes the file.",
            data_loss=False,
        )


def _may_wait(state: ExaminedState, instant: Instant) -> bool:
    """Whether an instant may be pending for long. In layout 1 only its plan tells a clustering."""
    if instant.action != "replacecommit" or state.config.timeline_layout != 1:
        return instant.action in _WAITING
    try:
        return load_clustering_plan(state.store, state.config, instant, state.limits) is not None
    except BucketfmtError:
        return True  # `_plan_fault` tells


def _signs_of_life(state: ExaminedState, files: Iterable[FileInfo]) -> Mapping[str, float]:
    """Return when each instant was last heard of, in seconds since the epoch."""
    heard: dict[str, float] = {}
    for entry in files:
        found = find_instant_file(entry.name, state.config.timeline_layout)
        if found is not None and entry.modified is not None:
            time = found.requested_time
            heard[time] = max(entry.modified, heard.get(time, 0.0))
    for entry in state.store.list(HEARTBEAT_FOLDER):
        if entry.modified is not None:
            heard[entry.name] = max(entry.modified, heard.get(entry.name, 0.0))
    return heard


def _content_fault(state: ExaminedState, instant: Instant) -> Event | None:
    try:
        load_instant_content(state.store, state.config, instant, state.limits)
    except BucketfmtError as error:
        path = join_path(state.config.timeline_path, instant.file_name)
        error.within(path=path)
        return event_of_instant(error, instant)
    return None


def _plan_fault(state: ExaminedState, instant: Instant) -> Event | None:
    """Return what is wrong with the requested file of a pending instant."""
    name = requested_name(instant, state.config)
    path = join_path(state.config.timeline_path, name)
    try:
        plan = load_requested_content(state.store, state.config, instant, state.limits)
        if plan is not None or not _needs_plan(state, instant):
            return None
    except NotFoundError as error:
        # `find_missing_requests` tells of those that are inflight.
        return event_of_instant(error, instant) if instant.state is State.REQUESTED else None
    except BucketfmtError as error:
        error.within(path=path)
        return event_of_instant(error, instant)
    return Finding.of(
        "T001",
        f"the requested file of the {instant.action} is empty: its plan is lost, and if that is a "
        "resize, writers no longer copy rows to the new file groups",
        paths=[path],
        instants=[instant.requested_time],
        fix="Restore the file from a copy before anybody writes to the table; else roll the "
        f"{instant.action} back and plan again.",
    )


def _needs_plan(state: ExaminedState, instant: Instant) -> bool:
    """Whether a pending instant is nothing without its plan.

    In layout 1 a replacecommit may be a clustering. One that is not says so once it is inflight.
    """
    if instant.action != "replacecommit":
        return instant.action in ("clustering", "logcompaction")
    if state.config.timeline_layout != 1 or instant.state is State.REQUESTED:
        return state.config.timeline_layout == 1
    begun = load_commit_metadata(state.store, state.config, instant, state.limits)
    return WriteOperation.find(begun.operation_type) in (None, WriteOperation.CLUSTER)


def find_folders_for_files(entries: Sequence[FileInfo], layout: int) -> Iterator[Finding]:
    """Yield T001 for folders that have the name of an instant's file.

    Args:
        entries: The timeline folder.
        layout: `TableConfig.timeline_layout`.
    """
    for entry in entries:
        found = find_instant_file(entry.name, layout) if entry.is_dir else None
        if found is not None:
            state = found.state.name.lower()
            yield Finding.of(
                "T001",
                f"a folder is in the place of the file of the {state} {found.action}",
                paths=[entry.path],
                instants=[found.requested_time],
            )


def find_empty_commits(files: Sequence[FileInfo], layout: int) -> Iterator[Finding]:
    """Yield T001 for completed instants whose file holds no bytes.

    Args:
        files: The timeline folder.
        layout: `TableConfig.timeline_layout`.
    """
    for entry in files:
        found = find_instant_file(entry.name, layout)
        if found is None or found.action == "replacecommit":
            continue  # an empty one of these is refused where it is read
        if found.state is State.COMPLETED and entry.size == 0:
            yield Finding.of(
                "T001",
                f"the completed {found.action} has an empty file: what it did is unknown",
                paths=[entry.path],
                instants=[found.requested_time],
            )


def find_lost_timeline(state: ExaminedState, partitions: Iterable[str]) -> Iterator[Finding]:
    """Yield T001 where partitions hold data files and no instant is left to tell of them."""
    if state.timeline.instants:
        return
    listed = {path: state.lister.files(path) for path in partitions}
    files = [file for groups in listed.values() for own in groups.values() for file in own]
    if files:
        yield Finding.of(
            "T001",
            f"no instant is in the timeline, but {len(files)} data files are in the partitions: "
            "readers see none of them",
            file_groups=[(path, file_id) for path, groups in listed.items() for file_id in groups],
            paths=[state.config.timeline_path],
            fix=f"Stop the writers, and restore {state.config.timeline_path} from a copy of the "
            "table. A write before that takes the table for an empty one: its rows are read beside "
            "those of the data files, and keys have several rows.",
        )


def find_unreadable_schemas(
    commits: Iterable[CommitRecord], paths: Mapping[str, str], limits: Limits
) -> Iterator[Event]:
    """Yield T001 for commits that state a schema nobody can read.

    Args:
        commits: What completed writes say.
        paths: The file of each instant, by requested time.
        limits: Bounds on schemas.
    """
    readable: set[str] = set()
    for commit in commits:
        for text, parse in (
            (commit.schema, _parse_avro),
            (commit.latest_schema, parse_internal_schema),
        ):
            if not text or text in readable:
                continue
            try:
                parse(text, limits)
                readable.add(text)
            except BucketfmtError as error:
                error.message = f"the schema it states: {error.message}"
                path = paths.get(commit.requested_time, commit.requested_time)
                error.within(path=path)
                yield event_of_error(error, "T001", path, instants=[commit.requested_time])


def _parse_avro(text: str, limits: Limits) -> object:
    return arrow_schema(parse_avro_schema(text, limits))


def find_missing_requests(
    files: Sequence[FileInfo], timeline: Timeline, folder: str
) -> Iterator[Finding]:
    """Yield T001 for instants that are inflight and were never requested."""
    requested = defaultdict(set)
    for entry in files:
        found = find_instant_file(entry.name, timeline.layout)
        if found is not None and found.state is State.REQUESTED:
            action = comparable_action(found.action, timeline.layout)
            requested[found.requested_time].add(action)
    for instant in timeline.pending.instants:
        action = comparable_action(instant.action, timeline.layout)
        is_missing = action not in requested[instant.requested_time]
        if instant.state is State.INFLIGHT and instant.action != "savepoint" and is_missing:
            yield Finding.of(
                "T001",
                f"the {instant.action} is inflight and its requested file is missing: nobody can "
                "finish it or roll it back",
                paths=[join_path(folder, instant.file_name)],
                instants=[instant.requested_time],
            )


def find_stale_instants(
    pending: Sequence[Instant],
    heard: Mapping[str, float],
    now: datetime,
    table_timezone: str,
    folder: str,
) -> Iterator[Finding]:
    """Yield T001 for pending instants that nobody has worked on for `STALE_AFTER`.

    Args:
        pending: Those that should end soon.
        heard: When each was last heard of, in seconds since the epoch, as far as known.
        now: With a time zone.
        table_timezone: `TableConfig.timezone`; "LOCAL" is taken to be this machine's.
        folder: The timeline folder.
    """
    for instant in pending:
        age = _age(instant, heard, now, table_timezone)
        if age is not None and age > STALE_AFTER:
            hours = int(age / timedelta(hours=1))
            yield Finding.of(
                "T001",
                f"the {instant.action} is {instant.state.name.lower()} and nothing was heard of "
                f"it for {hours} hours",
                paths=[join_path(folder, instant.file_name)],
                instants=[instant.requested_time],
                severity="warning",
                data_loss=False,
                fix=f"If no writer is at work on it, {_ending_of(instant)}. It holds back "
                "cleaning and archiving until then.",
            )


def _ending_of(instant: Instant) -> str:
    if instant.action in COMMIT_ACTIONS:
        return f'roll it back by rollback("{instant.requested_time}")'
    return f"run the {instant.action} again, which completes it"


def _age(
    instant: Instant, heard: Mapping[str, float], now: datetime, table_timezone: str
) -> timedelta | None:
    zone = timezone.utc if table_timezone == "UTC" else None
    signs: list[datetime] = []
    try:
        began = parse_instant_time(instant.requested_time)
        signs.append(began.replace(tzinfo=zone).astimezone(timezone.utc))
    except (CorruptError, OverflowError, ValueError, OSError):
        pass  # an instant that is no date tells nothing
    if instant.requested_time in heard:
        signs.append(datetime.fromtimestamp(heard[instant.requested_time], timezone.utc))
    return now - max(signs) if signs else None
