from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.encoding.avro_container import AvroSchema, decode_container, encode_container
from bucketfmt.format.timeline.hudi_schemas import hudi_schema
from bucketfmt.format.timeline.plans import (
    ActionInstant,
    CleanerPlan,
    CompactionOperation,
    CompactionPlan,
    IndexPlan,
    InstantInfo,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
    RollbackRequest,
    decode_cleaner_plan,
    decode_compaction_plan,
    decode_index_plan,
    decode_requested_replace_metadata,
    decode_restore_plan,
    decode_rollback_plan,
    encode_cleaner_plan,
    encode_compaction_plan,
    encode_index_plan,
    encode_requested_replace_metadata,
    encode_restore_plan,
    encode_rollback_plan,
)
from bucketfmt.limits import Limits
from tests.format.encoding.struct_strategies import mutations, values_of
from tests.format.timeline.timeline_files import Golden, timeline_files, without_empties
from tests.rotation import examples

CODECS: list[tuple[type, Callable[..., Any], Callable[..., bytes]]] = [
    (
        RequestedReplaceMetadata,
        decode_requested_replace_metadata,
        encode_requested_replace_metadata,
    ),
    (CompactionPlan, decode_compaction_plan, encode_compaction_plan),
    (CleanerPlan, decode_cleaner_plan, encode_cleaner_plan),
    (RollbackPlan, decode_rollback_plan, encode_rollback_plan),
    (RestorePlan, decode_restore_plan, encode_restore_plan),
    (IndexPlan, decode_index_plan, encode_index_plan),
]
GOLDEN_PLANS = {
    ("replacecommit", "REQUESTED"): CODECS[0],
    ("clustering", "REQUESTED"): CODECS[0],
    ("compaction", "REQUESTED"): CODECS[1],
    ("logcompaction", "REQUESTED"): CODECS[1],
    ("clean", "REQUESTED"): CODECS[2],
    ("clean", "INFLIGHT"): CODECS[2],  # Hudi 1.0 writes the plan there again
    ("rollback", "REQUESTED"): CODECS[3],
    ("restore", "REQUESTED"): CODECS[4],
    ("indexing", "REQUESTED"): CODECS[5],
}
by_kind = pytest.mark.parametrize(
    ("kind", "decode", "encode"), CODECS, ids=[kind.__name__ for kind, _, _ in CODECS]
)


# files Hudi wrote


def test_every_golden_plan_decodes_and_encodes_to_the_same_record(golden: Golden) -> None:
    seen = set()
    for file in timeline_files(golden):
        action = (file.instant.action, file.instant.state.value)
        if not file.data or action not in GOLDEN_PLANS:
            continue
        _, decode, encode = GOLDEN_PLANS[action]
        plan = decode(file.data)
        data = encode(plan)
        assert decode(data) == plan, file.label
        _, [ours] = decode_container(data)
        _, [hudis] = decode_container(file.data)
        assert without_empties(ours) == {"version": 1} | without_empties(hudis), file.label
        seen.add((file.version, *action))
    assert seen >= {
        ("0.15.0", "replacecommit", "REQUESTED"),
        ("0.15.0", "compaction", "REQUESTED"),
        ("1.0.2", "clean", "INFLIGHT"),
        ("1.2.0", "clustering", "REQUESTED"),
        ("1.2.0", "clean", "REQUESTED"),
        ("1.2.0", "compaction", "REQUESTED"),
        ("1.2.0", "rollback", "REQUESTED"),
        ("1.2.0", "restore", "REQUESTED"),
    }


def test_golden_compaction(golden: Golden) -> None:
    [file] = [
        file
        for file in timeline_files(golden)
        if (file.version, file.table) == ("1.2.0", "mor_compacted")
        and file.is_a("compaction", "REQUESTED")
    ]
    plan = decode_compaction_plan(file.data)
    assert (plan.version, plan.strategy, plan.preserve_hoodie_metadata) == (2, None, False)
    assert len(plan.operations) == 12
    operation = plan.operations[0]
    assert operation.data_file_path == (
        f"{operation.file_id}_{operation.data_file_path.split('_', 1)[1]}"
        if operation.data_file_path
        else None
    )
    assert operation.metrics["TOTAL_LOG_FILES"] == 1.0
    assert all("/" not in name for name in operation.delta_file_paths)


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_golden_split_of_a_consistent_hashing_ring(golden: Golden, version: str) -> None:
    plans = [
        decode_requested_replace_metadata(file.data)
        for file in timeline_files(golden)
        if (file.version, file.table) == (version, "ch_split")
        and file.instant.action in ("clustering", "replacecommit")
        and file.instant.state.value == "REQUESTED"
    ]
    assert [plan.operation_type for plan in plans] == ["CLUSTER", "CLUSTER"]
    assert plans[0].clustering_plan is not None
    group = plans[0].clustering_plan.input_groups[0]
    assert group.num_output_file_groups == 2
    assert group.extra_metadata["clustering.group.partition"] in ("us", "eu", "ap")
    assert group.extra_metadata["clustering.group.sequence.no"] == "0"
    children = json.loads(group.extra_metadata["clustering.group.child.node"])
    assert [child["tag"] for child in children] == ["REPLACE", "REPLACE"]
    [slice_info] = group.slices
    assert slice_info.data_file_path == ""
    assert all(path.startswith("file:/") for path in slice_info.delta_file_paths)


