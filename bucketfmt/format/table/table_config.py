"""The configuration in `hoodie.properties`, resolved as Hudi resolves it.

Pure. Source: `HoodieTableConfig`, `KeyGeneratorType`, `TimelinePathProvider`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.names.damaged_names import check_property_names
from bucketfmt.format.names.layout import (
    ACTIVE_FOLDER_NAME,
    ARCHIVE_FOLDER_NAME,
    HISTORY_FOLDER_NAME,
    METADATA_FOLDER,
)
from bucketfmt.format.names.paths import check_relative_path, join_path
from bucketfmt.format.table.properties import check_table_checksum

__all__ = [
    "MERGE_PROPERTY",
    "METADATA_PARTITIONS",
    "METADATA_PARTITIONS_INFLIGHT",
    "METADATA_PARTITIONS_UNFINISHED",
    "KeyGenerator",
    "MergeMode",
    "PartialUpdateMode",
    "TableConfig",
]

METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
"""The property that lists the partitions of the metadata table that are ready for use."""

METADATA_PARTITIONS_INFLIGHT = f"{METADATA_PARTITIONS}.inflight"
"""The property that lists the partitions of the metadata table that are being made."""

METADATA_PARTITIONS_UNFINISHED = "bucketfmt.metadata.partitions.unfinished"
"""Of this package: what Hudi calls inflight, its writers add records to, made or not."""


class KeyGenerator(str, Enum):
    """How record keys and partition paths are made; `_AVRO` variants count as their kind."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    NON_PARTITION = "NON_PARTITION"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    AUTO_RECORD = "AUTO_RECORD"
    HOODIE_TABLE_METADATA = "HOODIE_TABLE_METADATA"
    SPARK_SQL = "SPARK_SQL"
    SPARK_SQL_UUID = "SPARK_SQL_UUID"
    SPARK_SQL_MERGE_INTO = "SPARK_SQL_MERGE_INTO"
    USER_PROVIDED = "USER_PROVIDED"


