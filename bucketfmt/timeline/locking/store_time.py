"""How long ago a file was put, by the one clock that all writers share: that of the store.

Does I/O. Leases and heartbeats tell of other processes, whose clocks may differ from the clock of
this one by more than a lease lasts. Hudi goes by the clock of the process alone
(`StorageBasedLockProvider`, `HoodieHeartbeatClient`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from bucketfmt.errors import StorageError
from bucketfmt.format.names.layout import STORE_TIME
from bucketfmt.storage.store import FileInfo, Store

__all__ = ["is_older", "seems_older"]

_WHOLE_SECOND_S = 1.0


def seems_older(file: FileInfo, age_s: float, now: Callable[[], float]) -> bool:
    """Return whether a file was put longer ago than so many seconds, by the clock of this process.

    Args:
        file: As the store told of it. Where a store tells no times, no file is old.
        age_s: In seconds.
        now: Returns seconds since the epoch.
    """
    return file.modified is not None and now() - file.modified > age_s


def is_older(store: Store, file: FileInfo, age_s: float, now: Callable[[], float]) -> bool:
    """Return whether a file was put longer ago than so many seconds, by the clock of the store.

    Unless the clock of this process says that it was not, an empty file is put, looked at and
    removed: three requests. Of processes that do so at a time one may miss that file, and takes the
    other one for new. Arguments as `seems_older`.

    Raises:
        StorageError: the store failed.
    """
    if file.modified is None or abs(now() - file.modified) <= age_s:
        return False
    store.replace(STORE_TIME, b"")
    put_now = store.info(STORE_TIME)
    with suppress(StorageError):  # a file that is left hurts no one: it is put again each time
        store.delete(STORE_TIME)
    if put_now is None or put_now.modified is None:
        return False
    # In HTTP dates are whole seconds: each may be almost a second too early.
    is_whole = file.modified % 1 == put_now.modified % 1 == 0
    return put_now.modified - file.modified > age_s + (_WHOLE_SECOND_S if is_whole else 0)
