"""The words that arguments choose from: of the library, the command line and the Spark package.

Pure, and imported by all of them: the command line states its choices without importing a writer.
"""

from typing import Literal

__all__ = [
    "CleanPolicy",
    "Codec",
    "Concurrency",
    "DataFormat",
    "Depth",
    "Duplicates",
    "KeyForm",
    "LockKind",
    "MetadataPolicy",
    "Missing",
    "RowsOperation",
    "SharedLock",
    "Split",
    "StartedOperation",
    "TableType",
]

TableType = Literal["COPY_ON_WRITE", "MERGE_ON_READ"]

Codec = Literal["zstd", "snappy", "gzip", "none"]
"""The compression of parquet files."""

DataFormat = Literal["avro", "parquet"]
"""The format of the rows in log files."""

RowsOperation = Literal[
    "upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"
]
"""What a write does with its rows."""

StartedOperation = Literal[RowsOperation, "delete"]
"""What a write that is done in tasks does."""

Missing = Literal["error", "null", "keep"]
"""What to store in columns that rows lack."""

Concurrency = Literal["optimistic", "non_blocking"]
"""How two writes to one bucket at the same time end."""

SharedLock = Literal["auto", "storage", "filesystem"]
"""A lock that writers on several machines see."""

LockKind = Literal[SharedLock, "process"]
"""The lock of all writers of a table."""

MetadataPolicy = Literal["sync", "drop", "refuse"]
"""What a write does with the metadata table."""

CleanPolicy = Literal["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]
"""What a clean counts to retain file slices."""

Depth = Literal["quick", "default", "full"]
"""How much a check reads."""

KeyForm = Literal["value", "named"]
"""How complex keys of one field are written: `7` or `id:7`."""

Duplicates = Literal["refuse", "latest"]
"""What a migration or a repair does where several rows have one key."""

Split = Literal["middle", "even"]
"""Where a resize divides buckets."""
