"""A resize of rings under way: groups are rewritten anywhere, and one replacecommit publishes it.

I/O. Source: HoodieSparkConsistentBucketIndex.updateLocation,
SparkConsistentBucketClusteringExecutionStrategy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from bucketfmt.arguments import check_callable
from bucketfmt.choices import Codec
from bucketfmt.errors import (
    CorruptError,
)
from bucketfmt.format.buckets.child_nodes import RingChange
from bucketfmt.format.buckets.hashing_metadata import HashingMetadata
from bucketfmt.format.buckets.ring import HashingNode
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.format.timeline.plans import ClusteringPlan
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.hashing_files import load_hashing_metadata, mark_new_rings, put_ring
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.execution import Execute, execute_in
from bucketfmt.resize.plan_rewrite import RewriteStep
from bucketfmt.resize.rewrite_task import RewriteTask, encode_step, groups_of
from bucketfmt.resize.split_merge.plan_ring import SORT_COLUMNS
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.write.commit.receipts import file_groups_of, stats_by_partition
from bucketfmt.write.commit.result import CommitResult, result_of
from bucketfmt.write.commit.started_work import PendingInstant, ResumableWork
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.in_threads import InThreads
from bucketfmt.write.files.table_codec import find_codec
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.services.planned_slices import (
    check_operation,
    load_planned_slices,
    to_operation,
)

__all__ = ["StartedResize", "load_new_rings", "load_slices"]

_T = TypeVar("_T")


class Planned(Protocol):
    """As `BucketService.planned`."""

    def __call__(self, plan: Callable[[Basis], _T]) -> _T: ...


class StartedResize(ResumableWork):
    """A resize under way. A context: left without `publish`, it is for anyone to begin again.

    Attributes:
        instant: Its requested time.
        payloads: The groups to rewrite, for `RewriteTask.rewrite`; opaque.
        task: What rewrites the groups, anywhere: send it there.
    """

    def __init__(
        self,
        pending: PendingInstant,
        planned: Planned,
        plan: ClusteringPlan,
        changes: Mapping[str, RingChange],
        codec: Codec | None,
    ) -> None:
        """Find the files of the plan, and the new rings, in the table as it is now."""
        super().__init__(pending)
        self._planned = planned
        self._changes = changes

        def begin(basis: Basis) -> tuple[list[RewriteStep], RewriteTask]:
            own = codec
            if own is None and changes:
                own = find_codec(basis.snapshot, min(changes))
            return _load_steps(basis, plan, changes), RewriteTask.of(basis, self.instant, own)

        steps, self.task = planned(begin)
        self.payloads = tuple(encode_step(step, self.instant) for step in steps)

    def run(self, execute: Execute) -> CommitResult:
        """Have all groups rewritten, and publish.

        Args:
            execute: Executes steps by `task`, and returns the receipts of each.

        Raises:
            CorruptError, StorageError, UnsupportedError: as `RewriteTask.rewrite`.
            ConflictError, CommitUnknownError: as `publish`.
            TypeError: `execute` is no function.
        """
        check_callable("execute", execute)
        done = execute(self.task, self.payloads)
        return self.publish(receipt for receipts in done for receipt in receipts)

    def run_in_threads(self, progress: ProgressCallback | None = None) -> CommitResult:
        """Rewrite all groups on the threads of this process, and publish. As `run`."""
        table = self._pending.table
        announcer = Announcer(table.store, self.instant)
        return self.run(execute_in(InThreads(table.machine, announcer, "resizing", progress)))

    def publish(self, receipts: Iterable[bytes]) -> CommitResult:
        """Give the partitions their new rings, hide the old file groups and show the new ones.

        Args:
            receipts: What the tasks returned for each of `payloads`, whatever attempts there were.

        Raises:
            ConflictError: somebody else completed the resize, or took it back, or changed the ring.
                Nothing was published.
            CommitUnknownError: the store does not tell whether it took effect.
            CorruptError: a receipt does not decode, or tells of a file that is not this one's.
            ValueError: there is no receipt for one of the groups.
            UnsupportedError: this is a forked child, and the parent began the resize.
        """
        found = self._pending.find_winners(receipts)
        planned = sorted(group for payload in self.payloads for group in groups_of(payload))
        if file_groups_of(found) != planned:
            raise ValueError("a resize is published with the receipts of each of its groups")
        written = stats_by_partition(found)
        self._pending.delete_other_files(written)
        with self._pending.table.locked() as table:
            table.load_timeline()
            self._pending.check_not_begun_again(table, written)
            basis = self._planned(lambda basis: basis)  # with the columns of now
            for ring in load_new_rings(basis.snapshot.state, self._changes).values():
                put_ring(table.store, ring)
            metadata = self._metadata(basis, written)
            done = self._pending.complete(table, metadata)
        version = basis.snapshot.state.config.table_version
        mark_new_rings(self._pending.table.store, self._changes, self.instant, version)
        self._pending.end()
        return result_of(done, metadata)

    def _metadata(self, basis: Basis, written: Mapping[str, Sequence[WriteStat]]) -> CommitMetadata:
        return CommitMetadata(
            partition_to_write_stats=written,
            extra_metadata=basis.schema_entries,
            operation_type=WriteOperation.CLUSTER.operation_type,
            partition_to_replace_file_ids={
                path: sorted(change.file_ids) for path, change in sorted(self._changes.items())
            },
        )


def load_new_rings(
    state: TableState, changes: Mapping[str, RingChange]
) -> dict[str, HashingMetadata]:
    """Return the rings that partitions get, in the order of their paths.

    Raises:
        CorruptError: a partition has no hashing metadata, or the plan is of another ring.
        ConflictError: the ring of a partition was changed since the plan.
    """
    return {path: changes[path].apply(_load_ring(state, path)) for path in sorted(changes)}


def _load_ring(state: TableState, partition_path: str) -> HashingMetadata:
    metadata = load_hashing_metadata(state, partition_path)
    if metadata is None:
        raise CorruptError(
            "a clustering is to change the ring of a partition without hashing metadata; roll the "
            "clustering back",
            partition=partition_path,
        )
    return metadata


def load_slices(snapshot: Snapshot, plan: ClusteringPlan) -> list[FileSlice]:
    """Return the slices of a plan as they were planned, without those that have no file."""
    operations = [
        check_operation(to_operation(planned), snapshot.state.limits)
        for group in plan.input_groups
        for planned in group.slices
    ]
    return load_planned_slices(snapshot, operations)


def _load_steps(
    basis: Basis, plan: ClusteringPlan, changes: Mapping[str, RingChange]
) -> list[RewriteStep]:
    """Return the groups of a plan as steps."""
    snapshot, state = basis.snapshot, basis.snapshot.state
    found = load_slices(snapshot, plan)
    slices = {(each.partition_path, each.file_id): each for each in found}
    params = plan.strategy.strategy_params if plan.strategy is not None else {}
    columns = tuple(filter(None, params.get(SORT_COLUMNS, "").split(",")))
    rings = load_new_rings(state, changes)
    steps = []
    for path, change in sorted(changes.items()):
        nodes = rings[path].nodes
        layout = basis.finder.layout(snapshot, path)
        for group in change.groups:
            own = [slices[path, file_id] for file_id in group.file_ids if (path, file_id) in slices]
            buckets = tuple(node.value for node in group.new_nodes)
            part = layout.with_nodes(_with_former_nodes(nodes, buckets))
            steps.append(RewriteStep(path, tuple(own), part, buckets, columns))
    return steps


def _with_former_nodes(
    nodes: Sequence[HashingNode], values: Iterable[int]
) -> tuple[HashingNode, ...]:
    """Return the nodes of these values, each with the node before: where their ranges begin."""
    places = [bisect_left(nodes, value, key=lambda node: node.value) for value in values]
    kept = {*places, *((place - 1) % len(nodes) for place in places)}
    return tuple(nodes[place] for place in sorted(kept))
