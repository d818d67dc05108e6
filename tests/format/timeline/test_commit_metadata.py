from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.encoding.avro_container import AvroSchema, decode_container, encode_container
from bucketfmt.format.timeline import commit_metadata
from bucketfmt.format.timeline.commit_metadata import (
    NULL_COMMIT,
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    decode_commit_metadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.format.timeline.plans import CompactionPlan, encode_compaction_plan
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from tests.format.encoding.struct_strategies import mutations, values_of
from tests.format.timeline.timeline_files import Golden, timeline_files
from tests.rotation import examples

COMMIT = CommitMetadata(
    partition_to_write_stats={
        "eu": [
            WriteStat(
                file_id="00000000-1111-2222-3333-444444444444-0",
                path="eu/00000000-1111-2222-3333-444444444444-0_0-1-0_20260101000000000.parquet",
                prev_commit=NULL_COMMIT,
                num_writes=3,
                num_inserts=3,
                file_size_in_bytes=435428,
                partition_path="eu",
                runtime_stats=RuntimeStats(total_create_time=53),
            )
        ]
    },
    extra_metadata={"schema": '{"type":"record"}'},
    operation_type="INSERT",
)
WRITE_ACTIONS = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True)
class Totals:
    files: int
    writes: int
    operation: str | None


def totals(metadata: CommitMetadata) -> Totals:
    stats = [stat for stats in metadata.partition_to_write_stats.values() for stat in stats]
    return Totals(len(stats), sum(stat.num_writes for stat in stats), metadata.operation_type)


# files Hudi wrote


def test_every_golden_commit_decodes_and_encodes_to_the_same(golden: Golden) -> None:
    seen = 0
    for file in timeline_files(golden):
        if file.instant.action not in WRITE_ACTIONS or not file.data:
            continue
        if file.is_a("replacecommit", "REQUESTED"):
            continue  # a plan
        replace = file.is_a("replacecommit", "COMPLETED")
        metadata = decode_commit_metadata(file.data)
        seen += 1
        avro = encode_commit_metadata_avro(metadata, replace)
        text = encode_commit_metadata_json(metadata, replace)
        assert decode_commit_metadata(avro) == metadata, file.label
        assert decode_commit_metadata(text) == metadata, file.label
        if file.data[:1] == b"{":
            if json.loads(file.data) == json.loads(text):
                assert text == file.data, file.label
            else:
                assert b'"recordsStats" : {\n        "val" : {' in file.data, file.label
        else:
            assert decode_container(avro) == decode_container(file.data), file.label
    assert seen > 200


def test_both_layouts_say_the_same_of_the_same_writes(golden: Golden) -> None:
    def history(version: str) -> list[Totals]:
        return [
            totals(decode_commit_metadata(file.data))
            for file in timeline_files(golden)
            if (file.version, file.table) == (version, "cow") and file.is_a("commit", "COMPLETED")
        ]

    assert history("0.15.0") == history("1.0.2") == history("1.2.0")
    assert [(total.files, total.operation) for total in history("1.2.0")] == [
        (12, "INSERT"),
        (12, "UPSERT"),
        (12, "DELETE"),
    ]


def test_log_files_and_replaced_groups(golden: Golden) -> None:
    files = list(timeline_files(golden))
    for version in ("0.15.0", "1.2.0"):
        delta, cluster = (
            [
                decode_commit_metadata(file.data)
                for file in files
                if (file.version, file.table) == (version, table) and file.is_a(action, "COMPLETED")
            ]
            for table, action in (("mor", "deltacommit"), ("ch_split", "replacecommit"))
        )
        base, log = (metadata.partition_to_write_stats["eu"][0] for metadata in delta[:2])
        assert (base.log_files, base.log_version, base.base_file) == (None, None, None)
        assert base.path
        assert base.path.startswith(f"eu/{base.file_id}_")
        assert log.log_files is not None
        assert log.path == f"eu/{log.log_files[0]}"
        assert (log.log_version, log.log_offset) == (1, 0)
        assert bool(log.base_file) == (version == "0.15.0")
        replaced = cluster[0].partition_to_replace_file_ids
        assert {partition: len(ids) for partition, ids in replaced.items()} == {
            "eu": 4,
            "us": 4,
            "ap": 4,
        }
        assert json.loads(cluster[0].extra_metadata["schema"] or "")["name"] == "ch_split_record"


