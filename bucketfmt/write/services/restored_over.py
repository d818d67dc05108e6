"""Log files that a restore left, although it took their file slices back. I/O, read only.

Until table version 6 log files are named after a compaction that is planned. Hudi's restore takes
the compaction back, and of the writes to these files only the blocks: the files stay, with command
blocks. Once the timeline begins after the compaction, they would look like a file slice.
"""

from __future__ import annotations

from collections.abc import Iterable

from bucketfmt.errors import CorruptError, LimitError, NotFoundError, UnsupportedError
from bucketfmt.format.log.log_block import BlockType, CorruptSpan, LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from bucketfmt.format.log.virtual_log import is_virtual_log
from bucketfmt.format.names.names import LogFileName
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.snapshot.state import TableState
from bucketfmt.storage.streams import map_in_threads, waiting_count
from bucketfmt.timeline.late_commits import LateCommits

__all__ = ["load_restored_over"]


def load_restored_over(state: TableState, files: Iterable[DataFile]) -> frozenset[str]:
    """Return the paths of those log files whose file slice a restore took back.

    A slice is left out as a whole if a commit or a block says that something in it may count:
    blocks have to be of instants that a rollback or a restore took back, or that the timeline would
    have and has not. Without its command blocks, the rest would count once it is archived.

    Args:
        state: The table as it is now.
        files: To choose from, as listed.

    Raises:
        CorruptError: a completed rollback or restore does not decode.
        StorageError: the store failed.
    """
    timeline, store, limits = state.timeline, state.store, state.limits
    if not timeline.completed.of("restore").instants:
        return frozenset()
    late_commits = LateCommits(store, limits)
    taken_back = late_commits.load_taken_back(state.config, timeline, "")
    restored_over = late_commits.load_taken_back(state.config, timeline, "", ["restore"])
    logs = [
        file
        for file in files
        if isinstance(file.name, LogFileName)
        and file.name.instant in restored_over
        and not timeline.contains(file.name.instant)
    ]
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
