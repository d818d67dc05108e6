"""The rows of one side of one bucket, in memory or, if they are too large, in parts on disk.

Parts divide a bucket by further bits of the hash that placed the rows in buckets, so that equal
keys of both sides are in parts of the same number.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import bucketfmt as bf
from bucketfmt_spark.engine.spark_types import as_spark_takes_it

__all__ = [
    "NUM_PARTS",
    "BucketRows",
    "Budget",
    "Cost",
    "check_bucket",
    "read_all",
    "read_bucket",
    "spill_folder",
]

NUM_PARTS = 64
_ROWS_VERIFIED = 256  # of a file slice: keys hashed otherwise than thought show at once


def read_all(
    reader: bf.TaskReader, payloads: Iterable[bytes], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of several read tasks, in the types that Spark accepts."""
    for payload in payloads:
        for batch in reader.read(payload):
            yield as_spark_takes_it(batch, schema)


def read_bucket(
    reader: bf.TaskReader,
    payloads: Iterable[bytes],
    schema: pa.Schema,
    buckets: bf.CommonBuckets,
    bucket: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one bucket; of each file slice the first rows are compared with the bucket.

    Raises:
        CorruptError: a row hashes to another bucket.
    """
    for payload in payloads:
        is_first = True
        for batch in read_all(reader, [payload], schema):
            if is_first and buckets.columns.names_single is not None:
                check_bucket(batch.slice(0, _ROWS_VERIFIED), buckets, bucket)
            is_first = False
            yield batch


def check_bucket(batch: pa.RecordBatch, buckets: bf.CommonBuckets, bucket: int) -> None:
    """Check that rows hash to their bucket.

    Raises:
        CorruptError: a row hashes to another bucket.
    """
    values = [batch.column(name) for name in buckets.columns.fields]
    strays = np.flatnonzero(buckets.assign_rows(values) != bucket)
    if len(strays):
        row = {name: batch.column(name)[strays[0]].as_py() for name in buckets.columns.fields}
        raise bf.CorruptError(
            f"the row with {row} is in bucket {bucket} of {buckets.num_buckets} and hashes to "
            'another: run check(depth="full"); if the check finds nothing, record keys '
            "have other columns too: read() the table and use Spark's own join or groupBy"
        )


@contextmanager
def spill_folder() -> Iterator[str]:
    """Yield a folder for rows that do not fit in memory; it is gone afterwards.

    Before and after, memory goes back to the system that Arrow keeps of what was freed: a worker of
    Spark's runs many tasks, and would take the most that any of them took, and more.
    """
    pa.default_memory_pool().release_unused()
    with tempfile.TemporaryDirectory(prefix="bucketfmt-") as folder:
        yield folder
    pa.default_memory_pool().release_unused()


class Cost(NamedTuple):
    """The memory that joining or grouping rows takes, the rows included.

    Attributes:
        by_byte: A multiple of the bytes of the rows.
        by_row: Bytes for each row.
    """

    by_byte: float
    by_row: int

    def of(self, num_bytes: int, num_rows: int) -> float:
        """Return the bytes for some rows."""
        return self.by_byte * num_bytes + self.by_row * num_rows


class Budget:
    """The memory that the rows which a task has collected will take, of all its sides together."""

    def __init__(self, limit_bytes: int, cost: Cost) -> None:
        """Start without rows.

        Args:
            limit_bytes: The memory from which rows go to disk.
            cost: What is done with the rows takes so much.
        """
        self._limit_bytes = limit_bytes
        self._cost = cost
        self._num_bytes, self._num_rows = 0, 0

    def add(self, num_bytes: int, num_rows: int) -> None:
        """Count rows that came to memory, or with negative numbers rows that left it."""
        self._num_bytes += num_bytes
        self._num_rows += num_rows

    @property
    def is_exceeded(self) -> bool:
        """Whether there are more rows in memory than there may be."""
        return self._cost.of(self._num_bytes, self._num_rows) > self._limit_bytes

    @property
    def is_half_used(self) -> bool:
        """Whether a task that has whole buckets had better do with them what it does."""
        return 2 * self._cost.of(self._num_bytes, self._num_rows) > self._limit_bytes


class BucketRows:
    """Collects the batches of one side of one bucket and returns them as tables."""

    def __init__(
        self,
        schema: pa.Schema,
        buckets: bf.CommonBuckets,
        budget: Budget,
        folder: str,
        name: str,
    ) -> None:
        """Start without rows.

        Args:
            schema: The schema of the batches.
            buckets: The hash fields and the hash.
            budget: That of the task; where it is exceeded, the rows go to disk.
            folder: The folder for files; the caller removes it.
            name: The prefix of this side's files.
        """
        self.schema = schema
        self._buckets = buckets
        self._hashed = [schema.get_field_index(name) for name in buckets.columns.fields]
        self.budget = budget
        self._stem = os.path.join(folder, name)
        self._batches: list[pa.RecordBatch] = []
        self._num_bytes, self._num_rows = 0, 0
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self.is_spilled = False

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add batches of the schema.

        Raises:
            KeyEncodingError: the hash of the values is ambiguous.
        """
        for batch in batches:
            self._buckets.check_values(self._key_columns(batch))
            if self.is_spilled:
                self._write(batch)
                continue
            self._batches.append(batch)
            self._num_bytes += batch.nbytes
            self._num_rows += batch.num_rows
            self.budget.add(batch.nbytes, batch.num_rows)
            if self.budget.is_exceeded:
                self.spill()

    def spill(self) -> None:
        """Move the rows to disk, because the other side is there."""
        self.is_spilled = True
        self._batches.reverse()
        while self._batches:
            self._write(self._batches.pop())
        self.budget.add(-self._num_bytes, -self._num_rows)
        self._num_bytes, self._num_rows = 0, 0
        pa.default_memory_pool().release_unused()

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows once: in one table, or in a table for each part."""
        pa.default_memory_pool().release_unused()  # what reading them took
        if not self.is_spilled:
            yield pa.Table.from_batches(self._batches, self.schema)
            return
        yield from self._parts()

    def combined_tables(self) -> Iterator[pa.Table]:
        """Yield what `tables` yields, each column in one piece, and forget the rows."""
        pa.default_memory_pool().release_unused()
        if not self.is_spilled:
            batches, self._batches = self._batches, []
            columns = [[b.column(n) for b in batches] for n in range(len(self.schema))]
            del batches
            # Column by column, so that no more than one is in memory twice.
            pieces = [_combined(columns, n, field) for n, field in enumerate(self.schema)]
            yield pa.table(pieces, schema=self.schema)
            return
        for part in self._parts():
            yield part.combine_chunks()

    def _parts(self) -> Iterator[pa.Table]:
        for writer in self._writers.values():
            writer.close()
        for part in range(NUM_PARTS):
            yield self._read(part)

    def _key_columns(self, batch: pa.RecordBatch) -> Sequence[pa.Array]:
        return [batch.column(index) for index in self._hashed]

    def _write(self, batch: pa.RecordBatch) -> None:
        parts = self._buckets.assign_parts(self._key_columns(batch), NUM_PARTS)
        order = np.argsort(parts, kind="stable")
        sorted_rows, start = batch.take(pa.array(order)), 0
        for part, count in enumerate(np.bincount(parts, minlength=NUM_PARTS).tolist()):
            if count:
                self._writer(part).write_batch(sorted_rows.slice(start, count))
                start += count

    def _writer(self, part: int) -> pa.ipc.RecordBatchStreamWriter:
        if part not in self._writers:
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            path = f"{self._stem}-{part}"
            self._writers[part] = pa.ipc.new_stream(path, self.schema, options=options)
        return self._writers[part]

    def _read(self, part: int) -> pa.Table:
        if part not in self._writers:
            return self.schema.empty_table()
        path = f"{self._stem}-{part}"
        with pa.OSFile(path) as source:
            rows = pa.ipc.open_stream(source).read_all()
        os.remove(path)
        return rows


def _combined(columns: list[list[pa.Array]], number: int, field: pa.Field) -> pa.ChunkedArray:
    """Return a column in one piece, and forget its pieces."""
    pieces, columns[number] = columns[number], []
    column = pa.chunked_array(pieces, field.type)
    del pieces
    return pa.table([column], names=["column"]).combine_chunks().column(0)
