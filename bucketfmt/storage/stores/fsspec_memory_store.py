"""A `Store` over fsspec's memory file system, `memory://`, in one process.

Does I/O. That file system looks first and stores after, so its changes are made one at a time.
"""

from __future__ import annotations

import hashlib
import inspect
from typing import ClassVar

import fsspec
import pyarrow as pa

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.process import new_mutex
from bucketfmt.storage.stores.fsspec_store import FsspecStore

__all__ = ["FsspecMemoryStore"]

_CHANGES = new_mutex()


class FsspecMemoryStore(FsspecStore):
    """The files below one `memory://` URL. See `Store` for the verbs.

    Files that a forked child writes are not visible to the parent.
    """

    _version_key: ClassVar[str] = "created"
    _is_written: ClassVar[bool] = True

    @property
    def failures_are_final(self) -> bool:
        """True: there is no network."""
        return True

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file for random reads; fsspec's open files of one name share a position."""
        with self._located(path) as full:
            return pa.BufferReader(self._fs.cat_file(full))

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True) as full:
            if "mode" not in inspect.signature(self._fs.pipe_file).parameters:
                raise UnsupportedError(
                    f"fsspec {fsspec.__version__} creates no file on condition; update fsspec"
                )
            try:
                with _CHANGES:
                    self._fs.pipe_file(full, bytes(data), mode="create")
            except FileExistsError:
                return False
            return True

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says."""
        with self._located(path, to_write=True) as full, _CHANGES:
            try:
                if self._version(full) != version:
                    return None
            except FileNotFoundError:
                return None
            self._fs.pipe_file(full, bytes(data))
            return self._version(full)

    def _version(self, full: str) -> str:
        # A replacement is a new file with its own time; the clock may not have moved.
        content = hashlib.sha256(self._fs.cat_file(full)).hexdigest()
        return f"{super()._version(full)}-{content}"