# bytes made here


def test_zero_bytes_are_an_empty_commit() -> None:
    assert decode_commit_metadata(b"") == CommitMetadata()
    assert CommitMetadata().operation_type == "UNKNOWN"


def test_missing_null_and_unknown_properties() -> None:
    text = b"""{"new": {"deep": [1]}, "compacted": null, "operationType": null,
        "extraMetadata": {"checkpoint": null}, "partitionToWriteStats": {"p": [
        {"fileId": "f", "path": null, "runtimeStats": null, "cdcStats": {"c.cdc": 5}, "x": 1}]}}"""
    assert decode_commit_metadata(text) == CommitMetadata(
        partition_to_write_stats={"p": [WriteStat(file_id="f", cdc_stats={"c.cdc": 5})]},
        compacted=False,
        extra_metadata={"checkpoint": None},
        operation_type="UNKNOWN",
    )


def test_avro_of_an_older_hudi_lacks_fields_and_holds_nulls() -> None:
    stat: AvroSchema = {"type": "record", "name": "HoodieWriteStat"}
    stat["fields"] = [
        {"name": name, "type": ["null", kind]}
        for name, kind in (("fileId", "string"), ("numWrites", "long"), ("numDeletes", "long"))
    ]
    files = {"type": "map", "values": {"type": "array", "items": stat}}
    schema: AvroSchema = {
        "type": "record",
        "name": "org.apache.hudi.avro.model.HoodieCommitMetadata",
    }
    schema["fields"] = [{"name": "partitionToWriteStats", "type": ["null", files]}]
    stats = {"p": [{"fileId": "f", "numWrites": 2, "numDeletes": None}]}
    assert decode_commit_metadata(
        encode_container(schema, [{"partitionToWriteStats": stats}])
    ) == CommitMetadata(partition_to_write_stats={"p": [WriteStat(file_id="f", num_writes=2)]})


def test_json_is_laid_out_like_hudis() -> None:
    text = encode_commit_metadata_json(COMMIT).decode()
    assert text.startswith(
        '{\n  "partitionToWriteStats" : {\n    "eu" : [ {\n      "fileId" : "00000000-1111'
    )
    assert text.endswith('  },\n  "operationType" : "INSERT"\n}')
    assert "logFiles" not in text
    assert "prevBaseFile" not in text
    assert "partitionToReplaceFileIds" not in text


def test_a_replace_commit_is_a_record_of_its_own() -> None:
    replace = msgspec.structs.replace(COMMIT, partition_to_replace_file_ids={"eu": ["old-0"]})
    schema, [record] = decode_container(encode_commit_metadata_avro(replace, replace=True))
    assert schema["name"] == "org.apache.hudi.avro.model.HoodieReplaceCommitMetadata"
    assert record["partitionToReplaceFileIds"] == {"eu": ["old-0"]}
    assert b'"partitionToReplaceFileIds" : {' in encode_commit_metadata_json(replace, replace=True)
    for encode in (encode_commit_metadata_avro, encode_commit_metadata_json):
        with pytest.raises(ValueError, match="replace=True"):
            encode(replace, False)


def test_avro_maps_hold_no_nulls() -> None:
    metadata = CommitMetadata(extra_metadata={"a": None, "b": "x"})
    decoded = decode_commit_metadata(encode_commit_metadata_avro(metadata, replace=False))
    assert decoded.extra_metadata == {"b": "x"}


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"null",
        b'{"partitionToWriteStats": {"p": [{"numWrites": 9223372036854775808}]}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": "1"}]}}',
        b'{"partitionToWriteStats": {"p": {}}}',
        b'{"operationType": "\xed\xa0\x80"}',
        b'{"a":' * 10_000,
        encode_compaction_plan(CompactionPlan()),
        encode_container(hudi_schema("HoodieCommitMetadata"), []),
        encode_container(hudi_schema("HoodieCommitMetadata"), [{}, {}]),
    ],
)
def test_what_is_no_commit_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_commit_metadata(data)


