"""Every decoder of what a table holds, as a function of bytes: what is fuzzed.

The contract is the same for all: any bytes return a value or raise `BucketfmtError`. A decoder
that takes several parts gets them separated by NUL.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

import bucketfmt.format
import bucketfmt.rows
from bucketfmt.errors import CorruptError
from bucketfmt.format.buckets import (
    child_nodes,
    extendible_metadata,
    hashing_metadata,
    java_regex,
    partition_rules,
)
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.encoding import avro_container, avro_records, json_text
from bucketfmt.format.encoding.avro_records import OtherAvroTypeError
from bucketfmt.format.encoding.cursor import Cursor
from bucketfmt.format.hfile import (
    block,
    block_index,
    stored_entry_kernels,
    trailer,
    variable_length,
)
from bucketfmt.format.hfile.entry_kernels import EntryColumns
from bucketfmt.format.hfile.reader import HFile
from bucketfmt.format.keys import bloom, record_keys
from bucketfmt.format.keys.record_keys import KeyDialect, KeyEncoding
from bucketfmt.format.log import (
    avro_deletes,
    delete_records,
    kryo_deletes,
    log_block,
    log_file,
    record_positions,
    virtual_log,
)
from bucketfmt.format.log.log_block import BlockType, HeaderKey, LogBlock, encode_log_block
from bucketfmt.format.metadata import (
    index_definitions,
    metadata_keys,
    metadata_records,
    record_location_kernels,
)
from bucketfmt.format.metadata.metadata_encoding import encode_metadata_record
from bucketfmt.format.metadata.metadata_records import RecordLocation
from bucketfmt.format.metadata.metadata_schemas import metadata_schema
from bucketfmt.format.names import instants, layout, names, paths
from bucketfmt.format.table import internal_schema, properties, table_lock
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline import (
    archived_timeline,
    commit_metadata,
    instant_content,
    plans,
    service_metadata,
    timeline_record,
)
from bucketfmt.format.timeline.commit_metadata import WriteStat
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.avro import avro_decode, avro_schema
from bucketfmt.rows.avro import row_blocks as avro_row_blocks
from bucketfmt.rows.columns import date_formats
from bucketfmt.rows.columns.time_partitions import TimePartitions
from bucketfmt.rows.parquet import parquet_chunks, parquet_footer
from bucketfmt.rows.parquet.base_file import BaseFileReader
from soak.damage.seeds import (
    NUL,
    bloom_filters,
    hfiles,
    log_headers,
    row_blocks,
    table_bytes,
    vector_bytes,
    vector_pairs,
)

__all__ = ["NOT_FROM_A_TABLE", "TARGETS", "Target", "public_decoders"]

NOT_FROM_A_TABLE = frozenset({"filter.parse_filter", "filter_text.parse_filter_text"})
"""Parse what a caller wrote."""

_LIMITS = Limits(row_group_bytes_max=1 << 28, log_rows_bytes_max=1 << 28)
_FIELDS = ("id", "name")


class Target(NamedTuple):
    """What is run on bytes, and the sound bytes that are mutated."""

    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]


def _name(data: bytes) -> str:
    """A name as a local file system may list it: bytes that are no UTF-8 are kept."""
    return data.decode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _parsed(parse: Callable[[str], object], data: bytes) -> object:
    return parse(_name(data))


def _parts(data: bytes) -> tuple[bytes, bytes]:
    first, _, second = data.partition(NUL)
    return first, second


def _vectors(*formats: str) -> Callable[[], Sequence[bytes]]:
    return lambda: vector_bytes(*formats)


def _files(kind: str, *tables: str) -> Callable[[], Sequence[bytes]]:
    return lambda: table_bytes(kind, *tables)


def _archived_block(data: bytes) -> object:
    schema, content = _parts(data)
    return archived_timeline.decode_archived_block(content, _text(schema))


def _history_row(data: bytes) -> object:
    instant, metadata = _parts(data)
    row = {"instantTime": _text(instant), "completionTime": "1", "action": "x", "plan": None}
    return archived_timeline.decode_history_row({**row, "metadata": metadata})


def _datum(data: bytes) -> object:
    text, content = _parts(data)
    schema = avro_container.check_writer_schema(json_text.decode_json(text, object, "schema"))
    return avro_container.decode_datum(content, schema)


_STAT_SCHEMA = hudi_schema("HoodieWriteStat")
_STAT_DECODER = avro_records.RecordDecoder(_STAT_SCHEMA, WriteStat)


def _of_ends(decode: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Return a decoder whose callers know that data may end anywhere, for those who do not."""

    def run(data: bytes) -> object:
        try:
            return decode(data)
        except (IndexError, UnicodeDecodeError, OtherAvroTypeError) as error:
            raise CorruptError(f"what is documented: {type(error).__name__}") from error

    return run


