"""The half of a service that happens anywhere: file slices become base files.

I/O. A task is a small value that pickles; what it does is told by payloads, a hundred bytes or so
for each slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from bucketfmt.format.names.names import BaseFileName, MarkerName
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.rows.columns.meta_rows import file_constants, merge_schema
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.write.commit.receipts import RowReport
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.data_file import put_data_file
from bucketfmt.write.files.row_report import RowReporter

__all__ = ["BaseFileTask"]

_NO_KEYS = pa.chunked_array([], pa.string())


@dataclass(frozen=True, eq=False, kw_only=True)
class BaseFileTask:
    """Reads file slices and writes base files for an instant that was begun elsewhere.

    Pickles; holds the store's options, secrets among them. Safe to use from several threads.

    Attributes:
        basis: What reading a slice needs to know.
        schema: The table's columns.
        avro_schema: The same as Avro JSON, without Hudi's own.
        instant: The requested time of the service.
        reporter: Reports the rows of the files; None if no metadata table wants it.
    """

    basis: ReadBasis
    schema: TableSchema
    avro_schema: str
    instant: str
    reporter: RowReporter | None

    @property
    def is_populated(self) -> bool:
        """Whether Hudi's own columns are in the files."""
        return self.basis.config.populate_meta_fields

    def reader(self) -> SliceReader:
        """Return a reader of all columns of a slice, Hudi's own and the keys among them."""
        output = merge_schema(self.schema.data, is_populated=self.is_populated)
        return SliceReader(self.basis, RowSpec(self.schema, output), side_by_side=True)

    def name(self, file_id: str, write_token: str) -> str:
        """Return the name of the base file that an attempt writes in a file group."""
        return str(BaseFileName(file_id, write_token, self.instant, "parquet"))

    def constants(self, partition_path: str, name: str) -> dict[str, str | None]:
        """Return the columns of Hudi's own that have one value in all rows of a file."""
        return file_constants(partition_path, name, is_populated=self.is_populated)

    def put(
        self,
        marker: MarkerName,
        file_id: str,
        data: pa.Buffer,
        written_keys: pa.ChunkedArray,
        removed_keys: pa.ChunkedArray = _NO_KEYS,
        announcer: Announcer | None = None,
    ) -> tuple[WriteStat, RowReport | None]:
        """Announce a base file and create it; return its stat, and the report of its rows.

        Args:
            marker: Of the file.
            file_id: Its file group.
            data: The file.
            written_keys: The keys that the file group had not before.
            removed_keys: The keys that the file group has no more.
            announcer: Of the files of this process; None: of this one.

        Raises:
            ConflictError: the instant has ended meanwhile.
            StorageError: the store failed.
        """
        announcer = announcer or Announcer(self.basis.store, self.instant)
        stat = put_data_file(announcer, marker, file_id, data)
        report = None
        if self.reporter is not None:
            report = self.reporter.of_base_file(
                marker.data_file_name, data, written_keys, removed_keys
            )
        return stat, report
