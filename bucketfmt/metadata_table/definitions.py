"""What a table records of the indexes in its metadata table.

I/O, read only. Source: HoodieTableMetaClient.loadIndexDefForTable, HoodieRecordIndex.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa

from bucketfmt.errors import CorruptError, NotFoundError
from bucketfmt.format.metadata.index_definitions import IndexDefinition, decode_index_definitions
from bucketfmt.format.metadata.metadata_keys import is_secondary_index
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.limits import Limits
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.storage.store import Store

__all__ = [
    "FIX_OF_DEFINITIONS",
    "INDEX_DEFINITIONS",
    "find_indexed_columns",
    "find_secondary_columns",
    "find_statistics_version",
    "load_index_definitions",
]

INDEX_DEFINITIONS = "hoodie.table.index.defs.path"
"""The property that says where the definitions are."""
FIX_OF_DEFINITIONS = (
    "Restore the file from a copy. Without one, `metadata_table.drop()`, and then "
    "`metadata_table.init(...)` with the partitions that the table had; have Hudi make indexes of "
    "other kinds."
)
"""What to do where the definitions are damaged."""
_PAUSES_S = (0.05, 0.2, 0.5)  # before damaged definitions are read again
_FUNCTIONS = (None, "", "identity")


def load_index_definitions(
    store: Store, config: TableConfig, limits: Limits
) -> Mapping[str, IndexDefinition]:
    """Return the definitions of indexes by partition of the metadata table.

    Hudi writes them in place while it makes an index, so that half of them may be there for a
    moment: damaged definitions are read again before they count as damaged.

    Raises:
        CorruptError: the definitions are damaged.
        StorageError: the store failed.
    """
    path = config.properties.get(INDEX_DEFINITIONS)
    if not path:
        return {}
    for pause in (*_PAUSES_S, None):
        try:
            data = store.read(check_relative_path(path, limits), limits.properties_bytes_max)
            return decode_index_definitions(data)
        except NotFoundError:  # noqa: PERF203  (a try for each read)
            return {}
        except CorruptError as error:
            if pause is None:
                raise CorruptError(f"{error.message}. {FIX_OF_DEFINITIONS}", path=path) from None
            time.sleep(pause)
    raise AssertionError("the last read returns or raises")


def find_indexed_columns(definitions: Mapping[str, IndexDefinition]) -> Sequence[str] | None:
    """Return the columns that a table records as those with statistics; None: Hudi's default."""
    definition = definitions.get("column_stats")
    return definition.source_fields if definition is not None else None


def find_statistics_version(definitions: Mapping[str, IndexDefinition], table_version: int) -> int:
    """Return the table version in whose form a table keeps its statistics.

    A table that was upgraded to version 9 keeps those of version 8, as its definitions tell: Hudi
    fails to merge the two forms. Source: `HoodieTableMetadataUtil.existingIndexVersionOrDefault`.
    """
    told = (definitions.get(name) for name in ("column_stats", "partition_stats"))
    version = next((each.version for each in told if each is not None and each.version), None)
    return min(table_version, 8) if version == "V1" else table_version


def find_secondary_columns(
    names: Sequence[str],
    definitions: Mapping[str, IndexDefinition],
    schema: TableSchema | None,
) -> dict[str, str]:
    """Return the column of each secondary index that is kept in step, by partition. Pure.

    The index has to be on one column of text or of integers, whose texts are the same in all
    releases, and the keys of the table have to be unique in it, as a global record index has them.

    Args:
        names: The partitions of the metadata table.
        definitions: The definitions of indexes.
        schema: The columns of the table; None: nothing states them.
    """
    records = definitions.get("record_index")
    is_global = "record_index" in names and not (records is not None and records.is_partitioned)
    if schema is None or not is_global:
        return {}
    found = {}
    for name in names:
        definition = definitions.get(name) if is_secondary_index(name) else None
        if definition is None or definition.index_function not in _FUNCTIONS:
            continue
        columns = definition.source_fields
        if len(columns) == 1 and columns[0] in schema.data.names:
            kind = schema.data.field(columns[0]).type
            if pa.types.is_string(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind):
                found[name] = columns[0]
    return found