def _file_stats() -> list[bytes]:
    stats = [WriteStat(file_id="f", path=f"p/{number}", num_writes=number) for number in range(3)]
    return [b"".join(avro_records.RecordEncoder(_STAT_SCHEMA, WriteStat).encode(stats))]


def _avro_blocks(data: bytes) -> object:
    schema, content = _parts(data)
    parsed = avro_schema.parse_avro_schema(_text(schema))
    avro_schema.arrow_schema(parsed)
    rows = avro_decode.decode_avro_blocks([content], parsed, _LIMITS)
    rows.validate(full=True)
    return rows


def _hfile_rows(data: bytes) -> object:
    schema, content = _parts(data)
    parsed = avro_schema.parse_avro_schema(_text(schema))
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: "1"}
    encoded = encode_log_block(BlockType.HFILE_DATA, header, content)
    (read,) = log_file.decode_log_file(encoded)
    if not isinstance(read, LogBlock):
        raise TypeError("the block is not read as it was written")
    rows = avro_row_blocks.decode_row_blocks([read], parsed, _LIMITS)
    rows.validate(full=True)
    return rows


def _bloom_filter(data: bytes) -> object:
    code, text = _parts(data)
    decoded = bloom.decode_bloom_filter(text, _text(code) or None)
    return decoded.might_contain_many(pa.array(["key-000001", "", None, "\U0001f600"]))


def _delete_block(data: bytes) -> object:
    return list(delete_records.decode_delete_block(data))


def _first_schema(data: bytes) -> bytes:
    return json.dumps(json.loads(data)["schemas"][0]).encode()


def _ring_changes(data: bytes) -> object:
    plan = plans.decode_requested_replace_metadata(data).clustering_plan
    return plan and child_nodes.find_ring_changes(plan, "20240102030405678")


def _properties(data: bytes) -> dict[str, str]:
    return properties.decode_properties(data)


def _time_partitions(data: bytes) -> object:
    partitions = TimePartitions.from_properties(_properties(data))
    times = pa.chunked_array([["2024-02-29 23:59:59", "2024-02-29T23:59:59+0100"]])
    return partitions.values(times, "time")


def _partition_path(data: bytes) -> object:
    hive, path = _parts(data)
    return paths.parse_partition_path(_name(path), _FIELDS, bool(hive), url_encoded=True)


def _hash_values(data: bytes) -> object:
    key = _text(data)
    return [record_keys.extract_hash_values(key, _FIELDS, dialect) for dialect in KeyDialect]


def _base_file(data: bytes) -> object:
    reader = BaseFileReader(pa.py_buffer(data), _LIMITS)
    return reader.read(), reader.keys.bloom_filter, reader.keys.key_range, reader.avro_schema


def _footer(data: bytes) -> object:
    footer = parquet_footer.decode_footer(data)
    texts = pa.schema([(name, pa.string()) for name, _ in footer.leaves if name is not None])
    return footer.ranges(texts), footer.sizes(), parquet_footer.decode_codec(data, 0)


def _hfile(data: bytes) -> object:
    file = HFile.of(data)
    found = [key for key, _ in file.scan()]
    return file.find([*found, b"", b"\xff"]), [file.meta_block(name) for name in file.meta_blocks]


def _joined_blocks(data: bytes) -> object:
    """What is found of a block alone and of two of it together is the same, an error or not."""
    stored = block.read_block(data, block.Codec.GZ)
    together = block.join_contents([stored, stored], 3)
    content = stored.decoded().content
    if together != content + content + bytes(3):
        raise ValueError("two blocks together have another content than each alone")
    return content


def _entries(data: bytes) -> object:
    """One entry in each block: blocks of 23 bytes are walked together."""
    sizes = [min(23, len(data) - start) for start in range(0, len(data), 23)]
    padded = data + bytes(stored_entry_kernels.PADDING_BYTES)
    scratch = stored_entry_kernels.Scratch()
    scratch.octets(2 * len(padded))[:] = 255  # what was there before
    entries = stored_entry_kernels.decode_blocks(padded, sizes, scratch)
    return entries.find(entries.keys()), entries.values()


