"""Any file of the timeline, whatever action it belongs to: its content says what it is.

Pure. Source: `CommitMetadataSerDeV1/V2`. Avro files name their record; JSON is commit metadata.
"""

from __future__ import annotations

from typing import get_args

from bucketfmt.format.avro_container import CONTAINER_MAGIC
from bucketfmt.format.commit_metadata import CommitMetadata, decode_commit_metadata
from bucketfmt.format.cursor import Buffer
from bucketfmt.format.plans import (
    CleanerPlan,
    CompactionPlan,
    IndexPlan,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
)
from bucketfmt.format.service_metadata import (
    CleanMetadata,
    IndexCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from bucketfmt.format.timeline_record import decode_single_record, timeline_record
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["InstantContent", "decode_instant_content"]

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
        UnsupportedError: an Avro container that Hudi would not write.
        LimitError: the file exceeds a limit.
    """
    if not len(data):
        return None
    if bytes(data[: len(CONTAINER_MAGIC)]) != CONTAINER_MAGIC:
        return decode_commit_metadata(data, limits)
    name, record = decode_single_record(data, tuple(_KINDS), limits)
    return timeline_record(record, _KINDS[name])
