"""A `Store` over any fsspec file system, such as HTTP, `hdfs:` or a chain of them.

Does I/O. A file system is written to only where bucketfmt knows how it creates a file unless the
file exists, and how it replaces a file on condition. Each of those has a subclass, which overrides
`put_if_absent` and `replace_if`; this class refuses every verb that writes.
"""

from __future__ import annotations

import builtins
import errno
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar

import fsspec
import pyarrow as pa

from bucketfmt.errors import (
    BucketfmtError,
    LimitError,
    NotFoundError,
    StorageError,
    TruncatedError,
    UnsupportedError,
)
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.paths import check_relative_path
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.process import this_process
from bucketfmt.storage.requests import count_requests
from bucketfmt.storage.storage_options import check_known_options
from bucketfmt.storage.store import FileInfo

__all__ = ["FsspecStore"]

_MODIFIED_KEYS = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")
_READ_AHEAD_BYTES = 512 << 10
_TRIES = 3

# File systems that a forked child has of its parent. Their sockets and their event loop are the
# parent's; were they closed here, the parent would wait for answers for ever.
_inherited: builtins.list[Any] = []


class FsspecStore:
    """The files below one fsspec URL. See `Store` for the verbs.

    Safe to use from several threads. A forked child opens the file system anew.
    """

    # What the file system is opened with unless the caller's options say otherwise.
    _options: ClassVar[Mapping[str, Any]] = {}
    # Where fsspec's entry of a file has the version; empty where files have no version to rely on.
    _version_key: ClassVar[str] = ""
    # Whether files are created and replaced on condition; else no verb writes.
    _is_written: ClassVar[bool] = False
    # Options of the client besides those of its constructors; None where nobody knows which.
    _more_options: ClassVar[Collection[str] | None] = None

    def __init__(
        self, url: str, storage_options: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        """Set up the file system of `url`.

        Raises:
            ValueError: fsspec knows no such protocol, or its client no such option.
            StorageError: the file system could not be set up.
        """
        self._url_and_options = url, {**self._options, **storage_options}
        # Of a chained URL this holds all protocols, and equals no known protocol.
        self._protocol = url.partition("://")[0]
        self._opened, self._root = self._open()
        self._url = url.rstrip("/")
        self._limits = limits

    def __reduce__(self) -> tuple[type[FsspecStore], tuple[object, ...]]:
        """Pickle the arguments that the store was opened with, which may hold secrets."""
        return type(self), (*self._url_and_options, self._limits)

    @property
    def _fs(self) -> Any:
        """The file system, opened by this process."""
        fs, process = self._opened
        if process != this_process():
            _inherited.append(fs)
            self._opened, _ = self._open()
            fs, _ = self._opened
        return fs

    def _open(self) -> tuple[tuple[Any, str], str]:
        """Return the file system with the process that opened it, and the name of the root."""
        url, options = self._url_and_options
        try:
            if self._more_options is not None and "::" not in url:
                client = fsspec.get_filesystem_class(self._protocol)
                check_known_options(client, options, self._more_options)
            fs, root = fsspec.core.url_to_fs(url, **options)
        except ImportError as error:
            raise StorageError(_missing_package(self._protocol, error)) from error
        except (ValueError, TypeError) as error:
            if str(error).startswith("Protocol not known") and "::" not in url:
                raise ValueError(f"{url}: unknown scheme {self._protocol}://; {_SCHEMES}") from None
            if str(error).startswith("storage_options"):
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{url}: {error}; check the URL and storage_options") from error
        except Exception as error:
            if self._protocol in _HDFS and isinstance(error, OSError):
                raise StorageError(f"{_first_line(error)}; {_HDFS_NEEDS}", path=url) from error
            raise _storage_error(error, url) from error
        return (fs, this_process()), root.rstrip("/")

    @property
    def uri(self) -> str:
        """The URL of the root, without the storage options."""
        return self._url

    @property
    def failures_are_final(self) -> bool:
        """False over a network: a request may arrive after the sender gave up."""
        return False

    @property
    def writes_beside(self) -> bool:
        """False: one request gives a file its name and its content."""
        return False

    def __repr__(self) -> str:
        return f"FsspecStore({self._url!r})"

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return the whole file, as `Store.read` says."""
        with self._located(path) as full:
            for _ in range(_TRIES):
                size = self._size(full)
                if size > limit_bytes:
                    raise LimitError(
                        f"{size} bytes, and the limit for this kind of file is {limit_bytes}; "
                        "if the table is trusted, open it with larger limits"
                    )
                data = self._whole(full, size)
                if len(data) == size:  # else the answer was cut short, or the file was replaced
                    return data
            raise StorageError(f"{_TRIES} answers were not as long as the file is; retry")

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """Return the whole file and its version, as `Store.read_versioned` says."""
        with self._located(path) as full:
            self._fs.invalidate_cache(full)
            self._check_versioned()
            # Before the content: if that is newer, a replacement on this condition fails.
            version = self._version(full)
            return self.read(path, limit_bytes), version

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """Return the bytes of each range, as `Store.read_ranges` says."""
        with self._located(path) as full:
            size = self._size(full)
            for start, length in ranges:
                if start < 0 or length < 0 or start + length > size:
                    raise TruncatedError(
                        f"{length} bytes were requested of a file of {size} bytes", offset=start
                    )
            wanted = [(start, start + length) for start, length in ranges if length]
            count_requests(max(0, len(wanted) - 1))  # one is counted
            parts = iter(self._parts(full, wanted))
            found = [next(parts) if length else b"" for _, length in ranges]
            for (start, length), data in zip(ranges, found, strict=True):
                if len(data) != length:
                    raise TruncatedError(
                        f"{length} bytes were requested, and the store returned {len(data)}",
                        offset=start,
                    )
            return found

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file for random reads: each read is a ranged request with some read-ahead."""
        with self._located(path) as full:
            return self._open_file(full, path)

    def _open_file(
        self, full: str, path: str, fetch: Callable[[int, int], bytes] | None = None
    ) -> pa.NativeFile:
        """Open a file; `fetch` returns what is from one place to before another, as fsspec does."""
        self._size(full)
        file = self._fs.open(full, "rb", block_size=_READ_AHEAD_BYTES, cache_type="readahead")
        if fetch is not None:
            file.cache.fetcher = fetch
        return pa.PythonFile(_RaisingFile(file, path), mode="r")

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, as `Store.list` says."""
        with self._located(path) as full:
            self._fs.invalidate_cache(full)
            try:
                entries = self._fs.ls(full, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
            return self._entries(path, full, entries)

    def _entries(
        self, path: str, full: str, entries: Iterable[Mapping[str, Any]]
    ) -> builtins.list[FileInfo]:
        prefix = f"{path}/" if path else ""
        infos = []
        for entry in entries:
            folder, _, name = entry["name"].rstrip("/").rpartition("/")
            # An object store may list the folder itself, as the empty object that marks it.
            if name and folder.strip("/") == full.strip("/"):
                infos.append(_file_info(prefix + name, entry))
                self._limits.check("folder_entries_max", len(infos))
        infos.sort(key=lambda info: info.path)
        return infos

    def list_names(self, path: str) -> builtins.list[str]:
        """Return the names of the files of one folder, as `Store.list_names` says."""
        return [entry.name for entry in self.list(path) if not entry.is_dir]

    def info(self, path: str) -> FileInfo | None:
        """Return the entry for one path, as `Store.info` says."""
        with self._located(path) as full:
            self._fs.invalidate_cache(full)
            try:
                return _file_info(path, self._fs.info(full))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with self._located(path, to_write=True):
            raise self._refusal()

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, as `Store.replace` says."""
        with self._located(path, to_write=True) as full:
            self._fs.pipe_file(full, bytes(data))

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says."""
        with self._located(path, to_write=True):
            raise self._refusal()

    def delete(self, path: str) -> None:
        """Remove one file. Nothing happens if the file does not exist."""
        with self._located(path, to_write=True) as full:
            try:
                self._fs.rm_file(full)
            except FileNotFoundError:
                return

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all in it."""
        with self._located(path, to_write=True) as full:
            self._fs.invalidate_cache(full)
            try:
                self._fs.rm(full, recursive=True)
            except FileNotFoundError:
                return

    def _whole(self, full: str, size: int) -> bytes:
        """Return the content of a file that has been of this size."""
        del size
        return bytes(self._fs.cat_file(full))

    def _parts(self, full: str, spans: Sequence[tuple[int, int]]) -> Iterable[bytes]:
        """Return what is from the first number to before the second of each span of a file."""
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        return map(bytes, self._fs.cat_ranges([full] * len(spans), starts, ends, on_error="raise"))

    def _version(self, full: str) -> str:
        info = self._fs.info(full)
        if info["type"] == "directory":
            raise FileNotFoundError(full)
        return str(info[self._version_key])

    def _check_versioned(self) -> None:
        if not self._version_key:
            raise self._refusal()

    def _refusal(self) -> UnsupportedError:
        return UnsupportedError(
            "bucketfmt knows no way to create a file atomically and to replace a file on condition "
            f"over {self._protocol}; "
            + (
                "give the URL webhdfs://HOST:PORT/PATH"
                if self._protocol in _HDFS
                else "keep the table on a local disk, S3, Google Cloud Storage, Azure or HDFS"
            )
        )

    def _size(self, full: str) -> int:
        try:
            info = self._fs.info(full)
        except FileNotFoundError:
            # A cached listing of the folder may be older than the file.
            self._fs.invalidate_cache(full)
            info = self._fs.info(full)
        if info["type"] == "directory":
            raise FileNotFoundError(full)
        return int(info["size"])

    @contextmanager
    def _located(self, path: str, *, to_write: bool = False) -> Iterator[str]:
        """Count a request, and yield the file system's name for `path`.

        Exceptions of the file system become `StorageError`.
        """
        if to_write and not path:
            raise ValueError("the root of a table cannot be written or deleted")
        count_requests()
        try:
            check_relative_path(path, self._limits)
            if to_write and not self._is_written:
                raise self._refusal()
            yield f"{self._root}/{path}" if path else self._root
        except BucketfmtError as error:
            error.within(path=path)
            raise
        except FileNotFoundError as error:
            if not to_write:
                raise _storage_error(error, path) from error
            bucket = self._root.strip("/").partition("/")[0]
            raise StorageError(
                f"there is no bucket {bucket!r} to write to; check its name, or create it",
                path=path,
            ) from error
        except Exception as error:
            raise _storage_error(error, path) from error


class _RaisingFile(io.RawIOBase):
    """An open fsspec file that raises `StorageError` when a read fails."""

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> bytes:
        count_requests()
        try:
            return bytes(self._file.read(size))
        except Exception as error:
            raise _storage_error(error, self._path) from error

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _file_info(path: str, entry: Mapping[str, Any]) -> FileInfo:
    modified = next((entry[key] for key in _MODIFIED_KEYS if entry.get(key)), None)
    if modified is None and entry.get("modificationTime"):  # of HDFS, in milliseconds
        modified = entry["modificationTime"] / 1000
    if isinstance(modified, str):
        try:
            modified = datetime.fromisoformat(modified.replace("Z", "+00:00"))
        except ValueError:
            modified = None
    if isinstance(modified, datetime):
        modified = modified.timestamp()
    is_dir = entry["type"] == "directory"
    return FileInfo(path, 0 if is_dir else int(entry["size"] or 0), modified, is_dir)


_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "bucketfmt[s3]"),
    **dict.fromkeys(("gs", "gcs"), "bucketfmt[gcs]"),
    **dict.fromkeys(("abfs", "abfss", "az"), "bucketfmt[azure]"),
}
_OPTION_ERRORS = frozenset(  # of botocore, Azure's and Google's, beside those that Python raises
    {"NoCredentialsError", "ParamValidationError", "PartialCredentialsError", "ProfileNotFound"}
    | {"AzureSigningError", "ClientAuthenticationError", "DefaultCredentialsError", "RefreshError"}
)
_PASSING_STATUSES = frozenset({408, 409, 412, 425, 429})  # of 300 to 499, those that a retry helps
_HDFS = ("hdfs", "arrow_hdfs")
_HDFS_NEEDS = (
    "hdfs:// needs Java and Hadoop's client: set JAVA_HOME, HADOOP_HOME and "
    "CLASSPATH=$(hadoop classpath --glob), or use webhdfs://HOST:PORT/PATH, which needs neither"
)


