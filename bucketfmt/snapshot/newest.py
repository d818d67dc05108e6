"""What is worked out from the newest snapshot, and worked out again where it is no longer newest.

I/O. Files are read one after another, while others change the table: the ring of one partition may
be older than that of the next, and an index may be gone that the properties still listed. So an
error about the table is believed only if the table is still as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bucketfmt.errors import BucketfmtError, LimitError
from bucketfmt.snapshot.snapshot import Snapshot

__all__ = ["on_newest"]

_T = TypeVar("_T")

_TRIES = 8
"""On how many snapshots, each newer than the one before, an error has to come up."""


def on_newest(
    snapshot: Callable[[], Snapshot], act: Callable[[Snapshot], _T], newest: Snapshot | None = None
) -> _T:
    """Return what `act` makes of the table as it is now.

    Args:
        snapshot: Returns the table as it is now.
        act: Reads what it needs, and changes nothing before the last step that may fail. It is
            called again, on a newer snapshot, where it fails and others have changed the table.
        newest: The table as it is now, if it was just loaded.

    Raises:
        BucketfmtError: as `act`, on a table that did not change meanwhile.
        LimitError: memory does not suffice.
    """
    for tries_left in reversed(range(_TRIES)):
        if newest is None:
            newest = snapshot()
        try:
            return act(newest)
        except BucketfmtError:
            if not tries_left or not newest.state.has_changed():
                raise
            newest = None
        except MemoryError as error:
            raise LimitError.of_memory("the table", error) from error
    raise AssertionError("the last try returns or raises")
