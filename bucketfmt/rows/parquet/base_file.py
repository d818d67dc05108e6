"""A base file: parquet rows, and the footer entries by which Hudi finds a key.

Reads only the source it is given. Sources: HoodieBloomFilterWriteSupport.finalizeMetadata,
HoodieAvroWriteSupport (footer), BloomIndexFileInfo (use).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.format.keys.bloom import BloomFilter, decode_bloom_filter
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import cached_property
from bucketfmt.rows.columns.conform import conform
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.filters import Filter
from bucketfmt.rows.parquet.file_window import open_window
from bucketfmt.rows.parquet.parquet_chunks import (
    CODECS,
    Codec,
    GroupLayout,
    StoredColumn,
    decode_layout,
    stored_columns,
)
from bucketfmt.rows.parquet.parquet_footer import ColumnRange, ParquetFooter, decode_footer
from bucketfmt.rows.parquet.parquet_levels import check_levels

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = [
    "BATCH_ROWS",
    "BLOOM_KEY",
    "BLOOM_TYPE_KEY",
    "MAX_KEY",
    "MIN_KEY",
    "BaseFileReader",
]

BATCH_ROWS = 131_072
"""Rows of a batch by default: some megabytes of ordinary rows."""

_MAGIC = b"PAR1"
_STREAM_BUFFER = 64 * 1024  # of each column, where rows are streamed from a disk
_FOOTER_GUESS = 64 * 1024  # what one read of the end brings; a bloom filter takes a second read
_AVRO_SCHEMA_KEYS = ("parquet.avro.schema", "avro.schema")
BLOOM_KEY = "org.apache.hudi.bloomfilter"
_BLOOM_KEYS = (BLOOM_KEY, "com.uber.hoodie.bloomfilter")
BLOOM_TYPE_KEY = "hoodie_bloom_filter_type_code"
MIN_KEY, MAX_KEY = "hoodie_min_record_key", "hoodie_max_record_key"
# Java compares keys by UTF-16 units, Spark by UTF-8 bytes; below this character they agree.
_FIRST_DISPUTED_CHARACTER = "\ue000"


def _parquet() -> Any:
    """Return pyarrow.parquet. Imported when the first file is read: to open a table needs none."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    return pq


@cache
def _opening_parameters() -> frozenset[str]:
    """Return the names of the parameters of ParquetFile, of which newer releases have more."""
    return frozenset(inspect.signature(_parquet().ParquetFile.__init__).parameters)


@contextmanager
def _decode_errors(what: str) -> Iterator[None]:
    """Turn exceptions of pyarrow on damaged bytes into CorruptError."""
    try:
        yield
    except BucketfmtError:
        raise
    except (pa.ArrowNotImplementedError, NotImplementedError) as error:
        raise UnsupportedError(f"{what}: {error}; rewrite the file by a clustering") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise CorruptError(f"{what}: {error}") from error


