"""Apache Hudi bucket-index tables from plain Python: read, locate, look up, look into, check.

>>> import bucketfmt as bf
>>> t = bf.open("warehouse/trips")                         # doctest: +SKIP
>>> t.scan(filter=[("city", "=", "sf")]).to_arrow()        # doctest: +SKIP
>>> t.lookup(["trip-000017"])                              # doctest: +SKIP
>>> t.check(depth="full").findings                         # doctest: +SKIP
"""

from bucketfmt.api import Table, WriteArguments, check_table, create, open  # noqa: A004
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
    SchemaError,
    StorageError,
    TableNotFoundError,
    TruncatedError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.index.common_buckets import CommonBuckets
from bucketfmt.index.model import (
    BloomIndex,
    ConsistentHashingIndex,
    Index,
    PartitionBucketIndex,
    RecordIndex,
    SimpleBucketIndex,
)
from bucketfmt.limits import Limits
from bucketfmt.table.bucket_groups import BucketGroups
from bucketfmt.table.lookup import KeyLocator
from bucketfmt.table.pinned import PinnedTable
from bucketfmt.table.plan_read import ScanPlan
from bucketfmt.table.read_tasks import ReadTask, TaskReader
from bucketfmt.table.scan import Scan, group_buckets
from bucketfmt.write.commit.open import WriterConfig
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.rows.started_write import StartedWrite
from bucketfmt.write.rows.write_task import WriteTask
from bucketfmt.write.services.cleaning import CleanResult
from bucketfmt.write.services.compaction import StartedCompaction
from bucketfmt.write.services.compaction_task import CompactionTask
from bucketfmt.write.services.plan_compaction import CompactionPreview
from bucketfmt.write.undo.plan_rollback import RollbackResult
from bucketfmt.write.undo.savepoints import RestoreResult

__version__ = "0.1.0"

__all__ = [
    "BloomIndex",
    "BucketGroups",
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
    "Finding",
    "Index",
    "IndexUnknownError",
    "KeyEncodingError",
    "KeyLocator",
    "LimitError",
    "Limits",
    "LockLostError",
    "LockTimeoutError",
    "NotFoundError",
    "PartitionBucketIndex",
    "PinnedTable",
    "ReadTask",
    "RecordIndex",
    "RestoreResult",
    "RollbackResult",
    "Scan",
    "ScanPlan",
    "SchemaError",
    "SimpleBucketIndex",
    "StartedCompaction",
    "StartedWrite",
    "StorageError",
    "Table",
    "TableNotFoundError",
    "TaskReader",
    "TruncatedError",
    "UnsafePathError",
    "UnsupportedError",
    "WriteArguments",
    "WriteTask",
    "WriterConfig",
    "__version__",
    "check_table",
    "create",
    "group_buckets",
    "merge_reports",
    "open",
]
