from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import (
    BucketfmtError,
    ChecksumError,
    CorruptError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.table.table_config import (
    KeyGenerator,
    MergeMode,
    PartialUpdateMode,
    TableConfig,
)
from tests.golden import GOLDEN

COMMIT, EVENT, CUSTOM = (
    MergeMode.COMMIT_TIME_ORDERING,
    MergeMode.EVENT_TIME_ORDERING,
    MergeMode.CUSTOM,
)
EVENT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
CUSTOM_ID = "1897ef5f-18bc-4557-939c-9d6a8afd1519"
PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"
PAYLOADS = "org.apache.hudi.common.model."
OVERWRITE = PAYLOADS + "OverwriteWithLatestAvroPayload"
DEFAULT = PAYLOADS + "DefaultHoodieRecordPayload"

MODE = "hoodie.record.merge.mode"
STRATEGY = "hoodie.record.merge.strategy.id"
STRATEGY_6 = "hoodie.compaction.record.merger.strategy"
PAYLOAD = "hoodie.compaction.payload.class"
PRECOMBINE = "hoodie.table.precombine.field"
ORDERING = "hoodie.table.ordering.fields"
KEYGEN_CLASS = "hoodie.table.keygenerator.class"
KEYGEN_TYPE = "hoodie.table.keygenerator.type"
EXTRACTOR = "hoodie.table.partition_extractor_class"
HIVE, VALUE = "org.apache.hudi.hive", "PartitionValueExtractor"
PARTITION = "hoodie.table.partition.fields"
RECORD_KEY = "hoodie.table.recordkey.fields"


def config(version: int = 9, /, **changes: str | None) -> TableConfig:
    return from_changes(version, dict(changes))


def from_changes(version: int, changes: dict[str, str | None]) -> TableConfig:
    properties = {"hoodie.table.name": "t", "hoodie.table.version": str(version), **changes}
    return TableConfig.from_properties({k: v for k, v in properties.items() if v is not None})


def test_defaults() -> None:
    found = config()
    assert found.name == "t"
    assert found.table_type == "COPY_ON_WRITE"
    assert (found.table_version, found.initial_version, found.timeline_layout) == (9, 9, 2)
    assert found.timeline_path == ".hoodie/timeline"
    assert found.history_path == ".hoodie/timeline/history"
    assert found.archive_folder == ".hoodie/archived"
    assert found.record_key_fields == found.partition_fields == found.ordering_fields == ()
    assert found.metadata_partitions == ()
    assert found.key_generator is KeyGenerator.NON_PARTITION
    assert found.merge_mode is COMMIT
    assert found.merge_mode == "COMMIT_TIME_ORDERING"
    assert found.payload_class is found.partial_update_mode is found.create_schema is None
    assert found.merge_properties == {}
    assert found.populate_meta_fields
    assert not any((found.hive_style, found.url_encode, found.drop_partition_columns))
    assert not found.cdc_enabled
    assert found.base_file_format == "PARQUET"
    assert found.timezone == "LOCAL"
    assert found.properties == {"hoodie.table.name": "t", "hoodie.table.version": "9"}


def test_every_property() -> None:
    found = from_changes(
        8,
        {
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.initial.version": "6",
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "line",
            "hoodie.timeline.history.path": "old/er",
            "hoodie.archivelog.folder": "attic",
            RECORD_KEY: "id, name,",
            PARTITION: "region:SIMPLE,made:timestamp",
            PRECOMBINE: "ts",
            "hoodie.populate.meta.fields": "FALSE",
            "hoodie.datasource.write.hive_style_partitioning": "True",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
            "hoodie.datasource.write.drop.partition.columns": "true",
            "hoodie.table.base.file.format": "ORC",
            "hoodie.table.metadata.partitions": "column_stats,files",
            "hoodie.table.create.schema": '{"type":"record"}',
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.table.cdc.enabled": "true",
        },
    )
    assert found.table_type == "MERGE_ON_READ"
    assert (found.table_version, found.initial_version, found.timeline_layout) == (8, 6, 2)
    assert found.timeline_path == ".hoodie/line"
    assert found.history_path == ".hoodie/line/old/er"
    assert found.archive_folder == ".hoodie/attic"
    assert found.record_key_fields == ("id", "name")
    assert found.partition_fields == ("region", "made")
    assert found.ordering_fields == ("ts",)
    assert not found.populate_meta_fields
    assert found.hive_style
    assert found.url_encode
    assert found.drop_partition_columns
    assert found.base_file_format == "ORC"
    assert found.metadata_partitions == ("column_stats", "files")
    assert found.create_schema == '{"type":"record"}'
    assert found.timezone == "UTC"
    assert found.cdc_enabled
    assert found.properties[PARTITION] == "region:SIMPLE,made:timestamp"


def test_layout_1_keeps_its_timeline_in_the_meta_folder() -> None:
    found = from_changes(6, {"hoodie.timeline.path": "timeline"})
    assert found.timeline_layout == 1
    assert found.timeline_path == ".hoodie"
    assert found.history_path == found.archive_folder == ".hoodie/archived"
    assert from_changes(6, {"hoodie.archivelog.folder": ""}).history_path == ".hoodie"


@pytest.mark.rule("PROP-6")
@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("0", "older"),
        ("2", "older than Hudi 0.10; upgrade it"),
        ("7", "finish that with Hudi 1.x"),
        ("10", "upgrade bucketfmt"),
        ("999", "upgrade bucketfmt"),
    ],
)
def test_other_table_versions(version: str, advice: str) -> None:
    with pytest.raises(UnsupportedError, match=f"table version {version} .*{advice}"):
        from_changes(9, {"hoodie.table.version": version})


