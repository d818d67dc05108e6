"""Plans of table services: the content of `.requested` files.

Pure. Sources: `HoodieRequestedReplaceMetadata`, `HoodieCompactionPlan`, `HoodieCleanerPlan`,
`HoodieRollbackPlan`, `HoodieRestorePlan`, `HoodieIndexPlan` (Avro in every table version).

Each `decode_x(data, limits=DEFAULT_LIMITS)` returns the value in an Avro container of one
record and raises CorruptError, UnsupportedError or LimitError; each `encode_x(value)`
returns that container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bucketfmt.format.timeline.timeline_record import (
    Int32,
    Int64,
    TimelineRecord,
    timeline_record_codec,
)

__all__ = [
    "OWN_PLAN",
    "ActionInstant",
    "CleanFileInfo",
    "CleanerPlan",
    "ClusteringGroup",
    "ClusteringPlan",
    "ClusteringStrategy",
    "CompactionOperation",
    "CompactionPlan",
    "CompactionStrategy",
    "IndexPartitionInfo",
    "IndexPlan",
    "InstantInfo",
    "RequestedReplaceMetadata",
    "RestorePlan",
    "RollbackPlan",
    "RollbackRequest",
    "SliceInfo",
    "decode_cleaner_plan",
    "decode_compaction_plan",
    "decode_index_plan",
    "decode_requested_replace_metadata",
    "decode_restore_plan",
    "decode_rollback_plan",
    "encode_cleaner_plan",
    "encode_compaction_plan",
    "encode_index_plan",
    "encode_requested_replace_metadata",
    "encode_restore_plan",
    "encode_rollback_plan",
]


OWN_PLAN: Mapping[str, str] = {"bucketfmt.planned": "true"}
"""Entry of `extraMetadata` in the plans of this package, which tells them from plans of Hudi."""


class SliceInfo(TimelineRecord, frozen=True, kw_only=True):
    """A file slice to cluster. Paths are absolute URIs, "" without base file; newest log first."""

    data_file_path: str | None = None
    delta_file_paths: Sequence[str] = []
    file_id: str | None = None
    partition_path: str | None = None
    bootstrap_file_path: str | None = None
    version: Int32 = 1


class ClusteringGroup(TimelineRecord, frozen=True, kw_only=True):
    """Slices that are rewritten together.

    On a consistent hashing index `extra_metadata` holds the group's ring change:
    `clustering.group.partition`, `clustering.group.child.node` (JSON nodes) and
    `clustering.group.sequence.no`.
    """

    slices: Sequence[SliceInfo] = []
    metrics: Mapping[str, float] = {}
    num_output_file_groups: Int32 = 1
    extra_metadata: Mapping[str, str] = {}
    version: Int32 = 1


class ClusteringStrategy(TimelineRecord, frozen=True, kw_only=True):
    """The Java class that executes a clustering plan, and its settings."""

    strategy_class_name: str | None = None
    strategy_params: Mapping[str, str] = {}
    version: Int32 = 1


class ClusteringPlan(TimelineRecord, frozen=True, kw_only=True):
    """Groups of slices to rewrite."""

    input_groups: Sequence[ClusteringGroup] = []
    strategy: ClusteringStrategy | None = None
    extra_metadata: Mapping[str, str] = {}
    version: Int32 = 1
    preserve_hoodie_metadata: bool | None = None
    missing_schedule_partitions: Sequence[str] = []


class RequestedReplaceMetadata(TimelineRecord, frozen=True, kw_only=True):
    """A requested clustering (operation CLUSTER), or an overwrite, which has no plan."""

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = None
    extra_metadata: Mapping[str, str] = {}
    version: Int32 = 1


class CompactionOperation(TimelineRecord, frozen=True, kw_only=True):
    """One file slice to compact. The files are names in plans of version 2, paths in version 1."""

    base_instant_time: str | None = None
    delta_file_paths: Sequence[str] = []
    data_file_path: str | None = None
    file_id: str | None = None
    partition_path: str | None = None
    metrics: Mapping[str, float] = {}
    bootstrap_file_path: str | None = None


class CompactionStrategy(TimelineRecord, frozen=True, kw_only=True):
    """The Java class that executes a compaction plan, and its settings."""

    compactor_class_name: str | None = None
    strategy_params: Mapping[str, str] = {}
    version: Int32 = 1


class CompactionPlan(TimelineRecord, frozen=True, kw_only=True):
    """File slices to compact (compaction), or to merge the logs of (logcompaction)."""

    operations: Sequence[CompactionOperation] = []
    extra_metadata: Mapping[str, str] = {}
    version: Int32 = 2
    strategy: CompactionStrategy | None = None
    preserve_hoodie_metadata: bool = False
    missing_schedule_partitions: Sequence[str] = []

    @property
    def is_own(self) -> bool:
        """Whether this package made the plan."""
        return self.extra_metadata.items() >= OWN_PLAN.items()


class ActionInstant(TimelineRecord, frozen=True, kw_only=True):
    """An instant: its requested time, action, and state in upper case."""

    timestamp: str
    action: str
    state: str


class CleanFileInfo(TimelineRecord, frozen=True, kw_only=True):
    """A file to delete, by its absolute path."""

    file_path: str | None = None
    is_bootstrap_base_file: bool = False


class CleanerPlan(TimelineRecord, frozen=True, kw_only=True):
    """Files to delete, by partition. Version 2 fills `file_paths_to_be_deleted_per_partition`."""

    earliest_instant_to_retain: ActionInstant | None = None
    last_completed_commit_timestamp: str = ""
    policy: str
    files_to_be_deleted_per_partition: Mapping[str, Sequence[str]] = {}
    version: Int32 = 2
    file_paths_to_be_deleted_per_partition: Mapping[str, Sequence[CleanFileInfo]] = {}
    partitions_to_be_deleted: Sequence[str] = []
    extra_metadata: Mapping[str, str] = {}

    @property
    def is_own(self) -> bool:
        """Whether this package made the plan."""
        return self.extra_metadata.items() >= OWN_PLAN.items()

    @property
    def file_names(self) -> frozenset[str]:
        """The names of the files to delete, without their folders."""
        planned = self.file_paths_to_be_deleted_per_partition.values()
        paths = [file.file_path for files in planned for file in files if file.file_path]
        names = [name for each in self.files_to_be_deleted_per_partition.values() for name in each]
        return frozenset(path.rpartition("/")[2] for path in (*paths, *names))


class InstantInfo(TimelineRecord, frozen=True, kw_only=True):
    """An instant that is rolled back: its requested time and action."""

    commit_time: str
    action: str


class RollbackRequest(TimelineRecord, frozen=True, kw_only=True):
    """Files to delete in one partition, absolute paths.

    `log_blocks_to_be_deleted` (table version 6) is {log file: size}: a command block is
    appended after each instead of deleting it.
    """

    partition_path: str
    file_id: str | None = None
    latest_base_instant: str | None = None
    files_to_be_deleted: Sequence[str] = []
    log_blocks_to_be_deleted: Mapping[str, Int64] = {}


class RollbackPlan(TimelineRecord, frozen=True, kw_only=True):
    """One instant to roll back, and its files."""

    instant_to_rollback: InstantInfo | None = None
    rollback_requests: Sequence[RollbackRequest] = msgspec.field(
        name="RollbackRequests", default_factory=list
    )
    version: Int32 = 1


class RestorePlan(TimelineRecord, frozen=True, kw_only=True):
    """Instants to roll back, newest first, to restore a savepoint."""

    instants_to_rollback: Sequence[InstantInfo] = []
    version: Int32 = 2
    savepoint_to_restore_timestamp: str | None = None


class IndexPartitionInfo(TimelineRecord, frozen=True, kw_only=True):
    """A partition of the metadata table to build, and the last data instant to include."""

    version: Int32 = 1
    metadata_partition_path: str | None = None
    index_upto_instant: str | None = None
    extra_metadata: Mapping[str, str] = {}


class IndexPlan(TimelineRecord, frozen=True, kw_only=True):
    """Partitions of the metadata table to build."""

    version: Int32 = 1
    index_partition_infos: Sequence[IndexPartitionInfo] = []


decode_requested_replace_metadata, encode_requested_replace_metadata = timeline_record_codec(
    RequestedReplaceMetadata
)
decode_compaction_plan, encode_compaction_plan = timeline_record_codec(CompactionPlan)
decode_cleaner_plan, encode_cleaner_plan = timeline_record_codec(CleanerPlan)
decode_rollback_plan, encode_rollback_plan = timeline_record_codec(RollbackPlan)
decode_restore_plan, encode_restore_plan = timeline_record_codec(RestorePlan)
decode_index_plan, encode_index_plan = timeline_record_codec(IndexPlan)
