"""Apache Hudi bucket-index tables from plain Python: read, locate, look up, look into, check.

>>> import bucketfmt as bf
>>> t = bf.open("warehouse/trips")                         # doctest: +SKIP
>>> t.scan(filter=[("city", "=", "sf")]).to_arrow()        # doctest: +SKIP
>>> t.lookup(["trip-000017"])                              # doctest: +SKIP
>>> t.check(depth="full").findings                         # doctest: +SKIP
"""

from bucketfmt.api import Table, open  # noqa: A004  (bucketfmt.open, as asked)
from bucketfmt.check.report import CheckReport, Finding
from bucketfmt.errors import (
    BucketfmtError,
    ChecksumError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    IndexUnknownError,
    KeyEncodingError,
    LimitError,
    LockTimeoutError,
    NotFoundError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    TruncatedError,
    UnsafePathError,
    UnsupportedError,
)
from bucketfmt.index.model import (
    BloomIndex,
    ConsistentHashingIndex,
    Index,
    PartitionBucketIndex,
    RecordIndex,
    SimpleBucketIndex,
)
from bucketfmt.limits import Limits
from bucketfmt.table.plan_read import ScanPlan
from bucketfmt.table.scan import Scan

__version__ = "0.1.0"

__all__ = [
    "BloomIndex",
    "BucketfmtError",
    "CheckReport",
    "ChecksumError",
    "CommitUnknownError",
    "ConflictError",
    "ConsistentHashingIndex",
    "CorruptError",
    "Finding",
    "Index",
    "IndexUnknownError",
    "KeyEncodingError",
    "LimitError",
    "Limits",
    "LockTimeoutError",
    "NotFoundError",
    "PartitionBucketIndex",
    "RecordIndex",
    "Scan",
    "ScanPlan",
    "SchemaError",
    "SimpleBucketIndex",
    "StorageError",
    "Table",
    "TableNotFoundError",
    "TruncatedError",
    "UnsafePathError",
    "UnsupportedError",
    "__version__",
    "open",
]
