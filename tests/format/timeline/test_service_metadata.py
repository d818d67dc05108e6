from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.encoding.avro_container import decode_container, encode_container
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.format.timeline.plans import InstantInfo, decode_restore_plan
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    IndexCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    RollbackPartitionMetadata,
    SavepointMetadata,
    SavepointPartitionMetadata,
    decode_clean_metadata,
    decode_index_commit_metadata,
    decode_restore_metadata,
    decode_rollback_metadata,
    decode_savepoint_metadata,
    encode_clean_metadata,
    encode_index_commit_metadata,
    encode_restore_metadata,
    encode_rollback_metadata,
    encode_savepoint_metadata,
)
from tests.format.encoding.struct_strategies import mutations, values_of
from tests.format.timeline.timeline_files import Golden, timeline_files, without_empties
from tests.rotation import examples

CODECS: list[tuple[type, Callable[..., Any], Callable[..., bytes]]] = [
    (CleanMetadata, decode_clean_metadata, encode_clean_metadata),
    (RollbackMetadata, decode_rollback_metadata, encode_rollback_metadata),
    (RestoreMetadata, decode_restore_metadata, encode_restore_metadata),
    (SavepointMetadata, decode_savepoint_metadata, encode_savepoint_metadata),
    (IndexCommitMetadata, decode_index_commit_metadata, encode_index_commit_metadata),
]
ROLLBACK = RollbackMetadata(
    start_rollback_time="20260101000000001",
    time_taken_in_millis=12,
    total_files_deleted=1,
    commits_rollback=["20260101000000000"],
    partition_metadata={
        "eu": RollbackPartitionMetadata(
            partition_path="eu",
            success_delete_files=["file:/t/eu/f.parquet"],
            failed_delete_files=[],
            rollback_log_files={".f_1.log.2_0-1-0": 105},
        )
    },
    instants_rollback=[InstantInfo(commit_time="20260101000000000", action="deltacommit")],
)


GOLDEN_METADATA = dict(
    zip(("clean", "rollback", "restore", "savepoint", "indexing"), CODECS, strict=True)
)


def test_every_golden_file_decodes_and_encodes_to_the_same_record(golden: Golden) -> None:
    seen = set()
    for file in timeline_files(golden):
        if file.instant.action not in GOLDEN_METADATA or file.instant.state.value != "COMPLETED":
            continue
        _, decode, encode = GOLDEN_METADATA[file.instant.action]
        metadata = decode(file.data)
        data = encode(metadata)
        assert decode(data) == metadata, file.label
        _, [ours] = decode_container(data)
        _, [hudis] = decode_container(file.data)
        assert without_empties(ours) == without_empties(hudis), file.label
        seen.add((file.version, file.instant.action))
    assert seen >= {
        ("1.0.2", "clean"),
        ("1.2.0", "clean"),
        ("1.2.0", "rollback"),
        ("1.2.0", "restore"),
        ("1.2.0", "savepoint"),
    }


def test_golden_clean(golden: Golden) -> None:
    cleans = [
        (file.instant, decode_clean_metadata(file.data))
        for file in timeline_files(golden)
        if (file.version, file.table) == ("1.2.0", "cleaned") and file.is_a("clean", "COMPLETED")
    ]
    assert len(cleans) == 2
    for instant, clean in cleans:
        assert clean.start_clean_time == instant.requested_time
        assert (clean.total_files_deleted, clean.version) == (24, 2)
        partition = clean.partition_metadata["eu"]
        assert partition.success_delete_files == partition.delete_path_patterns
        assert all("/" not in name for name in partition.success_delete_files)


def test_golden_restore_rolls_back_what_its_plan_says(golden: Golden) -> None:
    files = [f for f in timeline_files(golden) if (f.version, f.table) == ("1.2.0", "restored")]
    [plan] = [decode_restore_plan(f.data) for f in files if f.is_a("restore", "REQUESTED")]
    [done] = [decode_restore_metadata(f.data) for f in files if f.is_a("restore", "COMPLETED")]
    [saved] = [f for f in files if f.is_a("savepoint", "COMPLETED")]
    assert plan.savepoint_to_restore_timestamp == saved.instant.requested_time
    assert list(done.restore_instant_info) == list(plan.instants_to_rollback)
    assert set(done.hoodie_restore_metadata) == set(done.instants_to_rollback)
    for instant, rollbacks in done.hoodie_restore_metadata.items():
        assert [rollback.commits_rollback for rollback in rollbacks] == [[instant]]
        assert instant > saved.instant.requested_time


def test_a_restore_holds_rollbacks_and_skips_nulls() -> None:
    restore = RestoreMetadata(
        start_restore_time="20260101000000002",
        time_taken_in_millis=99,
        instants_to_rollback=["20260101000000000"],
        hoodie_restore_metadata={"20260101000000000": [ROLLBACK]},
    )
    data = encode_restore_metadata(restore)
    assert decode_restore_metadata(data) == restore
    _, [record] = decode_container(data)
    record["hoodieRestoreMetadata"]["20260101000000000"].append(None)
    again = encode_container(hudi_schema("HoodieRestoreMetadata"), [record])
    assert decode_restore_metadata(again) == restore


def test_savepoint() -> None:
    savepoint = SavepointMetadata(
        savepointed_by="ana",
        savepointed_at=1795233396929,
        comments="",
        partition_metadata={
            "": SavepointPartitionMetadata(partition_path="", savepoint_data_file=["f.parquet"])
        },
    )
    _, [record] = decode_container(encode_savepoint_metadata(savepoint))
    assert record == {
        "savepointedBy": "ana",
        "savepointedAt": 1795233396929,
        "comments": "",
        "partitionMetadata": {"": {"partitionPath": "", "savepointDataFile": ["f.parquet"]}},
        "version": 1,
    }


def test_a_field_that_must_be_there() -> None:
    schema = {**hudi_schema("HoodieRollbackMetadata")}
    schema["fields"] = schema["fields"][:1]
    data = encode_container(schema, [{"startRollbackTime": "1"}])
    with pytest.raises(CorruptError, match=r"HoodieRollbackMetadata: .*timeTakenInMillis"):
        decode_rollback_metadata(data)


@pytest.mark.parametrize(
    ("kind", "decode", "encode"), CODECS, ids=[kind.__name__ for kind, _, _ in CODECS]
)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_round_trip(
    kind: type, decode: Callable[..., Any], encode: Callable[..., bytes], data: st.DataObject
) -> None:
    value = data.draw(values_of(kind))
    assert decode(encode(value)) == value


@given(st.binary() | mutations(encode_rollback_metadata(ROLLBACK)))
@settings(max_examples=examples(200))
def test_any_bytes_decode_or_raise_our_error(data: bytes) -> None:
    for _, decode, _ in CODECS:
        with suppress(BucketfmtError):
            decode(data)
