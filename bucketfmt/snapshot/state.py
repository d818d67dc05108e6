"""A table as its timeline stands at one moment: loads what is asked for, and keeps it.

I/O. Everything is read at most once: the timeline when the state is made, commit metadata when
it is first needed. A state never changes; `Table` makes another state when the timeline has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter

from bucketfmt.errors import (
    BucketfmtError,
    ConflictError,
    CorruptError,
    IndexUnknownError,
    NotFoundError,
)
from bucketfmt.format.buckets.child_nodes import RingChange
from bucketfmt.format.buckets.rehashes import Rehash
from bucketfmt.format.names.instants import State, find_instant_file
from bucketfmt.format.names.layout import METADATA_FOLDER, SCHEMA_FOLDER
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.format.table.internal_schema import InternalSchema, decode_schema_history
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.plans import CleanerPlan
from bucketfmt.limits import Limits
from bucketfmt.process import cached_property
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.snapshot.kept_commits import KeptCommits
from bucketfmt.snapshot.listing import FileLister, StoreLister
from bucketfmt.snapshot.overtaken import (
    find_completed_since,
    find_given_up,
    find_what_overtook,
)
from bucketfmt.snapshot.schema import find_stating_commit
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import do_together
from bucketfmt.timeline.completion_times import CompletionTimes
from bucketfmt.timeline.history import (
    list_archive_files,
    load_archived_commits,
    load_archived_replacements,
    load_history,
)
from bucketfmt.timeline.load import (
    load_pending_compactions,
    load_pending_ring_changes,
    load_requested_content,
    load_timeline,
)
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant, Timeline

__all__ = ["TableState"]


class TableState:
    """A table under one timeline.

    Attributes:
        store: The table's files.
        config: The table's properties.
        timeline: The active timeline.
        limits: Bounds on what is read.
        lister: Says which partitions and files there are.
        is_outdated: Whether `has_changed` found that the table is no longer so.

    A `Table` gives its states the commits that earlier states have read (`KeptCommits`).
    """

    def __init__(
        self,
        store: Store,
        config: TableConfig,
        timeline: Timeline,
        limits: Limits,
        lister: FileLister,
        kept_commits: KeptCommits | None = None,
    ) -> None:
        self.store = store
        self.config = config
        self.timeline = timeline
        self.limits = limits
        self.lister = lister
        self._kept_commits = kept_commits or KeptCommits(store, limits)
        self.is_outdated = False
        self._listed_before: TableState | None = None

    @cached_property
    def commits(self) -> tuple[CommitRecord, ...]:
        """The completed write instants of the active timeline, by requested time."""
        return self._kept_commits.load(self.config, self.timeline)

    def is_own(self, commit: CommitRecord) -> bool:
        """Whether this process published the commit."""
        return self._kept_commits.is_own(commit.requested_time)

    @cached_property
    def stating_commits(self) -> tuple[CommitRecord, ...]:
        """The newest commit that states the table's columns, and those after it.

        Fewer are read than all `commits`: mostly one.
        """
        if "commits" in vars(self):
            return self.commits
        found: list[CommitRecord] = []
        for instant in reversed(self.timeline.writes.completed.instants):
            found.insert(0, self._load_commit(instant))
            if find_stating_commit(found) is not None:
                break
        return tuple(found)

    @cached_property
    def _replacing_commits(self) -> Sequence[CommitRecord]:
        """Those of `commits` that may have changed buckets."""
        times = self.timeline.completed.of(*REPLACING_ACTIONS).requested_times
        return (
            [commit for commit in self.commits if commit.requested_time in times] if times else ()
        )

    @cached_property
    def rehashes(self) -> tuple[Rehash, ...]:
        """The changes of the number of buckets that these instants made."""
        commits = self._replacing_commits
        return tuple(commit.rehash for commit in commits if commit.rehash is not None)

    @cached_property
    def has_migrations(self) -> bool:
        """Whether one of these instants moved partitions to a bucket index."""
        return any(commit.migration is not None for commit in self._replacing_commits)

    def without(self, instants: Collection[Instant]) -> TableState:
        """Return this state once these instants have left the timeline; files stay listed."""
        timeline, kept = self.timeline.without(instants), self._kept_commits
        return TableState(self.store, self.config, timeline, self.limits, self.lister, kept)

    def listed_by(self, lister: FileLister) -> TableState:
        """Return this state with another lister; what was read of the timeline stays read."""
        if lister is self.lister:
            return self
        state = TableState(
            self.store, self.config, self.timeline, self.limits, lister, self._kept_commits
        )
        state._listed_before = self
        kept = {key: value for key, value in vars(self).items() if key not in vars(state)}
        vars(state).update(kept)
        return state

    def load(self) -> None:
        """Read the instants' files now, while they are as the timeline lists them.

        Raises:
            NotFoundError: one is gone since the listing.
        """
        ahead = () if self.store.failures_are_final else (lambda: self.metadata_folders,)
        do_together(self.store, lambda: self.commits, lambda: self.pending_compactions, *ahead)

    @contextmanager
    def read_here(self, *, is_planned: bool = False) -> Iterator[None]:
        """Have the body read the table's files, and say who took away what is not there.

        Args:
            is_planned: Whether the body opens files that were there when the read was planned.

        Raises:
            NotFoundError: a file is gone, not because of damage but by a rollback or a clean.
        """
        try:
            yield
        except (CorruptError, NotFoundError) as error:
            what = self.load_what_overtook()
            if what is None:
                clean = self._load_what_deletes(error) if is_planned else None
                if clean is None:
                    raise
                raise NotFoundError(
                    f"a clean ({clean.requested_time}) deletes this file, which the moment needs. "
                    "Read a later moment; to keep moments readable, clean less or set savepoints",
                    path=error.path,
                ) from error
            raise NotFoundError(
                f"{what} while the table was read; read again", path=error.path
            ) from error

    @contextmanager
    def written_upon(self) -> Iterator[None]:
        """Have the body write what stands on this state, and say why the state does not hold.

        Raises:
            ConflictError: others have changed the table, so that the body's error tells no damage.
        """
        try:
            yield
        except (CorruptError, IndexUnknownError, NotFoundError) as error:
            what = self.load_what_overtook() or self._load_what_came()
            if what is None:
                raise
            raise ConflictError(
                f"{what} while this write stood on the table as it was before ({error}). Nothing "
                "was published; reload the table and retry"
            ) from error

    def _load_what_came(self) -> str | None:
        """Return what may have changed the index or the schema since, in words; None if nothing."""
        config = load_config(self.store, self.limits)
        if config.properties != self.config.properties:
            return "hoodie.properties changed"
        now = load_timeline(self.store, config, self.limits)
        came = find_completed_since(self.timeline, now)
        if came is not None:
            return f"{came.action} {came.requested_time} was completed"
        gone = find_given_up(self.timeline, now)
        return None if gone is None else f"{gone.action} {gone.requested_time} was given up"

    def has_changed(self) -> bool:
        """Whether others have changed the timeline or the properties of the table since.

        Raises:
            StorageError: the store failed.
        """
        config = load_config(self.store, self.limits)
        now = load_timeline(self.store, config, self.limits)
        is_same = config.properties == self.config.properties
        if is_same and now.instants == self.timeline.instants:
            return False
        state: TableState | None = self
        while state is not None:
            state.is_outdated = True
            state = state._listed_before
        return True

    def load_what_overtook(self) -> str | None:
        """Return what may have deleted files of this state since, in words; None if nothing."""
        now = load_timeline(self.store, self.config, self.limits)
        return find_what_overtook(self.timeline, now)

    def _load_what_deletes(self, error: BucketfmtError) -> Instant | None:
        """Return the clean that deletes the file of an error; None if none does.

        It was at work before the timeline was read, and still is: no instant tells it by its state.
        """
        if not isinstance(error, NotFoundError) or error.path is None:
            return None
        name = error.path.rpartition("/")[2]
        for clean in self.timeline.pending.of("clean").instants:
            plan = load_requested_content(self.store, self.config, clean, self.limits)
            if isinstance(plan, CleanerPlan) and name in plan.file_names:
                return clean
        return None

    def _load_commit(self, instant: Instant) -> CommitRecord:
        return self._kept_commits.load_one(self.config, instant)

    def load_archived_statement(self, is_seen: Callable[[str, str], bool]) -> CommitRecord | None:
        """Return the newest archived commit that states the table's columns.

        Args:
            is_seen: Whether a commit counts, given its requested time and its completion time.

        Raises:
            CorruptError: a file of the history does not decode.
            StorageError: the store failed.
        """
        newest: CommitRecord | None = None
        for name, _ in reversed(list_archive_files(self.store, self.config, self.limits)):
            for instant, metadata in load_archived_commits(
                self.store, self.config, name, self.limits
            ):
                time = instant.requested_time
                completed = instant.completion_time or time
                if is_seen(time, completed) and (newest is None or newest.requested_time < time):
                    record = CommitRecord.from_metadata(time, completed, metadata, self.limits)
                    newest = find_stating_commit([record]) or newest
            if newest is not None:
                break
        return newest

    def find_unlisted_size(self, path: str) -> int | None:
        """Return the size of a file that the listing has not; None if there is no such file.

        An object store may list a file some time after the file was created, and a metadata table
        may have a wrong name for the file (DEV-35), or none.
        """
        if self.store.failures_are_final and isinstance(self.lister, StoreLister):
            return None
        found = self.store.info(path)
        return None if found is None or found.is_dir else found.size

    @cached_property
    def metadata_folders(self) -> frozenset[str]:
        """The names of the folders in the metadata folder: an object store has no empty ones."""
        entries = self.store.list(METADATA_FOLDER)
        return frozenset(entry.name for entry in entries if entry.is_dir)

    def may_have(self, folder: str) -> bool:
        """Whether this folder, somewhere below the metadata folder, may have files."""
        return folder.removeprefix(f"{METADATA_FOLDER}/").partition("/")[0] in self.metadata_folders

    @cached_property
    def pending_compactions(self) -> Mapping[FileGroupId, Instant]:
        """The pending compaction of each file group that has one."""
        return load_pending_compactions(self.store, self.config, self.timeline, self.limits)

    @cached_property
    def pending_ring_changes(self) -> Mapping[str, RingChange]:
        """What pending clusterings will do to the rings of partitions, by partition path."""
        return load_pending_ring_changes(self.store, self.config, self.timeline, self.limits)

    @cached_property
    def _completion_times(self) -> CompletionTimes:
        load = partial(load_history, self.store, self.config, self.limits)
        return CompletionTimes(self.timeline, load)

    @property
    def archived_instants(self) -> Sequence[Instant]:
        """The instants of the archived timeline, oldest first."""
        return self.archived_since("")

    def archived_since(self, time: str) -> tuple[Instant, ...]:
        """Return the archived instants that were requested at `time` or later, oldest first.

        Earlier ones may be among them. Errors as of `load_history`.
        """
        return self._completion_times.since(time).history

    @cached_property
    def replaced_in_history(self) -> Mapping[FileGroupId, CommitRecord]:
        """The file groups that archived instants replaced, each with the last such instant.

        Only those that may hide what an active commit wrote: they completed no earlier than one.
        Errors as of `load_history`.
        """
        since = min((commit.completion_time for commit in self.commits), default="~")
        replaced: dict[FileGroupId, CommitRecord] = {}
        for instant, metadata in load_archived_replacements(
            self.store, self.config, since, self.limits
        ):
            time = instant.requested_time
            completed = instant.completion_time or time
            record = CommitRecord.from_metadata(time, completed, metadata, self.limits)
            for group in record.replaced:
                known = replaced.get(group, record)
                replaced[group] = max(known, record, key=attrgetter("hides_until"))
        return replaced

    def completion_time(self, requested_time: str) -> str | None:
        """Return when an instant completed, asking the archived timeline only if need be."""
        timeline = self.timeline
        if timeline.needs_history(requested_time):
            timeline = self._completion_times.since(requested_time)
        return timeline.completion_time(requested_time)

    def write_times(self, since: str) -> list[tuple[str, str]]:
        """Return (requested, completion time) of completed writes, archived ones if `since` needs.

        All writes after `since` are among them.
        """
        first = self.timeline.writes.first
        instants = self.timeline.writes.completed.instants
        if first is not None and since < first.requested_time:
            archived = tuple(self.archived_instants)
            instants = (
                *Timeline(archived, self.timeline.layout).writes.completed.instants,
                *instants,
            )
        return [(i.requested_time, i.completion_time or i.requested_time) for i in instants]

    @cached_property
    def schema_history(self) -> Sequence[InternalSchema]:
        """Schemas with column ids, newest first; empty where the table keeps none."""
        if not self.may_have(SCHEMA_FOLDER):
            return ()
        newest = ""
        for entry in self.store.list(SCHEMA_FOLDER):
            found = find_instant_file(entry.name, self.config.timeline_layout)
            if (
                found is None
                or found.action != "schemacommit"
                or found.state is not State.COMPLETED
            ):
                continue
            if self.timeline.is_completed(found.requested_time):
                newest = max(newest, entry.path)
        if not newest:
            return ()
        try:
            data = self.store.read(newest, self.limits.timeline_file_bytes_max)
            return decode_schema_history(data, self.limits)
        except BucketfmtError as error:
            raise error.within(path=newest) from None
