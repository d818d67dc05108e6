"""Names of the columns that Hudi adds to rows, and of the column that marks a row as deleted."""

from __future__ import annotations

import pyarrow as pa

from bucketfmt.errors import SchemaError

__all__ = [
    "COMMIT_SEQNO",
    "COMMIT_TIME",
    "FILE_NAME",
    "IS_DELETED",
    "META_COLUMNS",
    "OPERATION",
    "PARTITION_PATH",
    "RECORD_KEY",
    "check_own_column",
]

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""In their order in files, before the table's own columns."""
OPERATION = "_hoodie_operation"
IS_DELETED = "_hoodie_is_deleted"
"""A column of the table's own schema, if its writers delete by upserting marked rows."""


def check_own_column(name: str, kind: pa.DataType) -> None:
    """Refuse a new column of the user whose name has a meaning in Hudi.

    Raises:
        SchemaError: the column is one of Hudi's columns, or marks deleted rows and is not bool.
    """
    if name.lower() in (*META_COLUMNS, OPERATION):  # Spark ignores case
        raise SchemaError(f"the column {name} is Hudi's own; leave it out")
    if name == IS_DELETED and not pa.types.is_boolean(kind):
        raise SchemaError(
            f"the column {name} marks rows as deleted and is bool, not {kind}; cast it or rename it"
        )
