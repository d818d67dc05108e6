"""What a table records of the indexes in its metadata table.

I/O, read only. Source: HoodieTableMetaClient.loadIndexDefForTable, HoodieRecordIndex.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from bucketfmt.errors import CorruptError, NotFoundError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.metadata.index_definitions import IndexDefinition, decode_index_definitions
from bucketfmt.format.metadata.metadata_keys import is_secondary_index, parse_metadata_file_id
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.names.names import find_metadata_file_name
from bucketfmt.format.names.paths import check_relative_path, join_path
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
    "Restore the file from a copy. Without one, `metadata_table.rebuild()`; where the table has "
    "indexes on columns, `metadata_table.drop()`, and then `metadata_table.init(...)` with the "
    "other partitions, and have Hudi make the indexes again."
)
"""What to do where the definitions are damaged."""
_PAUSES_S = (0.05, 0.2, 0.5)  # before damaged definitions are read again
_RECORD_INDEX, _PARTITIONED_SINCE = "record_index", 9
_FUNCTIONS = (None, "", "identity")


def load_index_definitions(
    store: Store, config: TableConfig, limits: Limits
) -> Mapping[str, IndexDefinition]:
    """Return the definitions of indexes by partition of the metadata table.

    Hudi writes them in place while it makes an index, so that half of them may be there for a
    moment: damaged definitions are read again before they count as damaged. An empty file has
    none, as to Hudi.

    Where the definition of a record index is lost, its files tell whether it is partitioned.

    Raises:
        CorruptError: the definitions are damaged.
        StorageError: the store failed.
    """
    path = config.properties.get(INDEX_DEFINITIONS)
    found = _load_stated(store, path, limits) if path else {}
    if (
        _RECORD_INDEX in found
        or _RECORD_INDEX not in config.metadata_partitions
        or config.table_version < _PARTITIONED_SINCE
    ):
        return found
    entries = store.list(join_path(METADATA_TABLE, _RECORD_INDEX))
    return {**found, **_find_record_index_definition(entry.name for entry in entries)}


def _find_record_index_definition(names: Iterable[str]) -> Mapping[str, IndexDefinition]:
    """Return the definition of a record index by the names of its files; none without files. Pure.

    Names of no file of a record index tell nothing: a rebuild, which is to remove them, asks this.
    """
    partitions = set()
    for name in names:
        with suppress(CorruptError):
            parsed = find_metadata_file_name(name)
            if parsed is not None:
                partitions.add(parse_metadata_file_id(_RECORD_INDEX, parsed.file_id)[0])
    if not partitions:
        return {}
    options = {"isPartitioned": str(None not in partitions).lower()}
    definition = IndexDefinition(
        index_name=_RECORD_INDEX,
        index_type=_RECORD_INDEX,
        index_function="",
        index_options=options,
        version="V1",
    )
    return {_RECORD_INDEX: definition}


def _load_stated(store: Store, path: str, limits: Limits) -> Mapping[str, IndexDefinition]:
    """Return the definitions that the file has."""
    for pause in (*_PAUSES_S, None):
        data: Buffer = b""
        try:
            data = store.read(check_relative_path(path, limits), limits.properties_bytes_max)
            return decode_index_definitions(data)
        except NotFoundError:
            return {}
        except CorruptError as error:
            if pause is None and not len(data):
                return {}
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
    records = definitions.get(_RECORD_INDEX)
    is_global = _RECORD_INDEX in names and not (records is not None and records.is_partitioned)
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