def test_golden_clean(golden: Golden) -> None:
    plan = next(
        decode_cleaner_plan(file.data)
        for file in timeline_files(golden)
        if (file.version, file.table) == ("1.2.0", "cleaned") and file.is_a("clean", "REQUESTED")
    )
    assert plan.policy == "KEEP_LATEST_COMMITS"
    assert plan.earliest_instant_to_retain == ActionInstant(
        timestamp="20261121044223167", action="deltacommit", state="COMPLETED"
    )
    assert {p: len(files) for p, files in plan.file_paths_to_be_deleted_per_partition.items()} == {
        "eu": 8,
        "us": 8,
        "ap": 8,
    }


# bytes made here


def test_nulls_read_as_defaults() -> None:
    record = {"operations": None, "extraMetadata": None, "version": None, "strategy": None}
    data = encode_container(
        hudi_schema("HoodieCompactionPlan"), [{**record, "preserveHoodieMetadata": None}]
    )
    assert decode_compaction_plan(data) == CompactionPlan(version=1)


def test_field_names_are_hudis() -> None:
    plan = RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time="1", action="commit"),
        rollback_requests=[RollbackRequest(partition_path="p", files_to_be_deleted=["file:/f"])],
    )
    _, [record] = decode_container(encode_rollback_plan(plan))
    assert record["instantToRollback"] == {"commitTime": "1", "action": "commit"}
    assert record["RollbackRequests"][0]["filesToBeDeleted"] == ["file:/f"]


def test_a_plan_of_another_kind_is_corrupt() -> None:
    with pytest.raises(CorruptError, match="HoodieCompactionPlan where HoodieCleanerPlan belongs"):
        decode_cleaner_plan(encode_compaction_plan(CompactionPlan()))


def test_a_field_of_another_type_is_corrupt() -> None:
    kinds = [{"name": "operations", "type": "int"}]
    schema: AvroSchema = {"type": "record", "name": "HoodieCompactionPlan", "fields": kinds}
    with pytest.raises(CorruptError, match=r"HoodieCompactionPlan: .*array.*operations"):
        decode_compaction_plan(encode_container(schema, [{"operations": 1}]))
    schema = {**hudi_schema("HoodieCleanerPlan")}
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "policy"]
    with pytest.raises(CorruptError, match="policy"):
        decode_cleaner_plan(encode_container(schema, [{}]))


def test_integers_fit_their_field() -> None:
    kinds = [{"name": "version", "type": "long"}]
    schema = {"type": "record", "name": "HoodieIndexPlan", "fields": kinds}
    with pytest.raises(CorruptError, match="2147483647"):
        decode_index_plan(encode_container(schema, [{"version": 2**31}]))


def test_size_is_bounded() -> None:
    with pytest.raises(LimitError):
        decode_index_plan(bytes(11), Limits(timeline_file_bytes_max=10))


@by_kind
@given(data=st.data())
@settings(max_examples=examples(40))
def test_round_trip(
    kind: type, decode: Callable[..., Any], encode: Callable[..., bytes], data: st.DataObject
) -> None:
    value = data.draw(values_of(kind))
    assert decode(encode(value)) == value


FUZZED = encode_compaction_plan(
    CompactionPlan(operations=[CompactionOperation(file_id="f", metrics={"TOTAL_LOG_FILES": 1.0})])
)


@given(st.binary() | mutations(FUZZED))
@settings(max_examples=examples(200))
def test_any_bytes_decode_or_raise_our_error(data: bytes) -> None:
    for _, decode, _ in CODECS:
        with suppress(BucketfmtError):
            decode(data)
