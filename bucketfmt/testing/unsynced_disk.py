"""A local disk that loses all data that was not synced, as in a power failure.

Does I/O: while it is in use, the functions of `os` by which files get and lose their names
are watched, for the whole process. A name made, changed or removed is safe once its folder
is synced; content is safe once the file is synced. `lose_power` undoes everything else, which is
the worst a disk may do. For Linux.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["UnsyncedDisk"]


class _Change(NamedTuple):
    folder: str
    undo: Callable[[], None]
    removed_folder: str | None = None


class UnsyncedDisk:
    """Watches the files below a folder, as a context manager.

    Renaming, linking, removing and making folders are watched. Content counts as lost if
    a file got its final name before it was synced.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.realpath(root)
        self._changes: list[_Change] = []  # not safe yet, oldest first
        self._synced: set[int] = set()  # inodes whose content is safe
        self._originals: dict[str, Callable[..., Any]] = {}
        self._attic = ""  # keeps what may have to come back

    def __enter__(self) -> UnsyncedDisk:
        self._attic = tempfile.mkdtemp(dir=os.path.dirname(self._root))
        watched = {
            "fsync": self._fsync,
            "link": self._link,
            "replace": self._replace,
            "unlink": self._unlink,
            "mkdir": self._mkdir,
            "rmdir": self._rmdir,
        }
        for name, function in watched.items():
            self._originals[name] = getattr(os, name)
            setattr(os, name, function)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        shutil.rmtree(self._attic)

    def lose_power(self) -> None:
        """Undo everything that is not safe, and stop watching."""
        self._stop()
        for change in reversed(self._changes):
            change.undo()
        self._changes.clear()

    def _stop(self) -> None:
        for name, function in self._originals.items():
            setattr(os, name, function)
        self._originals.clear()

    def _fsync(self, descriptor: int) -> None:
        self._originals["fsync"](descriptor)
        status = os.fstat(descriptor)
        if not stat.S_ISDIR(status.st_mode):
            self._synced.add(status.st_ino)
            return
        folder = os.readlink(f"/proc/self/fd/{descriptor}")
        safe = [change for change in self._changes if change.folder == folder]
        # Nothing in a folder that is gone for good can come back.
        gone = tuple(change.removed_folder for change in safe if change.removed_folder)
        self._changes = [
            change
            for change in self._changes
            if change.folder != folder
            and not any(f"{change.folder}/".startswith(f"{path}/") for path in gone)
        ]

    def _link(self, source: str, target: str, **options: Any) -> None:
        self._originals["link"](source, target, **options)
        self._changed(target, lambda: os.unlink(target))
        self._check_content(target)

    def _replace(self, source: str, target: str, **options: Any) -> None:
        kept = self._keep(target)
        self._originals["replace"](source, target, **options)
        self._changed(target, lambda: os.replace(kept, target) if kept else os.unlink(target))
        self._check_content(target)

    def _unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        full = _full_path(path, dir_fd)
        kept = self._keep(full)
        self._originals["unlink"](path, dir_fd=dir_fd)
        if kept:
            self._changed(full, lambda: os.replace(kept, full))

    def _mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._originals["mkdir"](path, mode, dir_fd=dir_fd)
        full = _full_path(path, dir_fd)
        self._changed(full, lambda: shutil.rmtree(full))

    def _rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        full = _full_path(path, dir_fd)
        self._originals["rmdir"](path, dir_fd=dir_fd)
        self._changed(full, lambda: os.mkdir(full), is_removed_folder=True)

    def _changed(
        self, path: str, undo: Callable[[], None], *, is_removed_folder: bool = False
    ) -> None:
        if self._is_below_root(path):
            full = os.path.abspath(path)
            removed_folder = full if is_removed_folder else None
            self._changes.append(_Change(os.path.dirname(full), undo, removed_folder))

    def _check_content(self, path: str) -> None:
        """Note whether the content is not safe: a sync of its folder does not make it safe."""
        if self._is_below_root(path) and os.stat(path).st_ino not in self._synced:
            self._changes.append(_Change("", lambda: os.truncate(path, 0)))

    def _keep(self, path: str) -> str | None:
        """Return another name for a file that is about to lose this name."""
        if not self._is_below_root(path) or not os.path.isfile(path):
            return None
        kept = os.path.join(self._attic, str(len(os.listdir(self._attic))))
        self._originals["link"](path, kept)
        return kept

    def _is_below_root(self, path: str) -> bool:
        return os.path.abspath(path).startswith(self._root + os.sep)


def _full_path(path: str, dir_fd: int | None) -> str:
    return path if dir_fd is None else os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
