from __future__ import annotations

import pytest

from bucketfmt.errors import ConflictError
from bucketfmt.format.names.instants import State, format_instant_file_name
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.format.timeline.instant_content import InstantContent, encode_instant_content
from bucketfmt.format.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    CompactionOperation,
    CompactionPlan,
    InstantInfo,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
    RollbackRequest,
    SliceInfo,
)
from bucketfmt.format.timeline.service_metadata import (
    RestoreMetadata,
    RollbackMetadata,
    RollbackPartitionMetadata,
)
from bucketfmt.index.numbered_buckets import PartitionBucketIndex, SimpleBucketIndex
from bucketfmt.index.stored_buckets import ConsistentHashingIndex
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.timeline import Instant
from bucketfmt.write.conflicts.find_conflicts import (
    ConcurrentOperation,
    Conflict,
    concurrent_operation,
    conflict_error,
    find_candidates,
    find_conflicts,
)
from bucketfmt.write.conflicts.resolve_conflicts import load_concurrent_operations
from tests.timeline.tables import config_of

T = [f"2024010100000{n}000" for n in range(10)]
OURS = T[5]
UUID = "-6c4b-4d5a-9d3f-2f6d1b1a9c1d-0"
F1, F1_OTHER, F2 = "00000001" + UUID, "00000001" + UUID.replace("6c", "7d"), "00000002" + UUID
SIMPLE = SimpleBucketIndex(8)


def config(layout: int = 2, table_type: str = "MERGE_ON_READ") -> TableConfig:
    return config_of(layout, **{"hoodie.table.type": table_type})


class Table:
    """A timeline in memory, changed instant by instant."""

    def __init__(self, settings: TableConfig) -> None:
        self.config = settings
        self.store = MemoryStore()

    def put(
        self, number: int, action: str, *states: State, content: InstantContent | None = None
    ) -> None:
        layout = self.config.timeline_layout
        for state in states:
            completion_time = f"{T[number][:-1]}9" if state is State.COMPLETED else None
            name = format_instant_file_name(T[number], action, state, completion_time, layout)
            data = b""
            if content is not None and state is states[-1]:
                data = encode_instant_content(content, action, state, layout)
            self.store.replace(f"{self.config.timeline_path}/{name}", data)

    def timeline(self):
        return load_timeline(self.store, self.config)

    def candidates(self, before) -> list[tuple[str, str, State]]:
        found = find_candidates(self.config, before, self.timeline(), OURS)
        return [(instant.requested_time, instant.action, instant.state) for instant in found]


REQUESTED, INFLIGHT, COMPLETED = State


# --- which instants are looked at


@pytest.mark.parametrize("layout", [1, 2])
def test_those_that_completed_since_the_write_began(layout: int) -> None:
    table = Table(config(layout))
    table.put(1, "deltacommit", COMPLETED)
    table.put(2, "deltacommit", REQUESTED, INFLIGHT)  # goes on
    table.put(3, "deltacommit", REQUESTED)  # completes
    before = table.timeline()
    table.put(5, "deltacommit", REQUESTED, INFLIGHT)  # our own
    table.put(3, "deltacommit", INFLIGHT, COMPLETED)
    table.put(6, "deltacommit", REQUESTED, INFLIGHT, COMPLETED)
    table.put(7, "replacecommit", COMPLETED)
    table.put(8, "clean", COMPLETED)
    table.put(9, "deltacommit", REQUESTED, INFLIGHT)
    assert table.candidates(before) == [
        (T[3], "deltacommit", COMPLETED),
        (T[6], "deltacommit", COMPLETED),
        (T[7], "replacecommit", COMPLETED),
    ]


@pytest.mark.parametrize("layout", [1, 2])
def test_compactions_matter_to_version_6_and_to_base_files(layout: int) -> None:
    table = Table(config(layout))
    table.put(1, "compaction", REQUESTED)  # stays pending: we wrote to the slice it opened
    table.put(2, "compaction", REQUESTED, INFLIGHT)  # completes
    before = table.timeline()
    table.put(2, "compaction", COMPLETED)
    table.put(6, "compaction", REQUESTED, INFLIGHT, COMPLETED)
    table.put(7, "compaction", REQUESTED)
    expected = [
        (T[2], "commit", COMPLETED),
        (T[6], "commit", COMPLETED),
        (T[7], "compaction", REQUESTED),
    ]
    assert table.candidates(before) == (expected if layout == 1 else [])
    # The base file of a later compaction would hide a base file of ours.
    now = table.timeline()
    found = find_candidates(table.config, before, now, OURS, writes_base_files=True)
    assert [(i.requested_time, i.action, i.state) for i in found] == expected


