"""Writing a base file: rows as parquet, encoded or copied, and the footer entries of Hudi.

Pure: writes only into the sink it is given. Sources: HoodieAvroParquetWriter, parquet-avro's
AvroSchemaConverter.

Columns are stored as Hudi's Avro writer stores them, with two differences that Hudi's readers
accept. Lists have three levels (`list.element`), which can hold nulls; Hudi writes two
levels unless `parquet.avro.write-old-list-structure` is false, and then the same three. And an
enum is plain text. Decimals are fixed-length bytes, as few as their digits take; there is no
Arrow schema in the footer, and pages have checksums.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_dictionary, is_nested

from bucketfmt.choices import Codec
from bucketfmt.errors import SchemaError, UnsupportedError
from bucketfmt.process import cached_property
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.avro.avro_types import (
    AvroArray,
    AvroFixed,
    AvroMap,
    AvroNullable,
    AvroPrimitive,
    AvroRecord,
    AvroSchema,
)
from bucketfmt.rows.columns.hidden_nulls import fill_hidden_nulls, may_hide_nulls
from bucketfmt.rows.columns.meta_columns import COMMIT_SEQNO, RECORD_KEY
from bucketfmt.rows.parquet.key_footer import KeyFooter
from bucketfmt.rows.parquet.parquet_chunks import (
    ChunkFile,
    StoredColumn,
    columns_of,
    schema_elements,
    split_footer,
)
from bucketfmt.rows.parquet.thrift_compact import Struct

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["ROW_GROUP_BYTES", "BaseFileWriter", "encode_base_file"]

ROW_GROUP_BYTES = 16 << 20
"""The bytes of rows that a writer holds in memory, and a quarter more where few rows would be left.
As parquet these are less than ten megabytes; Hudi's `hoodie.parquet.block.size` is 120."""

_ROW_GROUP_ROWS = 1 << 22
_KEPT_BYTES = 32 << 20  # of rows encoded; what the pool keeps of fewer serves the next file
_TEXTS = pa.dictionary(pa.int32(), pa.string())
_KEPT_TEXTS = 256  # in a dictionary
_DISTINCT = {RECORD_KEY, COMMIT_SEQNO}
_SAMPLE_ROWS = 4096
_TWIN_ROWS = 4096  # fewer rows are encoded before a file is composed
_DISTINCT_SHARE = 0.99  # of so many values; of 130,000 different ones, drawn at random, 0.985 are


class _Columns(NamedTuple):
    """The columns of a file.

    Attributes:
        rows: Those that rows have.
        file: Those of the file, the constants among them.
        constants: Where the constants are in the file, by name, from the first to the last.
        never_null: Which columns of rows have no null.
        hiding: Which columns of rows are of a type that can hide nulls.
    """

    rows: pa.Schema
    file: pa.Schema
    constants: Mapping[str, int]
    never_null: Sequence[int]
    hiding: Sequence[int]


@lru_cache(8)  # mostly all files of a write have the same columns
def _find_columns(avro_schema: str, constants: Sequence[str]) -> _Columns:
    record = parse_avro_schema(avro_schema)
    _check_storable(record, "")
    whole = arrow_schema(record)
    places = {whole.get_field_index(name): name for name in constants}
    rows = pa.schema([field for index, field in enumerate(whole) if index not in places])
    file = whole
    for index in places:  # one dictionary entry, and a number per row
        file = file.set(index, _encoded(whole.field(index)))
    return _Columns(
        rows,
        file,
        {name: index for index, name in sorted(places.items())},
        [index for index, field in enumerate(rows) if not field.nullable],
        [index for index, field in enumerate(rows) if may_hide_nulls(field.type)],
    )


