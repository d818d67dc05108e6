"""A `Store` over HDFS by WebHDFS: files are written beside their place and renamed into it.

Does I/O, through the session of fsspec's WebHDFS client (its credentials, its proxies). HDFS shows
a file from its creation on, before the file has content, so a file is complete before it gets its
name. Of two renames to one name the name node carries out one: `renameoptions=NONE` never replaces
a file, `renameoptions=OVERWRITE` replaces it at once (`ClientProtocol.rename2`). Nothing in HDFS
replaces a file only if it is still of some version, so `replace_if` is refused.
"""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from bucketfmt.errors import LimitError, StorageError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.storage.fsspec_store import FsspecStore
from bucketfmt.storage.store import FileInfo

__all__ = ["WebHdfsStore"]

_TEMPORARY_PREFIX = ".bucketfmt-"  # as on local disks
_RANGES_AT_ONCE = 8
_ERRORS: Mapping[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "ParentNotDirectoryException": NotADirectoryError,
    "AccessControlException": PermissionError,
    "SecurityException": PermissionError,
}


class WebHdfsStore(FsspecStore):
    """The files below one `webhdfs://` URL. See `Store` for the verbs."""

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return the whole file, as `Store.read` says."""
        with self._located(path) as full:
            data = self._read(full, 0, limit_bytes + 1)
            if len(data) > limit_bytes:
                raise LimitError(
                    f"{self._size(full)} bytes, and the limit for this kind of file is "
                    f"{limit_bytes}; if the table is trusted, open it with larger limits"
                )
            return data

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """Refuse: see the module."""
        with self._located(path):
            raise _no_conditions()

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """Return the bytes of each range, as `Store.read_ranges` says."""
        with self._located(path) as full:
            size = self._size(full)
            for start, length in ranges:
                if start < 0 or length < 0 or start + length > size:
                    raise TruncatedError(
                        f"{length} bytes were requested of a file of {size} bytes", offset=start
                    )
            with ThreadPoolExecutor(_RANGES_AT_ONCE) as pool:
                found = [*pool.map(lambda wanted: self._read(full, *wanted), ranges)]
            for (start, length), data in zip(ranges, found, strict=True):
                if len(data) != length:
                    raise TruncatedError(
                        f"{length} bytes were requested, and the store returned {len(data)}",
                        offset=start,
                    )
            return found

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file for random reads: each read is a request."""
        with self._located(path) as full:
            file = _OpenFile(self, full, self._size(full))
            return self._arrow_file(file, path)

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, as `Store.list` says."""
        with self._located(path) as full:
            try:
                answer = self._ask("GET", "LISTSTATUS", full)
            except (FileNotFoundError, NotADirectoryError):
                return []
            prefix = f"{path}/" if path else ""
            statuses = answer["FileStatuses"]["FileStatus"]
            self._limits.check("folder_entries_max", len(statuses))
            infos = [
                _file_info(prefix + status["pathSuffix"], status)
                for status in statuses
                if status["pathSuffix"]  # a file lists itself, without a name
            ]
            return sorted(infos, key=lambda info: info.path)

    def info(self, path: str) -> FileInfo | None:
        """Return the entry for one path, as `Store.info` says."""
        with self._located(path) as full:
            try:
                return _file_info(path, self._status(full))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._written_beside(path, data) as (temporary, full):
            try:
                self._rename(temporary, full, "NONE")
            except FileExistsError:
                return False
            return True

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, as `Store.replace` says."""
        with self._written_beside(path, data) as (temporary, full):
            self._rename(temporary, full, "OVERWRITE")

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Refuse: see the module."""
        with self._located(path, to_write=True):
            raise _no_conditions()

    def delete(self, path: str) -> None:
        """Remove one file. Nothing happens if the file does not exist."""
        with self._located(path, to_write=True) as full:
            self._ask("DELETE", "DELETE", full, recursive="false")

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all in it."""
        with self._located(path, to_write=True) as full:
            self._ask("DELETE", "DELETE", full, recursive="true")

    def read_on(self, full: str, start: int, length: int) -> bytes:
        """Return bytes of a file by the name that HDFS has for it; fewer where the file ends."""
        return self._read(full, start, length)

    def _size(self, full: str) -> int:
        status = self._status(full)
        if status["type"] != "FILE":
            raise FileNotFoundError(full)
        return int(status["length"])

    def _status(self, full: str) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self._ask("GET", "GETFILESTATUS", full)["FileStatus"]
        return status

    def _read(self, full: str, start: int, length: int) -> bytes:
        if not length:
            return b""
        data_node = self._find_data_node("GET", "OPEN", full, offset=start, length=length)
        return bytes(self._send("GET", data_node).content)

    @contextmanager
    def _written_beside(self, path: str, data: Buffer) -> Iterator[tuple[str, str]]:
        """Yield the name of a complete temporary file, and the name that the file is to get."""
        with self._located(path, to_write=True) as full:
            folder = full.rpartition("/")[0]
            temporary = f"{folder}/{_TEMPORARY_PREFIX}{uuid.uuid4().hex}.tmp"
            try:
                data_node = self._find_data_node("PUT", "CREATE", temporary, overwrite="false")
                self._send("PUT", data_node, data=bytes(data))
                yield temporary, full
            finally:
                with suppress(Exception):  # what stays is ignored by all readers
                    self._ask("DELETE", "DELETE", temporary)

    def _rename(self, temporary: str, full: str, how: str) -> None:
        answer = self._ask("PUT", "RENAME", temporary, destination=full, renameoptions=how)
        if "boolean" in answer:  # of a rename without options
            raise UnsupportedError(
                "the server does not know renameoptions, without which no file is replaced at "
                "once; use the address of the name node instead of an HttpFS gateway"
            )

    def _find_data_node(self, method: str, operation: str, full: str, **options: object) -> str:
        """Return the URL to which the content of a file is sent, or from which it comes."""
        answer = self._send(method, self._url_of(full), operation, options, redirects=False)
        return str(self._fs._apply_proxy(answer.headers["Location"]))

    def _ask(self, method: str, operation: str, full: str, **options: object) -> Mapping[str, Any]:
        """Send a request to the name node, and return its answer."""
        answer = self._send(method, self._url_of(full), operation, options)
        found: Mapping[str, Any] = answer.json() if answer.content else {}
        return found

    def _url_of(self, full: str) -> str:
        return str(self._fs._apply_proxy(self._fs.url + quote(full)))

    def _send(
        self,
        method: str,
        url: str,
        operation: str = "",
        options: Mapping[str, object] | None = None,
        *,
        data: bytes | None = None,
        redirects: bool = True,
    ) -> Any:
        """Send a request; raise what the server says went wrong."""
        asked = {**(options or {}), **self._fs.pars, "op": operation} if operation else {}
        answer = self._fs.session.request(
            method,
            url,
            params=asked,
            data=data,
            headers={"Content-Type": "application/octet-stream"},
            allow_redirects=redirects,
        )
        if answer.status_code < 400:
            return answer
        try:
            failed = answer.json()["RemoteException"]
            name, message = str(failed["exception"]), str(failed["message"])
        except (ValueError, LookupError, TypeError):
            name, message = f"status {answer.status_code}", answer.reason
        raise _ERRORS.get(name, OSError)(f"{name}: {message}")


class _OpenFile:
    """A file of HDFS, read at any place. Its content never changes: files are replaced whole."""

    def __init__(self, store: WebHdfsStore, full: str, size: int) -> None:
        self._store, self._full, self._size, self._at = store, full, size, 0

    def seek(self, offset: int, whence: int) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size < 0 else min(size, left)
        data = self._store.read_on(self._full, self._at, length)
        if len(data) != length:
            raise StorageError(f"{length} bytes were requested, and {len(data)} came; retry")
        self._at += length
        return data

    def close(self) -> None:
        """Nothing is open between two reads."""


def _file_info(path: str, status: Mapping[str, Any]) -> FileInfo:
    is_dir = status["type"] == "DIRECTORY"
    modified = status["modificationTime"] / 1000
    return FileInfo(path, 0 if is_dir else int(status["length"]), modified, is_dir)


def _no_conditions() -> UnsupportedError:
    return UnsupportedError(
        "HDFS has no way to replace a file only if nobody replaced it meanwhile, which the default "
        "lock needs; open the table with WriterConfig(lock='filesystem') in all its writers"
    )
