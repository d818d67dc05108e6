"""The child nodes of a ring's resize: as a clustering plan holds them, and applied to the ring.

Pure. A pending resize stands nowhere but in the plan of its clustering, in the `extraMetadata` of
each group of file slices. Sources: BaseConsistentHashingBucketClusteringPlanStrategy,
ConsistentHashingUpdateStrategyUtils, HoodieSparkConsistentBucketIndex.updateLocation.
Spec: RING-18 to RING-24, RING-27.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from bucketfmt.errors import BucketfmtError, ConflictError, CorruptError
from bucketfmt.format.buckets.hashing_metadata import HashingMetadata
from bucketfmt.format.buckets.ring import HashingNode, apply_children
from bucketfmt.format.encoding.json_text import (
    decode_unambiguous_json,
    encode_jackson_json,
)
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.format.timeline.plans import ClusteringGroup, ClusteringPlan
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "GroupChange",
    "RingChange",
    "find_ring_changes",
    "format_child_nodes",
    "format_group_change",
    "parse_child_nodes",
]

_PARTITION = "clustering.group.partition"
_CHILD_NODES = "clustering.group.child.node"
_SEQUENCE_NUMBER = "clustering.group.sequence.no"

_SEQ_NO = re.compile(r"[0-9]{1,10}")
_PREFIX = re.compile(r"[a-zA-Z0-9-]{1,128}")
_INT_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What one group of a plan does: the rows of some file groups go to the children.

    Attributes:
        file_ids: The file groups that are rewritten, in the order of the plan.
        children: REPLACE for each file group that takes rows, DELETE for nodes that end.
    """

    file_ids: tuple[str, ...]
    children: tuple[HashingNode, ...]

    @property
    def new_nodes(self) -> tuple[HashingNode, ...]:
        """The nodes whose file groups take the rows, in the order of the plan."""
        return tuple(child for child in self.children if child.tag == "REPLACE")


@dataclass(frozen=True, slots=True)
class RingChange:
    """What a clustering plan does to the ring of one partition.

    Attributes:
        partition_path: The partition.
        instant: The requested time of the clustering.
        seq_no: Of the ring that the plan was made on.
        groups: The groups of the partition, in the order of the plan.
    """

    partition_path: str
    instant: str
    seq_no: int
    groups: tuple[GroupChange, ...]

    @property
    def children(self) -> tuple[HashingNode, ...]:
        """The children of all groups."""
        return tuple(child for group in self.groups for child in group.children)

    @property
    def file_ids(self) -> frozenset[str]:
        """The file groups that are rewritten. Rows written to them go to the children as well."""
        return frozenset(file_id for group in self.groups for file_id in group.file_ids)

    @property
    def child_file_ids(self) -> frozenset[str]:
        """The file groups that take the rows."""
        return frozenset(node.file_id for group in self.groups for node in group.new_nodes)

    def apply(self, metadata: HashingMetadata) -> HashingMetadata:
        """Return the metadata of the partition once the resize is completed.

        Args:
            metadata: In force for the partition until then.

        Raises:
            ConflictError: the ring was changed since the plan was made.
            CorruptError: the children do not fit the ring, or a file group of the plan is on no
                node.
        """
        path = self.partition_path
        if metadata.seq_no != self.seq_no:
            raise ConflictError(
                f"the clustering of {self.instant} was planned on the ring with seqNo "
                f"{self.seq_no}, and the ring in force has {metadata.seq_no}; roll the clustering "
                "back, then plan again",
                partition=path,
            )
        owners = {node.file_id: node for node in metadata.nodes}
        stray = next((file_id for file_id in sorted(self.file_ids) if file_id not in owners), None)
        if stray is not None:
            raise CorruptError(
                f"the clustering of {self.instant} rewrites file group {stray}, which is on no "
                "node of the ring; roll the clustering back",
                partition=path,
            )
        try:
            nodes = apply_children(metadata.nodes, self.children)
        except BucketfmtError as error:
            raise error.within(partition=path) from None
        return msgspec.structs.replace(
            metadata, instant=self.instant, seq_no=metadata.seq_no + 1, nodes=nodes
        )