@pytest.mark.parametrize("layout", [1, 2])
def test_a_commit_of_a_copy_on_write_table_is_a_write(layout: int) -> None:
    table = Table(config(layout, "COPY_ON_WRITE"))
    before = table.timeline()
    table.put(6, "commit", COMPLETED)
    assert table.candidates(before) == [(T[6], "commit", COMPLETED)]


def test_pending_instants_that_rewrite_or_take_back() -> None:
    table = Table(config())
    table.put(1, "clustering", REQUESTED, INFLIGHT)
    table.put(2, "replacecommit", REQUESTED)
    table.put(3, "rollback", REQUESTED)
    table.put(4, "restore", REQUESTED)
    table.put(6, "indexing", REQUESTED)
    assert [action for _, action, _ in table.candidates(table.timeline())] == [
        "clustering",
        "replacecommit",
        "rollback",
        "restore",
    ]


# --- what they touch


def metadata(operation_type: str, *groups: tuple[str, str], **replaced: str) -> CommitMetadata:
    stats: dict[str, list[WriteStat]] = {}
    for partition, file_id in groups:
        stats.setdefault(partition, []).append(WriteStat(file_id=file_id))
    return CommitMetadata(
        partition_to_write_stats=stats,
        operation_type=operation_type,
        partition_to_replace_file_ids={p: [file_id] for p, file_id in replaced.items()},
    )


def clustering(*groups: tuple[str, str]) -> RequestedReplaceMetadata:
    slices = [SliceInfo(partition_path=p, file_id=file_id) for p, file_id in groups]
    return RequestedReplaceMetadata(
        operation_type="CLUSTER",
        clustering_plan=ClusteringPlan(input_groups=[ClusteringGroup(slices=slices)]),
    )


def compaction(*groups: tuple[str, str]) -> CompactionPlan:
    return CompactionPlan(
        operations=[CompactionOperation(partition_path=p, file_id=f) for p, f in groups]
    )


@pytest.mark.parametrize(
    ("content", "file_groups", "operation_type", "rolled_back"),
    [
        (None, set(), None, set()),
        (metadata("UPSERT", ("p", F1), ("p", ""), ("q", F2)), {("p", F1), ("q", F2)}, "UPSERT", {}),
        (
            metadata("INSERT_OVERWRITE", ("p", F1), q=F2),
            {("p", F1), ("q", F2)},
            "INSERT_OVERWRITE",
            {},
        ),
        (compaction(("p", F1), ("", F2)), {("p", F1), ("", F2)}, "COMPACT", {}),
        (clustering(("p", F1), ("p", F2)), {("p", F1), ("p", F2)}, "CLUSTER", {}),
        (RequestedReplaceMetadata(), set(), None, {}),
        (
            RollbackPlan(instant_to_rollback=InstantInfo(commit_time=OURS, action="commit")),
            set(),
            None,
            {OURS},
        ),
        (RollbackPlan(), set(), None, {}),
        (
            RestorePlan(
                instants_to_rollback=[
                    InstantInfo(commit_time=time, action="commit") for time in (T[6], OURS)
                ]
            ),
            set(),
            None,
            {OURS, T[6]},
        ),
    ],
)
def test_what_an_instant_touches(
    content: InstantContent | None, file_groups: set, operation_type: str, rolled_back: set
) -> None:
    instant = Instant(T[6], "x", REQUESTED, None, "")
    assert concurrent_operation(instant, content) == ConcurrentOperation(
        T[6], "x", False, frozenset(file_groups), operation_type, frozenset(rolled_back)
    )