class MergeMode(str, Enum):
    """Which of two records with one key wins."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class PartialUpdateMode(str, Enum):
    """Which columns of the newer record are taken from the older one (table version 9)."""

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


# Each class has a twin with "Avro" in its name, as each type has one with "_AVRO".
_KEY_GENERATOR_OF_CLASS = {
    "org.apache.hudi.keygen.SimpleKeyGenerator": KeyGenerator.SIMPLE,
    "org.apache.hudi.keygen.ComplexKeyGenerator": KeyGenerator.COMPLEX,
    "org.apache.hudi.keygen.TimestampBasedKeyGenerator": KeyGenerator.TIMESTAMP,
    "org.apache.hudi.keygen.CustomKeyGenerator": KeyGenerator.CUSTOM,
    "org.apache.hudi.keygen.NonpartitionedKeyGenerator": KeyGenerator.NON_PARTITION,
    "org.apache.hudi.keygen.GlobalDeleteKeyGenerator": KeyGenerator.GLOBAL_DELETE,
    "org.apache.hudi.keygen.AutoRecordGenWrapperKeyGenerator": KeyGenerator.AUTO_RECORD,
    "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator": KeyGenerator.HOODIE_TABLE_METADATA,
    "org.apache.spark.sql.hudi.command.SqlKeyGenerator": KeyGenerator.SPARK_SQL,
    "org.apache.spark.sql.hudi.command.UuidKeyGenerator": KeyGenerator.SPARK_SQL_UUID,
    "org.apache.spark.sql.hudi.command.MergeIntoKeyGenerator": KeyGenerator.SPARK_SQL_MERGE_INTO,
}

_PAYLOADS = "org.apache.hudi.common.model."
_MODE_OF_PAYLOAD = {
    _PAYLOADS + "DefaultHoodieRecordPayload": MergeMode.EVENT_TIME_ORDERING,
    _PAYLOADS + "EventTimeAvroPayload": MergeMode.EVENT_TIME_ORDERING,
    _PAYLOADS + "OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME_ORDERING,
}
_MODE_OF_STRATEGY = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME_ORDERING,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME_ORDERING,
}

MERGE_PROPERTY = "hoodie.record.merge.property."
"""How the properties of a table that are for the merging of records begin."""
_EXTRACTOR = "hoodie.table.partition_extractor_class"
_SLASHED_DATES = "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor"
_DELETE_FIELD = "hoodie.payload.delete.field"
_DELETE_MARKER = "hoodie.payload.delete.marker"
_DEBEZIUM_DELETE = {_DELETE_FIELD: "_change_operation_type", _DELETE_MARKER: "d"}
# Before version 9 these payloads knew their delete marker; from 9 on the table records it.
_MERGE_PROPERTIES_OF_PAYLOAD = {
    _PAYLOADS + "AWSDmsAvroPayload": {_DELETE_FIELD: "Op", _DELETE_MARKER: "D"},
    _PAYLOADS + "debezium.MySqlDebeziumAvroPayload": _DEBEZIUM_DELETE,
    _PAYLOADS + "debezium.PostgresDebeziumAvroPayload": _DEBEZIUM_DELETE,
}

_LAYOUT_OF_VERSION = {3: 1, 4: 1, 5: 1, 6: 1, 8: 2, 9: 2}
_WRITTEN_VERSIONS = (6, 8, 9)


@dataclass(frozen=True, slots=True)
class TableConfig:
    """The properties of a table, typed; `properties` keeps all of them as they are written.

    Folders are relative to the table root and checked. Absent properties have Hudi's defaults.

    Attributes:
        name: Table name.
        table_type: "COPY_ON_WRITE" or "MERGE_ON_READ".
        table_version: 3, 4 or 5, which are read and not written; 6, 8 or 9.
        initial_version: The version the table was created with.
        timeline_layout: 1 (up to version 6) or 2.
        timeline_path: Folder of the active timeline.
        history_path: Folder of archived instants, whichever layout the table has.
        archive_folder: Folder where layout 1 archives; an upgraded table may still have it.
        record_key_fields: Empty if Hudi generates keys.
        partition_fields: Without the key generator's type suffix; empty if unpartitioned.
        key_generator: The recorded key generator, else the key generator that Hudi infers from the
            fields.
        ordering_fields: Compared to find the newer of two records.
        merge_mode: Resolved from mode, strategy id, payload class and ordering fields.
        payload_class: As recorded; it decides how records merge only in mode CUSTOM.
        partial_update_mode: Version 9 only.
        merge_properties: Keys without the prefix `hoodie.record.merge.property.`.
        populate_meta_fields: Whether rows carry the `_hoodie_*` columns.
        hive_style: Partition paths read `field=value`.
        url_encode: Partition values are escaped in paths.
        drop_partition_columns: Partition columns are not in the files.
        base_file_format: "PARQUET", "ORC", "HFILE", "LANCE" or a later one. Only rows of
            "PARQUET" are read.
        metadata_partitions: Partitions of the metadata table that are ready for use.
        metadata_partitions_inflight: Partitions whose initialisation has begun and not ended.
        metadata_partitions_unfinished: Partitions that were ready, and that a writer of this
            package began to make anew; the next writer finishes that.
        create_schema: Avro JSON given when the table was created.
        timezone: "LOCAL" or "UTC", the zone instants are written in.
        cdc_enabled: Whether writers log change data.
        partition_path_holds_values: Whether partition paths are made of the columns' values.
            If a date format, slashed dates or a user's class makes the paths, the paths do not hold
            the columns' values, and must not be used to prune or fill columns.
        properties: All properties, raw.
    """

    name: str
    table_type: str
    table_version: int
    initial_version: int
    timeline_layout: int
    timeline_path: str
    history_path: str
    archive_folder: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    key_generator: KeyGenerator
    ordering_fields: tuple[str, ...]
    merge_mode: MergeMode
    payload_class: str | None
    partial_update_mode: PartialUpdateMode | None
    merge_properties: dict[str, str]
    populate_meta_fields: bool
    hive_style: bool
    url_encode: bool
    drop_partition_columns: bool
    base_file_format: str
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    metadata_partitions_unfinished: tuple[str, ...]
    create_schema: str | None
    timezone: str
    cdc_enabled: bool
    partition_path_holds_values: bool
    properties: dict[str, str]

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TableConfig:
        """Return the configuration of the properties in `hoodie.properties`, as `decode_properties`
        returns them.

        Raises:
            CorruptError: a property has no valid value, properties contradict one another, or
                the checksum is wrong (ChecksumError).
            UnsupportedError: this release does not support the table version, the table format,
                bootstrapped tables, or a value.
            UnsafePathError: a folder would lie outside the table.
        """
        check_property_names(properties)
        check_table_checksum(properties)
        version = _table_version(properties)
        _check_supported(properties)
        layout = _timeline_layout(properties, version)
        archive_folder = _folder(
            properties, "hoodie.archivelog.folder", ARCHIVE_FOLDER_NAME, METADATA_FOLDER
        )
        timeline_path, history_path = METADATA_FOLDER, archive_folder
        if layout == 2:
            timeline_path = _folder(
                properties, "hoodie.timeline.path", ACTIVE_FOLDER_NAME, METADATA_FOLDER
            )
            history_path = _folder(
                properties, "hoodie.timeline.history.path", HISTORY_FOLDER_NAME, timeline_path
            )
        partition_fields = _fields(properties, "hoodie.table.partition.fields")
        key_generator = _key_generator(properties)
        payload_class = _payload_class(properties)
        partial_update_mode = properties.get("hoodie.table.partial.update.mode")
        return cls(
            name=properties["hoodie.table.name"],
            table_type=_one_of(properties, "hoodie.table.type", ("COPY_ON_WRITE", "MERGE_ON_READ")),
            table_version=version,
            initial_version=_number(properties, "hoodie.table.initial.version", version),
            timeline_layout=layout,
            timeline_path=timeline_path,
            history_path=history_path,
            archive_folder=archive_folder,
            record_key_fields=_fields(properties, "hoodie.table.recordkey.fields"),
            partition_fields=tuple(field.partition(":")[0] for field in partition_fields),
            key_generator=key_generator,
            ordering_fields=_ordering_fields(properties),
            merge_mode=_merge_mode(properties, version),
            payload_class=payload_class,
            partial_update_mode=(
                _member(PartialUpdateMode, "hoodie.table.partial.update.mode", partial_update_mode)
                if version >= 9 and partial_update_mode
                else None
            ),
            merge_properties=_merge_properties(properties, version, payload_class),
            populate_meta_fields=_flag(properties, "hoodie.populate.meta.fields", True),
            hive_style=_flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
            url_encode=_flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
            drop_partition_columns=_flag(
                properties, "hoodie.datasource.write.drop.partition.columns"
            ),
            base_file_format=properties.get("hoodie.table.base.file.format") or "PARQUET",
            metadata_partitions=_fields(properties, METADATA_PARTITIONS),
            metadata_partitions_inflight=_fields(properties, METADATA_PARTITIONS_INFLIGHT),
            metadata_partitions_unfinished=tuple(
                name
                for name in _fields(properties, METADATA_PARTITIONS_UNFINISHED)
                if name not in _fields(properties, METADATA_PARTITIONS)
            ),
            create_schema=properties.get("hoodie.table.create.schema") or None,
            timezone=_one_of(properties, "hoodie.table.timeline.timezone", ("LOCAL", "UTC")),
            cdc_enabled=_flag(properties, "hoodie.table.cdc.enabled"),
            partition_path_holds_values=_partition_path_holds_values(
                properties, key_generator, partition_fields
            ),
            properties=dict(properties),
        )

    @property
    def is_unpartitioned(self) -> bool:
        """Whether all rows are in the root; code of the user's may make paths without fields."""
        makes_paths = (KeyGenerator.USER_PROVIDED, KeyGenerator.HOODIE_TABLE_METADATA)
        return not self.partition_fields and self.key_generator not in makes_paths

    @property
    def path_columns(self) -> tuple[str, ...]:
        """The columns that partition paths tell, whatever files have: they were dropped from files.

        A base file that Hudi 1.2 wrote again for a delete has them, all null.
        """
        is_told = self.drop_partition_columns and self.partition_path_holds_values
        return self.partition_fields if is_told else ()

    def check_written_version(self) -> None:
        """Check that this release writes tables of this version.

        Raises:
            UnsupportedError: the table version is 3, 4 or 5.
        """
        if self.table_version not in _WRITTEN_VERSIONS:
            raise UnsupportedError(
                f"a table of version {self.table_version} is read and not written; upgrade the "
                "table first: the first write with Hudi 0.14 or 0.15 does, and so does "
                f"`call upgrade_table(table => '{self.name}', to_version => 'SIX')` in Spark SQL "
                "with Hudi 0.15; Hudi's older releases cannot read the table afterwards"
            )

    def check_writable(self) -> None:
        """Check that this release writes files of such a table.

        Raises:
            UnsupportedError: it does not.
        """
        for is_so, what in (
            (self.cdc_enabled, "change data capture (hoodie.table.cdc.enabled)"),
            (self.drop_partition_columns, "partition columns dropped from its files"),
            (self.base_file_format != "PARQUET", f"base files in {self.base_file_format}"),
        ):
            if is_so:
                raise UnsupportedError(f"writing to a table with {what}; write it with Hudi")


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, "")
    if not text:
        return default
    if re.fullmatch("[0-9]{1,9}", text) is None:
        raise CorruptError(f"{key} is {text[:40]!r}, not a number")
    return int(text)


