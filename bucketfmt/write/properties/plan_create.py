"""New tables: what hoodie.properties says at first.

Pure. Sources: HoodieTableMetaClient.TableBuilder, HoodieTableConfig, HoodieIndexConfig,
PartitionBucketIndexHashingConfig.

The index settings, which Hudi leaves to the options of every writer, are written down too: Hudi
keeps them, and its writers then obey them, so that the number of buckets can no longer drift.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import get_args

import pyarrow as pa

from bucketfmt.arguments import (
    check_choice,
    check_int,
    check_kind,
    check_names,
    check_text,
    check_texts,
    did_you_mean,
    find_repeated,
)
from bucketfmt.choices import TableType
from bucketfmt.errors import CorruptError, SchemaError
from bucketfmt.format.names.layout import (
    ACTIVE_FOLDER_NAME,
    ARCHIVE_FOLDER_NAME,
    HISTORY_FOLDER_NAME,
)
from bucketfmt.format.table.properties import table_checksum
from bucketfmt.format.table.table_config import (
    MERGE_PROPERTY,
    METADATA_PARTITIONS,
    MergeMode,
    PartialUpdateMode,
    TableConfig,
)
from bucketfmt.index.model import Index, as_bucket_index
from bucketfmt.index.numbered_buckets import SimpleBucketIndex
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.columns.column_paths import find_column
from bucketfmt.rows.columns.column_types import stored_columns
from bucketfmt.rows.columns.meta_columns import check_own_column
from bucketfmt.rows.columns.virtual_keys import partition_paths, record_keys
from bucketfmt.rows.log_writer import make_delete_block
from bucketfmt.rows.merging.merge_rules import PARTIAL_UPDATE, UNAVAILABLE_VALUE, find_merge_rules
from bucketfmt.write.properties.stated_codec import check_stated_codec

__all__ = ["DEFAULT_INDEX", "name_of", "plan_properties"]

DEFAULT_INDEX = SimpleBucketIndex(8)
"""Eight buckets a partition: about a gigabyte in files of 120 MiB. `rehash` changes the number."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY_TYPES = ("SIMPLE", "TIMESTAMP")  # of one partition field of a custom key generator
_KEY_GENERATORS = {
    "SIMPLE": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "COMPLEX": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "NON_PARTITION": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "TIMESTAMP": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "CUSTOM": "org.apache.hudi.keygen.CustomKeyGenerator",
}
_EXTRACTORS = {
    "none": "org.apache.hudi.hive.NonPartitionedExtractor",
    "hive": "org.apache.hudi.hive.HiveStylePartitionValueExtractor",
    "one": "org.apache.hudi.hive.SinglePartPartitionValueExtractor",
    "many": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
}
_MERGERS = {  # payload class, merge strategy id
    MergeMode.EVENT_TIME_ORDERING: (
        "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    ),
    MergeMode.COMMIT_TIME_ORDERING: (
        "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
        "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    ),
}


_BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"  # the merge strategy of payload classes


def name_of(uri: str | os.PathLike[str]) -> str:
    """Return what a table at a path or URL is called unless it is given a name: its last part."""
    return os.path.basename(os.fspath(uri).rstrip("/"))


def plan_properties(
    *,
    name: str,
    schema: pa.Schema,
    record_key: Sequence[str],
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    index: Index = DEFAULT_INDEX,
    table_type: TableType = "COPY_ON_WRITE",
    table_version: int = 9,
    properties: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the properties of a new table. Arguments as `bucketfmt.create` has them.

    Raises:
        ValueError: arguments that contradict one another, or `properties` that contradict them.
        TypeError: an argument of another type.
        SchemaError: a field that is not among the columns, a column of Hudi's own, or a name or a
            type that Hudi does not take for what the column is to be.
        UnsupportedError: a column of a type that Hudi has not; a table that could be made, but not
            written to.
    """
    check_int("table_version", table_version)
    if table_version not in (6, 8, 9):
        raise ValueError(f"table_version is 6, 8 or 9, not {table_version!r}")
    check_choice("table_type", table_type, get_args(TableType))
    check_kind("index", index, Index, "a value such as SimpleBucketIndex(8) or RecordIndex()")
    if _NAME.fullmatch(check_text("name", name)) is None:
        raise ValueError(
            f"a table's name is letters, digits and _, and begins with no digit, not {name!r}; "
            "give another one by name="
        )
    record_key = check_names("record_key", record_key)
    partition_by = check_names("partition_by", partition_by)
    ordering = check_names("ordering", ordering)
    given = {} if properties is None else check_texts("properties", properties)
    if not record_key:
        raise ValueError("record_key names at least one column")
    fields, types = _split_partition_fields(partition_by)
    schema = _check_columns(schema, record_key, fields, ordering, table_version)
    if table_version < 9 and len(ordering) > 1:
        raise ValueError("several ordering fields take table version 9")
    if given.get("hoodie.table.create.schema"):
        raise ValueError("hoodie.table.create.schema contradicts schema; leave it out")
    generator = _key_generator(record_key, fields, types, given)
    found = {
        "hoodie.table.name": name,
        "hoodie.table.type": table_type,
        "hoodie.table.version": str(table_version),
        "hoodie.table.recordkey.fields": ",".join(record_key),
        "hoodie.table.partition.fields": ",".join(fields),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.checksum": str(table_checksum(name)),
        "hoodie.table.create.schema": avro_schema_json(schema, f"{name}_record", f"hoodie.{name}"),
        "hoodie.populate.meta.fields": "true",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
    }
    hive = given.get("hoodie.datasource.write.hive_style_partitioning") == "true"
    found |= _of_version(table_version, generator, fields, types, hive)
    found |= _merging(table_version, ordering, given)
    found |= _of_index(index, table_type, table_version, record_key)
    for key, text in given.items():
        if key in _OF_ARGUMENTS or (key in found and key not in _CHOICES and found[key] != text):
            raise ValueError(f"{key}={text} contradicts the other arguments ({found.get(key)})")
    found |= given
    _check_writers_take(found, schema)
    return found


_OF_ARGUMENTS = frozenset(
    {
        "hoodie.table.name",
        "hoodie.table.checksum",
        "hoodie.table.type",
        "hoodie.table.keygenerator.class",
        METADATA_PARTITIONS,
    }
)
_CHOICES = frozenset(
    {
        "hoodie.datasource.write.hive_style_partitioning",
        "hoodie.datasource.write.partitionpath.urlencode",
        "hoodie.populate.meta.fields",
        "hoodie.table.timeline.timezone",
        "hoodie.table.keygenerator.type",
        "hoodie.record.merge.mode",
        "hoodie.compaction.payload.class",
        "hoodie.table.create.schema",
    }
)


def _split_partition_fields(partition_by: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the fields, and the types of those written `field:TYPE`."""
    fields, types = [], []
    for text in partition_by:
        field, _, kind = text.partition(":")
        if kind and kind.upper() not in _KEY_TYPES:
            raise ValueError(f"partition field {text!r}: the type is SIMPLE or TIMESTAMP")
        fields.append(field)
        types.append(kind.upper())
    if any(types) and not all(types):
        raise ValueError("either all partition fields have a type (`field:TYPE`), or none")
    return fields, types if all(types) else []


def _check_columns(
    schema: pa.Schema,
    record_key: Sequence[str],
    fields: Sequence[str],
    ordering: Sequence[str],
    table_version: int,
) -> pa.Schema:
    """Return the columns as the table stores them."""
    for field in schema:
        check_own_column(field.name, field.type)
    schema = stored_columns(schema, table_version)
    for what, names in (
        ("record_key", record_key),
        ("partition_by", fields),
        ("ordering", ordering),
    ):
        _check_once(what, names)
        for name in names:
            column = find_column(schema.empty_table(), name)
            if column is None:
                hint = did_you_mean(name, schema.names)
                raise SchemaError(f"{what}: no column {name!r}; {hint}")
            if pa.types.is_nested(column.type):
                raise SchemaError(f"{what}: {name} is {column.type}; take a column of one value")
    return schema


def _check_once(what: str, names: Sequence[str]) -> None:
    if repeated := find_repeated(names):
        raise SchemaError(f"{what} named twice: {', '.join(repeated)}")


def _check_writers_take(properties: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse what the first write would refuse."""
    try:
        config = TableConfig.from_properties(properties)
    except CorruptError as error:
        raise ValueError(f"properties: {error.message}") from None
    check_stated_codec(config)
    nothing = schema.empty_table()
    keys = record_keys(nothing, config)
    partition_paths(nothing, config)
    if config.table_type == "MERGE_ON_READ":  # whose deletes have ordering values
        make_delete_block(keys, "", nothing, config.ordering_fields, config.table_version)
    rules = find_merge_rules(config)
    rules.check_columns(schema, ())
    if config.partial_update_mode is PartialUpdateMode.FILL_UNAVAILABLE and rules.filling is None:
        raise ValueError(
            "a table that fills unavailable values states which text stands for one, or nothing is "
            f"filled: give the property {MERGE_PROPERTY}{UNAVAILABLE_VALUE}, such as "
            "'__debezium_unavailable_value'"
        )


def _key_generator(
    record_key: Sequence[str],
    fields: Sequence[str],
    types: Sequence[str],
    given: Mapping[str, str],
) -> str:
    """Return the generator that the fields take, or the more general one that is asked for."""
    found = _simplest_key_generator(record_key, fields, types)
    asked = given.get("hoodie.table.keygenerator.type", found)
    if asked not in (found, "CUSTOM" if types else "COMPLEX"):
        raise ValueError(
            f"hoodie.table.keygenerator.type={asked} contradicts record_key and partition_by, "
            f"which take {found}"
        )
    return asked


def _simplest_key_generator(
    record_key: Sequence[str], fields: Sequence[str], types: Sequence[str]
) -> str:
    if types:
        return "TIMESTAMP" if list(types) == ["TIMESTAMP"] and len(record_key) == 1 else "CUSTOM"
    if not fields:
        return "NON_PARTITION"
    return "SIMPLE" if len(record_key) == len(fields) == 1 else "COMPLEX"


def _of_version(
    version: int, generator: str, fields: Sequence[str], types: Sequence[str], hive: bool
) -> dict[str, str]:
    if version == 6:
        found = {
            "hoodie.timeline.layout.version": "1",
            "hoodie.archivelog.folder": ARCHIVE_FOLDER_NAME,
            "hoodie.table.keygenerator.class": _KEY_GENERATORS[generator],
            "hoodie.database.name": "",
        }
        if generator == "CUSTOM":  # Hudi 0.15 keeps the types in its writers' options only
            typed = ",".join(f"{f}:{t}" for f, t in zip(fields, types, strict=True))
            found["hoodie.datasource.write.partitionpath.field"] = typed
        return found
    found = {
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": ACTIVE_FOLDER_NAME,
        "hoodie.timeline.history.path": HISTORY_FOLDER_NAME,
        "hoodie.archivelog.folder": HISTORY_FOLDER_NAME,
        "hoodie.table.initial.version": str(version),
        "hoodie.table.keygenerator.type": generator,
        "hoodie.table.multiple.base.file.formats.enable": "false",
    }
    if generator == "CUSTOM":
        typed = ",".join(f"{f}:{t}" for f, t in zip(fields, types, strict=True))
        found["hoodie.table.partition.fields"] = typed
    if version >= 9:
        shape = "none" if not fields else "hive" if hive else "one" if len(fields) == 1 else "many"
        found["hoodie.table.format"] = "native"
        found["hoodie.table.partition_extractor_class"] = _EXTRACTORS[shape]
    return found


def _merging(version: int, ordering: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return how records merge: by ordering fields if there are any, else the later one stays."""
    by_ordering = MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING
    asked = given.get("hoodie.record.merge.mode", by_ordering.value)
    if asked not in {mode.value for mode in _MERGERS}:
        raise ValueError("hoodie.record.merge.mode is EVENT_TIME_ORDERING or COMMIT_TIME_ORDERING")
    if version >= 9 and "hoodie.compaction.payload.class" in given:
        raise ValueError("table version 9 has merge modes; set hoodie.record.merge.mode")
    if version < 9 and "hoodie.table.partial.update.mode" in given:
        raise ValueError(
            "hoodie.table.partial.update.mode takes table version 9; before, set "
            f"hoodie.compaction.payload.class={PARTIAL_UPDATE}"
        )
    mode = MergeMode(asked)
    payload, strategy = _MERGERS[mode]
    if version == 8 and given.get("hoodie.compaction.payload.class") == PARTIAL_UPDATE:
        mode, strategy, payload = MergeMode.CUSTOM, _BY_PAYLOAD, PARTIAL_UPDATE
    fields = ",".join(ordering)
    if version == 6:
        found = {
            "hoodie.compaction.payload.class": payload,
            "hoodie.compaction.record.merger.strategy": _MERGERS[MergeMode.EVENT_TIME_ORDERING][1],
        }
    else:
        found = {"hoodie.record.merge.mode": mode.value}
        if version == 8:
            found["hoodie.record.merge.strategy.id"] = strategy
            found["hoodie.compaction.payload.class"] = payload
    if fields:
        key = "hoodie.table.ordering.fields" if version >= 9 else "hoodie.table.precombine.field"
        found[key] = fields
    return found


def _of_index(
    index: Index, table_type: TableType, version: int, record_key: Sequence[str]
) -> dict[str, str]:
    if index.keeps_locations:
        index.check_creatable(table_type, version)
        return index.properties(record_key)
    by_buckets = as_bucket_index(index)
    if by_buckets is None:
        raise ValueError(f"a table is created with a bucket index or RecordIndex(), not {index!r}")
    hash_fields = by_buckets.hash_fields or tuple(record_key)
    strange = [field for field in hash_fields if field not in record_key]
    if strange:
        raise ValueError(f"hash field {strange[0]!r} is not among record_key")
    by_buckets.check_creatable(table_type, version)
    return by_buckets.properties(record_key)