@pytest.mark.parametrize("version", [3, 4, 5])
def test_old_table_versions_are_read_and_not_written(version: int) -> None:
    found = config(version)
    assert (found.table_version, found.timeline_layout, found.timeline_path) == (
        version,
        1,
        ".hoodie",
    )
    with pytest.raises(UnsupportedError, match=rf"version {version} is read and not .*upgrade"):
        found.check_written_version()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_written_table_versions(version: int) -> None:
    config(version).check_written_version()


@pytest.mark.rule("PROP-6")
@pytest.mark.parametrize("version", [None, ""])
def test_a_missing_table_version_is_never_guessed(version: str | None) -> None:
    with pytest.raises(UnsupportedError, match=r"hoodie\.table\.version is missing.*put .* back"):
        from_changes(9, {"hoodie.table.version": version})


@pytest.mark.parametrize("text", ["x", "-9", "9.0", " 9", "٩", "9" * 5000])
def test_numbers_are_decimal(text: str) -> None:
    for key in ("hoodie.table.version", "hoodie.table.initial.version"):
        with pytest.raises(CorruptError, match="not a number"):
            from_changes(9, {key: text})


@pytest.mark.rule("PROP-7")
def test_layout_belongs_to_version() -> None:
    for version, layout in ((3, "2"), (5, "0"), (6, "2"), (8, "1"), (9, "0")):
        with pytest.raises(CorruptError, match="layout"):
            from_changes(version, {"hoodie.timeline.layout.version": layout})


def test_base_files_of_any_format_do_not_hide_the_table() -> None:
    """What needs no row of them works; reading rows is refused by the format."""
    assert config(9, **{"hoodie.table.base.file.format": "VORTEX"}).base_file_format == "VORTEX"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.type", "MERGE_ON_WRITE"),
        ("hoodie.table.timeline.timezone", "Europe/Berlin"),
        ("hoodie.table.partial.update.mode", "KEEP_ALL"),
        ("hoodie.table.format", "iceberg"),
        (KEYGEN_TYPE, "QUANTUM"),
        (MODE, "BEST_EFFORT"),
    ],
)
def test_unknown_values_are_unsupported(key: str, value: str) -> None:
    with pytest.raises(UnsupportedError):
        from_changes(9, {key: value})


