"""A `Store` on a local (POSIX) disk: atomic, durable, and closed within its root.

Does I/O. A file appears under its name only when complete and on disk: it is written
under a temporary name Hudi ignores, synced, then linked (create) or renamed (replace),
and the folder is synced. Hudi: `HoodieStorage.createImmutableFileInPath`.

Hadoop keeps a checksum beside each file that it writes to a disk, and refuses the file by a
checksum that is not the file's: whatever is written or deleted here, its checksum file goes.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter

import pyarrow as pa

from bucketfmt.errors import (
    BucketfmtError,
    LimitError,
    NotFoundError,
    StorageError,
    TruncatedError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.layout import checksum_path
from bucketfmt.format.names.paths import check_relative_path, format_temporary_name
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.storage.requests import count_requests
from bucketfmt.storage.store import FileInfo
from bucketfmt.storage.stores.folder_names import list_at_one_moment

__all__ = ["LocalStore"]

_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_FOLDER_LOCK_S = 5.0  # a small file is written meanwhile, and synchronised
_READ_BYTES_MAX = 0x7FFFF000  # what one read(2) returns at most; more is read in parts and copied

_PATH = attrgetter("path")


class LocalStore:
    """The files below one local folder. See `Store` for the verbs."""

    def __init__(self, root: str, limits: Limits = DEFAULT_LIMITS) -> None:
        # Resolved once: the root itself may be a link, what is below may not lead out of it.
        self._root = os.path.realpath(os.path.expanduser(root))
        self._limits = limits

    @property
    def uri(self) -> str:
        """The absolute path of the root."""
        return self._root

    def find_file_in_the_way(self) -> str | None:
        """Return the path of a file that is where the root, or a folder above it, would be."""
        place = self._root
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        return None if os.path.isdir(place) else place

    @property
    def failures_are_final(self) -> bool:
        """True: the operating system has answered when a verb raises."""
        return True

    @property
    def writes_beside(self) -> bool:
        """True: files are renamed, or linked, once they are on the disk."""
        return True

    def __repr__(self) -> str:
        return f"LocalStore({self._root!r})"

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return the whole file, as `Store.read` says."""
        return self._read_whole(path, limit_bytes)[0]

    def read_versioned(self, path: str, limit_bytes: int) -> tuple[bytes, str]:
        """Return the whole file and its version, as `Store.read_versioned` says."""
        data, status = self._read_whole(path, limit_bytes)
        return data, _version(status, data)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """Return the bytes of each range, as `Store.read_ranges` says."""
        with _errors_folded(path), self._opened(path) as (descriptor, size):
            for start, length in ranges:
                if start < 0 or length < 0 or start + length > size:
                    raise TruncatedError(
                        f"{length} bytes were requested of a file of {size} bytes", offset=start
                    )
            if len(ranges) > 1 and hasattr(os, "posix_fadvise"):  # the disk begins with all
                for start, length in ranges:
                    os.posix_fadvise(descriptor, start, length, os.POSIX_FADV_WILLNEED)
            return [_read_exactly(descriptor, start, length) for start, length in ranges]

    def open_arrow(self, path: str) -> pa.NativeFile:
        """Return the file as a `pyarrow.OSFile`."""
        with _errors_folded(path):
            full = self._resolve(path)
            _check_regular(os.stat(full).st_mode)
            return pa.OSFile(full, "rb")

    def list(self, path: str) -> builtins.list[FileInfo]:
        """Return the entries of one folder, as `Store.list` says."""
        with _errors_folded(path):
            return self._list(path)

    def list_names(self, path: str) -> Sequence[str]:
        """Return the names in one folder, as `Store.list_names` says."""
        bound = self._limits.folder_entries_max
        with _errors_folded(path):
            names = list_at_one_moment(self._resolve(path), bound)
            if len(names) > bound:
                self._limits.check("folder_entries_max", len(names))
        return names

    def _list(self, path: str) -> builtins.list[FileInfo]:
        infos = []
        for entry, link in self._scan(path):
            with suppress(FileNotFoundError):  # removed since it was listed
                infos.append(link or _file_info(_below(path, entry.name), entry.stat()))
        infos.sort(key=_PATH)
        return infos

    def _scan(self, path: str) -> Iterator[tuple[os.DirEntry[str], FileInfo | None]]:
        """Yield the entries of one folder, and of the symbolic links what they lead to."""
        try:
            with os.scandir(self._resolve(path)) as entries:
                for number, entry in enumerate(entries, 1):
                    if number > self._limits.folder_entries_max:
                        self._limits.check("folder_entries_max", number)
                    is_link = entry.is_symlink()
                    yield entry, self._link_info(_below(path, entry.name)) if is_link else None
        except (FileNotFoundError, NotADirectoryError):
            return

    def _link_info(self, path: str) -> FileInfo:
        try:
            return _file_info(path, os.stat(self._resolve(path)))
        except UnsafePathError:
            return FileInfo(path, 0, None, fault="leads out")
        except OSError:  # nothing there, links in a circle, a folder nobody may look into
            return FileInfo(path, 0, None, fault="leads nowhere")

    def info(self, path: str) -> FileInfo | None:
        """Return the entry for one path, as `Store.info` says."""
        with _errors_folded(path):
            try:
                return _file_info(path, os.stat(self._resolve(path)))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """Create the file unless it is there, as `Store.put_if_absent` says."""
        with _errors_folded(path), self._written_beside(path, data) as (temporary, full):
            if not os.path.lexists(full):
                _remove_checksum(full)  # of a file that was here
            try:
                os.link(temporary, full)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                raise UnsupportedError(
                    "this file system has no hard links, so files cannot be created atomically; "
                    "keep the table on another file system"
                ) from error
        return True

    def replace(self, path: str, data: Buffer) -> None:
        """Set the content of the file, as `Store.replace` says."""
        with _errors_folded(path), self._written_beside(path, data) as (temporary, full):
            _remove_checksum(full)
            os.replace(temporary, full)

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        """Set the content if the file is of this version, as `Store.replace_if` says.

        The folder is locked meanwhile (flock). Other processes that use this verb respect the
        lock, and the lock ends with the process.
        """
        with _errors_folded(path):
            full = self._resolve_parent(path)
            with _locked(os.path.dirname(full)):
                if not self._is_of_version(path, version):
                    return None
                with self._written_beside(path, data) as (temporary, full):
                    status = os.stat(temporary)
                    _remove_checksum(full)
                    os.replace(temporary, full)
        return _version(status, data)

    def delete(self, path: str) -> None:
        """Remove one file, durably. Nothing happens if the file does not exist."""
        with _errors_folded(path):
            full = self._resolve_parent(path)
            try:
                os.unlink(full)
            except (FileNotFoundError, NotADirectoryError):
                return
            _remove_checksum(full)
            _sync_folder(os.path.dirname(full))

    def delete_tree(self, path: str) -> None:
        """Remove a folder and all in it, following no link."""
        with _errors_folded(path):
            full = self._resolve_parent(path)
            try:
                shutil.rmtree(full)
            except FileNotFoundError:
                return
            _sync_folder(os.path.dirname(full))

    def _read_whole(self, path: str, limit_bytes: int) -> tuple[bytes, os.stat_result]:
        with _errors_folded(path), self._opened(path) as (descriptor, size):
            if size > limit_bytes:
                raise LimitError(
                    f"{size} bytes, and the limit for this kind of file is {limit_bytes}; "
                    "if the table is trusted, open it with larger limits"
                )
            return _read_exactly(descriptor, 0, size), os.fstat(descriptor)

    def _resolve(self, path: str) -> str:
        """Return the absolute path, all links resolved."""
        if not path:
            return self._root
        full = os.path.join(self._root, check_relative_path(path, self._limits))
        if not self._has_link(path):
            return full
        full = os.path.realpath(full)
        if not full.startswith(self._root.rstrip("/") + "/"):
            raise UnsafePathError(
                f"a symbolic link leads out of the table, to {full}; "
                "copy the file into the table, or treat the table as hostile",
                path=path,
            )
        return full

    def _has_link(self, path: str) -> bool:
        """Return whether a component of the path is a symbolic link. The root has none."""
        full = self._root
        for name in path.split("/"):
            full = f"{full}/{name}"
            try:
                if stat.S_ISLNK(os.lstat(full).st_mode):
                    return True
            except OSError:
                return False  # there is nothing, or no folder: opening the path tells
        return False

    def _resolve_parent(self, path: str) -> str:
        """Return the absolute path, links resolved in all but the last component.

        For the verbs that change a name: these verbs replace or remove a link, not the target.
        """
        if not path:
            raise ValueError("the root of a table cannot be written or deleted")
        folder, _, name = check_relative_path(path, self._limits).rpartition("/")
        return os.path.join(self._resolve(folder), name)

    def _is_of_version(self, path: str, version: str) -> bool:
        try:
            with self._opened(path) as (descriptor, size):
                status = os.fstat(descriptor)
                return version.startswith(_version_of_status(status)) and version == _version(
                    status, _read_exactly(descriptor, 0, size)
                )
        except (FileNotFoundError, NotADirectoryError, NotFoundError):
            return False  # NotFoundError: a folder has that name

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, int]]:
        """Yield a descriptor and the size of a regular file."""
        # Not blocking: opening a named pipe would otherwise wait for a writer for ever.
        descriptor = os.open(self._resolve(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            _check_regular(status.st_mode)
            yield descriptor, status.st_size
        finally:
            os.close(descriptor)

    @contextmanager
    def _written_beside(self, path: str, data: Buffer) -> Iterator[tuple[str, str]]:
        """Yield a synced temporary file with this content, and the path of the final file.

        When the block ends well the temporary name is gone and the folder is synced.
        """
        full = self._resolve_parent(path)
        folder = os.path.dirname(full)
        _make_folders(folder)
        temporary = os.path.join(folder, format_temporary_name(uuid.uuid4().hex))
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary, full
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync_folder(folder)


def _remove_checksum(full: str) -> None:
    """Remove what Hadoop kept as the checksum of a file."""
    try:
        os.unlink(checksum_path(full))
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # no file has such a name
            raise


def _below(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _file_info(path: str, status: os.stat_result) -> FileInfo:
    if stat.S_ISREG(status.st_mode):
        return FileInfo(path, status.st_size, status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        return FileInfo(path, 0, status.st_mtime, is_dir=True)
    return FileInfo(path, 0, status.st_mtime, fault="is no file")


def _version(status: os.stat_result, data: Buffer) -> str:
    """Return a text that differs between two states of a file.

    A renamed file has a new inode number. Inode numbers are reused, even within one tick of the
    file system's clock, so the text depends on the content too.
    """
    return f"{_version_of_status(status)}{hashlib.sha256(data).hexdigest()}"


def _version_of_status(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}-"


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold the lock of a folder against other callers, in this process and others."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield  # nothing below to protect
        return
    try:
        _flock(descriptor)
        yield
    finally:
        # Closing is not enough: a child forked meanwhile has the descriptor too, and the lock is
        # held until both have closed it.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _flock(descriptor: int) -> None:
    """Lock a folder, which others lock for as long as they replace one file."""
    deadline, pause_s = time.monotonic() + _FOLDER_LOCK_S, 0.0005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:  # noqa: PERF203  (others have it)
            if time.monotonic() > deadline:
                raise StorageError(
                    f"another process has had the folder locked for {_FOLDER_LOCK_S:g} s, to "
                    "replace a file: it stands still; let it go on, or end it"
                ) from error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        except OSError as error:
            raise UnsupportedError(
                "this file system cannot lock folders, so files cannot be replaced on condition; "
                "keep the table on another file system"
            ) from error
        else:
            return


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise NotFoundError("no such file: a folder has that name")
    if not stat.S_ISREG(mode):
        raise StorageError("not a regular file; remove it from the table")


def _read_exactly(descriptor: int, start: int, length: int) -> bytes:
    parts = []
    position, end = start, start + length
    while position < end:
        part = os.pread(descriptor, min(end - position, _READ_BYTES_MAX), position)
        if not part:
            raise TruncatedError("the file became shorter while it was read", offset=position)
        parts.append(part)
        position += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _make_folders(folder: str) -> None:
    """Make a folder and the folders above it, each durable."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for made in reversed(missing):
        os.makedirs(made, exist_ok=True)
        _sync_folder(os.path.dirname(made))


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _errors_folded(path: str) -> Iterator[None]:
    """Count a request; turn exceptions of the operating system into `StorageError`.

    A lack of memory is a `LimitError`.
    """
    count_requests()
    try:
        yield
    except BucketfmtError as error:
        error.within(path=path)
        raise
    except MemoryError as error:
        raise LimitError.of_memory("", error).within(path=path) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError("no such file", path=path) from error
    except PermissionError as error:
        raise StorageError(
            "permission denied; check who owns the table's files", path=path
        ) from error
    except OSError as error:
        raise StorageError(
            f"{error.strerror or error}; check the disk and retry", path=path
        ) from error