def _flag(properties: Mapping[str, str], key: str, default: bool = False) -> bool:
    """Parse true or false in any case. Other text is refused, which Java takes for false."""
    text = properties.get(key, str(default))
    if text.lower() not in ("true", "false"):
        raise CorruptError(f"{key} is {text[:40]!r}, neither true nor false")
    return text.lower() == "true"


def _one_of(properties: Mapping[str, str], key: str, values: tuple[str, ...]) -> str:
    """Return the property, which must be one of `values`; the first value if it is absent."""
    text = properties.get(key) or values[0]
    if text not in values:
        raise UnsupportedError(f"{key} is {text[:80]!r}; this release knows {', '.join(values)}")
    return text


_Member = TypeVar("_Member", bound=Enum)


def _member(kind: type[_Member], key: str, text: str) -> _Member:
    member = kind.__members__.get(text.upper())
    if member is None:
        known = ", ".join(kind.__members__)
        raise UnsupportedError(f"{key} is {text[:80]!r}; this release knows {known}")
    return member


def _fields(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    parts = (part.strip() for part in properties.get(key, "").split(","))
    return tuple(part for part in parts if part)


def _folder(properties: Mapping[str, str], key: str, default: str, parent: str) -> str:
    return join_path(parent, check_relative_path(properties.get(key, default)))


def _table_version(properties: Mapping[str, str]) -> int:
    if not properties.get("hoodie.table.version"):
        raise UnsupportedError(
            "hoodie.table.version is missing, and Hudi would take the table for its own newest "
            "version; put the version back (6 for Hudi 0.14 and 0.15, 8 for 1.0, 9 for 1.1 and "
            "1.2), or upgrade a table written before Hudi 0.6"
        )
    version = _number(properties, "hoodie.table.version", 0)
    if version in _LAYOUT_OF_VERSION:
        return version
    if version < 3:
        advice = "it is older than Hudi 0.10; upgrade it by a write with Hudi 0.14 or 0.15"
    elif version == 7:
        advice = "its upgrade or downgrade stopped half way; finish that with Hudi 1.x"
    else:
        advice = "it is newer than this release; upgrade bucketfmt"
    raise UnsupportedError(f"table version {version} is not 3 to 6, 8 or 9: {advice}")


def _timeline_layout(properties: Mapping[str, str], version: int) -> int:
    expected = _LAYOUT_OF_VERSION[version]
    layout = _number(properties, "hoodie.timeline.layout.version", expected)
    if layout != expected:
        raise CorruptError(
            f"hoodie.timeline.layout.version is {layout}, but table version {version} has layout "
            f"{expected}; restore hoodie.properties"
        )
    return layout


def _check_supported(properties: Mapping[str, str]) -> None:
    table_format = properties.get("hoodie.table.format") or "native"
    if table_format != "native":
        raise UnsupportedError(
            f"hoodie.table.format is {table_format[:80]!r}; only native Hudi tables are read"
        )
    if properties.get("hoodie.bootstrap.base.path"):
        raise UnsupportedError(
            "the table is bootstrapped: rows of it may lie outside it, in the folder that "
            "hoodie.bootstrap.base.path names; have Hudi read the table and write a new one of "
            "its rows"
        )


def _ordering_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    new, old = "hoodie.table.ordering.fields", "hoodie.table.precombine.field"
    return _fields(properties, new if new in properties else old)


def _payload_class(properties: Mapping[str, str]) -> str | None:
    recorded = properties.get("hoodie.compaction.payload.class")
    return recorded.replace("com.uber.hoodie", "org.apache.hudi") if recorded else None


def _merge_mode(properties: Mapping[str, str], version: int) -> MergeMode:
    """Resolve the merge mode (`HoodieTableConfig.inferMergingConfigsForPreV9Table`)."""
    mode_text = properties.get("hoodie.record.merge.mode")
    recorded = _member(MergeMode, "hoodie.record.merge.mode", mode_text) if mode_text else None
    if version >= 9 and recorded is not None:
        return recorded
    payload_class = _payload_class(properties)
    strategy_id = properties.get("hoodie.record.merge.strategy.id") or properties.get(
        "hoodie.compaction.record.merger.strategy"
    )
    of_payload = _MODE_OF_PAYLOAD.get(payload_class, MergeMode.CUSTOM) if payload_class else None
    of_strategy = _MODE_OF_STRATEGY.get(strategy_id, MergeMode.CUSTOM) if strategy_id else None
    # Hudi 0.15 records the event time strategy next to any payload class, so there the
    # payload class is the one to trust.
    inferred = (of_strategy or of_payload) if version >= 8 else (of_payload or of_strategy)
    contradiction = (
        version >= 8
        and of_payload is not None
        and of_strategy not in (None, MergeMode.CUSTOM, of_payload)
    )
    if contradiction or (None not in (recorded, inferred) and recorded != inferred):
        raise CorruptError(
            f"merge mode {mode_text}, merge strategy {strategy_id} and payload class "
            f"{payload_class} contradict one another; Hudi refuses such a table too"
        )
    by_default = (
        MergeMode.EVENT_TIME_ORDERING
        if _ordering_fields(properties)
        else MergeMode.COMMIT_TIME_ORDERING
    )
    return recorded or inferred or by_default


def _merge_properties(
    properties: Mapping[str, str], version: int, payload_class: str | None
) -> dict[str, str]:
    """Source: `HoodieTableConfig.getTableMergeProperties`."""
    found = {
        key.removeprefix(MERGE_PROPERTY).strip(): value.strip()
        for key, value in properties.items()
        if key.startswith(MERGE_PROPERTY) and key.removeprefix(MERGE_PROPERTY).strip()
    }
    if version < 9 and payload_class is not None:
        found.update(_MERGE_PROPERTIES_OF_PAYLOAD.get(payload_class, {}))
    return found


def _key_generator(properties: Mapping[str, str]) -> KeyGenerator:
    """The class decides, then the type, then the fields (`KeyGenUtils.inferKeyGeneratorType`)."""
    class_name = properties.get("hoodie.table.keygenerator.class")
    if class_name:
        class_name = class_name.replace("Avro", "")
        return _KEY_GENERATOR_OF_CLASS.get(class_name, KeyGenerator.USER_PROVIDED)
    type_key = "hoodie.table.keygenerator.type"
    type_name = properties.get(type_key)
    if type_name:
        return _member(KeyGenerator, type_key, type_name.removesuffix("_AVRO"))
    partition_fields = _fields(properties, "hoodie.table.partition.fields")
    if not partition_fields:
        return KeyGenerator.NON_PARTITION
    if ":" in partition_fields[0]:
        return KeyGenerator.CUSTOM
    key_fields = _fields(properties, "hoodie.table.recordkey.fields")
    if len(partition_fields) > 1 or len(key_fields) > 1:
        return KeyGenerator.COMPLEX
    return KeyGenerator.SIMPLE


def _partition_path_holds_values(
    properties: Mapping[str, str], key_generator: KeyGenerator, partition_fields: tuple[str, ...]
) -> bool:
    if _flag(properties, "hoodie.datasource.write.slash.separated.date.partitioning"):
        return False
    if _table_version(properties) >= 9 and properties.get(_EXTRACTOR) == _SLASHED_DATES:
        return False  # all that Hudi 1.2 records of that option (inferPartitionValueExtractorClass)
    if key_generator is KeyGenerator.CUSTOM:
        return all(field.lower().endswith(":simple") for field in partition_fields)
    return key_generator not in (KeyGenerator.TIMESTAMP, KeyGenerator.USER_PROVIDED)
