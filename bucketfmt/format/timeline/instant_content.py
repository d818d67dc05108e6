"""The content of a timeline file of any action.

Pure. Source: `CommitMetadataSerDeV1/V2`, `ActiveTimelineV1/V2`. A reader recognises the content:
Avro files name their record, JSON is commit metadata. A writer chooses the content by the action
and its state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from bucketfmt.format.encoding.avro_container import CONTAINER_MAGIC
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.instants import State, comparable_action
from bucketfmt.format.timeline.commit_metadata import (
    CommitMetadata,
    decode_commit_metadata,
    encode_commit_metadata_avro,
    encode_commit_metadata_json,
)
from bucketfmt.format.timeline.plans import (
    CleanerPlan,
    CompactionPlan,
    IndexPlan,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
    encode_cleaner_plan,
    encode_compaction_plan,
    encode_index_plan,
    encode_requested_replace_metadata,
    encode_restore_plan,
    encode_rollback_plan,
)
from bucketfmt.format.timeline.service_metadata import (
    CleanMetadata,
    IndexCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
    encode_clean_metadata,
    encode_index_commit_metadata,
    encode_restore_metadata,
    encode_rollback_metadata,
    encode_savepoint_metadata,
)
from bucketfmt.format.timeline.timeline_record import decode_single_record, timeline_record
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["InstantContent", "decode_instant_content", "encode_instant_content"]

InstantContent = (
    CommitMetadata
    | RequestedReplaceMetadata
    | CompactionPlan
    | CleanerPlan
    | CleanMetadata
    | RollbackPlan
    | RollbackMetadata
    | RestorePlan
    | RestoreMetadata
    | SavepointMetadata
    | IndexPlan
    | IndexCommitMetadata
)
"""A value that a file of the timeline may hold."""

_KINDS: dict[str, type[InstantContent]] = {
    "Hoodie" + kind.__name__: kind for kind in get_args(InstantContent)
} | {"HoodieReplaceCommitMetadata": CommitMetadata}


def decode_instant_content(data: Buffer, limits: Limits = DEFAULT_LIMITS) -> InstantContent | None:
    """Return the value in a file of the timeline; None for a file of zero bytes.

    Raises:
        CorruptError: the bytes are neither commit metadata in JSON nor a record Hudi writes.
        UnsupportedError: the bytes are an Avro container that Hudi would not write.
        LimitError: the file exceeds a limit.
    """
    if not len(data):
        return None
    if bytes(data[: len(CONTAINER_MAGIC)]) != CONTAINER_MAGIC:
        return decode_commit_metadata(data, limits)
    name, record = decode_single_record(data, tuple(_KINDS), limits)
    return timeline_record(record, _KINDS[name])


_ENCODERS: dict[type[InstantContent], Callable[[Any], bytes]] = {
    RequestedReplaceMetadata: encode_requested_replace_metadata,
    CompactionPlan: encode_compaction_plan,
    CleanerPlan: encode_cleaner_plan,
    CleanMetadata: encode_clean_metadata,
    RollbackPlan: encode_rollback_plan,
    RollbackMetadata: encode_rollback_metadata,
    RestorePlan: encode_restore_plan,
    RestoreMetadata: encode_restore_metadata,
    SavepointMetadata: encode_savepoint_metadata,
    IndexPlan: encode_index_plan,
    IndexCommitMetadata: encode_index_commit_metadata,
}
_INFLIGHT: dict[str, type[InstantContent]] = {
    "commit": CommitMetadata,
    "deltacommit": CommitMetadata,
    "replacecommit": CommitMetadata,
    "clean": CleanerPlan,
}
_REQUESTED: dict[str, type[InstantContent]] = {
    "replacecommit": RequestedReplaceMetadata,
    "clustering": RequestedReplaceMetadata,
    "compaction": CompactionPlan,
    "logcompaction": CompactionPlan,
    "clean": CleanerPlan,
    "rollback": RollbackPlan,
    "restore": RestorePlan,
    "indexing": IndexPlan,
}
_COMPLETED: dict[str, type[InstantContent]] = {
    "commit": CommitMetadata,
    "deltacommit": CommitMetadata,
    "replacecommit": CommitMetadata,
    "clean": CleanMetadata,
    "rollback": RollbackMetadata,
    "restore": RestoreMetadata,
    "savepoint": SavepointMetadata,
    "indexing": IndexCommitMetadata,
}


def encode_instant_content(
    content: InstantContent | None, action: str, state: State, layout: int
) -> Buffer:
    """Return the bytes of an instant's file as Hudi would write it.

    A requested commit or deltacommit has no content. An inflight file has no content either, with
    two exceptions: a write may list the planned files, and a clean repeats its plan, because Hudi
    1.0 and earlier read the plan there. Commit metadata is JSON in layout 1.

    Args:
        content: The content of the file; None for an empty file.
        action: For example `deltacommit`, `compaction`, `clustering`.
        state: The state the file stands for.
        layout: `TableConfig.timeline_layout`.

    Raises:
        TypeError: the content is of a type that such a file does not hold.
        ValueError: file groups are replaced by an action that is no replacement.
    """
    completes_as = comparable_action(action, 2)
    kind: type[InstantContent] | None
    if state is State.INFLIGHT:
        kind = _INFLIGHT.get(action) if content is not None else None
    else:
        kind = _REQUESTED.get(action) if state is State.REQUESTED else _COMPLETED[completes_as]
    if type(content) is not (kind or type(None)):
        raise TypeError(
            f"a {state.value} {action} holds {kind.__name__ if kind else 'nothing'}, "
            f"not {type(content).__name__}"
        )
    if content is None:
        return b""
    if isinstance(content, CommitMetadata):
        replace = state is State.COMPLETED and completes_as == "replacecommit"
        if layout == 1:
            return encode_commit_metadata_json(content, replace)
        return encode_commit_metadata_avro(content, replace)
    return _ENCODERS[type(content)](content)