def parse_child_nodes(text: str, limits: Limits = DEFAULT_LIMITS) -> tuple[HashingNode, ...]:
    """Return the children of a resize, from `clustering.group.child.node` of a plan's group.

    Raises:
        CorruptError: the text is not such JSON, a child is tagged neither REPLACE nor DELETE, or a
            child that takes rows has no file id prefix.
        LimitError: there are too many nodes.
    """
    what = "child nodes"
    limits.check("hashing_metadata_bytes_max", len(text))
    nodes = decode_unambiguous_json(text.encode(), tuple[HashingNode, ...], what)
    limits.check("ring_nodes_max", len(nodes))
    for node in nodes:
        if node.tag == "NORMAL":
            raise CorruptError(f"child node {node.value} is tagged {node.tag}")
        if node.tag == "REPLACE" and not _PREFIX.fullmatch(node.file_id_prefix or ""):
            raise CorruptError(
                f"child node {node.value} has the file id prefix {node.file_id_prefix!r:.80}, "
                "which no base file can have"
            )
    return nodes


def format_child_nodes(nodes: Iterable[HashingNode]) -> str:
    """Return the text Hudi puts into `clustering.group.child.node`, to the byte."""
    return encode_jackson_json(msgspec.to_builtins(list(nodes))).decode()


def format_group_change(
    partition_path: str, children: Iterable[HashingNode], seq_no: int
) -> dict[str, str]:
    """Return the `extraMetadata` of a plan's group that resizes a ring."""
    return {
        _PARTITION: partition_path,
        _CHILD_NODES: format_child_nodes(children),
        _SEQUENCE_NUMBER: str(seq_no),
    }


def find_ring_changes(
    plan: ClusteringPlan, instant: str, limits: Limits = DEFAULT_LIMITS
) -> dict[str, RingChange]:
    """Return what a plan does to rings, by partition path; empty if the plan resizes no ring.

    Args:
        plan: Of a clustering.
        instant: The requested time of the clustering.
        limits: Bounds on the nodes.

    Raises:
        CorruptError: a group lacks a property that another group has, file slices of a group are in
            another partition, or two groups of a partition disagree or change the same node.
        LimitError: there are too many nodes.
        UnsafePathError: a partition path leaves the table.
    """
    groups = [group for group in plan.input_groups if _CHILD_NODES in group.extra_metadata]
    if not groups:
        return {}
    if len(groups) != len(plan.input_groups):
        raise CorruptError("some groups of the clustering plan have child nodes, and others none")
    found: dict[str, list[tuple[int, GroupChange]]] = {}
    for group in groups:
        path, seq_no, change = _parse_group(group, limits)
        found.setdefault(path, []).append((seq_no, change))
    return {path: _join(path, instant, changes) for path, changes in found.items()}


def _parse_group(group: ClusteringGroup, limits: Limits) -> tuple[str, int, GroupChange]:
    stated = group.extra_metadata
    path, seq_no = stated.get(_PARTITION), stated.get(_SEQUENCE_NUMBER, "")
    if path is None or not _SEQ_NO.fullmatch(seq_no) or int(seq_no) > _INT_MAX:
        raise CorruptError(
            f"a group of the clustering plan has child nodes, and the partition {path!r:.80} and "
            f"the sequence number {seq_no!r:.20}; roll the clustering back"
        )
    check_relative_path(path, limits)
    file_ids = []
    for file_slice in group.slices:
        if (file_slice.partition_path or "") != path or not file_slice.file_id:
            raise CorruptError(
                "a file slice of the clustering plan is in another partition than the child nodes "
                "of its group",
                partition=path,
            )
        file_ids.append(file_slice.file_id)
    try:
        children = parse_child_nodes(stated[_CHILD_NODES], limits)
    except BucketfmtError as error:
        raise error.within(partition=path) from None
    return path, int(seq_no), GroupChange(tuple(file_ids), children)


def _join(path: str, instant: str, changes: list[tuple[int, GroupChange]]) -> RingChange:
    seq_nos = {seq_no for seq_no, _ in changes}
    joined = RingChange(path, instant, changes[0][0], tuple(change for _, change in changes))
    values = [child.value for child in joined.children]
    file_ids = [file_id for change in joined.groups for file_id in change.file_ids]
    if len(seq_nos) > 1:
        problem = f"states the sequence numbers {sorted(seq_nos)}"
    elif len(set(values)) != len(values):
        problem = "changes a node twice"
    elif len(set(file_ids)) != len(file_ids):
        problem = "rewrites a file group twice"
    else:
        return joined
    raise CorruptError(
        f"the clustering plan {problem} in one partition; roll the clustering back", partition=path
    )