def test_size_is_bounded() -> None:
    with pytest.raises(LimitError, match="timeline_file_bytes_max"):
        decode_commit_metadata(b"{" * 11, Limits(timeline_file_bytes_max=10))


@given(values_of(CommitMetadata))
def test_json_round_trip(metadata: CommitMetadata) -> None:
    if metadata.operation_type is None:
        metadata = msgspec.structs.replace(metadata, operation_type="UNKNOWN")
    metadata = msgspec.structs.replace(metadata, compacted=bool(metadata.compacted))
    assert decode_commit_metadata(encode_commit_metadata_json(metadata, replace=True)) == metadata


@given(values_of(CommitMetadata))
def test_avro_round_trip(metadata: CommitMetadata) -> None:
    extra = {key: text for key, text in metadata.extra_metadata.items() if text is not None}
    metadata = msgspec.structs.replace(
        metadata,
        extra_metadata=extra,
        # a null in Avro reads as these
        compacted=bool(metadata.compacted),
        operation_type=metadata.operation_type or "UNKNOWN",
    )
    assert decode_commit_metadata(encode_commit_metadata_avro(metadata, replace=True)) == metadata


@given(
    st.binary()
    | mutations(encode_commit_metadata_json(COMMIT))
    | mutations(encode_commit_metadata_avro(COMMIT, replace=False))
)
@settings(max_examples=examples(400))
def test_any_bytes_decode_or_raise_our_error(data: bytes) -> None:
    with suppress(BucketfmtError):
        assert isinstance(decode_commit_metadata(data), CommitMetadata)


LARGE = CommitMetadata(
    partition_to_write_stats={
        f"p{partition}": [
            WriteStat(
                file_id=f"{number:08d}-x",
                path=f"p{partition}/{number:08d}-x_0-0-0_20240101000000000.parquet",
                prev_commit="null" if number % 3 else None,
                num_writes=number * number,
                partition_path=f"p{partition}",
                file_size_in_bytes=number << 20,
                log_version=number if number % 5 == 0 else None,
                base_file="b" if number % 5 == 0 else None,
                log_files=[f"l{log}" for log in range(number % 7)] if number % 5 == 0 else None,
                runtime_stats=None,
            )
            for number in range(partition * 100)
        ]
        for partition in range(6)
    },
    operation_type="UPSERT",
    extra_metadata={"schema": "{}"},
    partition_to_replace_file_ids={"p1": ["f"]},
)

LARGE_DATA = encode_commit_metadata_avro(LARGE, replace=True)


def test_a_large_commit_is_decoded_as_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_commit_metadata_avro(LARGE, replace=True)
    assert len(data) > commit_metadata._LARGE_BYTES
    assert commit_metadata._decode_large(data, DEFAULT_LIMITS)[1] == LARGE.partition_to_write_stats
    assert decode_commit_metadata(data) == LARGE
    timed = WriteStat(file_id="f", runtime_stats=RuntimeStats(total_scan_time=1))
    stats = {**LARGE.partition_to_write_stats, "q": [timed]}
    other = msgspec.structs.replace(LARGE, partition_to_write_stats=stats)
    data = encode_commit_metadata_avro(other, replace=True)
    assert commit_metadata._decode_large(data, DEFAULT_LIMITS)[1] is None
    assert decode_commit_metadata(data) == other


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, len(LARGE_DATA) - 1), st.integers(0, 255), st.booleans())
def test_damage_in_a_large_commit_is_told_as_in_a_small_one(
    at: int, byte: int, is_cut: bool
) -> None:
    damaged = bytearray(LARGE_DATA)
    damaged[at] = byte
    data = bytes(damaged[: at + 1] if is_cut else damaged)

    def outcome() -> object:
        try:
            return decode_commit_metadata(data)
        except BucketfmtError as error:
            return type(error), str(error)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commit_metadata, "_LARGE_BYTES", 1 << 40)
        expected = outcome()
    assert outcome() == expected
