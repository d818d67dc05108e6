"""A `Store` over Google Cloud Storage: conditions are on the generation of an object.

Does I/O, through the client of gcsfs. Source: Cloud Storage's JSON API, request preconditions
(`ifGenerationMatch`, where 0 is "the object does not exist") and downloads (`alt=media`).
"""

from __future__ import annotations

import builtins
import logging
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, ClassVar

import msgspec

from bucketfmt.errors import StorageError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.stores.object_store import ObjectBytes, ObjectStore

__all__ = ["GcsStore"]

_ABSENT = "0"
_UNSATISFIABLE = 416
_SILENCE_S = 60.0  # as the clients of S3 and Azure have it; gcsfs waits for ever
_TRIES = 3
_PARTS = (
    b"--%b\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%b\r\n"
    b"--%b\r\nContent-Type: application/octet-stream\r\n\r\n%b\r\n--%b--"
)


class GcsStore(ObjectStore):
    """The files below one `gs://` URL. See `Store` for the verbs."""

    _options: ClassVar[Mapping[str, Any]] = {"use_listings_cache": False}
    _version_key: ClassVar[str] = "generation"
    _more_options: ClassVar[Collection[str]] = ("memmove_max_workers",)

    def __init__(
        self, url: str, storage_options: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """Set up; arguments and errors as of `FsspecStore`.

        A request is sent again where the service is silent for a minute, unless the options say
        otherwise (`requests_timeout`).
        """
        given = dict(storage_options)
        with suppress(ImportError):  # an optional dependency, as gcsfs
            from aiohttp import ClientTimeout  # noqa: PLC0415

            given.setdefault("requests_timeout", ClientTimeout(sock_read=_SILENCE_S))
        super().__init__(url, given, limits)

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, as `Store.list` says, by a request for each page."""
        with self._located(path) as full:
            try:
                # One above the limit, and the empty object that may mark the folder.
                most = self._limits.folder_entries_max + 2
                files, folders = self._run(self._fs._do_list_objects(full, max_results=most))
            except FileNotFoundError:
                return []
            bucket = self._fs.split_path(full)[0]
            named = [{"name": f"{bucket}/{name}", "type": "directory"} for name in folders]
            return self._entries(path, full, [*named, *files])

    async def _get_whole(self, full: str, limit_bytes: int) -> ObjectBytes:
        found = await self._get(full, f"bytes=0-{limit_bytes}")
        if found.version:
            return found if found.size <= limit_bytes else found._replace(data=b"")
        return await self._get(full, None)  # it is empty

    async def _get_range(self, full: str, start: int, length: int) -> ObjectBytes:
        return await self._get(full, f"bytes={start}-{start + length - 1}")

    async def _get_end(self, full: str, length: int) -> ObjectBytes:
        return await self._get(full, f"bytes=-{length}")

    async def _get(self, full: str, byte_range: str | None) -> ObjectBytes:
        """GET a range of an object, or all of it; again where the body is not whole."""
        from gcsfs.retry import HttpError  # noqa: PLC0415  (an optional dependency)

        asked = {} if byte_range is None else {"Range": byte_range}
        for _ in range(_TRIES):
            try:
                with _expecting_empty(byte_range is not None):
                    headers, data = await self._fs._call("GET", self._fs.url(full), headers=asked)
            except HttpError as error:
                if byte_range is None or error.code != _UNSATISFIABLE:
                    raise
                return ObjectBytes(b"", 0, "")
            first, last, size = _find_extent(headers.get("Content-Range"), len(data))
            if len(data) == last - first + 1:
                return ObjectBytes(bytes(data), size, headers["X-Goog-Generation"])
        raise StorageError(f"{_TRIES} answers ended early; retry")

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True) as full:
            return self._put(full, data, _ABSENT) is not None

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, as `Store.replace` says."""
        with self._located(path, to_write=True) as full:
            self._put(full, data, None)

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says."""
        with self._located(path, to_write=True) as full:
            return self._put(full, data, version)

    def _put(self, full: str, data: Buffer, generation: str | None) -> str | None:
        """Put an object, in the place of this generation if one is given.

        Returns:
            The new generation; None if the object is of another one.
        """
        bucket, key, _ = self._fs.split_path(full)
        boundary = uuid.uuid4().hex  # gcsfs has the same for all files, and data may contain it
        mark = boundary.encode()
        try:
            put = self._fs.call(
                "POST",
                f"{self._fs._location}/upload/storage/v1/b/{{}}/o",
                bucket,
                uploadType="multipart",
                ifGenerationMatch=generation,
                headers={"Content-Type": f"multipart/related; boundary={boundary}"},
                data=_PARTS % (mark, msgspec.json.encode({"name": key}), mark, bytes(data), mark),
                json_out=True,
            )
        except FileExistsError:  # status 412
            return None
        return str(put["generation"])


@contextmanager
def _expecting_empty(is_expected: bool) -> Iterator[None]:
    """Keep gcsfs from logging, with its traceback, that an object has no byte of a range.

    An empty file is read so, as each file of the timeline that is requested without a plan. Python
    prints what is logged as an error if nobody has set up logging.
    """
    logging.getLogger("gcsfs").addFilter(_is_told)  # once: the same filter is not added again
    before = _may_be_empty.set(is_expected)
    try:
        yield
    finally:
        _may_be_empty.reset(before)


_may_be_empty = ContextVar("_may_be_empty", default=False)


def _is_told(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not (_may_be_empty.get() and getattr(error, "code", None) == _UNSATISFIABLE)


def _find_extent(content_range: str | None, received: int) -> tuple[int, int, int]:
    """Return the first and the last byte that an answer is to have, and the size of the object.

    Args:
        content_range: As `bytes 0-99/1000`; None for a whole object.
        received: The bytes that came.
    """
    if content_range is None:
        return 0, received - 1, received
    extent, _, size = content_range.removeprefix("bytes ").partition("/")
    first, _, last = extent.partition("-")
    return int(first), int(last), int(size)
