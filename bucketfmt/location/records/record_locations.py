"""Where the record index says that keys are, as columns.

I/O: reads the partition `record_index` of the metadata table. Source: HoodieBackedTableMetadata.
readRecordIndex, SparkMetadataTableRecordIndex.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from bucketfmt.errors import IndexUnknownError, NotFoundError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.metadata_table import advising_rebuild, load_metadata_table
from bucketfmt.snapshot.state import TableState
from bucketfmt.timeline.table_properties import load_config

__all__ = ["RECORD_INDEX", "RecordLocations", "load_record_locations"]

RECORD_INDEX = "record_index"
"""The partition of the metadata table."""

_COLUMNS = pa.schema({"partition_path": pa.string(), "file_id": pa.string()})


class RecordLocations:
    """The record index of a table. Safe to use from several threads.

    Attributes:
        is_global: Whether keys are unique in the table; else in each partition.
    """

    def __init__(self, load: Callable[[], MetadataPartition]) -> None:
        """Read which file groups the index has.

        Args:
            load: Returns the partition as it is now.
        """
        self._load = load
        with advising_rebuild():
            self._partition = load()
        self.is_global = not self._partition.is_partitioned

    def find(self, record_keys: pa.ChunkedArray, partition_path: str | None = None) -> pa.Table:
        """Return where each key is.

        Args:
            record_keys: Text, in any order; keys may be repeated.
            partition_path: The partition of the keys, where the index is not `is_global`.

        Returns:
            partition_path and file_id of each key, nulls for a key that the index does not have.

        Raises:
            CorruptError: a file of the index is damaged.
            StorageError: the store failed.
        """
        with advising_rebuild():
            try:
                found = self._partition.locate(record_keys, partition_path)
            except NotFoundError:  # a compaction has replaced its files, and a clean deleted them
                self._partition = self._load()
                found = self._partition.locate(record_keys, partition_path)
        numbers = pa.array(found.numbers, mask=found.numbers < 0)
        paths = [own.partition_path for own in found.locations]
        file_ids = [own.file_id for own in found.locations]
        columns = [pa.array(each, pa.string()).take(numbers) for each in (paths, file_ids)]
        return pa.table(columns, schema=_COLUMNS)


def load_record_locations(state: TableState) -> RecordLocations:
    """Return the record index of a table.

    Raises:
        IndexUnknownError: the table has none, or one that lacks commits.
        CorruptError: the metadata table is damaged.
        UnsupportedError: the metadata table is of a kind that is not read.
        StorageError: the store failed.
    """
    config = state.config
    if RECORD_INDEX not in config.metadata_partitions:
        config = load_config(state.store, state.limits)  # the index may have been made since
    _check_listed(config)

    def load() -> MetadataPartition:
        table = load_metadata_table(state.store, config, state.timeline, state.limits)
        if table is None or not table.step.is_in_step:
            why = "" if table is None else f": {table.step}"
            raise IndexUnknownError(
                f"the record index is not in step with the table{why}; lookup() finds the rows of "
                "keys without it. Rebuild the metadata table, or drop it"
            )
        partition = table.partition(RECORD_INDEX)
        # Who removes the index takes it off the list first. Of a folder that was listed amid that
        # some file groups may be missing, and keys would be looked for in wrong ones.
        _check_listed(load_config(state.store, state.limits))
        return partition

    return RecordLocations(load)


def _check_listed(config: TableConfig) -> None:
    """Raise IndexUnknownError: the table lists no record index."""
    if RECORD_INDEX not in config.metadata_partitions:
        raise IndexUnknownError(
            "the table has no record index: hoodie.table.metadata.partitions does not list "
            f"{RECORD_INDEX}; lookup() finds the rows of keys without it. Build the index: "
            f"metadata_table.init({RECORD_INDEX!r})"
        )
