"""Readers of nullable, record, array and map types, composed of the readers of their children.

A null is read by leaving its cursor out, a record by its fields in turn, a list by finding where
all items begin and reading them in one go. Pure: no I/O.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.avro_readers import Reader, make_scalar_reader
from bucketfmt.rows.avro.avro_schema import arrow_type
from bucketfmt.rows.avro.avro_span import Cursor, Span
from bucketfmt.rows.avro.avro_types import (
    AvroArray,
    AvroMap,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroSchema,
)

__all__ = ["Meter", "make_reader"]

_LANES_MIN = 48  # fewer lists than this are walked one by one: a numpy call costs as much
_TOO_MANY_ITEMS = "a list claims more items than its row has bytes"


class Meter:
    """Counts the memory that rows take regardless of their bytes in the file.

    A null takes one byte in the file and a whole nested row in memory, so lengths in the file do
    not bound the memory.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0

    def spend(self, rows: int, bytes_per_row: int) -> None:
        """Count `rows` more rows of a type.

        Raises:
            LimitError: the rows exceed `log_rows_bytes_max`.
        """
        self._bytes += rows * bytes_per_row
        self._limits.check("log_rows_bytes_max", self._bytes)


class _Nullable(Reader):
    width = None
    bytes_min = 1

    def __init__(self, value: Reader, null_index: int) -> None:
        self.arrow = value.arrow
        self.bytes_per_row = value.bytes_per_row + 1
        self._value = value
        self._null, self._present = 2 * null_index, 2 - 2 * null_index  # zigzag, one byte each

    def _present_at(self, span: Span, cursor: Cursor) -> npt.NDArray[np.bool_]:
        branch = span.bytes_at(cursor)
        present: npt.NDArray[np.bool_] = branch == self._present
        if not present.all():
            wrong = ~present & (branch != self._null)
            if wrong.any():
                span.fail(wrong, cursor, "a union branch number is out of range")
        return present

    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        present = self._present_at(span, cursor)
        cursor = cursor + 1
        if present.all():
            return self._value.read(span, cursor)
        rows = np.flatnonzero(present)
        if not rows.size:
            return pa.nulls(len(cursor), self.arrow), cursor
        values, cursor[rows] = self._value.read(span, cursor[rows])
        places = np.cumsum(present, dtype=np.int32) - 1
        return values.take(pa.array(places, mask=~present)), cursor

    def skip(self, span: Span, cursor: Cursor) -> Cursor:
        present = self._present_at(span, cursor)
        cursor = cursor + 1
        if present.all():
            return self._value.skip(span, cursor)
        rows = np.flatnonzero(present)
        cursor[rows] = self._value.skip(span, cursor[rows])
        return cursor

    def skip_one(self, span: Span, position: int) -> int:
        branch, position = span.varint_at(position)
        if not 0 <= branch <= 1:
            raise CorruptError("a union branch number is out of range", offset=position - 1)
        return position if 2 * branch == self._null else self._value.skip_one(span, position)


class _Record(Reader):
    def __init__(self, arrow: pa.DataType, children: Sequence[Reader]) -> None:
        self.arrow = arrow
        self._children = children
        self.bytes_min = sum(child.bytes_min for child in children)
        self.bytes_per_row = sum(child.bytes_per_row for child in children)
        widths = [child.width for child in children if child.width is not None]
        self.width = sum(widths) if len(widths) == len(children) else None

    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        rows, columns = len(cursor), []
        for child in self._children:
            column, cursor = child.read(span, cursor)
            columns.append(column)
        return pa.Array.from_buffers(self.arrow, rows, [None], children=columns), cursor

    def skip(self, span: Span, cursor: Cursor) -> Cursor:
        for child in self._children:
            cursor = child.skip(span, cursor)
        return cursor

    def skip_one(self, span: Span, position: int) -> int:
        for child in self._children:
            position = child.skip_one(span, position)
        return position


