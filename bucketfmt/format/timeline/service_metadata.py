"""Metadata of table services: the content of completed files other than commits.

Pure. Sources: `HoodieCleanMetadata`, `HoodieRollbackMetadata`, `HoodieRestoreMetadata`,
`HoodieSavepointMetadata`, `HoodieIndexCommitMetadata` (Avro in every table version).

Each `decode_x(data, limits=DEFAULT_LIMITS)` returns the value in an Avro container of one
record and raises CorruptError, UnsupportedError or LimitError; each `encode_x(value)`
returns that container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from bucketfmt.format.names.paths import join_path
from bucketfmt.format.timeline.plans import IndexPartitionInfo, InstantInfo
from bucketfmt.format.timeline.timeline_record import (
    Int32,
    Int64,
    TimelineRecord,
    timeline_record_codec,
)

__all__ = [
    "CleanMetadata",
    "CleanPartitionMetadata",
    "IndexCommitMetadata",
    "RestoreMetadata",
    "RollbackMetadata",
    "RollbackPartitionMetadata",
    "SavepointMetadata",
    "SavepointPartitionMetadata",
    "decode_clean_metadata",
    "decode_index_commit_metadata",
    "decode_restore_metadata",
    "decode_rollback_metadata",
    "decode_savepoint_metadata",
    "encode_clean_metadata",
    "encode_index_commit_metadata",
    "encode_restore_metadata",
    "encode_rollback_metadata",
    "encode_savepoint_metadata",
]


class CleanPartitionMetadata(TimelineRecord, frozen=True, kw_only=True):
    """The files that a clean deleted in one partition: names in version 2, paths in version 1."""

    partition_path: str
    policy: str
    delete_path_patterns: Sequence[str]
    success_delete_files: Sequence[str]
    failed_delete_files: Sequence[str]
    is_partition_deleted: bool = False


class CleanMetadata(TimelineRecord, frozen=True, kw_only=True):
    """A completed clean, by partition path."""

    start_clean_time: str
    time_taken_in_millis: Int64
    total_files_deleted: Int32
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str = ""
    partition_metadata: Mapping[str, CleanPartitionMetadata]
    version: Int32 = 2
    bootstrap_partition_metadata: Mapping[str, CleanPartitionMetadata] = {}
    extra_metadata: Mapping[str, str] = {}


class RollbackPartitionMetadata(TimelineRecord, frozen=True, kw_only=True):
    """The changes of a rollback in one partition.

    `rollback_log_files` is {log file with the command block: size} and
    `log_files_from_failed_commit` {log file of the failed commit: size}.
    """

    partition_path: str
    success_delete_files: Sequence[str]
    failed_delete_files: Sequence[str]
    rollback_log_files: Mapping[str, Int64] = {}
    log_files_from_failed_commit: Mapping[str, Int64] = {}


class RollbackMetadata(TimelineRecord, frozen=True, kw_only=True):
    """A completed rollback: the removed instants, and the deleted files by partition."""

    start_rollback_time: str
    time_taken_in_millis: Int64
    total_files_deleted: Int32
    commits_rollback: Sequence[str]
    partition_metadata: Mapping[str, RollbackPartitionMetadata]
    version: Int32 = 1
    instants_rollback: Sequence[InstantInfo] = []

    @property
    def command_logs(self) -> Iterator[str]:
        """The paths of the log files that the rollback has added."""
        for path, own in self.partition_metadata.items():
            for logged in own.rollback_log_files:
                yield join_path(path, logged.rpartition("/")[2])


class RestoreMetadata(TimelineRecord, frozen=True, kw_only=True):
    """A completed restore: {instant: its rollbacks}."""

    start_restore_time: str
    time_taken_in_millis: Int64
    instants_to_rollback: Sequence[str]
    hoodie_restore_metadata: Mapping[str, Sequence[RollbackMetadata]]
    version: Int32 = 1
    restore_instant_info: Sequence[InstantInfo] = []

    @property
    def rollbacks(self) -> Iterator[RollbackMetadata]:
        """The rollbacks of all instants."""
        return chain.from_iterable(self.hoodie_restore_metadata.values())


class SavepointPartitionMetadata(TimelineRecord, frozen=True, kw_only=True):
    """Files of one partition that a savepoint protects, by name."""

    partition_path: str
    savepoint_data_file: Sequence[str]


class SavepointMetadata(TimelineRecord, frozen=True, kw_only=True):
    """A savepoint: user, time (epoch milliseconds), comments, and the files by partition path."""

    savepointed_by: str
    savepointed_at: Int64
    comments: str
    partition_metadata: Mapping[str, SavepointPartitionMetadata]
    version: Int32 = 1


class IndexCommitMetadata(TimelineRecord, frozen=True, kw_only=True):
    """Partitions of the metadata table that were built."""

    version: Int32 = 1
    operation_type: str | None = None
    index_partition_infos: Sequence[IndexPartitionInfo] = []


decode_clean_metadata, encode_clean_metadata = timeline_record_codec(CleanMetadata)
decode_rollback_metadata, encode_rollback_metadata = timeline_record_codec(RollbackMetadata)
decode_restore_metadata, encode_restore_metadata = timeline_record_codec(RestoreMetadata)
decode_savepoint_metadata, encode_savepoint_metadata = timeline_record_codec(SavepointMetadata)
decode_index_commit_metadata, encode_index_commit_metadata = timeline_record_codec(
    IndexCommitMetadata
)
