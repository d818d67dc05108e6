from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.errors import BucketfmtError, CorruptError, LimitError, NotFoundError, StorageError
from bucketfmt.format.names.instants import State
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.format.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    CompactionOperation,
    CompactionPlan,
    RequestedReplaceMetadata,
    SliceInfo,
    encode_compaction_plan,
    encode_requested_replace_metadata,
)
from bucketfmt.format.timeline.service_metadata import CleanMetadata, SavepointMetadata
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.load import (
    load_clustering_plan,
    load_commit_metadata,
    load_instant_content,
    load_pending_clusterings,
    load_pending_compactions,
    load_replaced_file_groups,
    load_timeline,
)
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.properties.create import create_table
from bucketfmt.write.properties.plan_create import plan_properties
from tests.golden import GOLDEN
from tests.timeline.tables import config_of, empty_store, open_table

Golden = Callable[[str, str], Path]

VERSIONS = ("0.15.0", "1.0.2", "1.2.0")
T = [f"2024010100000{n}000" for n in range(10)]


def put(store: Store, config: TableConfig, name: str, data: bytes = b"") -> None:
    assert store.put_if_absent(f"{config.timeline_path}/{name}", data)


def completed(layout: int, number: int, action: str) -> str:
    return f"{T[number]}.{action}" if layout == 1 else f"{T[number]}_{T[number + 1]}.{action}"


def encode(metadata: CommitMetadata, layout: int) -> bytes:
    if layout == 1:
        return encode_commit_metadata_json(metadata, replace=True)
    return encode_commit_metadata_avro(metadata, replace=True)


