"""What lies in a partition and is no file of the table that readers open. T004, T008, T009.

Pure. Such a thing changes no row, so what Hudi may have left is only mentioned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from bucketfmt.check.report import Finding
from bucketfmt.format.names.layout import is_hashing_marker_name, is_partition_metafile_name
from bucketfmt.format.names.names import LogFileName
from bucketfmt.format.names.paths import join_path
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice
from bucketfmt.storage.store import EntryFault, FileInfo

__all__ = ["find_faulty_entries", "find_foreign_files", "find_log_files_in_cow"]

_FAULTS: Mapping[EntryFault, str] = {
    "leads nowhere": "a symbolic link to nothing",
    "leads out": "a symbolic link out of the table, which is not followed",
    "is no file": "neither a file nor a folder",
}
_OWN_SUFFIXES = (
    ".crc",  # Hadoop's checksum of the file beside it
    ".cdc",  # change data, which a snapshot does not read
)


def find_log_files_in_cow(
    partition_path: str,
    slices: Sequence[FileSlice],
    listed: Mapping[str, Sequence[DataFile]],
    told: Collection[str],
) -> Iterator[Finding]:
    """Yield T004 for the log files of a copy-on-write table.

    An error for those in the file slices to read, whose rows readers of such a table miss; `info`
    for the others.

    Args:
        partition_path: The partition.
        slices: What readers see.
        listed: The data files by file id.
        told: Paths that another finding is about, for the others.
    """
    missed = [file for file_slice in slices for file in file_slice.log_files]
    if missed:
        yield Finding.of(
            "T004",
            f"{len(missed)} log files in the file slices to read",
            partition=partition_path,
            paths=[file.path for file in missed],
            instants=[file.name.instant for file in missed],
        )
    read = {file.path for file in missed}
    unread = [
        file
        for files in listed.values()
        for file in files
        if isinstance(file.name, LogFileName) and file.path not in read and file.path not in told
    ]
    if unread:
        yield Finding.of(
            "T004",
            f"{len(unread)} log files that no reader opens",
            partition=partition_path,
            paths=[file.path for file in unread],
            instants=[file.name.instant for file in unread],
            severity="info",
            fix="None needed; where the table was never MERGE_ON_READ, delete them after a backup.",
            data_loss=False,
        )


def find_faulty_entries(
    partition_path: str, entries: Iterable[FileInfo], told: Collection[str]
) -> Iterator[Finding]:
    """Yield T008 for entries of a partition that cannot be read. Arguments as before."""
    for entry in entries:
        if entry.path not in told:
            what = _FAULTS[entry.fault] if entry.fault is not None else "a folder"
            yield Finding.of("T008", what, partition=partition_path, paths=[entry.path])


def find_foreign_files(partition_path: str, names: Iterable[str]) -> Iterator[Finding]:
    """Yield T009 for files of a partition that are neither data files nor Hudi's own."""
    foreign = sorted(
        name
        for name in names
        if not (
            is_partition_metafile_name(name)
            or is_hashing_marker_name(name)  # which Hudi 0.15 puts beside the data
            or name.endswith(_OWN_SUFFIXES)
        )
    )
    if foreign:
        yield Finding.of(
            "T009",
            f"{len(foreign)} files: "
            + ", ".join(repr(name[:80]) for name in foreign[:3])
            + (", ..." if len(foreign) > 3 else ""),
            partition=partition_path,
            paths=[join_path(partition_path, name) for name in foreign],
        )
