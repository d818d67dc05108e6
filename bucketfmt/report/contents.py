"""What a report shows, as values, and how they are brought together.

`load_contents` does I/O, by the functions of the table that other callers use too. A part of the
table that cannot be read is left out, and the contents say why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.check.report import CheckReport
from bucketfmt.errors import BucketfmtError
from bucketfmt.format.names.instants import normalise_instant
from bucketfmt.resize.advice import BucketAdvice
from bucketfmt.resize.growth import SizeAt, measure_sizes
from bucketfmt.table.describe import load_facts
from bucketfmt.table.table import Table
from bucketfmt.timeline.history import list_archive_files

__all__ = ["ReportContents", "load_contents"]

_T = TypeVar("_T")

_FILE_GROUPS = pa.schema(
    {
        "partition_path": pa.string(),
        "file_id": pa.string(),
        "bucket_id": pa.int32(),
        "base_instant": pa.string(),
        "base_size": pa.int64(),
        "base_rows": pa.int64(),
        "log_files": pa.int64(),
        "log_size": pa.int64(),
    }
)
_EMPTY_BUCKETS = pa.schema({"partition_path": pa.string(), "bucket_id": pa.int32()})
_FILES = pa.schema({"kind": pa.string(), "size": pa.int64()})
_COMMITS = pa.schema(
    {
        "requested_time": pa.string(),
        "completion_time": pa.string(),
        "action": pa.string(),
        "state": pa.string(),
        "operation_type": pa.string(),
        "files": pa.int64(),
        "bytes": pa.int64(),
    }
)


@dataclass(frozen=True)
class ReportContents:
    """The values of a report.

    Attributes:
        name: The table's name.
        facts: What the table is, by name, in the order to show it in.
        columns: Name and type of each column.
        check: What a check found.
        advice: Which buckets suit the table; None if they could not be advised.
        file_groups: `inspect.file_groups()`, and a row without `file_id` for each empty bucket.
        files: `kind` and `size` of each file that a reader opens.
        commits: `inspect.commits()`.
        sizes: How large the table was after each commit.
        unreadable: A sentence for each part that could not be read.
        made_at: When the contents were read, as an instant in the table's time zone.
    """

    name: str
    facts: Mapping[str, Any]
    columns: tuple[tuple[str, str], ...]
    check: CheckReport
    advice: BucketAdvice | None
    file_groups: pa.Table
    files: pa.Table
    commits: pa.Table
    sizes: tuple[SizeAt, ...]
    unreadable: tuple[str, ...]
    made_at: str


def load_contents(
    table: Table, check: CheckReport, advise: Callable[[], BucketAdvice]
) -> ReportContents:
    """Return what a report on a table shows. Opens no data file, unless keys prove the index.

    Args:
        table: The table.
        check: What a check of the table found.
        advise: Returns the advice on the table's buckets.
    """
    config = table.config
    unread: dict[str, list[str]] = {}

    def attempt(what: str, load: Callable[[Table], _T], otherwise: _T) -> _T:
        try:
            return load(table)
        except BucketfmtError as error:
            unread.setdefault(str(error), []).append(what)
            return otherwise

    known = {"table": config.name, "uri": table.uri, "type": config.table_type}
    facts = attempt("facts", lambda own: load_facts(own).in_words(), known)
    groups = attempt("file groups", _file_groups, _FILE_GROUPS.empty_table())
    empty = attempt("empty buckets", _empty_buckets, _EMPTY_BUCKETS.empty_table())
    return ReportContents(
        name=config.name,
        facts=facts,
        columns=attempt("columns", _columns, ()),
        check=check,
        advice=attempt("advice", lambda _: advise(), None),
        file_groups=pa.concat_tables([groups, empty], promote_options="default"),
        files=attempt("files", _files, _FILES.empty_table()),
        commits=attempt("timeline", _commits, _COMMITS.empty_table()),
        sizes=attempt("growth", lambda _: _sizes(table, groups), ()),
        unreadable=tuple(
            f"Not read: {', '.join(parts)}. {reason}" for reason, parts in unread.items()
        ),
        made_at=normalise_instant(datetime.now(timezone.utc), config.timezone),
    )


def _file_groups(table: Table) -> pa.Table:
    return table.inspect.file_groups().select(_FILE_GROUPS.names)


def _empty_buckets(table: Table) -> pa.Table:
    buckets = table.inspect.buckets()
    return buckets.filter(buckets["file_id"].is_null()).select(_EMPTY_BUCKETS.names)


def _files(table: Table) -> pa.Table:
    return table.inspect.files().select(_FILES.names)


def _commits(table: Table) -> pa.Table:
    return table.inspect.commits().select(_COMMITS.names)


def _columns(table: Table) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, str(field.type)) for field in table.schema)


def _sizes(table: Table, groups: pa.Table) -> tuple[SizeAt, ...]:
    sizes = (pc.sum(groups[name]).as_py() or 0 for name in ("base_size", "log_size"))
    begins_empty = not list_archive_files(table.store, table.config, table.limits)
    commits = table.state.commits
    return measure_sizes(commits, bytes_now=sum(sizes), begins_empty=begins_empty)
