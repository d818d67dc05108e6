"""Files of the past: what active commits name, no snapshot of now needs, and is not there. T002.

A clean, a rollback or a restore says what it deletes. What none of them deleted is lost, and with
it the rows that time travel and incremental reads would return.

`find_lost_past` is pure; `load_removals` reads the timeline, and the archived one only where the
active one leaves a file unexplained: cleans are archived without regard to the commits whose
files they deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.report import Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.timeline.instant_content import InstantContent
from bucketfmt.format.timeline.plans import CleanerPlan
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    RestoreMetadata,
    RollbackMetadata,
)
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.texts import first_of
from bucketfmt.timeline.history import load_archived_instants
from bucketfmt.timeline.load import load_instant_content, load_requested_content
from bucketfmt.timeline.timeline import Instant

__all__ = ["PastFile", "Removals", "find_lost_past", "find_past_files", "load_past_faults"]

_REMOVING = ("clean", "rollback", "restore")


@dataclass(frozen=True, slots=True)
class PastFile:
    """A file that a commit names and that is not there.

    Attributes:
        partition_path: The folder of the file.
        file_id: Its file group.
        path: Relative to the table root.
        requested_time: Of the commit.
    """

    partition_path: str
    file_id: str
    path: str
    requested_time: str


@dataclass
class Removals:
    """What services deleted, or are about to delete.

    Attributes:
        names: (partition path, file name).
        partitions: The last instant that deleted the folder of a partition, by partition path.
    """

    names: set[tuple[str, str]] = field(default_factory=set)
    partitions: dict[str, str] = field(default_factory=dict)

    def add(self, requested_time: str, content: InstantContent | None) -> None:
        """Take what one instant says."""
        if isinstance(content, CleanMetadata):
            for path, cleaned in content.partition_metadata.items():
                # A file that could not be deleted was perhaps deleted before the clean failed.
                self._add_names(path, cleaned.delete_path_patterns)
                self._add_names(path, cleaned.success_delete_files)
                self._add_names(path, cleaned.failed_delete_files)
                if cleaned.is_partition_deleted:
                    self._add_partition(path, requested_time)
        elif isinstance(content, CleanerPlan):
            for path, names in content.files_to_be_deleted_per_partition.items():
                self._add_names(path, names)
            for path, files in content.file_paths_to_be_deleted_per_partition.items():
                self._add_names(path, (file.file_path or "" for file in files))
            for path in content.partitions_to_be_deleted:
                self._add_partition(path, requested_time)
        elif isinstance(content, RollbackMetadata):
            for path, rolled_back in content.partition_metadata.items():
                self._add_names(path, rolled_back.success_delete_files)
                self._add_names(path, rolled_back.failed_delete_files)
        elif isinstance(content, RestoreMetadata):
            for rollback in content.rollbacks:
                self.add(requested_time, rollback)

    def explain(self, file: PastFile) -> bool:
        """Return whether the file was deleted by a service."""
        if (file.partition_path, file.path.rpartition("/")[2]) in self.names:
            return True
        return self.partitions.get(file.partition_path, "") > file.requested_time

    def _add_names(self, partition_path: str, names: Iterable[str]) -> None:
        self.names.update((partition_path, name.rpartition("/")[2]) for name in names)

    def _add_partition(self, partition_path: str, requested_time: str) -> None:
        known = self.partitions.get(partition_path, "")
        self.partitions[partition_path] = max(known, requested_time)


def load_past_faults(
    state: ExaminedState, slices: Mapping[str, Sequence[FileSlice]]
) -> Iterator[Event]:
    """Yield T002 for files of the past that are gone though nothing deleted them.

    Args:
        state: The table; its partitions in `slices` have been listed.
        slices: What readers see of each partition that is checked.
    """
    listed = {path: state.lister.files(path) for path in slices}
    there = {file.path for groups in listed.values() for own in groups.values() for file in own}
    gone = state.committed_names.keys() - there
    missing = list(find_past_files(state.commits, gone, slices)) if gone else []
    removals = Removals()
    if missing and not (yield from _load_active(state, removals)):
        return
    missing = [file for file in missing if not removals.explain(file)]
    if missing and not (yield from _load_archived(state, removals, missing)):
        return
    missing = [file for file in missing if not removals.explain(file)]
    if not missing:
        return
    if state.has_changed():
        why = "the table was written to while it was checked; check again"
        yield NotChecked(missing[0].path, why)
        return
    yield from find_lost_past(missing)


def find_past_files(
    commits: Iterable[CommitRecord],
    gone: Collection[str],
    slices: Mapping[str, Sequence[FileSlice]],
) -> Iterator[PastFile]:
    """Yield the files of partitions that are gone and that their newest slices do not need.

    Args:
        commits: Those of the active timeline.
        gone: The paths of files that they name and that are not there.
        slices: What readers see of each partition that is checked.
    """
    needed = {file.path for own in slices.values() for each in own for file in each.files}
    for commit in commits:
        for _, file_id, path, *_ in commit.files:
            if path in gone and path not in needed:
                folder = path.rpartition("/")[0]
                if folder in slices:
                    yield PastFile(folder, file_id, path, commit.requested_time)


def find_lost_past(missing: Iterable[PastFile]) -> Iterator[Finding]:
    """Yield T002 for each file group that lost files of the past."""
    groups: dict[tuple[str, str], list[PastFile]] = defaultdict(list)
    for file in missing:
        groups[file.partition_path, file.file_id].append(file)
    for (partition_path, file_id), files in groups.items():
        paths = {file.path for file in files}
        instants = sorted({file.requested_time for file in files})
        yield Finding.of(
            "T002",
            f"{len(paths)} older files of file group {file_id} are named by completed commits "
            f"({first_of(instants)}) and not there, and no clean, rollback or restore deleted "
            "them: the newest rows do not need them, but reads of the table as it was then do",
            partition=partition_path,
            paths=sorted(paths),
            instants=instants,
            severity="warning",
            fix="Restore the files from a copy. Without one, read as of the commits named, and "
            "incremental reads from before them, no more. The check tells it until these commits "
            "are archived.",
        )


def _load_active(state: ExaminedState, removals: Removals) -> Generator[Event, None, bool]:
    """Take what the active timeline tells; return (`yield from`) whether all of it was told."""
    instants = [i for i in state.timeline.instants if i.action in _REMOVING]
    contents = map_in_threads(
        lambda instant: _try_load(state, instant), instants, waiting_count(state.store)
    )
    is_whole = True
    for instant, content in zip(instants, contents, strict=True):
        if isinstance(content, BucketfmtError):
            is_whole = False
        else:
            removals.add(instant.requested_time, content)
    if not is_whole:
        why = "what deleted them cannot be read"
        yield NotChecked("files that only reads of the past need", why)
    return is_whole


def _try_load(state: ExaminedState, instant: Instant) -> InstantContent | BucketfmtError | None:
    """Return what an instant deleted or means to; an error is T001, which others tell."""
    load = load_instant_content
    if not instant.is_completed:
        if instant.action != "clean":
            return None  # what it takes back is no completed commit any more
        load = load_requested_content
    try:
        return load(state.store, state.config, instant, state.limits)
    except BucketfmtError as error:
        return error


def _load_archived(
    state: ExaminedState, removals: Removals, missing: Collection[PastFile]
) -> Generator[Event, None, bool]:
    """Take what the archived timeline tells; return whether all of it was told."""
    since = min(file.requested_time for file in missing)
    try:
        for archived in load_archived_instants(
            state.store, state.config, state.limits, since=since
        ):
            if archived.action in _REMOVING:
                removals.add(archived.requested_time, archived.metadata)
                removals.add(archived.requested_time, archived.plan)
    except BucketfmtError as error:
        yield event_of_error(error, "T001", state.config.history_path)
        why = "the archived timeline, which would tell what deleted them, cannot be read"
        yield NotChecked("files that only reads of the past need", why)
        return False
    return True
