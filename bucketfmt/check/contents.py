"""What is inside the files of a slice: footers and log framing, and at depth full every page
checksum and every key.

I/O: opens the files of the slices readers see. T002; keys go to a `KeyTally`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import pyarrow as pa

from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.keys import KeyTally
from bucketfmt.check.log_spans import iter_log_spans
from bucketfmt.check.pages import check_pages
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.format.delete_records import decode_delete_block
from bucketfmt.format.log_block import BlockType, CorruptSpan, HeaderKey, LogBlock
from bucketfmt.format.names import BaseFileName
from bucketfmt.rows.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.base_file import BaseFileReader
from bucketfmt.rows.meta_columns import RECORD_KEY
from bucketfmt.rows.virtual_keys import record_keys
from bucketfmt.table.files import DataFile, FileSlice

__all__ = ["SliceExaminer"]

_LOG_BYTES_AT_ONCE = 128 << 20  # of all threads together; a larger file is read alone
_KNOWN_HEADER_KEYS = frozenset(HeaderKey)


class SliceExaminer:
    """Opens the files of file slices. Safe to use from several threads."""

    def __init__(self, state: ExaminedState, with_keys: bool) -> None:
        self._state = state
        self._with_keys = with_keys
        self._budget = _ByteBudget(_LOG_BYTES_AT_ONCE)
        self._parse_schema = lru_cache(maxsize=64)(
            lambda text: parse_avro_schema(text, state.limits)
        )

    def examine(self, file_slice: FileSlice, tally: KeyTally) -> Iterator[Event]:
        """Yield what is wrong with the files of a slice; its keys go to `tally`."""
        for file in file_slice.files:
            if not _is_whole(file):
                continue  # told by the listing
            is_base = isinstance(file.name, BaseFileName)
            try:
                yield from (
                    self._examine_base(file, tally) if is_base else self._examine_log(file, tally)
                )
            except BucketfmtError as error:
                error.within(path=file.path)
                yield event_of_error(error, "T002", file.path, partition=file_slice.partition_path)
            except OSError as error:
                yield NotChecked(file.path, f"the store failed: {error}")
        if tally.nulls:
            yield Finding.of(
                "T002",
                f"{tally.nulls} records without a record key",
                partition=file_slice.partition_path,
                paths=[file.path for file in file_slice.files],
            )

    # -- base files

    def _examine_base(self, file: DataFile, tally: KeyTally) -> Iterator[Event]:
        if isinstance(file.name, BaseFileName) and file.name.extension != "parquet":
            raise UnsupportedError(f"base files in {file.name.extension} format")
        with self._state.store.open_arrow(file.path) as source:
            reader = BaseFileReader(source, self._state.limits)
            _ = reader.bloom_filter
            yield Counted("base files opened")
            if not self._with_keys:
                return
            counts = check_pages(source)
            yield Counted("pages", counts.pages)
            if counts.with_checksum < counts.pages:
                yield NotChecked(
                    file.path, "pages without a checksum: only keys were decoded", is_gap=False
                )
            columns = self._key_columns(reader.schema)
            for batch in reader.iter_batches(columns, use_threads=False):
                self._add_keys(pa.Table.from_batches([batch]), tally)
                yield Counted("keys", batch.num_rows)

    # -- log files

    def _examine_log(self, file: DataFile, tally: KeyTally) -> Iterator[Event]:
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
                    yield from self._examine_block(span, tally)
                except BucketfmtError as error:
                    error.offset = span.offset  # it counts within the content
                    raise

    def _examine_block(self, block: LogBlock, tally: KeyTally) -> Iterator[Event]:
        if not _KNOWN_HEADER_KEYS.issuperset(block.header):
            raise UnsupportedError("a log block header of a later release")
        kind = block.block_type
        if kind is BlockType.COMMAND:
            _ = block.target_instant_time
            return
        instant = block.instant_time
        if kind in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA):
            _ = block.schema
        if not self._with_keys or not self._is_committed(instant):
            return
        keys = tally.keys
        if kind is BlockType.DELETE:
            deletes = decode_delete_block(block.content, self._state.limits)
            tally.add(pa.array(deletes.record_keys, pa.string()))
        elif kind is BlockType.AVRO_DATA:
            schema = self._parse_schema(block.schema)
            columns = self._key_columns(arrow_schema(schema))
            limits = self._state.limits
            self._add_keys(decode_avro_blocks([block.content], schema, limits, columns), tally)
        elif kind is BlockType.PARQUET_DATA:
            if len(block.content):
                reader = BaseFileReader(pa.py_buffer(block.content), self._state.limits)
                columns = self._key_columns(reader.schema)
                self._add_keys(reader.read(columns, use_threads=False), tally)
        else:
            raise UnsupportedError(f"{kind.name} log blocks")
        yield Counted("keys", tally.keys - keys)

    def _is_committed(self, instant: str) -> bool:
        # From version 8 on, the name of the file tells.
        state = self._state
        return state.config.table_version >= 8 or state.timeline.is_block_committed(instant)

    # -- keys

    def _key_columns(self, stored: pa.Schema) -> list[str]:
        config = self._state.config
        if config.populate_meta_fields:
            columns = [RECORD_KEY]
        else:
            fields = config.record_key_fields
            columns = [f if f in stored.names else f.partition(".")[0] for f in fields]
        missing = [column for column in columns if column not in stored.names]
        if missing and config.populate_meta_fields:
            raise CorruptError(f"no column {missing[0]}, which holds record keys")
        if missing:
            raise UnsupportedError(f"keys are made of {missing[0]}, which the file leaves out")
        return list(dict.fromkeys(columns))

    def _add_keys(self, rows: pa.Table, tally: KeyTally) -> None:
        config = self._state.config
        if config.populate_meta_fields:
            column = rows.column(RECORD_KEY)
        elif config.record_key_fields:
            column = record_keys(rows, config)
        else:
            return
        for chunk in column.chunks:
            tally.add(chunk)


def _is_whole(file: DataFile) -> bool:
    try:
        return file.check_whole() > 0
    except CorruptError:
        return False


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
