"""A write between its beginning and its commit: files are written anywhere meanwhile.

I/O. `StartedWrite` stays with the process that began the write, keeps its heartbeat going and
commits it; `WriteTask`, which it gives away, writes the files. Source: BaseHoodieWriteClient.
startCommit and commitStats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

import pyarrow as pa

from bucketfmt.arguments import (
    check_bool,
    check_callable,
    check_choice,
    check_int,
    check_kind,
    check_text,
    check_texts,
)
from bucketfmt.choices import Concurrency, Missing
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.directory_files import put_directories
from bucketfmt.progress import ProgressCallback
from bucketfmt.snapshot.data_files.written_files import IDEMPOTENCY_KEY
from bucketfmt.table.pinned import PinnedTable
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.receipts import Receipt, stats_by_partition
from bucketfmt.write.commit.result import CommitResult, nothing_done
from bucketfmt.write.commit.started_work import StartedWork
from bucketfmt.write.commit.transaction import Transaction
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.bucket_writer import BucketWriter, FileFormats
from bucketfmt.write.rows.replacement import find_replacement
from bucketfmt.write.rows.schema_change import GivenColumns
from bucketfmt.write.rows.write_task import WriteTask
from bucketfmt.write.services.compaction import Rewrite
from bucketfmt.write.services.maintenance import Maintenance

__all__ = ["StartedWrite", "WriteOptions", "check_idempotency_key"]


_OWN_ENTRIES = ("schema", "latest_schema", IDEMPOTENCY_KEY)  # of extraMetadata: set here


def check_idempotency_key(key: object) -> None:
    """Refuse a key that is not text, or empty.

    Raises:
        TypeError: the key is not text.
        ValueError: the key is empty.
    """
    if not check_text("idempotency_key", key):
        raise ValueError("idempotency_key is not empty; leave it out, or give a text")


def _check_commit_metadata(given: object) -> None:
    for key in check_texts("commit_metadata", given):
        if not key:
            raise ValueError("a key of commit_metadata is empty; give a text")
        if key in _OWN_ENTRIES:
            raise ValueError(f"the entry {key!r} is set by the writer; take another key")


@dataclass(frozen=True)
class WriteOptions:
    """How to write.

    Attributes:
        commit_metadata: Entries of the caller's for the commit's `extraMetadata`.
        idempotency_key: A commit with this key is made once: the same key again returns it.
        read_at: The timeline of the table that the caller read to decide what to write. Whoever
            wrote to the same buckets since is in conflict. None: the beginning of the write.
        num_found: How many of the keys to delete were in the table as of `read_at`; None if that is
            not known. If others wrote since, a key that is not there any more is a conflict: it may
            have been moved to another partition.
        retries: How often to begin anew after a conflict. Not done with `read_at`.
        formats: How files are encoded.
        evolve: Whether the rows may add columns and widen types.
        missing: What becomes of columns that the rows lack.
        progress: Told how many file groups are written.

    Raises:
        TypeError: a value of another type.
        ValueError: an empty key, an entry that the writer sets itself, or a value out of range.
    """

    commit_metadata: Mapping[str, str] | None = None
    idempotency_key: str | None = None
    read_at: Timeline | None = None
    num_found: int | None = None
    retries: int = 3
    formats: FileFormats = field(default_factory=FileFormats)
    evolve: bool = False
    missing: Missing = "error"
    progress: ProgressCallback | None = None

    def __post_init__(self) -> None:
        if self.commit_metadata is not None:
            _check_commit_metadata(self.commit_metadata)
        if self.idempotency_key is not None:
            check_idempotency_key(self.idempotency_key)
        if self.read_at is not None:
            check_kind("read_at", self.read_at, Timeline, "the `timeline` of a table")
        check_int("retries", self.retries, 0)
        check_choice("missing", self.missing, get_args(Missing))
        check_bool("evolve", self.evolve)
        if self.progress is not None:
            check_callable("progress", self.progress)

    def given(self, operation: WriteOperation, schema: pa.Schema) -> GivenColumns:
        """Return the columns of rows to write, and what they may do to the table's.

        Raises:
            ValueError: stored values are to be kept where rows replace or are all new.
        """
        if self.missing == "keep" and not operation.merges:
            raise ValueError(
                f'missing="keep" is for upsert and insert, not for {operation.value}, which '
                'looks at no stored rows; pass missing="null"'
            )
        return GivenColumns(schema, self.evolve, self.missing)

    @property
    def allowed_retries(self) -> int:
        """How often to begin anew after a conflict: not where the rows would be out of date."""
        return 0 if self.read_at is not None else self.retries


class StartedWrite(StartedWork):
    """A write that has begun. A context: left without `publish`, nothing of it remains.

    Attributes:
        instant: The requested time: `_hoodie_commit_time` of the rows.
    """

    def __init__(
        self,
        transaction: Transaction,
        basis: Basis,
        operation: WriteOperation,
        options: WriteOptions,
        dropped: Sequence[str] = (),
        concurrency: Concurrency = "optimistic",
        maintenance: Maintenance | None = None,
    ) -> None:
        """Set up.

        Args:
            transaction: The commit that is inflight.
            basis: What it stands on.
            operation: What the write does.
            options: How to write.
            dropped: Partitions to hide.
            concurrency: How the table's writers go together.
            maintenance: Runs the services that are due after the commit.
        """
        super().__init__(transaction)
        self._maintenance = maintenance
        self._transaction = transaction
        self._basis = basis
        self._operation = operation
        self._options = options
        self._dropped = dropped
        self._concurrency = concurrency

    @property
    def task(self) -> WriteTask:
        """What writes the files, anywhere: send it there."""
        basis = self._basis
        state = basis.snapshot.state
        timeline = Timeline(state.timeline.instants, state.timeline.layout)
        argument = basis.finder.argument
        return WriteTask(
            table=PinnedTable(state.store, state.config, state.limits, argument, timeline),
            incoming=basis.incoming,
            operation=self._operation,
            instant=self.instant,
            formats=self._options.formats,
            concurrency=self._concurrency,
        )

    @property
    def bucket_writer(self) -> BucketWriter:
        """What writes the files in this process, by what was read already."""
        formats = self._options.formats
        return BucketWriter(self._basis, self._operation, self.instant, formats, self._concurrency)

    def publish(
        self, receipts: Iterable[bytes | Receipt], rewrite: Rewrite | None = None
    ) -> CommitResult:
        """Complete the commit: one file for each bucket, whatever attempts there were.

        Then the services run that are due (`WriterConfig.services`).

        A delete that found no row is taken back, unless its commit has something to record.
        Files of attempts that failed, or were repeated, are removed.

        Args:
            receipts: What the tasks returned, or what `bucket_writer` did.
            rewrite: Has the file groups of a compaction that is due rewritten elsewhere: called
                with a `StartedCompaction`, it returns receipts. None: the threads of this process
                rewrite them.

        Raises:
            ConflictError: another writer has written to the same buckets. Nothing was published.
            CommitUnknownError: the store does not tell whether it took effect.
            CorruptError: a receipt does not decode, or tells of a file that is not this write's.
            ValueError: different tasks had rows of one bucket, so that none has them all.
        """
        basis, options = self._basis, self._options
        # Who worked with what was read, or found a bucket empty, does mind that others wrote.
        is_append = self._concurrency == "non_blocking" and self._operation.appends
        found = self._transaction.find_winners(receipts)
        by_partition = stats_by_partition(found)
        if not by_partition and self._needs_no_commit:
            self._transaction.abort()
            state = basis.snapshot.state
            newest = state.timeline.completed.commits.last
            return nothing_done(self._operation, state.config.table_type, newest)
        given = set(found)
        del found  # of a million file groups their ids take 140 MB
        hidden = find_replacement(basis, self._operation, given, self._dropped, self.instant)
        metadata = CommitMetadata(
            partition_to_write_stats=by_partition,
            extra_metadata={**self._extra_metadata(), **hidden.extra_metadata},
            operation_type=self._operation.operation_type,
            partition_to_replace_file_ids=hidden.file_groups,
        )
        result = self._transaction.publish(
            metadata,
            basis,
            options.read_at or basis.snapshot.state.timeline,
            options.idempotency_key,
            may_overlap=is_append and options.read_at is None,
            is_blind=is_append,
            put_index=partial(put_directories, hidden.directories) if hidden.directories else None,
        )
        if result.repeated:
            return result
        if self._maintenance is not None:
            done = Instant(
                result.instant, result.action, State.COMPLETED, result.completion_time, ""
            )
            timeline = basis.snapshot.state.timeline
            self._maintenance.run_after(timeline.with_instant(done), rewrite)
        return replace(result, schema_changes=basis.schema_changes)

    def hand_over(self) -> WriteTask:
        """End this process's part and leave the write to others: see `Table.resume_write`.

        From here on nothing keeps its heartbeat going but `Table.keep_alive`.
        """
        self._transaction.hand_over()
        return self.task

    def abort(self) -> None:
        """Take the write back. Nothing happens once it was tried to be published.

        A write that was resumed is taken back only where failures of the store are final, as on
        disks: else the next write does it.
        """
        self._transaction.abort()

    def _leave(self, error: BaseException | None) -> None:
        self._transaction.leave(error)

    @property
    def _needs_no_commit(self) -> bool:
        """Whether nothing is lost where no commit is made of a write without files."""
        options = self._options
        is_recorded = options.commit_metadata or options.idempotency_key is not None
        return self._operation.takes_keys and not is_recorded and self._transaction.leaves_nothing

    def _extra_metadata(self) -> dict[str, str | None]:
        options = self._options
        extra = {**(options.commit_metadata or {}), **self._basis.schema_entries}
        if options.idempotency_key is not None:
            extra[IDEMPOTENCY_KEY] = options.idempotency_key
        return extra
