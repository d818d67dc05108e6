"""The commits of a table that were read or written already: a completed instant does not change.

I/O: reads the instants' files that are not kept yet, many at a time, the newest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bucketfmt.errors import BucketfmtError, CorruptError, NotFoundError, StorageError
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.limits import Limits
from bucketfmt.process import new_mutex
from bucketfmt.snapshot.data_files.written_files import CommitRecord
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.streams import beside, map_in_threads, waiting_count
from bucketfmt.timeline.load import load_commit_metadata, load_timeline
from bucketfmt.timeline.timeline import Instant, Timeline, count_shared

__all__ = ["KeptCommits"]

_LISTINGS = 3
_INSTANTS_OF_A_PAGE = 300
"""The files of fewer instants are listed by one request: object stores return 1,000 and more."""


class KeptCommits:
    """Loads the commits of one table, each once. Safe to use from several threads."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self._limits = store, limits
        self._kept: dict[Instant, CommitRecord] = {}
        self._loaded: tuple[Sequence[Instant], tuple[CommitRecord, ...]] = (), ()  # by `load`
        self._published: dict[Instant, CommitMetadata] = {}  # of this process, not yet asked for
        self._own: dict[str, Instant] = {}  # those that this process published
        self._left: tuple[Timeline, FileInfo] | None = None  # and the state of its folder
        self._guard = new_mutex()

    def load(self, config: TableConfig, timeline: Timeline) -> tuple[CommitRecord, ...]:
        """Return the commits of all completed writes of a timeline, in its order.

        Commits of other instants, which have left the timeline, are kept no longer.

        A listing does not show one moment: amid an archival it may have an old instant and lack
        later ones, whose rows would not be read. Archival removes the oldest instants first, so
        none was removed during the listing if the oldest one is there after it. An object store
        lists a short timeline by one request, at one moment.

        Raises:
            CorruptError: a commit does not decode.
            NotFoundError: the file of an instant is gone: list the timeline again.
        """
        before, known = self._loaded
        writes = timeline.writes.completed
        instants = writes.instants
        shared = count_shared(before, instants)
        newest_first = instants[shared:][::-1]
        is_one_moment = not self._store.failures_are_final and len(instants) < _INSTANTS_OF_A_PAGE
        oldest = () if is_one_moment else instants[:1]
        with beside(self._store, partial(self._check_there, config, oldest)):
            found = map_in_threads(
                lambda instant: self.load_one(config, instant),
                newest_first,
                waiting_count(self._store),
            )
        loaded = (*known[:shared], *found[::-1])
        with self._guard:
            for gone in {*before[shared:]}.difference(newest_first):
                self._kept.pop(gone, None)
            times = writes.requested_times
            self._own = {time: own for time, own in self._own.items() if time in times}
            self._published.clear()  # those of this timeline are kept now
            self._loaded = instants, loaded
        return loaded

    def keep(self, instant: Instant, metadata: CommitMetadata) -> None:
        """Keep a commit that this process has just published, so that it need not be read."""
        with self._guard:
            if instant.completion_time is not None:  # else nobody knows it as it will be listed
                self._published[instant] = metadata
            self._own[instant.requested_time] = instant

    def is_own(self, requested_time: str) -> bool:
        """Whether this process published the commit of this requested time."""
        return requested_time in self._own

    def leave(self, config: TableConfig, timeline: Timeline, done: Instant) -> None:
        """Remember the timeline as this process leaves it, while it still holds the table lock.

        Args:
            config: The table's properties.
            timeline: As it was listed under the lock.
            done: The instant that was completed since.

        Raises:
            StorageError: the store failed.
        """
        # In layout 1 the times of files count as well; an object store has no folders.
        if config.timeline_layout != 1 and self._store.failures_are_final:
            folder = self._store.info(config.timeline_path)
            self._left = None if folder is None else (timeline.with_instant(done), folder)

    def find_left(self) -> Timeline | None:
        """Return the timeline as this process left it; None where its folder was changed since.

        This spares a listing, and is no proof: a change within a tick of the file system's clock is
        not seen, nor at once one that another machine made. Whoever goes by it lists the timeline
        once more, under the table lock.

        Raises:
            StorageError: the store failed.
        """
        left = self._left
        if left is None or left[1].modified is None or self._store.info(left[1].path) != left[1]:
            return None
        return left[0]

    def list_timeline(self, config: TableConfig, listed: Timeline | None = None) -> Timeline:
        """List the timeline; again where the store lists late.

        A listing is late that lacks a commit which the store has: one of this process, or one that
        is pending by the listing and was completed by an earlier one. A write by such a listing
        would hide that commit, or take the commit back as a failed one.

        Args:
            config: The table's properties.
            listed: The timeline, if it was just listed.

        Raises:
            StorageError: the store lists late each time, or failed.
        """
        late: Instant | None = None
        for _ in range(_LISTINGS):
            timeline = listed or load_timeline(self._store, config, self._limits)
            listed = None
            late = self._find_unlisted(config, timeline)
            if late is None:
                return timeline
        raise StorageError(
            f"the store does not list {late.file_name if late else ''}, which is there: what is "
            "written now could hide that commit. Retry; and keep tables on stores that list every "
            "file as soon as it was created"
        )

    def _find_unlisted(self, config: TableConfig, timeline: Timeline) -> Instant | None:
        """Return a commit that the store has and did not list; None for none."""
        if self._store.failures_are_final:
            return None
        listed = timeline.completed.requested_times
        missing = {own for time, own in [*self._own.items()] if time not in listed}
        pending = timeline.pending.requested_times
        if pending:
            missing.update(i for i in self._loaded[0] if i.requested_time in pending - listed)

        def is_there(instant: Instant) -> bool:
            path = join_path(config.timeline_path, instant.file_name)
            return self._store.info(path) is not None

        asked = [*missing]
        found = map_in_threads(is_there, asked, waiting_count(self._store))
        for instant, is_late in zip(asked, found, strict=True):
            if is_late:
                return instant
            with self._guard:
                self._own.pop(instant.requested_time, None)  # it was archived, or taken back
        return None

    def _check_there(self, config: TableConfig, instants: Sequence[Instant]) -> None:
        """Check that the files of instants are there; those that are not kept are read anyway."""
        for instant in instants:
            path = join_path(config.timeline_path, instant.file_name)
            if instant in self._kept and self._store.info(path) is None:
                raise NotFoundError("archived since the timeline was listed; read again", path=path)

    def load_one(self, config: TableConfig, instant: Instant) -> CommitRecord:
        """Return the commit of one completed write. Errors as of `load`."""
        found = self._kept.get(instant)
        if found is None:
            metadata = self._published.get(instant)
            if metadata is None:
                metadata = load_commit_metadata(self._store, config, instant, self._limits)
            found = _record(config, instant, metadata, self._limits)
            with self._guard:
                found = self._kept.setdefault(instant, found)
        return found


def _record(
    config: TableConfig, instant: Instant, metadata: CommitMetadata, limits: Limits
) -> CommitRecord:
    path = join_path(config.timeline_path, instant.file_name)
    if instant.action == "replacecommit" and metadata == CommitMetadata():
        # Hudi reads it as one that replaced nothing, and so the replaced rows a second time.
        raise CorruptError(
            "a completed replacecommit that is empty: which file groups it replaced is lost; "
            "restore the file",
            path=path,
        )
    # In layout 1 only a file's modification time would tell, which a copy does not keep.
    tells = config.timeline_layout > 1 and not instant.legacy
    completed = (instant.completion_time if tells else None) or instant.requested_time
    try:
        return CommitRecord.from_metadata(instant.requested_time, completed, metadata, limits)
    except BucketfmtError as error:
        raise error.within(path=path) from None
