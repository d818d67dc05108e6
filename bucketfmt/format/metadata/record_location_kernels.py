"""Entries of the record index in columns: many keys, few different locations.

Pure: a column kernel. All records of a file group that came with one commit have the same
location, so that their values are equal bytes, which are encoded and decoded once.
Source: HoodieMetadataPayload.createRecordIndexUpdate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_records import (
    MetadataSchema,
    RecordLocation,
    decode_metadata_record,
)

__all__ = ["RecordLocations", "decode_record_locations", "encode_record_locations"]

_BYTES = pa.large_binary()
_NOWHERE = -1


@dataclass(frozen=True)
class RecordLocations:
    """The locations of many records.

    Attributes:
        locations: Each location once.
        numbers: For each record the number of its location in `locations`; -1: it has none.
    """

    locations: Sequence[RecordLocation]
    numbers: npt.NDArray[np.int32]


def encode_record_locations(
    record_keys: pa.Array, found: RecordLocations, schema: MetadataSchema
) -> EntryColumns:
    """Return the entries of some keys in the record index, in the order in which they are given.

    Args:
        record_keys: Text or bytes in UTF-8, without nulls.
        found: Where each of the records is.
        schema: By which to write, mostly `metadata_schema` of the table version.

    Raises:
        ValueError: a key is null, or has no location; or as `encode_metadata_record`.
    """
    if found.numbers.min(initial=0) < 0:
        raise ValueError("each key that is written to a record index has a location")
    values = [encode_metadata_record(location, schema) for location in found.locations]
    shared = pa.DictionaryArray.from_arrays(found.numbers, pa.array(values, _BYTES))
    return EntryColumns(record_keys.cast(_BYTES), shared)


def decode_record_locations(values: pa.Array, schema: MetadataSchema) -> RecordLocations:
    """Return what values of the record index say.

    Args:
        values: `large_binary`: values of entries; null where a key has no entry.
        schema: By which they were written.

    Raises:
        CorruptError: a value is not of the schema, or is no location.
    """
    coded = values.dictionary_encode()
    records = [decode_metadata_record(each, schema) for each in coded.dictionary.to_pylist()]
    locations = [record for record in records if isinstance(record, RecordLocation)]
    if len(locations) != len(records):
        raise CorruptError("a value of the record index is not a location")
    numbers = coded.indices.fill_null(_NOWHERE).to_numpy()
    return RecordLocations(locations, numbers)
