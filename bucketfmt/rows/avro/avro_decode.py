"""Avro data blocks -> Arrow.

The rows of all blocks are decoded in lock step (`avro_span`), a few thousand at a time, so that
the rows of one step and the cursors into them stay in the processor's cache while each column
makes its pass. Source: Hudi `HoodieAvroDataBlock`. Pure: no I/O. Safe to call from several
threads at once; numpy and Arrow release the interpreter lock for most of the work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError, CorruptError, SchemaError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import cached_property
from bucketfmt.rows.avro.avro_frames import find_frames
from bucketfmt.rows.avro.avro_nested_readers import Meter, make_reader
from bucketfmt.rows.avro.avro_readers import Reader
from bucketfmt.rows.avro.avro_schema import arrow_schema
from bucketfmt.rows.avro.avro_span import Cursor, Span
from bucketfmt.rows.avro.avro_types import AvroField, AvroRecord

__all__ = ["WantedKeys", "decode_avro_blocks"]

_STEP_BYTES = 4 << 20  # rows of one lock step: these bytes and the cursors stay in cache
_STEP_ROWS = 32_768
_LENGTH_BYTES = 4
_ROWS_PER_KEY_MIN = 8  # to compare rows with more keys takes as long as decoding them
_WRONG_END = "the row does not end where its length says"


class WantedKeys(NamedTuple):
    """Rows to find by the values of one column.

    Attributes:
        column: A column of text.
        values: The wanted values, text.
    """

    column: str
    values: pa.Array


class _Piece(NamedTuple):
    """Some rows of one block: row i is `data[frames[i] + 4 : frames[i + 1]]`."""

    block: int
    data: npt.NDArray[np.uint8]
    frames: npt.NDArray[np.int64]


class _Column:
    """A column of the writer's schema. Its reader is made for the first rows that are decoded."""

    def __init__(self, field: AvroField, meter: Meter) -> None:
        self.name = field.name
        self.chunks: list[pa.Array] = []
        self._field, self._meter = field, meter

    @cached_property
    def reader(self) -> Reader:
        return make_reader(self._field.schema, self._meter)


def decode_avro_blocks(
    contents: Sequence[Buffer],
    schema: AvroRecord,
    limits: Limits = DEFAULT_LIMITS,
    columns: Sequence[str] | None = None,
    keys: WantedKeys | None = None,
) -> pa.Table:
    """Return the rows of all data blocks, in order.

    Each lock step leaves one chunk, so that strings of any total size fit Arrow's 32-bit offsets
    and no row is copied twice; `combine_chunks()` joins the chunks if one chunk is needed.

    Args:
        contents: The bytes of the blocks between header and footer, all written with `schema`.
        schema: The writer's schema, from the blocks' SCHEMA header.
        limits: Bounds on rows and on the memory they decode to.
        columns: Names of the wanted columns, in this order; None for all. Other columns are
            skipped, which costs some 40 % of decoding them.
        keys: Rows of other keys may be left out: of a row that is left out no more is read than its
            length, and its columns up to the key.

    The table holds copies; nothing refers to `contents` afterwards.

    Raises:
        CorruptError: the bytes are not rows of `schema`. `offset` counts from the beginning of
            the block's content, the message says which block of several.
        UnsupportedError: the version of a block is unknown.
        LimitError: the rows exceed `limits`.
        SchemaError: `schema` has no such column.
    """
    target = _selected(arrow_schema(schema), columns)
    meter = Meter(limits)
    fields = [_Column(field, meter) for field in schema.fields]
    names = set(target.names)
    wanted = {field.name: field for field in fields if field.name in names}
    span, rows = Span(min(_STEP_BYTES, sum(map(len, contents)))), 0
    for step in _steps(contents, limits):
        span = span.refilled([piece.data[piece.frames[0] : piece.frames[-1]] for piece in step])
        rows += _decode_step(step, span, fields, wanted, meter, keys)
    if not target.names:
        return pa.table({"rows": pa.nulls(rows)}).select([])  # keeps the number of rows
    found = [pa.chunked_array(wanted[field.name].chunks, field.type) for field in target]
    return pa.Table.from_arrays(found, schema=target)


