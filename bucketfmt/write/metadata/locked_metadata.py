"""The metadata table of a table whose lock is held, as it is read once.

I/O, read only. Only who holds the lock of the table changes its metadata table, so that what was
read under the lock holds until this writer changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bucketfmt.errors import CorruptError, TableNotFoundError, UnsupportedError
from bucketfmt.format.metadata.index_definitions import IndexDefinition
from bucketfmt.metadata_table.definitions import load_index_definitions
from bucketfmt.metadata_table.metadata_table import MetadataTable, load_metadata_table
from bucketfmt.storage.streams import do_together
from bucketfmt.write.commit.locked_table import LockedTable

__all__ = ["LockedMetadata", "load_locked_metadata"]


@dataclass(frozen=True)
class LockedMetadata:
    """What is read of a metadata table under the lock.

    Attributes:
        definitions: Of indexes, by partition.
        table: The metadata table; None where the table lists no partition, or it cannot be read.
        gap: Why it has to be made anew, in words; None where it is in step.
    """

    definitions: Mapping[str, IndexDefinition]
    table: MetadataTable | None
    gap: str | None


def load_locked_metadata(table: LockedTable, *ahead: Callable[[], object]) -> LockedMetadata:
    """Read the metadata table of a table.

    Args:
        table: The table.
        ahead: What else is to be read, over a network at the same time.

    Raises:
        CorruptError: the definitions of indexes are damaged.
        StorageError: the store failed.
    """
    store, config, limits, timeline = table.store, table.config, table.limits, table.timeline
    definitions: list[Mapping[str, IndexDefinition]] = []
    found: list[tuple[MetadataTable | None, str | None]] = []

    def load_metadata() -> None:
        try:
            metadata = load_metadata_table(store, config, timeline, limits)
            step = None if metadata is None else metadata.step
        except (TableNotFoundError, CorruptError, UnsupportedError) as error:
            found.append((None, str(error)))
        else:
            is_in_step = step is None or step.is_in_step
            found.append((metadata, None if is_in_step else str(step)))

    do_together(
        store,
        lambda: definitions.append(load_index_definitions(store, config, limits)),
        load_metadata,
        *ahead,
    )
    return LockedMetadata(definitions[0], *found[0])
