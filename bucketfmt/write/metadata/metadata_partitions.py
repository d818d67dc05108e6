"""The partitions of a table's metadata table, for its user to make and remove.

I/O: each method that changes something holds the table lock. Source: HoodieIndexer,
MetadataCommand, CREATE INDEX and DROP INDEX of Spark SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bucketfmt.arguments import check_text
from bucketfmt.format.metadata.metadata_keys import file_id_prefix, is_secondary_index
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.metadata_table.damage import advising_rebuild
from bucketfmt.metadata_table.metadata_table import (
    MetadataTable,
    load_metadata_table,
)
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.metadata.initialise import (
    KEPT_PARTITIONS,
    discard_damaged_definitions,
    drop_partitions,
    forget_definitions,
    initialise_partitions,
)
from bucketfmt.write.undo.recovery import recover, remove_late_commits
from bucketfmt.write.undo.rollback import Rollbacks

__all__ = ["ListedPartition", "MetadataPartitions"]


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """A partition of the metadata table that readers may use.

    Attributes:
        name: `files`, `column_stats`, `partition_stats`, `bloom_filters`, `record_index`, or an
            index on columns.
        file_groups: How many file groups its records are spread over.
    """

    name: str
    file_groups: int


class MetadataPartitions:
    """The partitions of the metadata table of one table."""

    def __init__(self, transactions: Transactions, adopt: Callable[[TableConfig], None]) -> None:
        """Set up.

        Args:
            transactions: How the table is written to.
            adopt: Takes the properties of the table once they are changed.
        """
        self._owner = transactions
        self._adopt = adopt

    def list(self) -> tuple[ListedPartition, ...]:
        """Return the partitions that the table lists; none if it has no metadata table.

        Raises:
            CorruptError: the metadata table is damaged.
            StorageError: the store failed.
        """
        owner = self._owner
        config = load_config(owner.store, owner.limits)
        timeline = load_timeline(owner.store, config, owner.limits)
        with advising_rebuild():
            found = load_metadata_table(owner.store, config, timeline, owner.limits)
            if found is None:
                return ()
            return tuple(
                ListedPartition(name, _count_groups(found, name))
                for name in sorted(found.partition_names)
            )

    def init(self, *names: str) -> None:
        """Make partitions from the table's files, and `files` where it is not there.

        Args:
            names: Of partitions; none for `files` alone.

        Raises:
            ValueError: a partition is there already, or there is no such partition; or a secondary
                index is to be made without a record index.
            UnsupportedError: a partition is of a kind that only Hudi makes.
            LockTimeoutError: the table lock could not be acquired.
            CorruptError: a file of the table is damaged.
            StorageError: the store failed. The partitions that are listed are complete.
        """
        wanted = names or ("files",)
        with self._held(names) as table:
            there = [name for name in wanted if name in table.config.metadata_partitions]
            if there:
                raise ValueError(f"{there[0]} is there already; rebuild makes it anew")
            _check_record_index(wanted, table.config.metadata_partitions)
            initialise_partitions(table, wanted)

    def rebuild(self, *names: str) -> None:
        """Make partitions anew; all that are listed where no names are given.

        Where the definitions are damaged, they are made anew with all partitions, unless there are
        indexes on columns, of which only the definitions tell the columns.

        Args:
            names: Of partitions.

        Raises:
            ValueError: the table does not list a partition, or any; or it has a secondary index to
                make anew, and no record index.
            UnsupportedError, LockTimeoutError, CorruptError, StorageError: as of `init`.
        """
        with self._held(names) as table:
            listed = _listed(table.config)
            if not listed:
                raise ValueError("the table has no metadata table to make anew; init makes one")
            _check_listed(names, listed)
            wanted = names or listed
            if "files" in wanted:
                wanted = listed  # all are by the instants that `files` begins with
            _check_record_index(wanted, listed)
            if {*wanted} == {*listed} <= {*KEPT_PARTITIONS}:
                discard_damaged_definitions(table)  # all are made anew, without those lost
            initialise_partitions(table, wanted)

    def drop(self, *names: str) -> None:
        """Remove partitions; all of the metadata table where no names, or `files`, are given.

        The definitions of the partitions that are named go too: Hudi does not make them anew.
        Where the definitions are damaged, they go with the whole metadata table.

        Args:
            names: Of partitions.

        Raises:
            ValueError: the table does not list a partition.
            LockTimeoutError: the table lock could not be acquired.
            CorruptError: the definitions of indexes are damaged, and some partitions are to stay.
            StorageError: the store failed. Do it again.
        """
        with self._held(names) as table:
            listed = _listed(table.config)
            _check_listed(names, listed)
            if not names or "files" in names:
                discard_damaged_definitions(table)
            drop_partitions(table, names or listed)
            if names:
                forget_definitions(table, names)

    @contextmanager
    def _held(self, names: Sequence[str]) -> Iterator[LockedTable]:
        """Hold the table lock, once what dead writers left is removed."""
        for name in names:
            check_text("names", name)
        with self._owner.locked() as table:
            try:
                rollbacks = Rollbacks(table)
                remove_late_commits(rollbacks)
                recover(rollbacks)
                yield table
            finally:
                self._adopt(table.config)


def _count_groups(metadata: MetadataTable, name: str) -> int:
    """Return the number of file groups of a partition, which may be of an unknown kind."""
    if file_id_prefix(name) is None:
        return len(metadata.slice_histories(name))
    return sum(map(len, metadata.partition(name).groups.values()))


def _listed(config: TableConfig) -> list[str]:
    """Return the partitions that are listed, also those that a dead writer was making anew."""
    return sorted({*config.metadata_partitions, *config.metadata_partitions_unfinished})


def _check_listed(names: Sequence[str], listed: Sequence[str]) -> None:
    for name in names:
        if name not in listed:
            there = ", ".join(listed) or "none"
            raise ValueError(f"the metadata table has no partition {name!r}; it has {there}")


def _check_record_index(names: Sequence[str], listed: Sequence[str]) -> None:
    """Refuse a secondary index that no reader would use, and that the next write would remove."""
    if RECORD_INDEX in (*names, *listed):
        return
    for name in names:
        if is_secondary_index(name):
            raise ValueError(
                f"{name} leads to keys of record_index, which the table does not have; make that "
                f"with it, or first: metadata_table.init({RECORD_INDEX!r})"
            )
