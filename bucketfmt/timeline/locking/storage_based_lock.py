"""Hudi's lock for object stores: a lease in a file that is replaced on condition only.

Does I/O, runs a thread while the lock is held. Source: `StorageBasedLockProvider`,
`S3StorageLockClient` (Hudi 1.1 and later). Hudi has it for object stores; here local disks
can have it too, for writers of this package among themselves.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import NamedTuple

import msgspec

from bucketfmt.errors import BucketfmtError, NotFoundError, StorageError
from bucketfmt.format.names.layout import LEASE
from bucketfmt.format.table.table_lock import TableLease, decode_table_lease, encode_table_lease
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.locking.lock import DEFAULT_WAITING, TableLock, Waiting
from bucketfmt.timeline.locking.renewal import Renewal, Repeating
from bucketfmt.timeline.locking.store_time import is_older

__all__ = ["ReleasedLease", "StorageBasedLock"]

_CLOCK_DRIFT_MS = 500  # a lease is another's until this long after its end


class _Found(NamedTuple):
    lease: TableLease
    version: str


class ReleasedLease:
    """The lease that locks of one writer released last: the next one need not read the file.

    Whether the file is still as it was left is for the condition of the replacement to tell.
    """

    def __init__(self) -> None:
        self._left: _Found | None = None

    def take(self) -> _Found | None:
        """Return the lease as it was left, once."""
        left, self._left = self._left, None
        return left

    def leave(self, lease: TableLease, version: str) -> None:
        """Keep what was left."""
        self._left = _Found(lease, version)


class StorageBasedLock(TableLock):
    """Hudi's `StorageBasedLockProvider`: the last owner that replaced the lock file holds the lock.

    The file is never deleted. An owner acquires the lock when the lease has ended or was released,
    on condition that no other owner replaced the file first, and renews the lease in time.
    """

    def __init__(
        self,
        store: Store,
        *,
        validity_s: float = 300.0,
        renew_s: float = 30.0,
        owner: str | None = None,
        now: Callable[[], float] = time.time,
        repeat: Callable[[Callable[[], bool], float], Repeating] = Renewal,
        waiting: Waiting = DEFAULT_WAITING,
        limits: Limits = DEFAULT_LIMITS,
        released: ReleasedLease | None = None,
    ) -> None:
        """Set up the lock.

        Args:
            store: The table's files.
            validity_s: `hoodie.write.lock.storage.validity.timeout.secs`: how long a lease
                outlasts the last renewal, should the writer die.
            renew_s: `hoodie.write.lock.storage.renew.interval.secs`.
            owner: Identifies this writer among all others; a new UUID by default.
            now: Returns seconds since the epoch.
            repeat: Calls a function every so many seconds.
            waiting: How long to try.
            limits: Bounds on what is read.
            released: Shared by the locks of one writer, to spare a request.

        Raises:
            ValueError: a lease is not at least ten times as long as the time between renewals.
        """
        super().__init__(waiting)
        if not 0 < renew_s * 10 <= validity_s:
            raise ValueError(
                "a lease must be at least ten times as long as the time between renewals"
            )
        self._store = store
        self._validity_ms = int(validity_s * 1000)
        self._renew_s = renew_s
        self._now = now
        self._limits = limits
        self._repeat = repeat
        self._owner = owner or str(uuid.uuid4())
        self._renewal: Repeating | None = None
        self._guard = threading.Lock()  # between the owner and the thread that renews
        self._held: _Found | None = None
        self._put_ms = 0
        self._valid_until_ms = 0  # of the newest lease of this owner
        self._released = released or ReleasedLease()
        self._seen_since: tuple[str, float] | None = None  # the other owner, and when first seen

    def _try_acquire(self) -> bool:
        left = self._released.take()
        held = None if left is None else self._put(self._new_lease(), left)
        if held is None:
            found = self._load()
            if found is not None and self._is_held_by_another(found.lease):
                self._see(found.lease)
                return False
            # Where it is our own, an earlier try took effect and then failed.
            held = self._put(self._new_lease(), found)
        if held is None:
            return False
        self._held = held
        self._renewal = self._repeat(self._renew, self._renew_s)
        return True

    def _still_holds(self) -> bool:
        # For as long as renewing may take: what is published now is to appear within the lease.
        until_ms = self._now_ms() + self._renew_s * 1000
        with self._guard:
            if self._held is None or self._held.lease.valid_until < until_ms:
                return False
            found = self._load()
            return found is not None and self._is_ours(found.lease)

    def may_publish(self) -> bool:
        """Return whether a file may be published now; see `TableLock.may_publish`.

        No other writer replaces a lease before its end, so a lease that this owner put less than
        the time between renewals ago is the owner's.
        """
        age_ms = self._now_ms() - self._put_ms
        if not self._is_own_acquisition or not 0 <= age_ms < self._renew_s * 1000:
            return self.holds()
        with self._guard:
            return self._held is not None

    def _renew(self) -> bool:
        """Extend the lease; return False if another owner holds it, or the file was removed."""
        with self._guard:
            if self._held is None:
                return False
            held = self._put(self._new_lease(), self._held)
            if held is None:
                # Refused: perhaps because an earlier renewal failed after its effect.
                found = self._load()
                held = found if found is not None and self._is_ours(found.lease) else None
            self._held = held
            return held is not None

    def _release(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
        found, self._held = self._held, None
        if found is None or not self._put_released(found):
            # Looked up, since a renewal or a try may have failed after its effect.
            found = self._load()
            if found is not None and self._is_ours(found.lease):
                self._put_released(found)

    def _put_released(self, found: _Found) -> bool:
        lease = msgspec.structs.replace(found.lease, expired=True)
        version = self._store.replace_if(LEASE, encode_table_lease(lease), found.version)
        if version is not None:
            self._released.leave(lease, version)
        return version is not None

    def _load(self) -> _Found | None:
        try:
            data, version = self._store.read_versioned(LEASE, self._limits.properties_bytes_max)
        except NotFoundError:
            return None
        try:
            return _Found(decode_table_lease(data, self._limits), version)
        except BucketfmtError as error:
            raise error.within(path=LEASE) from None

    def _put(self, lease: TableLease, previous: _Found | None) -> _Found | None:
        """Put a lease of ours in the place of another; return it, or None if that was refused."""
        data, began_ms = encode_table_lease(lease), self._now_ms()
        if previous is None:
            if not self._store.put_if_absent(LEASE, data):
                return None
            found = self._load()
            return found if found is not None and self._is_ours(found.lease) else None
        version = self._store.replace_if(LEASE, data, previous.version)
        if version is None:
            return None
        self._put_ms = began_ms
        return _Found(lease, version)

    def _see(self, lease: TableLease) -> None:
        if self._seen_since is None or self._seen_since[0] != lease.owner:
            self._seen_since = lease.owner, self._now()

    def _new_lease(self) -> TableLease:
        """Return a lease that differs from each earlier one, also from one of this millisecond."""
        until_ms = max(self._now_ms() + self._validity_ms, self._valid_until_ms + 1)
        self._valid_until_ms = until_ms
        return TableLease(False, until_ms, self._owner)

    def _is_ours(self, lease: TableLease) -> bool:
        return lease.owner == self._owner and not lease.expired

    def _is_held_by_another(self, lease: TableLease) -> bool:
        """Whether another owner holds this lease, which was just read.

        A lease that has ended by the clock of this process may be that of a live owner whose clock
        is behind. It has to be as old as a lease of this writer lasts, by the clock of the store.
        """
        if lease.expired or lease.owner == self._owner:
            return False
        if self._now_ms() <= lease.valid_until + _CLOCK_DRIFT_MS:
            return True
        # Whoever replaces the lease after it was read changes its version too.
        file = self._store.info(LEASE)
        if file is None or file.modified is None:
            return file is None  # removed just now; or the store tells no times
        return not is_older(self._store, file, self._validity_ms / 1000, self._now)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    def _describe_owner(self) -> str:
        try:
            found = self._load()
        except StorageError:
            found = None
        if found is None or found.lease.expired or found.lease.owner == self._owner:
            return f"{LEASE} changed hands each time"
        lease = found.lease
        self._see(lease)
        left_s = (lease.valid_until - self._now_ms()) / 1000
        since_s = self._now() if self._seen_since is None else self._seen_since[1]
        since = datetime.fromtimestamp(since_s, timezone.utc).isoformat(" ", "seconds")
        lasts = (
            f"the lease lasts {left_s:.0f} s more unless it is renewed"
            if left_s > 0
            else "the lease has ended by the clock of this machine, and is new by that of the store"
        )
        return f"{lease.owner} has held it since {since} or earlier, by {LEASE}, and {lasts}"

    def _describe_stuck(self) -> str:
        return f"It ends by itself in at most {self._validity_ms / 1000:g} s"
