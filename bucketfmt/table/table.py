"""A table for reading. `bucketfmt.Table` is this class with writes, services and checks.

I/O. Reading never writes: read-only credentials suffice.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from bucketfmt.arguments import check_names
from bucketfmt.errors import NotFoundError
from bucketfmt.extras import of_extra
from bucketfmt.facts import facts_html
from bucketfmt.format.names.instants import normalise_instant
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.index.model import Index
from bucketfmt.index.resolve import ResolvedIndex
from bucketfmt.limits import Limits
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.location.rehashed_number import may_be_rehashed
from bucketfmt.metadata_table.metadata_lister import find_lister
from bucketfmt.process import new_mutex
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import record_keys
from bucketfmt.rows.filters.filter import FilterLike, parse_filter
from bucketfmt.snapshot.kept_commits import KeptCommits
from bucketfmt.snapshot.listing import StoreLister
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.store import Store
from bucketfmt.storage.streams import do_together
from bucketfmt.table.describe import load_facts
from bucketfmt.table.inspect import Inspect
from bucketfmt.table.keys import (
    KeySet,
    KeysLike,
    hold_keys,
    key_columns,
    may_be_misspelt,
    read_keys,
)
from bucketfmt.table.lookup import KeyLocator, locate_keys, lookup_rows, plan_locator
from bucketfmt.table.pinned import PinnedTable
from bucketfmt.table.scan import Scan, plan_changes, plan_scan
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Timeline

if TYPE_CHECKING:
    import pandas
    import polars

    from bucketfmt.table.dataset_view import TableDataset

__all__ = ["Moment", "Table"]

_LISTINGS = 8
"""How often the timeline is listed where instants of the listing are gone when they are read."""

Moment = str | datetime
"""An instant (`20240131120000000`), ISO text, or a datetime.

As in Spark, `2024-01-31 12:00:00` means the whole second: with its last millisecond. An instant of
14 digits and a datetime mean the moment that they name.

