from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    NotFoundError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.format.encoding.avro_container import encode_container
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.archived_timeline import (
    encode_history_manifest,
    encode_history_version,
    parse_history_file_name,
)
from bucketfmt.format.timeline.commit_metadata import CommitMetadata, encode_commit_metadata_avro
from bucketfmt.format.timeline.plans import CleanerPlan, CompactionPlan
from bucketfmt.format.timeline.service_metadata import CleanMetadata
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.history import (
    load_archived_among,
    load_archived_instants,
    load_growing_history,
    load_history,
)
from bucketfmt.timeline.load import load_timeline
from tests.timeline.tables import config_of, empty_store, open_table

Golden = Callable[[str, str], Path]

VERSIONS = ("0.15.0", "1.0.2", "1.2.0")
T = [f"2024010100000{n}000" for n in range(10)]
HISTORY = ".hoodie/timeline/history"
ARCHIVED = ".hoodie/archived"

# (requested time, action, completion time) of the table `cleaned`
CLEANED = {
    "0.15.0": """
        20261121044500529 deltacommit 20261121044501114
        20261121044501309 deltacommit 20261121044501916
        20261121044501958 commit      20261121044502613
        20261121044502662 deltacommit 20261121044503216
        20261121044503365 commit      20261121044503973
        20261121044504018 deltacommit 20261121044504634
        20261121044504741 commit      20261121044505298
        20261121044505361 deltacommit 20261121044505911
        20261121044505998 commit      20261121044506540
        20261121044506590 deltacommit 20261121044507237
        20261121044507342 commit      20261121044507894
        20261121044507941 deltacommit 20261121044508522
    """,
    "1.0.2": """
        20261121044339062 deltacommit 20261121044339589
        20261121044339736 deltacommit 20261121044340266
        20261121044340389 commit      20261121044340925
        20261121044340984 deltacommit 20261121044341441
        20261121044341472 clean       20261121044341750
        20261121044341834 commit      20261121044342326
        20261121044342390 deltacommit 20261121044342966
        20261121044342999 clean       20261121044343235
        20261121044343290 commit      20261121044343783
        20261121044343842 deltacommit 20261121044344410
        20261121044344442 clean       20261121044344678
        20261121044344756 commit      20261121044345234
        20261121044345295 deltacommit 20261121044345918
        20261121044345950 clean       20261121044346203
        20261121044346310 commit      20261121044346803
        20261121044346867 deltacommit 20261121044347581
    """,
    "1.2.0": """
        20261121044215382 deltacommit 20261121044215989
        20261121044216145 deltacommit 20261121044216671
        20261121044216819 commit      20261121044217407
        20261121044217474 deltacommit 20261121044217972
        20261121044218100 clean       20261121044218330
        20261121044218424 commit      20261121044218994
        20261121044219059 deltacommit 20261121044219562
        20261121044219640 clean       20261121044219829
        20261121044219896 commit      20261121044220394
        20261121044220455 deltacommit 20261121044220908
        20261121044220979 clean       20261121044221160
        20261121044221234 commit      20261121044221756
        20261121044221825 deltacommit 20261121044222286
        20261121044222357 clean       20261121044222552
        20261121044222649 commit      20261121044223104
        20261121044223167 deltacommit 20261121044223738
    """,
}


