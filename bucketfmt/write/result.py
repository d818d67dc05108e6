"""What a write did."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CommitResult"]


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A completed write.

    Attributes:
        instant: Its requested time: `_hoodie_commit_time` of the rows it wrote.
        completion_time: When it became visible.
        action: `commit`, `deltacommit`, `replacecommit`, ...
        operation: As Hudi names it: UPSERT, DELETE, COMPACT, ...
        rows_inserted: Rows of keys that were new. In a merge-on-read table only those written
            to base files are counted here.
        rows_updated: Rows of keys that were there, or that went to log files.
        rows_deleted: Rows removed, or deletes logged.
        files: Paths written, relative to the table.
        bytes_written: Their sizes together.
        file_groups_replaced: How many file groups it hid.
        repeated: The same `idempotency_key` had been committed before: this is that commit,
            and nothing was written now.
    """

    instant: str
    completion_time: str
    action: str
    operation: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files: tuple[str, ...] = ()
    bytes_written: int = 0
    file_groups_replaced: int = 0
    repeated: bool = False
