"""A `Store` over S3: each verb is as few requests as the protocol allows.

Does I/O, through the client of s3fs. fsspec lists a folder's parent where the folder is empty. On
S3 an empty listing is an answer.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import inspect
import random
import time
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from bucketfmt.errors import StorageError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.stores.object_store import ObjectBytes, ObjectStore

__all__ = ["S3Store"]

_CONNECTIONS = 128  # two requests of each thread, see `streams`
_PAUSE_S = 0.2  # after each body that was cut, once more
_CONFLICTS_MAX = 8  # of conditional requests, one after the other
_DELETED_AT_ONCE = 1_000  # S3's limit


class S3Store(ObjectStore):
    """The files below one `s3://` URL. See `Store` for the verbs."""

    # Those of botocore's session.
    _more_options: ClassVar[Collection[str]] = (
        "profile",
        "session_vars",
        "event_hooks",
        "include_builtin_handlers",
    )

    def __init__(
        self, url: str, storage_options: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """Set up; arguments and errors as of `FsspecStore`.

        As many requests may be in flight as bucketfmt sends at a time, unless the options say
        otherwise (`config_kwargs`, `max_pool_connections`).
        """
        settings = {
            "max_pool_connections": _CONNECTIONS,
            **(storage_options.get("config_kwargs") or {}),
        }
        super().__init__(url, {**storage_options, "config_kwargs": settings}, limits)

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, as `Store.list` says, by a request for each page."""
        with self._located(path) as full:
            try:
                entries = self._run(self._list(full))
            except FileNotFoundError:
                return []
            return self._entries(path, full, entries)

    async def _list(self, full: str) -> builtins.list[Mapping[str, Any]]:
        """Return the entries as s3fs has them, no more than the limit. Nothing keeps them."""
        from botocore.exceptions import ClientError  # noqa: PLC0415  (as s3fs)
        from s3fs.errors import translate_boto_error  # noqa: PLC0415

        bucket, folder, _ = self._fs.split_path(full)
        prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
        found: builtins.list[Mapping[str, Any]] = []
        try:
            async for entry in self._fs._iterdir(bucket, delimiter="/", prefix=prefix):
                if entry["name"].rstrip("/") != full.strip("/"):  # else it marks the folder itself
                    found.append(entry)
                    self._limits.check("folder_entries_max", len(found))
        except ClientError as error:
            raise translate_boto_error(error) from error
        return found

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True) as full:
            if "mode" not in inspect.signature(self._fs._pipe_file).parameters:
                raise UnsupportedError(
                    "this s3fs creates no file on condition; update it: pip install -U s3fs"
                )
            try:
                self._put(full, data, mode="create")
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
                put = self._put(full, data, IfMatch=version)
            except FileNotFoundError:
                return None
            except OSError as error:
                if not _is_precondition_failed(error):
                    raise
                return None
            return str(put["ETag"])

    def _put(self, full: str, data: Buffer, **condition: str) -> Any:
        """PUT an object on a condition; again, where S3 could not tell whether the condition held.

        That is so while another request changes the object, and then nothing was done.
        """
        for tries in range(1, _CONFLICTS_MAX):
            try:
                return self._fs.pipe_file(full, bytes(data), **condition)
            except OSError as error:
                if _code_of(error) != "ConditionalRequestConflict":
                    raise
            time.sleep(random.uniform(0, _PAUSE_S * tries))  # noqa: S311  (no secret)
        return self._fs.pipe_file(full, bytes(data), **condition)

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

    async def _get_whole(self, full: str, limit_bytes: int) -> ObjectBytes:
        return await self._get(full, limit_bytes=limit_bytes)

    async def _get_range(self, full: str, start: int, length: int) -> ObjectBytes:
        return await self._get(full, f"bytes={start}-{start + length - 1}", length=length)

    async def _get_end(self, full: str, length: int) -> ObjectBytes:
        return await self._get(full, f"bytes=-{length}")

    async def _get(
        self,
        full: str,
        byte_range: str | None = None,
        limit_bytes: int | None = None,
        length: int | None = None,
    ) -> ObjectBytes:
        """GET an object.

        Args:
            full: The name of the object as s3fs has it.
            byte_range: The header `Range`; None for the whole object.
            limit_bytes: Read no body that is longer.
            length: Read no body of another length, and return no bytes instead.
        """
        from s3fs.core import S3_RETRYABLE_ERRORS  # noqa: PLC0415  (an optional dependency)

        bucket, key, _ = self._fs.split_path(full)
        asked = {} if byte_range is None else {"Range": byte_range}
        tries = 0
        while True:
            tries += 1
            try:  # requests that fail are sent again by s3fs, and by botocore
                answer = await self._fs._call_s3("get_object", Bucket=bucket, Key=key, **asked)
            except OSError as error:
                if byte_range is None or not _is_unsatisfiable(error):
                    raise
                return ObjectBytes(b"", 0, "")  # it ends before the range, or is empty
            size = int(answer["ContentLength"])
            whole = answer.get("ContentRange", "").rpartition("/")[2]
            found = ObjectBytes(b"", int(whole or size), str(answer["ETag"]))
            try:
                async with answer["Body"] as body:
                    if limit_bytes is not None and size > limit_bytes:
                        return found
                    if length not in (None, size):
                        return found
                    return found._replace(data=await _read_body(body, size))
            except S3_RETRYABLE_ERRORS:
                if tries >= self._fs.retries:
                    raise
            await asyncio.sleep(_PAUSE_S * tries)


async def _read_body(body: Any, size: int) -> bytes:
    """Return the body of an answer, whole and with the right checksum.

    Raises:
        IncompleteRead: it is cut or damaged.
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


def _is_unsatisfiable(error: OSError) -> bool:
    """Whether S3 answered with status 416: the object has no byte of the range."""
    return _code_of(error) in {"InvalidRange", "416"}


def _is_precondition_failed(error: OSError) -> bool:
    """Whether S3 answered with status 412, which s3fs reports as any other bad request."""
    return error.errno == errno.EINVAL and _code_of(error) in {"PreconditionFailed", "412"}


def _code_of(error: OSError) -> str | None:
    """Return what S3 calls an error; None for an error that is not of S3."""
    response = getattr(error.__cause__, "response", {})
    code: str | None = response.get("Error", {}).get("Code")
    return code
