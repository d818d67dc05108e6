"""What is inside the files of a slice: footers, columns and log framing, and at depth full every
page checksum and every key.

I/O: opens the files of the slices readers see. T002, T011; keys go to a `KeyTally`. What a reader
would refuse is a finding here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import pyarrow as pa

from bucketfmt.check.contents.log_spans import iter_log_spans
from bucketfmt.check.contents.origins import (
    ORIGIN_COLUMNS,
    count_without_partition_path,
    find_displaced_base_file,
    find_displaced_deletes,
    find_displaced_rows,
)
from bucketfmt.check.contents.pages import check_pages
from bucketfmt.check.contents.texts import TextTally
from bucketfmt.check.examined import event_of_error
from bucketfmt.check.files.committed_files import find_size_fault
from bucketfmt.check.placement.keys import KeyTally
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.format.log.delete_records import decode_delete_block
from bucketfmt.format.log.log_block import BlockType, CorruptSpan, HeaderKey, LogBlock
from bucketfmt.format.log.log_file import check_block_header
from bucketfmt.format.log.virtual_log import is_virtual_log
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.limits import Limits
from bucketfmt.process import cached_property
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.avro.avro_types import AvroRecord
from bucketfmt.rows.avro.row_blocks import AVRO_ROW_BLOCKS, decode_row_blocks
from bucketfmt.rows.columns.broken_text import text_columns
from bucketfmt.rows.columns.column_paths import top_column
from bucketfmt.rows.columns.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import record_keys
from bucketfmt.rows.merging.merge_rules import find_partial_refusal
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.row_file import ROW_FILE_BLOCKS, ROW_FILE_FORMATS, RowFile, open_row_block
from bucketfmt.slices.cross_checks import (
    check_block_columns,
    check_counts,
    check_file_columns,
    count_rows,
    find_left_out,
    find_nullability_changes,
)
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.base_files import open_base_file
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.snapshot.data_files.virtual_logs import load_pointed
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["SliceExaminer"]

_LOG_BYTES_AT_ONCE = 128 << 20  # of all threads together; a larger file is read alone
_NOTHING = memoryview(b"")


@dataclass
class _LogCounts:
    """What the log files of a slice hold, to be compared with what commits recorded.

    Blocks that a rollback took back are counted too: only what is missing tells something.
    """

    blocks: list[LogBlock] = field(default_factory=list)  # without their content
    rows: Counter[str] = field(default_factory=Counter)
    deletes: Counter[str] = field(default_factory=Counter)


class SliceExaminer:
    """Opens the files of file slices. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot, with_keys: bool) -> None:
        self._snapshot = snapshot
        self._state = snapshot.state
        self._with_keys = with_keys
        self._budget = _ByteBudget(_LOG_BYTES_AT_ONCE)
        self._instants = {commit.requested_time for commit in self._state.commits if commit.files}
        limits = snapshot.state.limits
        self._parse_schema = lru_cache(maxsize=64)(partial(_parse_schema, limits=limits))

    @property
    def _may_break_text(self) -> bool:
        """Whether compactions of Hudi may have stored text that is not UTF-8."""
        config = self._state.config
        return config.table_type == "MERGE_ON_READ" and config.table_version >= 8

    @cached_property
    def _partial_refusal(self) -> str | None:
        by_column_id = bool(self._state.schema_history)
        return find_partial_refusal(self._state.config, by_column_id=by_column_id)

    def examine(self, file_slice: FileSlice, tally: KeyTally) -> Iterator[Event]:
        """Yield what is wrong with the files of a slice; its keys go to `tally`."""
        counts, is_sound = _LogCounts(), True
        for file in file_slice.files:
            if find_size_fault(file, self._state.config.table_version) is not None:
                is_sound = False
                continue  # told by the listing
            is_base = isinstance(file.name, BaseFileName)
            if (
                isinstance(file.name, BaseFileName)
                and file.name.extension.upper() not in ROW_FILE_FORMATS
            ):
                continue  # told of the whole table, by find_omissions
            try:
                if is_base:
                    yield from self._examine_base(file, tally)
                else:
                    yield from self._examine_log(file, tally, counts)
            except BucketfmtError as error:
                is_sound = False
                if isinstance(error, CorruptError) and not is_base:
                    error = file.explained(error)
                error.within(path=file.path)
                yield event_of_error(
                    error,
                    "T002",
                    file.path,
                    partition=file_slice.partition_path,
                    instants=[file.name.instant],
                )
            except OSError as error:
                is_sound = False
                yield NotChecked(file.path, f"the store failed: {error}")
        # Log files do not belong into a copy-on-write table: T004 tells.
        if is_sound and file_slice.log_files and self._state.config.table_type == "MERGE_ON_READ":
            yield from self._compare_counts(file_slice, counts)
            if self._with_keys and any(block.is_partial for block in counts.blocks):
                yield from self._try_updates(file_slice)
        if tally.nulls:
            yield Finding.of(
                "T002",
                f"{tally.nulls} records without a record key",
                partition=file_slice.partition_path,
                slices=[file_slice],
            )

    def _try_updates(self, file_slice: FileSlice) -> Iterator[Event]:
        """Merge a slice with updates of some columns, whose rows have to be there."""
        try:
            spec = RowSpec(self._snapshot.schema, pa.schema([]))
            SliceReader(self._snapshot, spec).count(file_slice)
        except BucketfmtError as error:
            path = file_slice.log_files[0].path
            yield event_of_error(error, "T002", path, partition=file_slice.partition_path)

    # -- base files

    def _examine_base(self, file: DataFile, tally: KeyTally) -> Iterator[Event]:
        with open_base_file(self._state.store, file, self._state.limits) as reader:
            _ = reader.keys.bloom_filter
            self._check_columns(reader, file.name.instant)
            yield Counted("base files opened")
            odd = []
            if untold := [n for n in META_COLUMNS if _is_bytes(reader.schema, n)]:
                odd.append(f"{', '.join(untold)}: BINARY without annotation")
            if self._state.config.populate_meta_fields:
                origins = reader.ranges(ORIGIN_COLUMNS)
                if nulls := count_without_partition_path(origins):
                    odd.append(f"{PARTITION_PATH}: null in {nulls} rows")
                if not self._is_told(file):
                    partition_path = tally.file_slice.partition_path
                    yield from find_displaced_base_file(file, partition_path, origins)
            if odd:
                slices, paths = [tally.file_slice], [file.path]
                yield Finding.of("B013", "; ".join(odd), slices=slices, paths=paths)
            if not self._with_keys:
                return
            if isinstance(reader, BaseFileReader):
                counts = check_pages(reader.source)
                yield Counted("pages", counts.pages)
                if counts.with_checksum < counts.pages:
                    yield NotChecked(
                        file.path, "pages without a checksum: only keys were decoded", is_gap=False
                    )
            for group in range(reader.num_row_groups):
                # Types and codecs have no checksum: does the beginning of each column decode?
                next(reader.iter_batches(None, [group], 1, use_threads=False), None)
            keys = self._key_columns(reader.schema)
            texts = text_columns(reader.schema) if self._may_break_text else []
            broken = TextTally()
            for batch in reader.iter_batches([*dict.fromkeys([*keys, *texts])], use_threads=False):
                rows = pa.Table.from_batches([batch])
                broken.add(rows.select(texts), self._add_keys(rows, tally))
                yield Counted("keys", batch.num_rows)
            yield from broken.findings(file, tally.file_slice.partition_path)

    def _is_told(self, file: DataFile) -> bool:
        """Whether the listing told already that the commit of a file does not name it."""
        return file.written is None and file.name.instant in self._instants

    # -- log files

    def _examine_log(self, file: DataFile, tally: KeyTally, counts: _LogCounts) -> Iterator[Event]:
        size = file.size or 0
        committed = file.written.spans if file.written is not None else None
        yield Counted("log files read")
        with self._budget.spend(size):
            for span in iter_log_spans(self._state.store, file.path, size, self._state.limits):
                if isinstance(span, CorruptSpan):
                    if committed is None or _touches(span, committed):
                        raise CorruptError(
                            f"{span.end - span.offset} bytes are no sound block: {span.reason}",
                            offset=span.offset,
                        )
                    continue  # a write that failed
                yield Counted("log blocks")
                try:
                    yield from self._examine_block(file, span, tally, counts)
                except BucketfmtError as error:
                    error.offset = span.offset  # it counts within the content
                    raise

    def _examine_block(
        self, file: DataFile, block: LogBlock, tally: KeyTally, counts: _LogCounts
    ) -> Iterator[Event]:
        check_block_header(block)
        if block.block_type is BlockType.COMMAND and not is_virtual_log(block):
            _ = block.target_instant_time
            return
        if not self._is_committed(block.instant_time):
            return
        if is_virtual_log(block):
            path = tally.file_slice.partition_path
            for _, pointed in load_pointed(self._state.store, path, block, self._state.limits):
                yield from self._examine_block(file, pointed, tally, counts)
        else:
            yield from self._examine_rows(file, block, tally, counts)

    def _examine_rows(
        self, file: DataFile, block: LogBlock, tally: KeyTally, counts: _LogCounts
    ) -> Iterator[Event]:
        kind, instant, limits = block.block_type, block.instant_time, self._state.limits
        counts.blocks.append(replace(block, content=_NOTHING))
        if block.is_partial and self._partial_refusal is not None:
            why = f"log blocks of partial updates are not merged for {self._partial_refusal}"
            yield NotChecked(file.path, f"{why}; compact the table with Hudi")
        keys, stated = tally.keys, self._stated_columns(instant)
        if kind is BlockType.DELETE:
            if HeaderKey.SCHEMA in block.header:
                check_block_columns(self._parse_schema(block.schema)[1], stated)
            deletes = decode_delete_block(block.content, limits)
            counts.deletes[instant] += len(deletes)
            if self._with_keys:
                tally.add(pa.array(deletes.record_keys, pa.string()))
                yield from find_displaced_deletes(file, tally.file_slice.partition_path, deletes)
        elif kind in AVRO_ROW_BLOCKS:
            written, stored = self._parse_schema(block.schema)
            check_block_columns(stored, stated)
            if self._with_keys:
                rows = decode_row_blocks([block], written, limits, self._place_columns(stored))
                self._add_keys(rows, tally)
                yield from find_displaced_rows(file, tally.file_slice.partition_path, rows)
            counts.rows[instant] += count_rows(block, limits)
        elif kind in ROW_FILE_BLOCKS:
            _ = block.schema
            if len(block.content):
                reader = open_row_block(block, limits)
                self._check_columns(reader, instant)
                if self._with_keys:
                    rows = reader.read(self._place_columns(reader.schema), use_threads=False)
                    self._add_keys(rows, tally)
                    yield from find_displaced_rows(file, tally.file_slice.partition_path, rows)
                counts.rows[instant] += reader.num_rows
        else:
            raise UnsupportedError(f"{kind.name} log blocks")
        if self._with_keys:
            yield Counted("keys", tally.keys - keys)

    def _compare_counts(self, file_slice: FileSlice, counts: _LogCounts) -> Iterator[Event]:
        try:
            left_out = find_left_out(counts.blocks, counts.blocks)
            check_counts(file_slice, left_out, counts.rows, counts.deletes, self._is_committed)
        except CorruptError as error:
            yield Finding.of(
                "T002",
                error.message,
                partition=file_slice.partition_path,
                paths=[error.path] if error.path else [f.path for f in file_slice.log_files],
                instants={
                    counted.requested_time
                    for file in file_slice.log_files
                    if file.written is not None
                    for counted in file.written.counts
                },
            )

    def _check_columns(self, reader: RowFile, instant: str) -> None:
        stated = self._stated_columns(instant)
        if stated is not None:
            check_file_columns(reader.schema, stated)
            reader.check_nullable(find_nullability_changes(reader.schema, stated))

    def _stated_columns(self, instant: str) -> pa.Schema | None:
        try:
            return self._snapshot.stated_columns(instant)
        except BucketfmtError:
            return None  # told of the commit

    def _is_committed(self, instant: str) -> bool:
        return self._snapshot.basis.is_block_committed(instant)

    # -- keys

    def _key_columns(self, stored: pa.Schema) -> list[str]:
        config = self._state.config
        if config.populate_meta_fields:
            columns = [RECORD_KEY]
        else:
            fields = config.record_key_fields
            columns = [top_column(stored.names, field) for field in fields]
        missing = [column for column in columns if column not in stored.names]
        if missing and config.populate_meta_fields:
            raise CorruptError(f"no column {missing[0]}, which holds record keys")
        if missing:
            raise UnsupportedError(f"keys are made of {missing[0]}, which the file leaves out")
        return list(dict.fromkeys(columns))

    def _place_columns(self, stored: pa.Schema) -> list[str]:
        """Return the columns that tell a row's key and, where they are stored, its partition."""
        columns = self._key_columns(stored)
        is_told = self._state.config.populate_meta_fields and PARTITION_PATH in stored.names
        return [*columns, PARTITION_PATH] if is_told else columns

    def _add_keys(self, rows: pa.Table, tally: KeyTally) -> pa.ChunkedArray | None:
        """Give the keys of rows to the tally, and return them; None in a table without keys."""
        config = self._state.config
        if config.populate_meta_fields:
            column = rows.column(RECORD_KEY)
        elif config.record_key_fields:
            column = record_keys(rows, config, are_stored=True)
        else:
            return None
        for chunk in column.chunks:
            tally.add(chunk)
        return column


def _is_bytes(schema: pa.Schema, name: str) -> bool:
    place = schema.get_field_index(name)
    return place >= 0 and bool(pa.types.is_binary(schema.field(place).type))


def _parse_schema(text: str, limits: Limits) -> tuple[AvroRecord, pa.Schema]:
    schema = parse_avro_schema(text, limits)
    return schema, arrow_schema(schema)


def _touches(span: CorruptSpan, committed: tuple[tuple[int, int], ...]) -> bool:
    return any(span.offset < end and start < span.end for start, end in committed)


class _ByteBudget:
    """Lets threads hold so many bytes together; who wants more than all of it, holds it alone."""

    def __init__(self, total: int) -> None:
        self._total = self._left = total
        self._changed = threading.Condition()

    @contextmanager
    def spend(self, size: int) -> Iterator[None]:
        share = min(size, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= share)
            self._left -= share
        try:
            yield
        finally:
            with self._changed:
                self._left += share
                self._changed.notify_all()
