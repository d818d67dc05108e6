"""What an instant changes in the partitions of the metadata table, as values.

Pure. Source: HoodieTableMetadataUtil.convertMetadataToRecords.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_records
from bucketfmt.format.metadata.metadata_records import MetadataRecord, MetadataSchema
from bucketfmt.format.metadata.secondary_key_kernels import find_file_groups

__all__ = ["MetadataUpdate", "PartUpdates", "PartitionUpdate"]


@dataclass(frozen=True)
class PartitionUpdate:
    """What changes in file groups of the metadata table that share keys by their hashes.

    Attributes:
        entries: The new records, encoded, in the order of their keys.
        deleted: The keys that go, as text. A key is not in both.
        is_by_value: Whether the file group of a key follows from its value part alone, as in
            secondary indexes since table version 9.
    """

    entries: EntryColumns
    deleted: pa.Array
    is_by_value: bool = False

    @classmethod
    def of(
        cls,
        records: Mapping[str, MetadataRecord],
        schema: MetadataSchema,
        deleted: Iterable[str] = (),
    ) -> PartitionUpdate:
        """Return the update of these records, by key.

        Raises:
            ValueError: a record does not fit the schema.
        """
        return cls(encode_metadata_records(records, schema), pa.array(deleted, pa.string()))

    def __len__(self) -> int:
        return len(self.entries) + len(self.deleted)

    def by_group(self, count: int) -> Iterator[tuple[int, PartitionUpdate]]:
        """Yield the part of each file group that changes, with the number of the file group.

        Args:
            count: How many file groups there are.
        """
        keys = find_file_groups(self.entries.keys, count, by_value=self.is_by_value)
        gone = find_file_groups(self.deleted, count, by_value=self.is_by_value)
        for number in np.unique(np.concatenate([keys, gone])).tolist():
            own = pa.array(np.flatnonzero(keys == number))
            yield (
                number,
                PartitionUpdate(
                    EntryColumns(self.entries.keys.take(own), self.entries.values.take(own)),
                    self.deleted.take(pa.array(np.flatnonzero(gone == number))),
                ),
            )


PartUpdates = Mapping[str | None, PartitionUpdate]
"""What changes in one partition of the metadata table: in a partitioned record index by the
partition of the table, in all others by None."""

MetadataUpdate = Mapping[str, PartUpdates]
"""{partition of the metadata table: what changes in it}."""
