"""A `Store` over a service of objects: each read is one request.

Does I/O, through a file system of fsspec that works by coroutines. fsspec asks for the size of a
file before it reads the file. The answer of a service to a GET has the size and the version of the
object. Each service has a subclass.
"""

from __future__ import annotations

import asyncio
import builtins
import io
from abc import abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa
from fsspec.asyn import sync

from bucketfmt.errors import LimitError, TruncatedError
from bucketfmt.storage.requests import count_requests
from bucketfmt.storage.stores.fsspec_store import FsspecStore

__all__ = ["ObjectBytes", "ObjectStore"]

_READ_AHEAD_BYTES = 512 << 10  # as many as arrive in the time that a request takes

_T = TypeVar("_T")


class ObjectBytes(NamedTuple):
    """What a GET answered: bytes of an object, the size of the whole object, and its version.

    Of an object above a limit there are no bytes. Of an object that is empty, or ends before the
    range that was asked for, a service tells neither size nor version: 0 and "".
    """

    data: bytes
    size: int
    version: str


class ObjectStore(FsspecStore):
    """The files below one URL. See `Store` for the verbs."""

    _is_written: ClassVar[bool] = True

    @abstractmethod
    async def _get_whole(self, full: str, limit_bytes: int) -> ObjectBytes:
        """GET an object; no bytes if the object is longer than `limit_bytes`.

        Raises:
            FileNotFoundError: there is no such object.
        """

    @abstractmethod
    async def _get_range(self, full: str, start: int, length: int) -> ObjectBytes:
        """GET the part of a range that the object has. `length` is not 0. Errors as before."""

    @abstractmethod
    async def _get_end(self, full: str, length: int) -> ObjectBytes:
        """GET the last bytes of an object, or all if it has fewer. Errors as before."""

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return the whole file, as `Store.read` says, by one request."""
        return self._read_whole(path, limit_bytes).data

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """Return the whole file and its version, as `Store.read_versioned` says."""
        found = self._read_whole(path, limit_bytes)
        return found.data, found.version

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """Return the bytes of each range, as `Store.read_ranges` says, by a request each."""
        with self._located(path) as full:
            for start, length in ranges:
                if start < 0 or length < 0:
                    raise _truncated(start, length)

            count_requests(sum(length > 0 for _, length in ranges) - 1)  # one is counted

            async def get(start: int, length: int) -> bytes:
                if not length:
                    return b""
                found = await self._get_range(full, start, length)
                if len(found.data) != length:
                    raise _truncated(start, length)
                return found.data

            async def get_all() -> builtins.list[bytes]:
                return await asyncio.gather(*(get(*wanted) for wanted in ranges))

            return self._run(get_all())

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file for random reads. The first request brings its end, or all of it."""
        with self._located(path) as full:
            tail = self._run(self._get_end(full, _READ_AHEAD_BYTES))
            if len(tail.data) == tail.size:
                return pa.BufferReader(tail.data)
            return pa.PythonFile(_ObjectFile(self, path, tail), mode="r")

    def _read_whole(self, path: str, limit_bytes: int) -> ObjectBytes:
        with self._located(path) as full:
            found = self._run(self._get_whole(full, limit_bytes))
            if found.size > limit_bytes:
                raise LimitError(
                    f"{found.size} bytes, and the limit for this kind of file is {limit_bytes}; "
                    "if the table is trusted, open it with larger limits"
                )
            return found

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the loop of the file system."""

        async def run() -> _T:
            return await work

        return sync(self._fs.loop, run)  # type: ignore[no-any-return]


class _ObjectFile(io.RawIOBase):
    """An object whose end is known, read with some read-ahead."""

    def __init__(self, store: ObjectStore, path: str, tail: ObjectBytes) -> None:
        self._store = store
        self._path = path
        self._size = tail.size
        self._at = 0
        self._tail_at, self._tail = tail.size - len(tail.data), tail.data
        self._ahead_at, self._ahead = 0, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        data = self._range(self._at, max(self._at, end))
        self._at += len(data)
        return data

    def _range(self, start: int, end: int) -> bytes:
        if start >= self._tail_at:
            return self._tail[start - self._tail_at : end - self._tail_at]
        if not self._ahead_at <= start <= end <= self._ahead_at + len(self._ahead):
            if end - start >= _READ_AHEAD_BYTES:
                return self._fetch(start, end)
            ahead_end = min(start + _READ_AHEAD_BYTES, max(end, self._tail_at))
            self._ahead_at, self._ahead = start, self._fetch(start, ahead_end)
        return self._ahead[start - self._ahead_at : end - self._ahead_at]

    def _fetch(self, start: int, end: int) -> bytes:
        missing_end = min(end, self._tail_at)
        (data,) = self._store.read_ranges(self._path, [(start, missing_end - start)])
        return data + self._tail[: max(0, end - self._tail_at)]


def _truncated(start: int, length: int) -> TruncatedError:
    return TruncatedError(
        f"the file ends before the last of the {length} bytes that were requested", offset=start
    )