@pytest.mark.parametrize("layout", [1, 2])
def test_reading_what_they_touch(layout: int) -> None:
    table = Table(config(layout))
    table.put(1, "clustering", REQUESTED, content=clustering(("p", F1)))
    table.put(1, "clustering", INFLIGHT)
    overwrite = RequestedReplaceMetadata()
    table.put(2, "replacecommit", REQUESTED, content=overwrite)
    table.put(2, "replacecommit", INFLIGHT, content=metadata("INSERT_OVERWRITE", ("q", F2)))
    table.put(3, "replacecommit", REQUESTED, content=overwrite)
    rollback = RollbackPlan(instant_to_rollback=InstantInfo(commit_time=OURS, action="commit"))
    table.put(4, "rollback", REQUESTED, content=rollback)
    table.put(4, "rollback", INFLIGHT)
    table.put(6, "deltacommit", COMPLETED, content=metadata("UPSERT", ("p", F2)))
    table.put(7, "compaction", REQUESTED, content=compaction(("p", F2)))
    table.put(7, "compaction", INFLIGHT)
    restore = RestorePlan(instants_to_rollback=[InstantInfo(commit_time=T[3], action="commit")])
    table.put(8, "restore", REQUESTED, content=restore)
    restored = RestoreMetadata(
        start_restore_time=T[8],
        time_taken_in_millis=0,
        instants_to_rollback=[],
        hoodie_restore_metadata={},
    )
    table.put(8, "restore", INFLIGHT, COMPLETED, content=restored)
    candidates = find_candidates(
        table.config, Table(table.config).timeline(), table.timeline(), OURS
    )
    operations = load_concurrent_operations(table.store, table.config, candidates)
    seen = {
        o.requested_time: (o.operation_type, set(o.file_groups), set(o.rolled_back))
        for o in operations
    }
    expected = {
        T[1]: ("CLUSTER", {("p", F1)}, set()),
        T[2]: ("INSERT_OVERWRITE", {("q", F2)}, set()),
        T[3]: (None, set(), set()),
        T[4]: (None, set(), {OURS}),
        T[6]: ("UPSERT", {("p", F2)}, set()),
        T[7]: ("COMPACT", {("p", F2)}, set()),
        T[8]: (None, set(), {T[3]}),
    }
    if layout == 2:
        del expected[T[7]]
    assert seen == expected


@pytest.mark.parametrize("state", [INFLIGHT, COMPLETED])
@pytest.mark.parametrize("layout", [1, 2])
def test_a_later_rollback_that_logged_matters_in_version_6(layout: int, state: State) -> None:
    """Hudi 0.15 reads nothing behind its block, which is later than every commit."""
    table = Table(config(layout))
    before = table.timeline()
    log = f".{F1}_{T[1]}.log.2_1-0-1"
    plan = RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=T[3], action="deltacommit"),
        rollback_requests=[
            RollbackRequest(
                partition_path="p",
                file_id=F1,
                latest_base_instant=T[1],
                log_blocks_to_be_deleted={f"file:/t/p/{log}": 1} if layout == 1 else {},
            )
        ],
    )
    done = RollbackMetadata(
        start_rollback_time=T[6],
        time_taken_in_millis=0,
        total_files_deleted=0,
        commits_rollback=[T[3]],
        partition_metadata={
            "p": RollbackPartitionMetadata(
                partition_path="p",
                success_delete_files=[],
                failed_delete_files=[],
                rollback_log_files={f"file:/t/p/{log}": 1},
            )
        },
    )
    for number in (4, 6):
        table.put(number, "rollback", REQUESTED, content=plan)
        table.put(number, "rollback", INFLIGHT)
        if state is COMPLETED:
            table.put(number, "rollback", COMPLETED, content=done)
    found = find_candidates(table.config, before, table.timeline(), OURS)
    others = load_concurrent_operations(table.store, table.config, found)
    ours = operation(5, ("p", F1), ("q", F2), done=False)
    conflicts = find_conflicts(ours, others, SimpleBucketIndex(2))
    told = [(each.other.requested_time, each.partition_path, each.file_id) for each in conflicts]
    assert told == ([(T[6], "p", F1)] if layout == 1 else [])
    elsewhere = operation(5, ("q", F2), done=False)
    assert not find_conflicts(elsewhere, others, SimpleBucketIndex(2))


# --- what collides


def operation(
    number: int,
    *groups: tuple[str, str],
    kind: str | None = "UPSERT",
    done: bool = True,
    action: str = "deltacommit",
) -> ConcurrentOperation:
    return ConcurrentOperation(T[number], action, done, frozenset(groups), kind)