_SCHEMES = (
    "tables are at local paths, and at URLs of s3, s3a, gs, gcs, az, abfs, abfss, hdfs, webhdfs, "
    "memory, or another file system that is installed and that fsspec knows"
)


def _missing_package(protocol: str, error: ImportError) -> str:
    package = _PACKAGES.get(protocol)
    if package is not None:
        return f"{protocol}:// needs a package: pip install '{package}'"
    if error.name is not None:  # as of an option such as kerberos
        return f"{_first_line(error)}; install the package that has it"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    """Return the first line of a message; libhdfs adds a line for each path that was tried.

    With the next one where the first ends with a colon, as of botocore.
    """
    first, _, others = str(error).partition("\n")
    return f"{first} {others.partition(chr(10))[0]}" if first.endswith(":") else first


def _storage_error(error: Exception, path: str) -> BucketfmtError:
    """Return a `StorageError` for an exception of a file system, which may be of any type.

    A lack of memory is a `LimitError`.
    """
    if isinstance(error, MemoryError):
        return LimitError.of_memory("", error).within(path=path)
    if isinstance(error, FileNotFoundError):
        return NotFoundError("no such file", path=path)
    if isinstance(error, PermissionError):
        return StorageError(f"{error}; check the credentials and what they may do", path=path)
    told = f"{type(error).__name__}: {_first_line(error)}"
    if isinstance(error, KeyError):
        told = f"the answer lacks {error}, as of a server that is another one than the URL says"
    if _is_refused(error) or type(error).__name__ in _OPTION_ERRORS:
        advice = "check the URL, storage_options and the credentials"
    elif isinstance(error, OSError) and error.errno == errno.EDQUOT:
        advice = "have the quota raised, or delete what nobody needs, then retry"
    else:
        advice = "check that the store can be reached, then retry"
    return StorageError(f"{told}; {advice}", path=path)


def _is_refused(error: Exception) -> bool:
    """Whether a request would fail again, by what Python raised or the store answered."""
    if isinstance(error, (TypeError, ValueError, AttributeError, KeyError)):
        return True
    # s3fs tells a request that S3 refuses (400), as for another region, as EINVAL; gcsfs tells one
    # that may not be made (403) by its text.
    is_einval = isinstance(error, OSError) and error.errno == errno.EINVAL
    if is_einval or str(error).startswith("Forbidden: "):
        return True
    status = _status_of(error)
    return 300 <= status < 500 and status not in _PASSING_STATUSES


def _status_of(error: Exception) -> int:
    """Return the status of HTTP with which a store answered; 0 if an exception tells of none.

    Not just any `code`: aiohttp has 400 for a body that was cut.
    """
    response = getattr(error.__cause__, "response", None)
    if isinstance(response, Mapping):  # of botocore
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    elif type(error).__name__ == "HttpError":  # of gcsfs
        found = getattr(error, "code", None)
    else:  # of Azure's client
        found = getattr(error, "status_code", None)
    return found if isinstance(found, int) else 0