class TestGoldenTables:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_instants(self, golden: Golden, version: str) -> None:
        history = load_history(*open_table(golden(version, "cleaned")))
        expected = [tuple(line.split()) for line in CLEANED[version].strip().splitlines()]
        assert [(i.requested_time, i.action, i.completion_time) for i in history] == expected
        assert {i.state for i in history} == {State.COMPLETED}

    def test_the_file_an_instant_is_in(self, golden: Golden) -> None:
        files = {
            version: load_history(*open_table(golden(version, "cleaned")))[4].file_name
            for version in VERSIONS
        }
        assert files == {
            "0.15.0": ".commits_.archive.3_1-0-1",
            "1.0.2": "20261121044341472_20261121044342390_0.parquet",
            "1.2.0": "20261121044218100_20261121044219059_0.parquet",
        }

    @pytest.mark.rule("TL-23")
    @pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
    def test_content_in_layout_2(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "cleaned"))
        entries = list(load_archived_instants(store, config))
        assert [e.requested_time for e in entries] == [
            i.requested_time for i in load_history(store, config)
        ]
        kinds = {
            "deltacommit": (CommitMetadata, type(None)),
            "commit": (CommitMetadata, CompactionPlan),
            "clean": (CleanMetadata, CleanerPlan),
        }
        for entry in entries:
            assert (type(entry.metadata), type(entry.plan)) == kinds[entry.action]
        compactions = [e.metadata for e in entries if e.action == "commit"]
        assert {metadata.operation_type for metadata in compactions} == {"COMPACT"}

    def test_content_in_layout_1(self, golden: Golden) -> None:
        entries = list(load_archived_instants(*open_table(golden("0.15.0", "cleaned"))))
        assert len(entries) == 3 * 12
        compaction = [e for e in entries if e.requested_time == "20261121044501958"]
        assert [(e.action, e.state) for e in compaction] == [
            ("compaction", State.REQUESTED),
            ("compaction", State.INFLIGHT),
            ("commit", State.COMPLETED),
        ]
        assert isinstance(compaction[0].plan, CompactionPlan)
        assert compaction[2].metadata.operation_type == "COMPACT"

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_range_of_instants(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "cleaned"))
        times = [i.requested_time for i in load_history(store, config)]
        for since, until, expected in (
            (times[3], times[7], times[3:8]),
            (None, times[0], times[:1]),
            (times[-1], None, times[-1:]),
            (times[2] + "0", times[3] + "0", times[3:4]),
            ("9", None, []),
            (None, "1", []),
        ):
            history = load_history(store, config, since=since, until=until)
            assert [i.requested_time for i in history] == expected
            entries = load_archived_instants(store, config, since=since, until=until)
            assert sorted({e.requested_time for e in entries}) == expected

    @pytest.mark.rule("TL-22")
    def test_only_files_of_the_range_are_opened(self, golden: Golden) -> None:
        store, config = open_table(golden("1.2.0", "cleaned"))
        recording = RecordingStore(store)
        load_history(recording, config, since="20261121044219059", until="20261121044219640")
        assert recording.operations == [
            ("read", f"{HISTORY}/_version_"),
            ("read", f"{HISTORY}/manifest_6"),
            ("open_arrow", f"{HISTORY}/20261121044218100_20261121044219059_0.parquet"),
            ("open_arrow", f"{HISTORY}/20261121044219640_20261121044220455_0.parquet"),
        ]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_what_a_dead_archival_left_on_the_timeline(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "cleaned"))
        history = load_history(store, config)
        active = load_timeline(store, config).completed.instants
        assert load_archived_among(store, config, active) == ()
        assert load_archived_among(store, config, (*history[-3:], *active)) == history[-3:]
        another = replace(history[-1], action="rollback", requested_time=active[0].requested_time)
        assert load_archived_among(store, config, (*history[-1:], another)) == history[-1:]

    def test_nothing_is_opened_before_it_is_asked_for(self, golden: Golden) -> None:
        store, config = open_table(golden("1.2.0", "cleaned"))
        recording = RecordingStore(store)
        entries = load_archived_instants(recording, config)
        assert recording.operations == []
        next(entries)
        assert len(recording.paths("open_arrow")) == 1

    @pytest.mark.parametrize("version", VERSIONS)
    def test_loading_only_reads(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "cleaned"))
        recording = RecordingStore(store)
        load_history(recording, config)
        list(load_archived_instants(recording, config))
        assert recording.operations
        assert recording.writes == []

    @pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
    def test_history_completes_the_timeline(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "cleaned"))
        timeline = load_timeline(store, config)
        history = load_history(store, config)
        assert history[-1].requested_time < timeline.first.requested_time
        assert all(timeline.needs_history(i.requested_time) for i in history)
        complete = timeline.with_history(history)
        for instant in history:
            assert complete.completion_time(instant.requested_time) == instant.completion_time

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_table_that_never_archived(self, golden: Golden, version: str) -> None:
        store, config = open_table(golden(version, "cow"))
        assert load_history(store, config) == ()
        assert list(load_archived_instants(store, config)) == []


def parquet(rows: Sequence[dict[str, object]], schema: pa.Schema | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), sink)
    return sink.getvalue().to_pybytes()


def row(number: int, action: str = "commit", **other: object) -> dict[str, object]:
    return {
        "instantTime": T[number],
        "completionTime": f"{T[number]}5",
        "action": action,
        "metadata": None,
        "plan": None,
        "version": 1,
        **other,
    }


def put_history(store: Store, *groups: Sequence[dict[str, object]], version: int = 1) -> list[str]:
    """Write a history of one file per group of rows; return the names."""
    names = []
    for rows in groups:
        times = [str(r["instantTime"]) for r in rows]
        name = f"{min(times)}_{max(times)}_0.parquet"
        store.replace(f"{HISTORY}/{name}", parquet(rows))
        names.append(name)
    put_manifest(store, version, names)
    store.replace(f"{HISTORY}/_version_", encode_history_version(version))
    return names


