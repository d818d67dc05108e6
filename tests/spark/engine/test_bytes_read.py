"""Columns and conditions decide which bytes the tasks of a read ask a store for."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt_spark.engine.conditions import find_condition
from bucketfmt_spark.engine.resolver import Resolver

ROWS, WIDTH = 60_000, 1200
"""Two buckets of 36 MB, of two row groups each: the second of a tenth of the rows."""


class CountingStore(RecordingStore):
    """A store that counts the bytes that were read of base files."""

    count = 0

    def open_arrow(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(Counted(super().open_arrow(path), self), mode="r")

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        found = super().read_ranges(path, ranges)
        self.count += sum(map(len, found)) if path.endswith(".parquet") else 0
        return found


class Counted(io.RawIOBase):
    def __init__(self, file: pa.NativeFile, store: CountingStore) -> None:
        self._file, self._store = file, store

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        self._store.count += len(found)
        return len(found)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bf.Table:
    random = np.random.default_rng(1).bytes(WIDTH * ROWS)
    rows = pa.table(
        {
            "id": [f"k{n:06d}" for n in range(ROWS)],
            "n": np.arange(ROWS, dtype=np.int64),
            "raw": pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(WIDTH), ROWS, [None, pa.py_buffer(random)]
            ).cast(pa.binary()),
        }
    )
    path = tmp_path_factory.mktemp("bytes") / "t"
    given = {"schema": rows.schema, "record_key": ["id"], "index": bf.SimpleBucketIndex(2)}
    table = bf.create(path, **given)
    table.bulk_insert(rows)
    return table


def bytes_of(table: bf.Table, text: str | None, columns: list[str] | None = None) -> int:
    store = CountingStore(table.store)
    counted = bf.Table(store, table.config, table.limits, None)
    known = find_condition(text, Resolver(table.schema)).alternatives if text else None
    scan = counted.scan(columns, known)
    reader, tasks = scan.task_reader(), scan.tasks()
    store.count = 0
    for task in tasks:
        for _ in reader.read(task.payload):
            pass
    return store.count


def test_what_a_condition_excludes_is_not_read(table: bf.Table) -> None:
    everything = bytes_of(table, None)
    size = sum(task.size for task in table.scan().tasks())
    assert everything > size // 2
    assert bytes_of(table, None, ["n"]) < everything * 0.05
    for text, most in (
        ("id = 'k059999'", 0.1),  # a row group of a bucket
        ("n BETWEEN 58000 AND 59000", 0.2),
        ("n < 0 OR n > 59900", 0.2),
        ("id LIKE 'k0599%' AND n IS NOT NULL", 0.2),
        ("n IN (59000, 59001) AND lower(id) = 'x'", 0.2),
        ("n > 400000", 0.05),
        ("lower(id) = 'x'", 1.0),  # means nothing to the core
    ):
        assert bytes_of(table, text) <= most * everything, text
