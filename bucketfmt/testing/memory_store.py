"""A `Store` in memory: a table as a mapping of paths to bytes.

For tests that damage a table, and as the model that other stores are compared with: it does what
the protocol says and nothing else. To copy it is to copy a dictionary.
"""

from __future__ import annotations

import builtins
import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from bucketfmt.errors import BucketfmtError, LimitError, NotFoundError, TruncatedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import FileInfo

__all__ = ["MemoryStore"]

_FOLDER_TIME = 0.0


class MemoryStore:
    """Holds files by path. See `Store` for the verbs.

    Folders follow from the paths. Their time never changes, as that of a disk whose clock ticks too
    slowly, so that whoever takes it for a proof is found out.

    Attributes:
        files: The contents by path, relative to the root.
        now: Returns the time of a put, in seconds since the epoch. May be set.
    """

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.files = dict(files or {})
        self._modified: dict[str, float] = {}  # of what was put since
        self._limits = limits
        self.now = now
        self._lock = threading.Lock()

    @classmethod
    def of_folder(cls, folder: str | os.PathLike[str]) -> MemoryStore:
        """Return a copy of all files below a local folder."""
        root = Path(folder)
        paths = (path for path in root.rglob("*") if path.is_file())
        return cls({path.relative_to(root).as_posix(): path.read_bytes() for path in paths})

    def with_file(self, path: str, data: bytes) -> MemoryStore:
        """Return a store with one file set, and all other files shared with this store."""
        return MemoryStore({**self.files, path: data}, self._limits)

    def copy(self) -> MemoryStore:
        """Return a store of the same files, with the same times."""
        store = MemoryStore(self.files, self._limits, self.now)
        store._modified = dict(self._modified)
        return store

    def become(self, other: MemoryStore) -> None:
        """Take over the files of another store, with their times."""
        self.files = dict(other.files)
        self._modified = dict(other._modified)

    @property
    def state(self) -> frozenset[tuple[str, bytes, float | None]]:
        """The whole state: paths, contents and times of modification."""
        return frozenset(
            (name, data, self._modified.get(name)) for name, data in self.files.items()
        )

    @property
    def uri(self) -> str:
        """A name for messages; `bucketfmt.open` does not take it."""
        return "memory"

    @property
    def failures_are_final(self) -> bool:
        """True: there is no network."""
        return True

    @property
    def writes_beside(self) -> bool:
        """False: a file is there at once."""
        return False

    def read(self, path: str, limit_bytes: int) -> bytes:
        """See `Store.read`."""
        data = self._content(path)
        if len(data) > limit_bytes:
            raise LimitError(
                f"{len(data)} bytes, and the limit for this kind of file is {limit_bytes}",
                path=path,
            )
        return data

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """See `Store.read_versioned`."""
        with self._lock:
            return self.read(path, limit_bytes), self._version(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """See `Store.read_ranges`."""
        data = self._content(path)
        for start, length in ranges:
            if start < 0 or length < 0 or start + length > len(data):
                raise TruncatedError(
                    f"{length} bytes are asked for, and the file has {len(data)} bytes",
                    path=path,
                    offset=start,
                )
        return [data[start : start + length] for start, length in ranges]

    def open_arrow(self, path: str) -> pa.NativeFile:
        """See `Store.open_arrow`."""
        return pa.BufferReader(self._content(path))

    def list(self, path: str) -> builtins.list[FileInfo]:
        """See `Store.list`."""
        prefix = f"{self._checked(path)}/" if path else ""
        entries: dict[str, FileInfo] = {}
        for name, data in list(self.files.items()):
            if name.startswith(prefix):
                child, below, _ = name[len(prefix) :].partition("/")
                entries[child] = (
                    FileInfo(prefix + child, 0, None, is_dir=True)
                    if below
                    else FileInfo(name, len(data), self._modified.get(name))
                )
        return [entries[name] for name in sorted(entries)]

    def list_names(self, path: str) -> builtins.list[str]:
        """See `Store.list_names`."""
        return [entry.name for entry in self.list(path) if not entry.is_dir]

    def info(self, path: str) -> FileInfo | None:
        """See `Store.info`."""
        data = self.files.get(self._checked(path))
        if data is not None:
            return FileInfo(path, len(data), self._modified.get(path))
        is_folder = not path or any(name.startswith(f"{path}/") for name in list(self.files))
        return FileInfo(path, 0, _FOLDER_TIME, is_dir=True) if is_folder else None

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Store.put_if_absent`."""
        name = self._changed(path)
        with self._lock:
            if name in self.files:
                return False
            self._put(name, data)
        return True

    def replace(self, path: str, data: Buffer) -> None:
        """See `Store.replace`."""
        self._put(self._changed(path), data)

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """See `Store.replace_if`."""
        name = self._changed(path)
        with self._lock:
            if name not in self.files or self._version(name) != version:
                return None
            self._put(name, data)
            return self._version(name)

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        self.files.pop(self._changed(path), None)

    def delete_tree(self, path: str) -> None:
        """See `Store.delete_tree`."""
        prefix = f"{self._changed(path)}/"
        for name in [name for name in self.files if name.startswith(prefix)]:
            self.files.pop(name, None)

    def _version(self, name: str) -> str:
        digest = hashlib.sha256(self.files[name]).hexdigest()
        return f"{self._modified.get(name)}-{digest}"

    def _put(self, name: str, data: Buffer) -> None:
        self.files[name] = bytes(data)
        self._modified[name] = self.now()

    def _content(self, path: str) -> bytes:
        data = self.files.get(self._checked(path))
        if data is None:
            raise NotFoundError("no such file", path=path)
        return data

    def _changed(self, path: str) -> str:
        if not path:
            raise ValueError("the root of a table is neither written nor deleted")
        return self._checked(path)

    def _checked(self, path: str) -> str:
        try:
            return check_relative_path(path, self._limits) if path else ""
        except BucketfmtError as error:
            raise error.within(path=path) from None