def put_manifest(store: Store, version: int, names: Sequence[str]) -> None:
    files = [parse_history_file_name(name, 1) for name in names]
    store.replace(f"{HISTORY}/manifest_{version}", encode_history_manifest(files))


def times_of(store: Store) -> list[str]:
    return [i.requested_time for i in load_history(store, config_of(2))]


@pytest.fixture
def store() -> Store:
    return empty_store()


class TestManifests:
    @pytest.mark.rule("TL-21")
    def test_only_what_the_manifest_in_force_names_counts(self, store: Store) -> None:
        put_history(store, [row(1)], version=1)
        put_history(store, [row(2)], version=2)  # as if file 1 had been compacted away
        assert times_of(store) == [T[2]]
        store.replace(f"{HISTORY}/_version_", b"1")
        assert times_of(store) == [T[1]]

    @pytest.mark.rule("TL-20")
    @pytest.mark.parametrize("damage", [None, b"", b"x", b"-1", b"9" * 40])
    def test_without_a_version_the_highest_manifest_is_in_force(
        self, store: Store, damage: bytes | None
    ) -> None:
        for version in (2, 9, 10):
            put_history(store, [row(version % 9)], version=version)
        for name in ("manifest_11.tmp", "manifest_", "manifest_x", "manifest_12_1"):
            store.replace(f"{HISTORY}/{name}", b"")
        store.delete(f"{HISTORY}/_version_")
        if damage is not None:
            store.replace(f"{HISTORY}/_version_", damage)
        assert times_of(store) == [T[1]]

    def test_no_history_at_all(self, store: Store) -> None:
        assert times_of(store) == []
        put_manifest(store, 1, [])
        assert times_of(store) == []

    def test_files_are_read_oldest_first_whatever_the_manifest_says(self, store: Store) -> None:
        put_history(store, [row(5), row(6)], [row(1), row(2)], [row(3), row(4)])
        entries = list(load_archived_instants(store, config_of(2)))
        assert [e.requested_time for e in entries] == T[1:7]
        assert times_of(store) == T[1:7]

    def test_an_instant_archived_twice_counts_once(self, store: Store) -> None:
        put_history(store, [row(1), row(2)], [row(2, completionTime="later"), row(3)])
        history = load_history(store, config_of(2))
        assert [(i.requested_time, i.completion_time) for i in history] == [
            (T[1], f"{T[1]}5"),
            (T[2], f"{T[2]}5"),
            (T[3], f"{T[3]}5"),
        ]

    def test_two_actions_at_one_time_are_two_instants(self, store: Store) -> None:
        put_history(store, [row(1, "savepoint"), row(1, "commit")])
        assert [i.action for i in load_history(store, config_of(2))] == ["commit", "savepoint"]

    def test_names_in_a_manifest_stay_in_the_folder(self, store: Store) -> None:
        store.replace(f"{HISTORY}/_version_", b"1")
        for name in ("../../x", "/etc/passwd", "1_2_0.parquet/../../x", "x"):
            manifest = b'{"files":[{"fileName":"%s","fileLen":1}]}' % name.encode()
            store.replace(f"{HISTORY}/manifest_1", manifest)
            with pytest.raises((CorruptError, UnsafePathError)) as caught:
                times_of(store)
            assert caught.value.path == f"{HISTORY}/manifest_1"

    @pytest.mark.parametrize("damage", [b"", b"{", b'{"files":1}', b'{"files":[{}]}', b"\xff"])
    def test_a_damaged_manifest_is_named(self, store: Store, damage: bytes) -> None:
        put_history(store, [row(1)])
        store.replace(f"{HISTORY}/manifest_1", damage)
        with pytest.raises(CorruptError) as caught:
            times_of(store)
        assert caught.value.path == f"{HISTORY}/manifest_1"

    def test_a_missing_file_is_not_found(self, store: Store) -> None:
        (name,) = put_history(store, [row(1)])
        store.delete(f"{HISTORY}/{name}")
        with pytest.raises(NotFoundError) as caught:
            times_of(store)
        assert caught.value.path == f"{HISTORY}/{name}"


