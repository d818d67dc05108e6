"""Arrow -> Avro data blocks.

Every field becomes one or two binary columns, the encoded pieces of all rows; joining the pieces
of each row gives the records. All of it is column kernels of numpy and Arrow. Source: Hudi
`HoodieAvroDataBlock`, version 3. Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import SchemaError
from bucketfmt.rows.avro.avro_schema import arrow_type
from bucketfmt.rows.avro.avro_types import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroSchema,
)

__all__ = ["encode_avro_block"]

_VERSION = 3
_STEP_ROWS = 16_384
# So many columns of a type, of at most so many bytes each, are encoded as one long column: calls
# for each of them would take longer than the work.
_SMALL_BYTES, _SMALL_COLUMNS = 16 << 10, 64


def encode_avro_block(rows: pa.RecordBatch | pa.Table, schema: AvroRecord) -> bytes:
    """Return the content of a data block that holds `rows`: version, count, length-prefixed rows.

    Columns, and fields within them, are matched by name and cast to the schema's Arrow types
    if the cast is lossless.

    Raises:
        SchemaError: a column is missing, unknown or cannot be cast; a value is null where `schema`
            allows no null, is not a symbol of its enum, or is too large for its decimal.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    header = np.array([_VERSION, table.num_rows], ">i4").tobytes()
    none = pa.RecordBatch.from_pylist([], schema=table.schema)  # its columns are checked too
    batches = list(_steps(table)) or [none]
    return b"".join([header, *(_frames(batch, schema) for batch in batches)])


def _steps(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows, so many at a time that calls for a column take less than its work."""
    if all(column.num_chunks <= 1 for column in table.columns):
        yield from table.to_batches(_STEP_ROWS)
        return
    for start in range(0, table.num_rows, _STEP_ROWS):
        yield from table.slice(start, _STEP_ROWS).combine_chunks().to_batches()


def _frames(rows: pa.RecordBatch, schema: AvroRecord) -> bytes:
    """Return the length-prefixed rows."""
    records = _joined(_record_pieces(schema, rows.to_struct_array(), ""), rows.num_rows)
    sizes = _sizes(records)
    if sizes.max(initial=0) >> 31:
        raise SchemaError("a row of 2 GiB or more does not fit a log block")
    frames = _joined([_fixed_width(sizes.astype(">i4")), records], rows.num_rows)
    return bytes(frames.buffers()[2][: int(sizes.sum()) + 4 * rows.num_rows])


def _pieces(schema: AvroSchema, values: pa.Array, path: str) -> list[pa.Array]:
    """Return large_binary arrays that, joined row by row, are the encoded `values`.

    A null in a piece stands for no bytes.
    """
    if isinstance(schema, AvroNullable):
        return _nullable_pieces(schema, values, path)
    _check_nulls(schema, values, path)
    if isinstance(schema, AvroRecord):
        return _record_pieces(schema, values, path)
    if isinstance(schema, (AvroArray, AvroMap)):
        return _list_pieces(schema, values, path)
    if isinstance(schema, AvroEnum):
        return [_enum_piece(schema, values, path)]
    return _scalar_pieces(schema, _cast(values, arrow_type(schema), path), path)


def _check_nulls(schema: AvroSchema, values: pa.Array, path: str) -> None:
    is_nullable = isinstance(schema, AvroNullable) or schema == AvroPrimitive("null")
    if values.null_count and not is_nullable:
        raise SchemaError(f"column {path}: null, but the Avro schema allows no null")


def _nullable_pieces(schema: AvroNullable, values: pa.Array, path: str) -> list[pa.Array]:
    present = values.is_valid().to_numpy(zero_copy_only=False)
    branch = np.where(present, 2 - 2 * schema.null_index, 2 * schema.null_index)
    branches = _fixed_width(branch.astype(np.uint8))
    if present.all():
        return [branches, *_pieces(schema.value, values, path)]
    if not present.any():
        return [branches]
    dense = values.drop_null()
    encoded = _joined(_pieces(schema.value, dense, path), len(dense))
    places = np.cumsum(present) - 1
    return [branches, encoded.take(pa.array(places, mask=~present))]


def _record_pieces(schema: AvroRecord, values: pa.Array, path: str) -> list[pa.Array]:
    names = [field.name for field in values.type] if pa.types.is_struct(values.type) else []
    odd = sorted({field.name for field in schema.fields} ^ set(names))
    if odd or len(names) != len(schema.fields):
        where = f"column {path}: " if path else ""
        raise SchemaError(f"{where}rows and Avro record {schema.name!r} differ in fields {odd}")
    pieces: list[list[pa.Array]] = [[] for _ in schema.fields]
    small: dict[AvroSchema, list[tuple[list[pa.Array], pa.Array]]] = {}
    for field, own in zip(schema.fields, pieces, strict=True):
        inner = f"{path}.{field.name}" if path else field.name
        column = values.field(field.name)
        kind = field.schema.value if isinstance(field.schema, AvroNullable) else field.schema
        if isinstance(kind, AvroPrimitive) and column.nbytes <= _SMALL_BYTES:
            _check_nulls(field.schema, column, inner)
            column = _cast(column, arrow_type(kind), inner)
            small.setdefault(field.schema, []).append((own, column))
        else:
            own.extend(_pieces(field.schema, column, inner))
    for alike, columns in small.items():
        for first in range(0, len(columns), _SMALL_COLUMNS):
            some = columns[first : first + _SMALL_COLUMNS]
            for piece in _pieces(alike, pa.concat_arrays([column for _, column in some]), path):
                for place, (own, column) in enumerate(some):
                    own.append(piece.slice(place * len(column), len(column)))
    return list(chain.from_iterable(pieces))


def _list_pieces(schema: AvroArray | AvroMap, values: pa.Array, path: str) -> list[pa.Array]:
    """Return the pieces of lists: one block of all items, then the empty block that ends a list."""
    if isinstance(schema, AvroMap):
        values = _as_list(values, path)
        entries = values.flatten()
        pieces = [
            *_pieces(AvroPrimitive("string"), entries.field(0), f"{path}.key"),
            *_pieces(schema.values, entries.field(1), f"{path}.value"),
        ]
    else:
        if not isinstance(values, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
            raise SchemaError(f"column {path}: {values.type}, where the Avro schema has an array")
        pieces = _pieces(schema.items, values.flatten(), f"{path}.element")
    counts = pc.list_value_length(values).to_numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    items = pa.LargeListArray.from_arrays(offsets, _joined(pieces, int(offsets[-1])))
    filled = pa.array(np.cumsum(counts > 0) - 1, mask=counts == 0)
    heads = _varints(counts[counts > 0]).take(filled)
    return [heads, pc.binary_join(items, _empty()), _fixed_width(np.zeros(len(values), np.uint8))]


def _as_list(values: pa.Array, path: str) -> pa.Array:
    """Return maps as lists of key and value."""
    if not pa.types.is_map(values.type):
        raise SchemaError(f"column {path}: {values.type}, where the Avro schema has a map")
    entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(values),
        [None, values.buffers()[1]],
        offset=values.offset,
        children=[entries],
    )


def _enum_piece(schema: AvroEnum, values: pa.Array, path: str) -> pa.Array:
    symbols = pc.index_in(_cast(values, pa.string(), path), pa.array(schema.symbols))
    if symbols.null_count:
        raise SchemaError(f"column {path}: a text is not a symbol of enum {schema.name!r}")
    return _varints(symbols.to_numpy().astype(np.int64))


def _scalar_pieces(
    schema: AvroPrimitive | AvroFixed, values: pa.Array, path: str
) -> list[pa.Array]:
    """Return the pieces of `values`, which have the schema's Arrow type and no null."""
    if pa.types.is_decimal(values.type):
        return _decimal_pieces(schema, values, path)
    if isinstance(schema, AvroFixed):
        return [values.cast(pa.large_binary())]
    if schema.kind == "null":
        return []
    if schema.kind in {"string", "bytes"}:
        data = values.cast(pa.large_binary())
        return [_varints(_sizes(data)), data]
    if schema.kind == "boolean":
        return [_fixed_width(values.cast(pa.uint8()).to_numpy())]
    if schema.kind in {"float", "double"}:
        return [_fixed_width(values.to_numpy().astype("<f4" if schema.kind == "float" else "<f8"))]
    plain = values.view(pa.int32() if schema.kind == "int" else pa.int64())
    return [_varints(plain.to_numpy().astype(np.int64))]


def _decimal_pieces(
    schema: AvroPrimitive | AvroFixed, values: pa.Array, path: str
) -> list[pa.Array]:
    width = values.type.byte_width
    raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :]
    digits = raw[: len(values) * width].reshape(-1, width)[:, ::-1]  # big-endian
    sign = np.where(digits[:, :1] >> 7, 0xFF, 0).astype(np.uint8)
    if isinstance(schema, AvroFixed):
        spare = width - schema.size
        if (digits[:, : max(spare, 0)] != sign).any():
            raise SchemaError(f"column {path}: a decimal too large for {schema.size} bytes")
        padding = np.repeat(sign, max(-spare, 0), axis=1)
        return [_fixed_width(np.hstack([padding, digits[:, max(spare, 0) :]]))]
    # A byte is left out while it only repeats the sign that the next byte still tells.
    spare_byte = (digits[:, :-1] == sign) & (digits[:, 1:] >> 7 == sign >> 7)
    kept = np.ones(digits.shape, np.bool_)
    kept[:, :-1] = ~np.logical_and.accumulate(spare_byte, axis=1)
    data = _binary(kept.sum(axis=1), digits[kept])
    return [_varints(_sizes(data)), data]


