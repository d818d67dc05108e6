"""A change of buckets under way: planned, executed, and published while others read and write.

I/O. A `StartedRewrite` has the steps of a plan executed, by `RewriteTask` and anywhere, and
publishes one replacecommit that hides the old file groups and shows the new ones. Readers see the
old buckets until then. Writers go on: what they changed since a step was executed is executed
again before the commit is published. Source: DatasetBucketRescaleCommitActionExecutor for what the
commit says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bucketfmt.arguments import check_callable
from bucketfmt.choices import Codec
from bucketfmt.errors import (
    BucketfmtError,
    ConflictError,
    CorruptError,
    NotFoundError,
    OvertakenError,
)
from bucketfmt.format.buckets.extendible_metadata import EMPTY_GROUPS
from bucketfmt.format.buckets.rehashes import REWRITTEN_UNTIL
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.execution import Execute, execute_in
from bucketfmt.resize.migration.settle_keys import KeySettling
from bucketfmt.resize.plan_rewrite import RewriteStep
from bucketfmt.resize.rewrite_task import RewriteTask, encode_step, groups_of
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store
from bucketfmt.timeline.load import load_pending_clusterings
from bucketfmt.write.commit.receipts import file_groups_of, stats_by_partition
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.started_work import StartedWork
from bucketfmt.write.commit.transaction import Transaction
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.in_threads import InThreads
from bucketfmt.write.files.table_codec import find_codec
from bucketfmt.write.rows.basis import Basis

__all__ = [
    "RewritePlan",
    "StartedRewrite",
    "check_nothing_pending",
    "run_until_not_overtaken",
]

_TRIES = 8
"""How often a rewrite is begun, where later writes overtake it."""

_ROUNDS_MAX = 8
"""How often changes of other writers are caught up with before a rewrite gives up."""


@dataclass(frozen=True)
class RewritePlan:
    """A change of buckets, as it was planned on a table at one moment.

    Attributes:
        basis: The table.
        steps: All file groups of the steps are hidden by the commit.
        operation: What the commit says that it is.
        extra_metadata: What the commit says beside the schema.
        settling: What becomes of keys; None if they stay, and each has one row.
        put_index: Writes the files that state the buckets from the commit on; None where no file
            does.
    """

    basis: Basis
    steps: Sequence[RewriteStep]
    operation: WriteOperation
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    settling: KeySettling | None = None
    put_index: Callable[[Store], None] | None = None

    @property
    def replaced(self) -> dict[str, list[str]]:
        """The file groups that the commit hides, by partition path."""
        found: dict[str, list[str]] = {}
        for step in self.steps:
            own = found.setdefault(step.partition_path, [])
            own += [file_slice.file_id for file_slice in step.slices]
            own += step.empty_groups
        return found


def run_until_not_overtaken(
    start: Callable[[], StartedRewrite | None], run: Callable[[StartedRewrite], CommitResult]
) -> CommitResult | None:
    """Begin a change of buckets and run it, and begin again where it is overtaken.

    Args:
        start: Begins it; returns None if there is nothing to change.
        run: Executes its steps, and publishes it.

    Raises:
        OvertakenError: later writes were completed in every try.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            started = start()
            if started is None:
                return None
            with started:
                return run(started)
        except OvertakenError:  # noqa: PERF203
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


