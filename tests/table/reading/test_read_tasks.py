"""A scan in pieces that another process reads."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.slices.slice_codec import decode_slice, encode_slice
from tests.golden import GOLDEN
from tests.same_rows import assert_same

_READ_ELSEWHERE = """
import pickle, sys
import pyarrow as pa
with open(sys.argv[1], "rb") as file:
    scans = pickle.load(file)
for into, reader, payloads in scans:
    with pa.OSFile(into, "wb") as sink, pa.ipc.new_stream(sink, reader.schema) as writer:
        for payload in payloads:
            for batch in reader.read(payload):
                writer.write_batch(batch)
"""


def _is_readable(scan: bf.Scan) -> bool:
    try:
        scan.to_arrow()
    except bf.UnsupportedError:
        return False
    return True


@pytest.mark.rotated(0, among="several processes", one_of=4)
@pytest.mark.parametrize("part", range(8))
def test_another_process_reads_the_pieces(
    golden: Callable[[str, str], Path], tmp_path: Path, part: int
) -> None:
    scans = {}
    for version, name in GOLDEN[part::8]:
        table = bf.open(golden(version, name))
        scan = table.scan(meta_columns=table.config.populate_meta_fields)
        if _is_readable(scan):
            scans[f"{version}-{name}"] = scan
    for version in ("0.15.0", "1.2.0"):
        table = bf.open(golden(version, "timetravel_mor"))
        first = table.timeline.writes.completed.instants[0].requested_time
        scans[f"{version}-as_of"] = table.scan(as_of=first)
    scans["read_optimized"] = bf.open(golden("1.2.0", "mor")).scan(read_optimized=True)
    assert len(scans) > 20
    sent = [
        (str(tmp_path / name), scan.task_reader(), [task.payload for task in scan.tasks()])
        for name, scan in scans.items()
    ]
    (tmp_path / "sent").write_bytes(pickle.dumps(sent))

    subprocess.run([sys.executable, "-c", _READ_ELSEWHERE, str(tmp_path / "sent")], check=True)

    for name, scan in scans.items():
        with pa.OSFile(str(tmp_path / name)) as source:
            assert_same(pa.ipc.open_stream(source).read_all(), scan.to_arrow())


def test_changes_and_filters_are_sent_along(golden: Callable[[str, str], Path]) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    since = table.timeline.writes.completed.instants[0].completion_time
    name = next(f.name for f in table.schema if pa.types.is_string(f.type))
    value = table.scan().to_arrow().column(name)[0].as_py()
    for scan in (table.changes(since), table.scan(filter=[(name, "=", value)])):
        reader = pickle.loads(pickle.dumps(scan.task_reader()))
        found = [batch for task in scan.tasks() for batch in reader.read(task.payload)]
        assert_same(pa.Table.from_batches(found, reader.schema), scan.to_arrow())
        assert found


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_a_slice_comes_back_as_it_was(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    scan = bf.open(golden(version, name)).scan()
    for file_slice in scan.plan().slices:
        again = decode_slice(encode_slice(file_slice))
        assert (again.partition_path, again.file_id) == (
            file_slice.partition_path,
            file_slice.file_id,
        )
        assert again.base_instant == file_slice.base_instant
        assert again.log_files == file_slice.log_files
        assert [(f.path, f.name, f.size, f.is_short) for f in again.files] == [
            (f.path, f.name, f.size, f.is_short) for f in file_slice.files
        ]
        assert again.size == file_slice.size


def test_a_slice_is_few_bytes(golden: Callable[[str, str], Path]) -> None:
    """The shared part is sent once; 10^6 slices are to be the driver's 100 MB, not a GB."""
    scan = bf.open(golden("1.2.0", "cow")).scan()
    tasks = scan.tasks()
    assert max(len(task.payload) for task in tasks) < 150
    assert all(task.size == s.size for task, s in zip(tasks, scan.plan().slices, strict=True))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x92\xa0\xc0", b"\x93\xa0\x92\xa1x\x01\x90"])
def test_other_bytes_are_no_slice(data: bytes) -> None:
    with pytest.raises(bf.CorruptError, match="no file slice as it was sent"):
        decode_slice(data)


def test_a_limit_holds_for_no_piece(golden: Callable[[str, str], Path]) -> None:
    scan = bf.open(golden("1.2.0", "cow")).scan(limit=1)
    for ask in (scan.tasks, scan.task_reader, lambda: bf.group_buckets(scan)):
        with pytest.raises(ValueError, match="limit"):
            ask()
