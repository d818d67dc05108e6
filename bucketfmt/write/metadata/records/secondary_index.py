"""What a commit changes in a secondary index: which records have a value.

I/O, read only: reads the indexed column of the file slices that the commit touched, as they were
and as they will be. Source: SecondaryIndexRecordGenerationUtils, HoodieBackedTableMetadataWriter
(updateSecondaryIndexIfPresent).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.metadata.index_definitions import IndexDefinition
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_records import MetadataSchema, SecondaryEntry
from bucketfmt.format.metadata.secondary_key_kernels import format_secondary_keys
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.write.metadata.update import PartitionUpdate

__all__ = ["plan_secondary_index", "read_secondary_keys"]

_TEXT = pa.large_string()
_BATCH_ROWS = 131_072


def read_secondary_keys(
    basis: ReadBasis, schema: TableSchema, slices: Sequence[FileSlice], column: str
) -> pa.Array:
    """Return the keys of the entries of all rows of some file slices.

    Args:
        basis: Of the table, or of the table as it will be.
        schema: The columns of the table that the slices are of.
        slices: Of that table.
        column: The indexed column.

    Raises:
        CorruptError: a file is damaged.
        StorageError: the store failed.
    """
    output = pa.schema([schema.with_meta.field(name) for name in (RECORD_KEY, column)])
    reader = SliceReader(basis, RowSpec(table=schema, output=output))

    def read(file_slice: FileSlice) -> list[pa.Array]:
        return [
            format_secondary_keys(
                rows.column(column).combine_chunks().cast(_TEXT),
                rows.column(RECORD_KEY).combine_chunks(),
                basis.config.table_version,
            )
            for rows in reader.read(file_slice, _BATCH_ROWS)
        ]

    found = map_in_threads(read, slices, waiting_count(basis.store))
    return pa.chunked_array([keys for own in found for keys in own], _TEXT).combine_chunks()


def plan_secondary_index(
    before: pa.Array, after: pa.Array, schema: MetadataSchema, definition: IndexDefinition
) -> PartitionUpdate:
    """Return what changes in a secondary index. Pure.

    Args:
        before: The keys of the entries of the touched file slices as they were.
        after: Likewise as they will be.
        schema: By which to encode.
        definition: Of the index; its version tells which part of a key chooses the file group.
    """
    new = pc.unique(after.filter(pc.invert(pc.is_in(after, before))))
    gone = pc.unique(before.filter(pc.invert(pc.is_in(before, after))))
    value = encode_metadata_record(SecondaryEntry(is_deleted=False), schema)
    values = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(len(new), np.int32)), pa.array([value], pa.large_binary())
    )
    entries = EntryColumns(new.cast(pa.large_binary()), values)
    return PartitionUpdate(entries, gone.cast(pa.string()), definition.version == "V2")
