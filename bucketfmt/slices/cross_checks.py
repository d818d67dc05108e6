"""What commits recorded, against what files hold: finds damage that still decodes.

Pure. Log blocks and timeline files carry no checksum, so a flipped bit in a column's name or
in a block's instant reads as another column or another instant. But much of what they say is
said twice, by the block and by the commit that wrote it (docs/decisions/0007).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from itertools import chain

import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.log.log_block import HeaderKey, LogBlock
from bucketfmt.limits import Limits
from bucketfmt.rows.avro.row_blocks import count_avro_rows
from bucketfmt.rows.columns.meta_columns import META_COLUMNS, OPERATION
from bucketfmt.rows.row_file import ROW_FILE_BLOCKS, open_row_block
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.schema import without_meta

__all__ = [
    "check_block_columns",
    "check_counts",
    "check_file_columns",
    "count_rows",
    "find_left_out",
    "find_nullability_changes",
]

_OWN_COLUMNS = frozenset({*META_COLUMNS, OPERATION})


def count_rows(block: LogBlock, limits: Limits) -> int:
    """Return the rows of a data block that was decoded before, so that its count is proved.

    Raises:
        CorruptError: the content is damaged.
    """
    if block.block_type in ROW_FILE_BLOCKS:
        return open_row_block(block, limits).num_rows
    return count_avro_rows(block, limits)


def find_left_out(blocks: Iterable[LogBlock], merged: Iterable[LogBlock]) -> set[str]:
    """Return the instants that a slice has no block of to merge, since log compaction rewrote them.

    A log compaction is among them that another one covers, or that covers nothing in the slice
    (spec LOG-22).

    Args:
        blocks: All of the slice.
        merged: Those that take part.
    """
    covers = {
        block.instant_time: block.header[HeaderKey.COMPACTED_BLOCK_TIMES].split(",")
        for block in blocks
        if HeaderKey.COMPACTED_BLOCK_TIMES in block.header
    }
    taking_part = {block.instant_time for block in merged}
    return {*chain.from_iterable(covers.values()), *(covers.keys() - taking_part)}


def check_counts(
    file_slice: FileSlice,
    left_out: Container[str],
    rows: Counter[str],
    deletes: Counter[str],
    is_wanted: Callable[[str], bool],
) -> None:
    """Check that the log of a slice holds all rows and deletes that its commits recorded.

    Counted over the file group, since Flink records the rows of several files for the last of
    them, and a writer that starts a new file counts deletes before it writes them. More than
    recorded is no damage: a task that was run again leaves its rows twice.

    Args:
        file_slice: Its log files say what was recorded.
        left_out: Instants of which blocks are left out for log compaction: see `find_left_out`.
        rows: By instant, what was decoded of the blocks that take part.
        deletes: Likewise.
        is_wanted: Whether the blocks of an instant were to take part.

    Raises:
        CorruptError: some are missing.
    """
    recorded_rows: Counter[str] = Counter()
    recorded_deletes: Counter[str] = Counter()
    for file in file_slice.log_files:
        for counts in file.written.counts if file.written else ():
            if counts.requested_time not in left_out and is_wanted(counts.requested_time):
                recorded_rows[counts.requested_time] += counts.rows
                recorded_deletes[counts.requested_time] += counts.deletes
    short = next((file for file in file_slice.log_files if file.is_short), None)
    for what, recorded, found in (
        ("rows", recorded_rows, rows),
        ("deletes", recorded_deletes, deletes),
    ):
        for instant, number in recorded.items():
            if found[instant] < number:
                error = CorruptError(
                    f"file group {file_slice.file_id}: commit {instant} recorded {number} {what} "
                    f"in its log, and {found[instant]} are there; restore the log files"
                )
                raise short.explained(error) if short is not None else error
    if short is not None and not (recorded_rows.total() or recorded_deletes.total()):
        raise short.explained(CorruptError("no commit recorded how many rows it holds"))


def check_block_columns(stored: pa.Schema, stated: pa.Schema | None) -> None:
    """Check that the columns of a data block are among those its commit states, of those types.

    `stated` is without Hudi's own columns; None where the commit's metadata is gone.

    Raises:
        CorruptError: they are not.
    """
    if stated is None:
        return
    for field in without_meta(stored):
        index = stated.get_field_index(field.name)
        if index < 0 or not stated.field(index).type.equals(field.type):
            raise _unknown(f"{field.name!r} of type {field.type}")


def check_file_columns(stored: pa.Schema, stated: pa.Schema) -> None:
    """Check that the columns of a base file, nested ones too, are among those its commit states.

    Of types, those whose bytes would read as other values count: parquet knows some, such as
    shorts, that Avro does not.

    Raises:
        CorruptError: they are not.
    """
    _check_fields(pa.struct(list(without_meta(stored))), pa.struct(list(stated)), "")


def find_nullability_changes(stored: pa.Schema, stated: pa.Schema) -> list[str]:
    """Return the columns of which a base file says that they may be null, or not, as no one else.

    Hudi's own columns may be null. A damaged repetition type looks like this.
    """
    return [
        field.name
        for field in stored
        if field.nullable != (field.name in _OWN_COLUMNS or stated.field(field.name).nullable)
    ]


def _check_fields(stored: pa.DataType, stated: pa.DataType, path: str) -> None:
    if pa.types.is_struct(stored) and pa.types.is_struct(stated):
        for field in stored:
            index = stated.get_field_index(field.name)
            if index < 0:
                raise _unknown(repr(f"{path}{field.name}"))
            _check_fields(field.type, stated.field(index).type, f"{path}{field.name}.")
    elif pa.types.is_list(stored) and pa.types.is_list(stated):
        _check_fields(stored.value_type, stated.value_type, f"{path}element.")
    elif pa.types.is_map(stored) and pa.types.is_map(stated):
        _check_fields(stored.item_type, stated.item_type, f"{path}value.")
    elif not stored.equals(stated) and not _reads_alike(stored, stated):
        raise _unknown(f"{path.removesuffix('.')!r} of type {stored}")


def _reads_alike(stored: pa.DataType, stated: pa.DataType) -> bool:
    """Whether a parquet file may have this type for a column whose commit states the other."""
    types = pa.types
    if types.is_integer(stated):
        return bool(types.is_integer(stored) and stored.bit_width <= stated.bit_width)
    if types.is_string(stated) or types.is_binary(stated) or types.is_fixed_size_binary(stated):
        return bool(not types.is_primitive(stored) and not types.is_nested(stored))
    if types.is_temporal(stated):
        return bool(types.is_temporal(stored) or types.is_integer(stored))
    return False


def _unknown(column: str) -> CorruptError:
    return CorruptError(
        f"column {column} is not in the schema of the commit that wrote it: the file or the "
        "commit is damaged; restore it"
    )
