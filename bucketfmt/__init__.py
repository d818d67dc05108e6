"""Apache Hudi bucket-index tables from plain Python: read, locate, look up, look into, check.

>>> import bucketfmt as bf
>>> t = bf.open("warehouse/trips")
>>> t.scan(filter=[("city", "=", "sf")]).to_arrow()
>>> t.lookup(["trip-000017"])
>>> t.check(depth="full").findings
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bucketfmt.api.opening import (
        check_table,
        create,
        open,  # noqa: A004
        report_table,
    )
    from bucketfmt.api.resizes import ResizeArguments
    from bucketfmt.api.table import Table
    from bucketfmt.api.writes import WriteArguments
    from bucketfmt.check.report import CheckReport, Finding, merge_reports
    from bucketfmt.errors import (
        BucketfmtError,
        ChecksumError,
        CommitUnknownError,
        ConflictError,
        CorruptError,
        IndexUnknownError,
        KeyEncodingError,
        LimitError,
        LockLostError,
        LockTimeoutError,
        NotFoundError,
        OvertakenError,
        SchemaError,
        StorageError,
        TableNotFoundError,
        TruncatedError,
        UnsafePathError,
        UnsupportedError,
    )
    from bucketfmt.index.common_buckets import CommonBuckets
    from bucketfmt.index.model import BloomIndex, Index, RecordIndex
    from bucketfmt.index.numbered_buckets import (
        MultiGroupBucketIndex,
        PartitionBucketIndex,
        SimpleBucketIndex,
    )
    from bucketfmt.index.parse_index import parse_index
    from bucketfmt.index.stored_buckets import ConsistentHashingIndex, ExtendibleHashingIndex
    from bucketfmt.limits import Limits
    from bucketfmt.repair.plan_buckets import BucketRepair
    from bucketfmt.repair.rings import RepairedRing
    from bucketfmt.report.table_report import TableReport
    from bucketfmt.resize.advice import BucketAdvice, PartitionAdvice, Recommendation
    from bucketfmt.resize.growth import Duration
    from bucketfmt.resize.migration.plan_migrate import MigratePreview, MigrateResult
    from bucketfmt.resize.numbered.plan_rehash import RehashPreview
    from bucketfmt.resize.numbered.plan_rescale import RescalePreview
    from bucketfmt.resize.rewrite import StartedRewrite
    from bucketfmt.resize.rewrite_task import RewriteTask
    from bucketfmt.resize.split_merge.resize_limits import ResizePreview
    from bucketfmt.resize.split_merge.split_policies import EvenSplit, MiddleSplit, SplitPolicy
    from bucketfmt.resize.split_merge.started_resize import StartedResize
    from bucketfmt.storage.requests import requests_made
    from bucketfmt.storage.storage_options import parse_storage_options
    from bucketfmt.table.bucket_groups import BucketGroups
    from bucketfmt.table.lookup import KeyLocator
    from bucketfmt.table.pinned import PinnedTable
    from bucketfmt.table.plan_read import ScanPlan
    from bucketfmt.table.read_tasks import ReadTask, TaskReader
    from bucketfmt.table.scan import Scan, group_buckets
    from bucketfmt.write.commit.result import CommitResult
    from bucketfmt.write.commit.writer_config import WriterConfig
    from bucketfmt.write.rows.preview import WritePreview
    from bucketfmt.write.rows.started_write import StartedWrite
    from bucketfmt.write.rows.write_task import WriteTask
    from bucketfmt.write.services.cleaning import CleanResult
    from bucketfmt.write.services.compaction import StartedCompaction
    from bucketfmt.write.services.compaction_task import CompactionTask
    from bucketfmt.write.services.maintenance import MaintainResult
    from bucketfmt.write.services.plan_archive import ArchivePolicy
    from bucketfmt.write.services.plan_clean import Retention
    from bucketfmt.write.services.plan_compaction import CompactionPreview
    from bucketfmt.write.services.plan_services import Services
    from bucketfmt.write.undo.plan_rollback import RollbackResult
    from bucketfmt.write.undo.restore import RestoreResult

__version__ = "0.1.0"

__all__ = [
    "ArchivePolicy",
    "BloomIndex",
    "BucketAdvice",
    "BucketGroups",
    "BucketRepair",
    "BucketfmtError",
    "CheckReport",
    "ChecksumError",
    "CleanResult",
    "CommitResult",
    "CommitUnknownError",
    "CommonBuckets",
    "CompactionPreview",
    "CompactionTask",
    "ConflictError",
    "ConsistentHashingIndex",
    "CorruptError",
    "Duration",
    "EvenSplit",
    "ExtendibleHashingIndex",
    "Finding",
    "Index",
    "IndexUnknownError",
    "KeyEncodingError",
    "KeyLocator",
    "LimitError",
    "Limits",
    "LockLostError",
    "LockTimeoutError",
    "MaintainResult",
    "MiddleSplit",
    "MigratePreview",
    "MigrateResult",
    "MultiGroupBucketIndex",
    "NotFoundError",
    "OvertakenError",
    "PartitionAdvice",
    "PartitionBucketIndex",
    "PinnedTable",
    "ReadTask",
    "Recommendation",
    "RecordIndex",
    "RehashPreview",
    "RepairedRing",
    "RescalePreview",
    "ResizeArguments",
    "ResizePreview",
    "RestoreResult",
    "Retention",
    "RewriteTask",
    "RollbackResult",
    "Scan",
    "ScanPlan",
    "SchemaError",
    "Services",
    "SimpleBucketIndex",
    "SplitPolicy",
    "StartedCompaction",
    "StartedResize",
    "StartedRewrite",
    "StartedWrite",
    "StorageError",
    "Table",
    "TableNotFoundError",
    "TableReport",
    "TaskReader",
    "TruncatedError",
    "UnsafePathError",
    "UnsupportedError",
    "WriteArguments",
    "WritePreview",
    "WriteTask",
    "WriterConfig",
    "__version__",
    "check_table",
    "create",
    "group_buckets",
    "merge_reports",
    "open",
    "parse_index",
    "parse_storage_options",
    "report_table",
    "requests_made",
]

_MODULES = {
    "ArchivePolicy": "bucketfmt.write.services.plan_archive",
    "BloomIndex": "bucketfmt.index.model",
    "BucketAdvice": "bucketfmt.resize.advice",
    "BucketGroups": "bucketfmt.table.bucket_groups",
    "BucketRepair": "bucketfmt.repair.plan_buckets",
    "BucketfmtError": "bucketfmt.errors",
    "CheckReport": "bucketfmt.check.report",
    "ChecksumError": "bucketfmt.errors",
    "CleanResult": "bucketfmt.write.services.cleaning",
    "CommitResult": "bucketfmt.write.commit.result",
    "CommitUnknownError": "bucketfmt.errors",
    "CommonBuckets": "bucketfmt.index.common_buckets",
    "CompactionPreview": "bucketfmt.write.services.plan_compaction",
    "CompactionTask": "bucketfmt.write.services.compaction_task",
    "ConflictError": "bucketfmt.errors",
    "ConsistentHashingIndex": "bucketfmt.index.stored_buckets",
    "ExtendibleHashingIndex": "bucketfmt.index.stored_buckets",
    "CorruptError": "bucketfmt.errors",
    "Duration": "bucketfmt.resize.growth",
    "EvenSplit": "bucketfmt.resize.split_merge.split_policies",
    "Finding": "bucketfmt.check.report",
    "Index": "bucketfmt.index.model",
    "IndexUnknownError": "bucketfmt.errors",
    "KeyEncodingError": "bucketfmt.errors",
    "KeyLocator": "bucketfmt.table.lookup",
    "LimitError": "bucketfmt.errors",
    "Limits": "bucketfmt.limits",
    "LockLostError": "bucketfmt.errors",
    "LockTimeoutError": "bucketfmt.errors",
    "MaintainResult": "bucketfmt.write.services.maintenance",
    "MiddleSplit": "bucketfmt.resize.split_merge.split_policies",
    "MigratePreview": "bucketfmt.resize.migration.plan_migrate",
    "MigrateResult": "bucketfmt.resize.migration.plan_migrate",
    "MultiGroupBucketIndex": "bucketfmt.index.numbered_buckets",
    "NotFoundError": "bucketfmt.errors",
    "OvertakenError": "bucketfmt.errors",
    "PartitionAdvice": "bucketfmt.resize.advice",
    "PartitionBucketIndex": "bucketfmt.index.numbered_buckets",
    "PinnedTable": "bucketfmt.table.pinned",
    "ReadTask": "bucketfmt.table.read_tasks",
    "Recommendation": "bucketfmt.resize.advice",
    "RecordIndex": "bucketfmt.index.model",
    "RehashPreview": "bucketfmt.resize.numbered.plan_rehash",
    "RepairedRing": "bucketfmt.repair.rings",
    "ResizeArguments": "bucketfmt.api.resizes",
    "ResizePreview": "bucketfmt.resize.split_merge.resize_limits",
    "RescalePreview": "bucketfmt.resize.numbered.plan_rescale",
    "RestoreResult": "bucketfmt.write.undo.restore",
    "Retention": "bucketfmt.write.services.plan_clean",
    "RewriteTask": "bucketfmt.resize.rewrite_task",
    "RollbackResult": "bucketfmt.write.undo.plan_rollback",
    "Scan": "bucketfmt.table.scan",
    "ScanPlan": "bucketfmt.table.plan_read",
    "SchemaError": "bucketfmt.errors",
    "Services": "bucketfmt.write.services.plan_services",
    "SimpleBucketIndex": "bucketfmt.index.numbered_buckets",
    "SplitPolicy": "bucketfmt.resize.split_merge.split_policies",
    "StartedCompaction": "bucketfmt.write.services.compaction",
    "StartedResize": "bucketfmt.resize.split_merge.started_resize",
    "StartedRewrite": "bucketfmt.resize.rewrite",
    "StartedWrite": "bucketfmt.write.rows.started_write",
    "StorageError": "bucketfmt.errors",
    "Table": "bucketfmt.api.table",
    "TableNotFoundError": "bucketfmt.errors",
    "TableReport": "bucketfmt.report.table_report",
    "TaskReader": "bucketfmt.table.read_tasks",
    "TruncatedError": "bucketfmt.errors",
    "UnsafePathError": "bucketfmt.errors",
    "UnsupportedError": "bucketfmt.errors",
    "WriteArguments": "bucketfmt.api.writes",
    "WritePreview": "bucketfmt.write.rows.preview",
    "WriteTask": "bucketfmt.write.rows.write_task",
    "WriterConfig": "bucketfmt.write.commit.writer_config",
    "check_table": "bucketfmt.api.opening",
    "create": "bucketfmt.api.opening",
    "group_buckets": "bucketfmt.table.scan",
    "merge_reports": "bucketfmt.check.report",
    "open": "bucketfmt.api.opening",
    "parse_index": "bucketfmt.index.parse_index",
    "parse_storage_options": "bucketfmt.storage.storage_options",
    "report_table": "bucketfmt.api.opening",
    "requests_made": "bucketfmt.storage.requests",
}
"""The module that defines each public name. A module is imported when one of its names is first
used: a program that only reads imports nothing that writes, and `import bucketfmt` costs less
than `import pyarrow`."""


if not TYPE_CHECKING:  # so that a type checker knows the names above, and no others

    def __getattr__(name: str) -> object:
        """Import the module that defines a public name."""
        if name == "errors":
            return import_module("bucketfmt.errors")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value  # found without this function from here on
        return value


def __dir__() -> list[str]:
    return list(__all__)
