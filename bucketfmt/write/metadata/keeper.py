"""What becomes of the metadata table of a table that is written to.

I/O, under the lock of the table. Readers take what the metadata table says for the table: a change
that the metadata table does not know of is invisible to them. So each change is in the metadata
table before the change is published (docs/decisions/0020). Source: HoodieTable.getMetadataWriter,
BaseActionExecutor.writeTableMetadata.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from bucketfmt.choices import MetadataPolicy
from bucketfmt.errors import UnsupportedError
from bucketfmt.format.buckets.index_settings import has_buckets
from bucketfmt.format.metadata.index_definitions import IndexDefinition
from bucketfmt.format.metadata.metadata_keys import is_secondary_index
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.service_metadata import RestoreMetadata, RollbackMetadata
from bucketfmt.index.model import Index
from bucketfmt.limits import Limits
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.metadata_table.damage import advising_rebuild
from bucketfmt.metadata_table.definitions import find_secondary_columns
from bucketfmt.metadata_table.in_step import find_times_of_services
from bucketfmt.metadata_table.valid_instants import find_amending_instant
from bucketfmt.snapshot.kept_commits import KeptCommits
from bucketfmt.snapshot.listing import FileLister, StoreLister
from bucketfmt.snapshot.schema import find_stated_schema
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.store import Store
from bucketfmt.timeline.table_properties import has_table, load_config
from bucketfmt.timeline.timeline import REPLACING_ACTIONS
from bucketfmt.write.commit.locked_table import LockedTable, PendingChange
from bucketfmt.write.metadata.amending import find_last_overtaking, load_overruled
from bucketfmt.write.metadata.collect_update import UpdateCollector, find_partitions_to_list
from bucketfmt.write.metadata.delta_commit import (
    is_in_base_files,
    put_delta_commit,
    remove_delta_commit,
)
from bucketfmt.write.metadata.initialise import (
    KEPT_PARTITIONS,
    drop_partitions,
    initialise_partitions,
)
from bucketfmt.write.metadata.locked_metadata import LockedMetadata, load_locked_metadata
from bucketfmt.write.metadata.metadata_services import serve_metadata_table
from bucketfmt.write.metadata.records.plan_files import plan_files
from bucketfmt.write.metadata.update import MetadataUpdate
from bucketfmt.write.properties.metadata_table import drop_metadata_table

__all__ = ["MetadataKeeper", "MetadataPolicy"]


class MetadataKeeper:
    """Keeps the metadata table of one table in step, or removes it, or refuses to write.

    Safe to use from several threads, and in a forked child.
    """

    def __init__(
        self,
        policy: MetadataPolicy,
        kept_commits: KeptCommits,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Set up; see `MetadataPolicy`.

        Args:
            policy: What becomes of a metadata table.
            kept_commits: Of the table.
            now: Returns seconds since the epoch.
        """
        self._policy = policy
        self._kept_commits = kept_commits
        self._now = now

    def check(self, table: LockedTable) -> None:
        """Have the metadata table in step before work under the lock begins.

        Partitions that cannot be kept in step are removed. A metadata table that is behind is made
        anew.

        Raises:
            UnsupportedError: the table has a metadata table, and is not to be written to then.
            CorruptError: the metadata table is made anew, and a file of the table is damaged.
            StorageError: the store failed.
        """
        found = self._find(table)
        if found is not None:
            _mended(table, found)

    def check_policy(self, config: TableConfig, index: Index) -> None:
        """Refuse a write that the policy rules out, before anything is changed.

        Args:
            config: The table's properties.
            index: By which the rows are written.

        Raises:
            UnsupportedError: the table has a metadata table, and is not to be written to then; or
                the metadata table is to be removed, and has the index.
        """
        if self._policy == "drop" and index.keeps_locations:
            raise UnsupportedError(
                f'metadata_table="drop" on a table that is written by {index}, which is in the '
                'metadata table: without it no key is found. Write with metadata_table="sync"'
            )
        self._check_not_refused(config)

    def _check_not_refused(self, config: TableConfig) -> None:
        if self._policy == "refuse" and _listed(config):
            raise UnsupportedError(
                "the table has a metadata table, and the writer is set to write to no such table. "
                'Either open the table with metadata_table="sync", which writes each commit to it, '
                'or with metadata_table="drop", which removes it (Hudi rebuilds it), or set '
                "hoodie.metadata.enable=false in Hudi's writers, whose next write removes it"
            )

    def make_whole(self, table: LockedTable, folder: str) -> None:
        """Make anew what a writer that had lost its lock removed of the metadata table.

        What is there does not tell: of a file group one file may be gone, and of those that a
        partitioned index has for the partitions of the table some. Errors as of `check`.

        Args:
            table: The table, with the lock of now.
            folder: Of the metadata table, or of one of its partitions.
        """
        if self._policy != "sync" or not _listed(table.config):
            return
        found = load_locked_metadata(table)
        if found.table is None or found.gap is not None:
            _mended(table, found)
            return
        names = found.table.partition_names
        gone = [n for n in names if folder in (METADATA_TABLE, join_path(METADATA_TABLE, n))]
        if gone:
            _warn(f"{', '.join(gone)} of the metadata table lacks file groups, and is made anew")
            _rebuilt(table, () if "files" in gone else gone)

    def _find(self, table: LockedTable, *ahead: Callable[[], object]) -> LockedMetadata | None:
        """Return the metadata table that is to be kept in step; None if there is none.

        Partitions that are not kept in step are removed.

        Args:
            table: The table.
            ahead: What else is to be read, over a network at the same time.
        """
        listed = _listed(table.config)
        if not listed:
            return None
        self._check_not_refused(table.config)
        if self._policy == "drop":
            if RECORD_INDEX in listed and not has_buckets(table.config.properties):
                raise UnsupportedError(
                    'metadata_table="drop" on a table with a record index, whose hoodie.properties '
                    "state no buckets: its rows may be found by the record index alone. Work with "
                    'metadata_table="sync", or remove the index by metadata_table.drop()'
                )
            drop_partitions(table, ["files"])
            return None
        found = load_locked_metadata(table, *ahead)
        lost = sorted(listed - self._find_kept(table, found.definitions))
        if not lost:
            return found
        _warn_of_removed(lost)
        drop_partitions(table, lost)
        return load_locked_metadata(table)

    def _find_kept(
        self, table: LockedTable, definitions: Mapping[str, IndexDefinition]
    ) -> set[str]:
        """Return the partitions, listed or to be made anew, that can be kept in step."""
        listed = (
            *table.config.metadata_partitions,
            *table.config.metadata_partitions_unfinished,
        )
        kept = {*listed} & {*KEPT_PARTITIONS}
        if any(map(is_secondary_index, listed)):
            commits = self._state_of(table, StoreLister(table.store)).commits
            schema = find_stated_schema(commits, table.config, table.limits)
            kept |= find_secondary_columns(listed, definitions, schema).keys()
        columns = definitions.get("column_stats")
        if columns is not None and any("." in column for column in columns.source_fields):
            kept -= {"column_stats"}
        if "column_stats" not in kept:
            kept -= {"partition_stats"}
        # Where Hudi has removed the metadata table meanwhile, `files` is made with the others.
        has_files = "files" in kept or not table.config.metadata_partitions
        return kept if has_files else set()

    def _state_of(self, table: LockedTable, lister: FileLister) -> TableState:
        """Return the table as it is, without what is about to be published."""
        kept = self._kept_commits
        return TableState(table.store, table.config, table.timeline, table.limits, lister, kept)

    def bring_in_step(self, table: LockedTable, change: PendingChange) -> None:
        """Write a change to the metadata table before the change is published.

        Raises:
            UnsupportedError: as `check`; another writer has made the metadata table meanwhile.
            ConflictError: the lock was lost.
            CorruptError: the metadata table is damaged.
            StorageError: the store failed.
        """
        if change.moves_files:
            with advising_rebuild():
                self._bring_in_step(table, change)

    def _bring_in_step(self, table: LockedTable, change: PendingChange) -> None:
        lister = StoreLister(table.store)
        paths = find_partitions_to_list(table.config, change)
        found = self._find(table, partial(lister.prepare, paths))
        if found is None:
            return
        is_restore = isinstance(change.content, RestoreMetadata)
        found = _rebuilt(table) if is_restore else _mended(table, found)
        if found.table is None:
            return
        if isinstance(change.content, RollbackMetadata) and table.config.table_version >= 8:
            is_done = not _takes_others_logs(change.content)
            if is_done:  # the delta commit of the instant is gone, and the rollback adds no files
                return
        if not is_restore:
            _drop_lost(table, UpdateCollector(self._state_of(table, lister), change, found))
        time = change.instant.requested_time
        found = _with_time_free(table, found, time)
        if found.table is None:
            return
        below = table.below(METADATA_TABLE, found.table.config, found.table.timeline)
        served = serve_metadata_table(table, below)
        before = found if served is None else replace(found, table=served)

        def collect() -> MetadataUpdate:
            if is_restore:
                return {}
            collector = UpdateCollector(self._state_of(table, lister), change, before)
            return collector.collect(table.config.metadata_partitions)

        pending = table.timeline.pending.requested_times
        update = put_delta_commit(below, time, collect, pending)
        last = find_last_overtaking(below.timeline, time)
        if last is not None:
            overruled = load_overruled(table, time, update, is_blind=change.is_blind)
            if overruled:
                amending = find_amending_instant(last)
                put_delta_commit(below, amending, lambda: overruled, pending, time)

    def take_back(
        self,
        store: Store,
        limits: Limits,
        requested_time: str,
        check_held: Callable[[], object],
        *,
        is_completed: bool,
    ) -> None:
        """Remove what the metadata table has of an instant that leaves the timeline.

        Args:
            store: The files of the table.
            limits: Bounds on what is read.
            requested_time: Of the instant.
            check_held: Raises where the table lock is not held; then the metadata table stays.
            is_completed: Whether the instant is still completed. Its records may be in base files
                then, and the metadata table goes first; what is in log files is left until the
                instant is pending.

        Raises:
            ConflictError: as `check_held`.
            CorruptError: the timeline of the metadata table is damaged.
            StorageError: the store failed; do it again.
        """
        if self._policy != "sync":
            return
        below = FolderStore(store, METADATA_TABLE)
        if not has_table(below):
            return
        config = load_config(below, limits)
        if is_completed:
            is_to_go = is_in_base_files(below, config, limits, requested_time)
        else:
            is_to_go = not remove_delta_commit(below, config, limits, requested_time)
        if is_to_go:
            _warn(
                f"the metadata table is removed, since the records of {requested_time}, which is "
                "rolled back, are in its base files; the next change of the table makes it anew"
            )
            listed = _listed(load_config(store, limits))
            drop_metadata_table(store, limits, self._now(), check_held, listed)


