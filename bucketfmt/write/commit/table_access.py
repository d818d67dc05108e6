"""What it takes to change a table: its files, its lock, and the machine that its writer runs on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bucketfmt.limits import Limits
from bucketfmt.storage.folder_store import FolderStore
from bucketfmt.storage.store import Store
from bucketfmt.timeline.clock import InstantClock
from bucketfmt.timeline.locking.heartbeat import Heartbeats
from bucketfmt.timeline.locking.lock import LockProvider
from bucketfmt.timeline.machine import Machine

__all__ = ["TableAccess"]


@dataclass(frozen=True)
class TableAccess:
    """Access of one writer to a table. Safe to use from several threads, and in a forked child.

    Attributes:
        store: The table's files.
        limits: Bounds on what is read.
        locks: The table lock, the same kind for all writers.
        clock: Gives instants.
        heartbeats: Of the table.
        machine: The machine that the writer runs on.
    """

    store: Store
    limits: Limits
    locks: LockProvider
    clock: InstantClock
    heartbeats: Heartbeats
    machine: Machine

    def below(self, folder: str) -> TableAccess:
        """Return access to the table in a folder of this table, which has the lock of this one."""
        store = FolderStore(self.store, folder)
        heartbeats = Heartbeats(store, now=self.machine.now, repeat=self.machine.repeat)
        return replace(self, store=store, heartbeats=heartbeats)
