"""Rehash: all partitions get another number of buckets, while others read and write.

I/O. `Rehasher` plans and begins; `StartedRehash` has the steps executed, by `RehashTask` and
anywhere, and publishes one replacecommit that hides the old file groups and shows the new ones.
Readers see the old buckets until then. Writers go on: what they changed since a step was executed
is executed again before the rehash is published, and a write that is under way at that moment is
in conflict with the rehash and routes its rows anew. Source: RFC-29 (multiple rehash), and
DatasetBucketRescaleCommitActionExecutor for what the commit says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bucketfmt.errors import (
    BucketfmtError,
    ConflictError,
    CorruptError,
    NotFoundError,
    UnsupportedError,
)
from bucketfmt.format.buckets.rehashes import Rehash
from bucketfmt.format.names.names import (
    find_bucket_id,
    format_nbcc_file_id,
    format_write_token,
)
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import as_bucket_index
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.progress import ProgressCallback, Steps
from bucketfmt.resize.plan_rehash import RehashPreview, RehashStep, plan_rehash, preview_rehash
from bucketfmt.resize.rehash_task import RehashTask, encode_step, groups_of
from bucketfmt.rows.parquet.parquet_chunks import Codec
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import map_in_threads, worker_count
from bucketfmt.timeline.load import load_pending_clusterings
from bucketfmt.write.commit.receipts import stats_by_partition
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.started_work import StartedWork
from bucketfmt.write.commit.transaction import Transaction
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.files.row_report import load_reporter
from bucketfmt.write.files.table_codec import DEFAULT_CODEC, find_codec
from bucketfmt.write.properties.pin_index import pin_index
from bucketfmt.write.rows.basis import Basis

__all__ = ["Rehasher", "StartedRehash"]

_TOKEN_ATTEMPT_BITS = 31
_ROUNDS_MAX = 8
"""How often changes of other writers are caught up with before the rehash gives up."""


class Rehasher:
    """Gives one table another number of buckets."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        finder: IndexFinder,
        transactions: Transactions,
        workers: int | None = None,
    ) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now.
            finder: Its index.
            transactions: How the table is written to.
            workers: Steps to execute at a time.
        """
        self._snapshot = snapshot
        self._finder = finder
        self._owner = transactions
        self._workers = workers or transactions.machine.processors or worker_count()

    def preview(self, num_buckets: int) -> RehashPreview:
        """Return what `run` would do now. Reads only; raises the errors of its planning."""
        basis = Basis(self._snapshot(), self._finder)
        before = _find_number(basis)
        if before == num_buckets:
            return RehashPreview(before, num_buckets)
        steps, _ = _plan(basis, num_buckets)
        return preview_rehash(steps, before, num_buckets)

    def start(self, num_buckets: int, codec: Codec | None = None) -> StartedRehash | None:
        """Begin a rehash; None if the table has this number of buckets already.

        Raises:
            UnsupportedError: the buckets of the table are not a fixed number in all partitions, or
                the table is of a kind that is not written.
            IndexUnknownError: the index is unknown, or not proved for a partition.
            ConflictError: a compaction or a clustering is pending.
            LockTimeoutError: the table lock could not be acquired.
        """
        basis = Basis(self._snapshot(), self._finder)
        before = _find_number(basis)
        if before == num_buckets:
            return None
        _plan(basis, num_buckets)  # refuses before anything is written
        pin_index(basis.snapshot, self._finder, self._owner, writes_rows=True)
        transaction = self._owner.begin("replacecommit")
        with transaction.aborted_on_error():
            return StartedRehash(
                transaction, self._snapshot, self._finder, before, num_buckets, codec
            )

    def run(
        self,
        num_buckets: int,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Begin a rehash, execute it on the threads of this process, and publish it.

        What other writers change meanwhile is executed again, some rounds at most.
        """
        started = self.start(num_buckets, codec)
        if started is None:
            return None
        with started:
            return self._execute(started, progress)

    def _execute(self, started: StartedRehash, progress: ProgressCallback | None) -> CommitResult:
        done: dict[bytes, list[bytes]] = {}
        for rounds_left in reversed(range(_ROUNDS_MAX)):
            try:
                self._work_off(started, done, progress)
                return started.publish(r for payload in started.payloads for r in done[payload])
            except (ConflictError, CorruptError, NotFoundError) as error:  # noqa: PERF203
                if not rounds_left or not started.may_catch_up(error):
                    raise
                started.catch_up()
        raise AssertionError("the last round returns or raises")

    def _work_off(
        self,
        started: StartedRehash,
        done: dict[bytes, list[bytes]],
        progress: ProgressCallback | None,
    ) -> None:
        """Execute the steps that are not done as they are now."""
        task, attempt = started.task, self._owner.machine.randbits(_TOKEN_ATTEMPT_BITS)
        left = [payload for payload in started.payloads if payload not in done]
        steps = Steps(progress, "rehashing", len(left))

        def rehash(numbered: tuple[int, bytes]) -> None:
            number, payload = numbered
            done[payload] = task.rehash(payload, format_write_token(number, 0, attempt))
            steps.step()

        map_in_threads(rehash, list(enumerate(left)), self._workers)