class _List(Reader):
    """Arrays and maps: blocks of items, each with its count, up to a count of 0.

    A negative count means that the block's size in bytes follows, which is not used here. Where
    the items begin is found first, row by row in ascending order; then all are read in one go.
    """

    width = None
    bytes_min = 1
    bytes_per_row = 4

    def __init__(self, arrow: pa.DataType, items: Reader, meter: Meter) -> None:
        self.arrow = arrow
        self._items = items
        self._meter = meter

    def read(self, span: Span, cursor: Cursor) -> tuple[pa.Array, Cursor]:
        begin, counts, end = self._walk(span, cursor)
        self._meter.spend(len(begin), self._items.bytes_per_row)
        items, _ = self._items.read(span, begin)
        offsets = np.zeros(len(cursor) + 1, np.int32)
        np.cumsum(counts, dtype=np.int32, out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(self.arrow, len(cursor), buffers, children=[items]), end

    def skip(self, span: Span, cursor: Cursor) -> Cursor:
        return self._walk(span, cursor)[2]

    def skip_one(self, span: Span, position: int) -> int:
        return self._walk_one(span, position, span.stop)[1]

    def _walk(self, span: Span, cursor: Cursor) -> tuple[Cursor, Cursor, Cursor]:
        """Return where the items of all lists begin, the items per list, the ends of the lists.

        Each list must end before the next list begins. This is checked for each list, because
        overlapping lists could hold any number of items.
        """
        end, counts = cursor.copy(), np.zeros(len(cursor), np.int64)
        limit = np.append(cursor[1:], span.stop)
        found: list[Cursor] = []
        lanes = np.arange(len(cursor))
        while lanes.size >= _LANES_MIN:
            count, begin = self._counts_at(span, end[lanes], limit[lanes])
            end[lanes] = begin
            filled = count > 0
            lanes, count, begin = lanes[filled], count[filled], begin[filled]
            counts[lanes] += count
            end[lanes] = self._walk_block(span, count, begin, limit[lanes], found)
        for lane in lanes.tolist():
            begins, stop = self._walk_one(span, int(end[lane]), int(limit[lane]))
            found.append(np.frombuffer(begins, np.int64))
            counts[lane] += len(begins)
            end[lane] = stop
            if stop > limit[lane]:
                raise CorruptError(_TOO_MANY_ITEMS, offset=int(cursor[lane]))
        # Rows ascend and so do the items of a row: sorted, each item is in its place.
        begin = np.sort(np.concatenate([*found, cursor[:0]]))
        return begin, counts, end

    def _counts_at(self, span: Span, cursor: Cursor, limit: Cursor) -> tuple[Cursor, Cursor]:
        """Return the item counts of the blocks that begin at the cursors, and the first items."""
        count, begin = span.varints_at(cursor)
        sized = np.flatnonzero(count < 0)
        if sized.size:
            _, begin[sized] = span.varints_at(begin[sized])
            count = np.abs(count)
        wrong = (count < 0) | (count > (limit - begin) // self._items.bytes_min)
        if wrong.any():
            span.fail(wrong, cursor, _TOO_MANY_ITEMS)
        return count, begin

    def _walk_block(
        self, span: Span, count: Cursor, begin: Cursor, limit: Cursor, found: list[Cursor]
    ) -> Cursor:
        """Return the ends of blocks of `count` items, adding to `found` where each item begins."""
        if self._items.width is not None:
            total = int(count.sum())
            first = np.repeat(np.cumsum(count) - count, count)
            found.append(np.repeat(begin, count) + (np.arange(total) - first) * self._items.width)
            return begin + count * self._items.width
        end: Cursor = begin.copy()
        lanes, done = np.arange(len(begin)), 0
        while lanes.size >= _LANES_MIN:
            found.append(end[lanes])
            end[lanes] = self._items.skip(span, end[lanes])
            if (end > limit).any():
                span.fail(end > limit, begin, _TOO_MANY_ITEMS)
            done += 1
            lanes = lanes[count[lanes] > done]
        for lane in lanes.tolist():
            begins = array("q")
            end[lane] = self._walk_items(span, int(end[lane]), int(count[lane]) - done, begins)
            found.append(np.frombuffer(begins, np.int64))
            if end[lane] > limit[lane]:
                raise CorruptError(_TOO_MANY_ITEMS, offset=int(begin[lane]))
        return end

    def _walk_one(self, span: Span, position: int, limit: int) -> tuple[array[int], int]:
        """Return where the items of the one list at `position` begin, and where it ends."""
        found = array("q")
        while True:
            count, begin = span.varint_at(position)
            if count < 0:
                count, (_, begin) = -count, span.varint_at(begin)
            if count == 0:
                return found, begin
            if count * self._items.bytes_min > limit - begin:
                raise CorruptError(_TOO_MANY_ITEMS, offset=position)
            position = self._walk_items(span, begin, count, found)

    def _walk_items(self, span: Span, position: int, count: int, found: array[int]) -> int:
        """Return the position behind `count` items, adding to `found` where each begins."""
        width = self._items.width
        if width is not None:
            found.extend(range(position, position + count * width, width))
            return position + count * width
        for _ in range(count):
            found.append(position)
            position = self._items.skip_one(span, position)
        return position


def make_reader(schema: AvroSchema, meter: Meter) -> Reader:
    """Return the reader of values of `schema`; lists report their items to `meter`."""
    if isinstance(schema, AvroNullable):
        return _Nullable(make_reader(schema.value, meter), schema.null_index)
    if isinstance(schema, AvroArray):
        return _List(arrow_type(schema), make_reader(schema.items, meter), meter)
    if isinstance(schema, AvroMap):
        arrow = arrow_type(schema)
        children = [make_scalar_reader(AvroPrimitive("string")), make_reader(schema.values, meter)]
        return _List(arrow, _Record(arrow.field(0).type, children), meter)
    if isinstance(schema, AvroRecord):
        children = [make_reader(child.schema, meter) for child in schema.fields]
        return _Record(arrow_type(schema), children)
    return make_scalar_reader(schema)