def _varints(values: npt.NDArray[np.int64]) -> pa.Array:
    """Return the zigzag varints of `values`."""
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    longest = max(1, -(-int(raw.max(initial=0)).bit_length() // 7))
    rest = raw[:, np.newaxis] >> (np.uint64(7) * np.arange(longest, dtype=np.uint64))
    kept = rest != 0
    kept[:, 0] = True
    octets = (rest & np.uint64(0x7F)) | ((rest > 0x7F) * np.uint64(0x80))
    return _binary(kept.sum(axis=1), octets.astype(np.uint8)[kept])


def _fixed_width(values: npt.NDArray[np.generic]) -> pa.Array:
    """Return each row of `values` as its bytes."""
    width = values[:1].nbytes
    return _binary(np.full(len(values), width), np.ascontiguousarray(values))


def _binary(sizes: npt.NDArray[np.int64], data: npt.NDArray[np.generic]) -> pa.Array:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def _sizes(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the number of bytes of each large_binary value; 0 for a null."""
    sizes: npt.NDArray[np.int64] = pc.binary_length(values).fill_null(0).to_numpy()
    return sizes


def _joined(pieces: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return the pieces of each row as one value."""
    if not pieces:
        return pa.array([b""] * rows, pa.large_binary())
    return pc.binary_join_element_wise(
        *pieces, _empty(), null_handling="replace", null_replacement=""
    )


def _empty() -> pa.Scalar:
    """Return a value of no bytes. Made when rows are written: `pa.scalar` imports pandas."""
    return pa.scalar(b"", pa.large_binary())


def _cast(values: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if values.type == target:
        return values
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"column {path}: {values.type} does not fit {target}: {error}") from error
