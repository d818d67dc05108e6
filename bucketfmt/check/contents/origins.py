"""What rows say of the file and the partition they are in, against where they are. T002.

Pure. Each row of a base file holds the file's own name and the partition path, whatever the write
that made the file did to the row (HoodieWriteHandle, HoodieMergeHandle.writeToFile). So a file
that was restored from an older copy, or put in the place of another, is found, though it is sound
in itself and as long as its commit recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.check.report import Finding
from bucketfmt.errors import CorruptError
from bucketfmt.format.log.delete_records import DeleteBlock
from bucketfmt.format.names.names import parse_base_file_name
from bucketfmt.rows.columns.meta_columns import FILE_NAME, PARTITION_PATH
from bucketfmt.rows.row_ranges import RowGroupRanges
from bucketfmt.snapshot.data_files.files import DataFile

__all__ = [
    "ORIGIN_COLUMNS",
    "count_without_partition_path",
    "find_displaced_base_file",
    "find_displaced_deletes",
    "find_displaced_rows",
]

ORIGIN_COLUMNS = (PARTITION_PATH, FILE_NAME)
"""The columns of a base file that say where it belongs."""


def find_displaced_base_file(
    file: DataFile, partition_path: str, ranges: Sequence[RowGroupRanges]
) -> Iterator[Finding]:
    """Yield T002 for a base file with rows of another partition, or whose rows are of another file.

    A file without statistics is passed over. Until Hudi 0.13 rows
    that a rewrite kept named the file before, so only rows that agree on another file count, and
    an older file of the same group is a warning.

    Args:
        file: The file.
        partition_path: Of the folder that it is in.
        ranges: What its statistics say of `ORIGIN_COLUMNS`.
    """
    own = str(file.name)
    name = _only_value(ranges, FILE_NAME)
    bounds = sorted(_bounds(ranges, PARTITION_PATH))
    others = [bound for bound in bounds if not partition_path.startswith(bound)]
    if others:
        yield _displaced(file, partition_path, f"it has rows of partition {others[0][:200]!r}")
    elif name is not None and name != own:
        try:
            is_older = parse_base_file_name(name).file_id == file.name.file_id
        except CorruptError:
            return  # no name of a file: nobody knows what that says
        finding = _displaced(file, partition_path, f"its rows are of file {name[:200]}")
        if is_older:
            yield Finding.of(
                "T002",
                finding.evidence,
                partition=partition_path,
                paths=finding.paths,
                instants=finding.instants,
                severity="warning",
            )
        else:
            yield finding


def find_displaced_rows(file: DataFile, partition_path: str, rows: pa.Table) -> Iterator[Finding]:
    """Yield T002 for rows of a log block that are of another partition."""
    if PARTITION_PATH not in rows.column_names:
        return
    paths = pc.unique(rows.column(PARTITION_PATH).drop_null())
    for path in paths.to_pylist():
        if path != partition_path:
            yield _displaced(file, partition_path, f"it has rows of partition {path[:200]!r}")
            return


def find_displaced_deletes(
    file: DataFile, partition_path: str, deletes: DeleteBlock
) -> Iterator[Finding]:
    """Yield T002 for a delete block with keys of another partition. Null and "" tell nothing."""
    for path in set(deletes.partition_paths):
        if path and path != partition_path:
            yield _displaced(file, partition_path, f"it has deletes of partition {path[:200]!r}")
            return


def _displaced(file: DataFile, partition_path: str, evidence: str) -> Finding:
    return Finding.of(
        "T002",
        evidence + ": the file was put in the place of another, or restored from a wrong copy",
        partition=partition_path,
        paths=[file.path],
        instants=[file.name.instant],
    )


def count_without_partition_path(ranges: Iterable[RowGroupRanges]) -> int:
    """Return how many rows have no partition path, as far as the statistics of a file tell."""
    found = (group.columns.get(PARTITION_PATH) for group in ranges)
    return sum(each.null_count or 0 for each in found if each is not None)


def _only_value(ranges: Iterable[RowGroupRanges], column: str) -> str | None:
    """Return the text that all rows have in a column; None where they differ or nothing tells."""
    bounds = _bounds(ranges, column)
    return bounds.pop() if len(bounds) == 1 else None


def _bounds(ranges: Iterable[RowGroupRanges], column: str) -> set[str]:
    """Return the least and the greatest texts of a column in each row group, perhaps cut short."""
    found = [group.columns.get(column) for group in ranges]
    bounds = {bound for each in found if each is not None for bound in (each.low, each.high)}
    return {bound for bound in bounds if isinstance(bound, str)}
