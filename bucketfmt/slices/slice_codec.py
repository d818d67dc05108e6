"""A file slice, or a part of it, as few bytes, for sending it to another process. Pure.

MessagePack, decoded by type: nothing in it makes an object of a class that it names. What a
path, a file id or an instant repeats of the file's name is left out.
"""

from __future__ import annotations

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.names import BaseFileName, find_data_file_name
from bucketfmt.format.names.paths import join_path
from bucketfmt.slices.slice_parts import WHOLE, SlicePart
from bucketfmt.snapshot.data_files.files import DataFile, FileSlice, RecordedCounts, WrittenFile

__all__ = ["decode_part", "decode_slice", "encode_slice"]

_Counts = tuple[str, int, int]


class _Recorded(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What commits recorded of a file."""

    size: int
    spans: tuple[tuple[int, int], ...] = ()
    counts: tuple[_Counts, ...] = ()


class _File(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A file; `folder` where that is not the slice's partition."""

    name: str
    size: int | None
    recorded: _Recorded | None = None
    folder: str | None = None


class _Slice(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    partition_path: str
    base_file: _File | None
    log_files: tuple[_File, ...] = ()
    base_instant: str | None = None  # where the base file's name does not tell
    part: tuple[int, int] | None = None  # the whole slice


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Slice)


def encode_slice(file_slice: FileSlice, part: SlicePart = WHOLE) -> bytes:
    """Return what reading a part of the slice needs; of a base file not where commits wrote."""
    base, partition_path = file_slice.base_file, file_slice.partition_path
    told = base is not None and base.name.instant == file_slice.base_instant
    return _ENCODER.encode(
        _Slice(
            partition_path,
            None if base is None else _reduce(base, partition_path),
            tuple(_reduce(file, partition_path) for file in file_slice.log_files),
            None if told else file_slice.base_instant,
            None if part == WHOLE else (part.number, part.of),
        )
    )


def decode_slice(data: bytes) -> FileSlice:
    """Return the slice that `encode_slice` made the bytes of.

    Raises:
        CorruptError: they are not such bytes.
    """
    return decode_part(data)[0]


def decode_part(data: bytes) -> tuple[FileSlice, SlicePart]:
    """Return the slice that `encode_slice` made the bytes of, and the part to read.

    Raises:
        CorruptError: they are not such bytes.
    """
    try:
        found = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptError(f"no file slice as it was sent: {error}") from None
    base = None if found.base_file is None else _restore(found.base_file, found.partition_path)
    logs = tuple(_restore(file, found.partition_path) for file in found.log_files)
    files = (*logs, base) if base is not None else logs
    if not files:
        raise CorruptError("no file slice as it was sent: it has no file")
    part = WHOLE if found.part is None else SlicePart(*found.part)
    if not 0 <= part.number < part.of:
        raise CorruptError(f"no file slice as it was sent: part {part.number} of {part.of}")
    instant = found.base_instant or files[-1].name.instant
    return FileSlice(found.partition_path, files[-1].name.file_id, instant, base, logs), part


def _reduce(file: DataFile, partition_path: str) -> _File:
    recorded = None
    if file.written is not None:
        if isinstance(file.name, BaseFileName):
            recorded = _Recorded(file.written.size)
        else:
            counts = tuple((c.requested_time, c.rows, c.deletes) for c in file.written.counts)
            recorded = _Recorded(file.written.size, file.written.spans, counts)
    folder, _, name = file.path.rpartition("/")
    return _File(name, file.size, recorded, None if folder == partition_path else folder)


def _restore(file: _File, partition_path: str) -> DataFile:
    name = find_data_file_name(file.name)
    if name is None:
        raise CorruptError(f"no file slice as it was sent: {file.name!r} is no data file")
    path = join_path(partition_path if file.folder is None else file.folder, file.name)
    written = None
    if file.recorded is not None:
        counts = tuple(RecordedCounts(*recorded) for recorded in file.recorded.counts)
        written = WrittenFile(path, name, file.recorded.size, file.recorded.spans, counts)
    return DataFile(path, name, file.size, written)
