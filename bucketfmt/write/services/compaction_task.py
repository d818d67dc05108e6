"""The half of a compaction that happens anywhere: one file slice becomes its next base file.

I/O. A `CompactionTask` is a small value that pickles, and a slice to rewrite is a hundred bytes or
so. Source: HoodieCompactor.compact.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bucketfmt.choices import Codec
from bucketfmt.format.names.names import IoType, MarkerName, parse_write_token
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.rows.columns.meta_rows import add_meta_fields
from bucketfmt.rows.parquet.copying import find_codec_of
from bucketfmt.slices.slice_codec import decode_slice
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.write.commit.receipts import Receipt, RowReport, encode_receipt
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.base_file_task import BaseFileTask
from bucketfmt.write.files.merged_base import encode_merged_base
from bucketfmt.write.properties.key_filters import new_key_footer

__all__ = ["CompactionTask"]


@dataclass(frozen=True, eq=False, kw_only=True)
class CompactionTask(BaseFileTask):
    """Rewrites slices for a compaction that was begun elsewhere. As `BaseFileTask`.

    Attributes:
        codec: Of parquet; None: of the base file before.
        new_codec: Of parquet where there is no base file before.
    """

    codec: Codec | None
    new_codec: Codec

    def compact(
        self, payload: bytes, write_token: str, announcer: Announcer | None = None
    ) -> bytes:
        """Write the next base file of one file group, and return the receipt.

        Doing it twice leaves a file too many, which `StartedCompaction.publish` removes.

        Args:
            payload: One of `StartedCompaction.payloads`.
            write_token: `<task>-<stage>-<attempt>`: three numbers that no other attempt has.
            announcer: Of the files of this process; None: of this one.

        Raises:
            CorruptError: a file of the slice is missing or damaged.
            UnsupportedError: blocks that are not read here; let Hudi execute the compaction.
            ConflictError: the compaction has ended meanwhile.
            StorageError: the store failed.
        """
        parse_write_token(write_token)
        file_slice = decode_slice(payload)
        announcer = announcer or Announcer(self.basis.store, self.instant)
        stat, report = self._rewrite(file_slice, write_token, announcer)
        return encode_receipt(
            Receipt(
                partition_path=file_slice.partition_path,
                file_id=file_slice.file_id,
                write_token=write_token,
                stat=stat,
                report=report,
            )
        )

    def markers(self, payload: bytes, write_token: str) -> list[MarkerName]:
        """Return what announces the file that `compact` makes of these arguments."""
        return [self._marker(decode_slice(payload), write_token)]

    def _marker(self, file_slice: FileSlice, write_token: str) -> MarkerName:
        kind = IoType.CREATE if file_slice.base_file is None else IoType.MERGE
        name = self.name(file_slice.file_id, write_token)
        return MarkerName(file_slice.partition_path, name, kind)

    def _rewrite(
        self, file_slice: FileSlice, write_token: str, announcer: Announcer
    ) -> tuple[WriteStat, RowReport | None]:
        path, base = file_slice.partition_path, file_slice.base_file
        marker = self._marker(file_slice, write_token)
        reader = self.reader()
        with (
            announcer.early(marker),
            reader.merge(file_slice) as (merge, replaced),
        ):
            log, num_blocks, pieces = merge
            merged = encode_merged_base(
                log,
                pieces,
                replaced,
                add_meta_fields(self.avro_schema),
                self.constants(path, marker.data_file_name),
                key_footer=new_key_footer(self.basis.config),
                codec=self.codec or find_codec_of(replaced) or self.new_codec,
            )

        # Of keys that no base row had: what was logged and deleted again.
        deleted_before = len(log.record_keys) - log.num_matched - merged.num_inserts
        stat, report = self.put(
            marker,
            file_slice.file_id,
            merged.data,
            merged.written_keys,
            merged.removed_keys,
            announcer,
        )
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
