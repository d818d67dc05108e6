"""Where keys live, and their rows.

I/O: `locate_keys` and `plan_locator` list; `lookup_rows` opens only the buckets of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import CorruptError, IndexUnknownError, NotFoundError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.layout import BucketLayout
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import merge_streams, reader_count
from bucketfmt.table.keys import KeySet, KeysLike, read_keys
from bucketfmt.table.scan import output_schema

__all__ = [
    "LOCATION_SCHEMA",
    "KeyLocator",
    "PartitionLocator",
    "locate_keys",
    "lookup_rows",
    "plan_locator",
    "slices_by_bucket",
]

LOCATION_SCHEMA = pa.schema(
    {
        "record_key": pa.string(),
        "partition_path": pa.string(),
        "bucket_id": pa.int32(),
        "file_id": pa.string(),
        "base_file": pa.string(),
        "log_files": pa.list_(pa.string()),
    }
)


@dataclass(frozen=True, eq=False)
class KeyLocator:
    """Where keys live in one snapshot. Pickles: other processes locate keys by it without I/O.

    Attributes:
        config: The table's.
        schema: The table's columns.
        partitions: By partition path.
    """

    config: TableConfig
    schema: pa.Schema
    partitions: Mapping[str, PartitionLocator]

    def locate(self, keys: KeysLike) -> pa.Table:
        """Return what `Table.locate` does, of partitions that it has."""
        found = read_keys(keys, self.config, lambda: self.schema)
        return _locate(found, _by_partition(tuple(self.partitions), found, None), self._partition)

    def _partition(
        self, path: str, record_keys: pa.ChunkedArray
    ) -> tuple[PartitionLocator, np.ndarray]:
        some = self.partitions.get(path)
        if some is None:
            raise NotFoundError(
                "the table had no such partition when the locator was made; make a new one"
            )
        return some, some.buckets.assign(record_keys)


@dataclass(frozen=True, eq=False)
class PartitionLocator:
    """The buckets of a partition, and the files of each: row i + 1 those of `bucket_ids[i]`.

    Row 0 stands for a bucket without a file group.
    """

    buckets: BucketLayout
    bucket_ids: Sequence[int]
    files: pa.Table

    @classmethod
    def of(cls, slices: Sequence[FileSlice], buckets: BucketLayout) -> PartitionLocator:
        """Return the locator of file slices.

        Raises:
            CorruptError: a bucket has two.
            IndexUnknownError: a file group is in no bucket.
        """
        of_bucket = slices_by_bucket(slices, buckets)
        found = sorted(of_bucket)
        files = pa.table(
            {
                "file_id": [None, *(of_bucket[b].file_id for b in found)],
                "base_file": [None, *(_base_path(of_bucket[b]) for b in found)],
                "log_files": [
                    None,
                    *([file.path for file in of_bucket[b].log_files] for b in found),
                ],
            },
            pa.schema([LOCATION_SCHEMA.field(n) for n in ("file_id", "base_file", "log_files")]),
        )
        return cls(buckets, found, files)

    def locate(
        self, partition_path: str, record_keys: pa.ChunkedArray, bucket_ids: np.ndarray
    ) -> pa.Table:
        """Return the locations of keys whose buckets are known."""
        at = np.searchsorted(self.bucket_ids, bucket_ids)
        is_found = np.isin(bucket_ids, self.bucket_ids)
        rows = self.files.take(pa.array(np.where(is_found, at + 1, 0)))
        partition = pa.repeat(pa.scalar(partition_path, pa.string()), len(bucket_ids))
        columns = [record_keys, partition, pa.array(bucket_ids, pa.int32()), *rows.columns]
        return pa.table(columns, schema=LOCATION_SCHEMA)


def plan_locator(
    snapshot: Snapshot, index_finder: IndexFinder, partitions: Sequence[str] | None = None
) -> KeyLocator:
    """Return a locator of all keys, or of those in some partitions.

    Raises:
        IndexUnknownError: as `locate_keys`.
        CorruptError: as `locate_keys`.
    """
    found = {}
    for path in snapshot.partitions if partitions is None else partitions:
        buckets = index_finder.layout(snapshot, path)
        found[path] = PartitionLocator.of(snapshot.slices(path), buckets)
    return KeyLocator(snapshot.state.config, snapshot.schema.data, found)


def locate_keys(
    snapshot: Snapshot,
    index_finder: IndexFinder,
    keys: KeySet,
    partitions: Sequence[str] | None = None,
) -> pa.Table:
    """Return the bucket and the files of each key. As `Table.locate`.

    Raises:
        IndexUnknownError: the index is unknown, keeps no buckets, or leaves out file groups.
        CorruptError: a key's bucket has two file groups.
        ValueError: the caller's index contradicts the table.
    """

    def locator(path: str, record_keys: pa.ChunkedArray) -> tuple[PartitionLocator, np.ndarray]:
        buckets = index_finder.layout(snapshot, path)
        bucket_ids = buckets.assign(record_keys)
        slices = _slices_in_buckets(snapshot, path, buckets, bucket_ids)
        return PartitionLocator.of(slices, buckets), bucket_ids

    return _locate(keys, _by_partition(snapshot.partitions, keys, partitions), locator)


def _locate(
    keys: KeySet,
    by_partition: Iterator[tuple[str, pa.ChunkedArray, np.ndarray]],
    locator: Callable[[str, pa.ChunkedArray], tuple[PartitionLocator, np.ndarray]],
) -> pa.Table:
    located, rows = [], []
    for path, record_keys, rows_of_keys in by_partition:
        partition, bucket_ids = locator(path, record_keys)
        located.append(partition.locate(path, record_keys, bucket_ids))
        rows.append(rows_of_keys)
    if not located:
        return LOCATION_SCHEMA.empty_table()
    found = pa.concat_tables(located)
    if len(located) == 1 or keys.partition_paths is None:
        return found
    return found.take(pa.array(np.argsort(np.concatenate(rows))))


def _by_partition(
    every_path: Sequence[str], keys: KeySet, partitions: Sequence[str] | None
) -> Iterator[tuple[str, pa.ChunkedArray, np.ndarray]]:
    """Yield (partition path, its keys, their rows among all keys)."""
    every_row = np.arange(len(keys.record_keys))
    if keys.partition_paths is None:
        for path in every_path if partitions is None else partitions:
            yield path, keys.record_keys, every_row
        return
    if partitions is not None:
        raise ValueError("the keys have their partitions; leave partitions= out")
    encoded = keys.partition_paths.combine_chunks().dictionary_encode()
    paths, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    if len(paths) < 2:
        yield from ((path, keys.record_keys, every_row) for path in paths)
        return
    order = np.argsort(codes, kind="stable")
    for path, rows in zip(paths, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True):
        yield path, keys.record_keys.take(pa.array(rows)), rows


def _base_path(file_slice: FileSlice) -> str | None:
    return file_slice.base_file.path if file_slice.base_file else None


def slices_by_bucket(slices: Sequence[FileSlice], buckets: BucketLayout) -> dict[int, FileSlice]:
    """Return the slices by their buckets.

    Raises:
        CorruptError: a bucket has two.
        IndexUnknownError: a file group is in no bucket.
    """
    found: dict[int, FileSlice] = {}
    for file_slice in slices:
        bucket_id = buckets.bucket_of(file_slice.file_id)
        if bucket_id is None:
            raise IndexUnknownError(
                f"file group {file_slice.file_id} is in no bucket of the index, so hashing does "
                "not tell whether it holds a key; pass the index= it was written with, or use "
                "lookup(), which looks into it",
                partition=file_slice.partition_path,
            )
        if bucket_id in found:
            raise CorruptError(
                f"two file groups in one bucket, {found[bucket_id].file_id} and "
                f"{file_slice.file_id}: a scan returns the rows of both; run bucketfmt check",
                partition=file_slice.partition_path,
                bucket=bucket_id,
            )
        found[bucket_id] = file_slice
    return found


def lookup_rows(
    snapshot: Snapshot,
    index_finder: IndexFinder,
    keys: KeySet,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the rows of keys. As `Table.lookup`."""
    table = snapshot.schema
    output = output_schema(table, columns, meta_columns=False)
    streams, size = [], 0
    with snapshot.state.read_here():
        for path, record_keys, _ in _by_partition(snapshot.partitions, keys, None):
            slices = _slices_of_keys(snapshot, index_finder, path, record_keys)
            for file_slice, own in slices:
                spec = RowSpec(table=table, output=output, keys=own)
                streams.append(partial(SliceReader(snapshot, spec).read, file_slice, None))
                size += file_slice.size
        workers = reader_count(snapshot.state.store, size)
        found = list(merge_streams(streams, workers, buffered=workers))
    return pa.concat_tables([output.empty_table(), *found])


