"""What becomes of the metadata table of a table that is written to.

I/O, under the lock of the table. Readers take what the metadata table says for the table: a change
that the metadata table does not know of is invisible to them. So each change is in the metadata
table before the change is published (docs/decisions/0020). Source: HoodieTable.getMetadataWriter,
BaseActionExecutor.writeTableMetadata.
"""

from __future__ import annotations

from typing import Literal

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.service_metadata import RestoreMetadata, RollbackMetadata
from bucketfmt.limits import Limits
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.store import Store
from bucketfmt.timeline.table_properties import has_table, load_config
from bucketfmt.write.commit.locked_table import LockedTable, PendingChange
from bucketfmt.write.metadata.collect_update import UpdateCollector
from bucketfmt.write.metadata.delta_commit import put_delta_commit, remove_delta_commit
from bucketfmt.write.properties.metadata_table import drop_metadata_table

__all__ = ["MetadataKeeper", "MetadataPolicy"]

MetadataPolicy = Literal["sync", "drop", "refuse"]
"""`sync`: keep the metadata table in step. `drop`: remove it. `refuse`: write to no table that has
one."""

_KEPT = frozenset({"files", "bloom_filters", "column_stats", "partition_stats"})


class MetadataKeeper:
    """Keeps the metadata table of one table in step, or removes it, or refuses to write.

    Safe to use from several threads, and in a forked child.
    """

    def __init__(self, policy: MetadataPolicy) -> None:
        """Set up; see `MetadataPolicy`."""
        self._policy = policy

    def check(self, table: LockedTable) -> None:
        """Have the metadata table in step before work under the lock begins.

        Raises:
            UnsupportedError: the table has a metadata table, which is to stay and cannot be kept
                in step.
            StorageError: the store failed.
        """
        listed = _listed(table.config)
        if not listed or (self._policy == "sync" and listed <= _KEPT):
            return
        if self._policy == "drop":
            self._drop(table)
            return
        raise UnsupportedError(
            "the table has a metadata table, which would not know of this commit: readers "
            "that trust it would miss rows, and Hudi would write keys twice. Either open the "
            'table with metadata_table="drop", which removes it (Hudi rebuilds it), or set '
            "hoodie.metadata.enable=false in Hudi's writers, whose next write removes it"
        )

    def bring_in_step(self, table: LockedTable, change: PendingChange) -> None:
        """Write a change to the metadata table before the change is published.

        Raises:
            UnsupportedError: as `check`; another writer has made the metadata table meanwhile.
            ConflictError: the lock was lost.
            CorruptError: the metadata table is damaged.
            StorageError: the store failed.
        """
        if not change.moves_files:
            return
        self.check(table)
        if not _listed(table.config):
            return
        if isinstance(change.content, RestoreMetadata):
            self._drop(table)
            return
        if isinstance(change.content, RollbackMetadata) and table.config.table_version >= 8:
            return  # the delta commit of the instant is gone, and the rollback adds no files
        update = UpdateCollector(table, change).collect(_listed(table.config))
        put_delta_commit(table.below(METADATA_TABLE), change.instant.requested_time, update)

    def take_back(self, store: Store, limits: Limits, requested_time: str) -> None:
        """Remove what the metadata table has of an instant that leaves the timeline.

        Args:
            store: The files of the table.
            limits: Bounds on what is read.
            requested_time: Of the instant, which is pending.

        Raises:
            StorageError: the store failed; do it again.
        """
        if self._policy != "sync":
            return
        below = FolderStore(store, METADATA_TABLE)
        if has_table(below):
            remove_delta_commit(below, load_config(below, limits), limits, requested_time)

    def _drop(self, table: LockedTable) -> None:
        drop_metadata_table(table.store, table.limits, table.machine.now())
        table.load_config()


def _listed(config: TableConfig) -> set[str]:
    return {*config.metadata_partitions, *config.metadata_partitions_inflight}
