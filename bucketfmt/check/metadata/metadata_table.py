"""Whether the metadata table can be read, is in step, and says what is there.

I/O, read only. M002 and M004, and what the other modules of the room find. Hudi's readers take the
metadata table's word without a look at the table, so a wrong word costs rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from bucketfmt.check.examined import ExaminedState, event_of_error
from bucketfmt.check.files.compactions import unplanned_finding
from bucketfmt.check.metadata.files_partition import (
    PartitionFilesView,
    find_file_differences,
    find_partition_differences,
)
from bucketfmt.check.metadata.lost_files import find_needed_files
from bucketfmt.check.metadata.partition_statistics import find_narrow_statistics
from bucketfmt.check.metadata.record_index import find_record_index_faults
from bucketfmt.check.metadata.secondary_index import find_secondary_index_faults
from bucketfmt.check.report import Counted, Event, Finding, NotChecked
from bucketfmt.choices import Depth
from bucketfmt.errors import BucketfmtError, CorruptError, TableNotFoundError
from bucketfmt.format.metadata.index_definitions import IndexDefinition
from bucketfmt.format.metadata.metadata_keys import (
    ALL_PARTITIONS_KEY,
    is_expression_index,
    is_secondary_index,
    parse_files_key,
)
from bucketfmt.format.metadata.metadata_records import FilesRecord
from bucketfmt.format.names.layout import METADATA_TABLE
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.service_metadata import RestoreMetadata, RollbackMetadata
from bucketfmt.metadata_table.damage import in_metadata_table
from bucketfmt.metadata_table.definitions import (
    FIX_OF_DEFINITIONS,
    INDEX_DEFINITIONS,
    find_secondary_columns,
    load_index_definitions,
)
from bucketfmt.metadata_table.in_step import Step
from bucketfmt.metadata_table.metadata_partition import MetadataPartition
from bucketfmt.metadata_table.metadata_table import MetadataTable, load_metadata_table
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.streams import map_in_threads, reader_count, waiting_count
from bucketfmt.timeline.load import load_instant_content, load_unplanned
from bucketfmt.write.services.pending_cleans import load_doomed

__all__ = ["load_metadata_faults"]

_FILES, _RECORD_INDEX = "files", "record_index"
_STATISTICS, _PARTITION_STATISTICS = "column_stats", "partition_stats"
_CUT_DEFINITIONS = "the definitions of indexes do not decode, and Hudi does not read the table"
_NO_KEYS = "the table does not store record keys"


def load_metadata_faults(
    state: ExaminedState,
    snapshot: Snapshot,
    slices: Mapping[str, Sequence[FileSlice]],
    depth: Depth,
) -> Iterator[Event]:
    """Yield M001 to M006.

    Every depth reads the partition `files`. Depth default reads the other partitions but those
    that have an entry for each record, which depth full compares with the keys of the table. It
    compares the statistics of partitions with those of their files, too.

    Args:
        state: The table.
        snapshot: The same, as readers see it.
        slices: What readers see of each partition that is checked.
        depth: As asked for.
    """
    definitions: Mapping[str, IndexDefinition] = {}
    try:
        definitions = load_index_definitions(state.store, state.config, state.limits)
    except CorruptError as error:
        paths = [error.path] if error.path else []
        yield Finding.of("M002", _CUT_DEFINITIONS, paths=paths, fix=FIX_OF_DEFINITIONS)
    except BucketfmtError as error:
        yield event_of_error(error, "M002", "the definitions of indexes")
    else:
        yield from _find_undefined(state.config, definitions)
    if not state.config.metadata_partitions:
        return
    try:
        metadata = load_metadata_table(state.store, state.config, state.timeline, state.limits)
    except TableNotFoundError as error:
        yield Finding.of("M002", f"there is no metadata table ({error.message})")
        return
    except BucketfmtError as error:
        yield event_of_error(error, "M002", METADATA_TABLE)
        return
    if metadata is None:
        return
    faults = list(_find_differences(state, metadata, definitions, snapshot, slices, depth))
    if any(isinstance(fault, Finding) for fault in faults) and state.has_changed():
        why = "the table was written to while it was checked; check again"
        yield NotChecked("the metadata table", why)
        return
    yield from faults


def _find_undefined(
    config: TableConfig, definitions: Mapping[str, IndexDefinition]
) -> Iterator[Finding]:
    """Yield M002 where statistics have no definition, by which Hudi fails to read some rows."""
    is_listed = _STATISTICS in config.metadata_partitions and config.table_version >= 8
    if is_listed and _STATISTICS not in definitions:
        path = config.properties.get(INDEX_DEFINITIONS)
        yield Finding.of(
            "M002",
            f"partition {_STATISTICS} has no definition, and reads of Hudi with a condition "
            "on a column fail",
            paths=[path] if path else [],
            fix=_fix_of(_STATISTICS),
            data_loss=False,
        )


def _find_differences(
    state: ExaminedState,
    metadata: MetadataTable,
    definitions: Mapping[str, IndexDefinition],
    snapshot: Snapshot,
    slices: Mapping[str, Sequence[FileSlice]],
    depth: Depth,
) -> Iterator[Event]:
    step = metadata.step
    yield from _find_step_faults(step, state.config)
    yield from _find_unplanned(state, metadata)
    needed = (yield from _load_needed_files(state, metadata)) if depth != "quick" else {}
    for name in metadata.partition_names:
        has_every_record = name == _RECORD_INDEX or is_secondary_index(name)
        if has_every_record and depth != "full":
            why = f"depth {depth} does not read what has an entry for each record"
            yield NotChecked(f"partition {name} of the metadata table", why, is_gap=False)
        if depth == "quick" and name != _FILES:
            continue
        try:
            partition = metadata.partition(name)
            yield from _find_lost_files(state, partition, needed.get(name, ()))
            if name == _FILES:
                yield from _compare_files(state, partition, slices, set(step.missing))
            elif has_every_record and depth != "full":
                continue
            elif has_every_record and not step.is_in_step:
                why = "it is not in step, as M004 tells"
                yield NotChecked(_words(name), why, is_gap=False)
            elif name == _RECORD_INDEX:
                yield from _compare_record_index(state, partition, snapshot, slices)
            elif is_secondary_index(name):
                yield from _compare_secondary_index(state, partition, definitions, snapshot, slices)
            else:
                yield Counted("entries of the metadata table", sum(1 for _ in partition.scan()))
            if name == _PARTITION_STATISTICS and depth == "full" and step.is_in_step:
                yield from _compare_statistics(metadata, snapshot, slices)
        except BucketfmtError as error:
            yield _event_of_partition(error, name, slices)


def _event_of_partition(
    error: BucketfmtError, name: str, slices: Mapping[str, Sequence[FileSlice]]
) -> Event:
    """Return what an error says that was met while a partition was compared with the table.

    Where a file of the table is damaged, T002 tells of it; a rebuild would fail at the same file.
    """
    own = chain.from_iterable(slices.values())
    if any(file.path == error.path for file_slice in own for file in file_slice.files):
        return NotChecked(_words(name), f"a file of the table is in the way: {error}")
    event = event_of_error(error, "M002", join_path(METADATA_TABLE, name))
    if not isinstance(event, Finding):
        return event
    # Statistics of partitions are compared with those of files, which may be the damaged ones.
    folder, _, rest = (error.path or "").removeprefix(f"{METADATA_TABLE}/").partition("/")
    return replace(event, fix=_fix_of(folder if rest else name))


def _fix_of(name: str) -> str:
    """Return what makes a partition anew."""
    if is_expression_index(name):
        return f"Drop the index, `metadata_table.drop({name!r})`, and have Hudi make it again."
    return f"Rebuild the partition: `metadata_table.rebuild({name!r})`."


def _load_needed_files(
    state: ExaminedState, metadata: MetadataTable
) -> Generator[Event, None, Mapping[str, Sequence[str]]]:
    """Return the files that each partition of the metadata table must have, by its commits."""
    below = FolderStore(state.store, METADATA_TABLE)
    load = partial(load_instant_content, below, metadata.config, limits=state.limits)
    instants = metadata.timeline.writes.completed.instants
    try:
        with in_metadata_table():
            contents = map_in_threads(load, instants, waiting_count(below))
            commits = zip(instants, contents, strict=True)
            return find_needed_files((i, c) for i, c in commits if isinstance(c, CommitMetadata))
    except BucketfmtError as error:
        yield NotChecked("the commits of the metadata table", str(error))
        return {}


def _find_lost_files(
    state: ExaminedState, partition: MetadataPartition, needed: Sequence[str]
) -> Iterator[Finding]:
    """Yield M002 for files of completed writes that the newest file slices lack."""
    readers = chain.from_iterable(partition.groups.values())
    there = {file.path for reader in readers for file in reader.file_slice.files}
    named = {join_path(METADATA_TABLE, check_relative_path(path)) for path in needed}
    lost = [path for path in sorted(named - there) if state.store.info(path) is None]
    if lost:
        yield Finding.of(
            "M002",
            f"partition {partition.name}: {len(lost)} files of completed writes of the metadata "
            "table are not there, and its readers go by what is left",
            paths=lost,
            fix=_fix_of(partition.name),
        )


def _find_unplanned(state: ExaminedState, metadata: MetadataTable) -> Iterator[Finding]:
    """Yield M002 for compactions of the metadata table whose plan was never written."""
    below = FolderStore(state.store, METADATA_TABLE)
    for path, instant in load_unplanned(below, metadata.config, metadata.timeline).items():
        fix = "The next write by bucketfmt removes the file."
        yield unplanned_finding("M002", instant, join_path(METADATA_TABLE, path), fix)


def _find_step_faults(step: Step, config: TableConfig) -> Iterator[Finding]:
    """Yield M004 for instants that only one of the two timelines has."""
    if not step.is_in_step:
        yield Finding.of("M004", str(step), instants=[*step.missing, *step.ahead])
    unfinished = (*config.metadata_partitions_inflight, *config.metadata_partitions_unfinished)
    if unfinished:
        yield Finding.of(
            "M004",
            f"the initialisation of {', '.join(unfinished)} is under way, or its writer died",
            severity="info",
            fix="None needed where a writer is at it. Else rebuild the partition, or drop it.",
            data_loss=False,
        )


def _compare_files(
    state: ExaminedState,
    partition: MetadataPartition,
    slices: Mapping[str, Sequence[FileSlice]],
    behind: set[str],
) -> Iterator[Event]:
    records = {
        key: record.entries for key, record in partition.scan() if isinstance(record, FilesRecord)
    }
    every = records.pop(ALL_PARTITIONS_KEY, {})
    listed = {parse_files_key(key) for key, entry in every.items() if not entry.is_deleted}
    known = {parse_files_key(key): entries for key, entries in records.items()}
    unknown = behind | {
        path
        for commit in state.commits
        if commit.requested_time in behind
        for _, _, path, *_ in commit.files
    }
    doomed = load_doomed(state.store, state.config, state.timeline, state.limits)
    committed = {path for commit in state.commits for _, _, path, *_ in commit.files}
    committed |= _load_command_logs(state) if state.config.table_version < 8 else set()
    seen = [path for path, own in slices.items() if own]
    yield from find_partition_differences(seen, listed, bool(behind))
    for path, own in slices.items():
        found, change_data = state.lister.files(path), state.lister.change_data(path)
        view = PartitionFilesView(path, found, change_data, own, known.get(path))
        yield from find_file_differences(
            view,
            committed,
            state.config.table_version,
            unknown,
            {name for partition, name in doomed if partition == path},
        )
        yield Counted("files in the metadata table", len(known.get(path, ())))


def _load_command_logs(state: ExaminedState) -> set[str]:
    """Return the log files that rollbacks and restores have added: without them, what was taken
    back counts once it is archived.
    """
    found: set[str] = set()
    for instant in state.timeline.completed.of("rollback", "restore").instants:
        content = load_instant_content(state.store, state.config, instant, state.limits)
        rollbacks = [content] if isinstance(content, RollbackMetadata) else []
        if isinstance(content, RestoreMetadata):
            rollbacks += content.rollbacks
        for rollback in rollbacks:
            found.update(rollback.command_logs)
    return found


def _compare_record_index(
    state: ExaminedState,
    partition: MetadataPartition,
    snapshot: Snapshot,
    slices: Mapping[str, Sequence[FileSlice]],
) -> Iterator[Event]:
    if not state.config.populate_meta_fields:
        yield NotChecked(_words(partition.name), _NO_KEYS, is_gap=False)
        return
    yield from find_record_index_faults(
        partition,
        snapshot,
        slices,
        set(slices) == set(snapshot.partitions),
        _workers(state, slices),
    )


def _compare_secondary_index(
    state: ExaminedState,
    partition: MetadataPartition,
    definitions: Mapping[str, IndexDefinition],
    snapshot: Snapshot,
    slices: Mapping[str, Sequence[FileSlice]],
) -> Iterator[Event]:
    name = partition.name
    names = state.config.metadata_partitions
    column = find_secondary_columns(names, definitions, snapshot.schema).get(name)
    if not state.config.populate_meta_fields:
        yield NotChecked(_words(name), _NO_KEYS, is_gap=False)
    elif set(slices) != set(snapshot.partitions):
        why = "its entries do not say of which partition they are; check the whole table"
        yield NotChecked(_words(name), why, is_gap=False)
    elif _RECORD_INDEX not in names:
        yield NotChecked(_words(name), "it leads to keys of record_index, which is not there")
    elif name not in definitions:
        yield NotChecked(_words(name), "it has no definition, and Hudi does not read by it")
    elif column is None:
        yield NotChecked(_words(name), "its keys are made in a way that only Hudi knows")
    else:
        yield from find_secondary_index_faults(
            partition, column, definitions[name], snapshot, _workers(state, slices)
        )


def _compare_statistics(
    metadata: MetadataTable, snapshot: Snapshot, slices: Mapping[str, Sequence[FileSlice]]
) -> Iterator[Event]:
    if _STATISTICS in metadata.partition_names and any(slices.values()):
        of_partitions, of_files = map(metadata.partition, (_PARTITION_STATISTICS, _STATISTICS))
        yield from find_narrow_statistics(of_partitions, of_files, snapshot.schema.data, slices)


def _workers(state: ExaminedState, slices: Mapping[str, Sequence[FileSlice]]) -> int:
    sizes = [file_slice.size for own in slices.values() for file_slice in own]
    return reader_count(state.store, sizes)


def _words(name: str) -> str:
    return "the record index" if name == _RECORD_INDEX else f"the index {name}"