class BaseFileReader:
    """The rows and the footer of one parquet base file.

    Attributes:
        metadata: The parquet footer, for its counts. Its accessors of columns and statistics
            can end the process on a damaged file: use `find_row_groups`.
        schema: Columns of the file. Timestamps stored as INT96 are microseconds in UTC; lists
            and maps written by Avro or Spark, with two levels or three, are plain lists and maps.
    """

    def __init__(self, source: pa.NativeFile | pa.Buffer, limits: Limits = DEFAULT_LIMITS) -> None:
        """Open the file and check its footer; reads no rows.

        Raises:
            CorruptError: the file is not parquet, or the footer contradicts itself.
            UnsupportedError: the file uses a parquet feature that pyarrow does not read
                (encryption, a codec).
            LimitError: a row group, the file or the schema is larger than `limits` allow.
        """
        self._limits = limits
        self._source = source = pa.BufferReader(source) if isinstance(source, pa.Buffer) else source
        options: dict[str, Any] = {
            "coerce_int96_timestamp_unit": "us",
            "page_checksum_verification": True,  # costs a few per cent
            "thrift_string_size_limit": 2 * limits.bloom_filter_bytes_max,  # it is base64 there
        }
        known = _opening_parameters()
        if "arrow_extensions_enabled" in known:  # pyarrow >= 21
            options["arrow_extensions_enabled"] = False
        if "schema_depth_limit" in known:
            options["schema_depth_limit"] = limits.schema_depth_max
        self._options = options
        with _decode_errors("parquet footer"):
            self._footer_bytes, tail = _read_footer(source)
            footer = pa.BufferReader(_MAGIC + self._footer_bytes + tail)
            self.metadata: pq.FileMetaData = _parquet().ParquetFile(footer, **options).metadata
            self._file = _parquet().ParquetFile(source, metadata=self.metadata, **options)
            stored: pa.Schema = self._file.schema_arrow
        if len(set(stored.names)) < len(stored.names):
            raise CorruptError("parquet footer: two columns have the same name")
        self._check_sizes()
        check_levels(stored, self.metadata.schema)
        leaves = iter(range(self.metadata.num_columns))
        presented = (self._presented(field, leaves) for field in stored)
        self.schema = pa.schema([field.remove_metadata() for field in presented])

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return int(self.metadata.num_rows)

    @cached_property
    def key_values(self) -> dict[str, str]:
        """Footer entries, as text. A bloom filter takes most of a megabyte."""
        return _decode_key_values(self.metadata.metadata or {})

    @property
    def avro_schema(self) -> str | None:
        """The Avro schema (JSON) that the writer recorded, with meta columns; None if absent."""
        found = (self.key_values.get(key) for key in _AVRO_SCHEMA_KEYS)
        return next((text for text in found if text is not None), None)

    @property
    def codec(self) -> Codec | None:
        """How the file is compressed; None if the file has no rows.

        A codec that bucketfmt does not write counts as gzip, Hudi's default, which all readers
        know.
        """
        number = self._footer.codec
        return None if number is None else CODECS.get(number, "gzip")

    @property
    def key_range(self) -> tuple[str, str] | None:
        """Least and greatest record key that the writer recorded; None if absent."""
        low, high = self.key_values.get(MIN_KEY), self.key_values.get(MAX_KEY)
        return None if low is None or high is None else (low, high)

    @cached_property
    def bloom_filter(self) -> BloomFilter | None:
        """The bloom filter over record keys; None if the file has no bloom filter.

        Raises:
            CorruptError: the filter does not decode.
        """
        for key in _BLOOM_KEYS:
            if key in self.key_values:
                code = self.key_values.get(BLOOM_TYPE_KEY)
                return decode_bloom_filter(self.key_values[key], code, self._limits)
        return None

    def check_nullable(self, columns: Sequence[str]) -> None:
        """Check that columns are stored with levels if they are nullable, and without otherwise.

        For columns whose nullability differs between the footer and another source: one of the two
        is damaged, or the columns were written that way. Only footers of parquet-mr, Hudi's own
        writer, allow the check.

        Raises:
            CorruptError: a column is stored otherwise; the footer is damaged.
        """
        if not columns or not self._footer.created_by.startswith(b"parquet-mr"):
            return
        numbers = {name: number for number, (name, _) in enumerate(self._footer.leaves)}
        for name in columns:
            field, number = self._field(name), numbers.get(name)
            if number is None or field is None:
                continue
            if self._footer.has_levels[number] != field.nullable:
                raise CorruptError(
                    f"parquet footer: column {name!r} is stored as nullable where it "
                    "is not, or the reverse; restore the "
                    "file"
                )

    def read(
        self,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
        use_threads: bool = True,
    ) -> pa.Table:
        """Return rows of the given row groups (all by default), in the file's order.

        Columns that the file lacks are left out; the caller conforms the rows.

        Raises:
            CorruptError: the pages do not decode, their checksum is wrong, or they hold another
                number of rows than the footer states.
        """
        groups = range(self.metadata.num_row_groups) if row_groups is None else row_groups
        names = None if columns is None else list(columns)
        with _decode_errors("parquet rows"):
            rows = self._file.read_row_groups(list(groups), names, use_threads=use_threads)
        self._check_row_count(rows.num_rows, groups)
        rows = conform(rows, self._selected(rows.schema))
        # A table without columns would lose its number of rows.
        return rows.replace_schema_metadata() if rows.num_columns else rows

    @cached_property
    def row_groups(self) -> list[GroupLayout]:
        """Where the row groups lie.

        Raises:
            CorruptError: the footer does not decode, or points outside of the file.
        """
        content_end = self._source.size() - len(self._footer_bytes) - 2 * len(_MAGIC)
        return decode_layout(self._footer_bytes, content_end)

    def read_stored(
        self, columns: Sequence[str], row_group: int
    ) -> tuple[pa.Table, dict[str, StoredColumn]]:
        """Return the rows of a row group, and its columns as they are stored.

        The bytes are read once and held in memory; `row_groups` tells how many bytes a row group
            has.

        Raises:
            CorruptError: as `read` and `row_groups` say.
        """
        group = self.row_groups[row_group]
        source, (start, end), (index_start, index_end) = self._source, group.pages, group.page_index
        pages = pa.py_buffer(source.read_at(end - start, start))
        page_index = pa.py_buffer(source.read_at(index_end - index_start, index_start))
        if pages.size < end - start or page_index.size < index_end - index_start:
            raise CorruptError("the file ends within its rows", offset=end)
        with _decode_errors("parquet rows"):
            held = open_window(pages, start, source.size())
            file = _parquet().ParquetFile(
                held, metadata=self.metadata, pre_buffer=False, **self._options
            )
            rows = file.read_row_group(row_group, list(columns), use_threads=False)
        self._check_row_count(rows.num_rows, [row_group])
        rows = conform(rows, self._selected(rows.schema)).replace_schema_metadata()
        return rows, stored_columns(group, pages, page_index)

    def iter_batches(
        self,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
        batch_rows: int = BATCH_ROWS,
        use_threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `read` returns, at most `batch_rows` rows at a time.

        Memory follows the batch: of a file on disk, a small buffer of each column is held. Of a
        remote file, where every read is a request, a row group is fetched at once.

        Raises:
            CorruptError: the pages do not decode, their checksum is wrong, or they hold another
                number of rows than the footer states.
        """
        names = None if columns is None else list(columns)
        groups = list(range(self.metadata.num_row_groups) if row_groups is None else row_groups)
        file, row_count = self._file, 0
        with _decode_errors("parquet rows"):
            if isinstance(self._source, pa.OSFile):
                file = _parquet().ParquetFile(
                    self._source,
                    metadata=self.metadata,
                    pre_buffer=False,
                    buffer_size=_STREAM_BUFFER,
                    **self._options,
                )
            batches = file.iter_batches(
                batch_rows, row_groups=groups, columns=names, use_threads=use_threads
            )
        while True:
            with _decode_errors("parquet rows"):
                batch = next(batches, None)
            if batch is None:
                self._check_row_count(row_count, groups)
                return
            row_count += batch.num_rows
            yield conform(batch, self._selected(batch.schema)).replace_schema_metadata()

    def find_row_groups(self, wanted: Filter, table_schema: pa.Schema) -> list[int]:
        """Return the row groups that may hold a row that passes `wanted`.

        `table_schema` is the schema that the rows are conformed to before they are filtered. A
        column whose type changed since the file was written excludes no row group.

        Raises:
            CorruptError: the footer does not decode.
        """
        columns = self.schema.names if wanted.columns is None else wanted.columns
        alike = [
            field
            for name in columns
            if (field := self._field(name)) is not None
            and table_schema.get_field_index(name) >= 0
            and field.type.equals(table_schema.field(name).type)
        ]
        groups = self._footer.ranges(pa.schema(alike))
        return [number for number, group in enumerate(groups) if wanted.may_match(group)]

    def may_hold_keys(self, record_keys: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each record key whether the file may hold it; False is certain.

        Uses the recorded key range and the bloom filter, as Hudi's bloom index does.

        Raises:
            CorruptError: the bloom filter does not decode.
        """
        possible = np.ones(len(record_keys), np.bool_)
        if self.key_range is not None:
            low, high = self.key_range
            if max(low, default="") < _FIRST_DISPUTED_CHARACTER:
                possible &= _truth(pc.greater_equal(record_keys, low))
            if max(high, default="") < _FIRST_DISPUTED_CHARACTER:
                possible &= _truth(pc.less_equal(record_keys, high))
        if possible.any() and self.bloom_filter is not None:
            candidates = record_keys.filter(pa.array(possible))
            possible[possible] = self.bloom_filter.might_contain_many(candidates)
        return possible

    def find_row_groups_of_keys(self, record_keys: pa.Array) -> list[int]:
        """Return the row groups that may hold any of the keys, by the statistics of the key column.

        A bloom filter has no checksum. So if the filter says that a key is absent, the key column
        is read, which verifies the checksums of its pages.

        Raises:
            CorruptError: the bloom filter does not decode, or denies a key that the file has; or
                the recorded key range differs from the statistics.
        """
        field = self._field(RECORD_KEY)
        ranges = self._footer.ranges(pa.schema([] if field is None else [field]))
        keys_of_groups = [group.columns.get(RECORD_KEY) for group in ranges]
        _check_key_range(self.key_range, keys_of_groups)

        def groups_of(keys: pa.Array) -> list[int]:
            return [
                number
                for number, group in enumerate(keys_of_groups)
                if len(keys) and _may_hold_key(group, keys)
            ]

        possible = pa.array(self.may_hold_keys(record_keys))
        absent = record_keys.filter(pc.invert(possible))
        doubted = groups_of(absent) if field is not None else []
        if doubted:
            stored = self.read([RECORD_KEY], doubted)[RECORD_KEY]
            if pc.any(pc.is_in(stored, absent)).as_py():
                raise CorruptError(
                    "parquet footer: the bloom filter says that a key is absent which is there; "
                    "restore the file, or rewrite it by a clustering"
                )
        return groups_of(record_keys.filter(possible))

    def _field(self, name: str) -> pa.Field | None:
        index = self.schema.get_field_index(name)
        return self.schema.field(index) if index >= 0 else None

    @cached_property
    def _footer(self) -> ParquetFooter:
        return decode_footer(self._footer_bytes)

    def _selected(self, schema: pa.Schema) -> pa.Schema:
        """The presented fields of the columns of `schema`."""
        return pa.schema([self.schema.field(name) for name in schema.names])

    def _check_row_count(self, row_count: int, row_groups: Iterable[int]) -> None:
        """Check that the row groups returned as many rows as the footer states.

        Arrow passes over a page whose header does not tell that the page holds values, and ends
        with fewer rows and no error.
        """
        stated = sum(self.metadata.row_group(number).num_rows for number in row_groups)
        if row_count != stated:
            raise CorruptError(
                f"the pages hold {row_count} rows where the footer states {stated}; restore the "
                "file from a backup"
            )

    def _check_sizes(self) -> None:
        limits, metadata = self._limits, self.metadata
        limits.check("base_file_rows_max", metadata.num_rows)
        limits.check("schema_fields_max", metadata.num_columns)
        total = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if group.num_rows < 0 or group.total_byte_size < 0:
                raise CorruptError(f"parquet footer: row group {number} has a negative size")
            limits.check("row_group_rows_max", group.num_rows)
            limits.check("row_group_bytes_max", group.total_byte_size)
            total += group.num_rows
        if total != metadata.num_rows:
            raise CorruptError(
                f"parquet footer: {metadata.num_rows} rows in all, {total} in its row groups"
            )

    def _presented(self, field: pa.Field, leaves: Iterator[int]) -> pa.Field:
        """Return `field` with plain lists and values, and UTC on timestamps stored as INT96."""
        kind = field.type
        if pa.types.is_struct(kind):
            return field.with_type(pa.struct([self._presented(child, leaves) for child in kind]))
        if pa.types.is_map(kind):
            key = self._presented(kind.key_field, leaves)
            return field.with_type(pa.map_(key, self._presented(kind.item_field, leaves)))
        if (
            pa.types.is_list(kind)
            or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)
        ):
            return field.with_type(pa.list_(self._presented(kind.value_field, leaves)))
        if pa.types.is_nested(kind):
            raise UnsupportedError(f"column {field.name}: {kind} is not a type of Hudi's")
        leaf = next(leaves, None)
        if leaf is None:
            raise CorruptError("parquet footer: fewer columns than its Arrow schema has")
        if self.metadata.schema.column(leaf).physical_type == "INT96":
            return field.with_type(pa.timestamp("us", "UTC"))
        return field.with_type(kind.value_type) if pa.types.is_dictionary(kind) else field


