"""The `Table` that users see (docs/decisions/0006)."""

from __future__ import annotations

from collections.abc import Sequence

from bucketfmt.api.repairs import RepairableTable
from bucketfmt.arguments import (
    check_bool,
    check_text,
)
from bucketfmt.check import run as checking
from bucketfmt.check.examine import examine_share
from bucketfmt.check.report import CheckReport
from bucketfmt.choices import Depth
from bucketfmt.progress import ProgressCallback
from bucketfmt.report.contents import load_contents
from bucketfmt.report.table_report import TableReport
from bucketfmt.table.table import Moment
from bucketfmt.write.undo.plan_rollback import RollbackResult
from bucketfmt.write.undo.restore import RestoreResult, preview_restore, restore
from bucketfmt.write.undo.rollback import Rollbacks
from bucketfmt.write.undo.savepoints import (
    delete_savepoint,
    preview_savepoint,
    put_savepoint,
)

__all__ = [
    "Table",
]


class Table(RepairableTable):
    """A Hudi table. A table follows its timeline: each call sees the newest completed commit.

    Safe to use from several threads. Threads that share a Table, and forked children, are writers
    like any other: they wait for one another, or raise LockTimeoutError or ConflictError. A write
    or compaction that was begun before a fork belongs to the parent.

    Attributes:
        config: The table's properties, typed.
        limits: The bounds that were given to `open`.
        store: The table's files.
    """

    def rollback(self, instant: str | None = None, *, dry_run: bool = False) -> RollbackResult:
        """Take back one write: a failed write, or the newest completed write.

        A failed write needs no call: the next write takes it back. This call or the next write also
        completes a rollback that a crash or a failure of the store interrupted: without an instant
        the call does that alone, and takes back nothing more.

        A compaction is a write too: where the services compacted the table after a write of rows,
        the first call takes the compaction back, and a second one the rows.

        Args:
            instant: The write's requested time, as `inspect.commits()` returns it; by default that
                of a rollback that was begun, or else of the newest completed write.
            dry_run: Write nothing, and return what would be done.

        Raises:
            ValueError: the active timeline has no such write.
            CommitUnknownError: the store failed after the rollback was begun.
            ConflictError: the write has a savepoint; the write is not the newest; a compaction or a
                clean came after the write; all earlier writes are archived, so that the write marks
                the end of the archive; a writer is at work; or a restore is not finished.
            UnsupportedError: the table has a metadata table and the writer is set to refuse such
                tables.
            LockTimeoutError: the table lock could not be acquired.
        """
        planner = self._transactions.rollback_planner(self.config)
        if instant is None:
            instant = planner.find_next_target(self.timeline)
        check_text("instant", instant)
        check_bool("dry_run", dry_run)
        if dry_run:
            return planner.preview(instant)
        with self._transactions.exclusive() as rollbacks:
            return rollbacks.roll_back(instant)

    def savepoint(
        self,
        instant: str | None = None,
        *,
        user: str = "",
        comments: str = "",
        dry_run: bool = False,
    ) -> str:
        """Keep the table as it was after a write, for a later `restore`.

        The files of the savepoint are not cleaned until `delete_savepoint`.

        Args:
            instant: The write's requested time; the newest write by default. Of a compaction that
                took long, a restore takes back what was written since its requested time.
            user: Who makes the savepoint; recorded in it.
            comments: Why the savepoint is made; recorded in it.
            dry_run: Write nothing, and return the instant of the savepoint.

        Returns:
            The instant, for `restore`.

        Raises:
            ValueError: there is no such completed write, or a clean may have deleted its files.
            ConflictError: a restore is not finished.
            LockTimeoutError: the table lock could not be acquired.
        """
        if instant is not None:
            check_text("instant", instant)
        check_text("user", user)
        check_text("comments", comments)
        check_bool("dry_run", dry_run)
        if dry_run:
            return preview_savepoint(self._transactions.rollback_planner(self.config), instant)
        with self._transactions.locked() as table:
            return put_savepoint(Rollbacks(table), instant, user, comments)

    def delete_savepoint(self, instant: str) -> None:
        """Delete a savepoint: its files may then be cleaned, and its write be rolled back.

        Raises:
            ValueError: there is no savepoint at this instant.
            ConflictError: a restore is not finished.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_text("instant", instant)
        with self._transactions.locked() as table:
            delete_savepoint(Rollbacks(table), instant)

    def restore(self, savepoint: str, *, dry_run: bool = False) -> RestoreResult:
        """Take back every write after a savepoint.

        Until the restore is done, readers see the table as it was after one of these writes, and
        writes are refused. After a crash, call this again.

        Args:
            savepoint: The savepoint's instant.
            dry_run: Write nothing, and return what would be done.

        Raises:
            ValueError: there is no such savepoint.
            ConflictError: there is a later savepoint; a writer is at work; another restore is not
                finished; or a write to take back was archived.
            CorruptError: files of the savepoint are missing.
            UnsupportedError: the table has a metadata table and the writer is set to refuse such
                tables.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_text("savepoint", savepoint)
        check_bool("dry_run", dry_run)
        if dry_run:
            return preview_restore(self._transactions.rollback_planner(self.config), savepoint)
        with self._transactions.exclusive() as rollbacks:
            return restore(rollbacks, savepoint)

    def partitions_to_check(self) -> tuple[str, ...]:
        """Return the partition paths that `check` examines, for dividing the work.

        Raises:
            StorageError: hoodie.properties cannot be read, or the timeline cannot be listed.
        """
        return checking.load_partitions(self.store, self.config, self.limits)

    def check(
        self,
        depth: Depth = "default",
        partitions: Sequence[str] | None = None,
        since: Moment | None = None,
        max_findings: int = 100,
        progress: ProgressCallback | None = None,
        *,
        metadata_table_only: bool = False,
        examined: Sequence[bytes] = (),
    ) -> CheckReport:
        """Check the table as a file-system check does. Reads only.

        Damage in the table becomes a finding and raises no error, and the report lists everything
        that could not be checked. Ctrl-C ends the check with a report of the findings so far.

        Args:
            depth: quick: timeline, listings and names; no data file is opened. default: also
                footers, log framing and hashing metadata. full: also the checksum of every
                page, and the hash of every key.
            partitions: Check only these partition paths. The timeline is always checked.
            since: Open only the files of file groups that were written after this moment.
            max_findings: Keep this many findings, the worst first.
            progress: Called during the check.
            metadata_table_only: Compare only the metadata table with the table.
            examined: What `examine` returned, for example in other processes: these file slices
                are not opened.

        Raises:
            ValueError: the depth or a partition is unknown, or the index of `open` contradicts
                the table.
            StorageError: hoodie.properties cannot be read, or the timeline cannot be listed.
        """
        return checking.check_table(
            self.store,
            self.config,
            self.limits,
            self._index_finder,
            depth=depth,
            partitions=partitions,
            since=self._instant(since),
            max_findings=max_findings,
            progress=progress,
            metadata_table_only=metadata_table_only,
            examined=examined,
        )

    def examine(self, depth: Depth, number: int, of: int) -> list[bytes]:
        """Examine a share of the file slices, for a `check` that is done by several processes.

        >>> shares = [t.examine("full", number, 2) for number in range(2)]
        >>> report = t.check("full", examined=[found for share in shares for found in share])

        Args:
            depth: As of the check.
            number: The number of the share, from 0.
            of: The number of shares.

        Returns:
            A value for each file slice in which nothing is wrong. The check opens the other slices
            itself.

        Raises:
            TypeError: a number that is no integer.
            ValueError: the depth is unknown, there is no such share, or the index of `open`
                contradicts the table.
            StorageError: the timeline cannot be listed.
        """
        return examine_share(
            self.store, self.config, self.limits, self._index_finder, depth, number, of
        )

    def report(
        self, depth: Depth = "default", progress: ProgressCallback | None = None
    ) -> TableReport:
        """Return a report on the table: one page of HTML, which a notebook shows. Reads only.

        The page has the findings of a check, advice on buckets, and pictures of buckets, files and
        the timeline. Parts of a damaged table that cannot be read are left out, and the page says
        so.

        >>> t.report().save("report.html")

        Args:
            depth: As of `check`.
            progress: As of `check`.

        Raises:
            ValueError: the depth is unknown, or the index of `open` contradicts the table.
            StorageError: the timeline cannot be listed.
        """
        check = self.check(depth, progress=progress)
        return TableReport(load_contents(self, check, self.advise_buckets))
