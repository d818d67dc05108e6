"""The rows of one file slice: base file and log merged, filtered, in the table's columns.

I/O: opens the slice's files. Source: HoodieFileGroupReader.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError, CorruptError, UnsupportedError
from bucketfmt.format.delete_records import decode_delete_block
from bucketfmt.format.log_block import BlockType, HeaderKey, LogBlock
from bucketfmt.format.paths import parse_partition_path
from bucketfmt.rows.avro_decode import decode_avro_blocks
from bucketfmt.rows.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.base_file import BaseFileReader
from bucketfmt.rows.base_file_writer import ROW_GROUP_BYTES
from bucketfmt.rows.conform import Renames, conform
from bucketfmt.rows.filters import Filter
from bucketfmt.rows.log_entries import DeleteRun, RowRun, Run, find_merge_columns
from bucketfmt.rows.merge import MergedLog, merge_log
from bucketfmt.rows.merge_rules import MergeRules, find_merge_rules
from bucketfmt.rows.meta_columns import OPERATION, RECORD_KEY
from bucketfmt.rows.parquet_chunks import StoredColumn
from bucketfmt.rows.virtual_keys import record_keys
from bucketfmt.table.cross_checks import (
    check_block_columns,
    check_counts,
    check_file_columns,
    count_rows,
    find_nullability_changes,
)
from bucketfmt.table.evolution import find_renames
from bucketfmt.table.files import DataFile, FileSlice
from bucketfmt.table.read_basis import ReadBasis
from bucketfmt.table.schema import TableSchema
from bucketfmt.table.slice_blocks import SliceBlock, load_blocks
from bucketfmt.table.snapshot import Snapshot

__all__ = ["BasePiece", "RowSpec", "SliceMerge", "SliceReader"]

COMMIT_TIME = "_hoodie_commit_time"
_BATCH_ROWS = 65_536
_MERGE_BATCH_ROWS = 1 << 18  # each looks at all of the log again
_COPIED_BYTES = 64 << 10  # to encode less than that takes no longer than to copy it
_HELD_ROWS, _HELD_BYTES = 1 << 18, 4 * ROW_GROUP_BYTES  # of a row group, to hold it as a whole


@dataclass(frozen=True)
class RowSpec:
    """Which rows and columns to read of every slice.

    Attributes:
        table: The table's columns.
        output: The columns to return.
        row_filter: What rows must pass, after merging.
        read_optimized: Leave log files unread.
        keys: Only rows of these record keys.
        commit_times: Only rows these instants wrote.
    """

    table: TableSchema
    output: pa.Schema
    row_filter: Filter | None = None
    read_optimized: bool = False
    keys: pa.Array | None = None
    commit_times: frozenset[str] | None = None

    def counting(self) -> RowSpec:
        """Return the same without columns: only the number of rows is wanted."""
        return replace(self, output=pa.schema([]))


class BasePiece(NamedTuple):
    """Rows of a base file.

    Attributes:
        rows: In the columns asked for.
        stored: Where the rows are a row group: columns of it as they are stored.
    """

    rows: pa.Table
    stored: Mapping[str, StoredColumn] = {}


class SliceMerge(NamedTuple):
    """What is merged to read a slice. The rows are in more columns than those wanted."""

    log: MergedLog
    num_blocks: int
    base: Iterator[BasePiece]


class SliceReader:
    """Reads file slices of one snapshot. Safe to use from several threads."""

    def __init__(
        self, source: Snapshot | ReadBasis, spec: RowSpec, *, side_by_side: bool = False
    ) -> None:
        """`side_by_side`: slices keep all processors busy, so that each batch is one thread's."""
        self._basis = source if isinstance(source, ReadBasis) else source.basis
        self._side_by_side = side_by_side
        self._spec = spec

    def count(self, file_slice: FileSlice) -> int:
        """Return the number of rows; of a lone base file, as its footer has it."""
        spec, file = self._spec, file_slice.base_file
        narrowed = spec.row_filter is not None or spec.keys is not None
        if self._logs_of(file_slice) or narrowed or spec.commit_times is not None or file is None:
            return sum(rows.num_rows for rows in self.read(file_slice, None))
        with self._opened(file) as reader:
            return reader.num_rows

    def read(self, file_slice: FileSlice, batch_rows: int | None) -> Iterator[pa.Table]:
        """Yield the rows of a slice.

        Args:
            file_slice: What to read.
            batch_rows: About how many rows to hold at a time; None for a row group or more.

        Raises:
            CorruptError: a file is missing, cut or damaged.
            UnsupportedError: the slice has log files and the table merges in a way not built.
        """
        try:
            if self._logs_of(file_slice):
                yield from self._read_merged(file_slice, batch_rows)
            else:
                yield from self._read_base_only(file_slice, batch_rows)
        except BucketfmtError as error:
            raise error.within(partition=file_slice.partition_path) from None

    def merge(self, file_slice: FileSlice) -> SliceMerge:
        """Return the log of a slice and the base rows to apply it to, for who counts them.

        Raises:
            CorruptError: as `read` says; also while the base rows are read.
            UnsupportedError: as `read` says.
        """
        try:
            log, num_blocks = self._load_log(file_slice)
        except BucketfmtError as error:
            raise error.within(partition=file_slice.partition_path) from None
        return SliceMerge(log, num_blocks, self._base_pieces(file_slice, log.schema))

    def read_pieces(self, file_slice: FileSlice) -> Iterator[BasePiece]:
        """Yield the rows of a slice, for who writes them again.

        Raises:
            CorruptError: as `read` says.
            UnsupportedError: as `read` says.
        """
        if self._logs_of(file_slice):
            for rows in self._read_merged(file_slice, _MERGE_BATCH_ROWS):
                yield BasePiece(rows)
        else:
            for piece in self._base_pieces(file_slice, self._working_schema(merging=False)):
                yield BasePiece(self._finish(piece.rows), piece.stored)

    @contextmanager
    def opened_base(self, file_slice: FileSlice) -> Iterator[BaseFileReader | None]:
        """Open the base file of a slice, if it has one, for what its footer says.

        Raises:
            CorruptError: it is missing, or is no parquet.
        """
        if file_slice.base_file is None:
            yield None
        else:
            with self._opened(file_slice.base_file) as reader:
                yield reader

    def log_size(self, file_slice: FileSlice) -> int:
        """Return the bytes of the log files that are merged to read a slice."""
        return sum(file.size or 0 for file in self._logs_of(file_slice))

    def _logs_of(self, file_slice: FileSlice) -> tuple[DataFile, ...]:
        return () if self._spec.read_optimized else file_slice.log_files

    @cached_property
    def _rules(self) -> MergeRules:
        return find_merge_rules(self._basis.config)

    # -- base file alone

    def _read_base_only(self, file_slice: FileSlice, batch_rows: int | None) -> Iterator[pa.Table]:
        working = self._working_schema(merging=False)
        for rows in self._base_rows(file_slice, working, batch_rows, self._spec.row_filter):
            yield self._finish(rows)

    def _base_rows(
        self,
        file_slice: FileSlice,
        working: pa.Schema,
        batch_rows: int | None,
        row_filter: Filter | None,
    ) -> Iterator[pa.Table]:
        """Yield the rows of the base file, in the working schema; a row group that no wanted
        row can be in is not read.
        """
        file = file_slice.base_file
        if file is None:
            return
        renames = self._renames(file.name.instant)
        with self._opened(file) as reader:
            self._check_file(reader, file.name.instant)
            groups = self._row_groups(reader, row_filter if renames is None else None)
            names = _stored_names(working, reader.schema, renames)
            for rows in self._read_groups(reader, names, groups, batch_rows):
                yield self._complete(conform(rows, working, renames), file_slice)

    def _base_pieces(self, file_slice: FileSlice, working: pa.Schema) -> Iterator[BasePiece]:
        """Yield the rows of the base file: row groups to copy from, and batches of others."""
        file = file_slice.base_file
        if file is None:
            return
        renames, config = self._renames(file.name.instant), self._basis.config
        told = config.partition_fields if config.drop_partition_columns else ()
        with self._opened(file) as reader:
            self._check_file(reader, file.name.instant)
            names = _stored_names(working, reader.schema, renames)
            for number in range(reader.metadata.num_row_groups):
                if renames is None and _is_copied(reader, number):
                    rows, stored = reader.read_stored(names, number)
                    yield BasePiece(
                        self._complete(conform(rows, working), file_slice),
                        {name: column for name, column in stored.items() if name not in told},
                    )
                    continue
                for rows in self._read_groups(reader, names, [number], _MERGE_BATCH_ROWS):
                    yield BasePiece(self._complete(conform(rows, working, renames), file_slice))

    @contextmanager
    def _opened(self, file: DataFile) -> Iterator[BaseFileReader]:
        file.check_exists()
        try:
            with self._basis.store.open_arrow(file.path) as source:
                yield BaseFileReader(source, self._basis.limits)
        except CorruptError as error:
            raise file.explained(error).within(path=file.path) from None
        except BucketfmtError as error:
            raise error.within(path=file.path) from None

    def _read_groups(
        self, reader: BaseFileReader, names: list[str], groups: list[int], batch_rows: int | None
    ) -> Iterator[pa.Table]:
        """Yield rows of row groups, one by one or in batches."""
        if batch_rows is None:
            for group in groups:
                yield reader.read(names, [group])
        elif groups:
            at_once, use_threads = max(batch_rows, _BATCH_ROWS), not self._side_by_side
            for batch in reader.iter_batches(names, groups, at_once, use_threads):
                yield pa.Table.from_batches([batch])

    def _row_groups(self, reader: BaseFileReader, row_filter: Filter | None) -> list[int]:
        groups = list(range(reader.metadata.num_row_groups))
        if row_filter is not None:
            groups = reader.find_row_groups(row_filter, self._spec.table.with_meta)
        if self._spec.keys is not None and self._basis.config.populate_meta_fields:
            with_keys = set(reader.find_row_groups_of_keys(self._spec.keys))
            groups = [group for group in groups if group in with_keys]
        return groups

    # -- base file and log

    def _read_merged(self, file_slice: FileSlice, batch_rows: int | None) -> Iterator[pa.Table]:
        merged, _ = self._load_log(file_slice)
        # Where a base row can stand against its log record, it has to be read to be compared.
        row_filter = None if self._rules.base_by_ordering else self._spec.row_filter
        for rows in self._base_rows(file_slice, merged.schema, batch_rows, row_filter):
            yield self._finish(merged.apply(self._of_commit_times(rows)))
        rows = self._finish(merged.remaining())
        for start in range(0, rows.num_rows, batch_rows or rows.num_rows or 1):
            yield rows.slice(start, batch_rows)

    def _load_log(self, file_slice: FileSlice) -> tuple[MergedLog, int]:
        """Return the merged log and its number of blocks.

        What its files hold is let go before rows are merged.
        """
        schema, num_blocks, runs = self._load_runs(file_slice)
        try:
            return merge_log(runs, self._rules, schema, self._basis.limits), num_blocks
        except BucketfmtError as error:
            error.message = f"file group {file_slice.file_id}: {error.message}"
            raise

    def _load_runs(self, file_slice: FileSlice) -> tuple[pa.Schema, int, list[Run]]:
        """Return the schema that rows of log and base have, and the blocks and what they say."""
        blocks = load_blocks(self._basis, file_slice, self._is_wanted_block)
        marks_operations = any(
            f'"{OPERATION}"' in block.header.get(HeaderKey.SCHEMA, "") for _, block in blocks
        )
        working = self._working_schema(merging=True, marks_operations=marks_operations)
        return working, len(blocks), self._decode_blocks(file_slice, blocks, working)

    def _is_wanted_block(self, instant_time: str) -> bool:
        """Whether blocks of an instant take part: committed, and of the range asked for."""
        times = self._spec.commit_times
        if times is not None and instant_time not in times:
            return False
        return self._basis.is_block_committed(instant_time)

    def _decode_blocks(
        self, file_slice: FileSlice, blocks: Sequence[SliceBlock], working: pa.Schema
    ) -> list[Run]:
        runs: list[Run] = []
        rows_found: Counter[str] = Counter()
        deletes_found: Counter[str] = Counter()
        for kind, alike in groupby(blocks, lambda member: self._run_key(member.block)):
            members = list(alike)
            if kind[0] is BlockType.DELETE:
                self._check_columns_of_deletes([member.block for member in members])
                for member in members:
                    run = self._decode_deletes(member)
                    runs.append(run)
                    deletes_found[member.block.instant_time] += len(run.block)
                continue
            is_partial = members[0].block.header.get(HeaderKey.IS_PARTIAL) == "true"
            for rows in self._decode_members(members, working):
                runs.append(RowRun(self._of_keys(self._complete(rows, file_slice)), is_partial))
            for _, block in members:
                rows_found[block.instant_time] += count_rows(block, self._basis.limits)
        check_counts(
            file_slice,
            [block for _, block in blocks],
            rows_found,
            deletes_found,
            self._is_wanted_block,
        )
        return runs

    def _decode_deletes(self, member: SliceBlock) -> DeleteRun:
        try:
            return DeleteRun(decode_delete_block(member.block.content, self._basis.limits))
        except BucketfmtError as error:
            raise member.place(error) from None

    def _decode_members(
        self, members: Sequence[SliceBlock], working: pa.Schema
    ) -> Iterator[pa.Table]:
        """Yield the rows of blocks of one key; where that fails, say which block it is."""
        try:
            yield from self._decode_rows([member.block for member in members], working)
        except BucketfmtError as error:
            if len(members) == 1:
                raise members[0].place(error) from None
            for member in members:
                deque(self._decode_members([member], working), maxlen=0)
            raise

    def _run_key(self, block: LogBlock) -> tuple[BlockType, str, str, str]:
        """Blocks of one key decode together. The instant counts where names went by it."""
        header = block.header
        instant = block.instant_time if self._spec.table.internal is not None else ""
        return (
            block.block_type,
            header.get(HeaderKey.SCHEMA, ""),
            header.get(HeaderKey.IS_PARTIAL, ""),
            instant,
        )

    def _decode_rows(self, blocks: Sequence[LogBlock], working: pa.Schema) -> Iterator[pa.Table]:
        limits, first = self._basis.limits, blocks[0]
        renames = self._renames(first.instant_time)
        if first.block_type is BlockType.AVRO_DATA:
            written = parse_avro_schema(first.schema, limits)
            stored = arrow_schema(written)
            self._check_columns(stored, blocks)
            names = _stored_names(working, stored, renames)
            rows = decode_avro_blocks([b.content for b in blocks], written, limits, names)
            yield conform(rows, working, renames)
        elif first.block_type is BlockType.PARQUET_DATA:
            for block in blocks:
                if len(block.content):
                    reader = BaseFileReader(pa.py_buffer(block.content), limits)
                    self._check_file(reader, block.instant_time)
                    names = _stored_names(working, reader.schema, renames)
                    yield conform(reader.read(names), working, renames)
        else:
            raise UnsupportedError(
                f"{first.block_type.name} log blocks of rows; compact the table with Hudi"
            )

    def _check_columns_of_deletes(self, blocks: Sequence[LogBlock]) -> None:
        """A commit that only deletes may be the newest, whose columns are the table's."""
        text = blocks[0].header.get(HeaderKey.SCHEMA)
        if text is not None:
            self._check_columns(arrow_schema(parse_avro_schema(text, self._basis.limits)), blocks)

    def _check_file(self, reader: BaseFileReader, instant: str) -> None:
        stated = self._basis.stated_columns(instant)
        if stated is not None:
            check_file_columns(reader.schema, stated)
            reader.check_nullable(find_nullability_changes(reader.schema, stated))

    def _check_columns(self, stored: pa.Schema, blocks: Sequence[LogBlock]) -> None:
        for instant in dict.fromkeys(block.instant_time for block in blocks):
            check_block_columns(stored, self._basis.stated_columns(instant))

    # -- columns

    def _working_schema(self, *, merging: bool, marks_operations: bool = False) -> pa.Schema:
        """The columns to read: those wanted, and those it takes to merge and to filter."""
        spec, table = self._spec, self._spec.table.with_meta
        if marks_operations:
            table = table.append(pa.field(OPERATION, pa.string()))
        names = list(spec.output.names)
        if spec.row_filter is not None:
            names += spec.row_filter.columns or spec.table.data.names
        if spec.commit_times is not None:
            names.append(COMMIT_TIME)
        if merging:
            names += find_merge_columns(self._rules, table)
        if merging or spec.keys is not None:
            names.append(RECORD_KEY)
        if RECORD_KEY in names and not self._basis.config.populate_meta_fields:
            names += self._basis.config.record_key_fields
        return pa.schema([table.field(name) for name in dict.fromkeys(names)])

    def _complete(self, rows: pa.Table, file_slice: FileSlice) -> pa.Table:
        """Fill the columns that files leave out because something else tells them."""
        config = self._basis.config
        if config.drop_partition_columns and config.partition_path_holds_values:
            values = parse_partition_path(
                file_slice.partition_path,
                config.partition_fields,
                config.hive_style,
                config.url_encode,
            )
            for name, text in zip(config.partition_fields, values, strict=True):
                index = rows.schema.get_field_index(name)
                if index >= 0:
                    field = rows.schema.field(index)
                    value = pa.scalar(text, pa.string()).cast(field.type)
                    rows = rows.set_column(index, field, pa.repeat(value, rows.num_rows))
        index = rows.schema.get_field_index(RECORD_KEY)
        if index >= 0 and not config.populate_meta_fields:
            rows = rows.set_column(index, rows.schema.field(index), record_keys(rows, config))
        return rows

    def _renames(self, written_at: str) -> Renames | None:
        return find_renames(self._spec.table.internal, self._basis.schema_history, written_at)

    def _of_keys(self, rows: pa.Table) -> pa.Table:
        if self._spec.keys is None:
            return rows
        return rows.filter(pc.is_in(rows.column(RECORD_KEY), self._spec.keys))

    def _of_commit_times(self, rows: pa.Table) -> pa.Table:
        """Return only what the instants of the range wrote.

        As in Hudi, their rows are merged among themselves alone: a late record is a change
        although an older instant wrote a newer one, and the table shows that.
        """
        if self._spec.commit_times is None:
            return rows
        times = pa.array(sorted(self._spec.commit_times), pa.string())
        return rows.filter(pc.is_in(rows.column(COMMIT_TIME), times))

    def _finish(self, rows: pa.Table) -> pa.Table:
        """Return the wanted rows, in the output's columns."""
        spec = self._spec
        rows = self._of_commit_times(self._of_keys(rows))
        if spec.row_filter is not None:
            rows = spec.row_filter.apply(rows)
        return rows.select(spec.output.names)


def _is_copied(reader: BaseFileReader, row_group: int) -> bool:
    """Whether it is worth to copy columns of a row group, and it can be held as a whole."""
    if reader.metadata.row_group(row_group).total_byte_size < _COPIED_BYTES:
        return False
    return reader.row_groups[row_group].is_within(_HELD_ROWS, _HELD_BYTES)


def _stored_names(working: pa.Schema, stored: pa.Schema, renames: Renames | None) -> list[str]:
    """Return the columns to read of a file, under the names they have there."""
    names = (name if renames is None else renames.get(name, name) for name in working.names)
    return [name for name in names if name is not None and name in stored.names]