def _metadata_records(data: bytes) -> object:
    file = HFile.of(data)
    schema = metadata_records.decode_metadata_schema(file.file_info.get(b"schema", b""))
    return [metadata_records.decode_metadata_record(value, schema) for _, value in file.scan()]


def _record_locations(data: bytes) -> object:
    values = pa.array([data, None, data], pa.large_binary())
    return record_location_kernels.decode_record_locations(values, metadata_schema(9))


def _locations() -> list[bytes]:
    places = [RecordLocation("p", file_id, 1795233396929) for file_id in (str(UUID(int=7)), "raw")]
    return [encode_metadata_record(place, metadata_schema(9)) for place in places]


def _archive_entries() -> list[bytes]:
    """Schema and first entry of archive blocks: behind version, count and the entry's length."""
    blocks = [_parts(pair) for pair in vector_pairs("archived-block", "schema", "content")]
    return [
        schema + NUL + content[12 : 12 + int.from_bytes(content[8:12], "big")]
        for schema, content in blocks
    ]


def _footers() -> list[bytes]:
    files = table_bytes("base file")
    return [data[-8 - int.from_bytes(data[-8:-4], "little") : -8] for data in files]


_NAME_PARSERS: tuple[tuple[Callable[[str], object], str], ...] = (
    (names.parse_base_file_name, "data-file-name"),
    (names.parse_log_file_name, "data-file-name"),
    (names.parse_bucket_file_name, "rfc29-file-name"),
    (layout.parse_hashing_config_name, "hashing-file-name"),
    (layout.parse_hashing_marker_name, "hashing-file-name"),
    (layout.parse_hashing_metadata_name, "hashing-file-name"),
    (names.parse_marker_name, "marker-path"),
    (names.parse_write_token, "write-token-order"),
)

_INDEX_COMMIT = service_metadata.IndexCommitMetadata(
    operation_type="INDEX",
)

_TIME_PARTITIONS = b"""hoodie.keygen.timebased.timestamp.type=DATE_STRING
hoodie.keygen.timebased.input.dateformat=yyyy-MM-dd HH:mm:ss,yyyy-MM-dd'T'HH:mm:ssZ
hoodie.keygen.timebased.output.dateformat=yyyy/MM/dd
hoodie.keygen.timebased.timezone=GMT+8:00
"""

_SCHEMA_WITH_NUMBERS = b"""{"type": "record", "name": "r", "fields": [
 {"name": "amount", "type": {"type": "fixed", "name": "f", "size": 9,
  "logicalType": "decimal", "precision": 20, "scale": 4}},
 {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}}
]}"""

_timeline_files = _vectors("timeline-file")

_KEY_OF_HBASE = b"\x00\x01a" + bytes.fromhex("007fffffffffffffff04")
_ROOT_INDEX = b"".join(
    offset.to_bytes(8, "big") + b"\x00\x00\x00\x40" + bytes([len(key)]) + key
    for offset, key in ((0, b"\x00\x01a"), (64, _KEY_OF_HBASE))
)
_META_INDEX = bytes(8) + b"\x00\x00\x00\x40\x0bbloomFilter"
_BRANCH_INDEX = b"".join(number.to_bytes(4, "big") for number in (2, 0, 25, 50)) + 2 * (
    bytes(8) + b"\x00\x00\x00\x40" + _KEY_OF_HBASE
)
_ENTRIES = EntryColumns.of([(b"%02d" % number, b"") for number in range(20)]).encode().tobytes()
_FILE_INFO = trailer.encode_file_info({b"hfile.LASTKEY": b"\x00\x01a", b"schema": b"{}"})

