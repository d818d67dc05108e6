"""A `Store` of one folder of another store.

I/O only through the store underneath. The metadata table lies in a folder of the table whose files
it lists, and is read and written like any table, through the store of that table.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.storage.store import FileInfo, Store

__all__ = ["FolderStore"]


@dataclass(frozen=True)
class FolderStore:
    """The files below a folder. Paths, also those in errors, are relative to the folder.

    Attributes:
        store: The store underneath.
        folder: The folder, relative to the root of that store.
    """

    store: Store
    folder: str

    @property
    def uri(self) -> str:
        """Where the folder is."""
        return f"{self.store.uri}/{self.folder}"

    @property
    def failures_are_final(self) -> bool:
        """As for the store underneath."""
        return self.store.failures_are_final

    @property
    def writes_beside(self) -> bool:
        """As for the store underneath."""
        return self.store.writes_beside

    def read(self, path: str, limit_bytes: int) -> bytes:
        """See `Store.read`."""
        with self._below(path) as below:
            return self.store.read(below, limit_bytes)

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """See `Store.read_versioned`."""
        with self._below(path) as below:
            return self.store.read_versioned(below, limit_bytes)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """See `Store.read_ranges`."""
        with self._below(path) as below:
            return self.store.read_ranges(below, ranges)

    def open_arrow(self, path: str) -> pa.NativeFile:
        """See `Store.open_arrow`."""
        with self._below(path) as below:
            return self.store.open_arrow(below)

    def list(self, path: str) -> builtins.list[FileInfo]:
        """See `Store.list`."""
        with self._below(path) as below:
            return [self._relative(entry) for entry in self.store.list(below)]

    def list_names(self, path: str) -> Sequence[str]:
        """See `Store.list_names`."""
        with self._below(path) as below:
            return self.store.list_names(below)

    def info(self, path: str) -> FileInfo | None:
        """See `Store.info`."""
        with self._below(path) as below:
            entry = self.store.info(below)
            return None if entry is None else self._relative(entry)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Store.put_if_absent`."""
        with self._written(path) as below:
            return self.store.put_if_absent(below, data)

    def replace(self, path: str, data: Buffer) -> None:
        """See `Store.replace`."""
        with self._written(path) as below:
            self.store.replace(below, data)

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """See `Store.replace_if`."""
        with self._written(path) as below:
            return self.store.replace_if(below, data, version)

    def delete(self, path: str) -> None:
        """See `Store.delete`."""
        with self._written(path) as below:
            self.store.delete(below)

    def delete_tree(self, path: str) -> None:
        """See `Store.delete_tree`."""
        with self._written(path) as below:
            self.store.delete_tree(below)

    def _written(self, path: str) -> AbstractContextManager[str]:
        if not path:
            raise ValueError("the root of a store is not written or deleted")
        return self._below(path)

    @contextmanager
    def _below(self, path: str) -> Iterator[str]:
        """Give a path below the folder as the store underneath has it."""
        below = join_path(self.folder, check_relative_path(path))
        try:
            yield below
        except BucketfmtError as error:
            if error.path is not None:
                error.path = self._without_folder(error.path)
            raise

    def _relative(self, entry: FileInfo) -> FileInfo:
        return msgspec.structs.replace(entry, path=self._without_folder(entry.path))

    def _without_folder(self, path: str) -> str:
        return path.removeprefix(self.folder).removeprefix("/")
