"""Where keys live, and their rows.

I/O: `locate_keys` and `plan_locator` list; `lookup_rows` opens only the buckets of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from bucketfmt.errors import IndexUnknownError, NotFoundError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.layout import BucketLayout
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.find_locator import find_locator
from bucketfmt.location.located import Located, keys_by_partition
from bucketfmt.location.locator import BucketLocator, place_slices
from bucketfmt.metadata_table.metadata_lister import metadata_behind
from bucketfmt.metadata_table.skipping.bloom_skipping import prune_by_bloom_filters
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.streams import merge_streams, reader_count
from bucketfmt.table.keys import KeySet, KeysLike, read_keys
from bucketfmt.table.scan import output_schema

__all__ = [
    "LOCATION_SCHEMA",
    "KeyLocator",
    "PartitionLocator",
    "PlacedFiles",
    "locate_keys",
    "lookup_rows",
    "plan_locator",
    "read_keys_of_slices",
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
        layout_of_new: Returns the layout that a partition gets by its first write; None for a
            locator of some partitions, which cannot tell new partitions from those left out.
    """

    config: TableConfig
    schema: pa.Schema
    partitions: Mapping[str, PartitionLocator]
    layout_of_new: Callable[[str], BucketLayout] | None = None

    def locate(self, keys: KeysLike) -> pa.Table:
        """Return what `Table.locate` does; of a partition that is new to the locator, no files.

        Raises:
            NotFoundError: a key is in none of the partitions that the locator was made for.
        """
        found = read_keys(keys, self.config, lambda: self.schema)
        return _tabulate(
            found.record_keys,
            self._located(found),
            in_order=found.partition_paths is not None,
        )

    def _located(self, keys: KeySet) -> Iterator[tuple[Located, PlacedFiles]]:
        every = tuple(self.partitions)
        for path, own, rows in keys_by_partition(every, keys.record_keys, keys.partition_paths):
            some = self.partitions.get(path) or self._new_partition(path)
            bucket_ids = some.layout.assign(own)
            yield Located(path, rows, bucket_ids, {}, bucket_ids), some.files

    def _new_partition(self, path: str) -> PartitionLocator:
        if self.layout_of_new is None:
            raise NotFoundError(
                f"the locator was made for some partitions, and {path!r} is not among them; name "
                "it too by partitions=, or leave partitions= out"
            )
        return PartitionLocator(self.layout_of_new(path), PlacedFiles.of({}))


@dataclass(frozen=True, eq=False)
class PartitionLocator:
    """The buckets of a partition, and the files of each."""

    layout: BucketLayout
    files: PlacedFiles


