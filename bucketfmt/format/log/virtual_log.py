"""The block of a virtual log: it stands for the blocks of other log files (RFC-42).

Pure. While a resize is pending, rows are written to the file groups to come alone, and the log of
the file group that readers see gets a block that names the log files with the rows. The block is
an extension: it is a command block of a type that no release of Hudi knows, so that Hudi's readers
fail on the block, where they would miss rows if they passed over it. Spec: VLOG-1 to VLOG-5.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.json_text import decode_unambiguous_json
from bucketfmt.format.encoding.struct_types import prepare_to_decode
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock, encode_log_block
from bucketfmt.format.names.names import LogFileName, find_data_file_name
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "VIRTUAL_LOG",
    "PointedFile",
    "VirtualLog",
    "decode_virtual_log",
    "encode_virtual_log",
    "is_virtual_log",
]

VIRTUAL_LOG = "42"
"""The `COMMAND_BLOCK_TYPE` of the block."""


@dataclass(frozen=True, slots=True)
class PointedFile:
    """A log file that the block stands for, whole.

    Attributes:
        name: Of the file, which is in the partition of the virtual log.
        size: Bytes of the file.
    """

    name: LogFileName
    size: int


@dataclass(frozen=True, slots=True)
class VirtualLog:
    """What the block says.

    Attributes:
        instant: The requested time of the write.
        resize: The requested time of the pending resize, which the log files bear.
        files: The log files, in the order in which their blocks are merged.
    """

    instant: str
    resize: str
    files: tuple[PointedFile, ...]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    size: int


class _Content(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    log_files: list[_File]


prepare_to_decode(_Content)


def is_virtual_log(block: LogBlock) -> bool:
    """Whether a block stands for blocks of other log files."""
    is_command = block.block_type is BlockType.COMMAND
    return is_command and block.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == VIRTUAL_LOG


def encode_virtual_log(log: VirtualLog) -> bytes:
    """Return the block."""
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: log.instant,
        HeaderKey.COMMAND_BLOCK_TYPE: VIRTUAL_LOG,
        HeaderKey.TARGET_INSTANT_TIME: log.resize,
    }
    content = _Content([_File(str(file.name), file.size) for file in log.files])
    return encode_log_block(BlockType.COMMAND, header, msgspec.json.encode(content))


def decode_virtual_log(block: LogBlock, limits: Limits = DEFAULT_LIMITS) -> VirtualLog:
    """Return what the block of a virtual log says.

    Args:
        block: A block of `is_virtual_log`.
        limits: Bounds on what is read.

    Raises:
        CorruptError: the content is damaged, or names a file that no write makes for the resize.
        LimitError: the content is too large.
    """
    limits.check("log_header_value_bytes_max", len(block.content))
    instant, resize = block.instant_time, block.target_instant_time
    try:
        what = "the content of a virtual log"
        content = decode_unambiguous_json(block.content, _Content, what)
        files = tuple(_parse_file(file, resize) for file in content.log_files)
        if not files or len({file.name for file in files}) < len(files):
            raise CorruptError(f"{what} names no log file, or names one twice; restore the file")
    except CorruptError as error:
        error.offset = block.content_offset
        raise
    return VirtualLog(instant, resize, files)


def _parse_file(file: _File, resize: str) -> PointedFile:
    name = find_data_file_name(file.name)
    if not isinstance(name, LogFileName) or name.is_cdc or name.instant != resize or file.size < 1:
        raise CorruptError(
            f"a virtual log for the resize of {resize} names {file.name[:200]!r} of {file.size} "
            "bytes, which is no log file of that resize; restore the file"
        )
    return PointedFile(name, file.size)
