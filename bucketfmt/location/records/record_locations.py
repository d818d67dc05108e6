"""Where the record index says that keys are, as columns.

I/O: reads the partition `record_index` of the metadata table. Source: HoodieBackedTableMetadata.
readRecordIndex, SparkMetadataTableRecordIndex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from bucketfmt.errors import (
    ConflictError,
    CorruptError,
    IndexUnknownError,
    NotFoundError,
    TableNotFoundError,
)
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.metadata_table.damage import advising_rebuild
from bucketfmt.metadata_table.in_step import find_newer
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.metadata_table import load_metadata_table
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.load import load_timeline
from bucketfmt.timeline.table_properties import load_config

__all__ = ["RECORD_INDEX", "RecordLocations"]

RECORD_INDEX = "record_index"
"""The partition of the metadata table."""

_COLUMNS = pa.schema({"partition_path": pa.string(), "file_id": pa.string()})
_TRIES = 3
_OF_A_CHANGE = (CorruptError, IndexUnknownError, NotFoundError, TableNotFoundError)

_T = TypeVar("_T")


class RecordLocations:
    """The record index of a table. Safe to use from several threads.

    Attributes:
        is_global: Whether keys are unique in the table; else in each partition.
    """

    def __init__(self, state: TableState) -> None:
        """Read which file groups the index has; errors as of `find`."""
        self._state = state
        self._partition: MetadataPartition | None = None
        self.is_global = self._ask(lambda partition: not partition.is_partitioned)

    def find(self, record_keys: pa.ChunkedArray, partition_path: str | None = None) -> pa.Table:
        """Return where each key is.

        Args:
            record_keys: Text, in any order; keys may be repeated.
            partition_path: The partition of the keys, where the index is not `is_global`.

        Returns:
            partition_path and file_id of each key, nulls for a key that the index does not have.

        Raises:
            IndexUnknownError: the table has no record index, or one that lacks commits.
            ConflictError: another writer is making the index anew.
            CorruptError: the metadata table is damaged.
            UnsupportedError: the metadata table is of a kind that is not read.
            StorageError: the store failed.
        """
        found = self._ask(lambda partition: partition.locate(record_keys, partition_path))
        numbers = pa.array(found.numbers, mask=found.numbers < 0)
        paths = [own.partition_path for own in found.locations]
        file_ids = [own.file_id for own in found.locations]
        columns = [pa.array(each, pa.string()).take(numbers) for each in (paths, file_ids)]
        return pa.table(columns, schema=_COLUMNS)

    def check_as_of_state(self) -> None:
        """Check that what was found is as of the state; a reader has to, before it uses it.

        A writer need not: whoever moves a key writes to the file groups where it was and where it
        is, so that publishing finds the conflict.

        Raises:
            ConflictError: the index was read after keys were moved, or may have been.
            StorageError: the store failed.
        """
        state = self._state
        now = load_timeline(state.store, state.config, state.limits)
        if now.instants == state.timeline.instants:
            return
        try:
            table = load_metadata_table(state.store, state.config, now, state.limits)
        except _OF_A_CHANGE:
            table = None
        what: str | None = "the metadata table was made anew"
        if table is not None:
            what = find_newer(state.timeline, now, table.timeline)
        if what is not None:
            raise ConflictError(f"{what} while keys were looked up; look them up again")

    def _ask(self, question: Callable[[MetadataPartition], _T]) -> _T:
        """Return the answer of the partition, once it is not changed meanwhile.

        A compaction replaces its files, which a clean deletes; and files that are made anew have
        the names of those before.
        """
        partition, left = self._partition, _TRIES
        while True:
            left -= 1
            try:
                with advising_rebuild():
                    if partition is None:
                        partition = self._partition = self._load()
                    return question(partition)
            except _OF_A_CHANGE as error:
                config = load_config(self._state.store, self._state.limits)
                if RECORD_INDEX in config.metadata_partitions_unfinished:
                    raise ConflictError(
                        "another writer is making the record index anew; reload the table and "
                        "retry. If that writer has died, the next write makes the index, or "
                        "metadata_table.rebuild()"
                    ) from error
                _check_listed(config)
                if not left:
                    raise
                partition = None

    def _load(self) -> MetadataPartition:
        store, config, limits = self._state.store, self._state.config, self._state.limits
        if RECORD_INDEX not in config.metadata_partitions:
            config = load_config(store, limits)  # the index may have been made since
        _check_listed(config)
        table = load_metadata_table(store, config, self._state.timeline, limits)
        if table is None or not table.step.is_in_step:
            why = "" if table is None else f": {table.step}"
            raise IndexUnknownError(
                f"the record index is not in step with the table{why}; lookup() finds the rows of "
                "keys without it. Rebuild the metadata table, or drop it"
            )
        partition = table.partition(RECORD_INDEX)
        # Who removes the index takes it off the list first. Of a folder that was listed amid that
        # some file groups may be missing, and keys would be looked for in wrong ones.
        _check_listed(load_config(store, limits))
        return partition


def _check_listed(config: TableConfig) -> None:
    """Raise IndexUnknownError: the table lists no record index."""
    if RECORD_INDEX not in config.metadata_partitions:
        raise IndexUnknownError(
            "the table has no record index: hoodie.table.metadata.partitions does not list "
            f"{RECORD_INDEX}; lookup() finds the rows of keys without it. Build the index: "
            f"metadata_table.init({RECORD_INDEX!r})"
        )
