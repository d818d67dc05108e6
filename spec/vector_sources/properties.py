"""Vectors of properties files and table configurations."""

from __future__ import annotations

from collections.abc import Iterator

from spec.vector_sources.vector import ListOf, Vector, golden

__all__ = ["vectors"]

_TEXT = "written for this text"
_JAVA = "java.util.Properties.load of Java 17"

# run through java.util.Properties (spec/vector_sources/README says how)
_LOADED: dict[str, dict[str, str]] = {
    "a=1\nb:2\rc 3\r\n  d \t=\f 4 ": {"a": "1", "b": "2", "c": "3", "d": "4 "},
    "a = = 1\nb : = 2\nc": {"a": "= 1", "b": "= 2", "c": ""},
    "a=1\na=2": {"a": "2"},
    "# x\n! y\n  # z\n\n \t\na=1#2!3": {"a": "1#2!3"},
    "# x \\\na=1": {"a": "1"},
    "a=1\\\n  2\nb\\\nc=3\nd=1\\\\\ne=2": {"a": "12", "bc": "3", "d": "1\\", "e": "2"},
    "a=1\\\n# no comment": {"a": "1# no comment"},
    "a\\=b\\:c\\ d=\\t\\n\\z\\\\": {"a=b:c d": "\t\nz\\"},
    "a=\\u0041\\u00e9\\u65E5\\ud83d\\ude00": {"a": "Aé日😀"},
    "a=1\\": {"a": "1"},
    "=1": {"": "1"},
}
_STORED = {
    "a": "  b c ",
    "k ey:=#!": ":=#!\\",
    "controls": "\t\n\r\f\x01~\x7f",
    "é": "é日😀",
    "hoodie.table.create.schema": '{"type":"record"}',
}
_STORED_TEXT = (
    "a=\\  b c \n"
    "k\\ ey\\:\\=\\#\\!=\\:\\=\\#\\!\\\\\n"
    "controls=\\t\\n\\r\\f\\u0001~\\u007F\n"
    "\\u00E9=\\u00E9\\u65E5\\uD83D\\uDE00\n"
    'hoodie.table.create.schema={"type"\\:"record"}\n'
)

_CHECKSUMS = {
    ("", "cow"): 121430431,
    ("", "cow_metadata"): 1229203194,
    ("", "mor"): 2110273562,
    ("default", "sq"): 3833911162,
    ("default", "v8_trips_8i3u1d"): 1197752875,
    ("default", "v6_nonpartitioned"): 1363530505,
    ("", "ch_split"): 3221765995,
}

_EVENT, _COMMIT = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"
_CUSTOM = "00000000-0000-0000-0000-000000000000"
_MODEL = "org.apache.hudi.common.model."
_MODE, _STRATEGY, _PAYLOAD = (
    "hoodie.record.merge.mode",
    "hoodie.record.merge.strategy.id",
    "hoodie.compaction.payload.class",
)
_OLD_STRATEGY = "hoodie.compaction.record.merger.strategy"
_KEYGEN, _SPARK = "org.apache.hudi.keygen.", "org.apache.spark.sql.hudi.command."
_GENERATORS = {
    _KEYGEN + "SimpleKeyGenerator": "SIMPLE",
    _KEYGEN + "ComplexKeyGenerator": "COMPLEX",
    _KEYGEN + "TimestampBasedKeyGenerator": "TIMESTAMP",
    _KEYGEN + "CustomKeyGenerator": "CUSTOM",
    _KEYGEN + "NonpartitionedKeyGenerator": "NON_PARTITION",
    _KEYGEN + "GlobalDeleteKeyGenerator": "GLOBAL_DELETE",
    _KEYGEN + "AutoRecordGenWrapperKeyGenerator": "AUTO_RECORD",
    "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator": "HOODIE_TABLE_METADATA",
    _SPARK + "SqlKeyGenerator": "SPARK_SQL",
    _SPARK + "UuidKeyGenerator": "SPARK_SQL_UUID",
    _SPARK + "MergeIntoKeyGenerator": "SPARK_SQL_MERGE_INTO",
}
"""KeyGeneratorType of Hudi 1.2.0."""
_BASE = {"hoodie.table.name": "t", "hoodie.table.type": "MERGE_ON_READ"}


def _config(version: int, **properties: str) -> dict[str, str]:
    return {**_BASE, "hoodie.table.version": str(version), **properties}


