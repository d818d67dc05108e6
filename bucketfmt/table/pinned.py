"""A table as it was at one timeline, as a value: what is sent to who works on it elsewhere.

It holds no listings and no commits, which are read where, and if, they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.layout import BucketLayout
from bucketfmt.index.model import Index
from bucketfmt.limits import Limits
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.process import cached_property
from bucketfmt.rows.columns.virtual_keys import partition_paths
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store
from bucketfmt.table.keys import cast_key_fields, read_keys
from bucketfmt.timeline.timeline import Timeline

__all__ = ["PinnedTable"]

_ASSIGNED = pa.schema({"partition_path": pa.string(), "bucket_id": pa.int32(), "rank": pa.int32()})


@dataclass(frozen=True, eq=False)
class PinnedTable:
    """A table at one timeline. Pickles; holds the store's options, secrets among them.

    Attributes:
        store: The table's files.
        config: Its properties.
        limits: The bounds it was opened with.
        index: What the caller of `open` said of the index.
        timeline: How far it is looked at.
    """

    store: Store
    config: TableConfig
    limits: Limits
    index: Index | None
    timeline: Timeline

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as the timeline has it."""
        return Snapshot(TableState(self.store, self.config, self.timeline, self.limits))

    @cached_property
    def finder(self) -> IndexFinder:
        """What tells the index."""
        return IndexFinder(self.store, self.config, self.limits, self.index)

    def layout(self, partition_path: str) -> BucketLayout:
        """Return the layout of a partition, which may be new. As `IndexFinder.layout`."""
        return self.finder.layout(self.snapshot, partition_path)

    def assign(self, rows: pa.Table) -> pa.Table:
        """Return the bucket of each row, in order, by hashing alone.

        Args:
            rows: With the key fields and the partition fields, or Hudi's columns for them.

        Returns:
            partition_path; bucket_id, on a ring the node's value; rank, which of the partition's
            buckets that is, from 0.

        Raises:
            KeyEncodingError: a key that is null or empty, that rows of other values would have too,
                or on which Hudi never returns.
            IndexUnknownError: the index is unknown, or keeps no buckets.
        """
        keys = read_keys(rows, self.config, self._columns, lambda: self._key_encoding)
        paths = keys.partition_paths
        if paths is None:
            fields = cast_key_fields(rows, self.config.partition_fields, self._columns())
            paths = partition_paths(fields, self.config)
        encoded = paths.combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy()
        bucket_ids, ranks = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
        for code, path in enumerate(encoded.dictionary.to_pylist()):
            own = np.flatnonzero(codes == code)
            layout = self.layout(path)
            found = layout.assign(keys.record_keys.take(pa.array(own)))
            bucket_ids[own] = found
            ranks[own] = np.searchsorted(np.asarray(layout.bucket_ids), found)
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
