"""What commits say of the files they wrote: as Hudi has it for the same change."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT, WriteStat
from bucketfmt.timeline.load import load_commit_metadata

pytestmark = pytest.mark.rotated


def rows(ids: str, ts: int) -> pa.Table:
    return pa.table({"id": list(ids), "ts": [ts] * len(ids)})


def make(folder: Path, version: int, table_type: str, index: bf.Index | None = None) -> bf.Table:
    return bf.create(
        folder,
        schema=rows("a", 1).schema,
        record_key=["id"],
        ordering=["ts"],
        index=index or bf.SimpleBucketIndex(1),
        table_type=table_type,  # type: ignore[arg-type]
        table_version=version,
    )


def stat_of(table: bf.Table, result: bf.CommitResult | None) -> WriteStat:
    """Return what a commit, read back, says of its one file."""
    assert result is not None
    (instant,) = (i for i in table.timeline.instants if i.requested_time == result.instant)
    metadata = load_commit_metadata(table.store, table.config, instant)
    ((stat,),) = metadata.partition_to_write_stats.values()
    assert stat.path == result.files[0]
    assert stat.file_size_in_bytes == stat.total_write_bytes == result.bytes_written
    return stat


def name_of(stat: WriteStat) -> str:
    return (stat.path or "").rpartition("/")[2]


def counts(stat: WriteStat) -> tuple[int, int, int, int]:
    return stat.num_writes, stat.num_inserts, stat.num_update_writes, stat.num_deletes


@pytest.mark.parametrize("version", [6, 8, 9])
def test_copy_on_write(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version, "COPY_ON_WRITE")
    first = stat_of(table, table.upsert(rows("abc", 1)))
    assert first.prev_commit == NULL_COMMIT  # the text, which Hudi 0.15 wants there
    assert first.prev_base_file is None
    assert counts(first) == (3, 3, 0, 0)
    one = table.timeline.instants[-1].requested_time
    second = stat_of(table, table.upsert(rows("cd", 2)))
    assert second.prev_commit == one
    assert second.prev_base_file == (name_of(first) if version >= 8 else None)
    assert counts(second) == (4, 1, 1, 0)
    assert counts(stat_of(table, table.delete(["a", "b"]))) == (2, 0, 0, 2)
    for stat in (first, second):
        assert (stat.log_version, stat.log_offset, stat.log_files) == (None, None, None)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_merge_on_read(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version, "MERGE_ON_READ")
    base = stat_of(table, table.upsert(rows("abc", 1)))
    assert base.prev_commit == NULL_COMMIT
    begun = table.timeline.instants[-1].requested_time
    logs: list[str] = []
    for number, given in enumerate(("bc", "cd", "de")):
        result = table.upsert(rows(given, number + 2))
        stat = stat_of(table, result)
        logs.append(name_of(stat))
        assert counts(stat) == (2, 0, 2, 0)
        assert (stat.log_version, stat.log_offset) == (number + 1 if version == 6 else 1, 0)
        assert stat.prev_commit == (begun if version == 6 else result.instant)
        assert stat.base_file == (name_of(base) if version == 6 else "")
        assert stat.log_files == (logs if version == 6 else logs[-1:])
    assert counts(stat_of(table, table.delete(["a", "e"]))) == (0, 0, 0, 2)
    compacted = stat_of(table, table.compact())
    assert compacted.prev_commit == begun
    assert compacted.prev_base_file == (name_of(base) if version >= 8 else None)
    assert counts(compacted) == (3, 1, 2, 2)  # a was in the base file, e in the log only
    assert compacted.total_log_files_compacted == 4
    assert compacted.total_updated_records_compacted == 5


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_group_that_begins_with_a_log_file(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version, "MERGE_ON_READ", bf.ConsistentHashingIndex(1))
    result = table.upsert(rows("ab", 1))
    stat = stat_of(table, result)
    assert (stat.prev_commit, stat.base_file) == (result.instant, "")
    assert counts(stat) == (2, 0, 2, 0)
    assert stat_of(table, table.compact()).prev_commit == NULL_COMMIT
