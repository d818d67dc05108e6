"""Avro data blocks -> Arrow.

The rows of all blocks are decoded in lock step (`avro_span`), a few thousand at a time, so that
the rows of one step and the cursors into them stay in the processor's cache while each column
makes its pass. Source: Hudi `HoodieAvroDataBlock`. Pure: no I/O. Safe to call from several
threads at once; numpy and Arrow release the interpreter lock for most of the work.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence
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
from bucketfmt.rows.avro.avro_span import Span
from bucketfmt.rows.avro.avro_types import AvroField, AvroRecord

__all__ = ["WantedKeys", "decode_avro_blocks"]

_STEP_BYTES = 4 << 20  # rows of one lock step: these bytes and the cursors stay in cache
_STEP_ROWS = 32_768
_LENGTH_BYTES = 4
_ROWS_PER_RUN_MIN = 4  # wanted rows are copied run by run; shorter runs take longer than decoding


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
    for every in _steps(contents, limits):
        span = _refilled(span, every)
        step = every if keys is None else _pieces_of_keys(every, span, fields, keys)
        if not step:
            continue
        if step is not every:
            span = _refilled(span, step)
        count = sum(len(piece.frames) - 1 for piece in step)
        meter.spend(count, sum(field.reader.bytes_per_row for field in wanted.values()))
        _decode_step(step, span, fields, wanted)
        rows += count
    if not target.names:
        return pa.table({"rows": pa.nulls(rows)}).select([])  # keeps the number of rows
    found = [pa.chunked_array(wanted[field.name].chunks, field.type) for field in target]
    return pa.Table.from_arrays(found, schema=target)


def _refilled(span: Span, step: Sequence[_Piece]) -> Span:
    return span.refilled([piece.data[piece.frames[0] : piece.frames[-1]] for piece in step])


def _pieces_of_keys(
    step: list[_Piece], span: Span, fields: Sequence[_Column], keys: WantedKeys
) -> list[_Piece]:
    """Return pieces that have the rows of the keys; those of the step if they lie too dispersed."""
    key = next(place for place, field in enumerate(fields) if field.name == keys.column)
    _decode_step(step, span, fields[: key + 1], {keys.column}, is_whole=False)
    is_wanted = pc.is_in(fields[key].chunks.pop(), keys.values).to_numpy(zero_copy_only=False)
    runs, first = [], 0
    for piece in step:
        count = len(piece.frames) - 1
        edges = np.flatnonzero(
            np.diff(is_wanted[first : first + count], prepend=False, append=False)
        )
        runs += [
            piece._replace(frames=piece.frames[begin : end + 1])
            for begin, end in edges.reshape(-1, 2).tolist()
        ]
        first += count
    return runs if len(runs) * _ROWS_PER_RUN_MIN <= first else step


def _decode_step(
    step: list[_Piece],
    span: Span,
    fields: Sequence[_Column],
    wanted: Container[str],
    *,
    is_whole: bool = True,
) -> None:
    """Append the rows of one step to the chunks of the wanted columns.

    `is_whole` says whether `fields` are all that a row has, or the first of them.
    """
    sizes = [int(piece.frames[-1] - piece.frames[0]) for piece in step]
    places = list(accumulate(sizes[:-1], initial=span.start))
    frames = [
        piece.frames - piece.frames[0] + place for piece, place in zip(step, places, strict=True)
    ]
    begin = np.concatenate([piece[:-1] for piece in frames]) + _LENGTH_BYTES
    end = np.concatenate([piece[1:] for piece in frames])
    cursor = begin
    name = ""
    try:
        for field in fields:
            name = field.name
            if name in wanted:
                chunk, cursor = field.reader.read(span, cursor)
                field.chunks.append(chunk)
            else:
                cursor = field.reader.skip(span, cursor)
        is_wrong = cursor != end if is_whole else cursor > end
        if is_wrong.any():
            span.fail(is_wrong, begin, "the row does not end where its length says")
    except CorruptError as error:
        position = span.start if error.offset is None else min(error.offset, span.stop)
        index = max(bisect_right(places, position) - 1, 0)
        raise type(error)(
            f"data block {step[index].block}, column {name!r} or before: {error.message}",
            offset=position - places[index] + int(step[index].frames[0]),
        ) from error


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
