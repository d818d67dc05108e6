"""What a table records of the indexes in its metadata table.

I/O, read only. Source: HoodieTableMetaClient.loadIndexDefForTable, HoodieRecordIndex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bucketfmt.errors import NotFoundError
from bucketfmt.format.metadata.index_definitions import IndexDefinition, decode_index_definitions
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store

__all__ = ["INDEX_DEFINITIONS", "find_indexed_columns", "load_index_definitions"]

INDEX_DEFINITIONS = "hoodie.table.index.defs.path"
"""The property that says where the definitions are."""


def load_index_definitions(
    store: Store, config: TableConfig, limits: Limits
) -> Mapping[str, IndexDefinition]:
    """Return the definitions of indexes by partition of the metadata table.

    Raises:
        CorruptError: the definitions are damaged.
        StorageError: the store failed.
    """
    path = config.properties.get(INDEX_DEFINITIONS)
    if not path:
        return {}
    try:
        data = store.read(check_relative_path(path, limits), limits.properties_bytes_max)
    except NotFoundError:
        return {}
    return decode_index_definitions(data)


def find_indexed_columns(definitions: Mapping[str, IndexDefinition]) -> Sequence[str] | None:
    """Return the columns that a table records as those with statistics; None: Hudi's default."""
    definition = definitions.get("column_stats")
    return definition.source_fields if definition is not None else None