def test_a_bootstrapped_table_is_sent_to_a_new_one() -> None:
    """Hudi keeps the property whatever it rewrites in place, and where it copied all rows."""
    with pytest.raises(UnsupportedError, match="have Hudi read the table and write a new one"):
        from_changes(9, {"hoodie.bootstrap.base.path": "s3://bucket/source"})


def test_a_wrong_checksum_or_no_name() -> None:
    with pytest.raises(ChecksumError):
        from_changes(9, {"hoodie.table.checksum": "1"})
    with pytest.raises(CorruptError, match=r"hoodie\.table\.name"):
        from_changes(9, {"hoodie.table.name": None})


@pytest.mark.rule("PROP-9", "PATH-1")
@pytest.mark.parametrize(
    "key",
    ["hoodie.timeline.path", "hoodie.timeline.history.path", "hoodie.archivelog.folder"],
)
@pytest.mark.parametrize("value", ["../../etc", "/etc", "s3://other/x", "a/%2e%2e/b"])
def test_folders_stay_inside_the_table(key: str, value: str) -> None:
    with pytest.raises(UnsafePathError):
        from_changes(9, {key: value})


@pytest.mark.rule("PROP-13")
@pytest.mark.parametrize(
    ("version", "changes", "mode"),
    [
        # nothing recorded
        (6, {}, COMMIT),
        (6, {PRECOMBINE: "ts"}, EVENT),
        (8, {PRECOMBINE: "ts"}, EVENT),
        (9, {ORDERING: "ts"}, EVENT),
        # version 6: the payload class wins over the strategy id
        (6, {STRATEGY_6: EVENT_ID, PAYLOAD: OVERWRITE, PRECOMBINE: "ts"}, COMMIT),
        (6, {STRATEGY_6: EVENT_ID, PAYLOAD: DEFAULT}, EVENT),
        (6, {STRATEGY_6: EVENT_ID, PAYLOAD: PAYLOADS + "EventTimeAvroPayload"}, EVENT),
        (6, {STRATEGY_6: EVENT_ID, PAYLOAD: PAYLOADS + "PartialUpdateAvroPayload"}, CUSTOM),
        (6, {STRATEGY_6: EVENT_ID, PAYLOAD: "com.example.Mine"}, CUSTOM),
        (6, {STRATEGY_6: COMMIT_ID, PRECOMBINE: "ts"}, COMMIT),
        (6, {PAYLOAD: "com.uber.hoodie.common.model.OverwriteWithLatestAvroPayload"}, COMMIT),
        # version 8: the strategy id wins, and must agree
        (8, {MODE: EVENT.value, STRATEGY: EVENT_ID, PAYLOAD: DEFAULT}, EVENT),
        (8, {MODE: COMMIT.value, STRATEGY: COMMIT_ID, PAYLOAD: OVERWRITE}, COMMIT),
        (8, {MODE: CUSTOM.value, STRATEGY: PAYLOAD_ID, PAYLOAD: OVERWRITE}, CUSTOM),
        (8, {MODE: CUSTOM.value, STRATEGY: CUSTOM_ID}, CUSTOM),
        (8, {STRATEGY: COMMIT_ID}, COMMIT),
        (8, {STRATEGY_6: COMMIT_ID}, COMMIT),
        (8, {MODE: "commit_time_ordering"}, COMMIT),
        # version 9: the mode says it all
        (9, {MODE: COMMIT.value, ORDERING: "ts"}, COMMIT),
        (9, {MODE: EVENT.value}, EVENT),
        (9, {MODE: CUSTOM.value, STRATEGY: PAYLOAD_ID, PAYLOAD: "com.example.Mine"}, CUSTOM),
        (9, {MODE: COMMIT.value, "hoodie.table.legacy.payload.class": DEFAULT}, COMMIT),
    ],
)
def test_merge_mode(version: int, changes: dict[str, str], mode: MergeMode) -> None:
    assert from_changes(version, dict(changes)).merge_mode is mode


