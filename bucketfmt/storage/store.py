"""The `Store` protocol: every operation bucketfmt makes on a table's files.

Does no I/O itself; `open.open_store` picks the implementation. Paths are relative to the
table root, with "/" between components and "" for the root. Counterpart of Hudi's
`HoodieStorage`, cut down to what a table format needs.
"""

from __future__ import annotations

import builtins
from typing import Literal, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from bucketfmt.format.encoding.cursor import Buffer

__all__ = ["WRITE_VERBS", "EntryFault", "FileInfo", "Store"]

WRITE_VERBS = frozenset({"put_if_absent", "replace", "replace_if", "delete", "delete_tree"})
"""The verbs of `Store` that change something."""


EntryFault = Literal["leads nowhere", "leads out", "is no file"]
"""What keeps an entry of a folder from being read."""


class FileInfo(msgspec.Struct, frozen=True, gc=False):  # a folder may have 100,000 of them
    """One entry of a folder.

    Attributes:
        path: Relative to the table root.
        size: Bytes; 0 for a folder.
        modified: Seconds since the epoch; None where the store does not tell.
        is_dir: A folder (or what an object store shows as one).
        fault: Why it can be neither read nor listed: a symbolic link that leads to nothing or
            out of the table, or something that is neither a file nor a folder. `size` is 0 then.
    """

    path: str
    size: int
    modified: float | None
    is_dir: bool = False
    fault: EntryFault | None = None

    @property
    def name(self) -> str:
        """The last component of `path`."""
        return self.path.rpartition("/")[2]


@runtime_checkable
class Store(Protocol):
    """A table's files. Every verb is safe to call from many threads.

    All verbs raise `UnsafePathError` for a path that would leave the root (on a local
    disk also through a symbolic link) and `StorageError` when the store fails. A verb
    that reads raises `NotFoundError` for a missing file.
    """

    @property
    def uri(self) -> str:
        """Where the root is, for messages and for opening the same table elsewhere."""
        ...

    @property
    def failures_are_final(self) -> bool:
        """Whether a verb that raised `StorageError` can no longer take effect.

        A disk has answered by then. A request over a network may arrive after its sender
        gave up, so that looking at the file proves nothing yet.
        """
        ...

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return the whole file.

        Raises:
            LimitError: it is larger than `limit_bytes`; it has not been read then.
        """
        ...

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """Return the whole file and its version, for `replace_if`.

        The version is opaque. Where another writer comes in between, it may be older than
        the content, never newer.

        Raises:
            LimitError: it is larger than `limit_bytes`.
        """
        ...

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return exactly `length` bytes from offset `start`.

        Raises:
            TruncatedError: the file ends before that. Nothing was allocated for it.
        """
        ...

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file opened for random reads by pyarrow. The caller closes it."""
        ...

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, sorted by path; [] for a folder that is not there.

        An entry that is no file and no folder does not make the listing fail: it has a `fault`,
        and the verbs that read it raise. No link out of the table is followed.

        Always asks the store anew, so that a commit made since is seen.
        """
        ...

    def info(self, path: str) -> FileInfo | None:
        """Return the entry for one path as it is now; None if there is nothing."""
        ...

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file with this content unless one is there; return whether it was created.

        Atomic and durable: of several callers one gets True, no reader ever sees a part,
        and after True a crash keeps it. Folders above are made as needed.

        Raises:
            UnsupportedError: this kind of store has no known way to do that.
            StorageError: it failed; over a network it may nonetheless have taken effect.
        """
        ...

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, new or not. Atomic and durable; the last caller wins."""
        ...

    def replace_if(self, path: str, data: Buffer, version: str) -> bool:
        """Set the content if the file is still of this version; return whether that was done.

        Atomic and durable as `replace`. Of several callers with one version at most one gets
        True. `replace`, `delete` and other programs do not take part in that.

        Raises:
            UnsupportedError: this kind of store has no known way to do that.
            StorageError: it failed; over a network it may nonetheless have taken effect.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove one file. Nothing happens if it is not there."""
        ...

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all in it. Nothing happens if it is not there.

        Raises:
            ValueError: `path` is the root.
        """
        ...
