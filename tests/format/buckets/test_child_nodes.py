"""Child nodes: Hudi's own plans make the rings that Hudi wrote next, and hostile plans fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import ConflictError, CorruptError, LimitError, UnsafePathError
from bucketfmt.format.buckets.child_nodes import (
    RingChange,
    find_ring_changes,
    format_child_nodes,
    format_group_change,
    parse_child_nodes,
)
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    decode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.buckets.ring import HashingNode, merge_nodes, split_node
from bucketfmt.format.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    SliceInfo,
    decode_requested_replace_metadata,
)
from bucketfmt.limits import Limits

INSTANT = "20260102030405678"
FOUR = initial_hashing_metadata("a", 4)


def change_of(*groups: ClusteringGroup) -> RingChange:
    (change,) = find_ring_changes(ClusteringPlan(input_groups=groups), INSTANT).values()
    return change


def group_of(
    children: list[HashingNode], *file_ids: str, path: str = "a", seq_no: int = 0
) -> ClusteringGroup:
    slices = [SliceInfo(file_id=file_id, partition_path=path) for file_id in file_ids]
    return ClusteringGroup(slices=slices, extra_metadata=format_group_change("a", children, seq_no))


def file_id_of(metadata: HashingMetadata, index: int) -> str:
    return f"{metadata.nodes[index].file_id_prefix}-0"


@pytest.mark.rule("RING-18", "RING-20", "RING-21", "RING-22")
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_the_children_in_hudis_plans_make_the_rings_hudi_wrote_next(
    version: str, golden: Callable[[str, str], Path]
) -> None:
    table = golden(version, "ch_split")
    folder = table / ".hoodie/.bucket_index/consistent_hashing_metadata"
    found = [decode_hashing_metadata(p.read_bytes()) for p in folder.rglob("*.hashing_meta")]
    rings = {(ring.partition_path, ring.instant): ring for ring in found}
    current = {path: ring for (path, instant), ring in rings.items() if set(instant) == {"0"}}
    paths = [*table.rglob("*.clustering.requested"), *table.rglob("*.replacecommit.requested")]
    for path in sorted(paths):
        plan = decode_requested_replace_metadata(path.read_bytes()).clustering_plan
        assert plan is not None
        instant = path.name.split(".")[0]
        for partition_path, change in find_ring_changes(plan, instant).items():
            groups = [
                group.extra_metadata
                for group in plan.input_groups
                if group.extra_metadata["clustering.group.partition"] == partition_path
            ]
            assert groups == [
                format_group_change(partition_path, group.children, change.seq_no)
                for group in change.groups
            ]
            after = change.apply(current[partition_path])
            assert after == rings[partition_path, instant]
            current[partition_path] = after
            written = {file.name.partition("_")[0] for file in (table / partition_path).iterdir()}
            assert change.child_file_ids <= written
            assert len(change.child_file_ids) == len(change.children)
    assert {ring.seq_no for ring in current.values()} == {2}


@given(st.data(), st.integers(2, 9))
def test_groups_come_back_and_are_applied_together(data: st.DataObject, num_nodes: int) -> None:
    before = initial_hashing_metadata("a", num_nodes)
    at = data.draw(st.integers(0, num_nodes - 1))
    how = data.draw(st.integers(1, num_nodes - 1)) if data.draw(st.booleans()) else 0
    merged = [(at + 1 + i) % num_nodes for i in range(how)] if how > 1 else []
    split = split_node(before.nodes, before.nodes[at].value, ("lower", "upper"))
    assert split is not None
    groups = [group_of([*split], file_id_of(before, at))]
    if merged:
        children = merge_nodes(before.nodes, [before.nodes[i].value for i in merged], "merged")
        groups.append(group_of([*children], *(file_id_of(before, i) for i in merged)))
    change = change_of(*groups)
    assert change.groups[0].children == split
    assert change.file_ids == {file_id_of(before, i) for i in {at, *merged}}
    assert [n.file_id_prefix for g in change.groups for n in g.new_nodes] == [
        "lower",
        "upper",
        *(["merged"] if merged else []),
    ]
    after = change.apply(before)
    kept = {n for i, n in enumerate(before.nodes) if i not in {at, *merged}}
    new = {HashingNode(n.value, n.file_id_prefix) for n in change.children if n.tag == "REPLACE"}
    assert set(after.nodes) == kept | new
    assert (after.seq_no, after.instant, after.num_buckets) == (1, INSTANT, num_nodes)


def test_a_plan_without_child_nodes_changes_no_ring() -> None:
    plan = ClusteringPlan(input_groups=[ClusteringGroup(slices=[SliceInfo(file_id="x")])])
    assert find_ring_changes(plan, INSTANT) == {}


SORT = [HashingNode(FOUR.nodes[0].value, "new", "REPLACE")]
OTHER = [HashingNode(FOUR.nodes[1].value, "new2", "REPLACE")]


@pytest.mark.rule("RING-27")
def test_plans_that_contradict_themselves_are_corrupt() -> None:
    first = group_of(SORT, file_id_of(FOUR, 0))
    for second, message in (
        (ClusteringGroup(), "others none"),
        (group_of(OTHER, file_id_of(FOUR, 1), seq_no=1), "sequence numbers"),
        (group_of(SORT, file_id_of(FOUR, 1)), "a node twice"),
        (group_of(OTHER, file_id_of(FOUR, 0)), "a file group twice"),
        (group_of(OTHER, file_id_of(FOUR, 1), path="b"), "another partition"),
    ):
        with pytest.raises(CorruptError, match=message):
            change_of(first, second)
    escaping = ClusteringGroup(extra_metadata=format_group_change("../a", SORT, 0))
    with pytest.raises(UnsafePathError):
        change_of(escaping)
    children = format_child_nodes([*SORT, HashingNode(2, None, "DELETE")])
    with pytest.raises(LimitError, match="ring_nodes_max"):
        parse_child_nodes(children, Limits(ring_nodes_max=1))


@pytest.mark.rule("RING-22")
def test_a_change_fits_the_ring_that_it_was_planned_on_only() -> None:
    change = change_of(group_of(SORT, file_id_of(FOUR, 0)))
    with pytest.raises(ConflictError, match="seqNo 0"):
        change.apply(change.apply(FOUR))
    stray = change_of(group_of(SORT, "elsewhere-0"))
    with pytest.raises(CorruptError, match="on no node"):
        stray.apply(FOUR)
