"""A part of a file, held in memory and read as if it were the whole file.

Pure.
"""

from __future__ import annotations

import io

import pyarrow as pa

__all__ = ["open_window"]


def open_window(held: pa.Buffer, start: int, file_size: int) -> pa.NativeFile:
    """Return a file of `file_size` bytes of which only the bytes from `start` on can be read.

    At other positions the file seems to end.
    """
    return pa.PythonFile(_Window(held, start, file_size), mode="r")


class _Window(io.RawIOBase):
    def __init__(self, held: pa.Buffer, start: int, file_size: int) -> None:
        self._held, self._start, self._file_size = held, start, file_size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self._file_size)
        return self._at

    def tell(self) -> int:
        return self._at

    def read_buffer(self, size: int) -> pa.Buffer:
        """Return bytes without a copy. Called by pyarrow."""
        at = self._at - self._start
        if not 0 <= at <= self._held.size:
            return pa.py_buffer(b"")
        found = self._held.slice(at, min(size, self._held.size - at))
        self._at += found.size
        return found

    def read(self, size: int = -1) -> bytes:
        return bytes(self.read_buffer(self._file_size if size < 0 else size))
