"""The half of a compaction that happens anywhere: one file slice becomes its next base file.

I/O. A `CompactionTask` is a small value that pickles, and a slice to rewrite is a hundred bytes or
so. Source: HoodieCompactor.compact.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bucketfmt.format.names.names import BaseFileName, IoType, MarkerName, parse_write_token
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.rows.columns.meta_rows import add_meta_fields, file_constants, merge_schema
from bucketfmt.rows.parquet.copying import find_codec_of
from bucketfmt.rows.parquet.parquet_chunks import Codec
from bucketfmt.slices.slice_codec import decode_slice
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.files import FileSlice
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.write.commit.receipts import Receipt, RowReport, encode_receipt
from bucketfmt.write.files.data_file import put_data_file
from bucketfmt.write.files.merged_base import encode_merged_base
from bucketfmt.write.files.row_report import RowReporter

__all__ = ["CompactionTask"]


@dataclass(frozen=True, eq=False)
class CompactionTask:
    """Rewrites slices for a compaction that was begun elsewhere.

    Pickles; holds the store's options, secrets among them. Safe to use from several threads.

    Attributes:
        basis: What reading a slice needs to know.
        schema: The table's columns.
        avro_schema: The same as Avro JSON, without Hudi's own.
        instant: The compaction's requested time.
        codec: Of parquet; None: of the base file before.
        new_codec: Of parquet where there is no base file before.
        reporter: Reports the rows of the files; None if no metadata table wants it.
    """

    basis: ReadBasis
    schema: TableSchema
    avro_schema: str
    instant: str
    codec: Codec | None
    new_codec: Codec
    reporter: RowReporter | None

    def compact(self, payload: bytes, write_token: str) -> bytes:
        """Write the next base file of one file group, and return the receipt.

        Doing it twice leaves a file too many, which `StartedCompaction.publish` removes.

        Args:
            payload: One of `StartedCompaction.payloads`.
            write_token: `<task>-<stage>-<attempt>`: three numbers that no other attempt has.

        Raises:
            CorruptError: a file of the slice is missing or damaged.
            UnsupportedError: blocks that are not read here; let Hudi execute the compaction.
            ConflictError: the compaction has ended meanwhile.
            StorageError: the store failed.
        """
        parse_write_token(write_token)
        file_slice = decode_slice(payload)
        stat, report = self._rewrite(file_slice, write_token)
        return encode_receipt(
            Receipt(
                partition_path=file_slice.partition_path,
                file_id=file_slice.file_id,
                write_token=write_token,
                stat=stat,
                report=report,
            )
        )

    def _rewrite(
        self, file_slice: FileSlice, write_token: str
    ) -> tuple[WriteStat, RowReport | None]:
        store, populated = self.basis.store, self.basis.config.populate_meta_fields
        output = merge_schema(self.schema.data, is_populated=populated)
        name = str(BaseFileName(file_slice.file_id, write_token, self.instant, "parquet"))
        reader = SliceReader(self.basis, RowSpec(self.schema, output), side_by_side=True)
        log, num_blocks, pieces = reader.merge(file_slice)
        with reader.opened_base(file_slice) as replaced:
            merged = encode_merged_base(
                log,
                pieces,
                replaced,
                add_meta_fields(self.avro_schema),
                file_constants(file_slice.partition_path, name, is_populated=populated),
                with_key_footer=populated,
                codec=self.codec or find_codec_of(replaced) or self.new_codec,
            )

        # Of keys that no base row had: what was logged and deleted again.
        deleted_before = len(log.record_keys) - log.num_matched - merged.num_inserts
        base = file_slice.base_file
        io_type = IoType.CREATE if base is None else IoType.MERGE
        marker = MarkerName(file_slice.partition_path, name, io_type)
        stat = put_data_file(store, self.instant, marker, file_slice.file_id, merged.data)
        report = None
        if self.reporter is not None:
            keys = merged.written_keys, merged.removed_keys
            report = self.reporter.of_base_file(name, merged.data, *keys)
        stat = msgspec.structs.replace(
            merged.complete(stat, base, self.basis.config.table_version),
            num_deletes=merged.num_deletes + deleted_before,
            num_update_writes=log.num_matched - merged.num_deletes,
            total_log_records=log.num_entries,
            total_updated_records_compacted=len(log.record_keys),
            total_log_blocks=num_blocks,
            total_log_files_compacted=len(file_slice.log_files),
            total_log_size_compacted=sum(file.size or 0 for file in file_slice.log_files),
        )
        return stat, report
