"""A secondary index against the rows that readers see. M005.

I/O: reads the indexed column and the keys of every file slice, and every entry of the index. Of
each file group of the index a count and a sum of hashes are kept; only file groups that differ
are read again, to name entries. Source: HoodieMetadataTableValidator (validateSecondaryIndex).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

from bucketfmt.check.metadata.fingerprint import SHOWN, Fingerprint, few
from bucketfmt.check.report import Counted, Event, Finding
from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing_kernels import xxhash64s
from bucketfmt.format.metadata.index_definitions import IndexDefinition
from bucketfmt.format.metadata.metadata_records import SecondaryEntry
from bucketfmt.format.metadata.secondary_key_kernels import (
    find_file_groups,
    format_secondary_keys,
)
from bucketfmt.metadata_table.group_reader import GroupReader
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.slices.merged_keys import merged_rows
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads

__all__ = ["find_secondary_index_faults"]

_BATCH = 65_536
_EXPLAINED_MAX = 1 << 24  # rows with entries in differing file groups, whose hashes are held


def find_secondary_index_faults(
    partition: MetadataPartition,
    column: str,
    definition: IndexDefinition,
    snapshot: Snapshot,
    workers: int,
) -> Iterator[Event]:
    """Yield M005 for rows without an entry, and for entries without a row.

    Args:
        partition: The index.
        column: The indexed column, of text or of integers.
        definition: Of the index.
        snapshot: The table.
        workers: How many file slices are read at a time.

    Raises:
        BucketfmtError: a file of the index, or of the table, cannot be read.
    """
    groups = partition.groups.get(None, [])
    rows = _IndexedRows(snapshot, column, len(groups), definition.version == "V2", workers)
    expected = rows.fingerprints()
    differing = []
    for number, group in enumerate(groups):
        found = sum(map(Fingerprint.of, _entries(group)), Fingerprint())
        yield Counted("entries of secondary indexes", found.count)
        if found != expected[number]:
            differing.append(number)
    if not differing:
        return
    if sum(expected[number].count for number in differing) > _EXPLAINED_MAX:
        yield Finding.of(
            "M005",
            f"{len(differing)} of {len(groups)} file groups of {partition.name} have other "
            f"entries than the rows of the table",
            paths=[file.path for n in differing for file in groups[n].file_slice.files],
        )
        return
    for number in differing:
        yield from _explain(partition.name, groups[number], rows.keys_in(number))


def _explain(name: str, group: GroupReader, expected: pa.Array) -> Iterator[Finding]:
    """Yield what is wrong with one file group of the index, which is to have these keys."""
    wanted, found_hashes = xxhash64s(expected, 0), [np.empty(0, np.uint64)]
    stale: list[str] = []
    num_stale = 0
    for keys in _entries(group):
        hashes = xxhash64s(keys, 0)
        unknown = keys.filter(pa.array(~np.isin(hashes, wanted)))
        num_stale += len(unknown)
        stale += unknown.slice(0, SHOWN).to_pylist()
        found_hashes.append(hashes)
    missing = expected.filter(pa.array(~np.isin(wanted, np.concatenate(found_hashes))))
    for count, examples, what in (
        (len(missing), missing.slice(0, SHOWN + 1).to_pylist(), "rows have no entry there, and "
         "readers that go by the index do not see them"),
        (num_stale, stale, "entries are of no row, or belong into another file group"),
    ):  # fmt: skip
        if count:
            yield Finding.of(
                "M005",
                f"file group {group.file_slice.file_id} of {name}: {count} {what}: {few(examples)}",
                paths=[file.path for file in group.file_slice.files],
            )


class _IndexedRows:
    """The entries that the rows of a table are to have."""

    def __init__(
        self, snapshot: Snapshot, column: str, num_groups: int, by_value: bool, workers: int
    ) -> None:
        self._snapshot, self._column = snapshot, column
        self._num_groups, self._by_value = num_groups, by_value
        self._workers = workers
        self._slices = [s for path in snapshot.partitions for s in snapshot.slices(path)]

    def fingerprints(self) -> list[Fingerprint]:
        """Return the fingerprint of the keys in each file group of the index."""

        def read(file_slice: FileSlice) -> list[Fingerprint]:
            found = [Fingerprint()] * self._num_groups
            for keys, places in self._read(file_slice):
                for number in np.unique(places).tolist():
                    found[number] += Fingerprint.of(keys.filter(pa.array(places == number)))
            return found

        total = [Fingerprint()] * self._num_groups
        for found in map_in_threads(read, self._slices, self._workers):
            total = [one + other for one, other in zip(total, found, strict=True)]
        return total

    def keys_in(self, number: int) -> pa.Array:
        """Return the keys in one file group of the index."""

        def read(file_slice: FileSlice) -> list[pa.Array]:
            return [k.filter(pa.array(p == number)) for k, p in self._read(file_slice)]

        found = map_in_threads(read, self._slices, self._workers)
        keys = [keys for own in found for keys in own]
        return pa.chunked_array(keys, pa.string()).combine_chunks()

    def _read(self, file_slice: FileSlice) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """Yield the keys of entries, and the file group of the index that is to have each."""
        version = self._snapshot.state.config.table_version
        for rows in merged_rows(self._snapshot, file_slice, [RECORD_KEY, self._column]):
            values = rows.column(self._column).combine_chunks().cast(pa.large_string())
            record_keys = rows.column(RECORD_KEY).combine_chunks()
            keys = format_secondary_keys(values, record_keys, version).cast(pa.string())
            yield keys, find_file_groups(keys, self._num_groups, by_value=self._by_value)


def _entries(group: GroupReader) -> Iterator[pa.Array]:
    """Yield the keys of the entries of a file group that are not deleted."""
    entries = group.scan()
    while batch := list(islice(entries, _BATCH)):
        if not all(isinstance(record, SecondaryEntry) for _, record in batch):
            raise CorruptError("an entry of a secondary index is of another kind")
        try:
            keys = [
                key.decode()
                for key, record in batch
                if isinstance(record, SecondaryEntry) and not record.is_deleted
            ]
        except UnicodeDecodeError:
            raise CorruptError("a key of a secondary index is not UTF-8") from None
        yield pa.array(keys, pa.string())
