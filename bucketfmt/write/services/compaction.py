"""Compaction: what was logged of a file group becomes its next base file.

I/O. `Compactor` schedules and begins under the table lock; `StartedCompaction` has the slices
rewritten, by `CompactionTask` and anywhere, and publishes under the lock again. A compaction that
was begun and not completed, by Hudi or here, is executed again from its plan, without log files of
writes that failed since and took them back. Source: ScheduleCompactionActionExecutor,
HoodieCompactor, CompactionUtils.

Writers go on meanwhile. From table version 8 on a log file belongs to the slice that was there
when it completed; before, it is named after the planned base file once there is a plan, and a
write that began without knowing of the plan is in conflict with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NoReturn

from bucketfmt.choices import Codec
from bucketfmt.errors import (
    BucketfmtError,
    ConflictError,
    LockLostError,
)
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.format.timeline.plans import CompactionOperation, CompactionPlan
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.progress import ProgressCallback
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.merging.merge_rules import find_merge_rules
from bucketfmt.slices.slice_codec import encode_slice
from bucketfmt.snapshot.data_files.committed_logs import without_uncommitted_logs
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.schema import find_stated_text
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import beside, do_together
from bucketfmt.timeline.load import (
    load_compaction_plan,
    load_pending_clusterings,
    load_unplanned,
)
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.receipts import file_groups_of, stats_by_partition
from bucketfmt.write.commit.result import CommitResult, result_of
from bucketfmt.write.commit.started_work import PendingInstant, ResumableWork
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.earlier_attempt import remove_earlier_attempt
from bucketfmt.write.files.in_threads import InThreads
from bucketfmt.write.files.row_report import load_reporter
from bucketfmt.write.files.table_codec import DEFAULT_CODEC, find_codec
from bucketfmt.write.properties.stated_codec import stated_codec
from bucketfmt.write.rows.basis import check_operations_are_not_kept
from bucketfmt.write.services.compaction_task import CompactionTask
from bucketfmt.write.services.plan_compaction import (
    CompactionPreview,
    plan_compaction,
    preview_slices,
)
from bucketfmt.write.services.planned_slices import check_operation, load_planned_slices

__all__ = ["Compactor", "Rewrite", "StartedCompaction"]


class Compactor:
    """Compacts one table."""

    def __init__(
        self,
        snapshot: Callable[[Timeline | None], Snapshot],
        transactions: Transactions,
        rewrite: Rewrite | None = None,
    ) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now. Given the timeline, if it was just listed.
            transactions: How the table is written to.
            rewrite: What `run` has the slices rewritten by; None: the threads of this process.
        """
        self._rewrite = rewrite
        self._snapshot = snapshot
        self._owner = transactions

    def preview(
        self, min_log_files: int = 1, partitions: Sequence[str] | None = None
    ) -> CompactionPreview:
        """Return what `run` would do now. Reads only; errors as of `schedule` and `begin`."""
        return on_newest(
            self._newest, partial(self._preview, min_log_files=min_log_files, partitions=partitions)
        )

    def _preview(
        self, snapshot: Snapshot, min_log_files: int, partitions: Sequence[str] | None
    ) -> CompactionPreview:
        state = snapshot.state
        if state.config.table_type != "MERGE_ON_READ":
            return CompactionPreview()
        unplanned = load_unplanned(state.store, state.config, state.timeline)
        timeline = state.timeline.without(unplanned.values())
        found = _find_pending(timeline, self._owner.heartbeats.seems_expired)
        if found is None:
            plan = self._plan(snapshot, min_log_files, partitions)
        else:
            plan = load_compaction_plan(state.store, state.config, found, state.limits)
        operations = plan.operations if plan is not None else []
        checked = [check_operation(each, state.limits) for each in operations]
        slices = load_planned_slices(snapshot, checked)
        return preview_slices(slices, found.requested_time if found is not None else None)

    def schedule(
        self, min_log_files: int = 1, partitions: Sequence[str] | None = None
    ) -> str | None:
        """Put a compaction on the timeline; return its instant, or None if there is none to make.

        Args:
            min_log_files: Leave slices with fewer log files as they are.
            partitions: Partition paths to look for slices in; None: all.

        Raises:
            UnsupportedError: the table merges records, or has files, in a way that is not built.
            ConflictError: a log compaction is pending.
            LockTimeoutError: the table lock could not be acquired.
        """
        plan_now = partial(self._plan, min_log_files=min_log_files, partitions=partitions)
        if on_newest(self._newest, plan_now) is None:  # lists, while others may write
            return None
        with self._owner.recovered() as table:
            plan = plan_now(self._snapshot(table.timeline))
            return None if plan is None else table.request("compaction", plan).requested_time

    def begin(self, codec: Codec | None = None) -> StartedCompaction | None:
        """Take on the oldest pending compaction that nobody is at; None if none is pending.

        What is left of an earlier attempt at it is removed. A heartbeat tells others of this
        package that it is being executed, until it is published or abandoned.

        Raises:
            ConflictError: all that are pending are being executed, as their heartbeats tell.
            UnsupportedError: its plan is of a kind that is not executed here.
            CorruptError: its plan is damaged, or a file that it names is missing.
            LockTimeoutError: the table lock could not be acquired.
        """
        on_newest(self._newest, check_operations_are_not_kept)
        return self._begin(codec, lambda _: None, is_new=False)

    def start(
        self,
        min_log_files: int = 1,
        codec: Codec | None = None,
        partitions: Sequence[str] | None = None,
    ) -> StartedCompaction | None:
        """Begin the oldest pending compaction; if there is none, schedule one and begin it.

        Errors as of `begin` and `schedule`.
        """
        plan_now = partial(self._plan, min_log_files=min_log_files, partitions=partitions)

        def is_new(snapshot: Snapshot) -> bool:
            if snapshot.state.timeline.pending.of("compaction").instants:
                check_operations_are_not_kept(snapshot)
                return False
            return plan_now(snapshot) is not None  # lists, while others may write

        return self._begin(codec, plan_now, is_new=on_newest(self._newest, is_new))

    def _newest(self) -> Snapshot:
        return self._snapshot(None)

    def _begin(
        self,
        codec: Codec | None,
        plan_now: Callable[[Snapshot], CompactionPlan | None],
        *,
        is_new: bool,
    ) -> StartedCompaction | None:
        """Begin the oldest pending compaction, or else one of a plan that is made under the lock.

        What completes once the plan is on the timeline sees the plan. So the plan has to see all
        that completed before, and what it names is as the plan saw it. `is_new` says whether a
        plan is to be expected.
        """
        owner, store = self._owner, self._owner.store
        with (
            ExitStack() as beginning,
            ExitStack() as after,
            owner.recovered(begins=is_new) as table,
        ):
            table.withdraw_unplanned()
            found, plan = _find_pending(table.timeline, owner.heartbeats.is_expired), None
            if found is not None:
                plan = load_compaction_plan(store, table.config, found, table.limits)
            else:
                snapshot = self._snapshot(table.timeline)
                plan = plan_now(snapshot)
            if plan is None:
                return None
            table.config.check_writable()
            operations = tuple(
                check_operation(operation, owner.limits) for operation in plan.operations
            )
            if found is not None:
                heartbeat = owner.heartbeats.start(found.requested_time)
                began = after.enter_context(beside(store, self._newest))
            else:
                found, heartbeat = table.request_alive("compaction", plan)
                began = lambda: snapshot  # noqa: E731
            beginning.enter_context(heartbeat.stopped_on_error())
            if found.state is State.REQUESTED:
                table.begin(found.requested_time, "compaction")
            else:
                paths = (operation.partition_path or "" for operation in operations)
                remove_earlier_attempt(table, found.requested_time, paths)
        with heartbeat.stopped_on_error():
            pending = PendingInstant(owner, found, heartbeat)
            return StartedCompaction(pending, began(), self._snapshot, operations, codec)

    def run(
        self,
        min_log_files: int = 1,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
        partitions: Sequence[str] | None = None,
    ) -> CommitResult | None:
        """Execute the oldest pending compaction; if there is none, schedule one and execute it."""
        started = self.start(min_log_files, codec, partitions)
        if started is None:
            return None
        with started:
            rewrite = self._rewrite or partial(self._rewrite_here, progress=progress)
            return started.publish(rewrite(started))

    def _rewrite_here(
        self, started: StartedCompaction, progress: ProgressCallback | None
    ) -> list[bytes]:
        """Rewrite all slices on the threads of this process."""
        owner, task = self._owner, started.task
        announcer = Announcer(owner.store, started.instant)
        threads = InThreads(owner.machine, announcer, "compacting", progress)
        return [*threads.write(task.compact, task.markers, started.payloads, started.sizes)]

    def _plan(
        self,
        snapshot: Snapshot,
        min_log_files: int,
        partitions: Sequence[str] | None = None,
    ) -> CompactionPlan | None:
        state = snapshot.state
        if state.config.table_type != "MERGE_ON_READ":
            return None
        state.config.check_writable()
        check = partial(check_operations_are_not_kept, snapshot)
        do_together(state.store, check, lambda: state.lister.partitions)
        find_merge_rules(state.config)  # rather now than with a plan that cannot be executed
        if state.timeline.pending.of("logcompaction").instants:
            raise ConflictError("a log compaction is pending; let Hudi finish it, then try again")
        clusterings = load_pending_clusterings(
            state.store, state.config, state.timeline, state.limits
        )
        excluded = {*state.pending_compactions, *clusterings}
        slices = snapshot.slices_of(snapshot.partitions if partitions is None else partitions)
        committed = [without_uncommitted_logs(snapshot, file_slice) for file_slice in slices]
        plan = plan_compaction(committed, excluded, min_log_files)
        if plan is not None:
            snapshot.schema.merge_rules(state.config)  # likewise
        return plan


