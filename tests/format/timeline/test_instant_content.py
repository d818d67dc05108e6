from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.encoding.avro_container import encode_container
from bucketfmt.format.names.instants import State
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.format.timeline.instant_content import decode_instant_content, encode_instant_content
from bucketfmt.format.timeline.plans import (
    CleanerPlan,
    ClusteringPlan,
    CompactionOperation,
    CompactionPlan,
    IndexPlan,
    InstantInfo,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
    encode_index_plan,
)
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    IndexCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from tests.format.encoding.struct_strategies import mutations
from tests.format.timeline.timeline_files import Golden, timeline_files
from tests.rotation import examples

COMMITS = ("commit", "deltacommit", "replacecommit", "clustering")
PLANS = {
    "replacecommit": RequestedReplaceMetadata,
    "clustering": RequestedReplaceMetadata,
    "compaction": CompactionPlan,
    "logcompaction": CompactionPlan,
    "clean": CleanerPlan,
    "rollback": RollbackPlan,
    "restore": RestorePlan,
    "indexing": IndexPlan,
}
METADATA = {
    "clean": CleanMetadata,
    "rollback": RollbackMetadata,
    "restore": RestoreMetadata,
    "savepoint": SavepointMetadata,
    "indexing": IndexCommitMetadata,
}


def test_every_golden_timeline_file_holds_what_its_name_says(golden: Golden) -> None:
    for file in timeline_files(golden):
        action, state = file.instant.action, file.instant.state.value
        content = decode_instant_content(file.data)
        if not file.data:
            assert content is None
            assert state != "COMPLETED", file.label
        elif state == "COMPLETED" or (state == "INFLIGHT" and action in COMMITS):
            assert type(content) is METADATA.get(action, CommitMetadata), file.label
        else:
            assert type(content) is PLANS[action], file.label


def test_both_commit_records_and_json() -> None:
    commit = CommitMetadata(operation_type="INSERT_OVERWRITE")
    for data in (
        encode_commit_metadata_json(commit),
        encode_commit_metadata_avro(commit, replace=False),
        encode_commit_metadata_avro(commit, replace=True),
    ):
        assert decode_instant_content(data) == commit


def test_a_record_of_something_else_is_corrupt() -> None:
    schema = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
    with pytest.raises(CorruptError, match="a file of Other"):
        decode_instant_content(encode_container(schema, [{"x": 1}]))


@given(st.binary() | mutations(encode_index_plan(IndexPlan())))
@settings(max_examples=examples(200))
def test_any_bytes_decode_or_raise_our_error(data: bytes) -> None:
    with suppress(BucketfmtError):
        assert (decode_instant_content(data) is None) == (not data)


STATS = {"p": [WriteStat(file_id="f", path="p/f", num_writes=3)]}
CONTENTS = [
    CommitMetadata(partition_to_write_stats=STATS, extra_metadata={"schema": "{}"}),
    RequestedReplaceMetadata(operation_type="CLUSTER", clustering_plan=ClusteringPlan()),
    CompactionPlan(operations=[CompactionOperation(file_id="f", partition_path="p")]),
    CleanerPlan(policy="KEEP_LATEST_COMMITS"),
    CleanMetadata(
        start_clean_time="1",
        time_taken_in_millis=2,
        total_files_deleted=3,
        earliest_commit_to_retain="4",
        partition_metadata={},
    ),
    RollbackPlan(instant_to_rollback=InstantInfo(commit_time="1", action="commit")),
    RollbackMetadata(
        start_rollback_time="1",
        time_taken_in_millis=2,
        total_files_deleted=3,
        commits_rollback=["1"],
        partition_metadata={},
    ),
    RestorePlan(instants_to_rollback=[InstantInfo(commit_time="1", action="commit")]),
    RestoreMetadata(
        start_restore_time="1",
        time_taken_in_millis=2,
        instants_to_rollback=["1"],
        hoodie_restore_metadata={},
    ),
    SavepointMetadata(savepointed_by="me", savepointed_at=1, comments="", partition_metadata={}),
    IndexPlan(),
    IndexCommitMetadata(),
]


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize(
    "action", ["commit", "deltacommit", *PLANS, *(METADATA.keys() - PLANS.keys())]
)
def test_every_file_takes_what_belongs_into_it_and_nothing_else(
    action: str, state: State, layout: int
) -> None:
    is_write = action in ("commit", "deltacommit", "replacecommit")
    if state is State.REQUESTED:
        kinds = {PLANS.get(action, type(None))}
    elif state is State.INFLIGHT:
        own = CleanerPlan if action == "clean" else CommitMetadata
        kinds = {type(None), own} if is_write or action == "clean" else {type(None)}
    else:
        kinds = {METADATA.get(action, CommitMetadata)}
    for content in [None, *CONTENTS]:
        if type(content) in kinds:
            data = encode_instant_content(content, action, state, layout)
            assert decode_instant_content(data) == content
            is_json = data.startswith(b"{")
            assert is_json == (layout == 1 and isinstance(content, CommitMetadata))
            assert (content is None) == (data == b"")
        else:
            with pytest.raises(TypeError, match=f"a {state.value} {action} holds"):
                encode_instant_content(content, action, state, layout)


@pytest.mark.parametrize("layout", [1, 2])
def test_only_a_replacement_replaces(layout: int) -> None:
    replacing = CommitMetadata(partition_to_replace_file_ids={"p": ["f"]})
    for action in ("replacecommit", "clustering"):
        data = encode_instant_content(replacing, action, State.COMPLETED, layout)
        assert decode_instant_content(data) == replacing
    for action in ("commit", "deltacommit", "compaction"):
        with pytest.raises(ValueError, match="replacecommit"):
            encode_instant_content(replacing, action, State.COMPLETED, layout)
