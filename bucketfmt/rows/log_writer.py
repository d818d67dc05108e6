"""Log blocks of one write to one file group: rows as data blocks, keys as a delete block.

Pure. Sources: HoodieAppendHandle, HoodieAvroDataBlock, HoodieParquetDataBlock,
HoodieDeleteBlock, HoodieAvroWrapperUtils. A write appends its data blocks, then one delete
block, all with the headers INSTANT_TIME and SCHEMA. This holds for every table version: further
headers of 1.x are for record positions, which tables with a bucket index do not have, and for rows
of some columns, which are not written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.choices import Codec, DataFormat
from bucketfmt.errors import UnsupportedError
from bucketfmt.format.log.delete_records import AVRO_VERSION, DeleteBlock, encode_delete_block
from bucketfmt.format.log.log_block import BlockType, HeaderKey, encode_log_block
from bucketfmt.format.log.ordering_values import (
    NO_ORDERING_VALUE,
    OrderingKind,
    OrderingValue,
    RawOrderingValue,
)
from bucketfmt.rows.avro.avro_encode import encode_avro_block
from bucketfmt.rows.avro.avro_schema import parse_avro_schema
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.parquet.base_file_writer import encode_base_file

__all__ = ["DATA_BLOCK_BYTES", "encode_log_blocks", "make_delete_block", "orders_deletes"]

DATA_BLOCK_BYTES = 64 << 20
"""Bytes of rows in memory per data block; `hoodie.logfile.data.block.max.size` is 256 MiB."""

_KINDS = (
    (pa.types.is_boolean, OrderingKind.BOOLEAN, None),
    (pa.types.is_int32, OrderingKind.INT, None),
    (pa.types.is_time32, OrderingKind.INT, pa.int32()),
    (pa.types.is_int64, OrderingKind.LONG, None),
    (pa.types.is_time64, OrderingKind.LONG, pa.int64()),
    (pa.types.is_timestamp, OrderingKind.LONG, pa.int64()),  # raw, in the column's own unit
    (pa.types.is_float32, OrderingKind.FLOAT, None),
    (pa.types.is_float64, OrderingKind.DOUBLE, None),
    (pa.types.is_binary, OrderingKind.BYTES, None),
    (pa.types.is_string, OrderingKind.STRING, None),
    (pa.types.is_decimal, OrderingKind.DECIMAL, None),
)


def encode_log_blocks(
    rows: pa.Table,
    deletes: DeleteBlock | None,
    instant: str,
    avro_schema: str,
    data_format: DataFormat = "avro",
    codec: Codec = "zstd",
) -> Iterator[bytes]:
    """Yield the blocks of one write, to be appended to one log file in this order.

    Args:
        rows: The rows with Hudi's columns, of which `_hoodie_file_name` is the file id; no row is
            marked as deleted.
        deletes: The keys to delete; None, or no entries, yield no block.
        instant: The requested time of the write.
        avro_schema: The rows' schema (JSON), Hudi's columns included.
        data_format: How rows are stored.
        codec: Compression of parquet blocks; Avro blocks have none.

    Raises:
        SchemaError: rows do not fit the schema.
        UnsupportedError: Hudi cannot store a type or an ordering value.
    """
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: avro_schema}
    record = parse_avro_schema(avro_schema)
    step = max(1, DATA_BLOCK_BYTES * rows.num_rows // max(rows.nbytes, 1))
    for start in range(0, rows.num_rows, step):
        piece = rows.slice(start, step)
        if data_format == "avro":
            content: Any = encode_avro_block(piece, record)
            yield encode_log_block(BlockType.AVRO_DATA, header, content)
        else:
            content = encode_base_file(piece, avro_schema, codec=codec)
            yield encode_log_block(BlockType.PARQUET_DATA, header, content)
    if deletes is not None and len(deletes):
        yield encode_log_block(BlockType.DELETE, header, encode_delete_block(deletes))


def orders_deletes(columns: pa.Schema, ordering_fields: Sequence[str], table_version: int) -> bool:
    """Return whether deletes of a log can have ordering values that all readers compare.

    Hudi 1.0 fails to read a log with a delete whose ordering value is a decimal.
    """
    if table_version != 8:
        return True
    rows = columns.empty_table()
    found = (find_column(rows, name) for name in ordering_fields)
    return not any(column is not None and pa.types.is_decimal(column.type) for column in found)


def make_delete_block(
    record_keys: pa.ChunkedArray,
    partition_path: str,
    rows: pa.Table | None = None,
    ordering_fields: Sequence[str] = (),
    table_version: int = 9,
) -> DeleteBlock:
    """Return the deletes of these keys.

    Args:
        record_keys: The keys.
        partition_path: The partition of the keys.
        rows: The rows marked as deleted, one per key; the deletes take their ordering values. None:
            deletes without ordering value, which win over every row.
        ordering_fields: The ordering fields of the table; a field that is not a column counts as 0.
        table_version: Decides how Hudi stores an ordering value.

    Raises:
        UnsupportedError: Hudi has no ordering value for the type of an ordering field.
    """
    size = len(record_keys)
    kinds, values = _no_ordering(size)
    if rows is not None and ordering_fields:
        columns = [_ordering_column(rows, name, table_version) for name in ordering_fields]
        kinds, values = columns[0] if len(columns) == 1 else _tuples(columns, table_version)
    return DeleteBlock(
        AVRO_VERSION, record_keys.to_pylist(), [partition_path] * size, kinds, values
    )


_Column = tuple[bytes, list[RawOrderingValue]]


def _no_ordering(size: int) -> _Column:
    return bytes([NO_ORDERING_VALUE.kind]) * size, [NO_ORDERING_VALUE.value] * size


def _ordering_column(rows: pa.Table, name: str, table_version: int) -> _Column:
    """Return kind and value of each row; null becomes the default, the integer 0."""
    column = find_column(rows, name)
    if column is None:
        return _no_ordering(rows.num_rows)
    kind, values = _raw_values(column, name, table_version)
    kinds = np.full(len(values), int(kind), np.uint8)
    kinds[column.is_null().to_numpy()] = NO_ORDERING_VALUE.kind
    return kinds.tobytes(), [NO_ORDERING_VALUE.value if v is None else v for v in values]


def _raw_values(
    column: pa.ChunkedArray, name: str, table_version: int
) -> tuple[OrderingKind, list[Any]]:
    if pa.types.is_date32(column.type):
        # Hudi 0.15 writes a java.sql.Date. 1.x fails to write its LocalDate here; its readers
        # compare days as integers, and take any other class for a delete that always wins.
        kind = OrderingKind.DATE if table_version < 8 else OrderingKind.INT
        return kind, column.cast(pa.int32()).to_pylist()
    for test, kind, storage in _KINDS:
        if test(column.type):
            return kind, (column.cast(storage) if storage else column).to_pylist()
    raise UnsupportedError(
        f"ordering field {name}: Hudi has no ordering value of type {column.type} for deletes; "
        "take a column of another type"
    )


def _tuples(columns: Sequence[_Column], table_version: int) -> _Column:
    if table_version < 9:
        raise UnsupportedError(
            f"several ordering fields in a table of version {table_version}; Hudi knows them "
            "from version 9 on"
        )
    rows = zip(
        *(
            [OrderingValue(OrderingKind(k), v) for k, v in zip(*column, strict=True)]
            for column in columns
        ),
        strict=True,
    )
    values: list[RawOrderingValue] = list(rows)
    return bytes([OrderingKind.ARRAY]) * len(values), values
