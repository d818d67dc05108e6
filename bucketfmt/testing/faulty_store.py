"""A `Store` that fails, or dies, at one operation: for tests of the state after a crash.

Does no I/O of its own. A test runs the same work with a fault at operation 1, 2, ... until
the work ends without meeting the fault (`FaultyStore.struck` is None). Every operation of a store
except `delete_tree` is atomic and durable, so these are all states in which a process can die,
except for data that a disk loses because it was not synced: see `UnsyncedDisk`.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import pyarrow as pa

from bucketfmt.errors import StorageError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.paths import join_path
from bucketfmt.storage.store import WRITE_VERBS, FileInfo, Store
from bucketfmt.testing.recording_store import Operation

__all__ = ["Fault", "FaultPlan", "FaultyStore", "Killed"]

"""The verbs of `Store` that need room."""

_T = TypeVar("_T")


class Killed(BaseException):
    """The process is dead: no operation after this one has any effect."""


class Fault(str, Enum):
    """What happens to an operation.

    A failure is a `StorageError` and the process goes on. A kill is `Killed`, also from
    every operation after it.
    """

    FAIL_BEFORE = "fails without effect"
    FAIL_AFTER = "fails after taking effect"
    FAIL_LATE = "fails, and takes effect later"
    KILL_BEFORE = "is never begun"
    KILL_AFTER = "takes effect, and no one hears of it"
    KILL_TORN = "is cut off in the middle"


@dataclass(frozen=True)
class FaultPlan:
    """Which operation is struck, and how.

    Attributes:
        at: The number of the operation among those counted, from 1.
        fault: What happens to it.
        verbs: Count only these operations; all by default. `WRITE_VERBS` may change something.
        lasting: Whether the fault also strikes all later operations, as in an outage.
    """

    at: int
    fault: Fault
    verbs: frozenset[str] | None = None
    lasting: bool = False


class FaultyStore:
    """Passes every verb on to `store`, except the operation that the plan strikes.

    Attributes:
        operations: The operations counted so far, in order, including the struck operation.
    """

    def __init__(self, store: Store, plan: FaultPlan | None = None) -> None:
        self._store = store
        self._plan = plan
        self._guard = threading.Lock()
        self._is_dead = False
        self._late: list[Callable[[], object]] = []
        self.operations: list[Operation] = []

    @property
    def struck(self) -> Operation | None:
        """The first operation that was struck; None if no operation was."""
        if self._plan is None or len(self.operations) < self._plan.at:
            return None
        return self.operations[self._plan.at - 1]

    @property
    def uri(self) -> str:
        """The URI of the store underneath."""
        return self._store.uri

    @property
    def failures_are_final(self) -> bool:
        """As for the store underneath, unless the plan lets operations take effect late."""
        late = self._plan is not None and self._plan.fault is Fault.FAIL_LATE
        return self._store.failures_are_final and not late

    @property
    def writes_beside(self) -> bool:
        """As for the store underneath."""
        return self._store.writes_beside

    def deliver(self) -> None:
        """Execute the operations that the plan has delayed, in order."""
        late, self._late = self._late, []
        for act in late:
            act()

    def read(self, path: str, limit_bytes: int) -> bytes:
        """See `Store.read`."""
        return self._do("read", path, lambda: self._store.read(path, limit_bytes))

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """See `Store.read_versioned`."""
        return self._do(
            "read_versioned", path, lambda: self._store.read_versioned(path, limit_bytes)
        )

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """See `Store.read_ranges`."""
        return self._do("read_ranges", path, lambda: self._store.read_ranges(path, ranges))

    def open_arrow(self, path: str) -> pa.NativeFile:
        """See `Store.open_arrow`. Reads of the open file are never struck."""
        return self._do("open_arrow", path, lambda: self._store.open_arrow(path))

    def list(self, path: str) -> builtins.list[FileInfo]:
        """See `Store.list`."""
        return self._do("list", path, lambda: self._store.list(path))

    def list_names(self, path: str) -> Sequence[str]:
        """See `Store.list_names`. Counted as a `list`, which is the same request."""
        return self._do("list", path, lambda: self._store.list_names(path))

    def info(self, path: str) -> FileInfo | None:
        """See `Store.info`."""
        return self._do("info", path, lambda: self._store.info(path))

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Store.put_if_absent`."""
        return self._do(
            "put_if_absent",
            path,
            lambda: self._store.put_if_absent(path, data),
            lambda: self._leave_part(path, data),
        )

    def replace(self, path: str, data: Buffer) -> None:
        """See `Store.replace`."""
        self._do(
            "replace",
            path,
            lambda: self._store.replace(path, data),
            lambda: self._leave_part(path, data),
        )

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """See `Store.replace_if`."""
        return self._do(
            "replace_if",
            path,
            lambda: self._store.replace_if(path, data, version),
            lambda: self._leave_part(path, data),
        )

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self._do("delete", path, lambda: self._store.delete(path))

    def delete_tree(self, path: str) -> None:
        """See `Store.delete_tree`. A torn operation removes every second file."""
        self._do(
            "delete_tree",
            path,
            lambda: self._store.delete_tree(path),
            lambda: self._delete_half(path),
        )

    def _do(
        self,
        verb: str,
        path: str,
        act: Callable[[], _T],
        tear: Callable[[], None] = lambda: None,
    ) -> _T:
        fault = self._count(Operation(verb, path))
        if fault is None:
            return act()
        if fault in (Fault.FAIL_AFTER, Fault.KILL_AFTER):
            act()
        elif fault is Fault.KILL_TORN:
            tear()
        elif fault is Fault.FAIL_LATE and verb in WRITE_VERBS:
            self._late.append(act)
        if fault in (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN):
            raise Killed(f"{verb} {path} {fault.value}")
        raise StorageError(f"{verb} {fault.value}, as planned", path=path)

    def _count(self, operation: Operation) -> Fault | None:
        """Return the fault for this operation; None if the operation is to pass."""
        with self._guard:
            if self._is_dead:
                raise Killed(f"{operation.verb} {operation.path} comes after the end")
            plan = self._plan
            if plan is not None and plan.verbs is not None and operation.verb not in plan.verbs:
                return None
            self.operations.append(operation)
            number = len(self.operations)
            if plan is None or not (number == plan.at or (plan.lasting and number > plan.at)):
                return None
            self._is_dead = plan.fault in (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_TORN)
            return plan.fault

    def _leave_part(self, path: str, data: Buffer) -> None:
        """Leave the part of an unfinished file that a disk has, under a temporary name."""
        folder = path.rpartition("/")[0]
        part = bytes(data)[: len(data) // 2]
        self._store.replace(join_path(folder, ".bucketfmt-torn.tmp"), part)

    def _delete_half(self, path: str) -> None:
        folders: builtins.list[str] = [path]
        files: builtins.list[str] = []
        while folders:
            for info in self._store.list(folders.pop()):
                (folders if info.is_dir else files).append(info.path)
        for name in sorted(files)[::2]:
            self._store.delete(name)