class StartedCompaction(ResumableWork):
    """A compaction under way. A context: left without `publish`, it is for anyone to begin again.

    Attributes:
        instant: Its requested time.
        payloads: The slices to rewrite, for `CompactionTask.compact`; opaque.
        sizes: The bytes of the files of each.
    """

    def __init__(
        self,
        pending: PendingInstant,
        began: Snapshot,
        snapshot: Callable[[Timeline | None], Snapshot],
        operations: Sequence[CompactionOperation],
        codec: Codec | None,
    ) -> None:
        """Find the files of the plan in the table as it was when the compaction began."""
        super().__init__(pending)
        self._snapshot = snapshot
        self._codec = codec
        self._began = began
        slices = load_planned_slices(self._began, operations)
        self._new_codec = _new_codec(self._began, slices, codec)
        self._groups = sorted((s.partition_path, s.file_id) for s in slices)
        self.payloads = tuple(map(encode_slice, slices))
        self.sizes = tuple(file_slice.size for file_slice in slices)

    @property
    def task(self) -> CompactionTask:
        """What rewrites the slices, anywhere: send it there."""
        began = self._began
        codec = self._codec or stated_codec(began.state.config)
        state = began.state
        return CompactionTask(
            basis=began.basis,
            schema=began.schema,
            avro_schema=_avro_schema(began),
            instant=self.instant,
            reporter=load_reporter(state.store, state.config, state.limits, takes_keys=False),
            codec=codec,
            new_codec=self._new_codec,
        )

    def publish(self, receipts: Iterable[bytes]) -> CommitResult:
        """Publish the new base files, one for each slice, whatever attempts there were.

        Raises:
            ConflictError: somebody else completed the compaction, or took it back. Nothing was
                published.
            CommitUnknownError: the store does not tell whether it took effect.
            CorruptError: a receipt does not decode, or tells of a file that is not this one's.
            ValueError: there is no receipt for one of the slices.
            UnsupportedError: this is a forked child, and the parent began the compaction.
        """
        found = self._pending.find_winners(receipts)
        if file_groups_of(found) != self._groups:
            raise ValueError("a compaction is published with a receipt for each of its slices")
        written = stats_by_partition(found)
        store, others = (
            self._pending.table.store,
            partial(self._pending.delete_other_files, written),
        )
        try:
            with ExitStack() as ending:
                deleted = ending.enter_context(beside(store, others))
                with self._pending.table.locked() as table:
                    timeline = table.timeline
                    metadata = _metadata_of(self._now(timeline), written)
                    deleted()
                    self._pending.check_not_begun_again(table, written)
                    done = self._pending.complete(table, metadata)
                    ending.enter_context(beside(store, self._pending.end))  # as it is released
        except LockLostError as lost:
            self._take_back(lost, timeline, metadata)
        return result_of(done, metadata)

    def _take_back(
        self, lost: LockLostError, before: Timeline, metadata: CommitMetadata
    ) -> NoReturn:
        """Delete the completed file, which appeared once the lock was lost.

        Others may have rolled the compaction back meanwhile, and deleted its files, or executed it.
        It is pending again, where it was not rolled back.

        Raises:
            ConflictError: nothing is published any more.
            LockLostError: others have built on it, or the lock cannot be acquired.
        """
        pending = self._pending
        try:
            with pending.table.locks.taken() as lock:
                table, state = pending.table, self._began.state
                now = table.list_timeline(state.config)
                path = lost.path
                if path is None or pending.is_built_on(
                    before, now, state.config, metadata, by_instant=False
                ):
                    raise lost
                if not lock.holds():  # asked last: whoever has it now may build on it
                    raise lost
                table.store.delete(path)
        except BucketfmtError as error:
            raise lost from (None if error is lost else error)
        raise ConflictError(
            f"the table lock was lost before compaction {pending.instant} was published, and "
            "others may have taken it back, or executed it. Nothing is published; compact again"
        )

    def _now(self, timeline: Timeline) -> Snapshot:
        """Return a snapshot with the commits, and so the columns, of now."""
        began = self._began.state.timeline.writes.completed
        is_same = began.instants == timeline.writes.completed.instants
        return self._began if is_same else self._snapshot(timeline)


