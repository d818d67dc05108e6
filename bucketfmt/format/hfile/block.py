"""Blocks of an HFile: a header of 33 bytes, a compressed payload, checksums.

Pure. Source: HFileBlock, HFileBlockType; HBase's HFileBlock.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, cast

from bucketfmt.errors import ChecksumError, CorruptError, TruncatedError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import DEFAULT_LIMITS, Limits

try:
    from isal import isal_zlib as zlib
    from isal.igzip import IGzipFile as GzipFile

    _LEVEL = 1
except ImportError:  # ISA-L has no wheel for this kind of machine, and zlib reads the same bytes
    import zlib  # type: ignore[no-redef]
    from gzip import GzipFile  # type: ignore[assignment]

    _LEVEL = 3

__all__ = [
    "HEADER_BYTES",
    "BlockType",
    "Codec",
    "HFileBlock",
    "StoredBlock",
    "encode_block",
    "join_contents",
    "read_block",
]

HEADER_BYTES = 33
_BYTES_PER_CHECKSUM = 16_384
_CHECKSUM_BYTES = 4
_HEADER = struct.Struct(">8siiqbii")
_GZIP_WBITS = 31  # a gzip member: header, deflate, CRC-32, length
_GZIP_SYSTEM, _UNKNOWN_SYSTEM = 9, 0xFF  # as Java names the operating system
_GZIP_SIZE_BYTES = 4  # at the end of a gzip member: how many bytes it holds
_GZIP_RATIO_MAX = 1032  # a match of deflate, two bits, stands for at most 258 bytes
_NO_PREVIOUS = -1
_GzipError = cast("type[Exception]", zlib.error)  # ISA-L's stub calls the class an instance


class BlockType(Enum):
    """What a block holds, by its first eight bytes."""

    DATA = b"DATABLK*"
    META = b"METABLKc"
    ROOT_INDEX = b"IDXROOT2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    LEAF_INDEX = b"IDXLEAF2"
    FILE_INFO = b"FILEINF2"


_TYPES: Mapping[bytes, BlockType] = {each.value: each for each in BlockType}


class Codec(IntEnum):
    """How the blocks of a file are compressed, as the trailer says."""

    GZ = 1
    NONE = 2


class _ChecksumType(IntEnum):
    NULL = 0
    CRC32 = 1
    CRC32C = 2


_NOT_COMPARED = (_ChecksumType.NULL, _ChecksumType.CRC32C)


@dataclass(frozen=True)
class HFileBlock:
    """One block.

    Attributes:
        type: What the block holds.
        offset: Where the block begins in the file.
        end: Where the block ends in the file, its checksums included.
        content: The payload, decompressed.
    """

    type: BlockType
    offset: int
    end: int
    content: bytes


class StoredBlock(NamedTuple):
    """One block, its payload as the file has it.

    Attributes:
        type: What the block holds.
        offset: Where the block begins in the file.
        end: Where the block ends in the file, its checksums included.
        codec: How the payload is compressed.
        payload: The payload; its checksums were compared.
        num_bytes: How many bytes the content has, as the header says.
    """

    type: BlockType
    offset: int
    end: int
    codec: Codec
    payload: memoryview
    num_bytes: int

    def decoded(self) -> HFileBlock:
        """Return the block with its content.

        Raises:
            ChecksumError: the payload is not what its checksum covers.
            TruncatedError: the payload ends early.
            CorruptError: the payload holds another number of bytes than the header says.
        """
        content = _decompress(self.payload, self.codec, self.num_bytes, self.offset)
        return HFileBlock(self.type, self.offset, self.end, content)


def read_block(
    data: Buffer,
    codec: Codec,
    *,
    at: int = 0,
    file_offset: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> StoredBlock:
    """Return the block that begins at `data[at]`, its payload as it is.

    A gzip member carries a CRC-32 of its content, which is compared when the payload is
    decompressed. CRC-32 checksums of the block are compared here. CRC-32C checksums, which HBase's
    writer adds, are not: they cover what the gzip member's own CRC-32 covers, and NumPy would take
    longer for them than for the entries.

    Args:
        data: Some bytes of a file.
        codec: How the payload is compressed.
        at: Where the block begins in `data`.
        file_offset: Where `data` begins in the file.
        limits: Bounds on what is allocated.

    Raises:
        CorruptError: the bytes are no block.
        ChecksumError: the payload is not what a checksum of the block covers.
        TruncatedError: `data` ends inside the block.
        UnsupportedError: the block is of a type that Hudi does not write.
        LimitError: the content is larger than `hfile_block_bytes_max`.
    """
    view = data if isinstance(data, memoryview) else memoryview(data).cast("B")
    offset = at + file_offset
    header = view[at : at + HEADER_BYTES]
    if len(header) < HEADER_BYTES:
        raise TruncatedError("the header of an HFile block ends early", offset=offset)
    magic, on_disk, uncompressed, _, checksum_type, chunk, with_header = _HEADER.unpack(header)
    block_type = _TYPES.get(magic)
    if block_type is None:
        if magic[:7].isalnum() and magic.isascii():
            raise UnsupportedError(
                f"an HFile block of type {magic.decode()}; read the table with Hudi"
            )
        raise CorruptError("no HFile block begins here", offset=offset)
    limits.check("hfile_block_bytes_max", max(uncompressed, 0))
    size = with_header - HEADER_BYTES
    if uncompressed < 0 or not 0 <= size <= on_disk:
        raise CorruptError("the sizes in the header of an HFile block disagree", offset=offset)
    start, end = at + HEADER_BYTES, at + HEADER_BYTES + on_disk
    if end > len(view):
        raise TruncatedError("the payload of an HFile block ends early", offset=offset)
    payload = view[start : start + size]
    if checksum_type not in _NOT_COMPARED:
        _check_checksums(header, payload, view[start + size : end], checksum_type, chunk, offset)
    return StoredBlock(block_type, offset, end + file_offset, codec, payload, uncompressed)


def join_contents(blocks: Sequence[StoredBlock], padding: int) -> bytes:
    """Return the contents of blocks one after the other, and zeros behind them.

    The members of several blocks are one gzip stream, which is decompressed by one call: other
    threads work meanwhile, where a call a block had each wait for the interpreter lock.

    Args:
        blocks: What is decompressed.
        padding: How many zeros follow.

    Raises:
        CorruptError: as `StoredBlock.decoded`, for the first block that is damaged.
    """
    if len(blocks) > 1 and all(_may_join(block) for block in blocks):
        wanted = sum(block.num_bytes for block in blocks) + padding
        end = gzip.compress(bytes(padding))
        members = io.BytesIO(b"".join([*(block.payload for block in blocks), end]))
        with suppress(EOFError, OSError, _GzipError):
            stream = GzipFile(fileobj=members)  # type: ignore[no-untyped-call]
            contents = stream.read(wanted)
            if len(contents) == wanted and not stream.read(1):
                return contents
    # one by one, which says which one is damaged
    return b"".join([*(block.decoded().content for block in blocks), bytes(padding)])


def _may_join(block: StoredBlock) -> bool:
    """Whether a member says the size that its block says, which its bytes can hold."""
    own = block.payload
    return (
        block.codec is Codec.GZ
        and block.num_bytes <= _GZIP_RATIO_MAX * len(own)
        and block.num_bytes == int.from_bytes(own[-_GZIP_SIZE_BYTES:], "little")
    )


def _check_checksums(
    header: memoryview, payload: memoryview, checksums: memoryview, kind: int, chunk: int, at: int
) -> None:
    """Compare CRC-32 checksums, of the header and the payload in chunks."""
    if kind != _ChecksumType.CRC32:
        raise CorruptError(f"an HFile block with checksums of type {kind}", offset=at)
    covered = bytes(header) + bytes(payload)
    if chunk <= 0 or len(checksums) != _CHECKSUM_BYTES * -(-len(covered) // chunk):
        raise CorruptError("an HFile block with another number of checksums", offset=at)
    for number, start in enumerate(range(0, len(covered), chunk)):
        stored = checksums[number * _CHECKSUM_BYTES : (number + 1) * _CHECKSUM_BYTES]
        if zlib.crc32(covered[start : start + chunk]) != int.from_bytes(stored, "big"):
            raise ChecksumError(
                "an HFile block differs from its checksum; restore the file", offset=at
            )


def _decompress(payload: memoryview, codec: Codec, size: int, at: int) -> bytes:
    if codec is Codec.NONE:
        if len(payload) != size:
            raise CorruptError("the sizes in the header of an HFile block disagree", offset=at)
        return bytes(payload)
    engine = zlib.decompressobj(_GZIP_WBITS)
    try:
        content = engine.decompress(payload, size + 1)
    except _GzipError as error:
        raise ChecksumError(
            f"the payload of an HFile block does not decompress ({error}); restore the file",
            offset=at,
        ) from None
    if not engine.eof and len(content) <= size:
        raise TruncatedError("the payload of an HFile block ends early", offset=at)
    if len(content) != size or engine.unused_data:
        raise CorruptError(
            f"the payload of an HFile block is not the {size} bytes that its header says", offset=at
        )
    return content


def encode_block(block_type: BlockType, content: Buffer, codec: Codec) -> bytes:
    """Return a block as Hudi's own writer lays it out: checksums of type NULL, all zero.

    ISA-L at level 1 compresses records of a record index in a tenth of the time of zlib at its
    default of 6, which Hudi takes, to as many bytes; level 2 takes a tenth longer, for a hundredth
    less or more. Without ISA-L, zlib's level of 3 takes two thirds of zlib's time for a twentieth
    more bytes.
    """
    block = bytearray(HEADER_BYTES)
    if codec is Codec.GZ:
        engine = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WBITS)
        block += engine.compress(content)
        block += engine.flush()
        block[HEADER_BYTES + _GZIP_SYSTEM] = _UNKNOWN_SYSTEM
    else:
        block += content
    with_header = len(block)
    block += bytes(_CHECKSUM_BYTES * -(-with_header // _BYTES_PER_CHECKSUM))
    _HEADER.pack_into(
        block,
        0,
        block_type.value,
        len(block) - HEADER_BYTES,
        len(memoryview(content)),
        _NO_PREVIOUS,
        _ChecksumType.NULL,
        _BYTES_PER_CHECKSUM,
        with_header,
    )
    return bytes(block)
