"""What an instant changes in the partitions of the metadata table, as values.

Pure. Source: HoodieTableMetadataUtil.convertMetadataToRecords.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
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
        entries: The new records, encoded, in any order. Of records with the same key the last
            counts.
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

        The entries of a part are in the order of their keys, no key twice.

        Args:
            count: How many file groups there are.
        """
        written = _split(find_file_groups(self.entries.keys, count, by_value=self.is_by_value))
        gone = _split(find_file_groups(self.deleted, count, by_value=self.is_by_value))
        none = np.empty(0, np.int64)
        numbers = sorted({*written, *gone})
        parts = self.entries.sort_parts(written.get(number, none) for number in numbers)
        for number, entries in zip(numbers, parts, strict=True):
            yield (
                number,
                PartitionUpdate(entries, self.deleted.take(pa.array(gone.get(number, none)))),
            )


def _split(groups: npt.NDArray[np.int64]) -> Mapping[int, npt.NDArray[np.int64]]:
    """Return the rows of each file group, in order, given the file group of each row."""
    order = np.argsort(groups.astype(np.min_scalar_type(groups.max(initial=0))), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(groups)))
    return {number: part for number, part in enumerate(parts) if len(part)}


PartUpdates = Mapping[str | None, PartitionUpdate]
"""What changes in one partition of the metadata table: in a partitioned record index by the
partition of the table, in all others by None."""

MetadataUpdate = Mapping[str, PartUpdates]
"""{partition of the metadata table: what changes in it}."""