def _takes_others_logs(rollback: RollbackMetadata) -> bool:
    """Whether a rollback deletes log files that other instants have recorded.

    While a clustering is pending, writers log rows for its new file groups too. Hudi leaves these
    files in its metadata table, and its next reader of the file groups fails.
    """
    is_resize = any(i.action in REPLACING_ACTIONS for i in rollback.instants_rollback)
    return is_resize and bool(plan_files(rollback))


def _listed(config: TableConfig) -> set[str]:
    """Return the partitions that are listed, also those that somebody has begun to make."""
    return {
        *config.metadata_partitions,
        *config.metadata_partitions_inflight,
        *config.metadata_partitions_unfinished,
    }


def _drop_lost(table: LockedTable, collector: UpdateCollector) -> None:
    """Remove the partitions that cannot be kept in step with a change."""
    lost = collector.lost_columns if "column_stats" in table.config.metadata_partitions else ()
    if lost:
        _warn(
            f"column_stats of the metadata table are removed, since the new type of "
            f"{', '.join(lost)} has no statistics in this table version; make them anew "
            "(metadata_table.init()), without these columns"
        )
        drop_partitions(table, ["column_stats"])
    if collector.lost_indexes:
        _warn_of_removed(collector.lost_indexes)
        drop_partitions(table, collector.lost_indexes)


