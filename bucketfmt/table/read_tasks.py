"""The tasks of a scan, which other processes read, such as the executors of a cluster.

`Scan.task_reader()` is a value that pickles and is sent once to each reader; a `ReadTask` has about
a hundred bytes. Reading is I/O, the rest is pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from bucketfmt.arguments import check_int, check_kind, check_names
from bucketfmt.errors import SchemaError
from bucketfmt.process import cached_property
from bucketfmt.slices.slice_codec import decode_part, encode_slice
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_parts import WHOLE, SlicePart, count_parts
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.table.keys import read_keys

__all__ = ["ReadTask", "TaskReader"]

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class ReadTask:
    """One file slice, or a part of one, to read.

    Attributes:
        size: The bytes to read of its files.
        payload: The argument of `TaskReader.read`; opaque.
    """

    size: int
    payload: bytes

    @classmethod
    def of(cls, file_slice: FileSlice) -> ReadTask:
        """Return the task that reads a slice."""
        return cls(file_slice.size, encode_slice(file_slice))

    def split(self, part_bytes: int) -> list[ReadTask]:
        """Return tasks of at most about `part_bytes` that together read what this task reads.

        A task has some of the row groups of the base file, which are not divided. Each task reads
        the whole log, so that a slice with log files has at most 8 tasks, and a slice whose log has
        more than a quarter of the bytes of the base file has one.

        Raises:
            TypeError: `part_bytes` is not an integer.
            ValueError: `part_bytes` is not positive.
        """
        part_bytes = check_int("part_bytes", part_bytes, 1)
        if self.size <= part_bytes:
            return [self]
        file_slice, part = decode_part(self.payload)
        count = count_parts(file_slice, part_bytes)
        if count == 1 or part != WHOLE:
            return [self]
        log_bytes = sum(file.size or 0 for file in file_slice.log_files)
        size = (file_slice.size - log_bytes) // count + log_bytes
        parts = [SlicePart(number, count) for number in range(count)]
        return [ReadTask(size, encode_slice(file_slice, part)) for part in parts]


@dataclass(frozen=True, eq=False)
class TaskReader:
    """Reads the tasks of one scan. Pickles; holds the store's options, including secrets."""

    _basis: ReadBasis
    _spec: RowSpec

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._spec.output

    def read(self, payload: bytes, batch_rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task, base file and log merged, in batches.

        Args:
            payload: The payload of the task.
            batch_rows: The largest number of rows in a batch.

        Raises:
            CorruptError: a file is missing, truncated or damaged.
            UnsupportedError: the slice has log files, and the table merges records in an
                unsupported way.
            TypeError: an argument of another type.
            ValueError: `batch_rows` is not positive.
        """
        check_kind("payload", payload, bytes, "the payload of a ReadTask")
        batch_rows = check_int("batch_rows", batch_rows, 1)
        file_slice, part = decode_part(payload)
        for rows in self._reader.read(file_slice, batch_rows, part):
            yield from rows.to_batches(batch_rows)

    def of_keys(self, record_keys: pa.Array) -> TaskReader:
        """Return a reader of only the rows with these record keys, as in `Table.lookup`.

        Raises:
            TypeError: `record_keys` is not an Arrow array.
        """
        kinds = (pa.Array, pa.ChunkedArray)
        check_kind("record_keys", record_keys, kinds, "an Arrow array of text")
        return TaskReader(self._basis, replace(self._spec, keys=record_keys))

    def of_columns(self, columns: Sequence[str]) -> TaskReader:
        """Return a reader of some of the columns, in this order.

        Raises:
            SchemaError: the reader has no such column.
        """
        columns = check_names("columns", columns)
        lacking = [name for name in columns if name not in self.schema.names]
        if lacking:
            raise SchemaError(
                f"no column {lacking[0]!r}; the scan has {', '.join(self.schema.names)}"
            )
        output = pa.schema([self.schema.field(name) for name in columns])
        return TaskReader(self._basis, replace(self._spec, output=output))

    def keys_of(self, rows: pa.Table) -> pa.Table:
        """Return record_key and partition_path (null: any) of rows, as `Table.locate` reads them.

        Raises:
            ValueError: a key is null, or rows lack the columns of keys.
            KeyEncodingError: the key fields of a row make no key.
        """
        found = read_keys(rows, self._basis.config, lambda: self._spec.table.data)
        paths = found.partition_paths
        if paths is None:
            paths = pa.chunked_array([pa.nulls(len(found.record_keys), pa.string())])
        return pa.table({"record_key": found.record_keys, "partition_path": paths})

    @cached_property
    def _reader(self) -> SliceReader:
        return SliceReader(self._basis, self._spec, side_by_side=True)

    def __reduce__(self) -> tuple[object, ...]:
        return TaskReader, (self._basis, self._spec)  # not the reader, which opens files