class TestParquetFiles:
    @pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "head"])
    def test_a_damaged_file_is_named(self, store: Store, damage: str) -> None:
        (name,) = put_history(store, [row(1)])
        good = store.read(f"{HISTORY}/{name}", 1 << 20)
        bad = {
            "empty": b"",
            "cut": good[:-10],
            "garbage": b"not parquet, not at all",
            "head": bytes(100) + good[100:],
        }[damage]
        store.replace(f"{HISTORY}/{name}", bad)
        with pytest.raises(CorruptError) as caught:
            times_of(store)
        assert caught.value.path == f"{HISTORY}/{name}"

    @pytest.mark.parametrize(
        "rows",
        [
            [{"instantTime": T[1]}],
            [{"completionTime": T[1], "action": "commit", "version": 1}],
            [row(1, action=None)],
            [row(1, action={"nested": 1})],
            [row(1, action=[1, 2])],
            [row(1, version="x")],
            [row(1, version=2**40)],
            [row(1, metadata=[1.5])],
        ],
    )
    def test_rows_of_another_shape(self, store: Store, rows: list[dict[str, object]]) -> None:
        (name,) = put_history(store, [row(1)])
        store.replace(f"{HISTORY}/{name}", parquet(rows))
        with pytest.raises(CorruptError) as caught:
            list(load_archived_instants(store, config_of(2)))
        assert caught.value.path == f"{HISTORY}/{name}"

    def test_text_that_is_not_unicode(self, store: Store) -> None:
        (name,) = put_history(store, [row(1)])
        store.replace(f"{HISTORY}/{name}", parquet([row(1, action=b"\xff\xfe")]))
        with pytest.raises(CorruptError):
            times_of(store)

    def test_large_types_are_read(self, store: Store) -> None:
        (name,) = put_history(store, [row(1)])
        schema = pa.schema(
            [
                ("instantTime", pa.large_string()),
                ("completionTime", pa.dictionary(pa.int32(), pa.string())),
                ("action", pa.large_string()),
                ("metadata", pa.large_binary()),
            ]
        )
        data = encode_commit_metadata_avro(CommitMetadata(operation_type="UPSERT"), False)
        rows = [{"instantTime": T[1], "completionTime": T[2], "action": "commit", "metadata": data}]
        store.replace(f"{HISTORY}/{name}", parquet(rows, schema))
        (entry,) = load_archived_instants(store, config_of(2))
        assert (entry.completion_time, entry.metadata.operation_type) == (T[2], "UPSERT")

    @pytest.mark.rule("TL-23")
    def test_a_newer_row_is_unsupported(self, store: Store) -> None:
        put_history(store, [row(1, version=2)])
        with pytest.raises(UnsupportedError):
            times_of(store)

    def test_damaged_content_hurts_only_who_reads_it(self, store: Store) -> None:
        (name,) = put_history(store, [row(1, metadata=b"Obj\x01 broken")])
        assert times_of(store) == [T[1]]
        with pytest.raises(CorruptError) as caught:
            list(load_archived_instants(store, config_of(2)))
        assert caught.value.path == f"{HISTORY}/{name}"

    @pytest.mark.parametrize(
        "limits",
        [
            Limits(history_file_bytes_max=100),
            Limits(timeline_instants_max=2),
            Limits(row_group_bytes_max=10),
        ],
    )
    def test_limits(self, store: Store, limits: Limits) -> None:
        put_history(store, [row(1), row(2), row(3)])
        with pytest.raises(LimitError):
            load_history(store, config_of(2), limits)

    def test_the_limit_counts_all_files(self, store: Store) -> None:
        put_history(store, [row(1)], [row(2)], [row(3)])
        with pytest.raises(LimitError):
            load_history(store, config_of(2), Limits(timeline_instants_max=2))

    def test_flipped_bytes_give_a_value_or_an_error_of_the_package(self, store: Store) -> None:
        (name,) = put_history(store, [row(1, metadata=b"x" * 50), row(2)])
        good = store.read(f"{HISTORY}/{name}", 1 << 20)
        chance = random.Random(7)
        for _ in range(300):
            bad = bytearray(good)
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
            store.replace(f"{HISTORY}/{name}", bytes(bad))
            with contextlib.suppress(BucketfmtError):
                load_history(store, config_of(2))


