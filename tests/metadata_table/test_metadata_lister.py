"""Reads list by the metadata table where that is in step, and give what they give without it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import bucketfmt as bf
from benchmarks.metadata.listing import ByMetadata, listed_table
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.metadata_lister import MetadataLister
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.table.describe import load_facts
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config
from soak.damage.tables import table_files
from tests.metadata_table.tables import TABLES, VERSIONS

pytestmark = pytest.mark.rotated

Files = dict[str, bytes]


def opened(files: Files) -> tuple[bf.Table, RecordingStore]:
    store = RecordingStore(MemoryStore(files))
    return bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None), store


def without_metadata_table(files: Files) -> Files:
    name = ".hoodie/hoodie.properties"
    lines = files[name].splitlines()
    kept = [line for line in lines if not line.startswith(b"hoodie.table.metadata.partitions")]
    return {**files, name: b"\n".join(kept)}


def answers(files: Files) -> list[str]:
    """What reads return, as text: a value may be NaN."""
    table, _ = opened(files)
    rows = table.scan(meta_columns=True).to_arrow().sort_by("_hoodie_record_key")
    keys = rows["_hoodie_record_key"].unique()
    found = table.lookup(keys).sort_by([(name, "ascending") for name in ("id", "region")])
    located = table.inspect.file_groups()
    return [str(each.to_pylist()) for each in (rows, found, located, table.inspect.partitions())]


def folders_listed(store: RecordingStore) -> list[str]:
    return [path for path in store.paths("list") if not path.startswith(".hoodie")]


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("table", TABLES)
def test_reads_list_no_folder_and_give_the_same(table: str) -> None:
    files = table_files(table)
    by_metadata, store = opened(files)
    assert isinstance(by_metadata.state.lister, MetadataLister)
    assert by_metadata.state.lister.metadata.why_not("files") is None
    by_metadata.scan().to_arrow()
    assert folders_listed(store) == []
    assert isinstance(opened(without_metadata_table(files))[0].state.lister, StoreLister)
    assert answers(files) == answers(without_metadata_table(files))


def last_commit(files: Files) -> str:
    store = MemoryStore(files)
    config = load_config(store, DEFAULT_LIMITS)
    last = load_timeline(store, config).commits.completed.last
    assert last is not None
    return f"{config.timeline_path}/{last.file_name}"


def requested_time(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0].partition("_")[0]


def of_metadata_timeline(files: Files, time: str) -> list[str]:
    folder = ".hoodie/metadata/.hoodie/"
    return [p for p in files if p.startswith(folder) and requested_time(p) == time]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_that_is_not_in_it_is_read_all_the_same(version: str) -> None:
    files = dict(table_files(f"{version}/mdt_bucket"))
    time = requested_time(last_commit(files))
    for path in of_metadata_timeline(files, time):
        del files[path]
    table, _ = opened(files)
    assert isinstance(table.state.lister, MetadataLister)
    assert f"it lacks {time}" in str(table.state.lister.metadata.why_not("files"))
    assert answers(files) == answers(without_metadata_table(files))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_that_died_between_the_two_does_not_count(version: str) -> None:
    files = dict(table_files(f"{version}/mdt_bucket"))
    del files[last_commit(files)]
    table, store = opened(files)
    assert answers(files) == answers(without_metadata_table(files))
    table.scan().to_arrow()
    assert folders_listed(store) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_that_only_it_has_makes_it_useless(version: str) -> None:
    files = dict(table_files(f"{version}/mdt_bucket"))
    store = MemoryStore(files)
    config = load_config(store, DEFAULT_LIMITS)
    times = [i.requested_time for i in load_timeline(store, config).commits.instants]
    prefix = f"{config.timeline_path}/{times[1]}"
    files = {path: data for path, data in files.items() if not path.startswith(prefix)}
    table, _ = opened(files)
    assert isinstance(table.state.lister, MetadataLister)
    assert f"it has {times[1]}" in str(table.state.lister.metadata.why_not("files"))


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        (".hoodie/metadata/.hoodie/hoodie.properties", "no Hudi table"),
        (".hoodie/metadata/files/", "no file group"),
        (".hoodie/metadata/.hoodie/timeline/", "initialisation was not finished"),
    ],
)
def test_a_damaged_one_is_left_alone(lost: str, why: str) -> None:
    whole = table_files("1.2.0/mdt_bucket")
    files = {path: data for path, data in whole.items() if not path.startswith(lost)}
    table, _ = opened(files)
    assert isinstance(table.state.lister, MetadataLister)
    assert why in str(table.state.lister.metadata.why_not("files"))
    assert answers(files) == answers(without_metadata_table(files))


def test_writes_list_folders() -> None:
    table, store = opened(dict(table_files("1.2.0/mdt_bucket")))
    table.scan().to_arrow()
    assert folders_listed(store) == []
    assert isinstance(table._listed_snapshot().state.lister, StoreLister)
    assert table._listed_snapshot() is table._listed_snapshot()
    assert table._listed_snapshot().partitions == ("ap", "eu", "us")
    assert folders_listed(store) == ["", "ap", "eu", "us"]


def test_many_partitions_are_looked_up_at_once() -> None:
    table, store = opened(table_files("1.2.0/mdt_bucket"))
    lister = table.state.lister
    lister.prepare(lister.partitions)
    reads = store.paths("read", "read_ranges")
    own = [path for path in reads if path.startswith(".hoodie/metadata/files")]
    assert len(own) == len(set(own)) == 5
    before = len(store.operations)
    assert [len(lister.files(path)) for path in lister.partitions] == [4, 4, 4]
    assert len(store.operations) == before


def test_requests_do_not_grow_with_the_partitions() -> None:
    counts = []
    for num_partitions in (10, 100):
        store = MemoryStore(listed_table(num_partitions, 3))
        by_metadata, by_folders = ByMetadata(store, True), ByMetadata(store, False)
        plan = by_metadata.plan()
        assert plan == by_folders.plan()
        assert len(plan.slices) == 3 * num_partitions
        own, others = by_metadata.requests, by_folders.requests
        assert others["list"] == own["list"] + num_partitions - 1
        counts.append(own)
    assert counts[0] == counts[1]
    assert counts[0] == {"list": 3, "read": 20}


def test_describe_says_what_the_metadata_table_is_used_for() -> None:
    def said(files: Mapping[str, bytes]) -> tuple[str, str]:
        facts = load_facts(opened(files)[0]).in_words()
        return facts["files listed by"], facts["files left out by"]

    files = dict(table_files("1.2.0/mdt_bucket"))
    assert said(files) == ("metadata table", "column_stats")
    assert said(without_metadata_table(files)) == ("folders", "nothing")
    lost = ".hoodie/metadata/column_stats/"
    some = {path: data for path, data in files.items() if not path.startswith(lost)}
    listed_by, left_out_by = said(some)
    assert listed_by == "metadata table"
    assert left_out_by.startswith("nothing, not column_stats: ")
    assert "no file group" in left_out_by
    (time,) = {requested_time(last_commit(files))}
    for path in of_metadata_timeline(files, time):
        del files[path]
    why = f"the metadata table is not in step: it lacks {time}"
    assert said(files) == (
        f"folders, not the metadata table: {why}",
        f"nothing, not column_stats: {why}",
    )