@pytest.mark.rule("PROP-14")
@pytest.mark.parametrize(
    ("version", "changes"),
    [
        (8, {STRATEGY: EVENT_ID, PAYLOAD: OVERWRITE}),
        (8, {MODE: COMMIT.value, STRATEGY: EVENT_ID}),
        (8, {MODE: EVENT.value, PAYLOAD: OVERWRITE}),
        (6, {MODE: EVENT.value, PAYLOAD: OVERWRITE}),
    ],
)
def test_contradicting_merge_settings(version: int, changes: dict[str, str]) -> None:
    with pytest.raises(CorruptError, match="contradict"):
        from_changes(version, dict(changes))


def test_ordering_fields_have_two_names() -> None:
    assert from_changes(9, {ORDERING: "ts,qty"}).ordering_fields == ("ts", "qty")
    assert from_changes(9, {PRECOMBINE: "ts"}).ordering_fields == ("ts",)
    assert from_changes(9, {PRECOMBINE: "ts", ORDERING: ""}).ordering_fields == ()


def test_partial_updates_are_of_version_9() -> None:
    changes = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    assert from_changes(9, dict(changes)).partial_update_mode is PartialUpdateMode.IGNORE_DEFAULTS
    assert from_changes(8, dict(changes)).partial_update_mode is None


def test_merge_properties_lose_their_prefix() -> None:
    found = from_changes(
        9,
        {
            "hoodie.record.merge.property.hoodie.payload.delete.field": " Op ",
            "hoodie.record.merge.property.": "x",
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        },
    )
    assert found.merge_properties == {"hoodie.payload.delete.field": "Op"}


@pytest.mark.parametrize(
    ("payload", "field", "marker"),
    [
        ("AWSDmsAvroPayload", "Op", "D"),
        ("debezium.MySqlDebeziumAvroPayload", "_change_operation_type", "d"),
        ("debezium.PostgresDebeziumAvroPayload", "_change_operation_type", "d"),
    ],
)
def test_old_payloads_bring_their_delete_marker(payload: str, field: str, marker: str) -> None:
    expected = {"hoodie.payload.delete.field": field, "hoodie.payload.delete.marker": marker}
    for version in (6, 8):
        found = from_changes(version, {PAYLOAD: PAYLOADS + payload})
        assert found.payload_class == PAYLOADS + payload
        assert found.merge_properties == expected
    assert from_changes(9, {PAYLOAD: PAYLOADS + payload}).merge_properties == {}


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [
        ("org.apache.hudi.keygen.SimpleKeyGenerator", "SIMPLE"),
        ("org.apache.hudi.keygen.SimpleAvroKeyGenerator", "SIMPLE"),
        ("org.apache.hudi.keygen.ComplexKeyGenerator", "COMPLEX"),
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", "COMPLEX"),
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", "TIMESTAMP"),
        ("org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator", "TIMESTAMP"),
        ("org.apache.hudi.keygen.CustomKeyGenerator", "CUSTOM"),
        ("org.apache.hudi.keygen.CustomAvroKeyGenerator", "CUSTOM"),
        ("org.apache.hudi.keygen.NonpartitionedKeyGenerator", "NON_PARTITION"),
        ("org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator", "NON_PARTITION"),
        ("org.apache.hudi.keygen.GlobalDeleteKeyGenerator", "GLOBAL_DELETE"),
        ("org.apache.hudi.keygen.GlobalAvroDeleteKeyGenerator", "GLOBAL_DELETE"),
        ("org.apache.hudi.keygen.AutoRecordGenWrapperKeyGenerator", "AUTO_RECORD"),
        ("org.apache.hudi.keygen.AutoRecordGenWrapperAvroKeyGenerator", "AUTO_RECORD"),
        ("org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator", "HOODIE_TABLE_METADATA"),
        ("org.apache.spark.sql.hudi.command.SqlKeyGenerator", "SPARK_SQL"),
        ("org.apache.spark.sql.hudi.command.UuidKeyGenerator", "SPARK_SQL_UUID"),
        ("org.apache.spark.sql.hudi.command.MergeIntoKeyGenerator", "SPARK_SQL_MERGE_INTO"),
        ("com.example.KeyGenerator", "USER_PROVIDED"),
    ],
)
def test_key_generator_of_class(class_name: str, expected: str) -> None:
    assert from_changes(6, {KEYGEN_CLASS: class_name}).key_generator == expected
    both = {KEYGEN_CLASS: class_name, KEYGEN_TYPE: "USER_PROVIDED"}
    assert from_changes(9, dict(both)).key_generator == expected


