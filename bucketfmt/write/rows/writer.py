"""Writing rows to a table: from what a caller gives to a completed commit.

I/O. Rows are routed to their buckets, then an instant begins, every touched bucket gets one
file, and the commit is published if no other writer touched the same buckets meanwhile.
Source: BaseHoodieWriteClient, BaseCommitActionExecutor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import pyarrow as pa

from bucketfmt.choices import Concurrency
from bucketfmt.errors import (
    ConflictError,
    CorruptError,
    IndexUnknownError,
    NotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from bucketfmt.format.names.names import format_write_token
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.location.routes import Route
from bucketfmt.progress import ProgressCallback, Steps
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.overtaken import find_completed_since
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads, task_count, worker_count
from bucketfmt.table.keys import KeySet
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Timeline
from bucketfmt.write.commit.lost_timeline import check_not_lost
from bucketfmt.write.commit.receipts import Receipt
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.conflicts.non_blocking import check_non_blocking
from bucketfmt.write.files.plan_write import GroupWrite
from bucketfmt.write.files.write_settings import RowNumbering
from bucketfmt.write.properties.pin_index import is_recorded, pin_index
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.data_like import DataLike
from bucketfmt.write.rows.gathering import gather_again, gather_keys, gather_rows
from bucketfmt.write.rows.grouping import GroupedRows
from bucketfmt.write.rows.incoming import IncomingRows
from bucketfmt.write.rows.preview import WritePreview, preview_rows
from bucketfmt.write.rows.schema_change import GivenColumns
from bucketfmt.write.rows.started_write import StartedWrite, WriteOptions
from bucketfmt.write.rows.write_task import WriteTask
from bucketfmt.write.services.maintenance import Maintenance
from bucketfmt.write.undo.rollback_conflicts import check_no_restore

__all__ = ["TableWriter"]

_PARTITIONS_PROVED_MAX = 1_000  # by a write, on the way: up to nine data files are opened in each


class TableWriter:
    """Writes to one table."""

    def __init__(
        self,
        snapshot: Callable[[Timeline | None], Snapshot],
        adopt: Callable[[TableConfig], None],
        finder: IndexFinder,
        transactions: Transactions,
        concurrency: Concurrency = "optimistic",
        *,
        pin_index: bool = True,
        maintenance: Maintenance | None = None,
    ) -> None:
        """Set up a writer.

        Args:
            snapshot: Returns the table as it is now. Given the timeline, if it is known.
            adopt: Takes the table's properties where they have changed, for the next snapshot.
            finder: Its index.
            transactions: Begins and publishes commits.
            concurrency: How the table's writers go together.
            pin_index: Whether to record an index that the table does not record.
            maintenance: Runs the services that are due after a commit.
        """
        self._maintenance = maintenance
        self._snapshot_at = snapshot
        self._snapshot = partial(snapshot, None)
        self._adopt = adopt
        self._pin_index = pin_index
        self._finder = finder
        self._transactions = transactions
        self._concurrency = concurrency
        self._workers = transactions.machine.processors

    def write_rows(
        self, operation: WriteOperation, data: DataLike, options: WriteOptions
    ) -> CommitResult:
        """Write rows. Operations and errors as the methods of `bucketfmt.Table` have them."""
        # Who has written last need not list the timeline: it is listed when the write begins.
        snapshot = self._snapshot_with_records(self._transactions.kept_commits.find_left())
        repeated = self._transactions.find_repeated(snapshot.state, options.idempotency_key)
        if repeated is not None:
            return repeated
        incoming = _incoming(data, snapshot, options)
        basis = self._basis(options.given(operation, incoming.schema), snapshot)
        self._check_operation(operation, basis)
        with GroupedRows() as grouped:
            with basis.snapshot.state.written_upon():
                gather_rows(basis, incoming, grouped, self._workers or worker_count())
            return self._commit(operation, basis, grouped, options)

    def preview_rows(
        self, operation: WriteOperation, data: DataLike, options: WriteOptions
    ) -> WritePreview:
        """Return what a write of rows would do. As `bucketfmt.Table.preview_write`."""
        snapshot = on_newest(self._snapshot, self._with_records)
        if self._transactions.find_repeated(snapshot.state, options.idempotency_key) is not None:
            return WritePreview(0, 0, 0, 0, 0, (), repeated=True)
        incoming = _incoming(data, snapshot, options)
        basis = self._basis(options.given(operation, incoming.schema), snapshot)
        self._check_operation(operation, basis)
        state = snapshot.state
        check_no_restore(state.timeline)
        check_not_lost(state.store, state.config, state.timeline)
        workers = self._workers or worker_count()
        with basis.snapshot.state.written_upon():
            return preview_rows(basis, operation, incoming, self._concurrency, workers)

    def delete_keys(self, keys: KeySet, options: WriteOptions) -> CommitResult:
        """Delete the rows of keys, each in its partition."""
        snapshot = self._snapshot_with_records()
        repeated = self._transactions.find_repeated(snapshot.state, options.idempotency_key)
        if repeated is not None:
            return repeated
        with ExitStack() as gathered:

            def gather(newest: Snapshot) -> tuple[Basis, GroupedRows]:
                basis, grouped = Basis(newest, self._finder), GroupedRows()
                gather_keys(basis, keys, gathered.enter_context(grouped))
                return basis, grouped

            basis, grouped = on_newest(self._snapshot, gather, snapshot)
            return self._commit(WriteOperation.DELETE, basis, grouped, options)

    def delete_partitions(self, paths: Sequence[str], options: WriteOptions) -> CommitResult:
        """Hide every file group of these partitions."""
        snapshot = self._snapshot_with_records()
        repeated = self._transactions.find_repeated(snapshot.state, options.idempotency_key)
        if repeated is not None:
            return repeated
        basis = self._basis(None, snapshot)
        self._check_operation(WriteOperation.DELETE_PARTITION, basis)
        unknown = sorted(set(paths) - set(basis.snapshot.partitions))
        if unknown:
            raise ValueError(
                f"no partition {unknown[0]!r}; inspect.partitions() lists the partitions"
            )
        with GroupedRows() as nothing:
            return self._commit(WriteOperation.DELETE_PARTITION, basis, nothing, options, paths)

    def start(
        self, operation: WriteOperation, incoming: pa.Schema | None, options: WriteOptions
    ) -> StartedWrite:
        """Begin a write whose files are written elsewhere. As `bucketfmt.Table.start_write`."""
        given = None if incoming is None else options.given(operation, incoming)
        basis = self._basis(given)
        if basis.locator.late is not None:
            raise UnsupportedError(
                f"a write whose files other processes write, by {basis.index}: new keys are packed "
                "into file groups once all rows are there. Write in one process (upsert or "
                "insert), or to a table whose buckets have one file group each"
            )
        self._check_operation(operation, basis)
        return self._start(operation, self._pinned(basis, ()), (), options)

    def resume(self, task: WriteTask, options: WriteOptions) -> StartedWrite:
        """Take up a write that another process began. As `bucketfmt.Table.resume_write`."""
        basis = Basis(task.table.snapshot, task.table.finder, task.incoming)
        transaction = self._transactions.resume(task.instant, task.action, task.table.timeline)
        return StartedWrite(
            transaction,
            basis,
            task.operation,
            options,
            concurrency=task.concurrency,
            maintenance=self._maintenance,
        )

    @contextmanager
    def keep_alive(self, task: WriteTask) -> Iterator[None]:
        """Keep a write going that another process began. As `bucketfmt.Table.keep_alive`."""
        heartbeat = self._transactions.join(task.instant, task.action)
        try:
            yield
        finally:
            heartbeat.abandon()

    def _snapshot_with_records(self, timeline: Timeline | None = None) -> Snapshot:
        """Return the table now; its record index is made anew if dead writers left it out of step.

        Rows are routed before a commit begins, which would make the index otherwise.

        Args:
            timeline: The timeline, if it is known.
        """
        snapshot = self._snapshot_at(timeline)
        try:
            return on_newest(self._snapshot, self._with_records, snapshot)
        except (ConflictError, CorruptError, IndexUnknownError, TableNotFoundError) as error:
            transactions = self._transactions
            config = load_config(transactions.store, transactions.limits)
            is_there = RECORD_INDEX in config.metadata_partitions
            is_out_of_step = is_there and isinstance(error, IndexUnknownError)
            if not (is_out_of_step or config.metadata_partitions_unfinished):
                raise
            with transactions.exclusive() as rollbacks:
                self._adopt(rollbacks.table.config)
            return self._snapshot()

    def _with_records(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot, once the record index of a table that goes by it is found."""
        index = self._finder.resolve(snapshot).index
        if index is not None and index.keeps_locations:
            self._finder.records(snapshot)
        return snapshot

    def _basis(self, given: GivenColumns | None, newest: Snapshot | None = None) -> Basis:
        return on_newest(self._snapshot, lambda now: Basis(now, self._finder, given), newest)

    # -- commits

    def _commit(
        self,
        operation: WriteOperation,
        basis: Basis,
        grouped: GroupedRows,
        options: WriteOptions,
        dropped: Sequence[str] = (),
    ) -> CommitResult:
        left = options.allowed_retries
        with ExitStack() as gathered:
            while True:
                try:
                    return self._attempt(operation, basis, grouped, options, dropped)
                except ConflictError:  # noqa: PERF203  (a try is a whole write)
                    if not left:
                        raise
                    left -= 1
                    basis, grouped = on_newest(
                        self._snapshot, partial(self._rerouted, basis, grouped, gathered)
                    )

    def _attempt(
        self,
        operation: WriteOperation,
        basis: Basis,
        grouped: GroupedRows,
        options: WriteOptions,
        dropped: Sequence[str],
    ) -> CommitResult:
        self._check_operation(operation, basis)  # before anything is changed
        with basis.snapshot.state.written_upon():
            basis = self._pinned(basis, grouped.routes)
            with self._start(operation, basis, grouped.routes, options, dropped) as started:
                receipts = self._write(started, grouped, options.progress)
                self._check_found(receipts, options)
                return started.publish(receipts)

    def _check_found(self, receipts: Sequence[Receipt], options: WriteOptions) -> None:
        """Refuse to delete some of the keys that were found, where others may have moved the rest.

        Publishing compares the file groups that are written, and those of the rest are not.

        Raises:
            ConflictError: it is so.
        """
        if options.read_at is None or options.num_found is None:
            return
        deleted = sum(stat.num_deletes for receipt in receipts for stat, _ in receipt.files)
        if deleted >= options.num_found:
            return
        came = find_completed_since(options.read_at, self._snapshot().state.timeline)
        if came is not None:
            raise ConflictError(
                f"{came.action} {came.requested_time} was completed after the rows to delete were "
                f"found, and only {deleted} of {options.num_found} are where they were. Nothing "
                "was published; find them again"
            )

    def _rerouted(
        self, basis: Basis, grouped: GroupedRows, gathered: ExitStack, newest: Snapshot
    ) -> tuple[Basis, GroupedRows]:
        """Return the basis and the rows for another try; `gathered` closes what holds the rows.

        Raises:
            ConflictError: the rows would be stored differently now.
        """
        renewed = self._with_same_columns(basis, newest)
        if not _has_other_routes(basis, renewed, grouped.routes):
            return renewed, grouped
        again = gathered.enter_context(GroupedRows())
        gather_again(renewed, grouped, again)
        return renewed, again

    def _start(
        self,
        operation: WriteOperation,
        basis: Basis,
        routed: Iterable[Route],
        options: WriteOptions,
        dropped: Sequence[str] = (),
    ) -> StartedWrite:
        config = basis.snapshot.state.config
        action = operation.action(config.table_type)
        transaction = self._transactions.begin(action)
        with transaction.aborted_on_error():
            has_moved = transaction.timeline.instants != basis.snapshot.state.timeline.instants
            if has_moved or transaction.config.properties != config.properties:
                self._adopt(transaction.config)
                basis = self._renewed(basis, routed)
        return StartedWrite(
            transaction, basis, operation, options, dropped, self._concurrency, self._maintenance
        )

    def _check_operation(self, operation: WriteOperation, basis: Basis) -> None:
        """Refuse what is known to be refused before rows are looked at.

        Raises:
            UnsupportedError: file groups of rings would be hidden; the metadata table is not to be
                there, or to be removed with the index; or as of `check_non_blocking`.
            ValueError: as of `check_non_blocking`.
        """
        config, index = basis.snapshot.state.config, basis.index
        self._transactions.metadata_keeper.check_policy(config, index)
        if operation.replaces and index.keeps_file_ids:
            raise UnsupportedError(
                "an overwrite or the drop of a partition where rings state the file ids of buckets "
                "(consistent hashing): what is written there later would stay hidden; delete the "
                "rows with a filter, and insert others"
            )
        if self._concurrency == "non_blocking":
            check_non_blocking(config, index, operation, keeps=bool(basis.kept))

    def _pinned(self, basis: Basis, routed: Iterable[Route]) -> Basis:
        """Record the index, where the table does not, and return the basis as of then.

        Nothing is recorded where a partition does not prove the index, or others write meanwhile:
        the next write may. A table of very many partitions is left to `Table.pin_index`.
        """
        snapshot = basis.snapshot
        is_without_buckets = basis.index.keeps_locations
        if not self._pin_index or is_without_buckets:
            return basis
        if is_recorded(snapshot.state.config, snapshot):
            return basis
        if len(snapshot.partitions) > _PARTITIONS_PROVED_MAX:
            return basis
        try:
            config = pin_index(snapshot, self._finder, self._transactions, writes_rows=True)
        except (ConflictError, CorruptError, IndexUnknownError, NotFoundError, ValueError):
            return basis
        self._adopt(config)
        return self._renewed(basis, routed)

    def _renewed(self, basis: Basis, routed: Iterable[Route]) -> Basis:
        """Return the basis as of now, for rows that were routed by an earlier one.

        Raises:
            ConflictError: they would be routed, or stored, differently now.
        """
        renewed = self._with_same_columns(basis, self._snapshot())
        if _has_other_routes(basis, renewed, routed):
            raise ConflictError("another writer has changed the table's buckets; write again")
        return renewed

    def _with_same_columns(self, basis: Basis, newest: Snapshot) -> Basis:
        """Return the basis on a newer snapshot.

        Raises:
            ConflictError: the rows would be stored differently now.
        """
        renewed = Basis(newest, self._finder, basis.incoming)
        if renewed.avro_schema != basis.avro_schema:
            raise ConflictError("another writer has changed the table's columns; write again")
        return renewed

    def _write(
        self, started: StartedWrite, grouped: GroupedRows, progress: ProgressCallback | None
    ) -> list[Receipt]:
        """Write every bucket on the threads of this process, as a task each; return receipts."""
        writer = started.bucket_writer
        attempt = self._transactions.machine.new_attempt()
        plans: list[tuple[GroupWrite, list[Route]]] = []
        with writer.placed(grouped) as placed:
            for group, routes in writer.targets(placed.counts):
                plan = writer.plan(group, routes, format_write_token(len(plans), 0, attempt))
                if plan is not None:
                    plans.append((plan, routes))
            writer.locator.put_metadata(plan.group.partition_path for plan, _ in plans)
            steps = Steps(progress, "writing", len(plans))

            def write(numbered: tuple[int, tuple[GroupWrite, list[Route]]]) -> Receipt:
                number, (plan, routes) = numbered
                receipt = writer.write(
                    plan, routes, RowNumbering(number), placed.rows_of, placed.moved_of
                )
                steps.step()
                return receipt

            sizes = [plan.file_slice.size for plan, _ in plans if plan.file_slice is not None]
            workers = self._workers or task_count(self._transactions.store, sizes)
            with writer.announced(plan for plan, _ in plans):
                return map_in_threads(write, list(enumerate(plans)), workers)


def _incoming(data: DataLike, snapshot: Snapshot, options: WriteOptions) -> IncomingRows:
    """Begin to read rows. Dicts tell their columns; without any they are those of the table."""
    is_nothing = isinstance(data, (list, tuple)) and not data
    rows = snapshot.schema.data.empty_table() if is_nothing else data
    return IncomingRows(rows, alike=options.missing == "keep")


def _has_other_routes(before: Basis, now: Basis, routed: Iterable[Route]) -> bool:
    """Whether keys of the partitions of these routes have other routes now."""
    return any(now.locator.routing(p) != before.locator.routing(p) for p in {r[0] for r in routed})