def _new_codec(snapshot: Snapshot, slices: Iterable[FileSlice], told: Codec | None) -> Codec:
    """Return the codec of base files that take the place of none, if there will be such."""
    first = next((each for each in slices if each.base_file is None), None)
    if told is not None or first is None:
        return told or DEFAULT_CODEC
    return find_codec(snapshot, first.partition_path)


def _avro_schema(snapshot: Snapshot) -> str:
    """Return the columns of new base files as Avro JSON, without Hudi's own."""
    config = snapshot.state.config
    return find_stated_text(snapshot.commits, config) or avro_schema_json(
        snapshot.schema.data, f"{config.name}_record", f"hoodie.{config.name}"
    )


def _metadata_of(snapshot: Snapshot, written: Mapping[str, Sequence[WriteStat]]) -> CommitMetadata:
    extra = {"schema": _avro_schema(snapshot)}
    latest = next((c.latest_schema for c in reversed(snapshot.commits) if c.latest_schema), None)
    if latest is not None:
        extra["latest_schema"] = latest
    return CommitMetadata(
        partition_to_write_stats=written,
        compacted=True,
        extra_metadata=extra,
        operation_type=WriteOperation.COMPACT.operation_type,
    )


Rewrite = Callable[[StartedCompaction], Sequence[bytes]]
"""Has the slices of a compaction rewritten, and returns a receipt for each."""


def _find_pending(timeline: Timeline, is_expired: Callable[[str], bool]) -> Instant | None:
    """Return the oldest pending compaction that nobody is at; None if none is pending."""
    pending = timeline.pending.of("compaction").instants
    for instant in pending:
        time = instant.requested_time
        if instant.state is State.REQUESTED or is_expired(time):
            return instant
    if pending:
        raise ConflictError(
            f"compaction {pending[0].requested_time} is being executed, as its heartbeat "
            "tells; wait for it, or for two minutes if its writer is dead"
        )
    return None
