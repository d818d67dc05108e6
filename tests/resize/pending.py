"""A resize of rings that is planned and not executed, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import bucketfmt as bf
from bucketfmt.format.buckets.child_nodes import format_group_change
from bucketfmt.format.buckets.ring import HashingNode, merge_nodes, split_node
from bucketfmt.format.names.names import LogFileName, format_consistent_file_id
from bucketfmt.format.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    RequestedReplaceMetadata,
    SliceInfo,
)
from bucketfmt.location.hashing_files import load_hashing_metadata

__all__ = ["find_copies", "schedule_resize"]


def schedule_resize(
    table: bf.Table, partition: str = "us", *, split: Sequence[int] = (), merge: Sequence[int] = ()
) -> str:
    """Put a plan on the timeline that splits and merges buckets by their places on the ring."""
    snapshot = table._snapshot()
    metadata = load_hashing_metadata(snapshot.state, partition)
    assert metadata is not None
    nodes, groups = metadata.nodes, []
    new = (str(UUID(int=n + (4 << 76) + (8 << 60))) for n in range(100))

    def group(values: Sequence[int], children: Sequence[HashingNode]) -> ClusteringGroup:
        file_ids = {format_consistent_file_id(nodes[i].file_id_prefix or "") for i in values}
        slices = [s for s in snapshot.slices(partition) if s.file_id in file_ids]
        return ClusteringGroup(
            slices=[
                SliceInfo(
                    data_file_path=f"{table.uri}/{s.base_file.path}" if s.base_file else "",
                    delta_file_paths=[f"{table.uri}/{f.path}" for f in reversed(s.log_files)],
                    file_id=s.file_id,
                    partition_path=partition,
                    bootstrap_file_path="",
                )
                for s in slices
            ],
            num_output_file_groups=sum(node.tag == "REPLACE" for node in children),
            extra_metadata=format_group_change(partition, children, metadata.seq_no),
        )

    for place in split:
        children = split_node(nodes, nodes[place].value, (next(new), next(new)))
        assert children is not None
        groups.append(group([place], children))
    if merge:
        values = [nodes[place].value for place in merge]
        groups.append(group(merge, merge_nodes(nodes, values, next(new))))
    plan = ClusteringPlan(input_groups=groups, preserve_hoodie_metadata=True)
    content = RequestedReplaceMetadata(operation_type="CLUSTER", clustering_plan=plan)
    with table._transactions.recovered() as locked:
        return locked.request("clustering", content).requested_time


def find_copies(table: bf.Table, resize: str, partition: str = "us") -> list[LogFileName]:
    """Return the log files that bear the instant of a resize."""
    listed = table._snapshot().state.lister.files(partition)
    names = [file.name for files in listed.values() for file in files]
    return sorted(
        (n for n in names if isinstance(n, LogFileName) and n.instant == resize),
        key=lambda name: (name.file_id, name.sort_key),
    )