class StartedRehash(StartedWork):
    """A rehash under way. A context: left without `publish`, nothing of it remains.

    Attributes:
        instant: Its requested time.
        payloads: The steps, for `RehashTask.rehash`; opaque.
        task: What executes the steps, anywhere: send it there.
    """

    def __init__(
        self,
        transaction: Transaction,
        snapshot: Callable[[], Snapshot],
        finder: IndexFinder,
        before: int,
        after: int,
        codec: Codec | None,
    ) -> None:
        """Plan the steps on the table as it is now."""
        super().__init__(transaction)
        self._transaction = transaction
        self._snapshot = snapshot
        self._finder = finder
        self._before, self._after = before, after
        self._codec = codec
        self.catch_up()

    def catch_up(self) -> None:
        """Plan on the table as it is now. Steps whose file groups did not change stay the same.

        Raises:
            ConflictError: the buckets were changed by somebody else, or a compaction or a
                clustering is pending.
            CorruptError: what states the index is damaged.
        """
        basis = Basis(self._snapshot(), self._finder)
        snapshot, before = basis.snapshot, self._before
        state = snapshot.state
        if _find_number(basis) != before:
            raise ConflictError(f"the table no longer has {before} buckets; plan the rehash again")
        steps, layout = _plan(basis, self._after)
        if self._codec is None and steps:
            self._codec = find_codec(snapshot, steps[0].partition_path)
        self._basis = basis
        self._replaced = _replaced(steps)
        self.payloads = tuple(encode_step(step, layout, self.instant) for step in steps)
        self.task = RehashTask(
            snapshot.basis,
            basis.schema,
            basis.avro_schema,
            self.instant,
            layout,
            self._codec or DEFAULT_CODEC,
            load_reporter(state.store, state.config, state.limits, takes_keys=False),
        )

    def may_catch_up(self, error: BucketfmtError) -> bool:
        """Whether `catch_up` may help: others changed the table, and nothing was published."""
        if self._transaction.was_tried:
            return False
        if isinstance(error, ConflictError):
            return True
        return self._basis.snapshot.state.load_what_overtook() is not None

    def publish(self, receipts: Iterable[bytes]) -> CommitResult:
        """Hide the old file groups and show the new ones, whatever attempts there were.

        Args:
            receipts: What the tasks returned for each of `payloads`.

        Raises:
            ConflictError: others have written since the steps were planned: `catch_up`, execute
                the steps that are new, and publish again. Nothing was published.
            CommitUnknownError: the store does not tell whether it took effect.
            CorruptError: a receipt does not decode, or tells of a file that is not this one's.
            ValueError: there is no receipt for one of the steps, or for an outdated one.
        """
        found = self._transaction.find_winners(receipts)
        planned = sorted(group for payload in self.payloads for group in groups_of(payload))
        if sorted((r.partition_path, r.file_id) for r in found) != planned:
            raise ValueError("a rehash is published with the receipts of each of its steps")
        basis, config = self._basis, self._basis.snapshot.state.config
        last = basis.snapshot.state.timeline.writes.completed.last
        last_read = self.instant if last is None else last.requested_time
        rehash = Rehash(self.instant, self._before, self._after, last_read)
        extra: dict[str, str | None] = {"schema": basis.avro_schema, **rehash.entry()}
        if basis.latest_schema is not None:
            extra["latest_schema"] = basis.latest_schema
        # Releases before 1.1 fail on the type of the operation that they do not know.
        knows_rescale = config.table_version >= 9
        operation = (
            WriteOperation.BUCKET_RESCALE
            if knows_rescale
            else WriteOperation.INSERT_OVERWRITE_TABLE
        )
        metadata = CommitMetadata(
            partition_to_write_stats=stats_by_partition(found),
            extra_metadata=extra,
            operation_type=operation.operation_type,
            partition_to_replace_file_ids=self._replaced,
        )
        return self._transaction.publish(metadata, basis, basis.snapshot.state.timeline)

    def _leave(self, error: BaseException | None) -> None:
        self._transaction.leave(error)


