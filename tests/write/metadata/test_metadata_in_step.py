"""Tables that Hudi gave a metadata table: what is written to them is in it as well."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.choices import TableType
from bucketfmt.format.metadata.metadata_keys import format_column_stats_key
from bucketfmt.format.metadata.metadata_records import ColumnStats, FilesRecord, StatValue
from bucketfmt.format.names.layout import METADATA_TABLE, find_archive_number
from bucketfmt.format.timeline.plans import CompactionPlan
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.definitions import find_indexed_columns, load_index_definitions
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.open import open_store
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.history_writer import HistoryWriter
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.files import row_report
from bucketfmt.write.metadata import metadata_services
from bucketfmt.write.metadata.initialise import KEPT_PARTITIONS
from bucketfmt.write.metadata.records.file_statistics import ColumnStatistics, FileStatistics
from bucketfmt.write.metadata.records.record_index_update import RecordIndexReader
from bucketfmt.write.metadata.records.statistics_records import (
    ColumnValues,
    column_stats,
    partition_stats,
)
from bucketfmt.write.services.plan_archive import ArchiveBasis, ArchivePolicy, plan_archive
from tests.write.metadata.metadata_records import assert_in_step, records_of
from tests.write.models import NO_SERVICES

Copy = Callable[[str, str], Path]
HUDI_VERSIONS = ("0.15.0", "1.0.2", "1.2.0")


@pytest.mark.parametrize("version", HUDI_VERSIONS)
def test_statistics_are_those_that_hudi_wrote(golden_copy: Copy, version: str) -> None:
    table = bf.open(golden_copy(version, "rli"))
    definitions = load_index_definitions(table.store, table.config, DEFAULT_LIMITS)
    columns = find_indexed_columns(definitions)
    version_number = table.config.table_version
    taken = ColumnStatistics(DEFAULT_LIMITS, columns, version_number)
    statistics = FileStatistics(table.store, taken)
    found = {}
    for key, record in records_of(table, "files").items():
        assert isinstance(record, FilesRecord)
        for name in () if record.are_partitions else record.entries:
            for stats in statistics.read(f"{key}/{name}"):
                found[format_column_stats_key(stats.column or "", key, name)] = stats
    assert found == records_of(table, "column_stats")
    assert len(found) > 80


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_statistics_cover_values_that_footers_or_python_cannot_tell(
    tmp_path: Path, kind: TableType
) -> None:
    """Arrow leaves NaN out of bounds, and Spark's comparisons do not. Python ends with 9999."""
    columns = {
        "f": pa.array([1.0, float("nan"), None]),
        "nan": pa.array([float("nan"), float("nan"), None], pa.float32()),
        "zero": pa.array([0.0, -0.0, None]),
        "day": pa.array([-(10**6), 10**7, None], pa.int32()).cast(pa.date32()),
        "at": pa.array([-(2**62), 2**62, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
    rows = pa.table({"id": ["a", "b", "c"], **columns})
    table = bf.create(
        tmp_path / "t",
        schema=rows.schema,
        record_key=["id"],
        index=bf.SimpleBucketIndex(1),
        table_type=kind,
    )
    table.metadata_table.init("column_stats")
    table.upsert(rows)
    table.upsert(rows)
    found: dict[str, list[tuple[object, object]]] = {}
    for record in records_of(table, "column_stats").values():
        assert isinstance(record, ColumnStats)
        if record.column in columns:
            assert record.minimum is not None
            assert record.maximum is not None
            own = found.setdefault(record.column, [])
            own.append((record.minimum.value, record.maximum.value))
    assert found.pop("f") == [(1.0, math.inf)] * 2
    assert found.pop("nan") == [(math.inf, math.inf)] * 2
    assert [str(pair) for pair in found.pop("zero")] == ["(-0.0, 0.0)"] * 2
    assert found == {"day": [(-(10**6), 10**7)] * 2, "at": [(-(2**62), 2**62)] * 2}


def test_text_of_partitions_is_bounded_in_the_order_of_spark() -> None:
    """In the order of UTF-16, U+10000 is below U+FFEE."""
    texts = ["\uffee", "\U00010000"]
    files = [
        column_stats("f", "s", ColumnValues(text, text, 1, 0, pa.string()), 9) for text in texts
    ]
    (record,) = partition_stats("p", [each for each in files if each is not None]).values()
    assert isinstance(record, ColumnStats)
    assert [b and b.value for b in (record.minimum, record.maximum)] == texts


def test_bounds_of_widened_columns_are_of_the_widest_type() -> None:
    """An int that held a long could not be read."""
    values = [
        ColumnValues(2**40, 2**41, 1, 0, pa.int64()),
        ColumnValues(1, 2, 1, 0, pa.int32()),
        ColumnValues(Decimal("1E10"), Decimal("1E10"), 1, 0, pa.decimal128(20, 4)),
        ColumnValues(Decimal("1.00"), Decimal("2.00"), 1, 0, pa.decimal128(9, 2)),
    ]
    files = [column_stats("f", "nd"[n // 2], each, 9) for n, each in enumerate(values)]
    numbers, decimals = partition_stats("p", [e for e in files if e is not None]).values()
    assert isinstance(numbers, ColumnStats)
    assert (numbers.minimum, numbers.maximum) == (StatValue("Long", 1), StatValue("Long", 2**41))
    assert isinstance(decimals, ColumnStats)
    assert decimals.value_type_info == "20,4"
    bounds = [b.value for b in (decimals.minimum, decimals.maximum) if b is not None]
    assert [int.from_bytes(b, "big") for b in bounds if isinstance(b, bytes)] == [10**4, 10**14]


@pytest.mark.parametrize("newer", ["Int", "Date"])
def test_dates_that_hudi_made_ints_of_count_in_the_statistics_of_their_partition(
    newer: str,
) -> None:
    """Hudi's compactions of metadata tables do so until version 8. Rows without bounds are lost."""
    files = [
        column_stats("f", "day", ColumnValues(day, day, 1, 0, pa.date32()), 8) for day in (5, 7)
    ]
    older = "Date" if newer == "Int" else "Int"
    said = [
        replace(each, minimum=StatValue(kind, day), maximum=StatValue(kind, day))
        for each, kind, day in zip(files, (older, newer), (5, 7), strict=True)
        if each is not None
    ]
    (record,) = partition_stats("p", said).values()
    assert isinstance(record, ColumnStats)
    assert (record.minimum, record.maximum) == (StatValue(newer, 5), StatValue(newer, 7))


def test_columns_that_lose_their_statistics_hide_no_rows(tmp_path: Path) -> None:
    """Until table version 8 there are none of wide decimals."""
    rows = pa.table({"id": ["a"], "price": pa.array([Decimal(1)], pa.decimal128(9, 2))})
    table = bf.create(
        tmp_path / "t",
        schema=rows.schema,
        record_key=["id"],
        index=bf.SimpleBucketIndex(1),
        table_version=8,
    )
    table.metadata_table.init("column_stats", "partition_stats")
    table.upsert(rows)
    wide = pa.table({"id": ["b"], "price": pa.array([Decimal(10**9)], pa.decimal128(20, 4))})
    with pytest.warns(UserWarning, match="price has no statistics"):
        table.upsert(wide, evolve=True)
    assert [each.name for each in table.metadata_table.list()] == ["files"]
    assert table.scan(filter=[("price", ">", Decimal(5))]).to_arrow().num_rows == 1
    table.metadata_table.init("column_stats", "partition_stats")
    added = pa.table({"id": ["c"], "price": wide["price"], "n": [7]})
    table.upsert(added, evolve=True)
    table.upsert(added.set_column(2, "n", pa.array([8])))
    assert table.scan(filter=[("n", "==", 8)]).to_arrow().num_rows == 1
    assert_in_step(table)


@pytest.mark.rotated(0, among="every change in the metadata table", one_of=2)
@pytest.mark.parametrize("version", HUDI_VERSIONS)
def test_every_change_is_in_the_metadata_table(golden_copy: Copy, version: str) -> None:
    table = bf.open(
        golden_copy(version, "mdt_bucket"), index=bf.SimpleBucketIndex(4), writer=NO_SERVICES
    )
    listed = table.config.metadata_partitions
    before = table.scan().to_arrow()
    some = before.slice(0, 30)
    changed = some.set_column(
        some.schema.get_field_index("name"), "name", pa.array(["zzz"] * some.num_rows)
    )
    table.upsert(changed)
    assert_in_step(table)
    table.delete(some.select(["id", "region"]).slice(0, 5))
    assert_in_step(table)
    taken_back = table.upsert(some).instant
    assert_in_step(table)
    table.rollback(taken_back)
    assert_in_step(table)
    table.compact()
    assert_in_step(table)
    table.insert_overwrite(changed.slice(5, 5))
    assert_in_step(table)
    table.upsert(some)
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    assert_in_step(table)
    table.archive(min_commits=2, max_commits=3)
    table.upsert(changed)
    assert_in_step(table)
    assert bf.open(table.uri).config.metadata_partitions == listed


def own_timeline(table: bf.Table) -> Timeline:
    """Return the active timeline of the metadata table."""
    below = FolderStore(table.store, METADATA_TABLE)
    return load_timeline(below, load_config(below, DEFAULT_LIMITS))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", HUDI_VERSIONS)
def test_the_metadata_table_does_not_grow(
    golden_copy: Copy, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compacted after some delta commits, and cleaned and archived after compactions."""
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    monkeypatch.setattr(metadata_services, "_KEPT", ArchivePolicy(2, 3))
    root = golden_copy(version, "mdt_bucket")
    table = bf.open(root, index=bf.SimpleBucketIndex(4), writer=NO_SERVICES)
    some = table.scan().to_arrow().slice(0, 10)
    counts = []
    for _ in range(11):
        table.upsert(some)
        files = (root / ".hoodie/metadata").rglob("*")
        counts.append(len([f for f in files if not {"archived", "history"} & set(f.parts)]))
    assert_in_step(table)
    assert max(counts[7:]) <= max(counts[:7]) + 3, counts
    timeline = own_timeline(table)
    assert timeline.completed.of("commit").instants
    assert timeline.completed.of("clean").instants
    assert len(timeline.writes.instants) <= 6
    assert not timeline.pending.instants


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", HUDI_VERSIONS)
def test_the_metadata_table_does_not_grow_where_others_compact_it(
    golden_copy: Copy, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi does not clean it for long where the table's timeline is short."""
    monkeypatch.setattr(metadata_services, "_KEPT", ArchivePolicy(2, 3))
    root = golden_copy(version, "mdt_bucket")
    table = bf.open(root, index=bf.SimpleBucketIndex(4), writer=NO_SERVICES)
    some = table.scan().to_arrow().slice(0, 10)
    counts = []
    for _ in range(16):
        with monkeypatch.context() as other:
            other.setattr(metadata_services, "_DELTA_COMMITS", 1)
            for service in ("_clean", "_archive"):
                other.setattr(metadata_services, service, lambda *_: None)
            table.upsert(some)
        table.upsert(some)
        slices = {f.name for f in (root / METADATA_TABLE).rglob("*.hfile")}
        counts.append(len(slices))
    assert_in_step(table)
    assert max(counts[6:]) <= max(counts[:6]), counts
    timeline = own_timeline(table)
    assert len(timeline.instants) <= 20
    assert not timeline.pending.instants


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", HUDI_VERSIONS)
def test_a_compaction_of_the_metadata_table_that_hudi_died_in(
    golden_copy: Copy, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its base files, whose names hold Hudi's write tokens, go: Hudi fails on two of one slice."""
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    root = golden_copy(version, "mdt_bucket")
    table = bf.open(root, index=bf.SimpleBucketIndex(4), writer=NO_SERVICES)
    some = table.scan().to_arrow().slice(0, 10)
    left: list[Path] = []

    def die(below: LockedTable, instant: Instant, plan: CompactionPlan, _: object) -> None:
        below.begin(instant.requested_time, "compaction")
        for number, operation in enumerate(plan.operations):
            name = f"{operation.file_id}_{number}-117-286_{instant.requested_time}.hfile"
            left.append(root / METADATA_TABLE / (operation.partition_path or "") / name)
            left[-1].write_bytes(b"" if number % 2 else b"half")
        raise bf.StorageError("died")

    with monkeypatch.context() as patch:
        patch.setattr(metadata_services, "_execute", die)
        with suppress(bf.StorageError):
            for _ in range(4):
                table.upsert(some)
    assert {path.parent.name for path in left} >= {"files", "column_stats"}
    bf.open(root, index=bf.SimpleBucketIndex(4), writer=NO_SERVICES).upsert(some)
    assert not any(path.exists() for path in left)
    assert_in_step(table)
    for path in left:  # each has one base file of that instant, whoever wrote it
        file_id, _, ending = path.name.split("_")
        assert len([*path.parent.glob(f"{file_id}_*_{ending}")]) == 1


def soon_archived(
    path: Path, monkeypatch: pytest.MonkeyPatch, **given: Any
) -> tuple[bf.Table, pa.Table]:
    """Return a new table whose metadata table, once made, is archived soon, and a row for it."""
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    monkeypatch.setattr(metadata_services, "_KEPT", ArchivePolicy(1, 2))
    rows = pa.table({"id": ["a"], "n": [1]})
    index = bf.SimpleBucketIndex(1)
    table = bf.create(
        path, schema=rows.schema, record_key=["id"], index=index, writer=NO_SERVICES, **given
    )
    return table, rows


def test_a_write_reads_no_more_of_the_archived_timeline_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the metadata table has had, the instants that the table still has are compared."""
    table, rows = soon_archived(tmp_path / "t", monkeypatch)
    table.upsert(rows)
    table.metadata_table.init()
    for _ in range(16):
        table.upsert(rows)

    def opened_by_an_upsert() -> tuple[set[str], list[str]]:
        """Return the files of the history that are opened, and all that were there before."""
        history = tmp_path / "t" / METADATA_TABLE / ".hoodie/timeline/history"
        found = sorted(path.name for path in history.glob("*.parquet"))
        store = RecordingStore(table.store)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it is not made anew
            bf.Table(store, table.config, DEFAULT_LIMITS, None, NO_SERVICES).upsert(rows)
        opened = {Path(path).name for path in store.paths("open_arrow")}
        return opened & {*found}, found

    # The table has a commit from before the metadata table: what initialised it is looked up.
    opened, found = opened_by_an_upsert()
    assert found[0] in opened
    table.archive(min_commits=5, max_commits=6)
    opened, found = opened_by_an_upsert()
    assert len(found) > 3
    assert opened
    assert not opened & {*found[:-2]}
    assert_in_step(table)


def test_a_write_of_version_6_reads_the_newest_files_of_the_archive_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing tells what times its files hold, and all of them were read, twice by each write."""
    table, rows = soon_archived(tmp_path / "t", monkeypatch, table_version=6)
    table.metadata_table.init()
    for _ in range(20):
        table.upsert(rows)
    table.archive(min_commits=4, max_commits=5)
    archive = tmp_path / "t" / METADATA_TABLE / ".hoodie/archived"
    numbers = sorted(find_archive_number(path.name) or 0 for path in archive.glob(".commits_*"))
    assert len(numbers) > 6
    store = RecordingStore(table.store)
    bf.Table(store, table.config, DEFAULT_LIMITS, None, NO_SERVICES).upsert(rows)
    names = [Path(path).name for path in store.paths("read") if "/archived/" in path]
    read = {find_archive_number(name) for name in names}
    assert read
    assert read <= {*numbers[-4:], numbers[-1] + 1}, (numbers, names)
    assert_in_step(table)


SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("n", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("ts", pa.int64()),
    ]
)


def make(
    path: Path,
    version: int,
    kind: str = "COPY_ON_WRITE",
    index: bf.Index = bf.SimpleBucketIndex(2),  # noqa: B008  (a value that never changes)
) -> bf.Table:
    return bf.create(
        path,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=index,
        table_type=kind,  # type: ignore[arg-type]
        table_version=version,
        writer=NO_SERVICES,
    )


def rows(keys: range, ts: int) -> pa.Table:
    given = [
        {
            "id": f"{key}",
            "part": "ab"[key % 2],
            "n": key if key % 3 else None,
            "price": Decimal(key) / 4,
            "day": date(2020, 1, 1 + key % 28),
            "at": datetime(2020, 1, 1, key % 24, tzinfo=timezone.utc),
            "ts": ts,
        }
        for key in keys
    ]
    return pa.Table.from_pylist(given, SCHEMA)


def partitions_of(version: int) -> list[str]:
    return [name for name in KEPT_PARTITIONS if version >= 8 or name != "partition_stats"]


@pytest.mark.rotated(0, among="every change in the metadata table", one_of=2)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_partitions_are_made_from_the_files(tmp_path: Path, version: int, kind: str) -> None:
    table = make(tmp_path / "t", version, kind)
    table.upsert(rows(range(20), ts=1))
    table.upsert(rows(range(10, 30), ts=2))
    table.delete(["3", "11"])
    assert table.metadata_table.list() == ()
    table.metadata_table.init(*partitions_of(version))
    assert_in_step(table)
    groups = {each.name: each.file_groups for each in table.metadata_table.list()}
    assert groups.pop("record_index") == 10
    assert groups["column_stats"] == 2
    table.upsert(rows(range(25, 40), ts=3))
    table.delete(["12", "26", "39"])
    assert_in_step(table)
    table.insert_overwrite(rows(range(0, 60, 2), ts=4))
    assert_in_step(table)
    table.delete_partitions(["b"])
    assert_in_step(table)
    table.metadata_table.rebuild("record_index", "column_stats")
    table.upsert(rows(range(5), ts=5))
    assert_in_step(table)
    table.metadata_table.drop("column_stats")
    left = {each.name for each in table.metadata_table.list()}
    assert left == {"files", "bloom_filters", "record_index"}
    table.upsert(rows(range(7), ts=6))
    assert_in_step(table)
    table.metadata_table.drop()
    assert table.metadata_table.list() == ()
    assert not (tmp_path / "t/.hoodie/metadata").exists()
    table.upsert(rows(range(8), ts=7))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", [6, 9])
def test_a_metadata_table_that_is_behind_is_made_anew(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version)
    table.upsert(rows(range(20), ts=1))
    table.metadata_table.init(*partitions_of(version))
    done = table.upsert(rows(range(30), ts=2)).instant
    folder = tmp_path / "t/.hoodie/metadata/.hoodie" / ("timeline" if version > 6 else "")
    for path in folder.glob(f"{done}*.deltacommit*"):
        path.unlink()
    with pytest.warns(UserWarning, match=f"made anew: it lacks {done}"):
        table.upsert(rows(range(3), ts=3))
    assert_in_step(table)
    assert len(table.metadata_table.list()) == len(partitions_of(version))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", [6, 9])
def test_commits_that_are_archived_before_an_older_clean_are_not_taken_for_unknown(
    tmp_path: Path, version: int
) -> None:
    table = make(tmp_path / "t", version)
    table.metadata_table.init(*partitions_of(version))
    for ts in range(4):
        table.upsert(rows(range(5), ts))
    table.clean(policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False)
    folder = tmp_path / "t/.hoodie" / ("timeline" if version > 6 else "")
    cleans = {path: path.read_bytes() for path in folder.glob("*.clean*")}
    assert cleans
    for ts in range(4, 16):
        table.upsert(rows(range(5), ts))
    table.archive(min_commits=2, max_commits=3)
    assert not any(path.exists() for path in cleans)
    for path, content in cleans.items():
        path.write_bytes(content)
    before = table.metadata_table.list()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it is made anew would be a warning
        table.upsert(rows(range(3), ts=20))
    assert table.metadata_table.list() == before
    assert_in_step(table)
    assert bf.open(table.uri).check().findings == ()


def plan_archive_past_pending(basis: ArchiveBasis, kept: ArchivePolicy) -> tuple[Instant, ...]:
    """Archive metadata tables as they may have been: pending instants of the table do not count."""
    last = basis.timeline.completed.of("commit").instants[-1]
    return plan_archive(replace(basis, before=last.requested_time), kept)


def test_what_is_archived_is_known_where_an_older_change_of_buckets_completed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest instant that is active does not tell how far the metadata table was archived."""
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    monkeypatch.setattr(metadata_services, "_KEPT", ArchivePolicy(1, 2))
    monkeypatch.setattr(metadata_services, "plan_archive", plan_archive_past_pending)
    table = make(tmp_path / "t", 9)
    table.metadata_table.init()
    table.upsert(rows(range(5), ts=0))
    attempts = count()

    def execute(task: bf.RewriteTask, payloads: Sequence[bytes]) -> list[list[bytes]]:
        if next(attempts) == 0:
            other = bf.open(table.uri, writer=NO_SERVICES)
            for ts in range(1, 13):
                other.upsert(rows(range(5), ts))
        return [task.rewrite(payload, f"{next(attempts)}-0-0") for payload in payloads]

    with table.start_rehash(4) as started:
        done = started.run(execute)
    table.archive(min_commits=12, max_commits=12)
    assert table.timeline.instants[0].requested_time == done.instant
    active = own_timeline(table).writes.instants
    oldest, *later = (each.requested_time for each in active)
    since = [i for i in table.timeline.writes.instants if oldest < i.requested_time < later[0]]
    assert oldest == done.instant
    assert len(since) > 3, "archived below, active in the table"
    assert bf.open(table.uri).check().findings == ()
    before = table.metadata_table.list()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it is made anew would be a warning
        table.upsert(rows(range(3), ts=20))
    assert table.metadata_table.list() == before
    assert_in_step(table)


@pytest.mark.rotated(0)
@pytest.mark.rule("TL-29")
@pytest.mark.parametrize("is_archived_past", [False, True])
@pytest.mark.parametrize("version", [8, 9])
def test_a_write_that_took_long_stays_until_its_records_are_in_base_files(
    tmp_path: Path, version: int, is_archived_past: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was requested before, and completed after, the last compaction of the metadata table.

    The instants that the metadata table had meanwhile are later, and those that are archived would
    count as never completed.
    """
    if is_archived_past:
        monkeypatch.setattr(metadata_services, "plan_archive", plan_archive_past_pending)
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 3)
    monkeypatch.setattr(metadata_services, "_KEPT", ArchivePolicy(1, 1))
    table = make(tmp_path / "t", version, "MERGE_ON_READ")
    table.upsert(rows(range(4), ts=0))
    table.metadata_table.init("record_index")
    own = rows(range(100, 104, 2), ts=1)
    with table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(own, "0-0-0"))
        for key in range(201, 241, 2):  # in the other partition, each in few file groups
            table.upsert(rows(range(key, key + 1), ts=1))
        below = FolderStore(table.store, METADATA_TABLE)
        own_archived = load_history(below, load_config(below, DEFAULT_LIMITS), DEFAULT_LIMITS)
        done = started.publish(receipts)
    assert own_archived
    assert is_archived_past == (own_archived[-1].requested_time > done.instant)
    archived: set[str] = set()
    for key in range(301, 319, 2):
        archived |= {i.requested_time for i in table.archive(min_commits=1, max_commits=1)}
        assert_in_step(table)
        assert bf.open(table.uri).lookup(["100", "102"]).num_rows == 2
        table.upsert(rows(range(key, key + 1), ts=1))
    assert done.instant in archived
    assert bf.open(table.uri).check("full").findings == ()


@pytest.mark.parametrize("version", [8, 9])
def test_all_is_made_anew_where_the_base_file_of_files_is_of_an_archived_instant(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restore by Hudi, which took later compactions back.

    Hudi found no file of the table once a partition was made, by the earliest instant of all.
    """
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 3)
    table = make(tmp_path / "t", version)
    table.metadata_table.init(*partitions_of(version))
    listed = table.metadata_table.list()
    for ts in range(4):
        table.upsert(rows(range(6), ts))
    below = FolderStore(table.store, METADATA_TABLE)
    config = load_config(below, DEFAULT_LIMITS)
    instants = load_timeline(below, config).instants
    compaction = max(number for number, i in enumerate(instants) if i.action == "commit")
    history = HistoryWriter(below, config, DEFAULT_LIMITS, lambda: None)
    history.put_archived(instants[: compaction + 1])
    history.delete_active(instants[: compaction + 1])
    assert_in_step(bf.open(table.uri))

    table.metadata_table.rebuild("column_stats")
    assert_in_step(bf.open(table.uri))
    assert table.metadata_table.list() == listed
    active = load_timeline(below, load_config(below, DEFAULT_LIMITS)).requested_times
    bases = [path.name for path in (tmp_path / "t" / METADATA_TABLE / "files").glob("*.hfile")]
    assert bases
    assert {name.rpartition("_")[2].partition(".")[0] for name in bases} <= active


@pytest.mark.rotated(0)
@pytest.mark.parametrize("newest", [range(0), range(105, 106)])
@pytest.mark.parametrize("version", [8, 9])
def test_a_partition_that_is_made_later_leaves_the_others_their_file_groups(
    tmp_path: Path, version: int, newest: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first instant is the earliest, and what made the others is archived.

    Args:
        newest: Keys of the first file group of the record index, which is compacted last then.
    """
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 2)
    monkeypatch.setattr(metadata_services, "_KEPT", ArchivePolicy(1, 2))
    table = make(tmp_path / "t", version)
    table.upsert(rows(range(4), ts=0))
    table.metadata_table.init("record_index")
    table.upsert(rows(range(4, 60), ts=1))
    for ts in range(2, 16):  # without new keys
        table.upsert(rows(range(2), ts))
    table.upsert(rows(newest, ts=16))
    for ts in range(17, 19):
        table.upsert(rows(range(2), ts))
    table.metadata_table.init("column_stats")
    table.upsert(rows(range(60, 100), ts=20))
    assert_in_step(table)
    assert bf.open(table.uri).check("full").findings == ()


@pytest.mark.rotated(0)
@pytest.mark.parametrize("end", ["published", "aborted", "rolled back"])
@pytest.mark.parametrize("version", [6, 9])
def test_files_of_a_pending_write_are_in_it_once_the_write_completed(
    tmp_path: Path, version: int, end: str
) -> None:
    """It is made while they are there, and a write that is aborted removes them."""
    table = make(tmp_path / "t", version, "MERGE_ON_READ")
    table.upsert(rows(range(4), ts=0))
    started = table.start_write("upsert", SCHEMA)
    receipts = list(started.task.write(rows(range(2, 8), ts=1), "0-0-0"))
    table.metadata_table.init("column_stats")
    if end == "published":
        with started:
            started.publish(receipts)
    elif end == "aborted":
        started.abort()
    else:
        started._transaction.heartbeat.abandon()
        Path(table.uri, ".hoodie/.heartbeat", started.instant).unlink()
        table.upsert(rows(range(8, 10), ts=2))
    found = bf.open(table.uri)
    assert found.scan().to_arrow().num_rows == {"published": 8, "aborted": 4, "rolled back": 6}[end]
    assert found.check("full").findings == ()
    assert_in_step(table)


def test_partitions_that_cannot_be_kept_are_removed(golden_copy: Copy) -> None:
    root = golden_copy("1.2.0", "mdt_bucket")
    table = bf.open(root, index=bf.SimpleBucketIndex(4), writer=NO_SERVICES)
    path = root / ".hoodie/hoodie.properties"
    name = "hoodie.table.metadata.partitions="
    path.write_text(path.read_text().replace(name, f"{name}secondary_index_by_name,", 1))
    with pytest.warns(UserWarning, match="secondary_index_by_name of the metadata table cannot"):
        table.upsert(table.scan(limit=3).to_arrow())
    left = [each.name for each in table.metadata_table.list()]
    assert left == ["column_stats", "files", "partition_stats"]
    assert_in_step(table)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_files_that_a_write_made_are_not_read_again(tmp_path: Path, kind: TableType) -> None:
    """Receipts tell of their columns and keys, also where a key is in a file twice."""
    rows = pa.table({"id": ["a", "b", "b", "c"], "n": [1.0, 2.0, 3.0, 4.0]})
    path = tmp_path / "t"
    made = bf.create(
        path,
        schema=rows.schema,
        record_key=["id"],
        index=bf.SimpleBucketIndex(1),
        table_type=kind,
    )
    made.metadata_table.init("column_stats", "partition_stats", "record_index")
    store = RecordingStore(open_store(path))
    table = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
    two = pa.table({"id": ["c", "d"], "n": [0.25, 0.5]})
    gone = pa.table({"id": ["a", "b" if kind == "COPY_ON_WRITE" else "c"]})
    for write in (
        lambda: table.bulk_insert(rows),
        lambda: table.upsert(two),
        lambda: table.delete(gone),
    ):
        store.operations.clear()
        written = {*write().files}
        assert written
        assert not written & {*store.paths("read", "read_range", "open_arrow")}
        assert_in_step(bf.open(path))


@pytest.mark.rotated(0)
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_statistics_of_a_partition_have_rows_of_a_write_that_others_overtook(
    tmp_path: Path, kind: TableType, version: int
) -> None:
    """Hudi leaves partitions out by them, and merges them in the order in which writes were begun.

    The first write is begun before the others and published last; its row has the largest value.
    """
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])

    def rows(ts: int, *keys: str) -> pa.Table:
        return pa.table({"id": keys, "ts": [ts] * len(keys), "part": ["x"] * len(keys)}, schema)

    table = bf.create(
        tmp_path / "t",
        schema=schema,
        record_key=["id"],
        partition_by=["part"],
        index=bf.SimpleBucketIndex(4),
        table_type=kind,
        table_version=version,
        writer=NO_SERVICES,
    )
    table.upsert(rows(10, *(f"k{i}" for i in range(20))))
    table.metadata_table.init("column_stats", "partition_stats")
    located = table.locate(rows(10, "k0", "k1", "k2", "k3"))
    assert len(set(located["file_id"].to_pylist())) == 4
    started = [bf.open(table.uri).start_write("upsert", schema) for _ in range(3)]
    for number in (2, 1, 0):
        task = started[number].task
        started[number].publish(list(task.write(rows(1000 - number, f"k{number}"), "0-0-0")))
        assert_in_step(table)
    found = records_of(table, "partition_stats")
    (ts,) = [r for r in found.values() if isinstance(r, ColumnStats) and r.column == "ts"]
    assert ts.maximum is not None
    assert ts.maximum.value == 1000
    for turn in range(12):  # until the metadata table has been compacted
        table.upsert(rows(turn, "k3"))
    assert_in_step(table)


@pytest.mark.rotated(0)
@pytest.mark.parametrize("way", ["reported", "too many to report", "sent"])
@pytest.mark.parametrize("version", [8, 9])
def test_keys_of_a_slice_that_is_rewritten_with_its_log(
    tmp_path: Path, version: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that a delete of the log would hide is written to a base file, with all of the slice.

    Whoever commits reads the keys of that file where its writer does not tell them.
    """
    if way == "too many to report":
        monkeypatch.setattr(row_report, "_KEY_BYTES_MAX", 0)
    schema = pa.schema(
        [("id", pa.string()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())]
    )

    def rows_of(*given: tuple[str, int], deleted: Sequence[str] = ()) -> pa.Table:
        ids, times = ([each[place] for each in given] for place in range(2))
        return pa.table([ids, times, [own in deleted for own in ids]], schema=schema)

    table = bf.create(
        tmp_path / "t",
        schema=schema,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        table_version=version,
        writer=NO_SERVICES,
    )
    table.metadata_table.init("record_index")
    table.upsert(rows_of(("a", 1), ("b", 1), ("d", 1)))
    table.compact()
    with pytest.MonkeyPatch.context() as patch:  # as Hudi logs a key beside a record index
        patch.setattr(RecordIndexReader, "read_commit", lambda *_: [])
        table.upsert(rows_of(("lacking", 1)))
    table.upsert(rows_of(("b", 2), ("c", 1)))
    table.upsert(rows_of(("a", 9), deleted=["a"]))
    assert indexed_keys(table) == ["b", "c", "d"]

    given = rows_of(("a", 5), ("c", 3), ("lacking", 2), deleted=["c"])
    if way == "sent":
        with table.start_write("upsert", schema) as started:
            started.publish(list(started.task.write(given, "0-0-0")))
    else:
        table.upsert(given)
    (path,) = bf.open(table.uri).inspect.files()["path"].to_pylist()
    assert path.endswith(".parquet"), "the slice was rewritten"
    assert indexed_keys(table) == ["a", "b", "d", "lacking"]
    assert bf.open(table.uri).check("full").findings == ()


def indexed_keys(table: bf.Table) -> list[str]:
    entries = bf.open(table.uri).inspect.metadata_entries("record_index")
    return sorted(entries["record_key"].to_pylist())