def _slices_of_keys(
    snapshot: Snapshot,
    index_finder: IndexFinder,
    partition_path: str,
    record_keys: pa.ChunkedArray,
) -> Iterator[tuple[FileSlice, pa.Array]]:
    """Yield the slices that may hold keys, each with those keys.

    A file group that is off the ring (or any, where no index is proved) may hold all of them.
    """
    distinct = pc.unique(record_keys)
    try:
        buckets = index_finder.layout(snapshot, partition_path)
    except IndexUnknownError:
        yield from ((file_slice, distinct) for file_slice in snapshot.slices(partition_path))
        return
    bucket_ids = buckets.assign(distinct)
    for file_slice in _slices_in_buckets(snapshot, partition_path, buckets, bucket_ids):
        bucket_id = buckets.bucket_of(file_slice.file_id)
        if bucket_id is None:
            yield file_slice, distinct
        else:
            yield file_slice, distinct.filter(pa.array(bucket_ids == bucket_id))


def _slices_in_buckets(
    snapshot: Snapshot, partition_path: str, buckets: BucketLayout, bucket_ids: np.ndarray
) -> list[FileSlice]:
    """Return the slices in any of these buckets, and those in no bucket of the index."""
    asked = {None, *pc.unique(pa.array(bucket_ids)).to_pylist()}
    return snapshot.slices_where(partition_path, lambda id_: buckets.bucket_of(id_) in asked)
