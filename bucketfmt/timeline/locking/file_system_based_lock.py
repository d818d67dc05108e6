"""A table lock by a lock file. Does I/O, sleeps. Source: `FileSystemBasedLockProvider`."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone

from bucketfmt.errors import BucketfmtError, NotFoundError, UnsupportedError
from bucketfmt.format.encoding.json_text import encode_jackson_json
from bucketfmt.format.names.layout import FILE_LOCK, LEASE
from bucketfmt.format.table.table_lock import decode_table_lease
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import Store
from bucketfmt.timeline.locking.lock import DEFAULT_WAITING, TableLock, Waiting
from bucketfmt.timeline.locking.store_time import is_older

__all__ = ["FileSystemBasedLock"]


def _of_two_kinds(why: str) -> UnsupportedError:
    return UnsupportedError(
        f'this writer locks the table by lock="filesystem" ({FILE_LOCK}), and another writer by '
        f"Hudi's StorageBasedLockProvider, the default ({LEASE}): {why}. Nothing was published. "
        "Give all writers of the table the same lock="
    )


class FileSystemBasedLock(TableLock):
    """Hudi's `FileSystemBasedLockProvider`: the table is locked while a file exists.

    For local disks. Hudi's lock file is empty. The table is locked until the file is deleted or, if
    writers agree on an expiry, until the file is that old. The lock file written here names its
    owner: Hudi shows the name in its error, and `holds` compares the name, because another writer
    can remove the file (Hudi deletes any lock file when it closes).

    The lease of `StorageBasedLock`, the default, is looked at when the lock is acquired and before
    each publication: a writer that uses the other kind of lock would be excluded by neither.
    """

    def __init__(
        self,
        store: Store,
        *,
        expire_minutes: int = 0,
        path: str = FILE_LOCK,
        owner: str | None = None,
        now: Callable[[], float] = time.time,
        waiting: Waiting = DEFAULT_WAITING,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Set up the lock.

        Args:
            store: The table's files.
            expire_minutes: `hoodie.write.lock.filesystem.expire`: a lock file of this age has
                expired; 0 for never. The same for all writers.
            path: The lock file; Flink's writers have it at `.hoodie/.aux/lock`.
            owner: Identifies this writer among all others; a new UUID by default.
            now: Returns seconds since the epoch.
            waiting: How long to try.
            limits: Bounds on what is read.

        Raises:
            ValueError: the expiry is negative.
        """
        super().__init__(waiting)
        if expire_minutes < 0:
            raise ValueError(
                "the lease of a lock must not be negative; 0 minutes means that the "
                "lock never expires"
            )
        self._store = store
        self._expire_s = expire_minutes * 60
        self._path = path
        self._now = now
        self._limit_bytes = limits.properties_bytes_max
        self._limits = limits
        self._owner = owner or str(uuid.uuid4())
        self._since = 0.0
        self._lease = b""  # of the other kind of lock, when this lock was acquired

    def _try_acquire(self) -> bool:
        self._since = now = self._now()
        if self._store.info(self._path) is None:
            is_acquired = self._store.put_if_absent(self._path, self._content(now))
        else:
            is_acquired = self._try_take_over(now)
        if is_acquired:
            self._lease = self._read_lease()
            lease = decode_table_lease(self._lease, self._limits) if self._lease else None
            if lease is not None and not lease.expired and lease.valid_until >= now * 1000:
                raise _of_two_kinds(f"{lease.owner} holds the lock of the other kind")
        return is_acquired

    def _try_take_over(self, now: float) -> bool:
        """Acquire an expired lock, or a lock that an earlier try of this owner acquired."""
        try:
            content, version = self._store.read_versioned(self._path, self._limit_bytes)
        except NotFoundError:
            return False  # given back just now
        # Listed after the version was read: a file that was replaced since has another version.
        info = self._store.info(self._path)
        is_expired = (
            info is not None
            and self._expire_s > 0
            and is_older(self._store, info, self._expire_s, self._now)
        )
        if not is_expired and self._owner.encode() not in content:
            return False
        return self._store.replace_if(self._path, self._content(now), version) is not None

    def _still_holds(self) -> bool:
        # With a tenth of the time left, so that it does not end while the file is written.
        if self._is_expired(self._since, part=0.9) or not self._is_ours():
            return False
        if self._read_lease() != self._lease:
            raise _of_two_kinds("another writer acquired the lock of the other kind meanwhile")
        return True

    def _read_lease(self) -> bytes:
        try:
            return self._store.read(LEASE, self._limit_bytes)
        except NotFoundError:
            return b""

    def _release(self) -> None:
        # An expired file is left: someone may be taking it over this very moment.
        if not self._is_expired(self._since) and self._is_ours():
            self._store.delete(self._path)

    def _is_expired(self, since: float, part: float = 1.0) -> bool:
        return self._expire_s > 0 and self._now() - since > self._expire_s * part

    def _is_ours(self) -> bool:
        try:
            return self._owner.encode() in self._store.read(self._path, self._limit_bytes)
        except NotFoundError:
            return False

    def _content(self, now: float) -> bytes:
        """Return the content that Hudi calls a `LockInfo`, with the name of this owner."""
        created = datetime.fromtimestamp(now).isoformat(" ", "milliseconds")
        thread = f"bucketfmt on {platform.node()}, process {os.getpid()}"
        return encode_jackson_json(
            {
                "lockCreateTime": created,
                "lockThreadName": thread,
                "lockStacksInfo": [],
                "owner": self._owner,
            }
        )

    def _describe_owner(self) -> str:
        modified = None
        try:
            content = " ".join(self._store.read(self._path, 4096).decode(errors="replace").split())
            file = self._store.info(self._path)
            modified = None if file is None else file.modified
        except BucketfmtError:
            content = "unknown"
        since = ""
        if modified is not None:
            put = datetime.fromtimestamp(modified, timezone.utc).isoformat(" ", "seconds")
            since = f" since {put}"
        expiry = (
            f"expires after {self._expire_s // 60} min"
            if self._expire_s
            else "never expires: if its writer died, delete the file"
        )
        return f"{self._path} exists{since} and {expiry}; owner {content or 'a Hudi writer'}"

    def _describe_stuck(self) -> str:
        if self._expire_s:
            return f"It expires in {self._expire_s // 60} min"
        return f"Delete {self._path}, or no one can write"
