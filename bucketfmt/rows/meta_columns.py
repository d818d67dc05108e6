"""Names of the columns Hudi adds to rows, and of the one that marks a row as deleted."""

from __future__ import annotations

__all__ = [
    "COMMIT_SEQNO",
    "COMMIT_TIME",
    "FILE_NAME",
    "IS_DELETED",
    "META_COLUMNS",
    "OPERATION",
    "PARTITION_PATH",
    "RECORD_KEY",
]

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""In the order they stand in, before the table's own columns."""
OPERATION = "_hoodie_operation"
IS_DELETED = "_hoodie_is_deleted"
"""A column of the table's own schema, if its writers delete by upserting marked rows."""
