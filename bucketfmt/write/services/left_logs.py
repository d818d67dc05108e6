"""Log files that Hudi left of file slices whose plans it took back. I/O, read only.

Until table version 6 log files are named after a compaction that is planned. Hudi's restore takes
the compaction back, and of the writes to these files only the blocks: the files stay, with command
blocks. In every version the copies of rows for a resize are named after the resize while it is
planned. Hudi's rollback of the plan leaves them.

Once the timeline begins after the plan, such files would look like file slices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from bucketfmt.errors import CorruptError, LimitError, NotFoundError, UnsupportedError
from bucketfmt.format.buckets.index_settings import has_virtual_logs
from bucketfmt.format.log.log_block import BlockType, CorruptSpan, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.virtual_log import is_virtual_log
from bucketfmt.format.names.names import LogFileName
from bucketfmt.format.timeline.service_metadata import RestoreMetadata, RollbackMetadata
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.late_commits import LateCommits
from bucketfmt.timeline.load import load_instant_content
from bucketfmt.timeline.timeline import REPLACING_ACTIONS, Instant

__all__ = ["load_left_logs"]


def load_left_logs(state: TableState, files: Iterable[DataFile]) -> frozenset[str]:
    """Return the paths of those log files in which nothing counts, since a plan was taken back.

    Args:
        state: The table as it is now.
        files: To choose from, as listed.

    Raises:
        CorruptError: a completed rollback or restore does not decode.
        StorageError: the store failed.
    """
    logs = [
        file
        for file in files
        if isinstance(file.name, LogFileName) and not state.timeline.contains(file.name.instant)
    ]
    return _load_restored_over(state, logs) | _load_copies(state, logs)


def _load_copies(state: TableState, logs: Collection[DataFile]) -> frozenset[str]:
    """Return the paths of the log files of resizes that were taken back.

    Their rows are in the file groups as well that were to be replaced. With virtual logs they are
    not: then nothing is chosen. What was taken back may be a failed attempt alone, and the resize
    was completed later and archived.
    """
    if not logs or has_virtual_logs(state.config.properties):
        return frozenset()
    first = min(file.name.instant for file in logs)
    undoing = state.timeline.completed.of("rollback", "restore").instants
    later = [instant for instant in undoing if instant.requested_time > first]

    def load_resizes(undone: Instant) -> frozenset[str]:
        content = load_instant_content(state.store, state.config, undone, state.limits)
        return frozenset(
            target.commit_time
            for rollback in _rollbacks_of(content)
            for target in rollback.instants_rollback
            if target.action in REPLACING_ACTIONS
        )

    loaded = map_in_threads(load_resizes, later, waiting_count(state.store))
    resizes = frozenset[str]().union(*loaded)
    copies = [file for file in logs if file.name.instant in resizes]
    archived = state.archived_since(min(resizes)) if copies else ()
    completed = {instant.requested_time for instant in archived}
    return frozenset(file.path for file in copies if file.name.instant not in completed)


def _rollbacks_of(content: object) -> Iterator[RollbackMetadata]:
    if isinstance(content, RollbackMetadata):
        yield content
    elif isinstance(content, RestoreMetadata):
        for rollbacks in content.hoodie_restore_metadata.values():
            yield from rollbacks


def _load_restored_over(state: TableState, files: Collection[DataFile]) -> frozenset[str]:
    """Return the paths of those log files whose file slice a restore took back.

    A slice is left out as a whole if a commit or a block says that something in it may count:
    blocks have to be of instants that a rollback or a restore took back, or that the timeline would
    have and has not. Without its command blocks, the rest would count once it is archived.
    """
    timeline, store, limits = state.timeline, state.store, state.limits
    if not timeline.completed.of("restore").instants:
        return frozenset()
    late_commits = LateCommits(store, limits)
    taken_back = late_commits.load_taken_back(state.config, timeline, "")
    restored_over = late_commits.load_taken_back(state.config, timeline, "", ["restore"])
    logs = [file for file in files if file.name.instant in restored_over]
    if not logs:
        return frozenset()
    named = {file[2] for commit in state.commits for file in commit.files}

    def may_count(time: str) -> bool:
        is_archived = timeline.is_before_start(time) and time not in taken_back
        return is_archived or timeline.contains(time)

    def is_dead(file: DataFile) -> bool:
        if file.path in named:
            return False
        try:
            data = store.read(file.path, limits.log_file_bytes_max)
            spans = list(decode_log_file(data, limits))
            times = [_instant_of(span) for span in spans if not isinstance(span, CorruptSpan)]
        except (CorruptError, LimitError, NotFoundError, UnsupportedError):
            return False  # it does not tell
        return len(times) == len(spans) and not any(map(may_count, times))

    dead = map_in_threads(is_dead, logs, waiting_count(store))
    alive = {_slice_of(file) for file, it_is in zip(logs, dead, strict=True) if not it_is}
    return frozenset(file.path for file in logs if _slice_of(file) not in alive)


def _slice_of(file: DataFile) -> tuple[str, str, str]:
    return file.path.rpartition("/")[0], file.name.file_id, file.name.instant


def _instant_of(block: LogBlock) -> str:
    """Return the instant that a block is of; of a rollback's, the instant that it takes back."""
    if block.block_type is BlockType.COMMAND and not is_virtual_log(block):
        return block.target_instant_time
    return block.instant_time
