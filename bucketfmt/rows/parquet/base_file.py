"""A base file: parquet rows, and the footer entries by which Hudi finds a key.

Reads only the source it is given. Sources: HoodieBloomFilterWriteSupport.finalizeMetadata,
HoodieAvroWriteSupport (footer).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.choices import Codec
from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.bloom import BloomFilter, decode_bloom_filter
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import cached_property
from bucketfmt.rows.columns.conform import conform
from bucketfmt.rows.columns.meta_columns import COMMIT_TIME, RECORD_KEY
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.rows.parquet.file_window import open_window
from bucketfmt.rows.parquet.footer_bytes import (
    BLOOM_KEY,
    FooterBytes,
    read_bloom_text,
    read_footer,
)
from bucketfmt.rows.parquet.parquet_chunks import (
    CODECS,
    GroupLayout,
    StoredColumn,
    decode_layout,
    stored_columns,
)
from bucketfmt.rows.parquet.parquet_footer import ParquetFooter, decode_codec, decode_footer
from bucketfmt.rows.parquet.parquet_opening import (
    check_sizes,
    open_parquet,
    presented_schema,
    text_bytes_max,
    translated_errors,
)
from bucketfmt.rows.recorded_keys import RecordedKeys, find_groups_of_keys
from bucketfmt.rows.row_ranges import RowGroupRanges

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

_STREAM_BUFFER = 64 * 1024  # of each column, where rows are streamed from a disk
_SMALL_BYTES = 1 << 20  # of all pages, decompressed
_AVRO_SCHEMA_KEYS = ("parquet.avro.schema", "avro.schema")
_BLOOM_KEYS = (BLOOM_KEY, "com.uber.hoodie.bloomfilter")
BLOOM_TYPE_KEY = "hoodie_bloom_filter_type_code"
MIN_KEY, MAX_KEY = "hoodie_min_record_key", "hoodie_max_record_key"


_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


class BaseFileReader:
    """The rows and the footer of one parquet base file.

    Attributes:
        metadata: The parquet footer, for its counts. Its accessors of columns and statistics
            can end the process on a damaged file: use `find_row_groups`.
        source: The file, as it was given.
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
        self.source = source = pa.BufferReader(source) if isinstance(source, pa.Buffer) else source
        with translated_errors("parquet footer"):
            self._footer_bytes, parsed = read_footer(
                source, partial(_parse_footer, limits=limits), text_bytes_max(limits)
            )
            self.metadata: pq.FileMetaData = parsed.metadata
            check_sizes(self.metadata, limits)
            self.schema = presented_schema(parsed)

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return int(self.metadata.num_rows)

    @property
    def num_row_groups(self) -> int:
        """Row groups of the file."""
        return int(self.metadata.num_row_groups)

    @cached_property
    def key_values(self) -> dict[str, str]:
        """Footer entries, as text. A bloom filter takes most of a megabyte."""
        text = read_bloom_text(self.source, self._footer_bytes)
        left_out = {} if text is None else {BLOOM_KEY: text.decode(errors="replace")}
        return self._entries | left_out

    @cached_property
    def _entries(self) -> dict[str, str]:
        """Footer entries, as text. The value of the bloom filter may be left out."""
        return _decode_key_values(self.metadata.metadata or {})

    @property
    def footer_size(self) -> int:
        """Bytes of the FileMetaData in the file."""
        return self._footer_bytes.size

    @cached_property
    def _is_small(self) -> bool:
        """Whether the rows are read in less time than threads take to begin with them."""
        groups = map(self.metadata.row_group, range(self.num_row_groups))
        return sum(int(group.total_byte_size) for group in groups) < _SMALL_BYTES

    @cached_property
    def _file(self) -> pq.ParquetFile:
        # Over a network, few requests count for more.
        read_ahead = not (self._is_small and isinstance(self.source, pa.OSFile))
        return open_parquet(
            self.source, self._limits, metadata=self.metadata, pre_buffer=read_ahead
        )

    def _open_streamed(self) -> pq.ParquetFile:
        """Open the file, which is on a disk, so that a small buffer of each column is held."""
        return open_parquet(
            self.source,
            self._limits,
            metadata=self.metadata,
            pre_buffer=False,
            buffer_size=_STREAM_BUFFER,
        )

    @cached_property
    def keys(self) -> RecordedKeys:
        """What the footer records of the record keys."""
        entries, source, footer = self._entries, self.source, self._footer_bytes
        low, high = entries.get(MIN_KEY), entries.get(MAX_KEY)
        key_range = None if low is None or high is None else (low, high)
        # Not a method: through it the reader would hold itself, and its file, until a collection.
        load = partial(_load_bloom_filter, entries, source, footer, self._limits)
        return RecordedKeys(key_range, load)

    @property
    def avro_schema(self) -> str | None:
        """The Avro schema (JSON) that the writer recorded, with meta columns; None if absent."""
        found = (self._entries.get(key) for key in _AVRO_SCHEMA_KEYS)
        return next((text for text in found if text is not None), None)

    @property
    def codec(self) -> Codec | None:
        """How the file is compressed; None if the file has no rows.

        A codec that bucketfmt does not write counts as gzip, Hudi's default, which all readers
        know.
        """
        groups = range(self.num_row_groups if self.metadata.num_columns else 0)
        for group in groups:  # pyarrow states no codec where there are no rows
            if self.metadata.row_group(group).num_rows:
                return CODECS.get(decode_codec(self._footer_bytes.thrift, group), "gzip")
        return None

    @property
    def bounds_nan(self) -> bool:
        """Whether `ranges` has no bounds of a column with NaN. Arrow leaves NaN out instead."""
        return self._is_of_parquet_mr

    @property
    def _is_of_parquet_mr(self) -> bool:
        return self._footer.created_by.startswith(b"parquet-mr")

    def check_nullable(self, columns: Sequence[str]) -> None:
        """Check that columns are stored with levels if they are nullable, and without otherwise.

        For columns whose nullability differs between the footer and another source: one of the two
        is damaged, or the columns were written that way. Only footers of parquet-mr, Hudi's own
        writer, allow the check.

        Raises:
            CorruptError: a column is stored otherwise; the footer is damaged.
        """
        if not columns or not self._is_of_parquet_mr:
            return
        numbers = {name: number for number, (name, _) in enumerate(self._footer.leaves)}
        for name in columns:
            field, number = self._field(name), numbers.get(name)
            if number is None or field is None:
                continue
            if self._footer.has_levels(number) != field.nullable:
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
        groups = range(self.num_row_groups) if row_groups is None else row_groups
        names = None if columns is None else list(columns)
        with translated_errors("parquet rows"):
            rows = self._file.read_row_groups(
                list(groups), names, use_threads=use_threads and not self._is_small
            )
        self._check_row_count(rows.num_rows, groups)
        rows = self._presented(rows)
        # A table without columns would lose its number of rows.
        return rows.replace_schema_metadata() if rows.num_columns else rows

    @cached_property
    def row_groups(self) -> list[GroupLayout]:
        """Where the row groups lie.

        Raises:
            CorruptError: the footer does not decode, or points outside of the file.
        """
        return decode_layout(self._footer_bytes.thrift, self._footer_bytes.start)

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
        source, (start, end), (index_start, index_end) = self.source, group.pages, group.page_index
        pages = pa.py_buffer(source.read_at(end - start, start))
        page_index = pa.py_buffer(source.read_at(index_end - index_start, index_start))
        if pages.size < end - start or page_index.size < index_end - index_start:
            raise CorruptError("the file ends within its rows", offset=end)
        stored = stored_columns(group, pages, page_index)
        twins = self._find_twins_of_keys(stored, columns)
        names = [name for name in columns if name not in twins]
        with translated_errors("parquet rows"):
            held = open_window(pages, start, source.size())
            file = open_parquet(
                held,
                self._limits,
                metadata=self.metadata,
                pre_buffer=False,
                read_dictionary=[n for n in names if n == COMMIT_TIME],
            )
            rows = file.read_row_group(row_group, names, use_threads=False)
        self._check_row_count(rows.num_rows, [row_group])
        rows = self._presented(rows, as_stored=(COMMIT_TIME,)).replace_schema_metadata()
        for name in twins:
            rows = rows.append_column(self.schema.field(name), rows.column(RECORD_KEY))
        return rows, stored

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
        groups = list(range(self.num_row_groups) if row_groups is None else row_groups)
        row_count = 0
        with translated_errors("parquet rows"):
            file = self._open_streamed() if isinstance(self.source, pa.OSFile) else self._file
            batches = file.iter_batches(
                batch_rows, row_groups=groups, columns=names, use_threads=use_threads
            )
        while True:
            with translated_errors("parquet rows"):
                batch = next(batches, None)
            if batch is None:
                self._check_row_count(row_count, groups)
                return
            row_count += batch.num_rows
            yield self._presented(batch).replace_schema_metadata()

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

    def ranges(self, columns: Sequence[str]) -> list[RowGroupRanges]:
        """Return, per row group, what its statistics say of columns.

        Raises:
            CorruptError: the footer does not decode.
        """
        fields = [field for name in columns if (field := self._field(name)) is not None]
        return self._footer.ranges(pa.schema(fields))

    def column_sizes(self) -> dict[str, tuple[int, int]]:
        """Return the bytes of each top-level column: compressed, and before compression.

        Raises:
            CorruptError: the footer does not decode.
        """
        footer = self._footer
        names = (name for name, _ in footer.leaves)
        sizes = zip(names, footer.sizes(), strict=True)
        return {name: size for name, size in sizes if name is not None}

    def find_row_groups_of_keys(self, record_keys: pa.Array) -> list[int]:
        """Return the row groups that may hold any of the keys, by the statistics of the key column.

        A bloom filter has no checksum. So if the filter says that a key is absent, the key column
        is read, which verifies the checksums of its pages.

        Raises:
            CorruptError: the bloom filter does not decode, or denies a key that the file has; or
                the recorded key range differs from the statistics.
        """
        keys_of_groups = [group.columns.get(RECORD_KEY) for group in self.ranges([RECORD_KEY])]
        self.keys.check_range(keys_of_groups)
        if not find_groups_of_keys(keys_of_groups, record_keys):
            return []
        possible = pa.array(self.keys.may_hold(record_keys))
        absent = record_keys.filter(pc.invert(possible))
        has_keys = self._field(RECORD_KEY) is not None
        doubted = find_groups_of_keys(keys_of_groups, absent) if has_keys else []
        if doubted:
            stored = self.read([RECORD_KEY], doubted)[RECORD_KEY]
            if pc.any(pc.is_in(stored, absent)).as_py():
                raise CorruptError(
                    "parquet footer: the bloom filter says that a key is absent which is there; "
                    "restore the file, or rewrite it by a clustering"
                )
        return find_groups_of_keys(keys_of_groups, record_keys.filter(possible))

    def _field(self, name: str) -> pa.Field | None:
        index = self.schema.get_field_index(name)
        return self.schema.field(index) if index >= 0 else None

    @cached_property
    def _footer(self) -> ParquetFooter:
        return decode_footer(self._footer_bytes.thrift)

    def _find_twins_of_keys(
        self, stored: Mapping[str, StoredColumn], columns: Sequence[str]
    ) -> list[str]:
        """Return columns with the stored bytes of the record keys, which are not decoded twice."""
        if RECORD_KEY not in columns:
            return []
        keys, kind = stored[RECORD_KEY], self.schema.field(RECORD_KEY).type
        others = [n for n in columns if n != RECORD_KEY and self.schema.field(n).type == kind]
        return [name for name in others if stored[name].has_values_of(keys)]

    def _presented(self, rows: _Rows, as_stored: Collection[str] = ()) -> _Rows:
        """Return rows as `schema` has their columns, but for those to leave as they are stored.

        Columns that were stored as dictionaries become plain, and may take far more memory.
        """
        target = [f if f.name in as_stored else self.schema.field(f.name) for f in rows.schema]
        with translated_errors("parquet rows"):
            return conform(rows, pa.schema(target))

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


def _parse_footer(footer: pa.NativeFile, limits: Limits) -> pq.ParquetFile:
    with translated_errors("parquet footer"):
        return open_parquet(footer, limits)


def _load_bloom_filter(
    entries: Mapping[str, str], source: pa.NativeFile, footer: FooterBytes, limits: Limits
) -> BloomFilter | None:
    kind = entries.get(BLOOM_TYPE_KEY)
    text = read_bloom_text(source, footer)
    if text is not None:
        return decode_bloom_filter(text, kind, limits)
    for key in _BLOOM_KEYS:
        if key in entries:
            return decode_bloom_filter(entries[key], kind, limits)
    return None


def _decode_key_values(raw: dict[bytes, bytes]) -> dict[str, str]:
    """Return the entries as text; undecodable bytes are replaced, so such a key is not Hudi's."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace") for key, value in raw.items()
    }
