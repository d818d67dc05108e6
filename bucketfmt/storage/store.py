"""The `Store` protocol: every operation bucketfmt makes on a table's files.

Does no I/O itself; `open.open_store` picks the implementation. Paths are relative to the
table root, with "/" between components and "" for the root. Counterpart of Hudi's
`HoodieStorage`, cut down to what a table format needs.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, Protocol, runtime_checkable

import msgspec
import pyarrow as pa

from bucketfmt.errors import ConflictError, LimitError, NotFoundError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer

__all__ = ["WRITE_VERBS", "EntryFault", "FileInfo", "Store", "has_content", "prepare_replace"]

WRITE_VERBS = frozenset({"put_if_absent", "replace", "replace_if", "delete", "delete_tree"})
"""The verbs of `Store` that change something."""


EntryFault = Literal["leads nowhere", "leads out", "is no file"]
"""Why an entry of a folder cannot be read."""


class FileInfo(msgspec.Struct, frozen=True, gc=False):  # a folder may have 100,000 of them
    """One entry of a folder.

    Attributes:
        path: Relative to the table root.
        size: Bytes; 0 for a folder.
        modified: Seconds since the epoch; None if the store does not report the time.
        is_dir: Whether the entry is a folder, or shown as a folder by an object store.
        fault: Why the entry cannot be read or listed: a symbolic link that leads to nothing or
            out of the table, or an entry that is neither a file nor a folder. Then `size` is 0.
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

        A disk has answered when a verb raises. A request over a network may arrive after the
        sender gave up, so the state of the file right after the failure proves nothing.
        """
        ...

    @property
    def writes_beside(self) -> bool:
        """Whether a file gets its name when it is whole, and has a temporary one before.

        A writer that dies leaves such a file in the folder, for a clean to delete.
        """
        ...

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return the whole file.

        Raises:
            LimitError: the file is larger than `limit_bytes`. Nothing was read.
        """
        ...

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """Return the whole file and its version, for `replace_if`.

        The version is opaque. If another writer replaces the file meanwhile, the version may be
        older than the content, and is never newer.

        Raises:
            LimitError: the file is larger than `limit_bytes`.
        """
        ...

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """Return the bytes of each range of one file. The ranges are requested at the same time.

        Args:
            path: Of the file.
            ranges: For each its offset and its length, which is the length of what is returned.

        Raises:
            TruncatedError: the file ends before the last byte of a range. No memory was allocated.
        """
        ...

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file opened for random reads by pyarrow. The caller closes it."""
        ...

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, sorted by path; [] for a folder that does not exist.

        An entry that is neither a file nor a folder has a `fault`, and verbs that read the entry
        raise. The listing does not fail. No link out of the table is followed.

        Every call asks the store, so the result includes files of the newest commit.
        """
        ...

    def list_names(self, path: str) -> Sequence[str]:
        """Return the names in one folder, in no order; of folders, where it is quicker, too.

        As `list`, but without sizes and times, which a disk is asked for file by file. A disk
        returns what the folder held at one moment.
        """
        ...

    def info(self, path: str) -> FileInfo | None:
        """Return the current entry for one path; None if the path does not exist."""
        ...

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file with this content unless it exists; return whether it was created.

        Atomic and durable: one of several callers gets True, no reader sees a part of the file,
        and after True the file survives a crash. Missing folders are made.

        Raises:
            UnsupportedError: this kind of store has no known way to do so.
            StorageError: the store failed. Over a network the request may still take effect.
        """
        ...

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, new or not. Atomic and durable; the last caller wins."""
        ...

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is still of this version; return the new version.

        The result is None, and nothing was done, if the file is of another version or is gone.

        Atomic and durable as `replace`. Of several callers with the same version at most one gets
        a new version. `replace`, `delete` and other programs do not check the version.

        Raises:
            UnsupportedError: this kind of store has no known way to do so.
            StorageError: the store failed. Over a network the request may still take effect.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove one file. Nothing happens if the file does not exist."""
        ...

    def delete_tree(self, path: str) -> None:
        """Remove a folder and its contents. Nothing happens if the folder does not exist.

        Raises:
            ValueError: `path` is the root.
        """
        ...


def has_content(store: Store, path: str, data: Buffer) -> bool:
    """Whether a file is there with this content, by whomever.

    For a file that could not be created: the answer to an earlier request may have been lost.

    Raises:
        StorageError: the store failed.
    """
    try:
        return bool(pa.py_buffer(store.read(path, len(data))).equals(pa.py_buffer(data)))
    except (LimitError, NotFoundError):
        return False


def prepare_replace(store: Store, path: str, limit_bytes: int) -> Callable[[Buffer], None]:
    """Return what replaces a file that several processes change, each under the table lock.

    A process that stands still between its last look at the lock and the replacement, or whose
    request is late, has lost the lock meanwhile: it must not undo what the next owner did. So call
    this before that look. The function that is returned takes the content, and raises

    - ConflictError: the file was changed since; nothing was done,
    - StorageError: the store failed.

    A store that replaces no file on condition (`UnsupportedError`) replaces it as it is.

    Args:
        store: The table's files.
        path: Of the file, which need not be there.
        limit_bytes: The file may have.

    Raises:
        LimitError: the file is larger than `limit_bytes`.
        StorageError: the store failed.
    """
    try:
        version: str | None = store.read_versioned(path, limit_bytes)[1]
    except NotFoundError:
        version = None
    except UnsupportedError:
        return partial(store.replace, path)

    def replace(data: Buffer) -> None:
        if version is None:
            is_done = store.put_if_absent(path, data)
        else:
            is_done = store.replace_if(path, data, version) is not None
        if not is_done and not has_content(store, path, data):
            raise ConflictError(
                "another process changed this file while it was to be replaced under the table "
                "lock: this process stood still for longer than its lease, or the other one took "
                "no lock. Reload the table and begin again",
                path=path,
            )

    return replace
