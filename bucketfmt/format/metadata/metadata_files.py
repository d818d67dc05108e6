"""The files of a metadata table as Hudi lays them out: log blocks and base files.

Pure. Source: HoodieAppendHandle, HoodieHFileDataBlock, HoodieDeleteBlock, HoodieAvroHFileWriter,
HoodieBackedTableMetadataWriter.initializeFileGroups.
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.writer import encode_hfile
from bucketfmt.format.keys.bloom import BloomFilter, encode_bloom_filter
from bucketfmt.format.log.delete_records import AVRO_VERSION, DeleteBlock, encode_delete_block
from bucketfmt.format.log.log_block import BlockType, HeaderKey, encode_log_block
from bucketfmt.format.log.ordering_values import OrderingKind
from bucketfmt.format.metadata.metadata_records import MetadataSchema

__all__ = [
    "encode_deletes_block",
    "encode_entries_block",
    "encode_initial_block",
    "encode_metadata_base_file",
]


def encode_initial_block(instant: str) -> bytes:
    """Return the log block that a file group begins with: deletes of no keys.

    The block makes a file group without records known to readers, which count the file groups.

    Args:
        instant: That initialises the partition.
    """
    content = encode_delete_block(DeleteBlock(AVRO_VERSION, [], [], b"", []))
    return encode_log_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: instant}, content)


def encode_entries_block(
    entries: EntryColumns, schema: MetadataSchema, instant: str, *, created_ms: int
) -> bytes:
    """Return the log block of an instant that holds entries of one file group.

    Args:
        entries: In the order of their keys, no key twice.
        schema: That the values are written by.
        instant: That writes the block.
        created_ms: When the block is written, in milliseconds since the epoch.

    Raises:
        ValueError: the keys are not in order, or one is twice or too long.
    """
    content = encode_hfile(entries, {b"schema": schema.text.encode()}, created_ms=created_ms)
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema.text}
    return encode_log_block(BlockType.HFILE_DATA, header, content)


def encode_deletes_block(
    keys: Sequence[str], metadata_partition: str, schema: MetadataSchema, instant: str
) -> bytes:
    """Return the log block of an instant that deletes keys of one file group.

    Only records of the record index and of secondary indexes are deleted so; entries of the other
    partitions are taken back by entries.

    Args:
        keys: To delete.
        metadata_partition: Such as `record_index`.
        schema: Of the records.
        instant: That writes the block.
    """
    count = len(keys)
    block = DeleteBlock(
        AVRO_VERSION,
        list(keys),
        [metadata_partition] * count,
        bytes([OrderingKind.INT]) * count,
        [0] * count,
    )
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema.text}
    return encode_log_block(BlockType.DELETE, header, encode_delete_block(block))


def encode_metadata_base_file(
    entries: EntryColumns,
    schema: MetadataSchema,
    *,
    created_ms: int,
    bloom_filter: BloomFilter | None = None,
) -> bytes:
    """Return the base file of a file group.

    Args:
        entries: All entries of the file group, in the order of their keys, no key twice.
        schema: That the values are written by.
        created_ms: When the file is written, in milliseconds since the epoch.
        bloom_filter: Of the keys. Hudi writes one by default, and its readers do without.

    Raises:
        ValueError: the keys are not in order, or one is twice or too long.
    """
    info = {b"schema": schema.text.encode()}
    meta_blocks = {}
    if bloom_filter is not None:
        if len(entries):
            info[b"minRecordKey"] = entries.keys[0].as_py()
            info[b"maxRecordKey"] = entries.keys[-1].as_py()
        info[b"bloomFilterTypeCode"] = bloom_filter.filter_type.value.encode()
        meta_blocks["bloomFilter"] = encode_bloom_filter(bloom_filter).encode()
    return encode_hfile(entries, info, created_ms=created_ms, meta_blocks=meta_blocks)
