"""A process dies amid an archival, or a reader comes amid it: instants have gone one by one.

A change of buckets is requested before, and completed after, writes to the file groups that it
replaces. So it is removed from the active timeline before these writes are.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.names.instants import find_instant_file
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import FileInfo
from bucketfmt.testing.crashes import Aftermath, Looks, SimulatedProcess, kill_everywhere
from bucketfmt.testing.faulty_store import Fault
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.properties.create import create_table
from bucketfmt.write.properties.plan_create import plan_properties
from soak.works import works
from soak.works.works import Kind, Work, make

NO_SERVICES = bf.WriterConfig(services=None)
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())])
KEYS = [f"k{number}" for number in range(8)]


def rows(v: int) -> pa.Table:
    return pa.table({"id": KEYS, "v": [v] * len(KEYS), "p": ["a"] * len(KEYS)}, SCHEMA)


def created(version: int, table_type: Any, index: bf.SimpleBucketIndex) -> MemoryStore:
    files = MemoryStore()
    properties = plan_properties(
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["p"],
        index=index,
        table_type=table_type,
        table_version=version,
    )
    create_table(files, properties, index)
    return files


def opened(files: MemoryStore, process: int, chance: int | None = None) -> bf.Table:
    return SimulatedProcess(files, process, NO_SERVICES, chance=chance).open()


def archive(table: bf.Table) -> object:
    return table.archive(min_commits=1, max_commits=1)


@lru_cache
def rehashed_amid_writes(version: int, table_type: Any) -> tuple[MemoryStore, tuple[str, str]]:
    """A table that was rehashed while others wrote, and then cleaned.

    Returns:
        The files; the requested times of the rehash and of the last write that came amid it.
    """
    files = created(version, table_type, bf.SimpleBucketIndex(2))
    table = opened(files, 0)
    table.upsert(rows(1))
    with table.start_rehash(4) or pytest.fail("it has two") as started:
        other = opened(files, 0, chance=1)  # at the same time
        amid = [other.upsert(rows(v)).instant for v in (2, 3)]
        started.run(lambda task, steps: [task.rewrite(step, "0-0-0") for step in steps])
        rehash = started.instant
    assert rehash < amid[0]
    table = opened(files, 2)
    for v in (4, 5, 6):
        table.upsert(rows(v))
        table.compact()
    table.clean(retain=1, dry_run=False)
    return files, (rehash, amid[-1])


def half_archived(version: int, table_type: str) -> list[MemoryStore]:
    """The table after each removal that left writes behind, and not the rehash that hides them."""
    files, (rehash, last_amid) = rehashed_amid_writes(version, table_type)
    left = {}
    for aftermath in kill_everywhere(files, archive, process=3, writer=NO_SERVICES):
        if aftermath.plan.fault is Fault.KILL_AFTER and aftermath.operation.startswith("delete"):
            timeline = opened(aftermath.store, 4).timeline
            if rehash not in timeline.requested_times and last_amid in timeline.requested_times:
                left[timeline.instants] = aftermath.store
    return [*left.values()]


KINDS = [
    (version, table_type)
    for version in (6, 8, 9)
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
]


@pytest.mark.rotated
@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_what_an_archived_rehash_replaced_stays_replaced(version: int, table_type: str) -> None:
    found = half_archived(version, table_type)
    assert len(found) == 2, "one of the writes amid it went, too, or none"
    for files in found:
        table = opened(files, 5)
        assert table.scan().to_arrow().sort_by("id").equals(rows(6))
        assert table.lookup(["k1"]).column("v").to_pylist() == [6]
        assert table.locate(KEYS).num_rows == len(KEYS), "each bucket has one file group"
        report = table.check(depth="full")
        assert (report.status, report.findings) == ("clean", ())
        table.upsert(rows(7))
        assert table.scan().to_arrow().sort_by("id").equals(rows(7))
        archive(table)
        assert opened(files, 6).scan().to_arrow().sort_by("id").equals(rows(7))
        assert opened(files, 6).check(depth="full").findings == ()


SPLIT = {"max_file_size": 1, "min_buckets": 1, "max_buckets": 8}


def split_amid_writes(kind: Kind) -> MemoryStore:
    """A table of rings or directories, whose buckets were split while others wrote."""
    files = make(kind, Work("split", archive))

    def opened_by(process: int, chance: int | None = None) -> bf.Table:
        return SimulatedProcess(files, process, kind.writer, chance=chance).open()

    def write_amid(other: bf.Table) -> None:
        for v in (3, 4):
            other.upsert(two_partitions(v))

    table = opened_by(1)
    if kind.is_ring:
        table.schedule_resize(**SPLIT)
        write_amid(opened_by(1, chance=9))
        table.resize(**SPLIT)
    else:
        with table.start_resize(**SPLIT) or pytest.fail("it has two") as started:
            assert isinstance(started, bf.StartedRewrite)
            write_amid(opened_by(1, chance=9))
            started.run(lambda task, steps: [task.rewrite(step, "0-0-0") for step in steps])
    table = opened_by(2)
    for v in (5, 6, 7):
        table.upsert(two_partitions(v))
        if kind.is_logged:
            table.compact()
    table.clean(retain=1, dry_run=False)
    return files


def two_partitions(v: int) -> pa.Table:
    return works.rows(*((f"k{number}", v, "ab"[number % 2]) for number in range(8)))


@pytest.mark.rotated(0)
@pytest.mark.parametrize(
    "kind", [kind for kind in works.KINDS if kind.is_ring or kind.is_directory], ids=str
)
def test_what_an_archived_split_replaced_stays_replaced(kind: Kind) -> None:
    files = split_amid_writes(kind)
    looked_up_in_history = 0

    def look(aftermath: Aftermath) -> None:
        nonlocal looked_up_in_history
        table = SimulatedProcess(aftermath.store, 4, kind.writer).open()
        assert sorted_rows(table) == sorted_rows(two_partitions(7)), aftermath
        looked_up_in_history += "replaced_in_history" in vars(table.state)
        errors = [f for f in table.check(depth="quick").findings if f.severity == "error"]
        assert errors == [], aftermath

    looks = Looks(look)
    for aftermath in kill_everywhere(files, archive, process=3, writer=kind.writer):
        if aftermath.operation.startswith("delete"):
            looks(aftermath)
    assert looked_up_in_history, "the split was removed before a write amid it"


def sorted_rows(table: bf.Table | pa.Table) -> list[dict[str, Any]]:
    return (
        table.to_arrow().sort_by("id").to_pylist()
        if isinstance(table, bf.Table)
        else (table.sort_by("id").to_pylist())
    )


@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_what_none_replaced_is_lost(version: int, table_type: str) -> None:
    files = half_archived(version, table_type)[0]
    file_slice = opened(files, 5).scan().plan().slices[0]
    for path in [*files.files]:
        if path.startswith("a/") and file_slice.file_id in path:
            files.delete(path)
    table = opened(files, 5)
    with pytest.raises(bf.CorruptError, match="names this file and it does not exist"):
        table.scan().to_arrow()
    report = table.check(depth="quick")
    assert {finding.id for finding in report.findings} == {"T002"}
    assert file_slice.files[0].path in {p for f in report.findings for p in f.subject.paths}


@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_an_archived_rehash_hides_no_later_commit(version: int, table_type: str) -> None:
    """As where a file id is used again: what was written to it since may be lost."""
    files = half_archived(version, table_type)[0]
    table = opened(files, 5)
    state = table.state
    earlier = {
        group: replace(by, completion_time=by.requested_time, rewritten_until=None)
        for group, by in state.replaced_in_history.items()
    }
    assert earlier
    vars(state)["replaced_in_history"] = earlier
    with pytest.raises(bf.CorruptError, match="names this file and it does not exist") as told:
        table.scan().to_arrow()
    assert any(file_id in str(told.value.path) for _, file_id in earlier)


@pytest.mark.rotated(0)
@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_a_damaged_history_is_told(version: int, table_type: str) -> None:
    files = half_archived(version, table_type)[0]
    history = [p for p in files.files if "/history/" in p or "/archived/" in p]
    (path,) = [p for p in history if p.endswith(".parquet") or ".commits_.archive" in p]
    files.replace(path, bytes(100))
    table = opened(files, 5)
    with pytest.raises(bf.CorruptError) as told:
        table.scan().to_arrow()
    assert told.value.path == path
    report = table.check(depth="quick")
    assert path in {p for finding in report.findings for p in finding.subject.paths}


class ListedDuringArchival(RecordingStore):
    """Lists the timeline, when it is told to, while another process archives.

    Attributes:
        seen_before: The names that the listing comes to before the archival; None: it lists as
            usual. All others are listed as they are afterwards.
    """

    def __init__(self, files: MemoryStore, folder: str) -> None:
        super().__init__(files)
        self._files, self._folder = files, folder
        self.seen_before: Collection[str] | None = None

    def list(self, path: str) -> builtins.list[FileInfo]:
        before = super().list(path)
        names = {*self._during_archival(path, [entry.name for entry in before])}
        return [entry for entry in before if entry.name in names]

    def list_names(self, path: str) -> builtins.list[str]:
        return self._during_archival(path, super().list_names(path))

    def _during_archival(self, path: str, before: builtins.list[str]) -> builtins.list[str]:
        seen_before, self.seen_before = self.seen_before, None
        if path != self._folder or seen_before is None:
            self.seen_before = seen_before
            return before
        archive(opened(self._files, 2))
        left = {entry.name for entry in self._files.list(path)}
        return [name for name in before if name in left or name in seen_before]


@pytest.mark.rotated(0, each="version")
@pytest.mark.parametrize(("version", "table_type"), KINDS)
@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_listing_that_lasts_through_an_archival(
    version: int, table_type: str, number: int
) -> None:
    """It has the oldest instants, and lacks later ones: their rows were not read.

    A table that has read the commits before reads none that would not be there.
    """
    files = created(version, table_type, bf.SimpleBucketIndex(8))
    writer = opened(files, 0)
    for v, key in enumerate(KEYS):
        writer.upsert(pa.table({"id": [key], "v": [v], "p": ["a"]}, SCHEMA))
    config = load_config(files, DEFAULT_LIMITS)
    store = ListedDuringArchival(files, config.timeline_path)
    table = bf.Table(store, config, DEFAULT_LIMITS, None)
    assert table.scan().count() == 8
    writer.upsert(pa.table({"id": ["new"], "v": [8], "p": ["a"]}, SCHEMA))
    layout = config.timeline_layout
    names = [entry.name for entry in files.list(config.timeline_path)]
    found = [(file.requested_time, n) for n in names if (file := find_instant_file(n, layout))]
    oldest = sorted({time for time, _ in found})[:number]
    store.seen_before = [name for time, name in found if time in oldest]
    rows_by_key = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert store.seen_before is None, "it was archived meanwhile"
    assert len(table.timeline.instants) == 1
    assert rows_by_key == {**{key: v for v, key in enumerate(KEYS)}, "new": 8}
