from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError
from bucketfmt.format.avro_container import encode_container
from bucketfmt.format.commit_metadata import (
    CommitMetadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.format.instant_content import decode_instant_content
from bucketfmt.format.plans import (
    CleanerPlan,
    CompactionPlan,
    IndexPlan,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
    encode_index_plan,
)
from bucketfmt.format.service_metadata import (
    CleanMetadata,
    IndexCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from tests.format.struct_strategies import mutations
from tests.format.timeline_files import Golden, timeline_files

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
@settings(max_examples=200)
def test_any_bytes_decode_or_raise_our_error(data: bytes) -> None:
    with suppress(BucketfmtError):
        assert (decode_instant_content(data) is None) == (not data)