def _decode_step(
    step: list[_Piece],
    span: Span,
    fields: Sequence[_Column],
    wanted: Mapping[str, _Column],
    meter: Meter,
    keys: WantedKeys | None,
) -> int:
    """Append rows of one step to the chunks of the wanted columns; return how many.

    Rows of other keys are left out, where the keys are few.
    """
    sizes = [int(piece.frames[-1] - piece.frames[0]) for piece in step]
    places = list(accumulate(sizes[:-1], initial=span.start))
    frames = [
        piece.frames - piece.frames[0] + place for piece, place in zip(step, places, strict=True)
    ]
    begin = np.concatenate([piece[:-1] for piece in frames]) + _LENGTH_BYTES
    end = np.concatenate([piece[1:] for piece in frames])
    try:
        if keys is not None and len(keys.values) * _ROWS_PER_KEY_MIN <= len(begin):
            is_wanted = _are_of_keys(span, fields, keys, begin, end)
            begin, end = begin[is_wanted], end[is_wanted]
        if len(begin):
            meter.spend(len(begin), sum(field.reader.bytes_per_row for field in wanted.values()))
            cursor = _read_columns(span, fields, wanted, begin)
            if (cursor != end).any():
                span.fail(cursor != end, begin, _WRONG_END)
    except CorruptError as error:
        position = span.start if error.offset is None else min(error.offset, span.stop)
        index = max(bisect_right(places, position) - 1, 0)
        raise type(error)(
            f"data block {step[index].block}, {error.message}",
            offset=position - places[index] + int(step[index].frames[0]),
        ) from error
    return len(begin)


def _are_of_keys(
    span: Span, fields: Sequence[_Column], keys: WantedKeys, begin: Cursor, end: Cursor
) -> npt.NDArray[np.bool_]:
    """Return whether rows have one of the keys, after reading them as far as that."""
    place = next(place for place, field in enumerate(fields) if field.name == keys.column)
    leading = fields[: place + 1]
    cursor = _read_columns(span, leading, {keys.column}, begin)
    if (cursor > end).any():
        span.fail(cursor > end, begin, _WRONG_END)
    found: npt.NDArray[np.bool_] = pc.is_in(leading[-1].chunks.pop(), keys.values).to_numpy(
        zero_copy_only=False
    )
    return found


def _read_columns(
    span: Span, fields: Sequence[_Column], wanted: Container[str], begin: Cursor
) -> Cursor:
    """Append the values of rows to the chunks of the wanted columns; return where they end."""
    cursor, name = begin, ""
    try:
        for field in fields:
            name = field.name
            if name in wanted:
                chunk, cursor = field.reader.read(span, cursor)
                field.chunks.append(chunk)
            else:
                cursor = field.reader.skip(span, cursor)
    except CorruptError as error:
        error.message = f"column {name!r} or before: {error.message}"
        raise
    return cursor


def _steps(contents: Sequence[Buffer], limits: Limits) -> Iterator[list[_Piece]]:
    """Yield the rows of all blocks in portions of `_STEP_ROWS` and `_STEP_BYTES`.

    A portion may span several small blocks. A row larger than `_STEP_BYTES` is a portion of its
    own.
    """
    step: list[_Piece] = []
    rows = size = 0
    for block, content in enumerate(contents):
        data = np.frombuffer(content, np.uint8)
        try:
            frames = find_frames(data, limits)
        except BucketfmtError as error:
            error.message = f"data block {block}: {error.message}"
            raise
        first, count = 0, len(frames) - 1
        while first < count:
            last = int(frames.searchsorted(frames[first] + _STEP_BYTES - size, "right")) - 1
            last = min(last, first + _STEP_ROWS - rows)
            if last <= first and step:
                yield step
                step, rows, size = [], 0, 0
                continue
            last = max(last, first + 1)
            step.append(_Piece(block, data, frames[first : last + 1]))
            rows += last - first
            size += int(frames[last] - frames[first])
            first = last
    if step:
        yield step


def _selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    known = set(schema.names)
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise SchemaError(f"no column {unknown[0]!r} in the schema of these blocks")
    return pa.schema([schema.field(name) for name in columns])
