"""Making partitions of the metadata table from the files of the table, and removing them.

I/O, under the lock of the table. A partition is listed in hoodie.properties once it is complete,
and is taken off the list before it is removed: readers never see half of it. Source:
HoodieBackedTableMetadataWriter (initializeFromFilesystem, initializeFileGroups,
generateUniqueInstantTime) and its subclass for table version 6, HoodieTableMetadataUtil
(estimateFileGroupCount, deleteMetadataTablePartition).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import chain

from bucketfmt.errors import (
    ConflictError,
    CorruptError,
    LockLostError,
    TableNotFoundError,
    UnsupportedError,
)
from bucketfmt.format.metadata.index_definitions import (
    IndexDefinition,
    encode_index_definitions,
)
from bucketfmt.format.metadata.metadata_files import (
    encode_initial_block,
    encode_metadata_base_file,
)
from bucketfmt.format.metadata.metadata_keys import (
    file_id_prefix,
    format_metadata_file_id,
    is_expression_index,
    is_secondary_index,
)
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.names.layout import (
    METADATA_FOLDER,
    METADATA_TABLE,
    PARTITION_METAFILE,
    UNKNOWN_WRITE_TOKEN,
)
from bucketfmt.format.names.names import BaseFileName, LogFileName
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.table.properties import (
    PartitionMetadata,
    encode_partition_metadata,
    table_checksum,
)
from bucketfmt.format.table.table_config import (
    METADATA_PARTITIONS,
    TableConfig,
)
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT, CommitMetadata, WriteStat
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.metadata_table.definitions import INDEX_DEFINITIONS, load_index_definitions
from bucketfmt.metadata_table.metadata_table import load_metadata_table
from bucketfmt.metadata_table.valid_instants import is_initial_instant
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.store import has_content, prepare_replace
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.history import load_history
from bucketfmt.timeline.table_properties import has_table, put_properties
from bucketfmt.write.commit.locked_table import LockedTable
from bucketfmt.write.metadata.delta_commit import INITIAL_WRITE_TOKEN
from bucketfmt.write.metadata.table_contents import TableContents
from bucketfmt.write.metadata.update import PartitionUpdate
from bucketfmt.write.properties.metadata_table import (
    drop_metadata_table,
    remove_folder,
    with_partitions,
)

__all__ = [
    "KEPT_PARTITIONS",
    "discard_damaged_definitions",
    "drop_partitions",
    "forget_definitions",
    "initialise_partitions",
]

KEPT_PARTITIONS = ("files", "column_stats", "bloom_filters", "partition_stats", "record_index")
"""The partitions that are made and kept in step here, in the order in which they are made."""

_DEFINITIONS_PATH = f"{METADATA_FOLDER}/.index_defs/index.json"
_FILE_GROUPS = {"files": 1, "column_stats": 2, "bloom_filters": 4, "partition_stats": 1}
_GROUPS_OF_TABLE, _GROUPS_OF_PARTITION = (10, 10_000), (1, 10)  # of a record index, by default
_RECORD_BYTES, _GROUP_BYTES, _GROWTH = 48, 1 << 30, 2
_FIRST_SUFFIX = 10  # of instants of table version 6
_BULK_INSERT = "BULK_INSERT_PREPPED"


def initialise_partitions(table: LockedTable, names: Iterable[str]) -> None:
    """Make partitions of the metadata table; those that are there are made anew.

    If the process dies amid this, `hoodie.properties` say which of those that were there are not
    made yet. The next writer makes them.

    All are made anew where Hudi would not read `files` any more: it takes archived instants for
    pending if an older one is active, and a partition is made by the earliest instant of all.

    Args:
        table: The table, on whose timeline nothing is left of dead writers.
        names: Of partitions. `files` is made as well where it is not there.

    Raises:
        UnsupportedError: a partition is of a kind that is not made here.
        CorruptError: a file of the table is damaged.
        ConflictError: the lock was lost.
        StorageError: the store failed. Partitions that are not listed are not complete.
    """
    listed = table.config.metadata_partitions
    wanted = {*names} | ({"files"} - {*listed})
    if "column_stats" in wanted:
        wanted |= {"partition_stats"} & {*listed}  # are worked out from it, and go with it
    if "files" not in wanted and _is_archived(table):
        wanted |= {*listed}
    contents = TableContents(table)
    made = (*KEPT_PARTITIONS, *contents.secondary_columns)
    _check_names(sorted(wanted), made, table.config)
    known = {*listed, *table.config.metadata_partitions_unfinished}
    drop_partitions(table, [name for name in listed if name in wanted], sorted(wanted & known))
    if "files" in wanted and "files" not in listed:
        # A process that died while it removed the metadata table has left instants of it, and not
        # others: what it lacks would be missing in the new one.
        remove_folder(table.store, METADATA_TABLE, table.check_held)
    below_store = FolderStore(table.store, METADATA_TABLE)
    now = table.machine.now()
    if not has_table(below_store):
        moment = datetime.fromtimestamp(now, timezone.utc)
        put_properties(below_store, _properties(table.config), moment)
    for name in made:
        if name not in wanted:
            continue
        left = join_path(METADATA_TABLE, name)  # by a crash
        remove_folder(table.store, left, table.check_held)
        _put_partition(table, name, contents)
        _put_definition(table, name, contents)
        _list(table, partial(_with, name), {name})


def _is_archived(table: LockedTable) -> bool:
    """Whether the metadata table has archived the write of the base file of `files`.

    It stands on that one again where a restore by Hudi took later compactions back.
    """
    try:
        metadata = load_metadata_table(table.store, table.config, table.timeline, table.limits)
        if metadata is None or metadata.timeline.layout == 1:
            return False
        readers = [*chain.from_iterable(metadata.partition("files").groups.values())]
    except (CorruptError, TableNotFoundError, UnsupportedError):
        return False
    bases = (reader.file_slice.base_file for reader in readers)
    instants = {base.name.instant for base in bases if base is not None}
    active = metadata.timeline.requested_times
    return any(time not in active and not is_initial_instant(time) for time in instants)


def drop_partitions(
    table: LockedTable, names: Sequence[str], unfinished: Sequence[str] = ()
) -> None:
    """Remove partitions of the metadata table; without `files`, all of it.

    Definitions that would do harm without their index go too (`_find_harmful`).

    Args:
        table: The table.
        names: Of the partitions.
        unfinished: Those that the caller makes anew.

    Raises:
        CorruptError: the definitions of indexes are damaged.
        UnsafePathError: a name points to another folder. Nothing is changed.
        StorageError: the store failed. Do it again.
    """
    gone = {*names}
    if "files" in gone:
        gone |= {*table.config.metadata_partitions}
    if "column_stats" in gone:
        gone.add("partition_stats")  # is worked out from it
    if gone:
        table.check_held()
    if any(is_expression_index(name) or is_secondary_index(name) for name in gone):
        known = load_index_definitions(table.store, table.config, table.limits)
        # First: after a crash amid this, the partitions are still listed.
        _forget(table, known, _find_harmful(gone, known))
    if "files" in gone:
        now = table.machine.now()
        drop_metadata_table(table.store, table.limits, now, table.check_held, unfinished)
        table.load_config()
    elif gone:
        folders = [check_relative_path(join_path(METADATA_TABLE, n), table.limits) for n in gone]
        _list(table, lambda known: [name for name in known if name not in gone], gone, unfinished)
        for folder in folders:
            remove_folder(table.store, folder, table.check_held)


def _find_harmful(gone: Iterable[str], known: Mapping[str, IndexDefinition]) -> list[str]:
    """Return the indexes whose definitions do harm once the indexes are gone. Pure.

    Where Hudi finds the definition of an expression index alone, it refuses to read the rows for
    which the expression has some value. Of a secondary index alone, its next write makes the index
    anew; but not where two rows have the same value and the same key, as in two partitions of a
    table with a partitioned record index: then every write is refused.
    """
    records = known.get(RECORD_INDEX)
    is_partitioned = records is not None and records.is_partitioned
    return [
        name
        for name in gone
        if is_expression_index(name) or (is_partitioned and is_secondary_index(name))
    ]


def discard_damaged_definitions(table: LockedTable) -> None:
    """Put that there are no indexes where the definitions of indexes are damaged.

    Hudi does not read a table whose definitions are cut.

    Raises:
        StorageError: the store failed.
    """
    try:
        load_index_definitions(table.store, table.config, table.limits)
    except CorruptError:
        path = check_relative_path(table.config.properties[INDEX_DEFINITIONS], table.limits)
        _put_definitions(table, path, {})


def forget_definitions(table: LockedTable, names: Collection[str]) -> None:
    """Remove the definitions of indexes, without which Hudi does not make the indexes anew.

    Raises:
        CorruptError: the definitions are damaged.
        StorageError: the store failed.
    """
    _forget(table, load_index_definitions(table.store, table.config, table.limits), names)


def _forget(
    table: LockedTable, known: Mapping[str, IndexDefinition], names: Collection[str]
) -> None:
    """Put the definitions that are left of the known ones, if some of them go."""
    left = {name: own for name, own in known.items() if name not in names}
    path = table.config.properties.get(INDEX_DEFINITIONS)
    if path and len(left) < len(known):
        _put_definitions(table, check_relative_path(path, table.limits), left)


def _check_names(names: Iterable[str], made: Sequence[str], config: TableConfig) -> None:
    """Refuse partitions that cannot be made.

    Raises:
        UnsupportedError: only Hudi makes one, or only for other tables.
        ValueError: there is no such partition; or statistics of partitions are to be made without
            those of columns.
    """
    for name in names:
        if name not in made:
            listed = name in config.metadata_partitions
            if not listed and file_id_prefix(name) is None:
                raise ValueError(
                    f"{name!r} is no partition of a metadata table; made are {', '.join(made)}"
                )
            raise UnsupportedError(
                f"partition {name!r} of the metadata table is not made here, only "
                f"{', '.join(made)}; have Hudi make it"
                + (f", or remove it: metadata_table.drop({name!r})" if listed else "")
            )
        if name == "partition_stats" and config.table_version < 8:
            raise UnsupportedError("partition_stats begin with table version 8")
    if "partition_stats" in names and not {"column_stats"} & {*names, *config.metadata_partitions}:
        raise ValueError("partition_stats are worked out from column_stats; make those too")


def _with(name: str, known: Sequence[str]) -> Sequence[str]:
    return [*known, name]


def _list(
    table: LockedTable,
    change: Callable[[Sequence[str]], Sequence[str]],
    finished: Collection[str],
    unfinished: Collection[str] = (),
) -> None:
    """Change which partitions the table lists.

    Args:
        table: The table.
        change: Returns the partitions to list for those that are listed.
        finished: Partitions that are made now, or are to be no more.
        unfinished: Partitions that are to be made anew.
    """

    def changed(properties: Mapping[str, str]) -> Mapping[str, str]:
        known = [name.strip() for name in properties.get(METADATA_PARTITIONS, "").split(",")]
        begun = {*table.config.metadata_partitions_unfinished} - {*finished} | {*unfinished}
        return with_partitions(properties, change([name for name in known if name]), begun)

    table.change_properties(changed)
    table.check_held()  # what is listed may be gone, and is not acknowledged


def _properties(config: TableConfig) -> dict[str, str]:
    """Return the properties of a metadata table."""
    name = f"{config.name}_metadata"
    common = {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(config.table_version),
        "hoodie.timeline.layout.version": str(config.timeline_layout),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.checksum": str(table_checksum(name, "")),
    }
    if "hoodie.table.timeline.timezone" in config.properties:
        common["hoodie.table.timeline.timezone"] = config.timezone
    if config.timeline_layout == 1:
        generator = "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
        strategy = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
        return {
            **common,
            "hoodie.archivelog.folder": "archived",
            "hoodie.table.keygenerator.class": generator,
            "hoodie.compaction.record.merger.strategy": strategy,
        }
    return {
        **common,
        "hoodie.table.initial.version": str(config.table_version),
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    }


# -- one partition


def _put_partition(table: LockedTable, name: str, contents: TableContents) -> None:
    """Write the file groups of a partition, by a delta commit of the metadata table."""
    updates = contents.read(name)
    table.check_held()  # by now others may have written what was not read
    below = table.below(METADATA_TABLE)
    time = _initial_time(table, below)
    instant = below.request("deltacommit", time=time)
    below.begin(time, "deltacommit")
    metafile = encode_partition_metadata(PartitionMetadata(time, 1))
    below.store.put_if_absent(join_path(name, PARTITION_METAFILE), metafile)
    groups: dict[str, PartitionUpdate | None] = {}
    for data_partition, update in updates.items():
        is_partitioned = data_partition is not None
        count = _FILE_GROUPS.get(name) or _record_groups(len(update), is_partitioned)
        filled = dict(update.by_group(count))
        for number in range(count):
            file_id = format_metadata_file_id(name, number, data_partition)
            groups[file_id] = filled.get(number)
    schema = metadata_schema(below.config.table_version)

    def put(file_id: str) -> WriteStat | None:
        log = LogFileName(file_id, time, 1, INITIAL_WRITE_TOKEN)
        _put_new(below, join_path(name, str(log)), encode_initial_block(time))
        own = groups[file_id]
        if own is None:
            return None
        created_ms = int(table.machine.now() * 1000)
        data = encode_metadata_base_file(own.entries, schema, created_ms=created_ms)
        path = join_path(name, str(BaseFileName(file_id, UNKNOWN_WRITE_TOKEN, time, "hfile")))
        _put_new(below, path, data)
        return WriteStat(
            file_id=file_id,
            path=path,
            prev_commit=NULL_COMMIT,
            num_writes=len(own),
            num_inserts=len(own),
            total_write_bytes=len(data),
            file_size_in_bytes=len(data),
            partition_path=name,
        )

    stats = map_in_threads(put, [*groups], waiting_count(below.store))
    written = [stat for stat in stats if stat is not None]
    below.load_timeline()
    metadata = CommitMetadata(
        partition_to_write_stats={name: written} if written else {}, operation_type=_BULK_INSERT
    )
    try:
        below.publish(instant, metadata)
    except LockLostError as lost:
        # The next owner of the lock makes the partition under the same instant.
        if lost.path is not None:
            below.store.delete(lost.path)
        raise ConflictError(
            f"the table lock was lost while {name} of the metadata table was made, which is taken "
            "back; begin again, with longer leases if it recurs"
        ) from lost


def _put_new(below: LockedTable, path: str, data: bytes) -> None:
    """Create a file of a partition that is being made; its name is the same whoever makes it.

    Raises:
        ConflictError: another writer has made it, since the lock was lost.
        StorageError: the store failed.
    """
    below.check_held()  # what is put late would count, if the next owner completed its instant
    if not below.store.put_if_absent(path, data) and not has_content(below.store, path, data):
        below.check_held()
        raise ConflictError("another writer makes the partition too; begin again", path=path)


def _record_groups(count: int, is_partitioned: bool) -> int:
    """Return how many file groups Hudi gives so many records of a record index.

    Args:
        count: Of the table; of a partition, where the index is partitioned.
        is_partitioned: Whether the record index has file groups for each partition.
    """
    estimated = count * _GROWTH // (_GROUP_BYTES // _RECORD_BYTES)
    least, most = _GROUPS_OF_PARTITION if is_partitioned else _GROUPS_OF_TABLE
    return max(least, min(most, estimated))


def _initial_time(table: LockedTable, below: LockedTable) -> str:
    """Return an instant for the initialisation of a partition, unused in the metadata table."""
    archived = load_history(below.store, below.config, below.limits)
    known = {i.requested_time for i in (*below.timeline.instants, *archived)}
    if below.config.timeline_layout > 1:
        digits, prefix, first = 3, INIT_INSTANT, 0
    else:
        completed = table.timeline.completed.instants
        prefix = completed[-1].requested_time if completed else INIT_INSTANT
        digits, first = 3, _FIRST_SUFFIX
    number = first
    while f"{prefix}{number:0{digits}}" in known:
        number += 1
    return f"{prefix}{number:0{digits}}"


def _put_definition(table: LockedTable, name: str, contents: TableContents) -> None:
    """Record the definition of an index, which Hudi has since table version 8."""
    version = table.config.table_version
    if version < 8 or name not in ("column_stats", "record_index"):
        return
    if name == "record_index" and version < 9:
        return
    path = check_relative_path(table.config.properties.get(INDEX_DEFINITIONS) or _DEFINITIONS_PATH)
    known = dict(load_index_definitions(table.store, table.config, table.limits))
    is_columns = name == "column_stats"
    stated = known[name].version if name in known else None
    is_partitioned = str(contents.keeps_keys_by_partition).lower()
    known[name] = IndexDefinition(
        index_name=name,
        index_type=name,
        index_function=name if is_columns else "",
        source_fields=contents.columns if is_columns else [],
        index_options={} if is_columns else {"isPartitioned": is_partitioned},
        version=None if version < 9 else stated or ("V2" if is_columns else "V1"),
    )
    _put_definitions(table, path, known)
    if table.config.properties.get(INDEX_DEFINITIONS) is None:
        table.change_properties(lambda old: {**old, INDEX_DEFINITIONS: path})


def _put_definitions(
    table: LockedTable, path: str, definitions: Mapping[str, IndexDefinition]
) -> None:
    """Replace the definitions of indexes: those that Hudi cannot read, it takes for none."""
    replace = prepare_replace(table.store, path, table.limits.timeline_file_bytes_max)
    table.check_held()
    replace(encode_index_definitions(definitions))
