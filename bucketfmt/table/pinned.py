"""A table at one timeline, as a value that is sent to other processes.

The value holds no listings and no commits; a process reads them when it needs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.arguments import check_kind, check_text
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import Index
from bucketfmt.limits import Limits
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.location.locator import BucketLocator
from bucketfmt.process import cached_property
from bucketfmt.rows.columns.virtual_keys import partition_paths
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store
from bucketfmt.table.keys import cast_key_fields, read_keys
from bucketfmt.timeline.timeline import Timeline

__all__ = ["PinnedTable"]

_ASSIGNED = pa.schema({"partition_path": pa.string(), "bucket_id": pa.int32(), "rank": pa.int32()})


@dataclass(frozen=True, eq=False)
class PinnedTable:
    """A table at one timeline. Pickles; holds the store's options, including secrets.

    Attributes:
        store: The table's files.
        config: The table's properties.
        limits: The bounds that were given to `open`.
        index: The index that was given to `open`, if any.
        timeline: The timeline.
    """

    store: Store
    config: TableConfig
    limits: Limits
    index: Index | None
    timeline: Timeline

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot of the table at the timeline."""
        lister = StoreLister(self.store)
        return Snapshot(TableState(self.store, self.config, self.timeline, self.limits, lister))

    @cached_property
    def finder(self) -> IndexFinder:
        """Finds the table's index."""
        return IndexFinder(self.store, self.config, self.limits, self.index)

    def layout(self, partition_path: str) -> BucketLayout:
        """Return the layout of a partition, which may be new. As `IndexFinder.layout`."""
        check_text("partition_path", partition_path)
        return self.finder.layout(self.snapshot, partition_path)

    def assign(self, rows: pa.Table) -> pa.Table:
        """Return the bucket of each row, in order, by hashing alone.

        Args:
            rows: Rows with the key and partition fields, or with Hudi's columns for them.

        Returns:
            partition_path; bucket_id, which on a ring is the node's value; and rank, the position
            of the bucket among the partition's buckets, from 0. Buckets that a pending resize
            merges have one rank: one task has to write them.

        Raises:
            KeyEncodingError: a key is null or empty, rows with other values would have the same
                key, or Hudi never returns from hashing the key.
            IndexUnknownError: the index is unknown, not proved for a partition, or has no buckets.
        """
        check_kind("rows", rows, pa.Table, "a pyarrow Table")
        keys = read_keys(rows, self.config, self._columns, lambda: self._key_encoding)
        paths = keys.partition_paths
        if paths is None:
            fields = cast_key_fields(rows, self.config.partition_fields, self._columns())
            paths = partition_paths(fields, self.config)
        encoded = paths.combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy()
        locator = BucketLocator(self.snapshot, self.finder)
        bucket_ids, ranks = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
        for code, path in enumerate(encoded.dictionary.to_pylist()):
            own = np.flatnonzero(codes == code)
            layout = locator.layout(path)
            hashes = layout.hash_keys(keys.record_keys.take(pa.array(own)))
            bucket_ids[own] = layout.buckets_of_hashes(hashes)
            together = locator.routing(path).meet(layout) or layout
            places = together.buckets_of_hashes(hashes)
            ranks[own] = np.searchsorted(np.asarray(together.bucket_ids), places)
        return pa.table([paths, pa.array(bucket_ids), pa.array(ranks)], schema=_ASSIGNED)

    def _columns(self) -> pa.Schema:
        return self.snapshot.schema.data

    @cached_property
    def _key_encoding(self) -> KeyEncoding | None:
        return find_key_encoding(self.snapshot)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
