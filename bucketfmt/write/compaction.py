"""Compaction: what was logged of a file group becomes its next base file.

`plan_compaction` is pure. `Compactor` does I/O: it schedules under the table lock, has the slices
rewritten, and publishes under the lock again; rewriting one slice (`compact_slice`) needs nothing
but a snapshot and can be done anywhere. A compaction that was begun and not completed, by Hudi
or here, is executed again from its plan. Source: ScheduleCompactionActionExecutor,
BaseHoodieCompactionPlanGenerator, HoodieCompactor, CompactionUtils.

Writers go on meanwhile. From table version 8 on a log file belongs to the slice that was there
when it completed; before, it is named after the planned base file once there is a plan, and a
write that began without knowing of the plan is in conflict with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from bucketfmt.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptError,
    StorageError,
    UnsupportedError,
)
from bucketfmt.format.commit_metadata import NULL_COMMIT, CommitMetadata, WriteStat
from bucketfmt.format.instants import State
from bucketfmt.format.names import (
    BaseFileName,
    IoType,
    LogFileName,
    MarkerName,
    find_data_file_name,
    format_write_token,
)
from bucketfmt.format.paths import check_relative_path, join_path
from bucketfmt.format.plans import CompactionOperation, CompactionPlan
from bucketfmt.limits import Limits
from bucketfmt.rows.avro_schema_json import avro_schema_json
from bucketfmt.rows.base_file_writer import Codec
from bucketfmt.rows.merge_rules import find_merge_rules
from bucketfmt.rows.meta_rows import (
    add_meta_fields,
    add_null_meta_columns,
    meta_schema,
    set_file_name,
)
from bucketfmt.table.files import DataFile, FileSlice
from bucketfmt.table.schema import find_stated_text
from bucketfmt.table.slice_reader import RowSpec, SliceReader
from bucketfmt.table.snapshot import Snapshot
from bucketfmt.table.streams import worker_count
from bucketfmt.timeline.clock import known_times
from bucketfmt.timeline.load import (
    FileGroupId,
    load_compaction_plan,
    load_pending_clusterings,
    load_timeline,
)
from bucketfmt.timeline.markers import delete_announced_files, delete_markers, put_marker
from bucketfmt.timeline.timeline import Instant
from bucketfmt.timeline.transitions import put_completed, put_inflight, put_requested
from bucketfmt.write.basis import check_writable
from bucketfmt.write.merged_base import encode_merged_base
from bucketfmt.write.result import CommitResult
from bucketfmt.write.transaction import Transactions, result_of

__all__ = ["Compaction", "Compactor", "compact_slice", "plan_compaction"]

_MIB = 1 << 20
_TOKEN_ATTEMPTS = 1 << 31


@dataclass(frozen=True)
class Compaction:
    """A compaction under way: a value that can be sent to those who rewrite its slices.

    Attributes:
        instant: Its requested time.
        operations: The slices to rewrite.
    """

    instant: str
    operations: tuple[CompactionOperation, ...]


def plan_compaction(
    slices: Iterable[FileSlice], excluded: Collection[FileGroupId], min_log_files: int = 1
) -> CompactionPlan | None:
    """Return the plan that compacts these slices; None if there is nothing to compact.

    Args:
        slices: What is read of each file group.
        excluded: File groups that another plan has already.
        min_log_files: Leave slices with fewer log files as they are.
    """
    operations = [
        _plan_operation(file_slice)
        for file_slice in slices
        if len(file_slice.log_files) >= max(min_log_files, 1)
        and (file_slice.partition_path, file_slice.file_id) not in excluded
    ]
    return CompactionPlan(operations=operations) if operations else None


def _plan_operation(file_slice: FileSlice) -> CompactionOperation:
    base, logs = file_slice.base_file, file_slice.log_files
    log_bytes = sum(file.size or 0 for file in logs)
    read_mib = (log_bytes + (base.size or 0 if base else 0)) // _MIB
    write_mib = (base.size or 0 if base else log_bytes) // _MIB
    return CompactionOperation(
        base_instant_time=base.name.instant if base else logs[0].name.instant,
        delta_file_paths=[str(file.name) for file in logs],
        data_file_path=str(base.name) if base else None,
        file_id=file_slice.file_id,
        partition_path=file_slice.partition_path,
        metrics={
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(log_bytes),
            "TOTAL_IO_READ_MB": float(read_mib),
            "TOTAL_IO_WRITE_MB": float(write_mib),
            "TOTAL_IO_MB": float(read_mib + write_mib),
        },
    )


class Compactor:
    """Compacts one table."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        transactions: Transactions,
        workers: int | None = None,
    ) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now.
            transactions: How the table is written to.
            workers: Slices to rewrite at a time.
        """
        self._snapshot = snapshot
        self._owner = transactions
        self._workers = workers or transactions.machine.processors or worker_count()

    def schedule(self, min_log_files: int = 1) -> str | None:
        """Put a compaction on the timeline; return its instant, or None if there is none to make.

        Raises:
            UnsupportedError: the table merges records, or has files, in a way that is not built.
            ConflictError: a log compaction is pending.
            LockTimeoutError: the table lock was not to be had.
        """
        owner = self._owner
        config = self._snapshot().state.config
        if config.table_type != "MERGE_ON_READ":
            return None
        check_writable(config)
        find_merge_rules(config)  # rather now than with a plan that cannot be executed
        if self._plan(min_log_files) is None:  # lists the partitions while others may write
            return None
        with owner.recovered() as (config, timeline):
            # What completes from here on sees the plan; so the plan has to see all before.
            plan = self._plan(min_log_files)
            if plan is None:
                return None
            instant = owner.clock.next_time(known_times(timeline))
            put_requested(owner.store, config, instant, "compaction", plan)
        return instant

    def begin(self) -> Compaction | None:
        """Take on the oldest pending compaction that nobody is at; None if none is pending.

        What is left of an earlier attempt at it is removed. A heartbeat tells others of this
        package that it is being executed, until `commit` or `abandon`.

        Raises:
            ConflictError: all that are pending are being executed, as their heartbeats tell.
            UnsupportedError: its plan is of a kind that is not executed here.
            CorruptError: its plan is damaged.
            LockTimeoutError: the table lock was not to be had.
        """
        owner = self._owner
        with owner.recovered() as (config, timeline):
            pending = timeline.pending.of("compaction").instants
            free = [i for i in pending if self._is_free(i)]
            if not free:
                if pending:
                    raise ConflictError(
                        f"compaction {pending[0].requested_time} is being executed, as its "
                        "heartbeat tells; wait for it, or for two minutes if its writer is dead"
                    )
                return None
            found, instant = free[0], free[0].requested_time
            plan = load_compaction_plan(owner.store, config, found, owner.limits)
            check_writable(config)
            operations = tuple(_checked(operation, owner.limits) for operation in plan.operations)
            owner.heartbeats.start(instant)
            try:
                if found.state is State.REQUESTED:
                    put_inflight(owner.store, config, instant, "compaction")
                else:
                    self._remove_earlier_attempt(instant, operations)
            except BaseException:
                owner.heartbeats.stop(instant)
                raise
        return Compaction(instant, operations)

    def rewrite(self, compaction: Compaction, codec: Codec = "zstd") -> list[WriteStat]:
        """Rewrite all slices on the threads of this process. Errors as `compact_slice`."""
        snapshot = self._snapshot()
        work = partial(compact_slice, snapshot, compaction.instant, codec=codec)
        with ThreadPoolExecutor(self._workers) as pool:
            tasks = [
                pool.submit(work, operation, number)
                for number, operation in enumerate(compaction.operations)
            ]
            try:
                return [task.result() for task in tasks]
            finally:
                for task in tasks:
                    task.cancel()

    def commit(self, compaction: Compaction, stats: Sequence[WriteStat]) -> CommitResult:
        """Publish the new base files: one stat for each operation.

        Raises:
            ConflictError: somebody else completed the compaction, or took it back. Nothing was
                published.
            CommitUnknownError: the store does not tell whether it took effect.
        """
        owner, instant = self._owner, compaction.instant
        groups = sorted((stat.partition_path or "", stat.file_id or "") for stat in stats)
        if groups != sorted(
            (o.partition_path or "", o.file_id or "") for o in compaction.operations
        ):
            raise ValueError("a compaction is committed with one stat for each of its operations")
        metadata = _metadata_of(self._snapshot(), stats)
        kept = {stat.path or "" for stat in stats}
        delete_announced_files(owner.store, instant, owner.limits, kept=kept)
        with owner.lock:
            config = owner.check_metadata_table()
            done = put_completed(
                owner.store,
                config,
                load_timeline(owner.store, config, owner.limits),
                owner.clock,
                instant,
                "compaction",
                metadata,
                lambda: owner.lock.holds() and not owner.heartbeats.is_lost(instant),
            )
        delete_markers(owner.store, instant)
        owner.heartbeats.stop(instant)
        return result_of(done, metadata)

    def abandon(self, compaction: Compaction) -> None:
        """Leave a compaction pending, for anyone to begin again."""
        self._owner.heartbeats.stop(compaction.instant)

    def run(self, min_log_files: int = 1, codec: Codec = "zstd") -> CommitResult | None:
        """Execute the oldest pending compaction; if there is none, schedule one and execute it."""
        compaction = self.begin()
        if compaction is None:
            if self.schedule(min_log_files) is None:
                return None
            compaction = self.begin()
        if compaction is None:
            return None  # another process was faster
        try:
            return self.commit(compaction, self.rewrite(compaction, codec))
        except CommitUnknownError:
            raise  # while it may be published yet, nobody may begin it again
        except (Exception, KeyboardInterrupt):
            self.abandon(compaction)
            raise

    def _plan(self, min_log_files: int) -> CompactionPlan | None:
        state = (snapshot := self._snapshot()).state
        if state.timeline.pending.of("logcompaction").instants:
            raise ConflictError("a log compaction is pending; let Hudi finish it, then try again")
        clusterings = load_pending_clusterings(
            state.store, state.config, state.timeline, state.limits
        )
        excluded = {*state.pending_compactions, *clusterings}
        return plan_compaction(snapshot.slices_of(snapshot.partitions), excluded, min_log_files)

    def _is_free(self, instant: Instant) -> bool:
        time = instant.requested_time
        return instant.state is State.REQUESTED or self._owner.heartbeats.is_expired(time)

    def _remove_earlier_attempt(
        self, instant: str, operations: Iterable[CompactionOperation]
    ) -> None:
        """Remove the base files of this instant, announced or not, then what announced them."""
        store = self._owner.store
        for path in sorted({operation.partition_path or "" for operation in operations}):
            for info in store.list(path):
                name = None if info.is_dir else find_data_file_name(info.name)
                if isinstance(name, BaseFileName) and name.instant == instant:
                    store.delete(info.path)
        delete_markers(store, instant)


def compact_slice(
    snapshot: Snapshot,
    instant: str,
    operation: CompactionOperation,
    number: int,
    codec: Codec = "zstd",
) -> WriteStat:
    """Write the next base file of one file group, and return what the commit says of it.

    Doing it twice leaves a file too many, which `Compactor.commit` removes.

    Args:
        snapshot: The table, at any time since the compaction was scheduled.
        instant: The compaction's requested time.
        operation: One of its operations.
        number: Which one, for the file's write token.
        codec: Of parquet.

    Raises:
        CorruptError: a file of the slice is missing or damaged.
        UnsupportedError: blocks that are not read here; let Hudi execute the compaction.
        StorageError: the store failed.
    """
    state, file_slice = snapshot.state, _planned_slice(snapshot, operation)
    schema, populated = snapshot.schema, state.config.populate_meta_fields
    output = meta_schema(schema.data) if populated else schema.data
    token = format_write_token(number, 0, secrets.randbelow(_TOKEN_ATTEMPTS))
    name = str(BaseFileName(file_slice.file_id, token, instant, "parquet"))

    def stored(rows: pa.Table) -> pa.Table:
        rows = rows.select(output.names)
        return set_file_name(rows, name) if populated else add_null_meta_columns(rows)

    reader = SliceReader(snapshot, RowSpec(schema, output))
    log, num_blocks, base_rows = reader.merge(file_slice)
    with reader.opened_base(file_slice) as replaced:
        merged = encode_merged_base(
            log,
            base_rows,
            replaced,
            stored,
            add_meta_fields(_avro_schema(snapshot)),
            with_key_footer=populated,
            codec=codec,
        )

    base = file_slice.base_file
    io_type = IoType.CREATE if base is None else IoType.MERGE
    put_marker(state.store, instant, MarkerName(file_slice.partition_path, name, io_type))
    path = join_path(file_slice.partition_path, name)
    if not state.store.put_if_absent(path, merged.data):
        raise StorageError("a file of that name is there already; try again", path=path)
    return WriteStat(
        file_id=file_slice.file_id,
        path=path,
        partition_path=file_slice.partition_path,
        prev_commit=base.name.instant if base else NULL_COMMIT,
        prev_base_file=str(base.name) if base else None,
        num_writes=merged.num_rows,
        num_deletes=merged.num_deletes,
        num_update_writes=log.num_matched - merged.num_deletes,
        num_inserts=merged.num_inserts,
        total_write_bytes=merged.data.size,
        file_size_in_bytes=merged.data.size,
        total_log_records=log.num_entries,
        total_updated_records_compacted=len(log.record_keys),
        total_log_blocks=num_blocks,
        total_log_files_compacted=len(file_slice.log_files),
        total_log_size_compacted=sum(file.size or 0 for file in file_slice.log_files),
    )


def _planned_slice(snapshot: Snapshot, operation: CompactionOperation) -> FileSlice:
    """Return the slice as it was planned, whatever was logged since."""
    partition_path, file_id = operation.partition_path or "", operation.file_id or ""
    files = {str(file.name): file for file in snapshot.files_of(partition_path, file_id)}

    def file_of(planned: str) -> DataFile:
        name = planned.rpartition("/")[2]  # plans of version 1 have paths
        if name not in files:
            raise CorruptError(
                "a pending compaction needs this file and it is not there; restore it, or take "
                "the compaction back with Hudi (repair unschedule)",
                path=join_path(partition_path, name),
            )
        return files[name]

    base = file_of(operation.data_file_path) if operation.data_file_path else None
    logs = {f.name: f for f in map(file_of, operation.delta_file_paths)}
    names = sorted((n for n in logs if isinstance(n, LogFileName)), key=lambda n: n.sort_key)
    base_instant = operation.base_instant_time or ""
    return FileSlice(partition_path, file_id, base_instant, base, tuple(logs[n] for n in names))


def _checked(operation: CompactionOperation, limits: Limits) -> CompactionOperation:
    """Return an operation whose names lead nowhere but into its partition."""
    if operation.bootstrap_file_path:
        raise UnsupportedError("compacting a bootstrapped file; let Hudi execute the compaction")
    partition_path = operation.partition_path or ""
    if partition_path:
        check_relative_path(partition_path, limits)
    for path in (operation.data_file_path, *operation.delta_file_paths):
        if path and find_data_file_name(path.rpartition("/")[2]) is None:
            raise CorruptError(f"a compaction plan names {path[:200]!r}, which is no data file")
    return operation


def _avro_schema(snapshot: Snapshot) -> str:
    """Return the columns of new base files as Avro JSON, without Hudi's own."""
    config = snapshot.state.config
    return find_stated_text(snapshot.commits, config) or avro_schema_json(
        snapshot.schema.data, f"{config.name}_record", f"hoodie.{config.name}"
    )


def _metadata_of(snapshot: Snapshot, stats: Iterable[WriteStat]) -> CommitMetadata:
    extra = {"schema": _avro_schema(snapshot)}
    latest = next((c.latest_schema for c in reversed(snapshot.commits) if c.latest_schema), None)
    if latest is not None:
        extra["latest_schema"] = latest
    by_partition: dict[str, list[WriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path or "", []).append(stat)
    return CommitMetadata(
        partition_to_write_stats=by_partition,
        compacted=True,
        extra_metadata=extra,
        operation_type="COMPACT",
    )
