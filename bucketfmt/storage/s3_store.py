"""A `Store` over S3: each verb is as few requests as the protocol allows.

Does I/O, through the client of s3fs. fsspec asks for the size of a file before it reads the file,
and lists a folder's parent where the folder is empty. On S3 the answer to a GET has the size and
the version of the object, and an empty listing is an answer.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import inspect
import io
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from fsspec.asyn import sync

from bucketfmt.errors import LimitError, StorageError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.fsspec_store import FsspecStore
from bucketfmt.storage.requests import count_requests
from bucketfmt.storage.store import FileInfo

__all__ = ["S3Store"]

_CONNECTIONS = 128  # two requests of each thread, see `streams`
_READ_AHEAD_BYTES = 512 << 10  # as many as arrive in the time that a request takes
_DELETED_AT_ONCE = 1_000  # S3's limit

_T = TypeVar("_T")


class _Object(NamedTuple):
    """What a GET answered: bytes of an object, the size of the whole object, and its ETag."""

    data: bytes
    size: int
    version: str


class S3Store(FsspecStore):
    """The files below one `s3://` URL. See `Store` for the verbs."""

    def __init__(
        self, url: str, storage_options: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """Set up; arguments and errors as of `FsspecStore`.

        As many requests may be in flight as bucketfmt sends at a time, unless the options say
        otherwise (`config_kwargs`, `max_pool_connections`).
        """
        settings = {
            "max_pool_connections": _CONNECTIONS,
            **storage_options.get("config_kwargs", {}),
        }
        super().__init__(url, {**storage_options, "config_kwargs": settings}, limits)

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

            count_requests(max(0, len(ranges) - 1))  # one is counted

            async def get_all() -> builtins.list[bytes]:
                return await asyncio.gather(*(self._get_range(full, *wanted) for wanted in ranges))

            return self._run(get_all())

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file for random reads. The first request brings its end, or all of it."""
        with self._located(path) as full:
            tail = self._run(self._get(full, f"bytes=-{_READ_AHEAD_BYTES}"))
            if len(tail.data) == tail.size:
                return pa.BufferReader(tail.data)
            return pa.PythonFile(_ObjectFile(self, path, tail), mode="r")

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, as `Store.list` says, by a request for each page."""
        with self._located(path) as full:
            try:
                entries = self._run(self._fs._lsdir(full, refresh=True))
            except FileNotFoundError:
                return []
            return self._entries(path, full, entries)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True) as full:
            if "mode" not in inspect.signature(self._fs._pipe_file).parameters:
                raise UnsupportedError(
                    "this s3fs creates no file on condition; update it: pip install -U s3fs"
                )
            try:
                self._fs.pipe_file(full, bytes(data), mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if not _is_precondition_failed(error):
                    raise
                return False
            return True

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says."""
        with self._located(path, to_write=True) as full:
            try:
                put = self._fs.pipe_file(full, bytes(data), IfMatch=version)
            except FileNotFoundError:
                return None
            except OSError as error:
                if not _is_precondition_failed(error):
                    raise
                return None
            return str(put["ETag"])

    def delete_tree(self, path: str) -> None:
        """Remove a folder and its contents. Nothing happens if the folder does not exist."""
        with self._located(path, to_write=True) as full:
            entries = self._run(self._fs._lsdir(full, refresh=True, delimiter=""))
            bucket = self._fs.split_path(full)[0]
            keys = [self._fs.split_path(entry["name"])[1] for entry in entries]
            for first in range(0, len(keys), _DELETED_AT_ONCE):
                some = [{"Key": key} for key in keys[first : first + _DELETED_AT_ONCE]]
                deleted = self._run(
                    self._fs._call_s3(
                        "delete_objects", Bucket=bucket, Delete={"Objects": some, "Quiet": True}
                    )
                )
                for failed in deleted.get("Errors", []):
                    raise StorageError(
                        f"{failed.get('Key')} could not be deleted: {failed.get('Code')}; retry"
                    )

    def read_on(self, path: str, start: int, length: int) -> bytes:
        """Return this range of a file, which must have it. Errors as `Store.read_ranges`."""
        return self.read_ranges(path, [(start, length)])[0]

    def _read_whole(self, path: str, limit_bytes: int) -> _Object:
        with self._located(path) as full:
            return self._run(self._get(full, limit_bytes=limit_bytes))

    async def _get_range(self, full: str, start: int, length: int) -> bytes:
        if not length:
            return b""
        found = await self._get(full, f"bytes={start}-{start + length - 1}", length=length)
        if len(found.data) != length:
            raise _truncated(start, length)
        return found.data

    async def _get(
        self,
        full: str,
        byte_range: str | None = None,
        limit_bytes: int | None = None,
        length: int | None = None,
    ) -> _Object:
        """GET an object.

        Args:
            full: The name of the object as s3fs has it.
            byte_range: The header `Range`; None for the whole object.
            limit_bytes: Read no body that is longer.
            length: Read no body of another length, and return no bytes instead.

        Raises:
            LimitError: the object is longer than `limit_bytes`.
        """
        from s3fs.core import _error_wrapper  # noqa: PLC0415  (an optional dependency)

        bucket, key, _ = self._fs.split_path(full)
        asked = {} if byte_range is None else {"Range": byte_range}

        async def get() -> _Object:
            try:
                answer = await self._fs._call_s3("get_object", Bucket=bucket, Key=key, **asked)
            except OSError as error:
                if byte_range is None or not _is_unsatisfiable(error):
                    raise
                return _Object(b"", 0, "")  # it ends before the range, or is empty
            size = int(answer["ContentLength"])
            whole = answer.get("ContentRange", "").rpartition("/")[2]
            found = _Object(b"", int(whole or size), str(answer["ETag"]))
            async with answer["Body"] as body:
                if (limit_bytes is not None and size > limit_bytes) or length not in (None, size):
                    return found
                data = await _read_body(body, size)
            return found._replace(data=data)

        found: _Object = await _error_wrapper(get, retries=self._fs.retries)
        if limit_bytes is not None and found.size > limit_bytes:
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

    def __init__(self, store: S3Store, path: str, tail: _Object) -> None:
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
        data = self._store.read_on(self._path, start, missing_end - start)
        return data + self._tail[: max(0, end - self._tail_at)]


async def _read_body(body: Any, size: int) -> bytes:
    """Return the body of an answer, whole and with the right checksum.

    Raises:
        IncompleteRead: it is cut or damaged; s3fs asks again.
    """
    from botocore.exceptions import FlexibleChecksumError  # noqa: PLC0415  (optional, as s3fs)
    from urllib3.exceptions import IncompleteRead  # noqa: PLC0415

    try:
        data = bytes(await body.read())
    except FlexibleChecksumError as error:
        raise IncompleteRead(0, size) from error
    if len(data) != size:
        raise IncompleteRead(len(data), size - len(data))
    return data


def _truncated(start: int, length: int) -> TruncatedError:
    return TruncatedError(
        f"the file ends before the last of the {length} bytes that were requested", offset=start
    )


def _is_unsatisfiable(error: OSError) -> bool:
    """Whether S3 answered with status 416: the object has no byte of the range."""
    response = getattr(error.__cause__, "response", {})
    return response.get("Error", {}).get("Code") in {"InvalidRange", "416"}


def _is_precondition_failed(error: OSError) -> bool:
    """Whether S3 answered with status 412, which s3fs reports as any other bad request."""
    response = getattr(error.__cause__, "response", {})
    return error.errno == errno.EINVAL and response.get("Error", {}).get("Code") in {
        "PreconditionFailed",
        "412",
    }