@pytest.fixture(params=[1, 2])
def layout(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def config(layout: int) -> TableConfig:
    return config_of(layout)


@pytest.fixture
def store() -> Store:
    return empty_store()


class TestGoldenTables:
    @pytest.mark.parametrize(
        ("version", "expected"),
        [
            (
                "1.2.0",
                [
                    ("20261121044125852", "deltacommit", "20261121044127128"),
                    ("20261121044127293", "deltacommit", "20261121044128359"),
                    ("20261121044128470", "commit", "20261121044129699"),
                    ("20261121044129795", "deltacommit", "20261121044130523"),
                ],
            ),
            (
                "1.0.2",
                [
                    ("20261121044250389", "deltacommit", "20261121044251823"),
                    ("20261121044252072", "deltacommit", "20261121044253299"),
                    ("20261121044253391", "commit", "20261121044255014"),
                    ("20261121044255098", "deltacommit", "20261121044255846"),
                ],
            ),
            (
                "0.15.0",
                [
                    ("20261121044411394", "deltacommit", None),
                    ("20261121044412779", "deltacommit", None),
                    ("20261121044413590", "commit", None),
                    ("20261121044414637", "deltacommit", None),
                ],
            ),
        ],
    )
    def test_a_compacted_table(
        self, golden: Golden, version: str, expected: list[tuple[str, str, str | None]]
    ) -> None:
        timeline = load_timeline(*open_table(golden(version, "mor_compacted")))
        legacy = version == "0.15.0"  # completion times are then those of the unpacked files
        assert [
            (i.requested_time, i.action, None if legacy else i.completion_time)
            for i in timeline.instants
        ] == expected
        assert all(i.is_completed and i.legacy is legacy for i in timeline.instants)

    def test_cleans_are_instants_too(self, golden: Golden) -> None:
        store, config = open_table(golden("1.2.0", "cleaned"))
        timeline = load_timeline(store, config)
        assert [(i.requested_time, i.action) for i in timeline.instants] == [
            ("20261121044223806", "clean"),
            ("20261121044224076", "commit"),
            ("20261121044224620", "deltacommit"),
            ("20261121044225169", "clean"),
            ("20261121044225463", "commit"),
        ]
        assert timeline.writes.first.requested_time == "20261121044224076"
        clean = load_instant_content(store, config, timeline.instants[0])
        assert isinstance(clean, CleanMetadata)
        assert clean.total_files_deleted > 0

    def test_commit_metadata(self, golden: Golden) -> None:
        store, config = open_table(golden("1.2.0", "mor_compacted"))
        compaction = load_timeline(store, config).instants[2]
        metadata = load_commit_metadata(store, config, compaction)
        assert metadata.operation_type == "COMPACT"
        assert metadata.compacted is True
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                assert stat.path.startswith(f"{partition}/")
                assert f"_{compaction.requested_time}." in stat.path

    @pytest.mark.rotated(1, one_of=3)
    @pytest.mark.parametrize(("version", "name"), GOLDEN)
    def test_every_file_of_every_timeline_decodes(
        self, golden: Golden, version: str, name: str
    ) -> None:
        store, config = open_table(golden(version, name))
        timeline = load_timeline(store, config)
        assert timeline.instants
        for instant in timeline.instants:
            content = load_instant_content(store, config, instant)
            assert content is not None or not instant.is_completed
        for instant in timeline.commits.completed.instants:
            assert load_commit_metadata(store, config, instant).operation_type != "UNKNOWN"
        for load in (
            load_replaced_file_groups,
            load_pending_compactions,
            load_pending_clusterings,
        ):
            assert set(load(store, config, timeline).values()) <= set(timeline.instants)

    @pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
    def test_buckets_that_wait_for_their_split(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "ch_pending"))
        timeline = load_timeline(store, config)
        (clustering,) = timeline.pending.instants
        assert clustering.action == ("replacecommit" if version == "0.15.0" else "clustering")
        assert load_replaced_file_groups(store, config, timeline) == {}
        assert load_pending_clusterings(store, config, timeline) == {
            ("us", "7a77c13c-05b8-3e08-a6fc-5e21640c1b1c-0"): clustering,
            ("us", "be9b2a12-8c22-3116-8ce8-965c455c1c93-0"): clustering,
        }

    @pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
    def test_an_uncommitted_write(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "uncommitted_mor"))
        timeline = load_timeline(store, config)
        (write,) = timeline.pending.instants
        assert (write.action, write.state) == ("deltacommit", State.INFLIGHT)
        assert timeline.is_pending(write.requested_time)
        assert not timeline.writes.completed.contains_or_before_start(write.requested_time)
        assert not timeline.is_block_committed(write.requested_time)

    @pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
    def test_a_savepoint_shares_its_commits_time(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "savepointed_mor"))
        timeline = load_timeline(store, config)
        (savepoint,) = timeline.of("savepoint").instants
        (commit,) = (
            i for i in timeline.commits.instants if i.requested_time == savepoint.requested_time
        )
        assert timeline.completion_time(savepoint.requested_time) == commit.completion_time
        content = load_instant_content(store, config, savepoint)
        assert isinstance(content, SavepointMetadata)
        assert set(content.partition_metadata) == {"ap", "eu", "us"}

    @pytest.mark.parametrize(
        ("version", "first", "second"),
        [
            ("0.15.0", "20261121044420718", "20261121044429783"),
            ("1.0.2", "20261121044302712", "20261121044311898"),
            ("1.2.0", "20261121044135679", "20261121044145151"),
        ],
    )
    def test_replaced_buckets(self, golden: Golden, version: str, first: str, second: str) -> None:
        """Four buckets a partition were split into eight, and these again."""
        store, config = open_table(golden(version, "ch_split"))
        replaced = load_replaced_file_groups(store, config, load_timeline(store, config))
        by_time: dict[tuple[str, str], set[str]] = {}
        for (partition, file_id), instant in replaced.items():
            by_time.setdefault((partition, instant.requested_time), set()).add(file_id)
        assert {key: len(ids) for key, ids in by_time.items()} == {
            (partition, time): count
            for partition in ("ap", "eu", "us")
            for time, count in ((first, 4), (second, 8))
        }
        # the first ring of a partition has the same file ids in every table of that name
        assert by_time["eu", first] == {
            "3813ef5e-c427-3b1c-80ae-04908613c1e1-0",
            "6fef1968-d2f0-35e6-8728-6fe13f23bf09-0",
            "979a6b26-39f3-35e7-937f-607407ab65bf-0",
            "fdbdad5d-9452-3666-9c9a-14fb74489d8b-0",
        }

    @pytest.mark.parametrize("version", VERSIONS)
    def test_plans_of_what_has_completed_are_there_still(
        self, golden: Golden, version: str
    ) -> None:
        store, config = open_table(golden(version, "ch_split"))
        names = {i.name for i in store.list(config.timeline_path)}
        clustering = load_timeline(store, config).of("replacecommit").instants[0]
        action = "replacecommit" if version == "0.15.0" else "clustering"
        assert f"{clustering.requested_time}.{action}.requested" in names
        replaced = load_replaced_file_groups(store, config, load_timeline(store, config))
        plan = load_clustering_plan(
            store, config, replace(clustering, action=action, state=State.REQUESTED)
        )
        assert {
            (file_slice.partition_path, file_slice.file_id)
            for group in plan.input_groups
            for file_slice in group.slices
        } == {group for group, by in replaced.items() if by == clustering}

    @pytest.mark.parametrize("version", VERSIONS)
    def test_loading_only_reads(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "ch_split"))
        recording = RecordingStore(store)
        timeline = load_timeline(recording, config)
        assert recording.operations == [("list", config.timeline_path)]
        load_replaced_file_groups(recording, config, timeline)
        load_pending_compactions(recording, config, timeline)
        load_pending_clusterings(recording, config, timeline)
        assert recording.writes == []
        assert sorted(recording.paths("read")) == sorted(
            f"{config.timeline_path}/{i.file_name}" for i in timeline.of("replacecommit").instants
        )