_MERGE_MODES: list[tuple[dict[str, str], str]] = [
    (_config(6), "COMMIT_TIME_ORDERING"),
    (_config(6, **{"hoodie.table.precombine.field": "ts"}), "EVENT_TIME_ORDERING"),
    (
        _config(
            6,
            **{_OLD_STRATEGY: _EVENT, _PAYLOAD: _MODEL + "OverwriteWithLatestAvroPayload"},
        ),
        "COMMIT_TIME_ORDERING",
    ),
    (
        _config(6, **{_OLD_STRATEGY: _EVENT, _PAYLOAD: _MODEL + "DefaultHoodieRecordPayload"}),
        "EVENT_TIME_ORDERING",
    ),
    (_config(6, **{_PAYLOAD: "com.acme.Payload"}), "CUSTOM"),
    (
        _config(8, **{_STRATEGY: _COMMIT, _PAYLOAD: _MODEL + "OverwriteWithLatestAvroPayload"}),
        "COMMIT_TIME_ORDERING",
    ),
    (
        _config(
            8,
            **{_STRATEGY: "00000000-0000-0000-0000-000000000000", _PAYLOAD: "com.acme.Payload"},
        ),
        "CUSTOM",
    ),
    (
        _config(8, **{_STRATEGY: _CUSTOM, _PAYLOAD: _MODEL + "OverwriteWithLatestAvroPayload"}),
        "CUSTOM",
    ),
    (
        _config(6, **{_OLD_STRATEGY: _CUSTOM, _PAYLOAD: _MODEL + "DefaultHoodieRecordPayload"}),
        "EVENT_TIME_ORDERING",
    ),
    (_config(6, **{_OLD_STRATEGY: _COMMIT}), "COMMIT_TIME_ORDERING"),
    (_config(8, **{_PAYLOAD: "DefaultHoodieRecordPayload"}), "CUSTOM"),
    (_config(8, **{_OLD_STRATEGY: _COMMIT, _STRATEGY: _EVENT}), "EVENT_TIME_ORDERING"),
    (
        _config(8, **{_PAYLOAD: "com.uber.hoodie.common.model.OverwriteWithLatestAvroPayload"}),
        "COMMIT_TIME_ORDERING",
    ),
    (
        _config(8, **{_MODE: "event_time_ordering", _STRATEGY: "", _PAYLOAD: ""}),
        "EVENT_TIME_ORDERING",
    ),
    (
        _config(
            9, **{_MODE: "EVENT_TIME_ORDERING", _STRATEGY: _COMMIT, _PAYLOAD: "com.acme.Payload"}
        ),
        "EVENT_TIME_ORDERING",
    ),
    (_config(9, **{_MODE: "COMMIT_TIME_ORDERING"}), "COMMIT_TIME_ORDERING"),
    (_config(9, **{_MODE: "EVENT_TIME_ORDERING"}), "EVENT_TIME_ORDERING"),
    (_config(9, **{"hoodie.table.ordering.fields": "a,b"}), "EVENT_TIME_ORDERING"),
]


def _configs(*changes: dict[str, str]) -> ListOf:
    return ListOf([{**_config(9), **change} for change in changes])