class TestArchiveFiles:
    """Layout 1, with blocks real Hudi wrote."""

    @pytest.fixture
    def archive(self, golden: Golden) -> list[bytes]:
        folder = golden("0.15.0", "cleaned") / ".hoodie/archived"
        return [(folder / f".commits_.archive.{n}_1-0-1").read_bytes() for n in range(1, 7)]

    def test_blocks_follow_one_another_in_a_file(self, store: Store, archive: list[bytes]) -> None:
        store.replace(f"{ARCHIVED}/.commits_.archive.1_1-0-1", b"".join(archive))
        assert len(load_history(store, config_of(1))) == 12

    def test_an_instant_whose_states_are_in_two_files(
        self, store: Store, archive: list[bytes]
    ) -> None:
        for number in (1, 2, 10):  # a merge writes old instants again, under a later number
            store.replace(f"{ARCHIVED}/.commits_.archive.{number}_1-0-1", archive[0])
        history = load_history(store, config_of(1))
        assert [i.requested_time for i in history] == ["20261121044500529", "20261121044501309"]

    def test_files_are_read_from_the_newest_on_as_far_as_they_tell(
        self, store: Store, archive: list[bytes]
    ) -> None:
        """Every write of a table of version 6 read the whole archive of its metadata table."""
        paths = [f"{ARCHIVED}/.commits_.archive.{number}_1-0-1" for number in range(1, 13)]
        for path, data in zip(paths[6:], archive, strict=True):
            store.replace(path, data)
        history = load_history(store, config_of(1))
        recording = RecordingStore(store)
        growing = load_growing_history(recording, config_of(1))
        assert [len(next(growing)) for _ in range(2)] == [2, 4]
        assert recording.paths("read") == [paths[11], paths[10]]
        assert [*growing][-1] == history
        recording = RecordingStore(store)
        left = history[-3:]
        assert load_archived_among(recording, config_of(1), left) == left
        assert recording.paths("read") == [paths[11], paths[10], paths[9]]
        recording = RecordingStore(store)
        active = [replace(left[0], requested_time="20270101000000000")]
        assert load_archived_among(recording, config_of(1), active) == ()
        assert recording.paths("read") == [paths[11]]
        assert load_archived_among(recording, config_of(1), ()) == ()

    def test_other_files_are_ignored(self, store: Store, archive: list[bytes]) -> None:
        store.replace(f"{ARCHIVED}/.commits_.archive.1_1-0-1", archive[0])
        for name in ("..commits_.archive.1_1-0-1.crc", "mergeArchivePlan", "x", ".commits_.log.1"):
            store.replace(f"{ARCHIVED}/{name}", b"garbage")
        assert len(load_history(store, config_of(1))) == 2

    @pytest.mark.rule("TL-19")
    @pytest.mark.parametrize("keep", [0.3, 0.999])
    def test_a_cut_file_is_named(self, store: Store, archive: list[bytes], keep: float) -> None:
        path = f"{ARCHIVED}/.commits_.archive.2_1-0-1"
        store.replace(path, archive[0] + archive[1][: int(len(archive[1]) * keep)])
        with pytest.raises(CorruptError, match="archived instants are lost") as caught:
            load_history(store, config_of(1))
        assert caught.value.path == path
        assert caught.value.offset == len(archive[0])

    def test_a_damaged_entry_is_named(self, store: Store, archive: list[bytes]) -> None:
        path = f"{ARCHIVED}/.commits_.archive.1_1-0-1"
        at = archive[0].index(b"20261121044500529")
        store.replace(path, archive[0][:at] + b"\xff" * 17 + archive[0][at + 17 :])
        with pytest.raises(CorruptError) as caught:
            load_history(store, config_of(1))
        assert caught.value.path == path

    @pytest.mark.rule("TL-19")
    def test_an_unfinished_merge_is_passed_over(self, store: Store, archive: list[bytes]) -> None:
        """The files it merges are still there, so nothing is lost."""
        store.replace(f"{ARCHIVED}/.commits_.archive.1_1-0-1", archive[0])
        store.replace(f"{ARCHIVED}/.commits_.archive.2_1-0-1", archive[1])
        merged = ".commits_.archive.7_1-0-1"
        store.replace(f"{ARCHIVED}/{merged}", archive[0] + archive[1][:50])
        with pytest.raises(CorruptError):
            load_history(store, config_of(1))
        plan = {
            "type": "record",
            "name": "HoodieMergeArchiveFilePlan",
            "fields": [{"name": "mergedArchiveFileName", "type": ["null", "string"]}],
        }
        for named, error in ((merged, None), ("another", CorruptError)):
            data = encode_container(plan, [{"mergedArchiveFileName": named}])
            store.replace(f"{ARCHIVED}/mergeArchivePlan", data)
            if error is None:
                assert len(load_history(store, config_of(1))) == 4
            else:
                with pytest.raises(error):
                    load_history(store, config_of(1))
        store.replace(f"{ARCHIVED}/mergeArchivePlan", b"torn")
        with pytest.raises(CorruptError, match="archived instants are lost"):
            load_history(store, config_of(1))

    def test_limits(self, store: Store, archive: list[bytes]) -> None:
        store.replace(f"{ARCHIVED}/.commits_.archive.1_1-0-1", archive[0])
        for limits in (
            Limits(history_file_bytes_max=100),
            Limits(timeline_instants_max=1),
        ):
            with pytest.raises(LimitError):
                load_history(store, config_of(1), limits)
