"""Runs a check: stage by stage, each in threads, collecting the report.

I/O, read only. Nothing met in the table ends a check: it becomes a finding, or is not checked.
Ctrl-C ends it with a report of what was found until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from typing import TypeVar, get_args

from bucketfmt.arguments import (
    check_bool,
    check_callable,
    check_choice,
    check_int,
    check_kind,
    check_names,
)
from bucketfmt.check.examine import Examiner, load_examined_state
from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.files.archived_logs import load_archived_log_faults
from bucketfmt.check.files.committed_files import find_reused_file_ids
from bucketfmt.check.files.compactions import load_compaction_faults
from bucketfmt.check.files.past_files import load_past_faults
from bucketfmt.check.metadata.metadata_table import load_metadata_faults
from bucketfmt.check.omissions import find_omissions
from bucketfmt.check.partition import PartitionChecker
from bucketfmt.check.placement.buckets import DuplicateGroups
from bucketfmt.check.placement.group_keys import find_group_key_faults
from bucketfmt.check.placement.index_view import IndexView, compare_with_keys, load_index_view
from bucketfmt.check.placement.keys import KeyTally, find_collapsing_keys
from bucketfmt.check.placement.lost_key_fields import lost_key_fields_finding
from bucketfmt.check.placement.partition_rules import load_rules_faults
from bucketfmt.check.placement.rings import load_dropped_rings, load_lost_rings
from bucketfmt.check.placement.second_look import SecondLook
from bucketfmt.check.placement.seen_keys import SeenKeys
from bucketfmt.check.properties import (
    find_lost_fields,
    find_unknown_fields,
    load_properties_faults,
)
from bucketfmt.check.report import CheckReport, Event, Finding, NotChecked, ReportBuilder
from bucketfmt.check.salvage import load_config_to_check
from bucketfmt.check.sound_slices import SoundSlice, decode_sound_slice, files_of
from bucketfmt.check.timeline import find_lost_timeline, load_timeline_faults
from bucketfmt.choices import Depth
from bucketfmt.errors import BucketfmtError, CorruptError, TableNotFoundError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.progress import Progress, ProgressCallback
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import merge_streams, reader_count, waiting_count
from bucketfmt.timeline.load import load_timeline

__all__ = ["check_table", "load_partitions"]

_RELOADS = 3

_T = TypeVar("_T")
_E = TypeVar("_E")


def check_table(
    store: Store,
    config: TableConfig,
    limits: Limits,
    finder: IndexFinder,
    *,
    depth: Depth = "default",
    partitions: Sequence[str] | None = None,
    since: str | None = None,
    max_findings: int = 100,
    progress: ProgressCallback | None = None,
    metadata_table_only: bool = False,
    examined: Sequence[bytes] = (),
    now: datetime | None = None,
) -> CheckReport:
    """Check a table. Arguments as in `bucketfmt.Table.check`.

    `config` is the table's properties as they were known: they are read again. `now` (with a time
    zone) is what instants are called stale by.

    Raises:
        TypeError: an argument of another type.
        ValueError: an argument contradicts the table, or is not a valid choice.
    """
    check_choice("depth", depth, get_args(Depth))
    check_int("max_findings", max_findings, 1)
    if partitions is not None:
        partitions = check_names("partitions", partitions)
    if progress is not None:
        check_callable("progress", progress)
    check_bool("metadata_table_only", metadata_table_only)
    check_kind("examined", examined, Sequence, "a list of what Table.examine returned")
    for data in examined:
        check_kind("each of examined", data, bytes, "what Table.examine returned")
    builder = ReportBuilder(depth, max_findings)
    check = _Check(store, config, limits, finder, builder, progress)
    check.now = now or datetime.now(timezone.utc)
    try:
        if metadata_table_only:
            check.run_on_metadata_table(depth, partitions)
        else:
            sound = [decode_sound_slice(data) for data in examined]
            check.run(depth, partitions, since, sound)
    except KeyboardInterrupt:
        builder.interrupted = True
        builder.add(NotChecked(check.left, "the check was stopped"))
    except BucketfmtError as error:
        if not check.has_begun:
            raise
        builder.add(event_of_error(error, "T002", check.left))
    check.flush()
    return builder.build()


def load_partitions(store: Store, config: TableConfig, limits: Limits) -> tuple[str, ...]:
    """Return every partition path that a check looks at, also folders that only should be one.

    Raises:
        BucketfmtError: the timeline cannot be listed.
    """
    timeline = load_timeline(store, config, limits)
    state = ExaminedState(store, config, timeline, limits)
    state.load()
    return Snapshot(state).partitions


class _Check:
    """One run. All events are added by the thread that called `run`."""

    now: datetime

    def __init__(
        self,
        store: Store,
        config: TableConfig,
        limits: Limits,
        finder: IndexFinder,
        builder: ReportBuilder,
        progress: ProgressCallback | None,
    ) -> None:
        self._store, self._config, self._limits = store, config, limits
        self._finder = finder
        self._builder = builder
        self._progress = progress
        self._state: ExaminedState | None = None
        self._duplicates: list[DuplicateGroups] = []
        self.left = "everything"

    def run(
        self,
        depth: Depth,
        partitions: Sequence[str] | None,
        since: str | None,
        sound: Sequence[SoundSlice],
    ) -> None:
        """Go through the stages of a depth; file slices that are sound are not examined."""
        self._tell("timeline", 0, 1)
        state = self._load_state()
        self._take(load_properties_faults(self._store, self._limits, self.now), "properties")
        self._take(load_timeline_faults(state, self.now), "the timeline")
        if depth != "quick":
            _ = state.archived_instants  # their damage is told through the state
        self._take(find_reused_file_ids(state.commits), "replaced file groups")
        self._tell("timeline", 1, 1)

        self.left = "all partitions and files"
        snapshot = Snapshot(state)
        self._take(find_lost_fields(state.config, snapshot.partitions), "properties")
        chosen = _choose(snapshot.partitions, partitions)
        self._take(load_rules_faults(state, chosen), "partition bucket rules")
        self._take(load_compaction_faults(state, snapshot), "pending compactions")
        slices = self._find_slices(snapshot, chosen)
        self._take(find_lost_timeline(state, chosen), "the timeline")
        events: list[Event] = []
        view = load_index_view(state, snapshot, self._finder, slices, events)
        self._take(iter(events), "the index")
        if depth != "quick":
            self._take(self._find_unknown_fields(snapshot), "the columns")
            view = self._compare_with_keys(view, snapshot, slices, depth == "full")
        elif view.is_by_buckets and not state.config.record_key_fields:
            self._builder.add(lost_key_fields_finding(snapshot, None, ()))
        if depth != "quick":
            self._look_for_rings(state, view, snapshot, slices)
        checker = PartitionChecker(state, view, slices, names_only=depth == "quick")
        self._check_partitions(checker, view, tuple(slices))
        self._take(load_past_faults(state, slices), "files that only reads of the past need")
        self._take(load_archived_log_faults(state, slices), "log files of archived instants")
        self.left = "the metadata table and all files"
        self._take(load_metadata_faults(state, snapshot, slices, depth), "the metadata table")
        others = len(snapshot.partitions) - len(chosen)
        for omission in find_omissions(snapshot, view, depth, slices, others):
            self._builder.add(omission)
        if depth == "quick":
            return

        wanted = [file_slice for own in slices.values() for file_slice in own]
        if since is not None:
            touched = _find_touched(state, since)
            left_out = len(wanted)
            wanted = [s for s in wanted if _is_since(s, since, touched)]
            left_out -= len(wanted)
            text = f"not written to since {since}: only listed"
            self._builder.add(NotChecked(f"{left_out} file groups", text, is_gap=False))
        seen = self._examine(snapshot, checker, wanted, sound, with_keys=depth == "full")
        if depth == "full":
            self.left = "a second look at what seems misplaced"
            self._look_again(snapshot, view, slices, seen)
            if view.has_several_groups:
                self._look_at_groups(snapshot, checker, slices)

    def run_on_metadata_table(self, depth: Depth, partitions: Sequence[str] | None) -> None:
        """Compare only the metadata table."""
        self._tell("timeline", 0, 1)
        state = self._load_state()
        self._tell("timeline", 1, 1)
        self.left = "the metadata table"
        if not state.config.metadata_partitions:
            why = "the table has none"
            self._builder.add(NotChecked("the metadata table", why, is_gap=False))
            return
        snapshot = Snapshot(state)
        slices = self._find_slices(snapshot, _choose(snapshot.partitions, partitions))
        self._take(load_metadata_faults(state, snapshot, slices, depth), "the metadata table")

    @property
    def has_begun(self) -> bool:
        """Whether the timeline was listed: from then on there is something to report."""
        return self._state is not None

    def flush(self) -> None:
        """Add what waits for a stage that did not come, and what was met by the way."""
        for duplicate in self._duplicates:
            self._builder.add(duplicate.finding())
        self._duplicates.clear()
        for event in self._state.events if self._state is not None else ():
            self._builder.add(event)

    # -- stages

    def _load_state(self) -> ExaminedState:
        self._load_config()
        for _ in range(_RELOADS):
            state = self._state = load_examined_state(self._store, self._config, self._limits)
            if not self._load_config():  # as a change of buckets changes the properties
                break
        return state

    def _load_config(self) -> bool:
        """Read the properties; return whether they changed."""
        before = self._config
        with suppress(CorruptError, TableNotFoundError):  # T006 tells of it; what was known is left
            self._config = load_config_to_check(self._store, self._limits)
        return self._config.properties != before.properties

    def _look_for_rings(
        self,
        state: ExaminedState,
        view: IndexView,
        snapshot: Snapshot,
        slices: Mapping[str, Sequence[FileSlice]],
    ) -> None:
        if not view.is_ring:
            self._take(load_lost_rings(state, slices.keys()), "hashing rings that are lost")
            return
        dropped = load_dropped_rings(state, snapshot.dropped_partitions)
        self._take(dropped, "hashing rings of dropped partitions")

    def _find_slices(
        self, snapshot: Snapshot, chosen: Sequence[str]
    ) -> dict[str, Sequence[FileSlice]]:
        """Return what readers see of each partition that can be listed and whose commits tell."""
        found = [(path, self._try_slices(snapshot, path)) for path in chosen]
        unlisted = self._state.lister.unlisted if self._state is not None else ()
        return {path: own for path, own in found if own is not None and path not in unlisted}

    def _try_slices(self, snapshot: Snapshot, path: str) -> Sequence[FileSlice] | None:
        try:
            return snapshot.slices(path)
        except BucketfmtError as error:
            self._builder.add(event_of_error(error, "T001", path, partition=path))
            why = "commits contradict each other about which file groups it has"
            self._builder.add(NotChecked(f"partition {path!r}", why))
            return None

    def _find_unknown_fields(self, snapshot: Snapshot) -> Iterator[Event]:
        with suppress(BucketfmtError):  # told of what states the columns
            yield from find_unknown_fields(self._config, snapshot.schema.data)

    def _compare_with_keys(
        self,
        view: IndexView,
        snapshot: Snapshot,
        slices: Mapping[str, Sequence[FileSlice]],
        each_partition: bool,
    ) -> IndexView:
        compared = [view]

        def compare() -> Iterator[Event]:
            events: list[Event] = []
            compared.append(
                compare_with_keys(view, snapshot, self._finder, slices, each_partition, events)
            )
            yield from events

        self._take(compare(), "the number of buckets")
        return compared[-1]

    def _check_partitions(
        self, checker: PartitionChecker, view: IndexView, chosen: Sequence[str]
    ) -> None:
        streams = [partial(_guarded, checker.check, path, path) for path in chosen]
        workers = (
            waiting_count(self._store) if view.has_stored_buckets else 1
        )  # else there is nothing to wait for
        done = 0
        for event in merge_streams(streams, workers, buffered=256):
            if event is None:
                done += 1
                self.left = f"{len(chosen) - done} of {len(chosen)} partitions and all files"
                self._tell("partitions", done, len(chosen))
            elif isinstance(event, DuplicateGroups):
                self._duplicates.append(event)
            else:
                self._builder.add(event)

    def _examine(
        self,
        snapshot: Snapshot,
        checker: PartitionChecker,
        wanted: Sequence[FileSlice],
        sound: Sequence[SoundSlice],
        with_keys: bool,
    ) -> SeenKeys:
        examiner, seen = Examiner(snapshot, checker, with_keys), SeenKeys()
        wanted = self._without_sound(wanted, sound, seen, examiner.prefix)

        def examine_slice(file_slice: FileSlice) -> Iterator[Event | KeyTally]:
            events, tally = examiner.examine(file_slice)
            yield from events
            yield tally

        streams = [
            partial(_guarded, examine_slice, file_slice, file_slice.file_id)
            for file_slice in wanted
        ]
        done, total = 0, len(wanted)
        workers = reader_count(self._store, [file_slice.size for file_slice in wanted])
        for event in merge_streams(streams, workers, buffered=256):
            if event is None:
                done += 1
                self.left = f"the files of {total - done} of {total} file groups"
                self._tell("file groups", done, total)
            elif isinstance(event, KeyTally):
                seen.add(event)
            else:
                self._builder.add(event)
        return seen

    def _without_sound(
        self,
        wanted: Sequence[FileSlice],
        sound: Sequence[SoundSlice],
        seen: SeenKeys,
        prefix: str | None,
    ) -> list[FileSlice]:
        """Take over what is told of sound slices; return the slices to examine."""
        known = {told.files: told for told in sound}
        left = []
        for file_slice in wanted:
            told = known.get(files_of(file_slice))
            if told is None:
                left.append(file_slice)
                continue
            for event in told.events():
                self._builder.add(event)
            keys, named = told.keys, told.named
            seen.add(KeyTally(file_slice, None, None, prefix, keys=keys, named=named))
        return left

    def _look_again(
        self,
        snapshot: Snapshot,
        view: IndexView,
        slices: Mapping[str, Sequence[FileSlice]],
        seen: SeenKeys,
    ) -> None:
        look = SecondLook(snapshot)
        self._take(find_collapsing_keys(seen.keys, seen.collapsed), "keys")
        while self._duplicates:
            duplicate = self._duplicates[0]
            finding = duplicate.finding(look.count_shared_keys(duplicate.slices))
            del self._duplicates[0]
            self._builder.add(finding)
        for done, (path, tallies) in enumerate(sorted(seen.suspicious.items())):
            self._tell("misplaced keys", done, len(seen.suspicious))
            self._take(look.look_at_partition(tallies, slices[path], view), path)
        self._take(look.look_at_encodings(seen.named, seen.plain), "how keys are written")
        if seen.left_out:
            why = "too many have misplaced keys; those of the others were not followed up"
            self._builder.add(NotChecked(f"{seen.left_out} file groups", why))

    def _look_at_groups(
        self,
        snapshot: Snapshot,
        checker: PartitionChecker,
        slices: Mapping[str, Sequence[FileSlice]],
    ) -> None:
        for done, (path, own) in enumerate(sorted(slices.items())):
            self._tell("keys of file groups", done, len(slices))
            layout = checker.layout(path)
            if layout is not None:
                self._take(find_group_key_faults(snapshot, layout, own), path)

    # -- events

    def _take(self, events: Iterator[Event], what: str) -> None:
        for event in _guarded(lambda _: events, None, what):
            if event is not None:
                self._builder.add(event)

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(Progress(stage, done, total))


def _guarded(
    run: Callable[[_T], Iterator[_E]], subject: _T, what: str
) -> Iterator[_E | NotChecked | Finding | None]:
    """Yield the events of one task and None at its end; an error becomes an event."""
    try:
        yield from run(subject)
    except Exception as error:  # whatever a table holds, the check goes on
        yield event_of_error(error, "T002", what)
    yield None


def _choose(present: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    if wanted is None:
        return tuple(present)
    unknown = sorted(set(wanted) - set(present))
    if unknown:
        raise ValueError(f"the table has no partition {unknown[0]!r}")
    return tuple(path for path in present if path in set(wanted))


def _find_touched(state: ExaminedState, since: str) -> set[tuple[str, str]]:
    """Return the (partition, file id) that commits wrote which completed after `since`."""
    return {
        (partition_path, file_id)
        for commit in state.commits
        if commit.completion_time > since
        for partition_path, file_id, *_ in commit.files
    }


def _is_since(file_slice: FileSlice, since: str, touched: set[tuple[str, str]]) -> bool:
    if (file_slice.partition_path, file_slice.file_id) in touched:
        return True
    return any(file.name.instant > since for file in file_slice.files)
