"""The archived timeline: instants that left the active one, read when someone asks.

Does I/O, read only. Source: `ArchivedTimelineLoaderV1` (layout 1: log files
`.commits_.archive.N`), `ArchivedTimelineLoaderV2` and `LSMTimeline` (layout 2: the parquet
files that the manifest in force names).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from bucketfmt.errors import (
    BucketfmtError,
    CorruptError,
    LimitError,
    NotFoundError,
    UnsupportedError,
)
from bucketfmt.format.encoding.avro_container import decode_container
from bucketfmt.format.log.log_block import BlockType, CorruptSpan
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.names.instants import State
from bucketfmt.format.names.layout import (
    ARCHIVE_MERGE_PLAN_NAME,
    HISTORY_VERSION_NAME,
    find_archive_number,
    find_manifest_version,
    format_manifest_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.archived_timeline import (
    ArchivedInstant,
    HistoryFile,
    decode_archived_block,
    decode_history_manifest,
    decode_history_row,
    decode_history_version,
)
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.timeline import Instant, instant_key

__all__ = [
    "list_archive_files",
    "load_archived_among",
    "load_archived_commits",
    "load_archived_instants",
    "load_archived_replacements",
    "load_growing_history",
    "load_history",
    "load_history_files",
    "load_history_version",
]

_STATES = tuple(State)
_TIME = "instantTime"
_INSTANT_COLUMNS = pa.schema(
    {
        _TIME: pa.string(),
        "completionTime": pa.string(),
        "action": pa.string(),
        "version": pa.int32(),
    }
)
_CONTENT_COLUMNS = pa.schema([*_INSTANT_COLUMNS, ("metadata", pa.binary()), ("plan", pa.binary())])
_BATCH_ROWS = 256


def load_history(
    store: Store,
    config: TableConfig,
    limits: Limits = DEFAULT_LIMITS,
    *,
    since: str | None = None,
    until: str | None = None,
) -> tuple[Instant, ...]:
    """Return the archived instants, sorted, at their highest state; () if there is no history.

    `Instant.file_name` is the file of the history folder that holds the instant. If archiving was
    interrupted, an archived instant can be in the active timeline too.

    Args:
        store: The table's files.
        config: The table's configuration.
        limits: Bounds on what is read.
        since: The earliest requested time wanted; None for the first.
        until: The latest requested time wanted; None for the last.

    Raises:
        CorruptError: a file of the history does not decode.
        NotFoundError: a file that the manifest names does not exist.
        LimitError: there are more instants than `limits.timeline_instants_max`.
    """
    found: dict[tuple[str, str], Instant] = {}
    for name, entry in _load_entries(store, config, limits, since, until, _INSTANT_COLUMNS):
        _note(found, name, entry, config, limits)
    return tuple(found[key] for key in sorted(found))


def load_growing_history(
    store: Store,
    config: TableConfig,
    limits: Limits = DEFAULT_LIMITS,
    *,
    since: str | None = None,
    until: str | None = None,
) -> Iterator[tuple[Instant, ...]]:
    """Yield archived instants, each time more, and at last those that `load_history` returns.

    In layout 1 nothing tells what times a file holds: it is read file by file. The newest comes
    first, which mostly has what left the active timeline last. Arguments and errors are those of
    `load_history`; in layout 1 instants out of the range may be among them.
    """
    if config.timeline_layout != 1:
        yield load_history(store, config, limits, since=since, until=until)
        return
    found: dict[tuple[str, str], Instant] = {}
    for name, _ in reversed(list_archive_files(store, config, limits)):
        for entry in _load_file(store, config, name, limits, _INSTANT_COLUMNS, None):
            _note(found, name, entry, config, limits)
        yield tuple(found[key] for key in sorted(found))


def load_archived_among(
    store: Store, config: TableConfig, instants: Sequence[Instant], limits: Limits = DEFAULT_LIMITS
) -> tuple[Instant, ...]:
    """Return those of some completed instants of the active timeline that history holds too.

    An archival that died has put them there, and has not removed them from the timeline. So they
    are in the newest files: layout 1 is read up to a file that has none. Errors as of
    `load_history`.

    Args:
        store: The table's files.
        config: The table's configuration.
        instants: Sorted.
        limits: Bounds on what is read.
    """
    if not instants:
        return ()
    since, until = instants[0].requested_time, instants[-1].requested_time
    layout = config.timeline_layout
    found: tuple[Instant, ...] = ()
    for history in load_growing_history(store, config, limits, since=since, until=until):
        known = {instant_key(instant, layout) for instant in history if instant.is_completed}
        archived = tuple(instant for instant in instants if instant_key(instant, layout) in known)
        if len(archived) == len(found):
            break
        found = archived
    return found


def _note(
    found: dict[tuple[str, str], Instant],
    name: str,
    entry: ArchivedInstant,
    config: TableConfig,
    limits: Limits,
) -> None:
    """Add an entry of a file to the instants found, unless a higher state of it is there."""
    key = instant_key(entry, config.timeline_layout)
    known = found.get(key)
    if known is not None and _STATES.index(known.state) >= _STATES.index(entry.state):
        return
    completion_time = None
    if entry.state is State.COMPLETED:
        completion_time = entry.completion_time or entry.requested_time
    found[key] = Instant(entry.requested_time, entry.action, entry.state, completion_time, name)
    limits.check("timeline_instants_max", len(found))


def load_archived_instants(
    store: Store,
    config: TableConfig,
    limits: Limits = DEFAULT_LIMITS,
    *,
    since: str | None = None,
    until: str | None = None,
) -> Iterator[ArchivedInstant]:
    """Yield the archived instants with what they wrote and planned, file by file.

    In layout 1 every archived state is an entry of its own, in no certain order. Arguments
    and errors are those of `load_history`.
    """
    for _, entry in _load_entries(store, config, limits, since, until, _CONTENT_COLUMNS):
        yield entry


def load_archived_replacements(
    store: Store, config: TableConfig, since: str, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[Instant, CommitMetadata]]:
    """Yield the archived replacecommits that completed at `since` or later, with their content.

    In layout 1 all of them: the time of a file is not known for sure. Errors are those of
    `load_history`.
    """
    replacing = {
        instant.requested_time: instant
        for instant in load_history(store, config, limits)
        if instant.action == "replacecommit" and instant.is_completed
    }
    if config.timeline_layout != 1:
        replacing = {t: i for t, i in replacing.items() if (i.completion_time or "") >= since}
    if not replacing:
        return
    first, last = min(replacing), max(replacing)
    for entry in load_archived_instants(store, config, limits, since=first, until=last):
        instant = replacing.get(entry.requested_time)
        if (
            instant is not None
            and (entry.action, entry.state) == (instant.action, instant.state)
            and isinstance(entry.metadata, CommitMetadata)
        ):
            yield instant, entry.metadata


def _load_entries(
    store: Store,
    config: TableConfig,
    limits: Limits,
    since: str | None,
    until: str | None,
    columns: pa.Schema,
) -> Iterator[tuple[str, ArchivedInstant]]:
    """Yield (file name, entry) for the entries within the range."""
    since, until = since or "", until or "~"  # "~" is above every digit
    if config.timeline_layout == 1:
        names = [name for name, _ in list_archive_files(store, config, limits)]
    else:
        files = load_history_files(store, config, limits)
        names = [f.name for f in files if f.max_instant >= since and f.min_instant <= until]
    for name in names:
        for entry in _load_file(store, config, name, limits, columns, (since, until)):
            if since <= entry.requested_time <= until:
                yield name, entry


def list_archive_files(
    store: Store, config: TableConfig, limits: Limits = DEFAULT_LIMITS
) -> list[tuple[str, int]]:
    """Return the (name, size) of the files that hold archived instants, oldest first.

    Raises:
        CorruptError: the manifest of layout 2 does not decode.
    """
    if config.timeline_layout == 2:
        return [(file.name, file.size) for file in load_history_files(store, config, limits)]
    found = []
    for info in store.list(config.history_path):
        number = find_archive_number(info.name)
        if number is not None and not info.is_dir:
            found.append((number, info.name, info.size))
    return [(name, size) for _, name, size in sorted(found)]


def load_archived_commits(
    store: Store, config: TableConfig, name: str, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[Instant, CommitMetadata]]:
    """Yield the completed commits that one of `list_archive_files` holds, with what they wrote.

    Errors are those of `load_history`.
    """
    for entry in _load_file(store, config, name, limits, _CONTENT_COLUMNS, None):
        if entry.state is State.COMPLETED and isinstance(entry.metadata, CommitMetadata):
            time, completed = entry.requested_time, entry.completion_time
            yield Instant(time, entry.action, entry.state, completed, name), entry.metadata


def _load_file(
    store: Store,
    config: TableConfig,
    name: str,
    limits: Limits,
    columns: pa.Schema,
    between: tuple[str, str] | None,
) -> Iterator[ArchivedInstant]:
    """Yield what a file holds; with `between`, entries out of this range may be left out."""
    path = join_path(config.history_path, name)
    try:
        if config.timeline_layout == 1:
            yield from _load_archive_file(store, config, path, limits)
        else:
            yield from _load_history_file(store, path, columns, limits, between)
    except BucketfmtError as error:
        error.within(path=path)
        raise


def _load_archive_file(
    store: Store, config: TableConfig, path: str, limits: Limits
) -> Iterator[ArchivedInstant]:
    data = store.read(path, limits.history_file_bytes_max)
    for block in decode_log_file(data, limits):
        if isinstance(block, CorruptSpan):
            if _is_being_merged(store, config, path, limits):
                return  # what it will hold is in the files it is merged from
            raise CorruptError(
                f"archived instants are lost: {block.reason}; restore the file",
                offset=block.offset,
            )
        if block.block_type is BlockType.AVRO_DATA:
            try:
                yield from decode_archived_block(block.content, block.schema, limits)
            except BucketfmtError as error:
                error.within(path=path, base_offset=block.content_offset)
                raise


def _is_being_merged(store: Store, config: TableConfig, path: str, limits: Limits) -> bool:
    """Whether an unfinished merge of small archive files writes this file."""
    plan_path = join_path(config.history_path, ARCHIVE_MERGE_PLAN_NAME)
    try:
        _, plans = decode_container(store.read(plan_path, limits.properties_bytes_max), limits)
    except (NotFoundError, CorruptError, UnsupportedError):
        return False
    return any(plan.get("mergedArchiveFileName") == path.rpartition("/")[2] for plan in plans)


def load_history_files(
    store: Store, config: TableConfig, limits: Limits = DEFAULT_LIMITS
) -> tuple[HistoryFile, ...]:
    """Return the files of the manifest in force, oldest instants first (layout 2).

    Raises:
        CorruptError: the manifest does not decode.
    """
    version = load_history_version(store, config)
    if version is None:
        return ()
    path = join_path(config.history_path, format_manifest_name(version))
    data = store.read(path, limits.timeline_file_bytes_max)
    try:
        files = decode_history_manifest(data, limits)
    except BucketfmtError as error:
        error.within(path=path)
        raise
    return tuple(sorted(files, key=lambda file: file.min_instant))


def load_history_version(store: Store, config: TableConfig) -> int | None:
    """Return N of the manifest in force: the number in `_version_`, else the highest N.

    A writer replaces `_version_` in two steps, so it may be missing for a moment.
    """
    try:
        path = join_path(config.history_path, HISTORY_VERSION_NAME)
        return decode_history_version(store.read(path, 100))
    except (NotFoundError, CorruptError):
        found = (find_manifest_version(info.name) for info in store.list(config.history_path))
        return max((version for version in found if version is not None), default=None)


def _load_history_file(
    store: Store,
    path: str,
    columns: pa.Schema,
    limits: Limits,
    between: tuple[str, str] | None,
) -> Iterator[ArchivedInstant]:
    import pyarrow.parquet as pq  # noqa: PLC0415  (imported when an archived timeline is read)

    try:
        with store.open_arrow(path) as file:
            limits.check("history_file_bytes_max", file.size())
            parquet = pq.ParquetFile(file)
            limits.check("timeline_instants_max", parquet.metadata.num_rows)
            for number in range(parquet.metadata.num_row_groups):
                row_group = parquet.metadata.row_group(number)
                limits.check("row_group_bytes_max", row_group.total_byte_size)
            wanted = pa.schema([c for c in columns if c.name in parquet.schema_arrow.names])
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=wanted.names):
                rows = batch.select(wanted.names).cast(wanted)
                for row in _of_range(rows, between).to_pylist():
                    yield decode_history_row(row, limits)
    except MemoryError as error:
        raise LimitError.of_memory("archived instants", error) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise CorruptError(f"not a parquet file of archived instants: {error}") from error


def _of_range(rows: pa.RecordBatch, between: tuple[str, str] | None) -> pa.RecordBatch:
    """Return the rows whose time is in a range, and damaged ones, which have none."""
    import pyarrow.compute as pc  # noqa: PLC0415  (imported when an archived timeline is read)

    if between is None or _TIME not in rows.schema.names:
        return rows
    times = rows.column(_TIME)
    since, until = between
    is_within = pc.and_(pc.greater_equal(times, since), pc.less_equal(times, until))
    return rows.filter(pc.fill_null(is_within, True))
