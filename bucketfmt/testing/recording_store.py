"""A `Store` that records its calls.

For tests that prove which calls code does not make: a read writes nothing, `locate` opens no data
file. Does no I/O of its own.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.storage.store import WRITE_VERBS, FileInfo, Store

__all__ = ["Operation", "RecordingStore"]


class Operation(NamedTuple):
    """One call: the name of the `Store` verb and the path it was given."""

    verb: str
    path: str


class RecordingStore:
    """Passes every verb on to `store` and keeps the calls, in order, in `operations`.

    An operation is recorded before it is executed, so failed operations are recorded too.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.operations: list[Operation] = []  # list.append is atomic: threads need no lock

    @property
    def uri(self) -> str:
        """The URI of the store underneath."""
        return self._store.uri

    @property
    def failures_are_final(self) -> bool:
        """As for the store underneath."""
        return self._store.failures_are_final

    @property
    def writes_beside(self) -> bool:
        """As for the store underneath."""
        return self._store.writes_beside

    @property
    def writes(self) -> builtins.list[Operation]:
        """The operations that may have changed something."""
        return [operation for operation in self.operations if operation.verb in WRITE_VERBS]

    def paths(self, *verbs: str) -> builtins.list[str]:
        """Return the paths these verbs were called with, in order."""
        return [operation.path for operation in self.operations if operation.verb in verbs]

    def read(self, path: str, limit_bytes: int) -> bytes:
        """See `Store.read`."""
        self.operations.append(Operation("read", path))
        return self._store.read(path, limit_bytes)

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """See `Store.read_versioned`."""
        self.operations.append(Operation("read_versioned", path))
        return self._store.read_versioned(path, limit_bytes)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """See `Store.read_ranges`. Each range is an operation."""
        for _ in ranges:
            self.operations.append(Operation("read_ranges", path))
        return self._store.read_ranges(path, ranges)

    def open_arrow(self, path: str) -> pa.NativeFile:
        """See `Store.open_arrow`. Reads of the open file are not recorded."""
        self.operations.append(Operation("open_arrow", path))
        return self._store.open_arrow(path)

    def list(self, path: str) -> builtins.list[FileInfo]:
        """See `Store.list`."""
        self.operations.append(Operation("list", path))
        return self._store.list(path)

    def list_names(self, path: str) -> Sequence[str]:
        """See `Store.list_names`. Recorded as a `list`, which is the same request."""
        self.operations.append(Operation("list", path))
        return self._store.list_names(path)

    def info(self, path: str) -> FileInfo | None:
        """See `Store.info`."""
        self.operations.append(Operation("info", path))
        return self._store.info(path)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Store.put_if_absent`."""
        self.operations.append(Operation("put_if_absent", path))
        return self._store.put_if_absent(path, data)

    def replace(self, path: str, data: Buffer) -> None:
        """See `Store.replace`."""
        self.operations.append(Operation("replace", path))
        self._store.replace(path, data)

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """See `Store.replace_if`."""
        self.operations.append(Operation("replace_if", path))
        return self._store.replace_if(path, data, version)

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self.operations.append(Operation("delete", path))
        self._store.delete(path)

    def delete_tree(self, path: str) -> None:
        """See `Store.delete_tree`."""
        self.operations.append(Operation("delete_tree", path))
        self._store.delete_tree(path)