def _read_footer(source: pa.NativeFile) -> tuple[bytes, bytes]:
    """Return the FileMetaData and the eight bytes after it, in one or two reads."""
    size = source.size()
    start = max(size - _FOOTER_GUESS, 0)
    source.seek(start)
    end = source.read(size - start)
    if end[-4:] == b"PARE":
        raise UnsupportedError("the file is encrypted")
    if size < 3 * len(_MAGIC) or end[-4:] != _MAGIC:
        raise CorruptError(
            "not a parquet file: the last bytes are not the parquet magic", offset=size
        )
    length = int.from_bytes(end[-8:-4], "little")
    if length > size - 3 * len(_MAGIC):
        raise CorruptError(
            "parquet footer: the stated length is longer than the file", offset=size - 8
        )
    if length > len(end) - 8:
        source.seek(size - 8 - length)
        end = source.read(length + 8)
    return end[-8 - length : -8], end[-8:]


def _check_key_range(stated: tuple[str, str] | None, groups: Sequence[ColumnRange | None]) -> None:
    """Check that the key range that Hudi recorded equals the range of parquet's statistics.

    Raises:
        CorruptError: the ranges differ, so one of the two is damaged.
    """
    lows = [group.low for group in groups if group is not None and isinstance(group.low, str)]
    highs = [group.high for group in groups if group is not None and isinstance(group.high, str)]
    if stated is None or not len(groups) == len(lows) == len(highs) > 0:
        return
    low, high = stated
    # Where the two orders pick different keys, they part at such a character.
    if max(f"{low}{high}{min(lows)}{max(highs)}", default="") >= _FIRST_DISPUTED_CHARACTER:
        return
    # Statistics may be cut short: then they are prefixes.
    if not (low.startswith(min(lows)) and high.startswith(max(highs))):
        raise CorruptError(
            f"parquet footer: keys {low!r} to {high!r}, and {min(lows)!r} to {max(highs)!r} by the "
            "statistics of the key column; restore the file"
        )


def _may_hold_key(keys: ColumnRange | None, candidates: pa.Array) -> bool:
    if keys is None or not isinstance(keys.low, str) or not isinstance(keys.high, str):
        return True
    # The greatest may have been cut short by the writer: then it is a prefix.
    below = pc.or_(pc.less_equal(candidates, keys.high), pc.starts_with(candidates, keys.high))
    return bool(pc.any(pc.and_(pc.greater_equal(candidates, keys.low), below)).as_py())


def _truth(answer: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A boolean array as numpy, null as False."""
    truth: np.ndarray[Any, np.dtype[np.bool_]] = answer.fill_null(False).to_numpy(
        zero_copy_only=False
    )
    return truth


def _decode_key_values(raw: dict[bytes, bytes]) -> dict[str, str]:
    """Return the entries as text; undecodable bytes are replaced, so such a key is not Hudi's."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in raw.items()
    }