MINE = operation(5, ("p", F1), ("q", F2), done=False)
RESCALE = concurrent_operation(
    Instant(T[6], "replacecommit", COMPLETED, T[7], ""), metadata("BUCKET_RESCALE", ("r", F1))
)


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (operation(6, ("p", F1)), [("p", 1)]),
        (operation(3, ("p", F1)), [("p", 1)]),  # began before us, completed meanwhile
        (operation(6, ("p", F1_OTHER)), [("p", 1)]),  # both created the bucket
        (operation(6, ("p", F2)), []),
        (operation(6, ("q", F1)), []),
        (operation(6, ("q", F2), ("p", F1)), [("p", 1), ("q", 2)]),
        (operation(6), []),
        # a pending write looks at us when it ends; a clustering does not
        (operation(6, ("p", F1), kind="CLUSTER", done=False), [("p", 1)]),
        (operation(3, ("p", F1), kind="CLUSTER", done=False), [("p", 1)]),
        (operation(6, ("p", F1), kind="INSERT_OVERWRITE", done=False), [("p", 1)]),
        (operation(3, ("p", F1), kind="INSERT_OVERWRITE", done=False), []),
        (operation(3, ("p", F1), kind="INSERT_OVERWRITE"), [("p", 1)]),
        # a compaction planned before we began
        (operation(3, ("p", F1), kind="COMPACT"), []),
        (operation(6, ("p", F1), kind="COMPACT"), [("p", 1)]),
        (operation(6, ("p", F1), kind="COMPACT", done=False), [("p", 1)]),
        # new rules may give any partition another number of buckets, also a new one
        (RESCALE, [("p", None)]),
    ],
)
@pytest.mark.parametrize("index", [SIMPLE, PartitionBucketIndex(8, "p,4")])
def test_the_unit_is_a_bucket_of_a_partition(
    other: ConcurrentOperation, where: list[tuple[str, int | None]], index: SimpleBucketIndex
) -> None:
    conflicts = find_conflicts(MINE, [other], index)
    assert [(c.partition_path, c.bucket_id) for c in conflicts] == where
    assert all(conflict.other is other for conflict in conflicts)


def test_where_file_ids_carry_no_bucket_the_unit_is_the_file_group() -> None:
    ring = ConsistentHashingIndex(4)
    # A UUID may begin with eight digits: it is no bucket id for that.
    assert find_conflicts(MINE, [operation(6, ("p", F1_OTHER))], ring) == ()
    other = operation(6, ("p", F1))
    assert find_conflicts(MINE, [other], ring) == (Conflict(other, "p", None, F1),)
    foreign = operation(6, ("p", "abc-0"))
    mine = operation(5, ("p", "abc-0"), done=False)
    assert find_conflicts(mine, [foreign], SIMPLE) == (Conflict(foreign, "p", None, "abc-0"),)


@pytest.mark.parametrize("action", ["rollback", "restore"])
@pytest.mark.parametrize("done", [True, False])
def test_what_is_taken_back_is_not_published(action: str, done: bool) -> None:
    other = ConcurrentOperation(T[6], action, done, rolled_back=frozenset({T[4], OURS}))
    assert find_conflicts(MINE, [other], SIMPLE) == (Conflict(other),)
    other = ConcurrentOperation(T[6], action, done, rolled_back=frozenset({T[4]}))
    assert find_conflicts(MINE, [other], SIMPLE) == ()


def test_a_conflict_says_who_and_where() -> None:
    write = operation(6, ("q", F2), ("p", F1))
    cluster = operation(4, ("p", F1), kind="CLUSTER", done=False, action="clustering")
    conflicts = find_conflicts(MINE, [write, cluster], SIMPLE)
    assert [str(conflict) for conflict in conflicts] == [
        f"the completed UPSERT {T[6]} also changes bucket 1 of partition 'p'",
        f"the completed UPSERT {T[6]} also changes bucket 2 of partition 'q'",
        f"the pending CLUSTER {T[4]} also changes bucket 1 of partition 'p'",
    ]
    error = conflict_error(conflicts)
    assert isinstance(error, ConflictError)
    assert (error.partition, error.bucket) == ("p", 1)
    assert str(error).endswith(
        f"the completed UPSERT {T[6]} also changes bucket 1 of partition 'p' (and 2 more). Nothing "
        f"was published; reload the table and retry once the pending clustering {T[4]} is executed "
        f"by the engine that planned it, or taken back: rollback('{T[4]}')"
    )
    error = conflict_error(conflicts[:2])
    assert str(error).endswith("(and 1 more). Nothing was published; reload the table and retry")
    rollback = ConcurrentOperation(T[6], "rollback", False, rolled_back=frozenset({OURS}))
    (conflict,) = find_conflicts(MINE, [rollback], SIMPLE)
    assert str(conflict) == f"the pending rollback {T[6]} takes this write back"
    assert str(Conflict(write, "p", None, "abc-0")).endswith("file group abc-0 of partition 'p'")
    assert str(Conflict(write, "p")).endswith("also changes partition 'p'")
