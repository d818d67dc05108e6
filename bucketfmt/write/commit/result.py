"""What a write did. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

from bucketfmt.facts import facts_html
from bucketfmt.format.names.instants import INIT_INSTANT
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.timeline.timeline import Instant

__all__ = ["CommitResult", "nothing_done", "result_of", "rows_text"]

_SERVICES = (
    WriteOperation.BUCKET_RESCALE,
    WriteOperation.CLUSTER,
    WriteOperation.COMPACT,
    WriteOperation.LOG_COMPACT,
)


@dataclass(frozen=True, slots=True, repr=False)
class CommitResult:
    """A completed write. `str` says in a line what it did.

    Attributes:
        instant: Its requested time: `_hoodie_commit_time` of the rows it wrote. Where nothing was
            committed, that of the newest commit, in which there was nothing to do.
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
        schema_changes: What the write changed about the table's columns, such as
            "tip: added, double" or "qty: int32 became int64".
        repeated: The same `idempotency_key` had been committed before: this is that commit,
            and nothing was written now.
        committed: False of a delete that found no row, which makes no commit.
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
    schema_changes: tuple[str, ...] = ()
    repeated: bool = False
    committed: bool = True

    def __str__(self) -> str:
        if not self.committed:
            return f"{self.operation}: nothing to do, nothing committed"
        again = "; committed before with this idempotency key" if self.repeated else ""
        written = f"{len(self.files)} files, {self.bytes_written} bytes"
        hidden = self.file_groups_replaced
        replaced = f"; {hidden} file groups replaced" if hidden else ""
        return f"{self.operation} at {self.instant}: {rows_text(self)}; {written}{replaced}{again}"

    def __repr__(self) -> str:
        return f"<bucketfmt.CommitResult {self}>"

    def _repr_html_(self) -> str:
        shown = {**asdict(self), "files": len(self.files)}
        facts = {name.replace("_", " "): value for name, value in shown.items() if value != ()}
        return facts_html(f"{self.operation} at {self.instant}", facts)


def rows_text(result: CommitResult) -> str:
    """Return how many rows a commit wrote, in words: a service changes none, and writes them again.

    Source: HoodieWriteStat, whose `numInserts` counts the rows of a rewritten file too.
    """
    if WriteOperation.find(result.operation) in _SERVICES:
        return f"{result.rows_inserted + result.rows_updated} rows rewritten"
    return (
        f"{result.rows_inserted} rows inserted, {result.rows_updated} updated or logged, "
        f"{result.rows_deleted} deleted"
    )


def result_of(
    instant: Instant,
    metadata: CommitMetadata,
    *,
    repeated: bool = False,
    copied_for: Collection[str] = (),
) -> CommitResult:
    """Return a commit as a value.

    Args:
        instant: The commit on the timeline.
        metadata: What it wrote.
        repeated: See `CommitResult`.
        copied_for: Requested times of resizes: rows in log files that bear them are counted in
            other files.
    """
    files = []
    inserted = updated = deleted = size = 0
    for stat in metadata.write_stats:
        files.append(stat.path or "")
        size += stat.total_write_bytes
        if not copied_for or (name := stat.file_name) is None or name.instant not in copied_for:
            inserted += stat.num_inserts
            updated += stat.num_update_writes
            deleted += stat.num_deletes
    return CommitResult(
        instant=instant.requested_time,
        completion_time=instant.completion_time or instant.requested_time,
        action=instant.action,
        operation=metadata.operation_type or "UNKNOWN",
        rows_inserted=inserted,
        rows_updated=updated,
        rows_deleted=deleted,
        files=tuple(files),
        bytes_written=size,
        file_groups_replaced=sum(map(len, metadata.partition_to_replace_file_ids.values())),
        repeated=repeated,
    )


def nothing_done(
    operation: WriteOperation, table_type: str, newest: Instant | None
) -> CommitResult:
    """Return what a write says that found nothing to do.

    Args:
        operation: What the write does.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
        newest: The newest commit that it looked at; None if there is none.
    """
    instant = INIT_INSTANT if newest is None else newest.requested_time
    completed = instant if newest is None else newest.completion_time or instant
    return CommitResult(
        instant,
        completed,
        operation.action(table_type),
        operation.operation_type,
        committed=False,
    )