@pytest.mark.parametrize("kind", list(KeyGenerator))
def test_key_generator_of_type(kind: KeyGenerator) -> None:
    assert from_changes(9, {KEYGEN_TYPE: kind.value}).key_generator is kind
    assert from_changes(9, {KEYGEN_TYPE: f"{kind.value}_AVRO"}).key_generator is kind
    assert from_changes(9, {KEYGEN_TYPE: kind.value, KEYGEN_CLASS: ""}).key_generator is kind


@pytest.mark.parametrize(
    ("key", "partition", "expected"),
    [
        ("id", "", "NON_PARTITION"),
        ("id,name", "", "NON_PARTITION"),
        ("id", "region", "SIMPLE"),
        ("", "region", "SIMPLE"),
        ("id,name", "region", "COMPLEX"),
        ("id", "region,day", "COMPLEX"),
        ("id,name", "region:SIMPLE", "CUSTOM"),
    ],
)
def test_key_generator_inferred_from_fields(key: str, partition: str, expected: str) -> None:
    assert from_changes(6, {RECORD_KEY: key, PARTITION: partition}).key_generator == expected


@pytest.mark.rule("PATH-9")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({KEYGEN_TYPE: "SIMPLE", PARTITION: "region"}, True),
        ({KEYGEN_TYPE: "COMPLEX", PARTITION: "region,day"}, True),
        ({KEYGEN_TYPE: "NON_PARTITION"}, True),
        ({KEYGEN_TYPE: "CUSTOM", PARTITION: "region:SIMPLE,day:simple"}, True),
        ({KEYGEN_TYPE: "CUSTOM", PARTITION: "region:SIMPLE,day:TIMESTAMP"}, False),
        ({KEYGEN_TYPE: "CUSTOM", PARTITION: "region"}, False),
        ({KEYGEN_TYPE: "TIMESTAMP", PARTITION: "day"}, False),
        ({KEYGEN_CLASS: "com.example.KeyGenerator", PARTITION: "day"}, False),
        (
            {
                KEYGEN_TYPE: "SIMPLE",
                PARTITION: "day",
                "hoodie.datasource.write.slash.separated.date.partitioning": "true",
            },
            False,
        ),
        (
            {KEYGEN_TYPE: "SIMPLE", PARTITION: "day", EXTRACTOR: f"{HIVE}.SlashEncodedDay{VALUE}"},
            False,
        ),
        ({KEYGEN_TYPE: "SIMPLE", PARTITION: "day", EXTRACTOR: f"{HIVE}.SinglePart{VALUE}"}, True),
    ],
)
def test_whether_partition_paths_hold_values(changes: dict[str, str], expected: bool) -> None:
    assert from_changes(9, dict(changes)).partition_path_holds_values is expected


def test_the_properties_given_may_change_afterwards() -> None:
    properties = {"hoodie.table.name": "t", "hoodie.table.version": "9"}
    found = TableConfig.from_properties(properties)
    properties["hoodie.table.name"] = "u"
    assert found.properties["hoodie.table.name"] == "t"


