"""Work on a table in two halves: begun and published here, its files written anywhere.

I/O. A write, a compaction, and whatever rewrites files puts an instant on the timeline, gives
tasks away that write the files, and is published by the receipts that the tasks return. Source:
BaseHoodieClient, BaseHoodieWriteClient.commitStats, HoodieTable.finalizeWrite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from bucketfmt.errors import BucketfmtError, CommitUnknownError, ConflictError, UnsupportedError
from bucketfmt.format.names.instants import find_instant_file
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.process import this_process
from bucketfmt.snapshot.overtaken import find_what_may_be_archived
from bucketfmt.storage.streams import do_together
from bucketfmt.timeline.locking.heartbeat import Heartbeat
from bucketfmt.timeline.markers import delete_announced_files, delete_markers, load_markers
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.locked_table import LockableTable, LockedTable
from bucketfmt.write.commit.receipts import (
    Receipt,
    RowReport,
    Winners,
    find_winners,
    reports_by_path,
)
from bucketfmt.write.commit.result import CommitResult

__all__ = ["PendingInstant", "ResumableWork", "StartedWork"]

_Self = TypeVar("_Self", bound="StartedWork")


class PendingInstant:
    """An instant that this process keeps alive until it publishes it.

    The instant belongs to the process that began it, or took it up: a forked child may do nothing
    about it.

    Attributes:
        instant: The requested time.
        table: The table.
        heartbeat: Of the instant.
    """

    def __init__(self, table: LockableTable, instant: Instant, heartbeat: Heartbeat) -> None:
        """Set up.

        Args:
            table: The table.
            instant: On the timeline of the table, requested or inflight.
            heartbeat: Of the instant.
        """
        self.instant = instant.requested_time
        self.table = table
        self._instant = instant
        self.heartbeat = heartbeat
        self._process = this_process()
        self._reports: Mapping[str, RowReport] = {}
        self._markers: Collection[str] | None = None

    @property
    def is_own(self) -> bool:
        """Whether the instant belongs to this process."""
        return self._process == this_process()

    def check_own(self) -> None:
        """Refuse to go on in a forked child.

        Raises:
            UnsupportedError: the parent began the instant.
        """
        if not self.is_own:
            raise UnsupportedError(
                f"the {self._instant.action} of {self.instant} was begun by the process that this "
                "one was forked from, which goes on with it; publish it there, or begin another "
                "one here. A write can be handed over before the fork (hand_over, resume_write)"
            )

    def find_winners(self, receipts: Iterable[bytes | Receipt]) -> Winners:
        """Return one receipt for each file group, whatever attempts there were.

        What they report of rows goes to the metadata table with `complete`.

        Raises:
            CorruptError: a receipt does not decode, or tells of a file that is not this instant's.
            ValueError: different tasks had rows of one file group.
            UnsupportedError: this is a forked child.
        """
        self.check_own()
        found = find_winners(receipts, self.instant, self.table.limits)
        self._reports = reports_by_path(found)
        return found

    def delete_other_files(self, written: Mapping[str, Sequence[WriteStat]]) -> None:
        """Delete what tasks announced, and possibly wrote, and is not among the files to commit.

        Nothing where these are not announced any more: another process has begun the instant again,
        or completed it, as the publisher finds out under the lock.

        Args:
            written: The files to commit, by partition path.

        Raises:
            ConflictError: the heartbeat was lost. Nothing was deleted.
            StorageError: the store failed; some of the files may be left.
            UnsupportedError: this is a forked child.
        """
        self.check_own()
        kept = _paths_of(written)

        def may_remove(announced: Collection[str]) -> bool:
            self._check_alive()
            return kept.issubset(announced)

        self._markers = delete_announced_files(
            self.table.store, self.instant, self.table.limits, kept=kept, may_remove=may_remove
        )

    def _check_alive(self) -> None:
        # Whoever began a lost compaction or resize again announces files that it may have committed
        # already. What was announced before the heartbeat was lost is not theirs.
        if self.heartbeat.is_lost():
            raise ConflictError(
                f"the heartbeat of {self._instant.action} {self.instant} was lost: this process "
                "stood still for so long that others may have taken it back or begun it again. "
                "Nothing is published; reload the table and retry"
            )

    def check_not_begun_again(
        self, table: LockedTable, written: Mapping[str, Sequence[WriteStat]]
    ) -> None:
        """Refuse to publish an instant that another process has begun again.

        Args:
            table: The table while its lock is held: nobody begins the instant again then.
            written: The files to commit, by partition path.

        Raises:
            ConflictError: another process has begun it again.
            CorruptError: see `load_markers`.
            StorageError: the store failed.
        """
        if self.instant not in table.timeline.pending.requested_times:
            return  # `complete` says what became of it
        markers = load_markers(table.store, self.instant, table.limits)
        announced = {marker.data_file_path for marker in markers}
        # Whoever begins a compaction or resize again removes what an earlier attempt wrote, and
        # what announced it (`remove_earlier_attempt`). It takes this process for dead where their
        # clocks differ by more than heartbeats tolerate.
        if not _paths_of(written).issubset(announced):
            self.heartbeat.abandon()  # its file is that of the other process too
            raise ConflictError(
                f"{self._instant.action} {self.instant} was begun again by another process, which "
                "took this one for dead: by its clock the heartbeat was too old. Nothing is "
                "published here; set the clocks of the machines"
            )

    def leave_to_others(self) -> None:
        """Leave the instant pending, for anyone to begin again. A second call does nothing.

        Where the heartbeat was lost, its file may be that of somebody who has begun it again.
        """
        if self.heartbeat.is_lost():
            self.heartbeat.abandon()
        else:
            self.heartbeat.stop()

    def complete(
        self, table: LockedTable, metadata: CommitMetadata, *, is_blind: bool = False
    ) -> Instant:
        """Publish the instant, while its heartbeat is kept. Errors as of `LockedTable.publish`."""
        reports = self._reports
        return table.publish(self._instant, metadata, self.heartbeat, reports, is_blind=is_blind)

    def is_built_on(
        self,
        before: Timeline,
        now: Timeline,
        config: TableConfig,
        metadata: CommitMetadata,
        *,
        by_instant: bool,
    ) -> bool:
        """Whether what came onto the timeline since names this instant, or one of its files.

        Or a file group that replaces others: a log file of that group does not name this instant's
        files.

        Args:
            before: The timeline before the instant was published.
            now: The timeline.
            config: The table's properties.
            metadata: What it wrote.
            by_instant: Whether the instant itself counts. That of a compaction is named by writes
                that began while it was pending.
        """
        if find_what_may_be_archived(before, now) is not None:
            return True  # it may have been archived
        files = [(stat.path or "").rpartition("/")[2] for stat in metadata.write_stats]
        replacing = []
        if any(metadata.partition_to_replace_file_ids.values()):
            replacing = [stat.file_id or "" for stat in metadata.write_stats]
        known = {instant.file_name for instant in before.instants}
        for entry in self.table.store.list(config.timeline_path):
            file = find_instant_file(entry.name, config.timeline_layout)
            if file is None or entry.name in known or file.requested_time == self.instant:
                continue
            if file.action == "rollback":  # of this instant, which it then does not stand on
                continue
            names = [self.instant, *replacing] if by_instant else []
            # Until version 6 a deltacommit lists the log files of its slice, pending ones too.
            if file.action != "deltacommit" or not by_instant:
                names += files
            data = self.table.store.read(entry.path, self.table.limits.timeline_file_bytes_max)
            if any(name and name.encode() in data for name in names):
                return True
        return False

    def end(self) -> None:
        """Delete what nobody needs once the instant is completed."""

        def delete() -> None:
            with suppress(BucketfmtError):  # markers of a completed instant hurt no one
                delete_markers(self.table.store, self.instant, self._markers)

        do_together(self.table.store, delete, self.heartbeat.stop)


def _paths_of(written: Mapping[str, Sequence[WriteStat]]) -> set[str]:
    return {stat.path or "" for stats in written.values() for stat in stats}


class StartedWork(ABC):
    """Work that has begun. A context, which is left before or after `publish`.

    Attributes:
        instant: The requested time.
    """

    def __init__(self, pending: PendingInstant) -> None:
        self.instant = pending.instant

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(error)

    def __reduce__(self) -> str:
        raise TypeError(
            f"a {type(self).__name__} stays in the process that began it: send its `task`, and "
            "publish what the task returns here"
        )

    @abstractmethod
    def publish(self, receipts: Iterable[bytes]) -> CommitResult:
        """Complete the instant by what the tasks returned."""

    @abstractmethod
    def _leave(self, error: BaseException | None) -> None:
        """End this process's part, unless `publish` did; `error` is what the body raised."""


class ResumableWork(StartedWork):
    """Work by a plan on the timeline: left without `publish`, it is for anyone to begin again."""

    def __init__(self, pending: PendingInstant) -> None:
        super().__init__(pending)
        self._pending = pending

    def abandon(self) -> None:
        """Leave it pending, for anyone to begin again. Nothing happens once it is published."""
        self._pending.leave_to_others()

    def _leave(self, error: BaseException | None) -> None:
        # While it may be published yet, nobody may begin it again: its heartbeat expires later.
        if isinstance(error, CommitUnknownError):
            self._pending.heartbeat.abandon()
        else:
            self.abandon()
