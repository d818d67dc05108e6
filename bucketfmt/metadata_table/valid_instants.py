"""Which instants' records in the metadata table count.

A commit is written to the metadata table before it completes, so a record counts when its instant
has completed in the table, or is not a pending one. Source:
HoodieTableMetadataUtil.getValidInstantTimestamps (Hudi 1.2, which reads older tables too). To Hudi
the records count, too, of a write that began after the timeline of the table was listed: here they
do not, since it may not have completed, and what it moves is not where that timeline has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bucketfmt.errors import ConflictError
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.process import cached_property
from bucketfmt.timeline.timeline import Timeline

__all__ = ["ValidInstants", "find_amending_instant", "is_amending_instant", "is_initial_instant"]

_MILLISECONDS_DIGITS = 17
_FIRST_AMENDING_SUFFIX, _LAST_AMENDING_SUFFIX = 500, 999
_SUFFIX_DIGITS = 3


def is_initial_instant(time: str) -> bool:
    """Return whether partitions were initialised at this time, which is before any commit."""
    return time.startswith(INIT_INSTANT)


def is_amending_instant(time: str) -> bool:
    """Return whether a delta commit of this time says anew what an earlier one has said.

    Its records are those of a change that was begun before others and published after them. No
    instant of the table has this time (docs/decisions/0040).
    """
    suffix = time[_MILLISECONDS_DIGITS:]
    return len(suffix) == _SUFFIX_DIGITS and suffix >= str(_FIRST_AMENDING_SUFFIX)


def find_amending_instant(time: str) -> str:
    """Return the time of a delta commit that is merged after one of this time, and before others.

    Raises:
        ConflictError: five hundred have amended the same instant.
    """
    number = _FIRST_AMENDING_SUFFIX
    if is_amending_instant(time):
        number = int(time[_MILLISECONDS_DIGITS:]) + 1
    if number > _LAST_AMENDING_SUFFIX:
        raise ConflictError(
            f"too many writes that were begun before {time} are published after it. Nothing is "
            "published; reload the table and retry"
        )
    return f"{time[:_MILLISECONDS_DIGITS]}{number}"


class ValidInstants:
    """Tells for each instant whether its log blocks in the metadata table count.

    Args:
        data: The active timeline of the table.
        metadata: The active timeline of its metadata table, read after `data`.
        load_rolled_back: Returns the instants that the completed rollbacks and restores of the
            table took back. It is called only for instants that neither timeline has.
    """

    def __init__(
        self, data: Timeline, metadata: Timeline, load_rolled_back: Callable[[], Iterable[str]]
    ) -> None:
        self._metadata = metadata
        self._pending = data.pending.requested_times
        until = _find_end(data)
        self._known = {
            *(instant.requested_time for instant in data.completed.instants),
            *(
                time
                for time in metadata.completed.of("deltacommit").requested_times
                if is_initial_instant(time)
                or (time not in self._pending and time[:_MILLISECONDS_DIGITS] <= until)
            ),
            *(i.requested_time for i in metadata.completed.of("rollback", "restore").instants),
        }
        self._load_rolled_back = load_rolled_back

    def __contains__(self, time: str) -> bool:
        if time in self._known:
            return True
        return time not in self._pending and time in self._rolled_back

    @cached_property
    def _rolled_back(self) -> frozenset[str]:
        return frozenset(self._load_rolled_back())


def _find_end(data: Timeline) -> str:
    """Return the time after which only writes began of which this timeline knows nothing.

    After a restore, Hudi adds to the metadata table what it lists then, at a time of its own.
    """
    last = data.last
    if last is None:
        return ""
    return "~" if last.action == "restore" else last.requested_time
