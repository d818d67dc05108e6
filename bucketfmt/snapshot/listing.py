"""Which partitions a table has, and which files each of them has.

I/O: `StoreLister` lists the folders of the table, each at most once. Source:
`FileSystemBackedTableMetadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from bucketfmt.format.names.layout import METADATA_FOLDER, is_partition_metafile_name
from bucketfmt.format.names.names import BaseFileName, LogFileName, find_data_file_name
from bucketfmt.process import cached_property, new_mutex
from bucketfmt.snapshot.data_files.file_slices import group_files, is_change_data
from bucketfmt.snapshot.data_files.files import DataFile
from bucketfmt.storage.store import FileInfo, Store
from bucketfmt.storage.streams import map_in_threads, waiting_count

__all__ = [
    "FileLister",
    "StoreLister",
    "has_metafile",
    "is_partition",
    "listed_file",
    "visit_partitions",
    "walk_folders",
]


class FileLister(Protocol):
    """Says which partitions and files a table has. The answers do not change.

    Several threads can use a lister.
    """

    @property
    def partitions(self) -> tuple[str, ...]:
        """Every partition path, sorted; ("",) for a table without partition fields.

        Raises:
            StorageError: the store failed.
        """

    def files(self, partition_path: str) -> Mapping[str, Sequence[DataFile]]:
        """Return the base and log files of one partition by file id.

        There are none where the folder does not exist.

        Raises:
            StorageError: the store failed.
        """

    def other_files(self, partition_path: str) -> Sequence[str]:
        """Return the names of the files of one partition that are neither base nor log files.

        Raises:
            StorageError: the store failed.
        """

    def prepare(self, partition_paths: Sequence[str]) -> None:
        """Do now, for many partitions at a time, what their `files` would do one by one.

        Raises:
            StorageError: the store failed.
        """


def has_metafile(entries: Iterable[FileInfo]) -> bool:
    """Whether a file among the entries of a folder makes the folder a partition."""
    names = (entry.name for entry in entries if not entry.is_dir)
    return any(map(is_partition_metafile_name, names))


def is_partition(lister: FileLister, path: str) -> bool:
    """Whether a folder has the metadata file of a partition.

    Raises:
        StorageError: the store failed.
    """
    return any(map(is_partition_metafile_name, lister.other_files(path)))


class _ListedFiles(NamedTuple):
    files: Mapping[str, Sequence[DataFile]]
    change_data: Sequence[DataFile]
    others: Sequence[str]


class StoreLister:
    """A `FileLister` that lists folders. Its answers are those of the first listing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = new_mutex()
        self._found: dict[str, _ListedFiles] = {}

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """Every partition path, sorted.

        A folder is a partition when it holds a partition metafile, as Hudi has it.
        """
        found: list[str] = []

        def take(folder: str, entries: Sequence[FileInfo]) -> None:
            found.append(folder)
            self._keep(folder, entries)

        visit_partitions(self._store, take)
        return tuple(sorted(found))

    def files(self, partition_path: str) -> Mapping[str, Sequence[DataFile]]:
        """Return the base and log files of one partition by file id."""
        return self._listed(partition_path).files

    def change_data(self, partition_path: str) -> Sequence[DataFile]:
        """Return the CDC log files of one partition, which no snapshot reads."""
        return self._listed(partition_path).change_data

    def other_files(self, partition_path: str) -> Sequence[str]:
        """Return the names of the other files of one partition."""
        return self._listed(partition_path).others

    def prepare(self, partition_paths: Sequence[str]) -> None:
        """List folders side by side."""
        unknown = [path for path in partition_paths if path not in self._found]
        map_in_threads(self._listed, unknown, waiting_count(self._store))

    def _listed(self, folder: str) -> _ListedFiles:
        found = self._found.get(folder)
        return found if found is not None else self._keep(folder, self._store.list(folder))

    def _keep(self, partition_path: str, entries: Iterable[FileInfo]) -> _ListedFiles:
        files, others = [], []
        for entry in entries:
            name = find_data_file_name(entry.name)
            if name is not None:
                files.append(listed_file(entry, name))
            elif not entry.is_dir:
                others.append(entry.name)
        change_data = [file for file in files if is_change_data(file.name)]
        found = _ListedFiles(group_files(files), change_data, others)
        with self._lock:
            return self._found.setdefault(partition_path, found)


def visit_partitions(store: Store, take: Callable[[str, Sequence[FileInfo]], None]) -> None:
    """List the folders of a table, and tell of each partition its path and its entries.

    A folder with the metadata file of a partition has no partitions below it.

    Raises:
        StorageError: the store failed.
    """

    def visit(folder: str, entries: Sequence[FileInfo]) -> Sequence[FileInfo]:
        if not has_metafile(entries):
            return entries
        take(folder, entries)
        return ()

    walk_folders(store, store.list, visit)


def walk_folders(
    store: Store,
    list_folder: Callable[[str], Sequence[FileInfo]],
    visit: Callable[[str, Sequence[FileInfo]], Sequence[FileInfo]],
) -> None:
    """List the folders of a table level by level, those of one level side by side.

    Passed over is each metadata folder, as Hudi has it: also that of a table within the table.

    A link out of the table may be a partition that was moved away. Such a link is listed, which
    raises, so that the rows of the partition are not passed over.

    Args:
        store: The table's files.
        list_folder: Lists one folder.
        visit: Takes a folder and its entries; returns the entries to look for folders among.
    """
    level = [""]
    while level:
        listings = map_in_threads(list_folder, level, waiting_count(store))
        level = [
            entry.path
            for folder, entries in zip(level, listings, strict=True)
            for entry in visit(folder, entries)
            if (entry.is_dir or entry.fault == "leads out") and entry.name != METADATA_FOLDER
        ]


def listed_file(entry: FileInfo, name: BaseFileName | LogFileName) -> DataFile:
    """Return the data file that an entry of a partition is; a lost file has no size.

    A link to nothing and a folder with the name of a data file are lost files.
    """
    is_lost = entry.is_dir or entry.fault == "leads nowhere"
    return DataFile(entry.path, name, None if is_lost else entry.size)
