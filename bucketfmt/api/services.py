"""Table services: compaction, cleaning and archiving."""

from __future__ import annotations

from typing import get_args

from bucketfmt.api.writes import WritableTable
from bucketfmt.arguments import (
    check_bool,
    check_callable,
    check_choice,
    check_int,
    check_kind,
)
from bucketfmt.choices import CleanPolicy, Codec
from bucketfmt.progress import ProgressCallback
from bucketfmt.timeline.timeline import Instant
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.services.archiving import Archiver
from bucketfmt.write.services.cleaning import Cleaner, CleanResult
from bucketfmt.write.services.compaction import Compactor, Rewrite, StartedCompaction
from bucketfmt.write.services.maintenance import MaintainResult, Maintenance
from bucketfmt.write.services.plan_archive import ArchivePolicy
from bucketfmt.write.services.plan_clean import Retention
from bucketfmt.write.services.plan_compaction import CompactionPreview
from bucketfmt.write.services.plan_services import Services

__all__ = [
    "MaintainedTable",
    "check_service",
]


class MaintainedTable(WritableTable):
    """A table with its services."""

    def compact(
        self,
        *,
        min_log_files: int = 1,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Merge log files into base files, so that readers have nothing to merge.

        A pending compaction, which Hudi scheduled or a crash left behind, is executed as it was
        planned. It leaves out planned log files that no completed instant wrote and that no longer
        exist: their write failed and was taken back. Without a pending compaction, a new one is
        scheduled and executed. Writers may continue meanwhile. Do not call this while Hudi executes
        a compaction, which cannot be distinguished from one that failed.

        Args:
            min_log_files: Leave out file groups with fewer log files.
            codec: The codec of parquet; by default that of the table's files, as in
                `WriteArguments`.
            progress: Called as files are written.

        Returns:
            The commit; None if there was nothing to compact.

        Raises:
            ConflictError: another process is executing the pending compaction.
            CorruptError: a file of the compaction is missing or damaged.
            UnsupportedError: tables of this kind cannot be written, or the table has a metadata
                table and the writer is set to refuse such tables.
            LockTimeoutError: the table lock could not be acquired.
            CommitUnknownError: the store failed, and the commit may have taken effect.
        """
        check_service(min_log_files, codec, progress)
        compactor = Compactor(self._listed_snapshot, self._transactions)
        return compactor.run(min_log_files, codec, progress)

    def preview_compaction(self, *, min_log_files: int = 1) -> CompactionPreview:
        """Return what `compact` would do now. Reads only; raises the errors of its planning."""
        check_service(min_log_files)
        return Compactor(self._listed_snapshot, self._transactions).preview(min_log_files)

    def start_compaction(
        self, *, min_log_files: int = 1, codec: Codec | None = None
    ) -> StartedCompaction | None:
        """Begin a compaction whose files other processes write. Otherwise as `compact`.

        >>> with t.start_compaction() as started:
        ...     task = started.task                                           # send it
        ...     receipts = [task.compact(p, f"{n}-0-0") for n, p in enumerate(started.payloads)]
        ...     started.publish(receipts)
        """
        check_service(min_log_files, codec)
        compactor = Compactor(self._listed_snapshot, self._transactions)
        return compactor.start(min_log_files, codec)

    def clean(
        self,
        *,
        policy: CleanPolicy = "KEEP_LATEST_COMMITS",
        retain: int | None = None,
        dry_run: bool = True,
        progress: ProgressCallback | None = None,
    ) -> CleanResult:
        """Delete files that no reader of the retained commits needs; by default only list them.

        Files of the newest file slices and of savepoints are never deleted, nor files that pending
        compactions and clusterings need. A clean that a crash left pending is completed first.

        Args:
            policy: KEEP_LATEST_COMMITS: the table can be read as of the last `retain` commits.
                KEEP_LATEST_FILE_VERSIONS: each file group keeps `retain` file slices, and replaced
                file groups keep none.
            retain: 10 commits or 3 file slices by default.
            dry_run: Return the files and delete nothing.
            progress: Called as files are deleted.

        Raises:
            ValueError: `retain` is not positive, or the policy is unknown.
            UnsupportedError: tables of this kind cannot be written, or the table has a metadata
                table and the writer is set to refuse such tables.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_bool("dry_run", dry_run)
        if progress is not None:
            check_callable("progress", progress)
        retention = Retention(policy, retain)
        cleaner = Cleaner(self._listed_snapshot, self._transactions, progress)
        return cleaner.preview(retention) if dry_run else cleaner.run(retention)

    def archive(
        self, *, min_commits: int = 20, max_commits: int = 30, dry_run: bool = False
    ) -> tuple[Instant, ...]:
        """Move the oldest instants to the archived timeline; return them.

        Reads return the same rows as before, and `changes` and `idempotency_key` also search the
        archive. Only a `scan(as_of=...)` of an archived commit is refused where a clean may have
        deleted files of it, even if it has not. Nothing happens as long as there are at most
        `max_commits` commits.

        Args:
            min_commits: Leave at least this many commits.
            max_commits: Archive only if there are more commits than this.
            dry_run: Move nothing, and return the instants that would be moved.

        Raises:
            ValueError: `min_commits` is less than 1, or greater than `max_commits`.
            UnsupportedError: the table has a metadata table and the writer is set to refuse such
                tables.
            CorruptError: an instant, or the archived timeline, is damaged.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_bool("dry_run", dry_run)
        kept = ArchivePolicy(min_commits, max_commits)
        archiver = Archiver(self._listed_snapshot, self._transactions)
        return archiver.preview(kept) if dry_run else archiver.run(kept)

    def maintain(
        self,
        services: Services | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        rewrite: Rewrite | None = None,
    ) -> MaintainResult:
        """Compact, clean and archive as far as that is due.

        Writes do so by themselves after a commit (`WriterConfig.services`). A compaction or a clean
        that another process is executing is left to that process, and one that Hudi planned is left
        to Hudi: `compact` and `clean` complete it.

        Args:
            services: When a service is due; by default as in `WriterConfig`, or `Services()`.
            dry_run: Write nothing, and return what would be done.
            progress: Called as files are written and deleted.
            rewrite: Rewrites the file groups of a compaction elsewhere: takes a `StartedCompaction`
                and returns the receipts of its payloads. By default the threads of this process.

        Raises:
            CorruptError: an instant, or a file of a service, is damaged.
            UnsupportedError: tables of this kind cannot be written.
            LockTimeoutError: the table lock could not be acquired.
            CommitUnknownError: the store failed, and the compaction may have taken effect.
        """
        check_bool("dry_run", dry_run)
        if progress is not None:
            check_callable("progress", progress)
        if rewrite is not None:
            check_callable("rewrite", rewrite)
        wanted = self._writer_config.services if services is None else services
        wanted = Services() if wanted is None else wanted
        check_kind("services", wanted, Services, "a value such as Services(compact_after=10)")
        maintenance = Maintenance(self._listed_snapshot, self._transactions, wanted)
        return maintenance.preview() if dry_run else maintenance.run(rewrite, progress)


def check_service(min_log_files: object, codec: object = None, progress: object = None) -> None:
    """Refuse arguments of a service that have the wrong type or mean nothing."""
    check_int("min_log_files", min_log_files, 1)
    if codec is not None:
        check_choice("codec", codec, get_args(Codec))
    if progress is not None:
        check_callable("progress", progress)
