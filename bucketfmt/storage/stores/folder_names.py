"""The names in a folder of a disk, as of one moment.

Does I/O, read only. A disk lists a long folder in portions, and in an order of its own: a commit
may come between two portions and not be in the rest, and then a later commit that is. What counts
is a listing during which the folder stayed, or one that is as the one before.

Whether a folder stayed tells its change time, which the kernel sets with each name that comes or
goes. Nobody can set that time, and on a disk of this machine it is read from a clock of this
machine. So the names of a long folder are kept there, and are listed again once its change time is
another (docs/decisions/0042).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from bucketfmt.errors import StorageError

__all__ = ["FEW_NAMES", "list_at_one_moment"]

FEW_NAMES = 300
"""How many a disk lists at one moment, by one call of the system."""

_FOLDERS_KEPT = 4  # the timelines of a table and of its metadata table, twice
_KEPT_NAMES_MAX = 100_000  # of a folder; some 10 MB
_LISTING_S = 10.0
_OWN_FILE_SYSTEMS = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "overlay"})
_KERNEL_CLOCK = 5 if sys.platform == "linux" else time.CLOCK_REALTIME  # CLOCK_REALTIME_COARSE
_TICK_NS = 20_000_000  # and more, of a clock that is not the kernel's here

_NAME = attrgetter("name")


class _State(NamedTuple):
    """What changes of a folder whenever a name in it comes or goes.

    Attributes:
        device: The number of its file system.
        inode: The number it has there.
        changed: When it changed last, in nanoseconds since the epoch.
        size: Bytes, which grow with the names.
    """

    device: int
    inode: int
    changed: int
    size: int


class _Listing(NamedTuple):
    """The names in a folder while it was in this state."""

    state: _State
    names: Sequence[str]


_kept: dict[str, _Listing] = {}  # by absolute path


def list_at_one_moment(folder: str, bound: int) -> Sequence[str]:
    """Return the names that a folder holds at one moment; the same object while the folder stays.

    Args:
        folder: Its absolute path. Where there is none, there are no names.
        bound: How many names there may be. Of more, one more is returned.

    Raises:
        OSError: the folder cannot be listed.
        StorageError: it changes all the time.
    """
    deadline, pause_s = time.monotonic() + _LISTING_S, 0.0
    listed: Sequence[str] | None = None
    while True:
        clock, kernel_clock = time.time_ns(), time.clock_gettime_ns(_KERNEL_CLOCK)
        state, known = _load_state(folder), _kept.get(folder)
        if state is None:
            return ()
        if known is not None and known.state == state:
            return known.names[: bound + 1]
        is_like_before = known is not None and state.size <= 2 * known.state.size
        before, listed = listed, _list(folder, None if is_like_before else bound + 1)
        if len(listed) <= FEW_NAMES or listed == before:
            return listed
        if _load_state(folder) == state:
            # A change from here on may not show in the state if the last is as new as the clock.
            is_own = _is_on_own_disk(state.device)
            if _is_settled(state.changed, kernel_clock if is_own else clock - _TICK_NS):
                if is_own and len(listed) <= min(bound, _KEPT_NAMES_MAX):
                    _keep(folder, _Listing(state, listed))
                return listed
        if time.monotonic() > deadline:
            raise StorageError(
                f"files came and went for {_LISTING_S:g} s each time the folder was listed; "
                "read again"
            )
        time.sleep(pause_s)
        pause_s = min(pause_s + 0.001, 0.05)


def _load_state(folder: str) -> _State | None:
    try:
        status = os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _State(status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size)


def _list(folder: str, most: int | None) -> Sequence[str]:
    try:
        if most is None:  # quicker by a third
            return tuple(os.listdir(folder))
        with os.scandir(folder) as entries:
            return tuple(map(_NAME, islice(entries, most)))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _is_settled(changed: int, clock: int) -> bool:
    """Return whether a change from now on gets another time than the last one.

    A disk that keeps whole seconds (ext2, and ext4 with small inodes) gives all changes of a second
    one time.
    """
    tick = 1_000_000_000 if changed % 1_000_000_000 == 0 else 1
    return changed // tick < clock // tick


def _is_on_own_disk(device: int) -> bool:
    """Return whether nothing but the kernel of this machine changes the folders of a device.

    Asked each time: a number may be given to another device. Where it cannot be told (no Linux,
    subvolumes of btrfs), the answer is no.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    with (
        suppress(OSError),
        open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file,
    ):
        for line in file:
            mount, _, file_system = line.partition(" - ")
            if mount.split(" ", 3)[2:3] == [number]:
                return file_system.partition(" ")[0] in _OWN_FILE_SYSTEMS
    return False


def _keep(folder: str, listing: _Listing) -> None:
    if len(_kept) >= _FOLDERS_KEPT and folder not in _kept:
        _kept.clear()
    _kept[folder] = listing