KNOWN_KEYS = [
    "hoodie.table.version",
    "hoodie.timeline.layout.version",
    "hoodie.timeline.path",
    "hoodie.table.checksum",
    PARTITION,
    RECORD_KEY,
    KEYGEN_TYPE,
    KEYGEN_CLASS,
    MODE,
    STRATEGY,
    PAYLOAD,
]
VALUES = st.text() | st.sampled_from(
    ["6", "8", "9", "1", "2", EVENT_ID, OVERWRITE, "CUSTOM", ":,:"]
)


@given(st.dictionaries(st.sampled_from(KNOWN_KEYS) | st.text(), VALUES))
def test_any_properties_give_a_config_or_are_refused(changes: dict[str, str]) -> None:
    properties = {"hoodie.table.name": "t", "hoodie.table.version": "9", **changes}
    try:
        found = TableConfig.from_properties(properties)
    except BucketfmtError:
        return
    assert found.properties == properties


def simple_table(version: str, name: str) -> dict[str, Any]:
    """What every table of the simplest kind has, by Hudi release."""
    table_version = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}[version]
    history = ".hoodie/archived" if table_version == 6 else ".hoodie/timeline/history"
    return {
        "name": name,
        "table_type": "COPY_ON_WRITE",
        "table_version": table_version,
        "initial_version": table_version,
        "timeline_layout": 1 if table_version == 6 else 2,
        "timeline_path": ".hoodie" if table_version == 6 else ".hoodie/timeline",
        "history_path": history,
        "archive_folder": ".hoodie/archived" if table_version == 6 else ".hoodie/history",
        "record_key_fields": ("id",),
        "partition_fields": ("region",),
        "key_generator": KeyGenerator.SIMPLE,
        "ordering_fields": ("ts",),
        "merge_mode": EVENT,
        "payload_class": DEFAULT if table_version == 8 else None,
        "partial_update_mode": None,
        "merge_properties": {},
        "populate_meta_fields": True,
        "hive_style": False,
        "url_encode": False,
        "drop_partition_columns": False,
        "base_file_format": "PARQUET",
        "metadata_partitions": (),
        "metadata_partitions_inflight": (),
        "metadata_partitions_unfinished": (),
        "create_schema": None,
        "timezone": "LOCAL",
        "cdc_enabled": False,
        "partition_path_holds_values": True,
    }


MERGE_ON_READ = {"table_type": "MERGE_ON_READ"}
# Hudi 0.15 records a payload class for merge-on-read tables only.
MERGE_ON_READ_6 = {**MERGE_ON_READ, "merge_mode": COMMIT, "payload_class": OVERWRITE}
DIFFERENCES: dict[str, dict[str, Any]] = {
    "cow": {},
    "bloom": {},
    "mor": MERGE_ON_READ,
    "mor_compacted": MERGE_ON_READ,
    "ch_init": MERGE_ON_READ,
    "ch_split": MERGE_ON_READ,
    "cleaned": MERGE_ON_READ,
    "parquet_log": MERGE_ON_READ,
    "complexkey": {"record_key_fields": ("id", "name"), "key_generator": KeyGenerator.COMPLEX},
    "intkey": {"hive_style": True, "url_encode": True},
    "nonpart": {"partition_fields": (), "key_generator": KeyGenerator.NON_PARTITION},
    "partlevel": {},
    "mdt_bucket": {**MERGE_ON_READ, "metadata_partitions": ("column_stats", "files")},
    "rli": {
        "metadata_partitions": ("bloom_filters", "column_stats", "files", "record_index"),
    },
}
FROM_VERSION_8 = {
    "mdt_bucket": {"metadata_partitions": ("column_stats", "files", "partition_stats")},
    "rli": {
        "metadata_partitions": (
            "bloom_filters",
            "column_stats",
            "files",
            "partition_stats",
            "record_index",
        )
    },
}


def fields_of(found: TableConfig) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__slots__ if name != "properties"}


def load(root: Path) -> TableConfig:
    data = (root / ".hoodie" / "hoodie.properties").read_bytes()
    return TableConfig.from_properties(decode_properties(data))