class BaseFileWriter:
    """Writes rows of one schema into a sink, a row group at a time. Ends with `close`.

    Attributes:
        schema: The schema that rows are cast to if the cast is lossless; without the constants.
        num_rows: The number of rows written so far.
    """

    def __init__(
        self,
        sink: Any,
        avro_schema: str,
        key_footer: KeyFooter | None = None,
        codec: Codec = "zstd",
        row_group_bytes: int = ROW_GROUP_BYTES,
        constants: Mapping[str, str | None] | None = None,
        copying: bool = False,
    ) -> None:
        """Begin the file.

        Args:
            sink: A file-like object or pyarrow stream that is open for writing; stays open.
            avro_schema: The rows' Avro schema (JSON), Hudi's columns included.
            key_footer: None for a file whose footer has no entries about keys: with virtual keys,
                and the blocks of log files.
            codec: zstd by default. Files of gzip, Hudi's default, are larger and take over ten
                times as long to write; files of snappy are half as large again.
            row_group_bytes: Bytes of Arrow rows in a row group.
            constants: Columns of text with one value in every row. The rows passed to `write` lack
                these columns.
            copying: Whether stored columns of other files are copied, which costs some
                milliseconds.

        Raises:
            UnsupportedError: the schema has a type that Hudi cannot read back from parquet.
        """
        texts = constants or {}
        columns = _find_columns(avro_schema, tuple(texts))
        self._constants = {
            index: pa.array([texts[name]], pa.string()) for name, index in columns.constants.items()
        }
        self.schema, self._file_schema = columns.rows, columns.file
        self._never_null, self._hiding = columns.never_null, columns.hiding
        self.num_rows = 0
        self._avro_schema = avro_schema
        self._key_footer = key_footer
        self._row_group_bytes = row_group_bytes
        self._pending: list[pa.Table] = []
        self._pending_bytes = self._pending_rows = self._encoded_bytes = 0
        self._sink, self._codec = sink, codec
        self._chunk_file = ChunkFile(sink) if copying else None
        self._writer: pq.ParquetWriter | None = None
        self._distinct, self._judged = set(_DISTINCT), set[str]()

    def write(self, rows: pa.Table | pa.RecordBatch, *, are_keys_new: bool = True) -> None:
        """Write rows, with the columns of the schema in any order.

        `are_keys_new=False`: the key footer holds the keys of the rows already.

        Raises:
            SchemaError: a column is missing, left over or of another type, or a value is null
                where the schema has no null.
            ValueError: a record key is null or empty, and the file is to have a key footer.
        """
        table = self._take(rows, are_keys_new)
        num_rows, size = table.num_rows, table.nbytes
        start = 0
        while start < num_rows:
            room = (self._row_group_bytes - self._pending_bytes) * num_rows // max(size, 1)
            if num_rows - start <= room + room // 4:  # rather than a row group of few rows
                room = num_rows - start
            room = min(max(room, 1), _ROW_GROUP_ROWS - self._pending_rows)
            is_whole = not start and num_rows <= room
            piece = table if is_whole else table.slice(start, room)
            self._pending.append(piece)
            self._pending_bytes += size if is_whole else piece.nbytes
            self._pending_rows += piece.num_rows
            start += piece.num_rows
            if start < num_rows or self._is_full:
                self._flush()

    def write_row_group(
        self, rows: pa.Table, stored: Mapping[str, StoredColumn], *, are_keys_new: bool = True
    ) -> None:
        """Write rows as a row group of their own, after all rows written before.

        Args:
            rows: As for `write`.
            stored: Columns that are stored in another file with the same values, by name. A column
                is copied if `copying` is true and the column is stored in the form of this file.
            are_keys_new: As for `write`.

        Raises:
            SchemaError, ValueError: as for `write`.
        """
        table = self._take(rows, are_keys_new)
        self._flush()
        if table.num_rows:
            self._encode(table, stored)

    def close(self) -> None:
        """Write the remaining rows, and the footer."""
        self._flush()
        entries = {"parquet.avro.schema": self._avro_schema, "writer.model.name": "avro"}
        if self._key_footer is not None:
            entries |= self._key_footer.entries
        if self._chunk_file is not None:
            self._chunk_file.close(self._encode_footer(entries))
            return
        writer = self._writer or self._parquet_writer(self._sink, self._file_schema)
        writer.add_key_value_metadata(entries)
        writer.close()

    @property
    def _is_full(self) -> bool:
        is_full = self._pending_bytes >= self._row_group_bytes
        return is_full or self._pending_rows >= _ROW_GROUP_ROWS

    def _take(self, rows: pa.Table | pa.RecordBatch, are_keys_new: bool) -> pa.Table:
        table = self._conform(rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows]))
        if self._key_footer is not None and are_keys_new:
            self._key_footer.add(table.column(RECORD_KEY))
        self.num_rows += table.num_rows
        return table

    def _flush(self) -> None:
        if self._pending:
            pieces = self._pending
            if any(not piece.schema.equals(pieces[0].schema) for piece in pieces):
                pieces = [piece.cast(self.schema) for piece in pieces]
            self._encode(pa.concat_tables(pieces).unify_dictionaries(), {})
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

    def _encode(self, rows: pa.Table, stored: Mapping[str, StoredColumn]) -> None:
        """Write a row group."""
        whole = self._with_constants(rows)
        columns, twin = {}, None
        if self._chunk_file is not None:
            columns = {n: c for n, c in stored.items() if self._has_form_of(n, c)}
        if self._writer is None:
            twin = _find_twin_of_keys(rows, columns)
        if twin is not None and self._chunk_file is None:
            self._chunk_file = ChunkFile(self._sink)
        if self._chunk_file is not None:
            others = whole.drop_columns([*columns, *([] if twin is None else [twin])])
            self._judge(others)
            if others.num_columns:
                sink = pa.BufferOutputStream()
                with (
                    _schema_errors(),
                    self._parquet_writer(sink, others.schema) as writer,
                ):
                    writer.write_table(others, row_group_size=others.num_rows)
                columns |= columns_of(sink.getvalue())
            if twin is not None:
                columns[twin] = columns[RECORD_KEY].named(twin)
                self._distinct.add(twin)
            self._chunk_file.add(rows.num_rows, [columns[name] for name in whole.column_names])
        else:
            if self._writer is None:
                self._judge(whole)
                self._writer = self._parquet_writer(self._sink, whole.schema)
            with _schema_errors():
                if not whole.schema.equals(self._writer.schema):  # a dictionary that one has not
                    whole = whole.cast(self._writer.schema)
                self._writer.write_table(whole, row_group_size=rows.num_rows)
        self._encoded_bytes += rows.nbytes
        if self._encoded_bytes > _KEPT_BYTES:
            pa.default_memory_pool().release_unused()  # else what threads keep adds up

    def _judge(self, rows: pa.Table) -> None:
        """Find out by a sample in which columns, of those met first, values hardly repeat."""
        known = self._distinct | self._judged
        met = [field for field in rows.schema if field.name not in known]
        names = [f.name for f in met if not (is_nested(f.type) or is_dictionary(f.type))]
        if not names or rows.num_rows < _SAMPLE_ROWS:
            return
        random = np.random.default_rng(0)  # the same rows every time
        chosen = random.choice(rows.num_rows, _SAMPLE_ROWS, replace=False, shuffle=False)
        sample = rows.select(names).take(pa.array(chosen))
        for name in names:
            if pc.count_distinct(sample.column(name)).as_py() > _DISTINCT_SHARE * _SAMPLE_ROWS:
                self._distinct.add(name)
        self._judged.update(names)

    def _has_form_of(self, name: str, column: StoredColumn) -> bool:
        return column.codecs == {self._codec} and column.elements == self._elements.get(name)

    @cached_property
    def _elements(self) -> Mapping[str, tuple[Struct, ...]]:
        """The schema elements of each column of the file."""
        return _elements_of(self._file_schema)

    def _encode_footer(self, entries: dict[str, str]) -> bytes:
        """Return the FileMetaData of the file as if it had no rows."""
        sink = pa.BufferOutputStream()
        with self._parquet_writer(sink, self._file_schema) as writer:
            writer.add_key_value_metadata(entries)
        return split_footer(sink.getvalue())

    def _parquet_writer(self, sink: pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
        """Begin a file with dictionaries for the columns whose values recur.

        A dictionary of values that are all different costs time and space, or the encoder gives the
        dictionary up in the end. parquet-mr, Hudi's own library, looks at the first page likewise
        (FallbackValuesWriter).
        """
        import pyarrow.parquet as pq  # noqa: PLC0415  (imported when the first file is written)

        return pq.ParquetWriter(
            sink,
            schema,
            compression=self._codec,
            use_dictionary=[path for path in _leaf_paths(schema) if path not in self._distinct],
            store_schema=False,
            write_page_checksum=True,
            write_page_index=True,
            **_newer_options(),
        )

    def _with_constants(self, rows: pa.Table) -> pa.Table:
        for index, value in self._constants.items():  # those before it are there
            places = pa.array(np.zeros(rows.num_rows, np.int32))
            if value.null_count:
                places = pa.nulls(rows.num_rows, pa.int32())
            column = pa.DictionaryArray.from_arrays(places, value.drop_null())
            rows = rows.add_column(index, self._file_schema.field(index), column)
        if rows.schema.equals(self._file_schema, check_metadata=True):
            return rows
        schema = pa.schema(map(pa.Field.with_type, self._file_schema, rows.schema.types))
        return pa.Table.from_arrays(rows.columns, schema=schema)

    def _conform(self, rows: pa.Table) -> pa.Table:
        odd = sorted(set(rows.schema.names) ^ set(self.schema.names))
        if odd or rows.num_columns != len(self.schema):
            raise SchemaError(f"the rows differ from the schema to write in the columns {odd}")
        rows = rows.select(self.schema.names)
        for index in self._never_null:
            if rows.column(index).null_count:
                name = self.schema.field(index).name
                raise SchemaError(f"column {name}: null, but the schema allows no null")
        if not rows.schema.equals(self.schema):
            target = pa.schema(map(_kept_encoded, rows.columns, self.schema))
            with _schema_errors():
                rows = rows if rows.schema.equals(target) else rows.cast(target)
        for index in self._hiding:
            field, column = self.schema.field(index), rows.column(index)
            chunks = [fill_hidden_nulls(chunk, field.name) for chunk in column.chunks]
            rows = rows.set_column(index, field, pa.chunked_array(chunks, field.type))
        return rows


def encode_base_file(
    rows: pa.Table,
    avro_schema: str,
    key_footer: KeyFooter | None = None,
    codec: Codec = "zstd",
    row_group_bytes: int = ROW_GROUP_BYTES,
    constants: Mapping[str, str | None] | None = None,
) -> pa.Buffer:
    """Return a whole file with `rows`; see `BaseFileWriter` for arguments and errors."""
    sink = pa.BufferOutputStream()
    writer = BaseFileWriter(sink, avro_schema, key_footer, codec, row_group_bytes, constants)
    writer.write(rows)
    writer.close()
    return sink.getvalue()


@cache
def _newer_options() -> Mapping[str, Any]:
    """Return the options of ParquetWriter that releases before pyarrow 20 lack: they write UTC."""
    import pyarrow.parquet as pq  # noqa: PLC0415  (imported when the first file is written)

    name = "write_time_adjusted_to_utc"
    return {name: True} if name in inspect.signature(pq.ParquetWriter.__init__).parameters else {}


@contextmanager
def _schema_errors() -> Iterator[None]:
    """Turn exceptions of pyarrow on rows that do not fit the schema into SchemaError."""
    try:
        yield
    except (ValueError, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(f"the rows do not fit the schema to write: {error}") from error


@lru_cache(8)  # mostly all files of a write have the same columns
def _elements_of(schema: pa.Schema) -> Mapping[str, tuple[Struct, ...]]:
    import pyarrow.parquet as pq  # noqa: PLC0415  (imported when the first file is written)

    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema, store_schema=False, **_newer_options()).close()
    return schema_elements(split_footer(sink.getvalue()))


def _encoded(field: pa.Field) -> pa.Field:
    return field.with_type(_TEXTS)


def _kept_encoded(column: pa.ChunkedArray, field: pa.Field) -> pa.Field:
    """Return the field of the file's schema for a column, whose dictionary may stay as it is.

    A long one does not: it may be of values that are not there any more.
    """
    if column.type != _TEXTS or field.type != pa.string():
        return field
    is_kept = all(len(chunk.dictionary) <= _KEPT_TEXTS for chunk in column.chunks)
    return field.with_type(_TEXTS) if is_kept else field


def _check_storable(schema: AvroSchema, path: str) -> None:
    """Refuse types that parquet, or Hudi's way of reading parquet as Avro, cannot represent."""
    if isinstance(schema, AvroNullable):
        _check_storable(schema.value, path)
    elif isinstance(schema, AvroRecord):
        if not schema.fields:
            raise UnsupportedError(f"column {path}: parquet has no struct without fields")
        for field in schema.fields:
            _check_storable(field.schema, f"{path}.{field.name}" if path else field.name)
    elif isinstance(schema, AvroArray):
        _check_storable(schema.items, f"{path}.element")
    elif isinstance(schema, AvroMap):
        _check_storable(schema.values, f"{path}.value")
    elif schema == AvroPrimitive("null"):
        raise UnsupportedError(f"column {path}: Hudi stores no column of type null; give it a type")
    elif isinstance(schema, AvroFixed) and schema.logical is not None:
        smallest = ((10**schema.logical.precision - 1).bit_length() + 8) // 8
        if schema.size != smallest:
            raise UnsupportedError(
                f"column {path}: a decimal of {schema.logical.precision} digits in "
                f"{schema.size} bytes instead of {smallest}; write this table with Hudi"
            )


def _leaf_paths(schema: pa.Schema) -> Iterator[str]:
    """Yield the parquet path of every leaf column."""

    def below(path: str, kind: pa.DataType) -> Iterator[str]:
        if pa.types.is_struct(kind):
            for field in kind:
                yield from below(f"{path}.{field.name}", field.type)
        elif pa.types.is_map(kind):
            yield from below(f"{path}.key_value.key", kind.key_type)
            yield from below(f"{path}.key_value.value", kind.item_type)
        elif pa.types.is_list(kind):
            yield from below(f"{path}.list.element", kind.value_type)
        else:
            yield path

    for field in schema:
        yield from below(field.name, field.type)


def _find_twin_of_keys(rows: pa.Table, stored: Mapping[str, StoredColumn]) -> str | None:
    """Return a column to encode that has the record keys as its values, in a form like theirs.

    That is the field of a key of one field: its pages are those of the keys.
    """
    if rows.num_rows < _TWIN_ROWS or RECORD_KEY not in rows.column_names:
        return None
    key, keys = rows.schema.field(RECORD_KEY), rows.column(RECORD_KEY)
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if field.name == RECORD_KEY or field.name in stored:
            continue
        is_alike = (field.type, field.nullable) == (key.type, key.nullable)
        if is_alike and column.equals(keys):
            return str(field.name)
    return None