def vectors() -> Iterator[Vector]:
    """Yield them."""
    yield Vector(
        "properties.loaded",
        ["PROP-1", "PROP-2"],
        _JAVA,
        ListOf(list(_LOADED)),
        list(_LOADED.values()),
    )
    yield Vector("properties.latin-1", ["PROP-1"], _JAVA, b"a=\xe9\xff\n", {"a": "éÿ"})
    yield Vector(
        "properties.malformed-escapes",
        ["PROP-1"],
        _JAVA + ": IllegalArgumentException for the first three",
        ListOf(["a=\\u12", "a=\\u", "\\u00zz=1", "a=\\uD83D", "a=\\uDE00x", "a=\\uDE00\\uD83D"]),
        error="corrupt",
    )
    yield Vector(
        "properties.escapes",
        ["PROP-1", "PROP-3"],
        "java.util.Properties.store of Java 17, without its date",
        b"key\\ a=\\ v\\:1\\=\\u00E9\n",
        {"key a": " v:1=é"},
    )
    yield Vector(
        "properties-text.stored",
        ["PROP-3"],
        "java.util.Properties.store of Java 17, without its date",
        [list(item) for item in _STORED.items()],
        _STORED_TEXT,
    )
    yield Vector(
        "table-checksum.names",
        ["PROP-4"],
        "hoodie.properties of tables of Hudi 0.15.0, 1.0.2, 1.1.1 and 1.2.0",
        ListOf([list(key) for key in _CHECKSUMS]),
        list(_CHECKSUMS.values()),
    )
    for version, name in (("0.15.0", "ch_split"), ("1.0.2", "mor"), ("1.2.0", "ch_split")):
        table = golden(version, name)
        data = table.files[".hoodie/hoodie.properties"]
        lines = (line.split("=", 1) for line in data.decode().split("\n") if "=" in line)
        properties = {key: value for key, value in lines if not key.startswith("#")}
        yield Vector(
            f"properties.golden-{version}",
            ["PROP-1", "PROP-4", "PROP-16"],
            table.recipe(".hoodie/hoodie.properties"),
            data,
            properties,
        )
        layout = 1 if version == "0.15.0" else 2
        yield Vector(
            f"table-config.golden-{version}",
            ["PROP-6", "PROP-7", "PROP-9", "PROP-10", "PROP-12", "PROP-13"],
            table.recipe(".hoodie/hoodie.properties"),
            properties,
            {
                "table_version": {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}[version],
                "timeline_layout": layout,
                "timeline_path": ".hoodie" if layout == 1 else ".hoodie/timeline",
                "history_path": ".hoodie/archived" if layout == 1 else ".hoodie/timeline/history",
                "key_generator": "SIMPLE",
                "record_key_fields": ["id"],
                "partition_fields": ["region"],
                "ordering_fields": ["ts"],
                "merge_mode": "COMMIT_TIME_ORDERING" if layout == 1 else "EVENT_TIME_ORDERING",
                "merge_properties": {},
            },
        )
    yield Vector(
        "merge-mode.resolved",
        ["PROP-13", "PROP-12"],
        "HoodieTableConfig.inferMergingConfigsForPreV9Table (judge/Decisions.java, Hudi 1.2.0)",
        ListOf([row[0] for row in _MERGE_MODES]),
        [row[1] for row in _MERGE_MODES],
    )
    overwrite = _MODEL + "OverwriteWithLatestAvroPayload"
    yield Vector(
        "merge-mode.contradictions",
        ["PROP-14"],
        "HoodieTableConfig.inferMergingConfigsForPreV9Table (judge/Decisions.java, Hudi 1.2.0): "
        "IllegalArgumentException",
        ListOf(
            [
                _config(8, **{_STRATEGY: _EVENT, _PAYLOAD: overwrite}),
                _config(8, **{_MODE: "EVENT_TIME_ORDERING", _STRATEGY: _COMMIT}),
                _config(6, **{_MODE: "EVENT_TIME_ORDERING", _PAYLOAD: overwrite}),
                _config(6, **{_MODE: "EVENT_TIME_ORDERING", _OLD_STRATEGY: _COMMIT}),
                _config(8, **{_MODE: "CUSTOM", _PAYLOAD: overwrite}),
                _config(8, **{_MODE: "COMMIT_TIME_ORDERING", _PAYLOAD: "com.acme.Payload"}),
                _config(9, **{_STRATEGY: _EVENT, _PAYLOAD: overwrite}),
            ]
        ),
        error="corrupt",
    )
    yield Vector(
        "table-config.corrupt",
        ["PROP-4", "PROP-5", "PROP-7", "PROP-19"],
        _TEXT,
        ListOf(
            [
                {"hoodie.table.version": "9"},
                {**_config(9), "hoodie.table.checksum": "1"},
                {**_config(9), "hoodie.table.checksum": "x"},
                {**_config(9), "hoodie.timeline.layout.version": "1"},
                {**_config(6), "hoodie.timeline.layout.version": "2"},
                {**_config(9), "hoodie.timeline.layout.version": "two"},
                {**_config(9), "hoodie.populate.meta.fields": "yes"},
                {**_config(9), "hoodie.datasource.write.hive_style_partitioning": ""},
            ]
        ),
        error="corrupt",
    )
    yield Vector(
        "table-config.versions",
        ["PROP-6"],
        _TEXT,
        ListOf([_BASE, _config(2), _config(7), _config(10)]),
        error="unsupported",
    )
    yield Vector(
        "table-config.unknown",
        ["PROP-8", "DEV-20", "DEV-25"],
        _TEXT,
        _configs(
            {"hoodie.table.format": "iceberg"},
            {"hoodie.bootstrap.base.path": "/old"},
            {"hoodie.table.type": "COPY"},
            {_MODE: "NEWEST"},
            {"hoodie.table.type": "copy_on_write"},
            {"hoodie.table.timeline.timezone": "CET"},
            {"hoodie.table.keygenerator.type": "MAGIC"},
            {"hoodie.table.partial.update.mode": "SOME"},
        ),
        error="unsupported",
    )
    yield Vector(
        "table-config.folders",
        ["PROP-9"],
        _TEXT,
        _configs(
            {"hoodie.timeline.path": "../timeline"},
            {"hoodie.timeline.history.path": "/history"},
            {"hoodie.archivelog.folder": "a/../../b"},
        ),
        error="unsafe-path",
    )
    yield from _keys_and_fields()


