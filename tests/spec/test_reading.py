"""Rules about what a reader does with a whole table, which no single vector can hold."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock, encode_log_block
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.record_positions import encode_record_positions
from bucketfmt.format.names.names import find_bucket_id
from tests.golden import expected

Golden = Callable[[str, str], Path]
Copy = Callable[[str, str], Path]


@pytest.fixture
def copied(golden: Golden, tmp_path: Path) -> Copy:
    """Return a table real Hudi wrote, in a folder of the test's own."""

    def copy(version: str, name: str) -> Path:
        return Path(shutil.copytree(golden(version, name), tmp_path / name))

    return copy


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def hudis(golden: Golden, version: str, name: str, suffix: str = "") -> list[str]:
    table = expected(golden(version, name).parent, f"{name}{suffix}")
    return sorted(table.column("_hoodie_record_key").to_pylist())


def keys(path: Path, **arguments: object) -> list[str]:
    scan = bf.open(path).scan(columns=["_hoodie_record_key"], meta_columns=True, **arguments)
    return sorted(scan.to_arrow().column("_hoodie_record_key").to_pylist())


def log_files(table: Path) -> list[Path]:
    found = table.rglob(".*.log.*")
    return sorted(p for p in found if p.suffix != ".crc" and ".hoodie" not in p.parts)


@pytest.mark.rule("PATH-11")
def test_a_folder_without_metafile_is_no_partition(copied: Copy) -> None:
    table = copied("1.2.0", "timetravel")
    assert bf.open(table).state.lister.partitions == ("ap", "eu", "us")
    (table / "eu" / ".hoodie_partition_metadata").unlink()
    (table / "stray").mkdir()
    assert bf.open(table).state.lister.partitions == ("ap", "us")
    (table / "eu" / ".hoodie_partition_metadata.parquet").touch()
    assert bf.open(table).state.lister.partitions == ("ap", "eu", "us")


@pytest.mark.rule("HASH-7")
def test_two_file_groups_of_one_bucket_are_both_read(copied: Copy) -> None:
    table = copied("1.2.0", "timetravel")
    before = keys(table)
    base = max((table / "eu").glob("00000000-*.parquet"))
    file_id = base.name.partition("_")[0]
    other = base.with_name(base.name.replace(file_id, f"00000000-{'1' * 27}-0"))
    shutil.copy(base, other)
    twice = pq.read_table(base, columns=["_hoodie_record_key"])[0].to_pylist()
    assert keys(table) == sorted(before + twice)


@pytest.mark.rule("HASH-8")
def test_a_bucket_without_file_group_is_empty(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "nonpart"), index=bf.SimpleBucketIndex(4))
    there = {find_bucket_id(s) for s in table.inspect.file_groups().column("file_id").to_pylist()}
    places = table.locate([f"absent-{n}" for n in range(100)]).to_pylist()
    empty = [place for place in places if place["bucket_id"] not in there]
    assert {place["bucket_id"] for place in places} == {0, 1, 2, 3}
    assert all(place["file_id"] is None for place in empty)
    assert table.lookup([place["record_key"] for place in empty]).num_rows == 0


@pytest.mark.rule("HASH-9", "PROP-16")
def test_only_a_stated_index_prunes(golden: Golden) -> None:
    path = golden("1.2.0", "timetravel")
    key = keys(path)[0]
    row_filter = [("id", "=", key)]
    stated = bf.open(path, index=bf.SimpleBucketIndex(2)).scan(filter=row_filter)
    silent = bf.open(path).scan(filter=row_filter)
    assert stated.plan().file_groups_pruned > 0
    assert silent.plan().file_groups_pruned == 0
    assert rows(stated.to_arrow()) == rows(silent.to_arrow())
    # a filter on anything but the hash field restricts no bucket
    other = bf.open(path, index=bf.SimpleBucketIndex(2)).scan(filter=[("ts", "=", 1)])
    assert other.plan().file_groups_pruned == 0


@pytest.mark.rule("RING-25", "RING-23")
def test_a_snapshot_needs_no_ring(copied: Copy, golden: Golden) -> None:
    table = copied("1.2.0", "ch_init")
    shutil.rmtree(table / ".hoodie" / ".bucket_index")
    assert keys(table) == hudis(golden, "1.2.0", "ch_init")


@pytest.mark.rule("RING-23")
def test_a_node_without_file_group_is_no_error(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "ch_pending"))
    places = table.locate([f"absent-{n}" for n in range(200)]).to_pylist()
    assert len({place["bucket_id"] for place in places}) > 1
    assert table.lookup([place["record_key"] for place in places]).num_rows == 0


@pytest.mark.rule("RING-26", "NAME-4", "SLICE-4")
@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_what_is_written_twice_is_read_once(golden: Golden, version: str) -> None:
    """Logs of a child of a pending split are named with the clustering's instant."""
    table = bf.open(golden(version, "ch_pending"))
    (pending,) = table.timeline.pending.of("clustering", "replacecommit").instants
    early = [
        path
        for path in log_files(golden(version, "ch_pending"))
        if pending.requested_time in path.name
    ]
    assert early
    for path in early:
        for block in decode_log_file(path.read_bytes()):
            assert isinstance(block, LogBlock)
            assert block.instant_time > pending.requested_time
    assert keys(golden(version, "ch_pending")) == hudis(golden, version, "ch_pending")


@pytest.mark.rule("RING-17", "DEV-26")
def test_reading_makes_no_file(copied: Copy) -> None:
    table = copied("1.2.0", "ch_pending")
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    opened = bf.open(table)
    opened.scan().to_arrow()
    opened.lookup(keys(table)[:3])
    opened.inspect.buckets()
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before


