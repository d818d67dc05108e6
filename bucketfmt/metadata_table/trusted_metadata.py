"""Questions to the metadata table, answered only where its answers are known to be right.

I/O: opens the metadata table when the first question is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bucketfmt.errors import BucketfmtError, NotFoundError, StorageError, UnsupportedError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.metadata_table import MetadataTable, load_metadata_table
from bucketfmt.process import cached_property
from bucketfmt.storage.store import Store
from bucketfmt.timeline.timeline import Timeline

__all__ = ["TrustedMetadata"]

_T = TypeVar("_T")


class TrustedMetadata:
    """The metadata table of a table under one timeline, as far as it is in step with the table.

    A partition that turns out to be damaged, or that a compaction replaced meanwhile, is asked no
    more.

    Attributes:
        partition_names: The partitions of the metadata table that the table lists as ready.
    """

    def __init__(
        self, store: Store, config: TableConfig, timeline: Timeline, limits: Limits
    ) -> None:
        self.partition_names = config.metadata_partitions
        self._store = store
        self._config = config
        self._timeline = timeline
        self._limits = limits
        self._failures: dict[str, str] = {}

    def ask(self, partition_name: str, question: Callable[[MetadataPartition], _T]) -> _T | None:
        """Return the answer to a question; None where a partition cannot be trusted.

        Args:
            partition_name: Of the metadata table.
            question: Reads the partition.

        Raises:
            StorageError: the store failed.
        """
        if partition_name not in self.partition_names or partition_name in self._failures:
            return None
        try:
            return question(self._metadata.partition(partition_name))
        except StorageError as error:
            if not isinstance(error, NotFoundError):
                raise
            self._failures[partition_name] = str(error)
        except BucketfmtError as error:
            self._failures[partition_name] = str(error)
        return None

    def why_not(self, partition_name: str) -> str | None:
        """Return why a partition is not trusted, in words; None if there is no reason so far.

        Raises:
            StorageError: the store failed.
        """
        if partition_name not in self.partition_names:
            return f"the table lists no partition {partition_name} of a metadata table"
        self.ask(partition_name, lambda partition: partition)
        return self._failures.get(partition_name)

    @cached_property
    def _metadata(self) -> MetadataTable:
        """The metadata table.

        Raises:
            UnsupportedError: the metadata table is not in step.
        """
        found = load_metadata_table(self._store, self._config, self._timeline, self._limits)
        if found is None:
            raise UnsupportedError("the table has no metadata table")
        if not found.step.is_in_step:
            raise UnsupportedError(f"the metadata table is not in step: {found.step}")
        return found
