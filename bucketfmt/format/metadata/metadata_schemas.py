"""The schemas that the records of a metadata table are written by, one for each table version.

Pure. Source: HoodieMetadata.avsc of Hudi 0.15 (table version 6), 1.0 (8) and 1.1 (9), with Hudi's
five meta columns before it, as `HoodieAvroUtils.addMetadataFields` puts them. The texts are those
in the files of these releases, byte for byte, documentation included.
"""

from __future__ import annotations

from functools import cache

import msgspec

from bucketfmt.format.encoding.avro_container import AvroSchema
from bucketfmt.format.metadata.metadata_records import MetadataSchema, decode_metadata_schema
from bucketfmt.format.timeline.hudi_schemas import HUDI_NAMESPACE

__all__ = ["metadata_schema"]

_META_COLUMNS = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
_STRING = {"type": "string", "avro.java.string": "String"}
_UUID_PARTS = (
    "if the fileId is based on UUID format. \nA UUID based fileId is stored as 3 pieces in RLI "
    "(fileIdHighBits, fileIdLowBits and fileIndex). \nFileID format is {UUID}-{fileIndex}."
)
_FILE_INDEX = (
    "Index representing file index which is used to re-construct UUID based fileID. Applicable "
    "when the fileId is based on UUID format. \nA UUID based fileId is stored as 3 pieces in RLI "
    "(fileIdHighBits, fileIdLowBits and fileIndex). \nFileID format is {UUID}-{fileIndex}."
)
_WRAPPERS: tuple[tuple[str, str, AvroSchema], ...] = (
    ("Boolean", "boolean", "boolean"),
    ("Int", "int", "int"),
    ("Long", "long", "long"),
    ("Float", "float", "float"),
    ("Double", "double", "double"),
    ("Bytes", "bytes", "bytes"),
    ("String", "string", _STRING),
    ("Date", "Date logical", "int"),
    (
        "Decimal",
        "Decimal logical",
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    ),
    ("TimeMicros", "Time-micros logical", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicros", "Timestamp-micros logical", "long"),
    ("LocalDate", "Local Date", "int"),
)


@cache
def metadata_schema(table_version: int) -> MetadataSchema:
    """Return the schema that the metadata table of a table is written by. Shared: read only.

    Args:
        table_version: Of the table, 6, 8 or 9; the metadata table has the same.

    Raises:
        ValueError: no release writes metadata tables of that version as this one does.
    """
    if table_version not in (6, 8, 9):
        raise ValueError(f"records of a metadata table of version {table_version} are not written")
    return decode_metadata_schema(msgspec.json.encode(_metadata_record(table_version)))


def _metadata_record(version: int) -> AvroSchema:
    file_info = _record(
        "HoodieMetadataFileInfo",
        None,
        _field("size", "long", "Size of the file"),
        _field("isDeleted", "boolean", "True if this file has been deleted"),
    )
    fields = [
        *(
            _field(f"_hoodie_{name}", ["null", "string"], "", default=None)
            for name in _META_COLUMNS
        ),
        _field("key", _STRING),
        _field("type", "int", "Type of the metadata record"),
        _field(
            "filesystemMetadata",
            ["null", {"type": "map", "values": file_info, "avro.java.string": "String"}],
            "Contains information about partitions and files within the dataset",
        ),
        _optional(
            "BloomFilterMetadata",
            _bloom_filter(),
            "Metadata Index of bloom filters for all data files in the user table",
        ),
        _optional(
            "ColumnStatsMetadata",
            _column_stats(version),
            "Metadata Index of column statistics for all data files in the user table",
        ),
        _optional(
            "recordIndexMetadata",
            _record_index(version),
            "Metadata Index that contains information about record keys and their location in the "
            "dataset",
        ),
    ]
    if version >= 8:
        deleted = _field("isDeleted", "boolean", "True if this entry has been deleted")
        secondary = _optional(
            "SecondaryIndexMetadata",
            _record("HoodieSecondaryIndexInfo", None, deleted),
            "Metadata Index that contains information about secondary keys and the corresponding "
            "record keys in the dataset",
        )
        fields.append(secondary)
    return {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": HUDI_NAMESPACE,
        "doc": "A record saved within the Metadata Table",
        "fields": fields,
    }


def _bloom_filter() -> AvroSchema:
    return _record(
        "HoodieMetadataBloomFilter",
        "Data file bloom filter details",
        _field("type", _STRING, "Bloom filter type code"),
        _field("timestamp", _STRING, "Instant timestamp when this metadata was created/updated"),
        _field("bloomFilter", "bytes", "Bloom filter binary byte array"),
        _field("isDeleted", "boolean", "Bloom filter entry valid/deleted flag"),
    )


def _column_stats(version: int) -> AvroSchema:
    wrappers = [_wrapper(*each) for each in _WRAPPERS if version >= 8 or each[0] != "LocalDate"]
    names = [wrapper["name"] for wrapper in wrappers]
    if version >= 9:
        doc = "An array where each element is one of the supported wrapper types."
        items = {"type": "array", "items": ["null", *names]}
        array = _record(
            "ArrayWrapper",
            "A record containing a list of wrapped values.",
            _optional("wrappedValues", items, doc),
        )
        wrappers, names = [*wrappers, array], [*names, "ArrayWrapper"]
    range_doc = "value in the range. Based on user data table schema, we can convert"
    fields = [
        _optional("fileName", _STRING, "File name for which this column statistics applies"),
        _optional("columnName", _STRING, "Column name for which this column statistics applies"),
        _field(
            "minValue",
            ["null", *wrappers],
            f"Minimum {range_doc} this to appropriate type",
            default=None,
        ),
        _field(
            "maxValue",
            ["null", *names],
            f"Maximum {range_doc} it to appropriate type",
            default=None,
        ),
        _optional("valueCount", "long", "Total count of values"),
        _optional("nullCount", "long", "Total count of null values"),
        _optional("totalSize", "long", "Total storage size on disk"),
        _optional("totalUncompressedSize", "long", "Total uncompressed storage size on disk"),
        _field("isDeleted", "boolean", "Column range entry valid/deleted flag"),
    ]
    if version >= 8:
        doc = "Whether the min/max range of a column is tight bound or not"
        fields.append(_field("isTightBound", "boolean", doc, default=False))
    if version >= 9:
        doc = "Value type information containing enum ordinal and optional additional information"
        fields.append(_optional("valueType", _value_type(), doc))
    return _record("HoodieMetadataColumnStats", "Data file column statistics", *fields)


def _wrapper(name: str, kind: str, schema: AvroSchema) -> dict[str, AvroSchema]:
    doc = f"A record wrapping {kind} type to be able to be used it w/in Avro's Union"
    return _record(f"{name}Wrapper", doc, _field("value", schema))


def _value_type() -> AvroSchema:
    return _record(
        "HoodieValueTypeInfo",
        None,
        _field("typeOrdinal", "int", "Enum type ordinal representing the value type"),
        _optional(
            "additionalInfo", _STRING, "Optional additional information about the value type"
        ),
    )


def _record_index(version: int) -> AvroSchema:
    high_bits = "fileIdLowBits" if version == 6 else "fileIdHighBits"  # a slip of Hudi 0.15
    fields = [
        _optional("partitionName", _STRING, "Refers to the partition name the record belongs to"),
        _optional("fileIdHighBits", "long", f"Refers to high 64 bits {_UUID_PARTS}"),
        _optional("fileIdLowBits", "long", f"Refers to low 64 bits {_UUID_PARTS}"),
        _optional("fileIndex", "int", _FILE_INDEX),
        _optional(
            "fileId",
            _STRING,
            "Represents fileId of the location where record belongs to. When the encoding is 1, "
            "fileID is stored in raw string format.",
        ),
        _optional(
            "instantTime",
            "long",
            "Epoch time in millisecond representing the commit time at which record was added",
        ),
        _field(
            "fileIdEncoding",
            "int",
            "Represents fileId encoding. Possible values are 0 and 1. O represents UUID based "
            "fileID, and 1 represents raw string format of the fileId. \nWhen the encoding is 0, "
            f"reader can deduce fileID from fileIdLowBits, {high_bits} and fileIndex.",
            default=0,
        ),
    ]
    if version >= 8:
        doc = (
            "Represents position of record within a file group for easier access. It will be used "
            "for index lookup."
        )
        fields.append(_optional("position", "long", doc))
    return _record("HoodieRecordIndexInfo", None, *fields)


def _record(name: str, doc: str | None, *fields: AvroSchema) -> dict[str, AvroSchema]:
    said = {} if doc is None else {"doc": doc}
    return {"type": "record", "name": name, **said, "fields": list(fields)}


def _field(
    name: str, schema: AvroSchema, doc: str | None = None, **default: AvroSchema
) -> AvroSchema:
    said = {} if doc is None else {"doc": doc}
    return {"name": name, "type": schema, **said, **default}


def _optional(name: str, schema: AvroSchema, doc: str) -> AvroSchema:
    return _field(name, ["null", schema], doc, default=None)
