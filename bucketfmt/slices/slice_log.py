"""The log of one file slice: its blocks, decoded and merged.

I/O: opens the slice's log files. Sources: HoodieMergedLogRecordReader, BaseHoodieLogRecordReader.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import BucketfmtError, UnsupportedError
from bucketfmt.format.log.delete_records import decode_delete_block
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.avro.row_blocks import AVRO_ROW_BLOCKS, decode_row_blocks
from bucketfmt.rows.columns.conform import conform
from bucketfmt.rows.columns.meta_columns import OPERATION
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun, Run
from bucketfmt.rows.merging.merge import MergedLog, merge_log
from bucketfmt.rows.row_file import ROW_FILE_BLOCKS, RowFile, open_row_block
from bucketfmt.slices.cross_checks import check_counts, count_rows
from bucketfmt.slices.slice_blocks import SliceBlock, load_blocks
from bucketfmt.slices.slice_columns import RowSpec, SliceColumns, stored_names
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.read_basis import ReadBasis

__all__ = ["SliceLog"]


class SliceLog:
    """Reads the logs of file slices of one snapshot. Safe to use from several threads."""

    def __init__(self, basis: ReadBasis, spec: RowSpec, columns: SliceColumns) -> None:
        self._basis, self._spec, self._columns = basis, spec, columns

    def load(self, file_slice: FileSlice) -> tuple[MergedLog, int]:
        """Return the merged log of a slice and its number of blocks.

        What its files hold is let go before rows are merged.

        Raises:
            CorruptError: a file is missing, cut or damaged.
            UnsupportedError: the table merges in a way not built, or a block is of a kind not read.
        """
        schema, num_blocks, runs = self.load_runs(file_slice)
        try:
            return merge_log(runs, self._columns.rules, schema, self._basis.limits), num_blocks
        except BucketfmtError as error:
            error.message = f"file group {file_slice.file_id}: {error.message}"
            raise

    def load_runs(self, file_slice: FileSlice) -> tuple[pa.Schema, int, list[Run]]:
        """Return the schema that rows of log and base have, the number of blocks, what they say.

        Raises:
            CorruptError: a file is missing, cut or damaged.
            UnsupportedError: a block is of a kind not read.
        """
        blocks, left_out = load_blocks(self._basis, file_slice, self._is_wanted_block)
        marks_operations = any(
            f'"{OPERATION}"' in block.header.get(HeaderKey.SCHEMA, "") for _, block in blocks
        )
        working = self._columns.working_schema(merging=True, marks_operations=marks_operations)
        runs = self._decode_blocks(file_slice, blocks, left_out, working)
        return working, len(blocks), runs

    def _is_wanted_block(self, instant_time: str) -> bool:
        """Whether blocks of an instant take part: committed, and of the range asked for."""
        times = self._spec.commit_times
        if times is not None and instant_time not in times:
            return False
        return self._basis.is_block_committed(instant_time)

    def _decode_blocks(
        self,
        file_slice: FileSlice,
        blocks: Sequence[SliceBlock],
        left_out: Container[str],
        working: pa.Schema,
    ) -> list[Run]:
        runs: list[Run] = []
        has_partial = any(block.is_partial for _, block in blocks)
        if has_partial:
            self._columns.check_partial()
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
            first = members[0].block
            held = self._held_columns(first) if has_partial else None
            for rows in self._decode_members(members, working):
                complete = self._columns.of_keys(self._columns.complete(rows, file_slice))
                runs.append(RowRun(complete, held, first.is_partial))
            for _, block in members:
                rows_found[block.instant_time] += count_rows(block, self._basis.limits)
        check_counts(
            file_slice,
            left_out,
            rows_found,
            deletes_found,
            self._is_wanted_block,
        )
        return runs

    def _held_columns(self, block: LogBlock) -> frozenset[str]:
        """Return the columns that rows of a block have, those included that its folder tells."""
        stored = arrow_schema(parse_avro_schema(block.schema, self._basis.limits))
        return frozenset(stored.names) | self._columns.filled

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
        renames = self._columns.renames(first.instant_time)
        if first.block_type in AVRO_ROW_BLOCKS:
            written = parse_avro_schema(first.schema, limits)
            stored = arrow_schema(written)
            self._columns.check_columns(stored, blocks)
            names = stored_names(working, stored, renames)
            keys = self._columns.wanted_keys(stored)
            rows = decode_row_blocks(blocks, written, limits, names, keys)
            yield conform(rows, working, renames)
        elif first.block_type in ROW_FILE_BLOCKS:
            for block in blocks:
                if len(block.content):
                    reader = open_row_block(block, limits)
                    self._columns.check_file(reader, block.instant_time)
                    if not self._may_be_wanted(reader):
                        continue
                    names = stored_names(working, reader.schema, renames)
                    yield conform(reader.read(names), working, renames)
        else:
            raise UnsupportedError(
                f"{first.block_type.name} log blocks of rows; compact the table with Hudi"
            )

    def _may_be_wanted(self, block: RowFile) -> bool:
        """Return whether rows of a block may have wanted keys, after reading their keys alone."""
        keys = self._columns.wanted_keys(block.schema)
        if keys is None:
            return True
        stored = block.read([keys.column]).column(0)
        return pc.any(pc.is_in(stored, keys.values)).as_py() is True

    def _check_columns_of_deletes(self, blocks: Sequence[LogBlock]) -> None:
        """A commit that only deletes may be the newest, whose columns are the table's."""
        text = blocks[0].header.get(HeaderKey.SCHEMA)
        if text is not None:
            self._columns.check_columns(
                arrow_schema(parse_avro_schema(text, self._basis.limits)), blocks
            )