@dataclass(frozen=True, eq=False)
class PlacedFiles:
    """The files of file groups: row i + 1 of `files` those of a file group of `places[i]`.

    Attributes:
        places: Ascending; a place with several file groups stands there as often. In a table
            with buckets a place is a bucket id.
        files: Row 0 stands for a place without a file group.
    """

    places: np.ndarray
    files: pa.Table

    @classmethod
    def of(cls, slices: Mapping[int, Sequence[FileSlice]]) -> PlacedFiles:
        """Return the files of slices, which are given by place."""
        found = [(place, own) for place in sorted(slices) for own in slices[place]]
        files = pa.table(
            {
                "file_id": [None, *(own.file_id for _, own in found)],
                "base_file": [None, *(_base_path(own) for _, own in found)],
                "log_files": [None, *([file.path for file in own.log_files] for _, own in found)],
            },
            pa.schema([LOCATION_SCHEMA.field(n) for n in ("file_id", "base_file", "log_files")]),
        )
        return cls(np.array([place for place, _ in found], np.int64), files)

    def find(self, places: np.ndarray) -> tuple[np.ndarray, pa.Table]:
        """Return a row for each file group of each of these places, or one row without files.

        Returns:
            The index into `places` that each row is for, ascending; the rows.
        """
        starts = np.searchsorted(self.places, places, "left")
        counts = np.searchsorted(self.places, places, "right") - starts
        sizes = np.maximum(counts, 1)
        of_key = np.repeat(np.arange(len(places)), sizes)
        within = np.arange(len(of_key)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = np.where(counts[of_key] > 0, starts[of_key] + within + 1, 0)
        return of_key, self.files.take(pa.array(rows))


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
        layout = index_finder.layout(snapshot, path)
        files = PlacedFiles.of(place_slices(snapshot.slices(path), layout))
        found[path] = PartitionLocator(layout, files)
    layout_of_new = index_finder.layout_of_new(snapshot) if partitions is None else None
    return KeyLocator(snapshot.state.config, snapshot.schema.data, found, layout_of_new)


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
    locator = find_locator(snapshot, index_finder)
    located = locator.locate(keys.record_keys, keys.partition_paths, partitions)
    is_global = locator.late is not None and locator.late.has_global_keys
    return _tabulate(
        keys.record_keys,
        ((found, PlacedFiles.of(found.slices)) for found in located),
        in_order=is_global or keys.partition_paths is not None,
    )


def _tabulate(
    record_keys: pa.ChunkedArray,
    located: Iterable[tuple[Located, PlacedFiles]],
    *,
    in_order: bool,
) -> pa.Table:
    """Return what was located as a table; `in_order`: of the keys, or else of the partitions."""
    tables, rows = [], []
    for one, files in located:
        of_key, found = files.find(one.places)
        own = one.rows[of_key]
        is_every_key = len(own) == len(record_keys) and len(of_key) == len(one.places)
        own_keys = record_keys if is_every_key and not in_order else record_keys.take(pa.array(own))
        partition = pa.repeat(pa.scalar(one.partition_path, pa.string()), len(own))
        bucket_ids = None if one.buckets is None else pa.array(one.buckets[of_key], pa.int32())
        columns = [
            own_keys,
            partition,
            pa.nulls(len(own), pa.int32()) if bucket_ids is None else bucket_ids,
            *found.columns,
        ]
        tables.append(pa.table(columns, schema=LOCATION_SCHEMA))
        rows.append(own)
    if not tables:
        return LOCATION_SCHEMA.empty_table()
    every = pa.concat_tables(tables)
    if len(tables) == 1 or not in_order:
        return every
    return every.take(pa.array(np.argsort(np.concatenate(rows), kind="stable")))


def _base_path(file_slice: FileSlice) -> str | None:
    return file_slice.base_file.path if file_slice.base_file else None


def lookup_rows(
    snapshot: Snapshot,
    index_finder: IndexFinder,
    keys: KeySet,
    columns: Sequence[str] | None = None,
    *,
    with_orphans: bool = False,
) -> pa.Table:
    """Return the rows of keys. As `Table.lookup`; `with_orphans` as `RowSpec` has it."""
    output = output_schema(snapshot.schema, columns, meta_columns=False)
    with snapshot.state.read_here():
        found = _candidates(snapshot, index_finder, keys)
        metadata = metadata_behind(snapshot.state.lister)
        if metadata is not None:
            found = prune_by_bloom_filters(metadata, found)
    return read_keys_of_slices(snapshot, found, output, with_orphans=with_orphans)


def _candidates(
    snapshot: Snapshot, index_finder: IndexFinder, keys: KeySet
) -> list[tuple[FileSlice, pa.Array]]:
    locator, asked = find_locator(snapshot, index_finder), (keys.record_keys, keys.partition_paths)
    try:
        return list(locator.candidates(*asked))
    except IndexUnknownError as error:  # it was dropped since
        return list(BucketLocator(snapshot, index_finder, error).candidates(*asked))


def read_keys_of_slices(
    snapshot: Snapshot,
    slices: Sequence[tuple[FileSlice, pa.Array]],
    output: pa.Schema,
    *,
    with_orphans: bool = False,
) -> pa.Table:
    """Return the rows that file slices have of record keys.

    Args:
        snapshot: The table.
        slices: (file slice, record keys to look for in the slice).
        output: The columns to return.
        with_orphans: As `RowSpec` has it.

    Raises:
        CorruptError: a file is missing or damaged.
        NotFoundError: a file was deleted since, by a rollback or a clean.
    """
    spec = RowSpec(snapshot.schema, output, with_orphans=with_orphans)
    with snapshot.state.read_here():
        streams = [
            partial(SliceReader(snapshot, replace(spec, keys=own)).read, file_slice, None)
            for file_slice, own in slices
        ]
        sizes = [file_slice.size for file_slice, _ in slices]
        workers = reader_count(snapshot.state.store, sizes)
        found = list(merge_streams(streams, workers, buffered=workers))
    return pa.concat_tables([output.empty_table(), *found])