TARGETS: dict[str, Target] = {
    "archived_timeline.decode_archived_block": Target(
        _archived_block, lambda: vector_pairs("archived-block", "schema", "content")
    ),
    "archived_timeline.decode_history_manifest": Target(
        archived_timeline.decode_history_manifest, _vectors("history-manifest")
    ),
    "archived_timeline.decode_history_row": Target(
        _history_row, lambda: [b"20260101000000000" + NUL + data for data in _timeline_files()]
    ),
    "archived_timeline.decode_history_version": Target(
        archived_timeline.decode_history_version, _vectors("history-version")
    ),
    "archived_timeline.parse_history_file_name": Target(
        lambda data: archived_timeline.parse_history_file_name(_name(data), len(data)),
        lambda: [b"20261121044223806_20261121044223981_0.parquet"],
    ),
    "avro_container.decode_container": Target(
        avro_container.decode_container, _vectors("timeline-file")
    ),
    "avro_container.decode_datum": Target(_datum, _archive_entries),
    "avro_decode.decode_avro_blocks": Target(_avro_blocks, row_blocks),
    "avro_deletes.decode_avro_deletes": Target(
        avro_deletes.decode_avro_deletes,
        lambda: [data[8:] for data in vector_bytes("delete-block") if data[3] == 3],
    ),
    "avro_records.RecordDecoder": Target(
        _of_ends(
            lambda data: avro_records.RecordDecoder(_STAT_SCHEMA, WriteStat).decode(data, 0, 3)
        ),
        _file_stats,
    ),
    "avro_records.decode_count": Target(
        _of_ends(lambda data: avro_records.decode_count(data, 0)), lambda: [b"\x06", b"\x05\x10"]
    ),
    "avro_records.decode_text": Target(
        _of_ends(lambda data: avro_records.decode_text(data, 0)), lambda: [b"\x06abc"]
    ),
    "avro_schema.parse_avro_schema": Target(
        lambda data: avro_schema.arrow_schema(avro_schema.parse_avro_schema(_text(data))),
        lambda: [*log_headers(HeaderKey.SCHEMA), _SCHEMA_WITH_NUMBERS],
    ),
    "base_file.BaseFileReader": Target(_base_file, _files("base file")),
    "block.read_block": Target(_joined_blocks, hfiles),
    "block_index.decode_branch_index": Target(
        block_index.decode_branch_index, lambda: [_BRANCH_INDEX]
    ),
    "block_index.decode_meta_index": Target(
        lambda data: block_index.decode_meta_index(data, 1), lambda: [_META_INDEX]
    ),
    "block_index.decode_root_index": Target(
        lambda data: block_index.decode_root_index(data, 2), lambda: [_ROOT_INDEX]
    ),
    "bloom.decode_bloom_filter": Target(_bloom_filter, bloom_filters),
    "child_nodes.parse_child_nodes": Target(
        lambda data: child_nodes.parse_child_nodes(_text(data)),
        lambda: [
            b'[{"value":1073741823,"fileIdPrefix":"a-b","tag":"REPLACE"},'
            b'{"value":7,"fileIdPrefix":null,"tag":"DELETE"}]'
        ],
    ),
    "child_nodes.find_ring_changes": Target(_ring_changes, _vectors("timeline-file")),
    "commit_metadata.decode_commit_metadata": Target(
        commit_metadata.decode_commit_metadata, _files("commit")
    ),
    "date_formats.parse_time_zone": Target(
        lambda data: date_formats.parse_time_zone(_text(data)),
        lambda: [b"UTC", b"GMT+8:00", b"+05:30", b"Asia/Singapore"],
    ),
    "delete_records.decode_delete_block": Target(_delete_block, _vectors("delete-block")),
    "extendible_metadata.decode_extendible_metadata": Target(
        extendible_metadata.decode_extendible_metadata, _vectors("extendible-metadata")
    ),
    "hashing_metadata.decode_hashing_metadata": Target(
        hashing_metadata.decode_hashing_metadata, _files("hashing_meta")
    ),
    "index_definitions.decode_index_definitions": Target(
        index_definitions.decode_index_definitions,
        lambda: [
            b'{"indexDefinitions":{"secondary_index_s":{"indexName":"secondary_index_s",'
            b'"indexType":"secondary_index","indexFunction":"identity","sourceFields":["a"],'
            b'"indexOptions":{},"version":"V2"}}}'
        ],
    ),
    "index_settings.IndexSettings": Target(
        lambda data: IndexSettings.from_properties(_properties(data)),
        lambda: [
            b"hoodie.index.type=BUCKET\nhoodie.index.bucket.engine=SIMPLE\n"
            b"hoodie.bucket.index.num.buckets=16\nhoodie.bucket.index.hash.field=id,name\n"
        ],
    ),
    "instant_content.decode_instant_content": Target(
        instant_content.decode_instant_content, _vectors("timeline-file")
    ),
    "instants.find_instant_file": Target(
        lambda data: [instants.find_instant_file(_name(data), layout) for layout in (1, 2)],
        _vectors("instant-file"),
    ),
    "instants.parse_instant_time": Target(
        lambda data: instants.parse_instant_time(_text(data)), _vectors("instant-time")
    ),
    "internal_schema.decode_schema_history": Target(
        internal_schema.decode_schema_history, _vectors("schema-history")
    ),
    "internal_schema.parse_internal_schema": Target(
        lambda data: internal_schema.parse_internal_schema(_text(data)),
        lambda: [_first_schema(data) for data in vector_bytes("schema-history")],
    ),
    "java_regex.compile_java_pattern": Target(
        lambda data: java_regex.compile_java_pattern(_text(data)),
        lambda: [b"2024-[0-9]{2}", rb"(us|eu)/\d+", b"a.*[^b-d]?$"],
    ),
    "json_text.decode_json": Target(
        lambda data: json_text.decode_json(data, dict, "text"), _files("hashing_meta")
    ),
    "json_text.decode_unambiguous_json": Target(
        lambda data: json_text.decode_unambiguous_json(
            data, hashing_metadata.HashingMetadata, "text"
        ),
        _files("hashing_meta"),
    ),
    "kryo_deletes.decode_kryo_deletes": Target(
        lambda data: kryo_deletes.decode_kryo_deletes(data[1:], 1 + data[0] % 2 if data else 1),
        lambda: [
            bytes([data[3] - 1]) + data[8:] for data in vector_bytes("delete-block") if data[3] < 3
        ],
    ),
    "log_block.decode_log_block": Target(
        lambda data: log_block.decode_log_block(Cursor(data)), _files("log file")
    ),
    "log_block.find_damaged_instant": Target(
        lambda data: log_block.find_damaged_instant(Cursor(data)), _files("log file")
    ),
    "log_file.decode_log_file": Target(
        lambda data: log_file.select_blocks([list(log_file.decode_log_file(data))]),
        _files("log file"),
    ),
    "virtual_log.decode_virtual_log": Target(
        lambda data: virtual_log.decode_virtual_log(log_block.decode_log_block(Cursor(data))),
        lambda: [data for data in vector_bytes("log-file") if b"logFiles" in data],
    ),
    "names.find_data_file_name": Target(
        lambda data: names.find_data_file_name(_name(data)), _vectors("data-file-name")
    ),
    **{
        f"{parse.__module__.rpartition('.')[2]}.{parse.__name__}": Target(
            partial(_parsed, parse), _vectors(vectors)
        )
        for parse, vectors in _NAME_PARSERS
    },
    "parquet_chunks.decode_layout": Target(
        lambda data: parquet_chunks.decode_layout(data, 1 << 20), _footers
    ),
    "parquet_footer.decode_codec": Target(
        lambda data: parquet_footer.decode_codec(data, 0), _footers
    ),
    "parquet_footer.decode_footer": Target(_footer, _footers),
    "partition_rules.decode_hashing_config": Target(
        lambda data: partition_rules.decode_hashing_config(data).num_buckets_for("us/2024-01-01"),
        _vectors("hashing-config"),
    ),
    "paths.check_relative_path": Target(
        lambda data: paths.check_relative_path(_name(data)), _vectors("relative-path")
    ),
    "paths.parse_partition_path": Target(
        _partition_path, lambda: [b"1" + NUL + b"id=us%2F1/name=a", NUL + b"us/2024"]
    ),
    "paths.unescape_partition_value": Target(
        lambda data: paths.unescape_partition_value(_text(data)), _vectors("partition-unescape")
    ),
    **{
        f"{module.__name__.rpartition('.')[2]}.{name}": Target(
            getattr(module, name), _vectors("timeline-file")
        )
        for module, name in (
            (plans, "decode_cleaner_plan"),
            (plans, "decode_compaction_plan"),
            (plans, "decode_index_plan"),
            (plans, "decode_requested_replace_metadata"),
            (plans, "decode_restore_plan"),
            (plans, "decode_rollback_plan"),
            (service_metadata, "decode_clean_metadata"),
            (service_metadata, "decode_restore_metadata"),
            (service_metadata, "decode_rollback_metadata"),
            (service_metadata, "decode_savepoint_metadata"),
        )
    },
    "properties.decode_partition_metadata": Target(
        properties.decode_partition_metadata, _vectors("partition-metadata")
    ),
    "properties.decode_properties": Target(_properties, _files("hoodie.properties")),
    "metadata_keys.parse_files_key": Target(
        lambda data: metadata_keys.parse_files_key(_text(data)), lambda: [b".", b"p=1"]
    ),
    "metadata_keys.parse_metadata_file_id": Target(
        lambda data: metadata_keys.parse_metadata_file_id("record_index", _text(data)),
        lambda: [b"record-index-0007-0", b"record-index-a%3Db-0007-0"],
    ),
    "metadata_keys.parse_secondary_key": Target(
        lambda data: metadata_keys.parse_secondary_key(_text(data)), lambda: [b"x$a1", b"\\$$a"]
    ),
    "metadata_records.decode_metadata_record": Target(_metadata_records, hfiles),
    "metadata_records.decode_metadata_schema": Target(
        metadata_records.decode_metadata_schema,
        lambda: [HFile.of(data).file_info[b"schema"] for data in hfiles()],
    ),
    "reader.HFile": Target(_hfile, hfiles),
    "record_keys.extract_hash_values": Target(_hash_values, _vectors("hash-values")),
    "record_keys.parse_record_key": Target(
        lambda data: [
            record_keys.parse_record_key(_text(data), fields, KeyEncoding.NAMED)
            for fields in (_FIELDS, _FIELDS[:1])
        ],
        lambda: [b"id:1,name:a", b"id:__null__,name:__empty__", b"id:a:b,c,name:"],
    ),
    "record_location_kernels.decode_record_locations": Target(_record_locations, _locations),
    "record_positions.decode_record_positions": Target(
        lambda data: record_positions.decode_record_positions(_text(data)),
        lambda: log_headers(HeaderKey.RECORD_POSITIONS),
    ),
    "row_blocks.decode_row_blocks": Target(
        _hfile_rows, lambda: vector_pairs("hfile-data-block", "schema", "content")
    ),
    "stored_entry_kernels.decode_blocks": Target(_entries, lambda: [_ENTRIES]),
    "table_lock.decode_table_lease": Target(
        table_lock.decode_table_lease,
        lambda: [table_lock.encode_table_lease(table_lock.TableLease(False, 1_766_000_000, "w"))],
    ),
    "time_partitions.TimePartitions": Target(_time_partitions, lambda: [_TIME_PARTITIONS]),
    "table_config.TableConfig": Target(
        lambda data: TableConfig.from_properties(_properties(data)), _files("hoodie.properties")
    ),
    "service_metadata.decode_index_commit_metadata": Target(
        service_metadata.decode_index_commit_metadata,
        lambda: [service_metadata.encode_index_commit_metadata(_INDEX_COMMIT)],
    ),
    "trailer.decode_file_info": Target(trailer.decode_file_info, lambda: [_FILE_INFO]),
    "trailer.decode_trailer": Target(
        lambda data: trailer.decode_trailer(data, len(data)),
        hfiles,
    ),
    "variable_length.decode_hadoop_vint": Target(
        lambda data: variable_length.decode_hadoop_vint(Cursor(data)),
        lambda: [variable_length.encode_hadoop_vint(value) for value in (0, 127, 128, 1 << 40)],
    ),
    "variable_length.decode_message": Target(
        lambda data: variable_length.decode_message(Cursor(data)), lambda: [_FILE_INFO[5:]]
    ),
    "timeline_record.decode_single_record": Target(
        lambda data: timeline_record.decode_single_record(
            data, ("HoodieCleanMetadata", "HoodieRollbackMetadata"), DEFAULT_LIMITS
        ),
        _vectors("timeline-file"),
    ),
}
"""By module and name. Those that `public_decoders` finds must all be here."""


def public_decoders() -> set[str]:
    """Return the name of every public decoder of the package."""
    found = set()
    for package in (bucketfmt.format, bucketfmt.rows):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.ispkg:
                continue
            module = importlib.import_module(info.name)
            found |= {
                f"{info.name.rpartition('.')[2]}.{name}"
                for name in module.__all__
                if name.startswith(("decode_", "parse_"))
                or hasattr(getattr(module, name), "from_properties")
            }
    return found - NOT_FROM_A_TABLE