class TestListing:
    def test_no_timeline_folder_is_an_empty_timeline(
        self, store: Store, config: TableConfig
    ) -> None:
        assert load_timeline(store, config).instants == ()

    def test_folders_and_foreign_files_are_not_instants(
        self, store: Store, config: TableConfig, layout: int
    ) -> None:
        put(store, config, completed(layout, 1, "commit"))
        put(store, config, f"{completed(layout, 3, 'commit')}/x")
        put(store, config, f".{completed(layout, 4, 'commit')}.crc")
        put(store, config, f"{completed(layout, 5, 'commit')}.0aa-1")
        assert [i.requested_time for i in load_timeline(store, config).instants] == [T[1]]

    def test_the_layouts_have_folders_of_their_own(self, store: Store) -> None:
        put(store, config_of(1), f"{T[1]}.commit")
        put(store, config_of(2), f"{T[2]}_{T[3]}.commit")
        assert [i.requested_time for i in load_timeline(store, config_of(1)).instants] == [T[1]]
        assert [i.requested_time for i in load_timeline(store, config_of(2)).instants] == [T[2]]

    def test_the_folder_is_configurable(self, store: Store) -> None:
        config = config_of(2, hoodie_timeline_path="elsewhere")
        store.put_if_absent(f".hoodie/elsewhere/{T[1]}_{T[2]}.commit", b"")
        assert [i.requested_time for i in load_timeline(store, config).instants] == [T[1]]

    def test_there_is_a_limit(self, store: Store, config: TableConfig, layout: int) -> None:
        for number in range(3):
            put(store, config, completed(layout, number, "commit"))
        load_timeline(store, config, Limits(timeline_instants_max=3))
        with pytest.raises(LimitError, match="timeline_instants_max"):
            load_timeline(store, config, Limits(timeline_instants_max=2))

    def test_utc_tables(self, tmp_path: Path) -> None:
        store, config = open_store(tmp_path), config_of(1, hoodie_table_timeline_timezone="UTC")
        put(store, config, f"{T[1]}.commit")
        os.utime(tmp_path / ".hoodie" / f"{T[1]}.commit", (0, 1704067205.5))
        assert load_timeline(store, config).instants[0].completion_time == "20240101000005500"