A moment without a time zone is in the zone of the table's instants
(`hoodie.table.timeline.timezone`): UTC in tables that `create` makes, and by default that of Hudi's
writers in others. For the clock of this machine give `datetime.now(timezone.utc)`.
"""


class Table:
    """A Hudi table. A table follows its timeline: each call sees the newest completed commit.

    Safe to use from several threads, and in a forked child.

    Attributes:
        config: The table's properties, typed.
        limits: The bounds that were given to `open`.
        store: The table's files.
    """

    def __init__(
        self, store: Store, config: TableConfig, limits: Limits, index: Index | None
    ) -> None:
        self.store = store
        self.config = config
        self.limits = limits
        self._index_finder = IndexFinder(store, config, limits, index)
        self._kept_commits = KeptCommits(store, limits)
        self._state: TableState | None = None
        self._newest: Snapshot | None = None
        self._newest_listed: tuple[Snapshot, Snapshot] | None = None
        self._lock = new_mutex()

    def __repr__(self) -> str:
        config = self.config
        by = f", partitioned by {', '.join(config.partition_fields)}" * bool(
            config.partition_fields
        )
        key = ", ".join(config.record_key_fields) or "generated"
        return (
            f"<bucketfmt.Table {config.name} at {self.uri}: {config.table_type}, version "
            f"{config.table_version}, key {key}{by}>"
        )

    def _repr_html_(self) -> str:
        """Return the facts of `describe` for a notebook."""
        self._adopt(load_config(self.store, self.limits))
        return facts_html(f"{self.config.name} at {self.uri}", load_facts(self).in_words())

    def __dir__(self) -> list[str]:
        """List what is meant for users."""
        return sorted(name for name in super().__dir__() if not name.startswith("_"))

    @property
    def version(self) -> int:
        """The version of the table: 6 for Hudi 0.14 and 0.15, 8 for 1.0, 9 for 1.1 and later."""
        return self.config.table_version

    @property
    def uri(self) -> str:
        """The URI of the table."""
        return self.store.uri

    @property
    def state(self) -> TableState:
        """The state of the table now. Lists the timeline; the rest is kept between calls."""
        return self._find_state(None)

    def _find_state(self, listed: Timeline | None) -> TableState:
        """Return the state of the table now; `listed` is the timeline if it was just listed."""
        for attempts_left in reversed(range(_LISTINGS)):
            timeline = self._kept_commits.list_timeline(self.config, listed)
            listed = None
            with self._lock:
                known = self._state
            # Without instants the table may be gone as well as empty: its properties tell.
            before, is_outdated, is_empty = None, False, not timeline.instants
            if known is not None:
                is_outdated = known.is_outdated
                if not (is_outdated or is_empty) and timeline.instants == known.timeline.instants:
                    return known
                before = Snapshot(known)
            try:
                is_changed = is_outdated or is_empty
                is_changed = is_changed or may_be_rehashed(self.config, before, timeline)
                loaded = self._load_state(timeline, is_changed=is_changed)
            except NotFoundError:
                # A writer archived or rolled back between the listing and the reading.
                if not attempts_left:
                    raise
                continue
            if loaded is None:
                return self._find_state(None)
            state = loaded
            with self._lock:
                self._state = state
            break
        return state

    def _load_state(self, timeline: Timeline, *, is_changed: bool) -> TableState | None:
        """Read the state at a timeline; beside it the properties, if they may have changed.

        None where the timeline lies elsewhere now: Hudi has upgraded the table, or it was created
        again.
        """
        while True:
            config = self.config
            lister = find_lister(self.store, config, timeline, self.limits)
            state = TableState(
                self.store, config, timeline, self.limits, lister, self._kept_commits
            )
            again = (lambda: self._adopt(load_config(self.store, self.limits)),)
            do_together(self.store, *(again if is_changed else ()), state.load)
            now = self.config
            if now is config:
                return state
            if (now.timeline_path, now.timeline_layout) != (config.timeline_path, timeline.layout):
                return None
            is_changed = False

    def _adopt(self, config: TableConfig) -> None:
        """Use properties that were read again, because another writer may have changed them."""
        if config.properties == self.config.properties:
            return
        with self._lock:
            self.config = config
            self._state = None

    def _snapshot(self, listed: Timeline | None = None) -> Snapshot:
        """The snapshot of the table now; the same object while the timeline does not change.

        `listed` is the timeline, where it was just listed.
        """
        state = self._find_state(listed)
        with self._lock:
            if self._newest is None or self._newest.state is not state:
                self._newest = Snapshot(state)
            return self._newest

    def _listed_snapshot(self, timeline: Timeline | None = None) -> Snapshot:
        """The snapshot of the table now, by its folders even if there is a metadata table.

        Writes and services stand on it: what they do lasts, and a file that is missing in the
        metadata table would be lost by a clean, and written a second time by an upsert.
        """
        newest = self._snapshot(timeline)
        if isinstance(newest.state.lister, StoreLister):
            return newest
        with self._lock:
            if self._newest_listed is None or self._newest_listed[0] is not newest:
                listed = Snapshot(newest.state.listed_by(StoreLister(self.store)))
                self._newest_listed = newest, listed
            return self._newest_listed[1]

    @property
    def timeline(self) -> Timeline:
        """The active timeline."""
        return self.state.timeline

    @property
    def schema(self) -> pa.Schema:
        """The user's columns, in Arrow types."""
        return self._snapshot().schema.data

    @property
    def resolved_index(self) -> ResolvedIndex:
        """The table's index and its source. Samples keys, once, if nothing states the index."""
        return on_newest(self._snapshot, self._index_finder.resolve)

    @property
    def index(self) -> Index | None:
        """How keys map to file groups; None where the index is unknown."""
        return self.resolved_index.index

    @property
    def inspect(self) -> Inspect:
        """Arrow tables about the commits, files and buckets of the table."""
        return Inspect(self._listed_snapshot(), self._index_finder)

    def history(self) -> pa.Table:
        """Return the commits and table services, oldest first. As `inspect.commits`."""
        return self.inspect.commits()

    def files(self) -> pa.Table:
        """Return the files that a reader opens. As `inspect.files`."""
        return self.inspect.files()

    def to_arrow(
        self,
        columns: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
    ) -> pa.Table:
        """Return rows of the table now. Arguments and errors as `scan`."""
        return self.scan(columns, filter).to_arrow()

    def to_pandas(
        self,
        columns: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
    ) -> pandas.DataFrame:
        """Return rows of the table now. Arguments and errors as `scan`. Needs pandas."""
        return self.scan(columns, filter).to_pandas()

    def to_polars(
        self,
        columns: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
    ) -> polars.DataFrame:
        """Return rows of the table now. Arguments and errors as `scan`. Needs polars."""
        return self.scan(columns, filter).to_polars()

    def to_dataset(self, *, as_of: Moment | None = None) -> TableDataset:
        """Return a pyarrow dataset, which DuckDB queries by the name of the variable that has it.

        >>> import duckdb
        >>> trips = t.to_dataset()
        >>> duckdb.sql("select city, count(*) from trips where fare > 1 group by city").fetchall()

        Columns and filters of a query reach `scan`, which leaves out buckets and row groups. Each
        query reads the table as it is then.

        Args:
            as_of: As in `scan`.
        """
        self._instant(as_of)  # raises here, not in the first query
        from bucketfmt.table.dataset_view import TableDataset  # noqa: PLC0415  (takes 40 ms)

        return TableDataset(partial(self.scan, as_of=as_of))

    def to_lazy(self, *, as_of: Moment | None = None) -> polars.LazyFrame:
        """Return a polars LazyFrame. Needs the `polars` extra.

        >>> import polars as pl
        >>> t.to_lazy().filter(pl.col("city") == "sf").select("id", "fare").head(10).collect()

        Columns, predicates and limits of a query reach `scan`. Each `collect` reads the table as it
        is then.

        Args:
            as_of: As in `scan`.
        """
        with of_extra("polars"):
            from bucketfmt.table.lazy_frame import open_lazy_frame  # noqa: PLC0415

        return open_lazy_frame(partial(self.scan, as_of=as_of))

    def pinned(self) -> PinnedTable:
        """Return the table at its present timeline, as a value that pickles and does not change."""
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
        columns: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002  (the name users of pyarrow know)
        as_of: Moment | None = None,
        read_optimized: bool = False,
        meta_columns: bool = False,
        limit: int | None = None,
    ) -> Scan:
        """Plan a read of the table's rows.

        Args:
            columns: Names to return, in this order; all of the user's columns by default.
            filter: Text such as `"qty > 1 and city = 'sf'"` (the reference of filters has the
                language); (column, op, value) tuples that must all hold, a list of such lists of
                which one must hold, or a pyarrow expression.
            as_of: Read the writes that were requested up to this moment, inclusive.
            read_optimized: Read base files only, without the rows in log files.
            meta_columns: Return Hudi's own columns too, before the others: five, and
                `_hoodie_operation` where the table has it (Flink's `changelog.enabled`).
            limit: Return at most this many rows.

        Raises:
            SchemaError: the table has no such column.
            UnsupportedError: the table merges records in an unsupported way.
            NotFoundError: when the scan reads: a rollback or a clean has deleted its files since
                the scan was made; make a new scan. Or a clean may have deleted files that the
                moment needs (spec SLICE-11); read a later one.
        """
        snapshot = self._snapshot() if as_of is None else Snapshot(self.state, self._instant(as_of))
        return plan_scan(
            snapshot,
            self._index_finder,
            columns=columns,
            row_filter=None if filter is None else parse_filter(filter, snapshot.schema.with_meta),
            read_optimized=read_optimized,
            meta_columns=meta_columns,
            limit=limit,
        )

    def changes(
        self,
        since: Moment | None,
        until: Moment | None = None,
        columns: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        meta_columns: bool = False,
        limit: int | None = None,
    ) -> Scan:
        """Plan a read of the rows written after `since`, up to `until` inclusive.

        None as `since` stands for the beginning. Rows are as of `until`; deleted rows are left out.
        What the writes in between logged is merged among itself alone, as in Hudi: a row that came
        late is a change although an older row of its key is newer and stands, and values are
        not filled from rows written before, until a compaction.
        Both moments are completion times in tables of version 8 and later, and requested times
        before, as in Hudi.

        Raises:
            SchemaError, UnsupportedError, NotFoundError: as of `scan`.
            ValueError: as of `scan`; or `until` is before `since`.
        """
        return plan_changes(
            self.state,
            self._index_finder,
            since=self._instant(since),
            until=self._instant(until),
            columns=columns,
            row_filter=None if filter is None else parse_filter(filter, self._columns_of_rows()),
            meta_columns=meta_columns,
            limit=limit,
        )

    def locate(self, keys: KeysLike, partitions: Sequence[str] | None = None) -> pa.Table:
        """Return the bucket and the files of each key, by hashing the key or by the record index.

        Where the table records its index, or has a record index, no data file is opened. Otherwise
        the index has to be proved once by the keys of up to nine file groups of each partition.
        (One more file is opened in tables of version 6 and 8 with a complex key of one field, if
        `keys` are rows: only stored keys show how such a key is written.)

        Args:
            keys: One key or many. Record keys as text (`"7"`, `"id:7,name:x"`); values of the key
                field (7, a date, a decimal); tuples of the values of all key fields; dicts; an
                Arrow column of text or values; or rows with `_hoodie_record_key` or the key fields,
                and with `_hoodie_partition_path` or the partition fields if there are partitions.
            partitions: The partition paths for keys without a partition; all by default.

        Returns:
            record_key, partition_path, bucket_id, file_id, base_file, log_files: a row for each
            key, in the order of `keys`. Keys without a partition have a row for each partition.
            file_id is null for a bucket without a file group. On a consistent hashing ring,
            bucket_id is the ring value of the node.

            By a record index bucket_id is null, and file_id is null for a key that the table does
            not have. Where keys are unique in the table, keys without a partition have one row,
            with the partition that has the key, or null.

        Raises:
            IndexUnknownError: the index is unknown, has no buckets, or is not proved for a
                partition.
            KeyEncodingError: Hudi never returns from hashing a key.
            SchemaError: a key or partition value has no equal in the table's type.
            CorruptError: two file groups share the bucket of a key.
            ValueError: `index` of `open` contradicts the table's file groups or keys.
        """
        if partitions is not None:
            partitions = check_names("partitions", partitions)
        given, finder = hold_keys(keys, self.config), self._index_finder

        def locate(newest: Snapshot) -> pa.Table:
            return locate_keys(newest, finder, self._read_keys(given, newest), partitions)

        return on_newest(self._snapshot, locate)

    def locator(self, partitions: Sequence[str] | None = None) -> KeyLocator:
        """Return a value that pickles and locates keys in other processes without I/O.

        The value has a few hundred bytes for each file group of the given partitions, by default
        of all. Errors as in `locate`.
        """
        if partitions is not None:
            partitions = check_names("partitions", partitions)
        return on_newest(
            self._snapshot, lambda newest: plan_locator(newest, self._index_finder, partitions)
        )

    def lookup(self, keys: KeysLike, columns: str | Sequence[str] | None = None) -> pa.Table:
        """Return the rows of keys; opens only their buckets or file groups. Keys as in `locate`.

        Where the index is unknown, is not proved for a partition or has no buckets, all file
        groups of the keys' partitions are read.

        Warns if no key is found, and the keys are not of the form that the table's key fields make.

        Raises:
            ValueError: `index` of `open` contradicts the table's file groups or keys.
        """
        return self._look_up(keys, columns)

    def _look_up(
        self,
        keys: KeysLike,
        columns: str | Sequence[str] | None = None,
        *,
        with_orphans: bool = False,
    ) -> pa.Table:
        """As `lookup`; `with_orphans` as `RowSpec` has it."""
        if columns is not None:
            columns = check_names("columns", columns)
        given, finder = hold_keys(keys, self.config), self._index_finder

        def look_up(newest: Snapshot) -> pa.Table:
            asked = self._read_keys(given, newest)
            return lookup_rows(newest, finder, asked, columns, with_orphans=with_orphans)

        found = on_newest(self._snapshot, look_up)
        if not found.num_rows and may_be_misspelt(given, self.config):
            warnings.warn(f"0 of {len(given)} keys found{self.key_hint()}", stacklevel=3)
        return found

    def key_hint(self) -> str:
        """Return how the keys of this table look, as the end of a message; "" without rows."""
        rows = self.scan(key_columns(self.config), limit=1).to_arrow()
        if not rows.num_rows:
            return ""
        is_stored = self.config.populate_meta_fields
        found = rows.column(RECORD_KEY) if is_stored else record_keys(rows, self.config)
        return f"; keys of this table look like `{found[0].as_py()}`"

    def _read_keys(self, keys: KeysLike, snapshot: Snapshot | None = None) -> KeySet:
        def now() -> Snapshot:
            return self._snapshot() if snapshot is None else snapshot

        return read_keys(
            keys, self.config, lambda: now().schema.data, lambda: find_key_encoding(now())
        )

    def _columns_of_rows(self) -> pa.Schema:
        return self._snapshot().schema.with_meta

    def _instant(self, moment: Moment | None) -> str | None:
        return None if moment is None else normalise_instant(moment, self.config.timezone)
