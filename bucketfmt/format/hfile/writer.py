"""Writing an HFile that the readers of every Hudi release accept.

Pure. Source: HFileWriterImpl.
"""

from __future__ import annotations

from collections.abc import Mapping

from bucketfmt.format.hfile.block import BlockType, Codec, encode_block
from bucketfmt.format.hfile.block_index import BlockPlace, encode_index, key_of_row
from bucketfmt.format.hfile.entries import ENTRY_OVERHEAD_BYTES
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.trailer import HFileTrailer, encode_file_info, encode_trailer

__all__ = ["encode_hfile"]

_BLOCK_BYTES = 64 << 10
"""Of entries in a block. Hudi's own writer takes 1 MiB; its scan then misses the last entries of a
block, as many as fit into the block's checksums, which are four bytes for 16 KiB."""


def encode_hfile(
    entries: EntryColumns,
    info: Mapping[bytes, bytes],
    *,
    created_ms: int,
    meta_blocks: Mapping[str, bytes] | None = None,
    codec: Codec = Codec.GZ,
    block_bytes: int = _BLOCK_BYTES,
) -> bytes:
    """Return a file.

    Args:
        entries: Keys and values, in the order of the keys, no key twice.
        info: What to add to the file info, such as `schema`.
        created_ms: When the file is written, in milliseconds since the epoch.
        meta_blocks: Meta blocks by name, such as `bloomFilter`.
        codec: How to compress the blocks.
        block_bytes: Begin another block where one has as many bytes, before compression.

    Raises:
        ValueError: the keys are not in order, or one is twice or too long.
    """
    entries.check_order()
    blocks, places, size, num_bytes = list[bytes](), list[BlockPlace](), 0, 0
    for first, content in entries.blocks(block_bytes):
        num_bytes += len(content)
        blocks.append(encode_block(BlockType.DATA, content, codec))
        places.append(BlockPlace(first, size, len(blocks[-1])))
        size += len(blocks[-1])
    key_bytes = int(entries.key_bytes().sum())
    value_bytes = num_bytes - key_bytes - ENTRY_OVERHEAD_BYTES * len(entries)
    last = entries.keys[-1].as_py() if len(entries) else None

    metas = []
    for name, meta in sorted((meta_blocks or {}).items()):
        blocks.append(encode_block(BlockType.META, meta, codec))
        metas.append(BlockPlace(name.encode(), size, len(blocks[-1])))
        size += len(blocks[-1])
    indexes = [encode_index(places), encode_index(metas, is_meta=True)]
    loaded = b"".join(encode_block(BlockType.ROOT_INDEX, each, codec) for each in indexes)
    own = {
        b"hfile.AVG_KEY_LEN": _average(key_bytes, len(entries)),
        b"hfile.AVG_VALUE_LEN": _average(value_bytes, len(entries)),
        b"hfile.CREATE_TIME_TS": created_ms.to_bytes(8, "big"),
        b"KEY_VALUE_VERSION": (1).to_bytes(4, "big"),
        b"MAX_MEMSTORE_TS_KEY": bytes(8),
    }
    if last is not None:  # HBase's reader fails on an empty key
        own[b"hfile.LASTKEY"] = key_of_row(last)
    file_info = encode_block(BlockType.FILE_INFO, encode_file_info({**info, **own}), codec)
    trailer = HFileTrailer(
        file_info_offset=size + len(loaded),
        load_on_open_offset=size,
        data_index_count=len(places),
        meta_index_count=len(metas),
        num_entries=len(entries),
        num_levels=1,
        first_data_block_offset=places[0].offset if places else 0,
        last_data_block_offset=places[-1].offset if places else 0,
        uncompressed_bytes=num_bytes,
        codec=codec,
    )
    return b"".join([*blocks, loaded, file_info, encode_trailer(trailer)])


def _average(total: int, count: int) -> bytes:
    return (total // count if count else 0).to_bytes(4, "big")
