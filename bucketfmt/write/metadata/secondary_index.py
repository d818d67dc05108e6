"""What a commit changes in a secondary index: which records have a value.

I/O, read only: reads the indexed column of the file slices that the commit touched, as they were
and as they will be. Source: SecondaryIndexRecordGenerationUtils, HoodieBackedTableMetadataWriter
(updateSecondaryIndexIfPresent).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.metadata.index_definitions import IndexDefinition
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_keys import is_secondary_index
from bucketfmt.format.metadata.metadata_records import MetadataSchema, SecondaryEntry
from bucketfmt.format.metadata.secondary_key_kernels import format_secondary_keys
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.files import FileSlice
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.write.metadata.update import PartitionUpdate

__all__ = ["find_secondary_columns", "plan_secondary_index", "read_secondary_keys"]

_TEXT = pa.large_string()
_BATCH_ROWS = 131_072
_FUNCTIONS = (None, "", "identity")


def find_secondary_columns(
    names: Sequence[str],
    definitions: Mapping[str, IndexDefinition],
    schema: TableSchema | None,
) -> dict[str, str]:
    """Return the column of each secondary index that is kept in step, by partition. Pure.

    The index has to be on one column of text or of integers, whose texts are the same in all
    releases, and the keys of the table have to be unique in it, as a global record index has them.

    Args:
        names: The partitions of the metadata table.
        definitions: The definitions of indexes.
        schema: The columns of the table; None: nothing states them.
    """
    records = definitions.get("record_index")
    is_global = "record_index" in names and not (records is not None and records.is_partitioned)
    if schema is None or not is_global:
        return {}
    found = {}
    for name in names:
        definition = definitions.get(name) if is_secondary_index(name) else None
        if definition is None or definition.index_function not in _FUNCTIONS:
            continue
        columns = definition.source_fields
        if len(columns) == 1 and columns[0] in schema.data.names:
            kind = schema.data.field(columns[0]).type
            if pa.types.is_string(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind):
                found[name] = columns[0]
    return found


def read_secondary_keys(
    snapshot: Snapshot, schema: TableSchema, slices: Sequence[FileSlice], column: str
) -> pa.Array:
    """Return the keys of the entries of all rows of some file slices.

    Args:
        snapshot: The table.
        schema: The columns of the table that the slices are of.
        slices: Of the table, or as they will be.
        column: The indexed column.

    Raises:
        CorruptError: a file is damaged.
        StorageError: the store failed.
    """
    state = snapshot.state
    output = pa.schema([schema.with_meta.field(name) for name in (RECORD_KEY, column)])
    reader = SliceReader(snapshot, RowSpec(table=schema, output=output))

    def read(file_slice: FileSlice) -> list[pa.Array]:
        return [
            format_secondary_keys(
                rows.column(column).combine_chunks().cast(_TEXT),
                rows.column(RECORD_KEY).combine_chunks(),
                state.config.table_version,
            )
            for rows in reader.read(file_slice, _BATCH_ROWS)
        ]

    found = map_in_threads(read, slices, waiting_count(state.store))
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
    entries = EntryColumns(new.cast(pa.large_binary()), values).sort()
    return PartitionUpdate(entries, gone.cast(pa.string()), definition.version == "V2")