class TestDamage:
    """docs/decisions/0003: what a commit wrote and is not there, or not sound, is an error."""

    @pytest.mark.rule("META-7", "DEV-18")
    @pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
    def test_a_short_log_file(self, copied: Copy, version: str) -> None:
        table = copied(version, "mor_event")
        path = log_files(table)[-1]
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(bf.TruncatedError, match=path.name):
            keys(table)

    @pytest.mark.rule("SLICE-9", "META-7", "DEV-18")
    @pytest.mark.parametrize("kind", ["base", "log"])
    def test_a_missing_file(self, copied: Copy, kind: str) -> None:
        table = copied("1.2.0", "mor_event")
        path = log_files(table)[-1] if kind == "log" else max(table.rglob("0*.parquet"))
        path.unlink()
        with pytest.raises(bf.CorruptError, match=path.name):
            keys(table)

    @pytest.mark.rule("LOG-16", "LOG-2")
    @pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
    def test_a_damaged_block(self, copied: Copy, version: str) -> None:
        table = copied(version, "mor_event")
        path = log_files(table)[-1]
        data = bytearray(path.read_bytes())
        data[-1] ^= 1  # the echo of its last block
        path.write_bytes(data)
        with pytest.raises(bf.CorruptError, match=path.name):
            keys(table)

    @pytest.mark.rule("LOG-16")
    def test_what_no_commit_wrote_is_passed_over(self, copied: Copy, golden: Golden) -> None:
        """A store with append: the next write after a failed one goes on behind its remains."""
        table = copied("0.15.0", "mor_event")
        path = log_files(table)[-1]
        with path.open("ab") as file:
            file.write(b"#HUDI#" + struct.pack(">q", 1000) + b"torn")
        assert keys(table) == hudis(golden, "0.15.0", "mor_event")


@pytest.mark.rule("POS-3", "LOG-23")
@pytest.mark.parametrize("base_instant", ["19700101000000000", None])
def test_positions_of_another_base_file_are_not_used(
    copied: Copy, golden: Golden, base_instant: str | None
) -> None:
    table = copied("1.2.0", "mor_event")
    for path in log_files(table):
        blocks = [b for b in decode_log_file(path.read_bytes()) if isinstance(b, LogBlock)]
        path.write_bytes(b"".join(with_positions(block, base_instant) for block in blocks))
    assert keys(table) == hudis(golden, "1.2.0", "mor_event")


def with_positions(block: LogBlock, base_instant: str | None) -> bytes:
    """The block with positions that mean nothing, and the identifier of a retried attempt."""
    header = {**block.header, HeaderKey.BLOCK_IDENTIFIER: "0,0"}
    if block.block_type is not BlockType.COMMAND:
        header[HeaderKey.RECORD_POSITIONS] = encode_record_positions(pa.array([7]).to_numpy())
    if base_instant is not None:
        header[HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] = base_instant
    return encode_log_block(block.block_type, header, block.content)


@pytest.mark.rule("SLICE-6", "SLICE-7", "META-11")
@pytest.mark.parametrize(
    ("version", "name"), [("0.15.0", "overwritten"), ("1.2.0", "overwritten_mor")]
)
def test_replaced_file_groups_are_hidden_from_then_on(
    golden: Golden, version: str, name: str
) -> None:
    table = bf.open(golden(version, name))
    assert keys(golden(version, name)) == hudis(golden, version, name)
    replacing = table.timeline.completed.of("replacecommit").instants
    assert replacing
    first = table.timeline.completed.instants[0].requested_time
    everything = table.scan(as_of=first).count()
    assert everything == 60
    live = set(table.inspect.file_groups().column("file_id").to_pylist())
    hidden = [
        path.name
        for path in golden(version, name).rglob("*.parquet")
        if path.name.partition("_")[0] not in live
    ]
    assert hidden, "files of replaced groups are still there, and not read"


@pytest.mark.rule("LOG-12")
@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_parquet_blocks(golden: Golden, version: str) -> None:
    assert keys(golden(version, "parquet_log")) == hudis(golden, version, "parquet_log")


@pytest.mark.rule("PBR-2", "PBR-7", "PBR-10", "NAME-10")
def test_partition_rules_place_every_key(golden: Golden) -> None:
    """The file in force gives each partition its N, and every key is found by it."""
    table = bf.open(golden("1.2.0", "partrules"))
    assert isinstance(table.index, bf.PartitionBucketIndex)
    found = table.scan(
        columns=["_hoodie_record_key", "_hoodie_partition_path"], meta_columns=True
    ).to_arrow()
    assert table.lookup(found).num_rows == found.num_rows
    per_partition = {
        partition: {find_bucket_id(file_id) for file_id in groups}
        for partition, groups in file_ids_by_partition(table).items()
    }
    for partition, n in {"us": 1, "ap": 5, "eu": 2}.items():
        assert per_partition[partition] <= set(range(n))


def file_ids_by_partition(table: bf.Table) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for row in table.inspect.file_groups().to_pylist():
        groups.setdefault(row["partition_path"], []).append(row["file_id"])
    return groups


@pytest.mark.rule("MERGE-1")
@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_meta_columns(golden: Golden, version: str) -> None:
    table = bf.open(golden(version, "mor_event"))
    names = table.scan(meta_columns=True).to_arrow().column_names[:5]
    assert names == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    ]
    read = table.scan(columns=["_hoodie_file_name"], meta_columns=True).to_arrow()
    texts = set(read.column("_hoodie_file_name").to_pylist())
    assert any(text.endswith(".parquet") for text in texts)
    assert any(not text.endswith(".parquet") for text in texts), "a file id, in log records"