@pytest.mark.parametrize(
    ("version", "table"), [(version, table) for version, table in GOLDEN if table in DIFFERENCES]
)
def test_tables_of_every_release(version: str, table: str, golden) -> None:
    expected = {**simple_table(version, table), **DIFFERENCES[table]}
    if version == "0.15.0" and expected["table_type"] == "MERGE_ON_READ":
        expected.update(MERGE_ON_READ_6)
    elif version != "0.15.0":
        expected.update(FROM_VERSION_8.get(table, {}))
    assert fields_of(load(golden(version, table))) == expected


# Flink names a Hudi table as its SQL does.
NAMES = {
    **dict.fromkeys(
        [("flink-0.14.0", name) for name in ("cow_bucket", "mor_bucket", "mor_consistent")], "s"
    ),
    **dict.fromkeys(
        [
            ("flink-0.14.0", name)
            for name in ("cow_changelog", "mor_changelog", "mor_changelog_compacted")
        ],
        "t",
    ),
    ("flink-0.14.0", "mor_types"): "t1",
    ("flink-0.13.1", "mor_bucket"): "t1",
}


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "table"), GOLDEN)
def test_every_table_and_metadata_table(version: str, table: str, golden) -> None:
    root: Path = golden(version, table)
    found = load(root)
    assert found.name == NAMES.get((version, table), table)
    assert (root / found.timeline_path).is_dir()
    metadata_root = root / ".hoodie" / "metadata"
    assert metadata_root.exists() == ("files" in found.metadata_partitions)
    if metadata_root.exists():
        metadata = load(metadata_root)
        assert metadata.name == f"{table}_metadata"
        assert metadata.table_version == found.table_version
        assert metadata.key_generator is KeyGenerator.HOODIE_TABLE_METADATA
        assert metadata.merge_mode is CUSTOM  # in version 6 against its recorded strategy id
        assert metadata.payload_class == "org.apache.hudi.metadata.HoodieMetadataPayload"
        assert metadata.base_file_format == "HFILE"
        assert metadata.record_key_fields == ("key",)
        assert not metadata.populate_meta_fields


SPECIAL: dict[str, dict[str, Any]] = {
    "customkeygen": {
        "key_generator": KeyGenerator.CUSTOM,
        "partition_fields": ("region", "made"),
        "partition_path_holds_values": False,
    },
    "tskeygen": {"key_generator": KeyGenerator.TIMESTAMP, "partition_path_holds_values": False},
    "multipart": {"key_generator": KeyGenerator.COMPLEX, "partition_fields": ("region", "kind")},
    "multiorder": {"ordering_fields": ("ts", "qty"), "merge_mode": EVENT},
    "virtual": {"populate_meta_fields": False},
    "cdc": {"cdc_enabled": True},
    "cow_commit": {"merge_mode": COMMIT},
    "mor_commit": {"merge_mode": COMMIT, "table_type": "MERGE_ON_READ"},
    "dms": {
        "merge_mode": COMMIT,
        "payload_class": None,
        "merge_properties": {
            "hoodie.payload.delete.field": "Op",
            "hoodie.payload.delete.marker": "D",
        },
    },
}


BEFORE_MERGE_MODES = {
    # Hudi 0.15 knows no merge mode, and Hudi 1.0.2 none for this payload class.
    ("0.15.0", "cow_commit"): {"merge_mode": EVENT, "payload_class": None},
    ("0.15.0", "dms"): {"merge_mode": EVENT, "payload_class": None, "merge_properties": {}},
    ("1.0.2", "dms"): {
        "merge_mode": MergeMode.CUSTOM,
        "payload_class": "org.apache.hudi.common.model.AWSDmsAvroPayload",
    },
}


@pytest.mark.parametrize(
    ("version", "table"), [(version, table) for version, table in GOLDEN if table in SPECIAL]
)
def test_tables_with_special_settings(version: str, table: str, golden) -> None:
    found = fields_of(load(golden(version, table)))
    expected = BEFORE_MERGE_MODES.get((version, table), SPECIAL[table])
    assert {name: found[name] for name in expected} == expected