class StartedRewrite(StartedWork):
    """A change of buckets under way. A context: left without `publish`, nothing of it remains.

    Attributes:
        instant: Its requested time.
        payloads: The steps, for `RewriteTask.rewrite`; opaque.
        task: What executes the steps, anywhere: send it there.
    """

    def __init__(
        self,
        transaction: Transaction,
        plan: Callable[[str], RewritePlan],
        codec: Codec | None = None,
        after_publish: Callable[[], object] | None = None,
    ) -> None:
        """Plan the steps on the table as it is now.

        Args:
            transaction: A replacecommit.
            plan: Returns the plan for an instant, on the table as it is now.
            codec: Of parquet; None: as the table's files have it.
            after_publish: Called once the change is published; None for nothing.
        """
        super().__init__(transaction)
        self._transaction = transaction
        self._after_publish = after_publish
        self._plan_now = plan
        self._codec = codec
        self.catch_up()

    def catch_up(self) -> None:
        """Plan on the table as it is now. Steps whose file groups did not change stay the same.

        Raises:
            ConflictError: the buckets were changed by somebody else, or a compaction or a
                clustering is pending.
            OvertakenError: a replacecommit of a later instant was completed. Or the table has a
                record index, in which of two entries for a key that of the later instant counts,
                and any write of a later instant was completed.
            CorruptError: what states the index is damaged.
        """
        plan = self._plan = self._plan_now(self.instant)
        basis, snapshot = plan.basis, plan.basis.snapshot
        state = snapshot.state
        last = state.timeline.writes.completed.last
        has_records = RECORD_INDEX in state.config.metadata_partitions
        if has_records and last is not None and last.requested_time > self.instant:
            raise OvertakenError(
                f"{last.action} {last.requested_time} was completed meanwhile, whose entries in "
                f"the record index would prevail over those of {self.instant}; begin again"
            )
        replacing = state.timeline.completed.of("replacecommit").last
        if replacing is not None and replacing.requested_time > self.instant:
            # At a moment between the two, the file groups that it replaced would be seen as well
            # as the new ones, which would have its rows.
            raise OvertakenError(
                f"replacecommit {replacing.requested_time} was completed meanwhile, and readers "
                f"as of a moment since {self.instant} would see rows twice; begin again"
            )
        if self._codec is None and plan.steps:
            self._codec = find_codec(snapshot, plan.steps[0].partition_path)
        self.payloads = tuple(encode_step(step, self.instant) for step in plan.steps)
        self.task = RewriteTask.of(basis, self.instant, self._codec, plan.settling)

    def run(self, execute: Execute) -> CommitResult:
        """Have the steps executed, and publish.

        What other writers change meanwhile is executed again, some rounds at most.

        Args:
            execute: Executes some steps by `task`, and returns the receipts of each.

        Raises:
            ConflictError: as `publish`, in the last round.
            OvertakenError: as `catch_up`: begin the change again.
            CorruptError, StorageError, UnsupportedError: as `RewriteTask.rewrite`.
            CommitUnknownError: as `publish`.
            TypeError: `execute` is no function.
        """
        check_callable("execute", execute)
        done: dict[bytes, list[bytes]] = {}
        for rounds_left in reversed(range(_ROUNDS_MAX)):
            try:
                left = [payload for payload in self.payloads if payload not in done]
                done |= zip(left, execute(self.task, left), strict=True)
                return self.publish(r for payload in self.payloads for r in done[payload])
            except (ConflictError, CorruptError, NotFoundError) as error:  # noqa: PERF203
                if not rounds_left or not self.may_catch_up(error):
                    raise
                self.catch_up()
        raise AssertionError("the last round returns or raises")

    def run_in_threads(self, doing: str, progress: ProgressCallback | None = None) -> CommitResult:
        """Execute the steps on the threads of this process, and publish. As `run`.

        Args:
            doing: What is done, for `progress`: for example `rehashing`.
            progress: Called as steps are done.
        """
        table = self._transaction.table
        announcer = Announcer(table.store, self.instant)
        return self.run(execute_in(InThreads(table.machine, announcer, doing, progress)))

    def may_catch_up(self, error: BucketfmtError) -> bool:
        """Whether `catch_up` may help: others changed the table, and nothing was published."""
        if self._transaction.was_tried:
            return False
        if isinstance(error, ConflictError):
            return True
        return self._plan.basis.snapshot.state.load_what_overtook() is not None

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
        if file_groups_of(found) != planned:
            raise ValueError(
                "a change of buckets is published with the receipts of each of its steps"
            )
        plan, basis = self._plan, self._plan.basis
        timeline = basis.snapshot.state.timeline
        extra = {**basis.schema_entries, **plan.extra_metadata}
        if (last := timeline.writes.completed.last) is not None:
            extra[REWRITTEN_UNTIL] = last.requested_time
        if empty := [file_id for step in plan.steps for file_id in step.empty_groups]:
            extra[EMPTY_GROUPS] = ",".join(empty)
        metadata = CommitMetadata(
            partition_to_write_stats=stats_by_partition(found),
            extra_metadata=extra,
            operation_type=plan.operation.operation_type,
            partition_to_replace_file_ids=plan.replaced,
        )
        done = self._transaction.publish(metadata, basis, timeline, put_index=plan.put_index)
        if self._after_publish is not None:
            self._after_publish()
        return done

    def _leave(self, error: BaseException | None) -> None:
        self._transaction.leave(error)


_EXECUTED_BY = {"compaction": "compact(), or by Hudi", "logcompaction": "Hudi"}


def check_nothing_pending(state: TableState) -> None:
    """Refuse a table with file groups that a pending service is to rewrite.

    Raises:
        ConflictError: a compaction, a log compaction or a clustering is pending.
    """
    clusterings = load_pending_clusterings(state.store, state.config, state.timeline, state.limits)
    pending = [*state.pending_compactions.values(), *clusterings.values()]
    pending += state.timeline.pending.of("logcompaction").instants
    if pending:
        first = min(pending, key=lambda instant: instant.requested_time)
        by = _EXECUTED_BY.get(first.action, "resize(), if it changes a ring, else by Hudi")
        raise ConflictError(
            f"{first.action} {first.requested_time} is pending; have it executed (by {by}), then "
            "change the buckets"
        )