def _keys_and_fields() -> Iterator[Vector]:
    key, kind = "hoodie.table.keygenerator.class", "hoodie.table.keygenerator.type"
    partition, record = "hoodie.table.partition.fields", "hoodie.table.recordkey.fields"
    cases: list[tuple[dict[str, str], str]] = [
        ({key: "org.apache.hudi.keygen.ComplexAvroKeyGenerator", kind: "SIMPLE"}, "COMPLEX"),
        ({key: "com.acme.Keys"}, "USER_PROVIDED"),
        ({kind: "TIMESTAMP_AVRO"}, "TIMESTAMP"),
        *(({key: name}, generator) for name, generator in _GENERATORS.items()),
        ({key: "org.apache.hudi.keygen.GlobalAvroDeleteKeyGenerator"}, "GLOBAL_DELETE"),
        ({kind: "complex", key: ""}, "COMPLEX"),
        ({record: "id"}, "NON_PARTITION"),
        ({record: "id", partition: "day:TIMESTAMP"}, "CUSTOM"),
        ({record: "id,k", partition: "p"}, "COMPLEX"),
        ({record: "id", partition: "p,q"}, "COMPLEX"),
        ({record: "id", partition: "p"}, "SIMPLE"),
    ]
    yield Vector(
        "key-generator.resolved",
        ["PROP-10"],
        "KeyGenUtils.inferKeyGeneratorType (judge/Decisions.java, Hudi 1.2.0), where no class or "
        "type is given",
        ListOf([{**_config(9), **change} for change, _ in cases]),
        [expected for _, expected in cases],
    )
    timestamp = "org.apache.hudi.keygen.TimestampBasedKeyGenerator"
    slashes = "hoodie.datasource.write.slash.separated.date.partitioning"
    extractor = "hoodie.table.partition_extractor_class"
    hive, value = "org.apache.hudi.hive", "PartitionValueExtractor"
    holding = [
        ({record: "id", partition: "p"}, True),
        ({record: "id"}, True),
        ({record: "id", partition: "p,q"}, True),
        ({record: "id", partition: "p:SIMPLE,q:simple"}, True),
        ({record: "id", partition: "p:SIMPLE,q:TIMESTAMP"}, False),
        ({record: "id", partition: "p", kind: "TIMESTAMP"}, False),
        ({record: "id", partition: "p", key: timestamp}, False),
        ({record: "id", partition: "p", key: "com.acme.Keys"}, False),
        ({record: "id", partition: "p", slashes: "true"}, False),
        ({record: "id", partition: "p", slashes: "false"}, True),
        ({record: "id", partition: "p", extractor: f"{hive}.SlashEncodedDay{value}"}, False),
        ({record: "id", partition: "p", extractor: f"{hive}.SinglePart{value}"}, True),
    ]
    yield Vector(
        "path-holds-values.cases",
        ["PATH-9"],
        "the key generators of Hudi 1.2.0, as read in their sources",
        ListOf([{**_config(9), **change} for change, _ in holding]),
        [holds for _, holds in holding],
    )
    yield Vector(
        "partition-fields.typed",
        ["PROP-11"],
        "HoodieTableConfig.getPartitionFieldWithoutKeyGenPartitionType, as read in its source",
        ListOf(
            [
                {**_config(8), partition: "region:SIMPLE, day:TIMESTAMP"},
                {**_config(6), partition: "region,day"},
                _config(9),
            ]
        ),
        [["region", "day"], ["region", "day"], []],
    )
    old, new = "hoodie.table.precombine.field", "hoodie.table.ordering.fields"
    yield Vector(
        "ordering-fields.names",
        ["PROP-12"],
        "HoodieTableConfig.getOrderingFields, as read in its source",
        ListOf(
            [
                {**_config(9), new: " a , b ,"},
                {**_config(9), old: "ts"},
                {**_config(9), new: "", old: "ts"},
                {**_config(6), old: "ts"},
            ]
        ),
        [["a", "b"], ["ts"], [], ["ts"]],
    )
    debezium = {"delete.field": "_change_operation_type", "delete.marker": "d"}
    payloads = {
        "AWSDmsAvroPayload": {"delete.field": "Op", "delete.marker": "D"},
        "debezium.MySqlDebeziumAvroPayload": debezium,
        "debezium.PostgresDebeziumAvroPayload": debezium,
        "DefaultHoodieRecordPayload": {},
    }
    yield Vector(
        "merge-properties.of-payload",
        ["PROP-15"],
        "HoodieTableConfig.getTableMergeProperties; hoodie.properties of table dms (Hudi 1.2.0)",
        ListOf(
            [_config(8, **{_PAYLOAD: _MODEL + name}) for name in payloads]
            + [_config(9, **{"hoodie.record.merge.property.hoodie.payload.delete.field": "Op"})]
        ),
        [
            {f"hoodie.payload.{key}": value for key, value in marks.items()}
            for marks in payloads.values()
        ]
        + [{"hoodie.payload.delete.field": "Op"}],
    )