def _mended(table: LockedTable, found: LockedMetadata) -> LockedMetadata:
    """Make partitions anew that are not in step, or not there; return the metadata table."""
    unfinished = table.config.metadata_partitions_unfinished
    if found.gap is not None:
        _warn(f"the metadata table is made anew: {found.gap}")
        return _rebuilt(table)
    if unfinished:
        _warn(
            f"the metadata table is made anew: {', '.join(unfinished)}, which a rollback removed, "
            "or a writer that died was making"
        )
        return _rebuilt(table, unfinished)
    return found


def _with_time_free(table: LockedTable, found: LockedMetadata, time: str) -> LockedMetadata:
    """Have no service of the metadata table at the time of an instant.

    Services take a time that no instant of the table has. Where the table is ahead of all clocks
    it gives the time again if the process died that had the service before its commit.
    """
    if found.table is None or time not in find_times_of_services(found.table.timeline):
        return found
    _warn(f"the metadata table is made anew: it has a service at the time of {time}")
    return _rebuilt(table)


def _rebuilt(table: LockedTable, names: Collection[str] = ()) -> LockedMetadata:
    """Make partitions anew, from the files of the table: by default all."""
    config = table.config
    listed = {*config.metadata_partitions, *config.metadata_partitions_unfinished}
    initialise_partitions(table, names or listed)
    table.load_timeline()
    return load_locked_metadata(table)


def _warn_of_removed(names: Sequence[str]) -> None:
    _warn(
        f"{', '.join(names)} of the metadata table cannot be kept in step, and "
        f"{'is' if len(names) == 1 else 'are'} removed; have Hudi make "
        f"{'it' if len(names) == 1 else 'them'} anew"
    )


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=6)
