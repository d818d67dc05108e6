"""Leaving out file slices in look-ups of keys, by the bloom filters in the metadata table.

I/O: reads `bloom_filters`, where that takes fewer requests than opening the base files. Source:
HoodieBloomIndex, SparkHoodieMetadataBloomFilterProbingFunction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from bucketfmt.format.keys.bloom import decode_bloom_filter
from bucketfmt.format.metadata.metadata_keys import format_bloom_filter_key
from bucketfmt.format.metadata.metadata_records import BloomFilterEntry, MetadataRecord
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.trusted_metadata import TrustedMetadata
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["prune_by_bloom_filters"]

_BLOOM_FILTERS = "bloom_filters"

_Wanted = tuple[FileSlice, pa.Array]


def prune_by_bloom_filters(
    metadata: TrustedMetadata, wanted: Sequence[_Wanted], *, whatever_it_costs: bool = False
) -> list[_Wanted]:
    """Return the file slices that may hold keys, each with the keys that it may hold.

    A slice with a log is kept: a filter is of a base file alone.

    Args:
        metadata: The metadata table.
        wanted: (file slice, record keys to look for in the slice).
        whatever_it_costs: Read the filters also where they are in more files than the slices.

    Raises:
        StorageError: the store failed.
    """
    keys = {number: _key(own) for number, (own, _) in enumerate(wanted) if not own.log_files}

    def read(partition: MetadataPartition) -> list[_Wanted] | None:
        if partition.num_files > len(keys) and not whatever_it_costs:
            return None
        found = partition.lookup(list(keys.values()))
        return [
            kept
            for number, one in enumerate(wanted)
            if len((kept := _narrowed(one, found, keys.get(number)))[1])
        ]

    pruned = metadata.ask(_BLOOM_FILTERS, read) if keys else None
    return list(wanted) if pruned is None else pruned


def _narrowed(one: _Wanted, found: Mapping[str, MetadataRecord], key: str | None) -> _Wanted:
    file_slice, record_keys = one
    entry = None if key is None else found.get(key)
    if not isinstance(entry, BloomFilterEntry) or entry.is_deleted or not entry.text:
        return one
    bloom_filter = decode_bloom_filter(entry.text, entry.type_code)
    return file_slice, record_keys.filter(pa.array(bloom_filter.might_contain_many(record_keys)))


def _key(file_slice: FileSlice) -> str:
    name = "" if file_slice.base_file is None else str(file_slice.base_file.name)
    return format_bloom_filter_key(file_slice.partition_path, name)
