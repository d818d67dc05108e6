"""The trailer of an HFile, its last 4,096 bytes, and its file info.

Pure. Source: HFileTrailer, HFileInfo, HFile.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.hfile.block import Codec
from bucketfmt.format.hfile.variable_length import decode_message, encode_varint
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = [
    "TRAILER_BYTES",
    "HFileTrailer",
    "decode_file_info",
    "decode_trailer",
    "encode_file_info",
    "encode_trailer",
]

TRAILER_BYTES = 4096
_MAGIC = b'TRABLK"$'
_VERSION = b"\x00\x00\x00\x03"
_NO_BLOCK = (1 << 64) - 1  # -1 in 64 bits
_MAJOR_VERSION = 3
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_PROTOBUF_MAGIC = b"PBUF"
_CODEC_NAMES = {0: "LZO", 3: "SNAPPY", 4: "LZ4", 5: "BZIP2", 6: "ZSTD"}

# Numbers of fields in HFile.proto
_FILE_INFO, _LOAD_ON_OPEN, _UNCOMPRESSED_BYTES, _TOTAL_BYTES, _DATA_INDEX, _META_INDEX = range(1, 7)
_ENTRIES, _LEVELS, _FIRST_DATA, _LAST_DATA, _COMPARATOR_CLASS, _CODEC, _KEY = range(7, 14)


@dataclass(frozen=True)
class HFileTrailer:
    """Where the parts of an HFile are.

    Attributes:
        file_info_offset: Where the block with the file info begins.
        load_on_open_offset: Where the root index begins; the meta index and the file info follow.
        data_index_count: Entries of the root index.
        meta_index_count: Entries of the meta index.
        num_entries: Keys in the file.
        num_levels: Levels of the index; 1: the root index points to data blocks.
        first_data_block_offset: Where the first data block begins.
        last_data_block_offset: Where the last data block begins.
        uncompressed_bytes: Size of the data blocks, decompressed; of HBase's writer, that of the
            index. No reader needs the size.
        codec: How the blocks are compressed.
    """

    file_info_offset: int
    load_on_open_offset: int
    data_index_count: int
    meta_index_count: int
    num_entries: int
    num_levels: int
    first_data_block_offset: int
    last_data_block_offset: int
    uncompressed_bytes: int
    codec: Codec


def decode_trailer(tail: Buffer, file_bytes: int, limits: Limits = DEFAULT_LIMITS) -> HFileTrailer:
    """Return the trailer of a file.

    Args:
        tail: The last bytes of the file, 4,096 at least.
        file_bytes: Size of the file.
        limits: Bounds on what is allocated.

    Raises:
        CorruptError: the bytes are no trailer, or places in the trailer are outside of the file.
        TruncatedError: the file is shorter than a trailer.
        UnsupportedError: the file is of another major version, encrypted, or compressed by a codec
            that Hudi's own reader does not read either.
    """
    view = memoryview(tail)
    if len(view) < TRAILER_BYTES or file_bytes < len(view):
        raise CorruptError(f"{file_bytes} bytes are too few for an HFile", offset=0)
    start = file_bytes - TRAILER_BYTES
    cursor = Cursor(view[-TRAILER_BYTES:], limits=limits)
    if bytes(cursor.take(len(_MAGIC))) != _MAGIC:
        raise CorruptError("the file does not end with the trailer of an HFile", offset=start)
    major = int.from_bytes(view[-3:], "big")
    if major != _MAJOR_VERSION:
        raise UnsupportedError(f"an HFile of version {major}; read the table with Hudi")
    try:
        size = cursor.varint(what="size of the HFile trailer")
        message = Cursor(cursor.take(size, "HFile trailer"), limits=limits)
        fields = decode_message(message)
    except CorruptError as error:
        error.offset = start
        raise

    def number(field: int, default: int = 0) -> int:
        value = fields.get(field, [default])[-1]
        if not isinstance(value, int) or value >= 1 << 63:
            raise CorruptError(f"field {field} of an HFile trailer is no number", offset=start)
        return value

    def data_block(field: int) -> int:
        """Return an offset; Hudi's own writer states -1 where the file has no entries."""
        return -1 if fields.get(field, [0])[-1] == _NO_BLOCK else number(field)

    if fields.get(_KEY):
        raise UnsupportedError("an encrypted HFile; read the table with Hudi")
    trailer = HFileTrailer(
        file_info_offset=number(_FILE_INFO),
        load_on_open_offset=number(_LOAD_ON_OPEN),
        data_index_count=number(_DATA_INDEX),
        meta_index_count=number(_META_INDEX),
        num_entries=number(_ENTRIES),
        num_levels=number(_LEVELS, 1),
        first_data_block_offset=data_block(_FIRST_DATA),
        last_data_block_offset=data_block(_LAST_DATA),
        uncompressed_bytes=number(_UNCOMPRESSED_BYTES),
        codec=_find_codec(number(_CODEC, Codec.NONE)),
    )
    is_inside = trailer.load_on_open_offset <= trailer.file_info_offset < start
    if not is_inside or trailer.num_levels < 1:
        raise CorruptError("the places in an HFile trailer are outside of the file", offset=start)
    return trailer


