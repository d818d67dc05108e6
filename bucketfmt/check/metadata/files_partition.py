"""The files that the metadata table lists, and those that are there. M001.

Pure: what is listed here and there goes in, findings come out. Hudi's readers take the metadata
table's word for which files a partition has and how large they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from bucketfmt.check.report import Finding
from bucketfmt.format.metadata.metadata_records import FileEntry
from bucketfmt.format.names.names import BaseFileName
from bucketfmt.format.names.paths import join_path
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice

__all__ = ["PartitionFilesView", "find_file_differences", "find_partition_differences"]

_SHOWN = 3


@dataclass(frozen=True)
class PartitionFilesView:
    """The files of one partition, as the folder and as the metadata table list them.

    Attributes:
        partition_path: The partition.
        folder: The data files of the folder, by file id.
        change_data: The CDC log files of the folder.
        slices: What readers see who list folders.
        entries: The record of the metadata table; None where it has no record of the partition.
    """

    partition_path: str
    folder: Mapping[str, Sequence[DataFile]]
    change_data: Sequence[DataFile]
    slices: Sequence[FileSlice]
    entries: Mapping[str, FileEntry] | None


def find_file_differences(
    view: PartitionFilesView,
    committed: Collection[str],
    table_version: int,
    behind: Collection[str],
    doomed: Collection[str],
) -> Iterator[Finding]:
    """Yield M001 for files that one of the two listings does not have, and for other sizes.

    Args:
        view: The two listings.
        committed: The paths that completed writes of the active timeline name, and until version 6
            those of the log files that its rollbacks and restores have added.
        table_version: 6, 8 or 9.
        behind: Instants that the metadata table does not know, and the paths of the files that
            their commits name; M004 tells of them.
        doomed: Names of files that a clean which is under way deletes.
    """
    path, known = view.partition_path, view.entries or {}
    there = {_name(file): file for file in chain(*view.folder.values(), view.change_data)}
    # Before version 8 the name of a log file does not tell whether its write was committed.
    seen = {
        _name(file)
        for file_slice in view.slices
        for file in file_slice.files
        if table_version >= 8 or isinstance(file.name, BaseFileName) or file.written is not None
    }
    unlisted = [
        file
        for name, file in sorted(there.items())
        if (name not in known or known[name].is_deleted)
        and (name in seen or file.path in committed)
        and file.path not in behind
        and file.name.instant not in behind
        and name not in doomed
    ]
    if unlisted:
        yield Finding.of(
            "M001",
            f"{len(unlisted)} files of completed commits are not in the metadata table, whose "
            f"readers miss their rows: {_few(map(_name, unlisted))}",
            partition=path,
            paths=[file.path for file in unlisted],
            instants=[file.name.instant for file in unlisted],
            data_loss=any(_name(file) in seen for file in unlisted),
        )
    lost = [
        name
        for name, entry in sorted(known.items())
        if not entry.is_deleted and name not in there and name not in doomed
    ]
    if lost:
        yield Finding.of(
            "M001",
            f"{len(lost)} files are in the metadata table and not there; its readers fail where "
            f"they open one: {_few(lost)}",
            partition=path,
            paths=sorted({join_path(path, _without_url(name)) for name in lost}),
        )
    wrong = [
        file
        for name, file in sorted(there.items())
        if name in known
        and not known[name].is_deleted
        and _is_other_size(file, known[name].size, table_version)
    ]
    if wrong:
        shown = ", ".join(
            f"{_name(file)!r} has {file.size} bytes and {known[_name(file)].size} in the metadata "
            "table"
            for file in wrong[:_SHOWN]
        )
        yield Finding.of(
            "M001",
            f"{len(wrong)} files are of another size than the metadata table says: {shown}",
            partition=path,
            paths=[file.path for file in wrong],
        )


def find_partition_differences(
    present: Iterable[str], listed: Collection[str], behind: bool
) -> Iterator[Finding]:
    """Yield M001 for partitions with committed files that the list of partitions does not have.

    Args:
        present: Partition paths with files that readers see.
        listed: Partition paths of the metadata table's record of partitions.
        behind: Whether M004 tells that commits are missing in the metadata table.
    """
    unlisted = [] if behind else sorted(set(present) - set(listed))
    for path in unlisted:
        yield Finding.of(
            "M001",
            f"the partition {path!r} is not in the metadata table's list of partitions, and its "
            "readers miss all rows of the partition",
            partition=path,
        )


def _name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]


def _without_url(name: str) -> str:
    """Return a name of the metadata table without the part of a URL that Hudi left in it."""
    return name.rpartition("/")[2]


def _is_other_size(file: DataFile, listed: int, table_version: int) -> bool:
    """Whether the sizes disagree. Before version 8 a failed append makes a log file longer."""
    if file.size is None:
        return False
    if isinstance(file.name, BaseFileName) or table_version >= 8:
        return file.size != listed
    return file.size < listed


def _few(names: Iterable[str]) -> str:
    every = list(names)
    shown = ", ".join(repr(name) for name in every[:_SHOWN])
    return shown + (", ..." if len(every) > _SHOWN else "")