def _find_number(basis: Basis) -> int:
    """Return how many buckets every partition has.

    Raises:
        UnsupportedError: partitions have numbers of their own, or rings, or there are no buckets.
    """
    index = as_bucket_index(basis.index)
    if index is None or index.number_of_all is None:
        raise UnsupportedError(
            f"a rehash of a table with {basis.index}; it is for a simple bucket index, where all "
            "partitions have the same number of buckets"
        )
    return index.number_of_all


def _plan(basis: Basis, after: int) -> tuple[list[RehashStep], BucketLayout]:
    """Return the steps of a rehash and the new buckets, once nothing speaks against it.

    Raises:
        ConflictError: a compaction or a clustering is pending.
        IndexUnknownError: the index is not proved for a partition.
        UnsupportedError: partitions differ, or non-blocking writers share file groups.
    """
    before, snapshot = _find_number(basis), basis.snapshot
    _check_nothing_pending(snapshot.state)
    paths = snapshot.partitions or ("",)
    layouts = [basis.finder.layout(snapshot, path) for path in paths]  # proves each
    slices = snapshot.slices_of(snapshot.partitions)
    for file_slice in slices:
        bucket = find_bucket_id(file_slice.file_id)
        if bucket is not None and file_slice.file_id == format_nbcc_file_id(bucket):
            raise UnsupportedError(
                f"a rehash of a table with file group {file_slice.file_id}: non-blocking writers "
                "would begin this file group again, and readers would not see it",
                partition=file_slice.partition_path,
            )
    return plan_rehash(slices, layouts[0], before, after), layouts[0].rehashed(after)


def _check_nothing_pending(state: TableState) -> None:
    clusterings = load_pending_clusterings(state.store, state.config, state.timeline, state.limits)
    pending = [*state.pending_compactions.values(), *clusterings.values()]
    pending += state.timeline.pending.of("logcompaction").instants
    if pending:
        first = min(pending, key=lambda instant: instant.requested_time)
        raise ConflictError(
            f"{first.action} {first.requested_time} is pending; have it executed (bucketfmt "
            "compact, or Hudi), then rehash"
        )


def _replaced(steps: Iterable[RehashStep]) -> dict[str, list[str]]:
    replaced: dict[str, list[str]] = {}
    for step in steps:
        own = replaced.setdefault(step.partition_path, [])
        own += [file_slice.file_id for file_slice in step.slices]
    return replaced