def _find_codec(number: int) -> Codec:
    try:
        return Codec(number)
    except ValueError:
        name = _CODEC_NAMES.get(number, f"number {number}")
        raise UnsupportedError(
            f"an HFile compressed by codec {name}; Hudi's own reader has GZ and NONE only"
        ) from None


def encode_trailer(trailer: HFileTrailer) -> bytes:
    """Return the 4,096 bytes of a trailer, with the fields that Hudi's own writer sets."""
    numbers = (
        (_FILE_INFO, trailer.file_info_offset),
        (_LOAD_ON_OPEN, trailer.load_on_open_offset),
        (_UNCOMPRESSED_BYTES, trailer.uncompressed_bytes),
        (_DATA_INDEX, trailer.data_index_count),
        (_META_INDEX, trailer.meta_index_count),
        (_ENTRIES, trailer.num_entries),
        (_LEVELS, trailer.num_levels),
        (_FIRST_DATA, trailer.first_data_block_offset),
        (_LAST_DATA, trailer.last_data_block_offset),
    )
    message = b"".join(_number_field(field, value) for field, value in numbers)
    message += _bytes_field(_COMPARATOR_CLASS, _COMPARATOR)
    message += _number_field(_CODEC, trailer.codec)
    content = _MAGIC + encode_varint(len(message)) + message
    return content.ljust(TRAILER_BYTES - len(_VERSION), b"\0") + _VERSION


def decode_file_info(content: Buffer, limits: Limits = DEFAULT_LIMITS) -> dict[bytes, bytes]:
    """Return the file info: names and values that the writer of the file chose.

    Raises:
        CorruptError: the content is no file info.
    """
    cursor = Cursor(content, limits=limits)
    if bytes(cursor.take(len(_PROTOBUF_MAGIC), "HFile file info")) != _PROTOBUF_MAGIC:
        raise CorruptError("the file info of an HFile does not begin with PBUF")
    message = cursor.take(cursor.varint(what="size of the HFile file info"), "HFile file info")
    info: dict[bytes, bytes] = {}
    for pair in decode_message(Cursor(message, limits=limits)).get(1, ()):
        if isinstance(pair, int):
            raise CorruptError("an entry of an HFile's file info is a number")
        fields = decode_message(Cursor(pair, limits=limits))
        name, value = (fields.get(part, [b""])[-1] for part in (1, 2))
        if isinstance(name, int) or isinstance(value, int):
            raise CorruptError("a name or a value of an HFile's file info is a number")
        info[bytes(name)] = bytes(value)
    return info


def encode_file_info(info: Mapping[bytes, bytes]) -> bytes:
    """Return the content of the block with the file info, its names in order of their bytes."""
    pairs = b"".join(
        _bytes_field(1, _bytes_field(1, name) + _bytes_field(2, value))
        for name, value in sorted(info.items())
    )
    return _PROTOBUF_MAGIC + encode_varint(len(pairs)) + pairs


def _number_field(field: int, value: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(value)


def _bytes_field(field: int, value: bytes) -> bytes:
    return encode_varint(field << 3 | 2) + encode_varint(len(value)) + value
