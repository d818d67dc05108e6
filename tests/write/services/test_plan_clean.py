"""What a clean deletes, decided from values: no store, no files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError, UnsafePathError, UnsupportedError
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.names import FileGroupId, find_data_file_name
from bucketfmt.format.timeline.plans import (
    OWN_PLAN,
    ActionInstant,
    CleanerPlan,
    CleanFileInfo,
    CompactionOperation,
    CompactionPlan,
)
from bucketfmt.format.timeline.service_metadata import (
    SavepointMetadata,
    SavepointPartitionMetadata,
)
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.snapshot.data_files.file_slices import TimelineView, find_slice_history
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.services.plan_clean import (
    CleanBasis,
    Retention,
    find_compacted_names,
    find_earliest_retained,
    find_savepointed_names,
    is_idle,
    parse_clean_plan,
    plan_clean,
)

F = "00000001-1ad8-4c4f-84b0-f9f06e6013ae-0"
G = "00000002-1ad8-4c4f-84b0-f9f06e6013ae-0"
BY_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


def t(number: int) -> str:
    """The instant `number`."""
    return f"202401010000{number:05d}"


def done(number: int, completed: int | None = None, action: str = "commit") -> Instant:
    at = t(completed if completed is not None else number)
    return Instant(t(number), action, State.COMPLETED, at, f"{t(number)}_{at}.{action}")


def pending(number: int, action: str = "commit") -> Instant:
    return Instant(t(number), action, State.INFLIGHT, None, f"{t(number)}.{action}.inflight")


def file(name: str, partition_path: str = "p") -> DataFile:
    parsed = find_data_file_name(name)
    assert parsed is not None
    return DataFile(f"{partition_path}/{name}" if partition_path else name, parsed, 10)


def base(instant: int, file_id: str = F, partition_path: str = "p") -> DataFile:
    return file(f"{file_id}_1-0-1_{t(instant)}.parquet", partition_path)


def log(instant: int, version: int = 1, file_id: str = F) -> DataFile:
    return file(f".{file_id}_{t(instant)}.log.{version}_1-0-1")


def basis_of(
    instants: Sequence[Instant],
    *groups: Sequence[DataFile],
    version: int = 8,
    root: str = "s3://bucket/table",
    archived: Sequence[Instant] = (),
    replaced: Mapping[FileGroupId, Instant] | None = None,
    clustering: Sequence[FileGroupId] = (),
    compacting: Mapping[FileGroupId, str] | None = None,
    needed: Sequence[DataFile] = (),
    left_logs: Sequence[DataFile] = (),
) -> CleanBasis:
    timeline = Timeline(tuple(sorted(instants, key=lambda i: i.requested_time)), 2)
    return CleanBasis(
        root=root,
        view=TimelineView(timeline, version, tuple(archived)),
        groups={
            (files[0].path.rpartition("/")[0], files[0].name.file_id): files for files in groups
        },
        replaced=replaced or {},
        clustering=clustering,
        compacting=compacting or {},
        needed={str(file.name) for file in needed},
        left_logs=paths(*left_logs),
    )


def deleted(plan: CleanerPlan | None, root: str = "s3://bucket/table") -> set[str]:
    """The paths a plan names, relative to the table."""
    if plan is None:
        return set()
    found = [
        (path, (info.file_path or "").removeprefix(f"{root}/"))
        for path, infos in plan.file_paths_to_be_deleted_per_partition.items()
        for info in infos
    ]
    assert all(path == relative.rpartition("/")[0] for path, relative in found)
    assert len({relative for _, relative in found}) == len(found)
    return {relative for _, relative in found}


def paths(*files: DataFile) -> set[str]:
    return {file.path for file in files}


FIVE = [done(n) for n in range(1, 6)]
BASES = [base(n) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("basis", "retention", "expected"),
    [
        pytest.param(basis_of(FIVE, BASES), Retention(retain=5), set(), id="no more than so many"),
        pytest.param(basis_of(FIVE, BASES), Retention(), set(), id="ten by default"),
        pytest.param(
            # Commits 4 and 5 are retained, and what was there when 4 began.
            basis_of(FIVE, BASES), Retention(retain=2), paths(*BASES[:2]), id="two commits",
        ),
        pytest.param(
            basis_of(FIVE, BASES), Retention(BY_VERSIONS, 2), paths(*BASES[:3]), id="two versions",
        ),
        pytest.param(
            basis_of(FIVE, BASES), Retention(BY_VERSIONS), paths(*BASES[:2]), id="three by default",
        ),
        pytest.param(
            basis_of([*FIVE, pending(2, "deltacommit")], BASES),
            Retention(retain=2),
            set(),
            id="nothing after a pending write",
        ),
        pytest.param(
            basis_of(FIVE, BASES, needed=[BASES[0]]),
            Retention(retain=2),
            paths(BASES[1]),
            id="a needed file",
        ),
        pytest.param(
            basis_of(FIVE, [base(1), log(2), log(3), base(4), base(5)], needed=[log(3)]),
            Retention(retain=1),
            set(),
            id="a slice with a needed file is kept whole",
        ),
        pytest.param(
            basis_of(FIVE, [base(1), log(2), log(3), base(4), base(5)]),
            Retention(retain=1),
            paths(base(1), log(2), log(3)),
            id="log files go with their slice",
        ),
        pytest.param(
            # Scheduled as 2, completed after 4: readers of 4 need the slice before it.
            basis_of([done(1), done(2, 9), done(3), done(4), done(5)], [base(1), base(2)]),
            Retention(retain=2),
            set(),
            id="a compaction completed late",
        ),
        pytest.param(
            basis_of(FIVE, [base(4), log(3), log(3, 2)], left_logs=[log(3), log(3, 2)]),
            Retention(retain=2),
            paths(log(3), log(3, 2)),
            id="log files that a restore left",
        ),
        pytest.param(
            basis_of(
                FIVE,
                [base(1), log(3), log(3, 2)],
                left_logs=[log(3), log(3, 2)],
                needed=[log(3, 2)],
            ),
            Retention(retain=2),
            set(),
            id="log files that a restore left and a plan names",
        ),
        pytest.param(
            basis_of(FIVE, [base(1), base(2), base(7)]),
            Retention(retain=1),
            paths(base(1)),
            id="what nobody committed is no slice",
        ),
        pytest.param(
            basis_of(FIVE, BASES, clustering=[("p", F)]),
            Retention(retain=1),
            set(),
            id="a file group that is being clustered",
        ),
        pytest.param(
            basis_of(FIVE, [base(1, G), base(4, G)], BASES, replaced={("p", G): done(5)}),
            Retention(retain=1),
            paths(*BASES[:3]),
            id="each file group for itself",
        ),
        pytest.param(
            basis_of(FIVE, [base(1), base(7)], replaced={("p", F): done(3)}),
            Retention(retain=2),
            paths(base(1), base(7)),
            id="a replaced group goes whole",
        ),
        pytest.param(
            basis_of(FIVE, [base(1), base(7)], replaced={("p", F): done(4)}),
            Retention(retain=2),
            set(),
            id="a retained commit saw what was replaced",
        ),
        pytest.param(
            basis_of(
                [done(1), done(2), done(3, 8), done(4), done(5)],
                [base(1)],
                replaced={("p", F): done(3, 8)},
            ),
            Retention(retain=2),
            set(),
            id="replaced after the earliest retained completed",
        ),
        pytest.param(
            basis_of(FIVE, [base(1), base(7)], replaced={("p", F): done(3)}, needed=[base(7)]),
            Retention(retain=2),
            set(),
            id="a replaced group with a needed file stays whole",
        ),
        pytest.param(
            basis_of(FIVE, [base(1)], replaced={("p", F): done(5)}),
            Retention(BY_VERSIONS, 1),
            paths(base(1)),
            id="by versions a replaced group goes at once",
        ),
        pytest.param(
            basis_of(
                [done(1), done(2), pending(3, "compaction"), done(4), done(5)],
                [base(1), log(2), log(4), log(5)],
                compacting={("p", F): t(3)},
            ),
            Retention(BY_VERSIONS, 1),
            set(),
            id="a pending compaction opens no slice",
        ),
        pytest.param(
            # 3 was archived; it completed after the earliest retained commit.
            basis_of(
                [done(7), done(8), done(9)],
                [base(1), base(3), base(9)],
                archived=[done(1), done(3, 99)],
            ),
            Retention(retain=2),
            set(),
            id="the archive tells when a slice was there",
        ),
        pytest.param(
            basis_of(
                [done(7), done(8), done(9)],
                [base(1), base(3), base(9)],
                archived=[done(1), done(3)],
            ),
            Retention(retain=2),
            paths(base(1)),
            id="archived slices are cleaned",
        ),
    ],
)  # fmt: skip
def test_what_goes(basis: CleanBasis, retention: Retention, expected: set[str]) -> None:
    plan = plan_clean(basis, retention)
    assert deleted(plan) == expected
    assert (plan is None) == (not expected)
    if is_idle(basis.view.timeline, retention):
        assert plan is None


@pytest.mark.parametrize(
    ("root", "absolute"),
    [
        ("s3://bucket/table", "s3://bucket/table"),
        ("s3://bucket/table/", "s3://bucket/table"),
        ("/data/table", "file:/data/table"),
    ],
)
def test_the_whole_plan(root: str, absolute: str) -> None:
    instants = [*FIVE, done(2, action="savepoint"), done(3, action="savepoint")]
    other = base(1, G, "q"), base(4, G, "q"), base(5, G, "q")
    basis = basis_of(instants, BASES, other, root=root, needed=[base(2)])
    assert plan_clean(basis, Retention(retain=1)) == CleanerPlan(
        earliest_instant_to_retain=ActionInstant(
            timestamp=t(5), action="commit", state="COMPLETED"
        ),
        last_completed_commit_timestamp=t(5),
        policy="KEEP_LATEST_COMMITS",
        file_paths_to_be_deleted_per_partition={
            "p": [CleanFileInfo(file_path=f"{absolute}/{base(n).path}") for n in (1, 3)],
            "q": [CleanFileInfo(file_path=f"{absolute}/{other[0].path}")],
        },
        extra_metadata={**OWN_PLAN, "savepointed_timestamps": f"{t(2)},{t(3)}"},
    )
    by_versions = plan_clean(basis, Retention(BY_VERSIONS, 4))
    assert by_versions is not None
    assert (by_versions.earliest_instant_to_retain, by_versions.policy) == (None, BY_VERSIONS)


def test_a_table_without_partitions() -> None:
    files = [base(n, partition_path="") for n in (1, 2, 3)]
    plan = plan_clean(basis_of(FIVE[:3], files), Retention(retain=1))
    assert plan is not None
    assert parse_clean_plan(plan, DEFAULT_LIMITS) == {"": [str(files[0].name)]}


def test_needed_names() -> None:
    partitions = {
        path: SavepointPartitionMetadata(partition_path=path, savepoint_data_file=names)
        for path, names in (("p", ["a", "b"]), ("q", ["c"]))
    }
    savepoint = SavepointMetadata(
        savepointed_by="me", savepointed_at=1, comments="", partition_metadata=partitions
    )
    assert find_savepointed_names([]) == set()
    assert find_savepointed_names([savepoint]) == {"a", "b", "c"}
    plans = [
        CompactionPlan(
            operations=[
                CompactionOperation(data_file_path="b.parquet", delta_file_paths=[".l.log.1"]),
                CompactionOperation(delta_file_paths=["file:/t/p/.m.log.1", ".m.log.2"]),
            ]
        ),
        CompactionPlan(operations=[]),
    ]
    names = {"b.parquet", ".l.log.1", ".m.log.1", ".m.log.2"}
    assert find_compacted_names(plans) == names


def timeline_of(*texts: str) -> Timeline:
    """`10 12*` is a completed commit and a pending one."""
    found = [
        Instant(t.rstrip("*"), "commit", State.INFLIGHT if "*" in t else State.COMPLETED, t, t)
        for t in texts
    ]
    return Timeline(tuple(found), 2)


@pytest.mark.parametrize(
    ("timeline", "number", "expected"),
    [
        (timeline_of(), 1, None),
        (timeline_of("10", "11"), 2, None),
        (timeline_of("10", "11", "12"), 2, "11"),
        (timeline_of("10", "11", "12"), 1, "12"),
        (timeline_of("10", "11*", "12", "13"), 1, "10"),
        (timeline_of("09*", "10", "11"), 1, None),
        (timeline_of("10", "11", "12*"), 1, "11"),
    ],
)
def test_earliest_retained(timeline: Timeline, number: int, expected: str | None) -> None:
    found = find_earliest_retained(timeline, number)
    assert (found.requested_time if found else None) == expected


NAME = f"{F}_1-0-1_{t(1)}.parquet"


def test_a_plan_is_read_by_names() -> None:
    infos = [CleanFileInfo(file_path=f"file:/moved/since/p/{NAME}")]
    plan = CleanerPlan(
        policy="KEEP_LATEST_COMMITS",
        files_to_be_deleted_per_partition={"q": [NAME], "p": ["ignored"]},
        file_paths_to_be_deleted_per_partition={"p": infos},
    )
    assert parse_clean_plan(plan, DEFAULT_LIMITS) == {"q": [NAME], "p": [NAME]}


@pytest.mark.parametrize(
    ("partition_path", "name", "error"),
    [
        ("..", NAME, UnsafePathError),
        ("/etc", NAME, UnsafePathError),
        (".hoodie", NAME, CorruptError),
        (".hoodie/timeline", NAME, CorruptError),
        ("p", "hoodie.properties", CorruptError),
        ("p", "", CorruptError),
        ("", "..", CorruptError),
    ],
)
def test_a_plan_that_deletes_something_else(
    partition_path: str, name: str, error: type[Exception]
) -> None:
    named = CleanerPlan(
        policy="KEEP_LATEST_COMMITS", files_to_be_deleted_per_partition={partition_path: [name]}
    )
    with pytest.raises(error):
        parse_clean_plan(named, DEFAULT_LIMITS)


def test_a_plan_of_bootstrapped_files() -> None:
    info = CleanFileInfo(file_path=NAME, is_bootstrap_base_file=True)
    plan = CleanerPlan(
        policy="KEEP_LATEST_COMMITS", file_paths_to_be_deleted_per_partition={"p": [info]}
    )
    with pytest.raises(UnsupportedError, match="let Hudi complete the clean"):
        parse_clean_plan(plan, DEFAULT_LIMITS)


# -- any table


@dataclass
class _AsOf:
    """A table as a reader at a past instant sees it."""

    view: TimelineView
    requested: str = "~"
    completed: str = "~"
    table_version: int = field(init=False)

    def __post_init__(self) -> None:
        self.table_version = self.view.table_version

    def is_visible(self, requested_time: str) -> bool:
        return (
            self.view.is_visible(requested_time)
            and requested_time <= self.requested
            and self.completion_time(requested_time) <= self.completed
        )

    def completion_time(self, requested_time: str) -> str:
        return self.view.completion_time(requested_time)

    def files(self, basis: CleanBasis) -> set[str]:
        """The files that the reader opens."""
        found: set[str] = set()
        for group, files in basis.groups.items():
            by = basis.replaced.get(group)
            if by is not None and self.is_visible(by.requested_time):
                continue
            compaction = basis.compacting.get(group)
            if compaction is not None and compaction > min(self.requested, self.completed):
                compaction = None
            slices = find_slice_history(*group, files, self, compaction)
            if slices:
                found |= paths(*slices[-1].files)
        return found


@st.composite
def tables(draw: st.DrawFn) -> tuple[CleanBasis, Sequence[Instant]]:
    """A table of two file groups, and the commits that are savepointed."""
    version = draw(st.sampled_from((6, 8)))
    count = draw(st.integers(2, 9))
    instants: dict[int, Instant] = {}
    for number in range(1, count + 1):
        late = draw(st.integers(0, 4)) if version > 6 else 0
        instants[number] = done(number, 100 * number + 100 * late + number)
        if draw(st.integers(0, 9)) == 0:
            instants[number] = pending(number)
    groups: dict[str, list[DataFile]] = defaultdict(list)
    for file_id in (F, G):
        newest = None
        for number in instants:
            kind = draw(st.sampled_from(("base", "log", "none")))
            if kind == "base" or (kind == "log" and newest is None):
                groups[file_id].append(base(number, file_id))
                newest = number
            elif kind == "log" and newest is not None:
                own = number if version > 6 else newest
                groups[file_id].append(log(own, number, file_id))
    replaced, compacting = {}, {}
    completed = [i for i in instants.values() if i.is_completed]
    for group in [("p", file_id) for file_id in groups]:
        what = draw(st.sampled_from(("replaced", "compacted", "", "")))
        if what == "replaced" and completed:
            replaced[group] = draw(st.sampled_from(completed))
        elif what == "compacted":
            number = draw(st.integers(1, count))
            if not any(f.name.instant == t(number) for f in groups[group[1]]):
                instants[number] = pending(number, "compaction")
                compacting[group] = t(number)
    basis = basis_of(
        list(instants.values()),
        *groups.values(),
        version=version,
        replaced={g: i for g, i in replaced.items() if i in instants.values()},
        compacting=compacting,
    )
    completed = [i for i in instants.values() if i.is_completed]
    savepoints = draw(st.lists(st.sampled_from(completed), max_size=2)) if completed else []
    needed: set[str] = set()
    for savepoint in savepoints:
        opened = _AsOf(basis.view, savepoint.requested_time).files(basis)
        needed |= {path.rpartition("/")[2] for path in opened}
    return replace(basis, needed=needed), savepoints


@settings(max_examples=400, deadline=None)
@given(tables(), st.sampled_from(("KEEP_LATEST_COMMITS", BY_VERSIONS)), st.integers(1, 4))
def test_no_reader_loses_a_file(
    table: tuple[CleanBasis, Sequence[Instant]], policy: str, retain: int
) -> None:
    basis, savepoints = table
    retention = Retention(policy, retain)  # type: ignore[arg-type]
    gone = deleted(plan_clean(basis, retention))
    view = basis.view

    assert gone <= {file.path for files in basis.groups.values() for file in files}
    assert not gone & _AsOf(view).files(basis)
    assert not {path.rpartition("/")[2] for path in gone} & set(basis.needed)
    for savepoint in savepoints:
        assert not gone & _AsOf(view, savepoint.requested_time).files(basis)
    if policy == BY_VERSIONS:
        return
    earliest = find_earliest_retained(view.timeline, retain)
    if earliest is None:
        assert not gone
        return
    for commit in view.timeline.writes.completed.instants:
        if commit.requested_time >= earliest.requested_time:
            assert not gone & _AsOf(view, commit.requested_time).files(basis)
