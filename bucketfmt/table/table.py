"""A table as it is read: `bucketfmt.Table` is this one and what else can be done with a table.

I/O. Reading never writes: a table opened with read-only credentials reads as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa

from bucketfmt.arguments import check_names
from bucketfmt.errors import NotFoundError
from bucketfmt.format.names.instants import normalise_instant
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.model import Index
from bucketfmt.index.resolve import ResolvedIndex
from bucketfmt.limits import Limits
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.process import Mutex
from bucketfmt.rows.filters import FilterLike, parse_filter
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store
from bucketfmt.table.inspect import Inspect
from bucketfmt.table.keys import KeySet, KeysLike, read_keys
from bucketfmt.table.lookup import KeyLocator, locate_keys, lookup_rows, plan_locator
from bucketfmt.table.pinned import PinnedTable
from bucketfmt.table.scan import Scan, plan_changes, plan_scan
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.timeline import Timeline

__all__ = ["Moment", "Table"]

Moment = str | datetime
"""An instant (`20240131120000000`), ISO text, or a datetime."""


class Table:
    """A Hudi table. Follows its timeline: each call sees the newest completed commit.

    Safe to use from several threads, and in a forked child.

    Attributes:
        config: The table's properties, typed.
        limits: The bounds it was opened with.
        store: Its files.
    """

    def __init__(
        self, store: Store, config: TableConfig, limits: Limits, index: Index | None
    ) -> None:
        self.store = store
        self.config = config
        self.limits = limits
        self._index_finder = IndexFinder(store, config, limits, index)
        self._state: TableState | None = None
        self._newest: Snapshot | None = None
        self._lock = Mutex()

    def __repr__(self) -> str:
        return f"<bucketfmt.Table {self.config.name} at {self.uri}>"

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self.store.uri

    @property
    def state(self) -> TableState:
        """The table as its timeline stands now: one listing, the rest is kept between calls."""
        for attempts_left in (2, 1, 0):
            timeline = load_timeline(self.store, self.config, self.limits)
            with self._lock:
                if self._state is not None and self._state.timeline.instants == timeline.instants:
                    return self._state
            state = TableState(self.store, self.config, timeline, self.limits)
            try:
                state.load()
            except NotFoundError:
                # A writer archived or rolled back between the listing and the reading.
                if not attempts_left:
                    raise
                continue
            with self._lock:
                self._state = state
            break
        return state

    def _adopt(self, config: TableConfig) -> None:
        """Go on with properties that were read anew: others may have changed the table's."""
        if config.properties == self.config.properties:
            return
        with self._lock:
            self.config = config
            self._state = None

    def _snapshot(self) -> Snapshot:
        """The table as its timeline stands now; one object while it does not move."""
        state = self.state
        with self._lock:
            if self._newest is None or self._newest.state is not state:
                self._newest = Snapshot(state)
            return self._newest

    @property
    def timeline(self) -> Timeline:
        """The active timeline."""
        return self.state.timeline

    @property
    def schema(self) -> pa.Schema:
        """The user's columns, as Arrow has them."""
        return self._snapshot().schema.data

    @property
    def resolved_index(self) -> ResolvedIndex:
        """The table's index and how it is known. May sample keys, once, where nothing states it."""
        return self._index_finder.resolve(self._snapshot())

    @property
    def index(self) -> Index | None:
        """How keys map to file groups; None where nothing proves it."""
        return self.resolved_index.index

    @property
    def inspect(self) -> Inspect:
        """Tables about the table."""
        return Inspect(self.state, self._index_finder)

    def pinned(self) -> PinnedTable:
        """Return the table as it is now, as a value that pickles and does not follow it."""
        timeline = self.state.timeline
        return PinnedTable(
            self.store,
            self.config,
            self.limits,
            self._index_finder.argument,
            Timeline(timeline.instants, timeline.layout),
        )

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002  (the name users of pyarrow know)
        as_of: Moment | None = None,
        read_optimized: bool = False,
        meta_columns: bool = False,
        limit: int | None = None,
    ) -> Scan:
        """Plan a read of the table's rows.

        Args:
            columns: Names to return, in this order; all of the user's columns by default.
            filter: (column, op, value) tuples that must all hold, a list of such lists of which
                one must, or a pyarrow expression (applied, but no file group is pruned by it).
            as_of: Read what was requested up to this moment, inclusive.
            read_optimized: Base files only: what is in log files is not seen.
            meta_columns: Hudi's own columns too, before the others: five, and `_hoodie_operation`
                where the table keeps that (Flink's `changelog.enabled`).
            limit: At most so many rows.

        Raises:
            SchemaError: an unknown column.
            UnsupportedError: the table merges records in a way that is not built.
            NotFoundError: of the scan when it reads: a rollback or a clean has deleted files since
                it was made; make a new one.
        """
        return plan_scan(
            self._snapshot() if as_of is None else Snapshot(self.state, self._instant(as_of)),
            self._index_finder,
            columns=columns,
            row_filter=parse_filter(filter) if filter is not None else None,
            read_optimized=read_optimized,
            meta_columns=meta_columns,
            limit=limit,
        )

    def changes(
        self,
        since: Moment | None,
        until: Moment | None = None,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        meta_columns: bool = False,
        limit: int | None = None,
    ) -> Scan:
        """Plan a read of the rows written after `since` (None: ever), up to `until` inclusive.

        Each row as it stood at `until`; deleted rows are not told. Both moments are completion
        times in tables of version 8 and later, requested times before, as in Hudi.
        """
        return plan_changes(
            self.state,
            self._index_finder,
            since=self._instant(since),
            until=self._instant(until),
            columns=columns,
            row_filter=parse_filter(filter) if filter is not None else None,
            meta_columns=meta_columns,
            limit=limit,
        )

    def locate(self, keys: KeysLike, partitions: Sequence[str] | None = None) -> pa.Table:
        """Return where keys live or would live, by hashing alone.

        No data file is opened where the table records its index. Otherwise keys of up to nine file
        groups of each partition are read, once, which have to prove the index. (One more file is
        opened where `keys` are rows and only the keys that are there tell how a complex key of
        one field is written: in tables of version 6 and 8.)

        Args:
            keys: Record keys (a list or an Arrow column of text), or rows with
                `_hoodie_record_key` or the key fields, and with `_hoodie_partition_path` or the
                partition fields if the table has partitions.
            partitions: Partition paths to look in, where `keys` does not tell; all by default.

        Returns:
            record_key, partition_path, bucket_id, file_id, base_file, log_files: a row for each
            key, in the order of `keys`; where they do not tell a partition, for each partition
            and key. A bucket without a file group has null file_id. On a consistent hashing
            ring, bucket_id is the ring value of the node.

        Raises:
            IndexUnknownError: nothing says how keys map to buckets, or the index has none, or the
                table does not prove the index for a partition.
            KeyEncodingError: a key on which Hudi itself never returns.
            SchemaError: a key or partition value has no equal in the table's type.
            CorruptError: two file groups share the bucket of a key.
            ValueError: `index` of `open` contradicts the table's file groups or keys.
        """
        if partitions is not None:
            partitions = check_names("partitions", partitions)
        snapshot = self._snapshot()
        return locate_keys(snapshot, self._index_finder, self._read_keys(keys), partitions)

    def locator(self, partitions: Sequence[str] | None = None) -> KeyLocator:
        """Return what locates keys elsewhere, without I/O: a value that pickles. As `locate`.

        It has a few hundred bytes a file group, of all partitions or of these.
        """
        if partitions is not None:
            partitions = check_names("partitions", partitions)
        return plan_locator(self._snapshot(), self._index_finder, partitions)

    def lookup(self, keys: KeysLike, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of keys; opens only their buckets. Keys as in `locate`.

        Where the index is unknown, is not proved for a partition or has no buckets, all file
        groups of the keys' partitions are looked at.

        Raises:
            ValueError: `index` of `open` contradicts the table's file groups or keys.
        """
        if columns is not None:
            columns = check_names("columns", columns)
        snapshot = self._snapshot()
        return lookup_rows(snapshot, self._index_finder, self._read_keys(keys), columns)

    def _read_keys(self, keys: KeysLike) -> KeySet:
        return read_keys(
            keys,
            self.config,
            lambda: self._snapshot().schema.data,
            lambda: find_key_encoding(self._snapshot()),
        )

    def _instant(self, moment: Moment | None) -> str | None:
        return None if moment is None else normalise_instant(moment, self.config.timezone)
