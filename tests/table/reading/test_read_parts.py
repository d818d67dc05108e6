"""A file slice that is read in parts by several tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.slices.slice_codec import decode_part, encode_slice
from bucketfmt.slices.slice_parts import WHOLE, SlicePart, count_parts
from bucketfmt.snapshot.data_files.files import FileSlice
from tests.same_rows import assert_same
from tests.table.reading.row_groups import make_table


@pytest.mark.parametrize(
    ("table_type", "given"),
    [
        ("COPY_ON_WRITE", {}),
        ("MERGE_ON_READ", {"ordering": ["ts"]}),
        ("MERGE_ON_READ", {"properties": {"hoodie.populate.meta.fields": "false"}}),
    ],
)
def test_parts_have_the_rows_of_the_slice(
    tmp_path: Path, table_type: str, given: dict[str, Any]
) -> None:
    table = make_table(tmp_path / "t", table_type, **given)
    scans = [table.scan(), table.scan(["v"], [("v", "<", 5050)]), table.scan(read_optimized=True)]
    if not given.get("properties"):
        since = table.timeline.writes.completed.instants[0].completion_time
        scans.append(table.changes(since if table_type == "MERGE_ON_READ" else None))
    for scan in scans:
        (file_slice,), reader, whole = scan.plan().slices, scan.task_reader(), scan.to_arrow()
        for count in (3, 20):
            parts = [encode_slice(file_slice, SlicePart(n, count)) for n in range(count)]
            found = [pa.Table.from_batches(reader.read(part), scan.schema) for part in parts]
            assert_same(pa.concat_tables(found), whole)
            if scan is scans[0] and count == 3:
                assert all(part.num_rows > 20 for part in found)


def test_large_slices_are_split_into_tasks(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", "COPY_ON_WRITE")
    (task,) = table.scan().tasks()
    assert task.split(task.size) == [task]
    parts = task.split(task.size // 2 - 1)
    assert [part.size for part in parts] == [task.size // 3] * 3
    assert [decode_part(part.payload)[1] for part in parts] == [SlicePart(n, 3) for n in range(3)]
    assert parts[0].split(1) == [parts[0]]
    assert decode_part(task.payload)[1] == WHOLE


def test_logs_bound_the_number_of_parts(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", "MERGE_ON_READ")
    (found,) = table.scan().plan().slices

    def count(base: int | None, *logs: int) -> int:
        log = found.log_files[0]
        files = tuple(type(log)(log.path, log.name, size) for size in logs)
        file = found.base_file
        assert file is not None
        one = None if base is None else type(file)(file.path, file.name, base)
        return count_parts(FileSlice("", "f", "1", one, files), 100)

    assert [count(None, 1000), count(1000), count(1001), count(100), count(0)] == [1, 10, 11, 1, 1]
    assert [count(5000, 10), count(700, 10), count(1000, 50, 50), count(1000, 300)] == [8, 7, 2, 1]


@pytest.mark.parametrize("part", [(1, 1), (-1, 2), (0, 0)])
def test_other_numbers_are_no_part(tmp_path: Path, part: tuple[int, int]) -> None:
    table = make_table(tmp_path / "t", "COPY_ON_WRITE")
    (file_slice,) = table.scan().plan().slices
    with pytest.raises(bf.CorruptError, match="no file slice as it was sent: part"):
        decode_part(encode_slice(file_slice, SlicePart(*part)))