class TestDamage:
    def test_an_empty_completed_commit_is_an_empty_commit(
        self, store: Store, config: TableConfig, layout: int
    ) -> None:
        put(store, config, completed(layout, 1, "commit"))
        put(store, config, completed(layout, 3, "replacecommit"))
        timeline = load_timeline(store, config)
        for instant in timeline.instants:
            assert load_commit_metadata(store, config, instant) == CommitMetadata()
            assert load_instant_content(store, config, instant) is None
        assert load_replaced_file_groups(store, config, timeline) == {}

    @pytest.mark.parametrize("damage", ["cut", "flip", "garbage", "zeros"])
    def test_a_damaged_file_is_named(
        self, store: Store, config: TableConfig, layout: int, damage: str
    ) -> None:
        good = encode(CommitMetadata(partition_to_replace_file_ids={"p": ["f"]}), layout)
        bad = {
            "cut": good[: len(good) // 2],
            "flip": b"\xff" + good[1:],
            "garbage": b"not a commit",
            "zeros": bytes(len(good)),
        }[damage]
        put(store, config, completed(layout, 1, "replacecommit"), bad)
        timeline = load_timeline(store, config)
        for load in (
            lambda: load_commit_metadata(store, config, timeline.instants[0]),
            lambda: load_replaced_file_groups(store, config, timeline),
        ):
            with pytest.raises(CorruptError) as caught:
                load()
            assert caught.value.path == f"{config.timeline_path}/{timeline.instants[0].file_name}"

    def test_a_compaction_plan_that_was_never_written_plans_nothing(
        self, store: Store, config: TableConfig
    ) -> None:
        """Once the compaction has begun, its plan was there, and is lost."""
        put(store, config, f"{T[1]}.compaction.requested", b"")
        assert load_pending_compactions(store, config, load_timeline(store, config)) == {}
        put(store, config, f"{T[1]}.compaction.inflight", b"")
        with pytest.raises(CorruptError):
            load_pending_compactions(store, config, load_timeline(store, config))

    @pytest.mark.parametrize("data", [b"Obj\x01", b"{}"])
    def test_a_damaged_compaction_plan_is_named(
        self, store: Store, config: TableConfig, data: bytes
    ) -> None:
        put(store, config, f"{T[1]}.compaction.requested", data)
        with pytest.raises(CorruptError) as caught:
            load_pending_compactions(store, config, load_timeline(store, config))
        assert caught.value.path == f"{config.timeline_path}/{T[1]}.compaction.requested"

    def test_a_file_above_the_limit(self, store: Store, config: TableConfig, layout: int) -> None:
        put(store, config, completed(layout, 1, "commit"), b"x" * 100)
        timeline = load_timeline(store, config)
        with pytest.raises(LimitError):
            load_commit_metadata(
                store, config, timeline.instants[0], Limits(timeline_file_bytes_max=99)
            )

    def test_a_file_that_went_away_is_not_found(
        self, store: Store, config: TableConfig, layout: int
    ) -> None:
        name = completed(layout, 1, "replacecommit")
        put(store, config, name)
        timeline = load_timeline(store, config)
        store.delete(f"{config.timeline_path}/{name}")
        with pytest.raises(NotFoundError) as caught:
            load_replaced_file_groups(store, config, timeline)
        assert caught.value.path == f"{config.timeline_path}/{name}"

    def test_one_bad_file_of_many_is_the_one_named(
        self, store: Store, config: TableConfig, layout: int
    ) -> None:
        for number in (1, 3, 5, 7):
            data = b"bad" if number == 5 else b""
            put(store, config, completed(layout, number, "replacecommit"), data)
        with pytest.raises(BucketfmtError, match=completed(layout, 5, "replacecommit")):
            load_replaced_file_groups(store, config, load_timeline(store, config))


class TestReplacedFileGroups:
    def test_of_two_the_later_hides(self, store: Store, config: TableConfig, layout: int) -> None:
        for number, replaced in (
            (1, {"p": ["a", "b"], "": ["c"]}),
            (3, {"p": ["b"], "q": ["a"]}),
        ):
            put(
                store,
                config,
                completed(layout, number, "replacecommit"),
                encode(CommitMetadata(partition_to_replace_file_ids=replaced), layout),
            )
        timeline = load_timeline(store, config)
        groups = load_replaced_file_groups(store, config, timeline)
        assert {group: by.requested_time for group, by in groups.items()} == {
            ("p", "a"): T[1],
            ("p", "b"): T[3],
            ("", "c"): T[1],
            ("q", "a"): T[3],
        }
        assert groups["p", "a"] is timeline.instants[0]

    def test_pending_replacements_hide_nothing(
        self, store: Store, config: TableConfig, layout: int
    ) -> None:
        data = encode(CommitMetadata(partition_to_replace_file_ids={"p": ["a"]}), layout)
        put(store, config, f"{T[1]}.replacecommit.requested")
        put(store, config, f"{T[1]}.replacecommit.inflight", data)
        assert load_replaced_file_groups(store, config, load_timeline(store, config)) == {}


def operation(file_id: str, partition: str | None = "p", base: str = T[0]) -> CompactionOperation:
    return CompactionOperation(file_id=file_id, partition_path=partition, base_instant_time=base)


class TestPendingCompactions:
    def test_requested_and_inflight_count_completed_does_not(
        self, store: Store, config: TableConfig, layout: int
    ) -> None:
        for number, ids in ((1, ["a"]), (2, ["b", "c"]), (3, ["d"])):
            plan = CompactionPlan(operations=[operation(file_id) for file_id in ids])
            put(store, config, f"{T[number]}.compaction.requested", encode_compaction_plan(plan))
        put(store, config, f"{T[2]}.compaction.inflight")
        put(store, config, completed(layout, 3, "commit"))
        put(
            store,
            config,
            f"{T[5]}.logcompaction.requested",
            encode_compaction_plan(CompactionPlan(operations=[operation("e")])),
        )
        timeline = load_timeline(store, config)
        pending = load_pending_compactions(store, config, timeline)
        assert {group: by.requested_time for group, by in pending.items()} == {
            ("p", "a"): T[1],
            ("p", "b"): T[2],
            ("p", "c"): T[2],
        }

    def test_an_unpartitioned_table(self, store: Store, config: TableConfig) -> None:
        plan = CompactionPlan(operations=[operation("a", None), operation("b", "")])
        put(store, config, f"{T[1]}.compaction.requested", encode_compaction_plan(plan))
        pending = load_pending_compactions(store, config, load_timeline(store, config))
        assert set(pending) == {("", "a"), ("", "b")}

    def test_a_file_group_in_two_plans(self, store: Store, config: TableConfig) -> None:
        for number in (1, 2):
            plan = CompactionPlan(operations=[operation("a", base=T[number])])
            put(store, config, f"{T[number]}.compaction.requested", encode_compaction_plan(plan))
        with pytest.raises(CorruptError, match=f"a is in the plans of both {T[1]}.*{T[2]}"):
            load_pending_compactions(store, config, load_timeline(store, config))

    def test_the_same_operation_twice_is_no_fault(self, store: Store, config: TableConfig) -> None:
        plan = encode_compaction_plan(CompactionPlan(operations=[operation("a")]))
        put(store, config, f"{T[1]}.compaction.requested", plan)
        put(store, config, f"{T[2]}.compaction.requested", plan)
        pending = load_pending_compactions(store, config, load_timeline(store, config))
        assert pending["p", "a"].requested_time == T[2]


def clustering(*file_ids: str) -> bytes:
    groups = [
        ClusteringGroup(slices=[SliceInfo(file_id=file_id, partition_path="p")])
        for file_id in file_ids
    ]
    return encode_requested_replace_metadata(
        RequestedReplaceMetadata(
            operation_type="CLUSTER", clustering_plan=ClusteringPlan(input_groups=groups)
        )
    )


class TestPendingClusterings:
    @pytest.fixture
    def action(self, layout: int) -> str:
        return "replacecommit" if layout == 1 else "clustering"

    def test_groups_of_the_plans(self, store: Store, config: TableConfig, action: str) -> None:
        put(store, config, f"{T[1]}.{action}.requested", clustering("a", "b"))
        put(store, config, f"{T[2]}.{action}.requested", clustering("c"))
        put(store, config, f"{T[2]}.{action}.inflight")
        pending = load_pending_clusterings(store, config, load_timeline(store, config))
        assert {group: by.requested_time for group, by in pending.items()} == {
            ("p", "a"): T[1],
            ("p", "b"): T[1],
            ("p", "c"): T[2],
        }

    def test_other_replacements_do_not_cluster(self, store: Store, config: TableConfig) -> None:
        overwrite = encode_requested_replace_metadata(RequestedReplaceMetadata())
        put(store, config, f"{T[1]}.replacecommit.requested", overwrite)
        put(store, config, f"{T[2]}.replacecommit.requested")  # empty: as good as that
        timeline = load_timeline(store, config)
        assert load_pending_clusterings(store, config, timeline) == {}
        assert [load_clustering_plan(store, config, i) for i in timeline.instants] == [None, None]

    def test_layout_2_reads_replacecommits_that_cluster_too(self, store: Store) -> None:
        config = config_of(2)
        put(store, config, f"{T[1]}.replacecommit.requested", clustering("a"))
        pending = load_pending_clusterings(store, config, load_timeline(store, config))
        assert set(pending) == {("p", "a")}

    def test_a_file_group_in_two_plans(
        self, store: Store, config: TableConfig, action: str
    ) -> None:
        put(store, config, f"{T[1]}.{action}.requested", clustering("a"))
        put(store, config, f"{T[2]}.{action}.requested", clustering("a"))
        with pytest.raises(CorruptError, match="plans of both"):
            load_pending_clusterings(store, config, load_timeline(store, config))


@pytest.mark.parametrize(
    ("layout", "name", "is_asked"),
    [
        (1, f"{T[1]}.deltacommit", True),
        (2, f"{T[1]}_{T[2]}.deltacommit", False),
        (2, f"{T[1]}.deltacommit", True),
    ],
)
def test_a_disk_is_asked_for_times_only_where_names_lack_completion_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: int, name: str, is_asked: bool
) -> None:
    store, config, asked = open_store(tmp_path), config_of(layout), list[str]()
    put(store, config, name)
    modified = tmp_path / config.timeline_path / name
    os.utime(modified, (1_700_000_000, 1_700_000_000))
    list_all = store.list

    def list_and_tell(path: str) -> list[FileInfo]:
        asked.append(path)
        return list_all(path)

    monkeypatch.setattr(store, "list", list_and_tell)
    (found,) = load_timeline(store, config).instants
    assert asked == [config.timeline_path] * is_asked
    assert found.requested_time == T[1]
    assert (found.completion_time == T[2]) == (not is_asked)
    assert (found.completion_time or "").startswith("2023111") == is_asked


