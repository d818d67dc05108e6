"""Leaving out file slices by a secondary index, and the record index that it leads to.

I/O: reads the entries of the values that a filter allows, and the places of their keys, where
these are in fewer files than what may be left out. Source: SecondaryIndexSupport.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.metadata.metadata_keys import (
    format_secondary_key,
    parse_secondary_key,
    secondary_file_group_of_key,
)
from bucketfmt.format.metadata.metadata_records import SecondaryEntry
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.metadata_table.definitions import find_secondary_columns
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.trusted_metadata import TrustedMetadata
from bucketfmt.rows.filters import Filter
from bucketfmt.snapshot.files import FileSlice
from bucketfmt.snapshot.schema import TableSchema

__all__ = ["prune_by_secondary_index"]

_RECORD_INDEX = "record_index"
_VALUES_MAX = 100
_KEYS_MAX = 10_000  # record keys that have these values


def prune_by_secondary_index(
    metadata: TrustedMetadata,
    slices: Sequence[FileSlice],
    row_filter: Filter,
    schema: TableSchema,
    *,
    whatever_it_costs: bool = False,
) -> list[FileSlice]:
    """Return the file slices that may have rows for which a filter holds, as the table is now.

    Only indexes since table version 9 are asked: in these all entries of a value are in one file
    group, and the entries that Hudi 1.0 writes are not always those of the rows.

    Args:
        metadata: The metadata table.
        slices: To choose from: the newest, with their logs.
        row_filter: On rows of the table.
        schema: The columns of the table, which have no ids: an older file may have another column
            under the same name.
        whatever_it_costs: Ask the indexes also where they are in more files than the slices.

    Raises:
        StorageError: the store failed.
    """
    definitions = metadata.definitions
    columns = find_secondary_columns(metadata.partition_names, definitions, schema)
    files_max = None if whatever_it_costs else sum(len(each.files) for each in slices)
    for name, column in columns.items():
        texts = row_filter.key_values([column], schema.data)
        if texts is None or len(texts) > _VALUES_MAX or definitions[name].version != "V2":
            continue
        values = [text for (text,) in texts]
        keys = metadata.ask(name, partial(_find_keys, values, files_max))
        if keys is None:
            continue
        groups = metadata.ask(_RECORD_INDEX, partial(_find_groups, keys, files_max))
        if groups is not None:
            return [each for each in slices if (each.partition_path, each.file_id) in groups]
    return list(slices)


def _find_keys(
    values: Sequence[str | None], files_max: int | None, partition: MetadataPartition
) -> list[str] | None:
    """Return the keys of the records that have one of some values; None: more than it is worth."""
    groups = partition.groups.get(None, [])
    prefixes = [format_secondary_key(value, "") for value in values]
    places = [groups[secondary_file_group_of_key(prefix, len(groups))] for prefix in prefixes]
    num_files = sum(len(group.file_slice.files) for group in {id(g): g for g in places}.values())
    if files_max is not None and num_files > files_max:
        return None
    keys: list[str] = []
    for prefix, group in zip(prefixes, places, strict=True):
        for key, record in group.scan(prefix.encode()):
            if not isinstance(record, SecondaryEntry):
                raise CorruptError("an entry of a secondary index is of another kind")
            if not record.is_deleted:
                keys.append(parse_secondary_key(key.decode())[1])
            if len(keys) > _KEYS_MAX:
                return None
    return keys


def _find_groups(
    keys: Sequence[str], files_max: int | None, partition: MetadataPartition
) -> set[FileGroupId] | None:
    """Return the file groups of records; None where that is more work than it is worth, or a key
    is not in the index, which then proves nothing.
    """
    if files_max is not None and partition.num_files > files_max:
        return None
    found = partition.locate(pa.array(keys, pa.string()))
    if (found.numbers < 0).any():
        return None
    return {(each.partition_path, each.file_id) for each in found.locations}
