"""One partition of the metadata table: its file groups, and the records in them.

I/O through `GroupReader`, several file groups at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from operator import itemgetter

import numpy as np
import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing_kernels import java_string_hashes
from bucketfmt.format.metadata.metadata_keys import (
    is_secondary_index,
    parse_metadata_file_id,
    secondary_file_group_of_key,
)
from bucketfmt.format.metadata.metadata_records import MetadataRecord, RecordLocation
from bucketfmt.format.metadata.record_location_kernels import RecordLocations
from bucketfmt.metadata_table.group_reader import GroupReader
from bucketfmt.storage.streams import map_in_threads, worker_count

__all__ = ["MetadataPartition"]

_MANY_KEYS = 1_000


class MetadataPartition:
    """The records of one partition. What was read of the files is kept.

    Attributes:
        name: Such as `files` or `record_index`.
        groups: The file groups by number; those of a partitioned record index by the data partition
            that they are for, of other partitions by None.
    """

    def __init__(self, name: str, groups: Sequence[GroupReader], workers: int) -> None:
        """Put the file groups in order.

        Args:
            name: See above.
            groups: The file groups, in any order.
            workers: How many file groups are read at a time.

        Raises:
            CorruptError: a file group is missing, or is not one of the partition.
        """
        self.name = name
        self._workers = workers
        numbered: dict[str | None, dict[int, GroupReader]] = defaultdict(dict)
        for group in groups:
            data_partition, number = parse_metadata_file_id(name, group.file_slice.file_id)
            numbered[data_partition][number] = group
        for found in numbered.values():
            if sorted(found) != list(range(len(found))):
                raise CorruptError(
                    f"file groups of partition {name} of the metadata table are missing: there are "
                    f"{len(found)}, and the last has number {max(found)}; rebuild the partition"
                )
        self.groups: dict[str | None, list[GroupReader]] = {
            data_partition: [found[number] for number in range(len(found))]
            for data_partition, found in numbered.items()
        }

    @property
    def is_partitioned(self) -> bool:
        """Whether each partition of the table has file groups of its own here."""
        return None not in self.groups

    @property
    def num_files(self) -> int:
        """How many files a scan of the partition reads."""
        groups = (group for groups in self.groups.values() for group in groups)
        return sum(len(group.file_slice.files) for group in groups)

    def lookup(
        self, keys: Sequence[str], data_partition: str | None = None
    ) -> dict[str, MetadataRecord]:
        """Return the records of those keys that have one, by key.

        Args:
            keys: Of records, in any order.
            data_partition: The partition of the table that the keys are of, where the metadata
                partition `is_partitioned`.

        Raises:
            CorruptError: a file is damaged, or has keys of another file group.
            UnsupportedError: a file or a record is of a kind that is not read.
            StorageError: the store failed.
            ValueError: `data_partition` is given or not where it should not or should be.
        """
        groups = self._groups_of(data_partition)
        if not groups:
            return {}
        wanted = list(self._keys_by_group(list(dict.fromkeys(keys)), len(groups)).items())

        def look_up(share: tuple[int, list[str]]) -> list[MetadataRecord | None]:
            number, members = share
            owns = partial(self._is_of_group, number, len(groups))
            return groups[number].lookup([key.encode() for key in members], owns)

        found = map_in_threads(look_up, wanted, self._workers)
        return {
            key: record
            for (_, members), records in zip(wanted, found, strict=True)
            for key, record in zip(members, records, strict=True)
            if record is not None
        }

    def locate(
        self,
        keys: pa.Array | pa.ChunkedArray,
        data_partition: str | None = None,
        *,
        checks_place: bool = True,
    ) -> RecordLocations:
        """Return the locations of keys in the record index, in columns: as `lookup`, faster.

        Args:
            keys: Text without nulls, in any order; keys may be repeated.
            data_partition: As in `lookup`.
            checks_place: Whether files with keys of another file group are refused.
        """
        groups = self._groups_of(data_partition)
        numbers = np.full(len(keys), -1, np.int32)
        locations: list[RecordLocation] = []
        if not groups or not len(keys):
            return RecordLocations(locations, numbers)
        shards = np.abs(java_string_hashes(keys).astype(np.int64)) % len(groups)
        data = keys.cast(pa.large_binary())
        data = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data

        def locate(shard: int) -> tuple[np.ndarray, RecordLocations]:
            own = np.flatnonzero(shards == shard)
            owns = partial(self._is_of_group, shard, len(groups)) if checks_place else None
            return own, groups[shard].locate(data.take(pa.array(own)), owns)

        workers = self._workers
        if len(keys) >= _MANY_KEYS:  # blocks are decompressed on all processors, even from a disk
            workers = max(workers, worker_count())
        for own, found in map_in_threads(locate, np.unique(shards).tolist(), workers):
            numbers[own] = np.where(found.numbers >= 0, found.numbers + len(locations), -1)
            locations += found.locations
        return RecordLocations(locations, numbers)

    def lookup_prefixes(self, prefixes: Sequence[str]) -> dict[str, MetadataRecord]:
        """Return the records of all keys that begin with one of these texts, by key.

        Every file group is asked, since the whole key tells where a record is. Errors as in
        `lookup`.
        """
        groups = [group for groups in self.groups.values() for group in groups]

        def look_up(group: GroupReader) -> list[tuple[bytes, MetadataRecord]]:
            return [
                entry for prefix in sorted(set(prefixes)) for entry in group.scan(prefix.encode())
            ]

        found = map_in_threads(look_up, groups, self._workers)
        return {_text(key): record for entries in found for key, record in entries}

    def scan(self) -> Iterator[tuple[str, MetadataRecord]]:
        """Yield every key and its record, in the order of the keys' bytes.

        A block of each base file is in memory at a time, and the log. Errors as in `lookup`.
        """
        groups = [group.scan() for groups in self.groups.values() for group in groups]
        for key, record in merge(*groups, key=itemgetter(0)):
            yield _text(key), record

    def _groups_of(self, data_partition: str | None) -> list[GroupReader]:
        if self.is_partitioned != (data_partition is not None):
            raise ValueError(
                f"partition {self.name} of the metadata table is "
                f"{'' if self.is_partitioned else 'not '}partitioned itself"
            )
        return self.groups.get(data_partition, [])

    def _is_of_group(self, number: int, num_groups: int, key: bytes) -> bool:
        return num_groups == 1 or number in self._keys_by_group([_text(key)], num_groups)

    def _keys_by_group(self, keys: list[str], num_groups: int) -> dict[int, list[str]]:
        if not keys:
            return {}
        hashes = java_string_hashes(pa.array(keys, pa.string())).astype(np.int64)
        wanted: dict[int, list[str]] = defaultdict(list)
        for key, number in zip(keys, (np.abs(hashes) % num_groups).tolist(), strict=True):
            wanted[number].append(key)
            if is_secondary_index(self.name):  # by the whole key until table version 8
                with suppress(CorruptError):  # a key of no secondary index
                    other = secondary_file_group_of_key(key, num_groups)
                    if other != number:
                        wanted[other].append(key)
        return wanted


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise CorruptError(f"a key of the metadata table is not UTF-8: {key[:100]!r}") from None