class _Torn(MemoryStore):
    """Lists a folder as an archival goes over it: each file as of another moment."""

    torn: Mapping[str, bytes] | None = None

    def list(self, path: str) -> list[FileInfo]:
        if self.torn is None:
            return super().list(path)
        listed = MemoryStore(self.torn).list(path)
        self.torn = None
        return listed


@pytest.mark.parametrize("version", [6, 9])
def test_what_an_archival_deletes_meanwhile_does_not_look_pending(version: int) -> None:
    store = _Torn()
    properties = plan_properties(
        name="t",
        schema=pa.schema([("id", pa.string())]),
        record_key=["id"],
        index=bf.SimpleBucketIndex(1),
        table_type="COPY_ON_WRITE",
        table_version=version,
    )
    create_table(store, properties, bf.SimpleBucketIndex(1))
    config = load_config(store, DEFAULT_LIMITS)
    table = bf.Table(store, config, DEFAULT_LIMITS, None)
    for key in "abc":
        table.upsert(pa.table({"id": [key]}))
    first = load_timeline(store, config).instants[0]
    completed = f"{config.timeline_path}/{first.file_name}"
    torn = {path: data for path, data in store.files.items() if path != completed}
    assert table.archive(min_commits=1, max_commits=1)
    left = load_timeline(store, config).instants
    assert first not in left
    store.torn = torn
    assert load_timeline(store, config).instants == left
    assert store.torn is None
    store.torn = torn
    assert bf.Table(store, config, DEFAULT_LIMITS, None).scan().count() == 3


class FadingStore(LocalStore):
    """A disk on which a file goes before a folder is listed with times, as often as told."""

    going: int = 1

    def list(self, path: str) -> list[FileInfo]:
        if self.going:
            self.going -= 1
            self.delete(super().list(path)[0].path)
        return super().list(path)


def test_a_timeline_with_times_is_listed_at_one_moment(tmp_path: Path) -> None:
    """A reader saw a later commit, and not an earlier one that came into a portion it had read."""
    store = FadingStore(str(tmp_path))
    (tmp_path / ".hoodie").mkdir()
    times = [f"{number:017}" for number in range(320)]
    for time in times:
        (tmp_path / ".hoodie" / f"{time}.commit").touch()
    store.going = 2  # the first, and one after the names were listed
    timeline = load_timeline(store, config_of(1))
    assert [each.requested_time for each in timeline.instants] == times[2:]
    store.going = 100
    with pytest.raises(StorageError, match="read again"):
        load_timeline(store, config_of(1))
