"""The record index against the keys that readers see. M003.

I/O: reads the keys of every file slice and every entry of the index, and keeps of each file group
a count and a sum of hashes. Two equal pairs are taken for equal sets of keys; only file groups
whose pairs differ are read again, to name keys. Source: HoodieMetadataTableValidator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketfmt.check.metadata.fingerprint import SHOWN, Fingerprint, few
from bucketfmt.check.report import Counted, Event, Finding
from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.hashing_kernels import java_string_hashes, xxhash64s
from bucketfmt.format.metadata.metadata_records import MetadataRecord, RecordLocation
from bucketfmt.format.names.names import FileGroupId
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.slices.merged_keys import merged_keys
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import map_in_threads

__all__ = ["find_record_index_faults"]

_BATCH = 65_536
_KEYS_MAX = 200_000  # of one file group that are looked up at a time
_KEYS_OF_A_SCAN = 1 << 24  # of differing file groups, which one scan of the index explains


def find_record_index_faults(
    partition: MetadataPartition,
    snapshot: Snapshot,
    slices: Mapping[str, Sequence[FileSlice]],
    is_whole: bool,
    workers: int,
) -> Iterator[Event]:
    """Yield M003 for entries in the wrong place, and for keys and entries that do not fit.

    Args:
        partition: The record index.
        snapshot: The table.
        slices: What readers see of each partition that is checked.
        is_whole: Whether `slices` are those of all partitions.
        workers: How many file groups are read at a time.

    Raises:
        BucketfmtError: a file of the index, or of the table, cannot be read.
    """
    indexed: dict[FileGroupId, Fingerprint] = {}
    for data_partition, groups in partition.groups.items():
        for number, group in enumerate(groups):
            misplaced: list[str] = []
            for keys, locations in _batches(group.scan()):
                hashes = np.abs(java_string_hashes(keys).astype(np.int64))
                wrong = keys.filter(pa.array(hashes % len(groups) != number))
                misplaced += wrong.slice(0, SHOWN).to_pylist()
                for place, members in _by_group(keys, locations).items():
                    indexed[place] = indexed.get(place, Fingerprint()) + members
                    if data_partition is not None and place[0] != data_partition:
                        misplaced += keys.slice(0, 1).to_pylist()
                yield Counted("entries of the record index", len(keys))
            if misplaced:
                yield Finding.of(
                    "M003",
                    f"file group {group.file_slice.file_id} of the record index has keys that "
                    f"belong into another of its file groups, and look-ups miss them: "
                    f"{few(misplaced)}",
                    paths=[file.path for file in group.file_slice.files],
                )

    wanted = [file_slice for own in slices.values() for file_slice in own]

    def read(file_slice: FileSlice) -> Fingerprint:
        return sum(map(Fingerprint.of, merged_keys(snapshot, file_slice)), Fingerprint())

    found = map_in_threads(read, wanted, workers)
    differing: list[FileSlice] = []
    num_keys = 0
    for file_slice, fingerprint in zip(wanted, found, strict=True):
        known = indexed.pop((file_slice.partition_path, file_slice.file_id), Fingerprint())
        if known != fingerprint:
            differing.append(file_slice)
            num_keys += fingerprint.count
            if num_keys >= _KEYS_OF_A_SCAN:
                yield from _explain(partition, snapshot, differing)
                differing, num_keys = [], 0
    if differing:
        yield from _explain(partition, snapshot, differing)
    for (path, file_id), stale in sorted(indexed.items(), key=itemgetter(0)):
        if not is_whole and path not in slices:
            continue
        yield Finding.of(
            "M003",
            f"{stale.count} entries of the record index point to file group {file_id}, "
            "which readers do not see",
            partition=path,
            file_groups=[(path, file_id)],
        )


@dataclass
class _Differences:
    """What is wrong with the entries of one file group: some keys of each kind, and how many.

    Attributes:
        hashes: Of the keys that readers see.
    """

    hashes: npt.NDArray[np.uint64]
    missing: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    num_missing: int = 0
    num_elsewhere: int = 0
    num_stale: int = 0


def _explain(
    partition: MetadataPartition, snapshot: Snapshot, slices: Sequence[FileSlice]
) -> Iterator[Finding]:
    """Yield what is wrong with the entries of some file groups. The index is scanned once."""
    found = {(own.partition_path, own.file_id): own for own in slices}
    differences = [_look_up_keys(partition, snapshot, own) for own in found.values()]
    numbers = {own: number for number, own in enumerate(found)}
    for group in (group for groups in partition.groups.values() for group in groups):
        for keys, locations in _batches(group.scan()):
            places = np.fromiter((numbers.get(own, -1) for own in locations), np.int64, len(keys))
            for number in np.unique(places[places >= 0]).tolist():
                own, known = keys.filter(pa.array(places == number)), differences[number]
                stale = own.filter(pa.array(~np.isin(xxhash64s(own, 0), known.hashes)))
                known.num_stale += len(stale)
                known.stale += stale[:SHOWN].to_pylist()
    for file_slice, known in zip(found.values(), differences, strict=True):
        for count, example, what in (
            (known.num_missing, known.missing, "keys are not in the record index: a writer that "
             "goes by it adds them a second time"),
            (known.num_elsewhere, known.elsewhere, "keys are in another file group by the record "
             "index"),
            (known.num_stale, known.stale, "entries of the record index are of keys that are not "
             "there"),
        ):  # fmt: skip
            if count:
                yield Finding.of(
                    "M003",
                    f"file group {file_slice.file_id}: {count} {what}: {few(example)}",
                    partition=file_slice.partition_path,
                    slices=[file_slice],
                )


def _look_up_keys(
    partition: MetadataPartition, snapshot: Snapshot, file_slice: FileSlice
) -> _Differences:
    """Return what is wrong with the entries of the keys that a file slice has."""
    own = (file_slice.partition_path, file_slice.file_id)
    data_partition = file_slice.partition_path if partition.is_partitioned else None
    differences, hashes = _Differences(np.empty(0, np.uint64)), [np.empty(0, np.uint64)]
    for batch in merged_keys(snapshot, file_slice):
        for start in range(0, len(batch), _KEYS_MAX):
            keys = batch.slice(start, _KEYS_MAX)
            hashes.append(xxhash64s(keys, 0))
            found = partition.locate(keys, data_partition, checks_place=False)
            is_own = np.array([_group_of(each) == own for each in found.locations] + [False])
            lost = keys.filter(pa.array(found.numbers < 0))
            moved = keys.filter(pa.array((found.numbers >= 0) & ~is_own[found.numbers]))
            differences.num_missing += len(lost)
            differences.num_elsewhere += len(moved)
            differences.missing += lost[:SHOWN].to_pylist()
            differences.elsewhere += moved[:SHOWN].to_pylist()
    differences.hashes = np.concatenate(hashes)
    return differences


def _batches(
    entries: Iterator[tuple[bytes, MetadataRecord]],
) -> Iterator[tuple[pa.Array, list[FileGroupId]]]:
    """Yield keys and the file groups that their entries point to."""
    while batch := list(islice(entries, _BATCH)):
        try:
            keys = pa.array([key.decode() for key, _ in batch], pa.string())
        except UnicodeDecodeError:
            raise CorruptError("a key of the record index is not UTF-8") from None
        yield keys, [_group_of(record) for _, record in batch]


def _group_of(record: MetadataRecord) -> FileGroupId:
    if not isinstance(record, RecordLocation):
        raise CorruptError(f"an entry of the record index is a {type(record).__name__}")
    return record.partition_path, record.file_id


def _by_group(keys: pa.Array, locations: Sequence[FileGroupId]) -> dict[FileGroupId, Fingerprint]:
    """Return the fingerprint of the keys of each file group."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(locations))}
    place = np.fromiter((numbers[group] for group in locations), np.int64, len(locations))
    hashes = xxhash64s(keys, 0)
    counts = np.bincount(place, minlength=len(numbers))
    digests = np.zeros(len(numbers), np.uint64)
    np.add.at(digests, place, hashes)
    return {
        group: Fingerprint(int(counts[number]), int(digests[number]))
        for group, number in numbers.items()
    }
