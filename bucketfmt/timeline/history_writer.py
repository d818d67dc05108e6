"""Adding instants to the archived timeline, and removing them from the active one.

Does I/O; the table lock is held by the caller. Source: `TimelineArchiverV1` (layout 1: one more
log file), `LSMTimelineWriter` and `TimelineArchiverV2` (layout 2: one more parquet file and
manifest). An instant is in the history before the instant leaves the active timeline, so a reader
that reads the active timeline first and the history second misses no instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo

import pyarrow as pa

from bucketfmt.errors import CorruptError, StorageError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.encoding.json_text import encode_jackson_json
from bucketfmt.format.log.log_block import BlockType, HeaderKey, encode_log_block
from bucketfmt.format.names.instants import (
    InstantFile,
    State,
    find_instant_file,
    format_instant_time,
)
from bucketfmt.format.names.layout import (
    HISTORY_VERSION_NAME,
    find_archive_number,
    find_manifest_version,
    format_archive_name,
    format_manifest_name,
)
from bucketfmt.format.names.paths import join_path
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.archived_timeline import (
    ArchivedInstant,
    HistoryFile,
    decode_history_manifest,
    encode_archived_block,
    encode_history_manifest,
    encode_history_version,
)
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.format.timeline.instant_content import decode_instant_content, encode_instant_content
from bucketfmt.format.timeline.plans import RollbackPlan
from bucketfmt.limits import Limits
from bucketfmt.rows.parquet.base_file_writer import encode_base_file
from bucketfmt.storage.store import Store, has_content, prepare_replace
from bucketfmt.timeline.history import (
    list_archive_files,
    load_history_files,
    load_history_version,
)
from bucketfmt.timeline.markers import delete_markers
from bucketfmt.timeline.timeline import Instant, instant_key
from bucketfmt.timeline.transitions import delete_instant_file

__all__ = ["HistoryWriter"]

_LAYER_FILES = 10
"""`hoodie.timeline.compaction.batch.size`: how many files of a layer are merged into one file of
the next layer."""

_MANIFESTS_KEPT = 3
_VERSION_BYTES_MAX = 100
_PLANNED = frozenset({"clean", "compaction", "logcompaction", "replacecommit", "clustering"})
_FILE_BYTES_MAX = 1 << 30  # a file of history this large is not merged any more
_ROWS = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True)
class _StateFile:
    """One file of an instant in the active timeline."""

    file: InstantFile
    modified: float | None


class HistoryWriter:
    """Moves instants of one table from the active timeline to the history."""

    def __init__(
        self,
        store: Store,
        config: TableConfig,
        limits: Limits,
        check_held: Callable[[], object],
    ) -> None:
        """Set up.

        Args:
            store: The table's files.
            config: The table's properties.
            limits: Bounds on what is read.
            check_held: Raises where the table lock was lost. It is called before each change: the
                next owner of the lock archives the same instants, into files of the same names.
        """
        self._store = store
        self._config = config
        self._limits = limits
        self._check_held = check_held

    def put_archived(self, instants: Sequence[Instant]) -> None:
        """Add completed instants to the history, which does not hold them (`load_archived_among`).

        Raises:
            ConflictError: the table lock was lost.
            CorruptError: a file of an instant does not decode.
            StorageError: the store failed. Readers see none of the added instants, or all of them.
        """
        if not instants:
            return
        store, config, limits = self._store, self._config, self._limits
        layout = config.timeline_layout
        files = _state_files(store, config, instants)
        self._check_held()  # from here on, nobody else takes them off the timeline
        if any(instant_key(instant, layout) not in files for instant in instants):
            raise StorageError("an instant left the timeline while it was archived; retry")
        if layout == 1:
            entries = [
                _entry(store, config, state_file, limits)
                for instant in instants
                for state_file in files[instant_key(instant, layout)]
            ]
            schema, content = encode_archived_block(entries)
            block = encode_log_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: schema}, content)
            archived = list_archive_files(store, config, limits)
            last = max((find_archive_number(name) or 0 for name, _ in archived), default=0)
            name = format_archive_name(last + 1)
            self._check_held()
            path = join_path(config.history_path, name)
            if not store.put_if_absent(path, block) and not has_content(store, path, block):
                raise StorageError(
                    "another writer archived at the same time, without the table lock; retry",
                    path=name,
                )
            return
        rows = [
            _row(store, config, instant, files[instant_key(instant, layout)], limits)
            for instant in instants
        ]
        listed = load_history_files(store, config, limits)
        name = f"{instants[0].requested_time}_{instants[-1].requested_time}_0.parquet"
        self._put_file(name, pa.Table.from_pylist(rows, _ROWS), listed)

    def delete_active(self, instants: Sequence[Instant]) -> None:
        """Remove instants that are in the history from the active timeline.

        The requested and inflight files are removed first, so that no removed instant looks
        pending; then the completed files, oldest first, so that the timeline has no gap.

        Raises:
            ConflictError: the table lock was lost.
            StorageError: the store failed; do it again.
        """
        store, config = self._store, self._config
        layout = config.timeline_layout
        files = _state_files(store, config, instants)
        self._check_held()
        for instant in instants:
            delete_markers(store, instant.requested_time)  # of a writer that died once it was done
        for state in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
            for instant in instants:
                for state_file in files.get(instant_key(instant, layout), ()):
                    if state_file.file.state is state:
                        delete_instant_file(store, config, state_file.file.name)

    def compact(self) -> None:
        """Merge small files of layout 2's history; remove files that no recent manifest names.

        Raises:
            ConflictError: the table lock was lost.
            CorruptError: a file of the history is damaged.
            StorageError: the store failed. The history reads as before.
        """
        store, config, limits = self._store, self._config, self._limits
        if config.timeline_layout == 1:
            return
        for layer in range(9):  # the name has one digit for it
            listed = load_history_files(store, config, limits)
            small = [file for file in listed if file.layer == layer and file.size < _FILE_BYTES_MAX]
            if len(small) < _LAYER_FILES:
                break
            merged = small[:_LAYER_FILES]
            tables = [_load_rows(store, config, file, limits) for file in merged]
            rows = pa.concat_tables(tables).sort_by("instantTime")
            first = min(file.min_instant for file in merged)
            last = max(file.max_instant for file in merged)
            name = f"{first}_{last}_{layer + 1}.parquet"
            self._put_file(name, rows, [file for file in listed if file not in merged])
        self._remove_old_files()

    def _put_file(self, name: str, rows: pa.Table, others: Iterable[HistoryFile]) -> None:
        """Put a file of the history, then the manifest that names it, then the version."""
        store, config = self._store, self._config
        schema = encode_jackson_json(hudi_schema("HoodieLSMTimelineInstant")).decode()
        data = encode_base_file(rows, schema, codec="gzip")
        self._put_new(name, data)
        first, last, layer = name.removesuffix(".parquet").split("_")
        file = HistoryFile(name, data.size, first, last, int(layer))
        path = join_path(config.history_path, HISTORY_VERSION_NAME)
        replace = prepare_replace(store, path, _VERSION_BYTES_MAX)
        version = (load_history_version(store, config) or 0) + 1
        self._put_new(format_manifest_name(version), encode_history_manifest([*others, file]))
        self._check_held()
        replace(encode_history_version(version))

    def _put_new(self, name: str, data: Buffer) -> None:
        """Put a file that the history does not name yet; what a crash has left of it, goes.

        What another has put since the lock was lost stays: it is asked for once it is found.
        """
        path = join_path(self._config.history_path, name)
        self._check_held()
        if not self._store.put_if_absent(path, data):
            replace = prepare_replace(self._store, path, self._limits.history_file_bytes_max)
            self._check_held()
            replace(data)

    def _remove_old_files(self) -> None:
        store, config, limits = self._store, self._config, self._limits
        current = load_history_version(store, config)
        if current is None:
            return
        infos = store.list(config.history_path)
        found = {info.path: find_manifest_version(info.name) for info in infos}
        versions = {path: version for path, version in found.items() if version is not None}
        if current not in versions.values():
            return  # listed late: the files that it names would be removed
        kept: set[str] = set()
        for path, version in versions.items():
            if version > current - _MANIFESTS_KEPT:
                data = store.read(path, limits.timeline_file_bytes_max)
                kept.update(file.name for file in decode_history_manifest(data, limits))
        self._check_held()
        for path, version in versions.items():
            if version <= current - _MANIFESTS_KEPT:
                store.delete(path)
        for info in infos:
            if info.name.endswith(".parquet") and info.name not in kept:
                store.delete(info.path)


def _load_rows(store: Store, config: TableConfig, file: HistoryFile, limits: Limits) -> pa.Table:
    import pyarrow.parquet as pq  # noqa: PLC0415  (imported when archived timelines are merged)

    limits.check("history_file_bytes_max", file.size)
    path = join_path(config.history_path, file.name)
    try:
        with store.open_arrow(path) as source:
            return pq.read_table(source, columns=_ROWS.names).select(_ROWS.names).cast(_ROWS)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise CorruptError(
            f"not a parquet file of archived instants: {error}", path=path
        ) from error


def _state_files(
    store: Store, config: TableConfig, instants: Iterable[Instant]
) -> dict[tuple[str, str], list[_StateFile]]:
    """Return the files of these instants that are in the active timeline, by state."""
    layout = config.timeline_layout
    wanted = {instant_key(instant, layout) for instant in instants}
    found: dict[tuple[str, str], list[_StateFile]] = {}
    for info in store.list(config.timeline_path):
        file = None if info.is_dir else find_instant_file(info.name, layout)
        if file is not None and instant_key(file, layout) in wanted:
            found.setdefault(instant_key(file, layout), []).append(_StateFile(file, info.modified))
    for files in found.values():
        files.sort(key=lambda state_file: list(State).index(state_file.file.state))
    return found


def _read(store: Store, config: TableConfig, file: InstantFile, limits: Limits) -> bytes:
    path = join_path(config.timeline_path, file.name)
    return store.read(path, limits.timeline_file_bytes_max)


def _row(
    store: Store,
    config: TableConfig,
    instant: Instant,
    files: Sequence[_StateFile],
    limits: Limits,
) -> dict[str, object]:
    """Return a row of layout 2's history: the completed file of an instant, and its plan."""
    metadata = plan = None
    replaces = instant.action == "replacecommit"
    for state_file in files:
        data = _read(store, config, state_file.file, limits)
        if state_file.file.state is State.COMPLETED:
            metadata = _modern(data, instant, limits) if instant.legacy else data
        elif data and state_file.file.action in _PLANNED and (plan is None or replaces):
            plan = data  # of a replacement the inflight file tells more than the requested
    return {
        "instantTime": instant.requested_time,
        "completionTime": instant.completion_time,
        "action": instant.action,
        "metadata": metadata or None,
        "plan": plan,
        "version": 1,
    }


def _modern(data: bytes, instant: Instant, limits: Limits) -> bytes:
    """Return layout 1's content of an instant from before an upgrade as layout 2 has it."""
    content = decode_instant_content(data, limits)
    if content is None:
        return data
    return bytes(encode_instant_content(content, instant.action, State.COMPLETED, 2))


def _entry(
    store: Store, config: TableConfig, state_file: _StateFile, limits: Limits
) -> ArchivedInstant:
    """Return an entry of layout 1's archive: one state of an instant."""
    file = state_file.file
    content = decode_instant_content(_read(store, config, file, limits), limits)
    zone = timezone.utc if config.timezone == "UTC" else None
    if content is None and file.action in ("commit", "deltacommit"):
        content = CommitMetadata()  # an empty file, as Hudi archives it
    if isinstance(content, RollbackPlan):
        content = None  # for which this archive has no field
    time = _time(state_file.modified, zone) or file.requested_time
    return ArchivedInstant(file.requested_time, file.action, file.state, time, content)


def _time(modified: float | None, zone: tzinfo | None) -> str | None:
    if modified is None:
        return None
    return format_instant_time(datetime.fromtimestamp(modified, zone).replace(tzinfo=None))
