"""Names of the columns Hudi adds to rows, as far as reading and merging rows needs them."""

from __future__ import annotations

__all__ = ["IS_DELETED", "OPERATION", "PARTITION_PATH", "RECORD_KEY"]

RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
OPERATION = "_hoodie_operation"
IS_DELETED = "_hoodie_is_deleted"
"""A column of the table's own schema, if its writers delete by upserting marked rows."""
