"""`open`, `create`, `check_table` and `report_table`: opening, creating and checking a table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from bucketfmt.api.examining import examine_in_processes
from bucketfmt.api.table import Table
from bucketfmt.arguments import check_int, check_kind
from bucketfmt.check.report import CheckReport
from bucketfmt.check.salvage import load_config_to_check
from bucketfmt.choices import Depth, TableType
from bucketfmt.index.model import Index
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.progress import ProgressCallback
from bucketfmt.report.table_report import TableReport
from bucketfmt.storage.open import open_above, open_store
from bucketfmt.table.table import Moment
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.write.commit.writer_config import WriterConfig
from bucketfmt.write.properties.create import create_table
from bucketfmt.write.properties.plan_create import DEFAULT_INDEX, name_of, plan_properties
from bucketfmt.write.rows.data_like import DataLike, open_schema

__all__ = [
    "check_table",
    "create",
    "open",
    "report_table",
]

_PROCESSES_MAX = 1_000  # which no machine gains by


def open(  # noqa: A001  (bucketfmt.open)
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
    limits: Limits | None = None,
    writer: WriterConfig | None = None,
) -> Table:
    """Return the Hudi table at `uri`. Writes nothing.

    Args:
        uri: A path, or a URL that fsspec knows.
        storage_options: Passed to fsspec.
        index: How keys map to buckets, where the table does not record it.
        limits: Bounds on the memory that the table's contents may take.
        writer: The configuration of writes to the table.

    Raises:
        TableNotFoundError: there is no `.hoodie/hoodie.properties` at `uri`.
        UnsupportedError: this release does not read tables of this version or kind.
        CorruptError: hoodie.properties is damaged, and its backup is missing or damaged too.
        TypeError: an argument has the wrong type.

    Whether `index` is that of the table is found out by the first call that goes by it, which
    raises a ValueError if it is not.
    """
    _check_opening(storage_options, index, limits, writer)
    limits = DEFAULT_LIMITS if limits is None else limits
    store = open_store(uri, storage_options, limits)
    return Table(store, load_config(store, limits), limits, index, writer)


def create(
    uri: str | os.PathLike[str],
    *,
    schema: pa.Schema | DataLike,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] = (),
    ordering: str | Sequence[str] = (),
    index: Index = DEFAULT_INDEX,
    table_type: TableType = "COPY_ON_WRITE",
    table_version: int = 9,
    name: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    writer: WriterConfig | None = None,
) -> Table:
    """Create a Hudi table at `uri` and return it.

    The index is written into hoodie.properties, where Hudi's writers find it, so that no writer
    uses another number of buckets by mistake.

    Args:
        uri: A path, or a URL that fsspec knows; its last part names the table unless `name` does.
        schema: The columns: a pyarrow Schema, or rows that have them, such as a DataFrame, of which
            none is written.
        record_key: The columns that identify a record within its partition; one, or several.
        partition_by: The columns that make partitions; `"made:TIMESTAMP"` for a column whose path
            is a date format, with the `hoodie.keygen.timebased.*` properties.
        ordering: The columns that decide which of two rows with one key is newer. Without them,
            the row that was written later is newer.
        index: How keys map to buckets; or `RecordIndex()` for a table without buckets, whose
            record index is made too. Its keys are unique in the table. By default
            `SimpleBucketIndex(8)`: eight buckets hold about a gigabyte of a partition in files of
            120 MiB. `Table.advise_buckets` tells when another number suits the table, and
            `Table.rehash` changes the number.
        table_type: COPY_ON_WRITE rewrites files, MERGE_ON_READ logs changes.
        table_version: 6 for Hudi 0.14 and 0.15, 8 for 1.0, 9 for 1.1 and later.
        name: The table's name.
        storage_options: Passed to fsspec.
        properties: Further entries of hoodie.properties, such as
            `hoodie.datasource.write.hive_style_partitioning`.
        limits: As in `open`.
        writer: As in `open`.

    Raises:
        ValueError: there is a table, what is left of one or a file already, or a table at a folder
            above; or arguments contradict one another.
        SchemaError: a key, partition or ordering field is not among the columns.
        TypeError: an argument has the wrong type.
        UnsupportedError: Hudi has no type for a column.
    """
    _check_opening(storage_options, index, limits, writer)
    limits = DEFAULT_LIMITS if limits is None else limits
    store = open_store(uri, storage_options, limits)
    planned = plan_properties(
        name=name_of(uri) if name is None else name,
        schema=open_schema(schema),
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        index=index,
        table_type=table_type,
        table_version=table_version,
        properties=properties,
    )
    create_table(store, planned, index, open_above(store, storage_options, limits))
    table = Table(store, load_config(store, limits), limits, None, writer)
    if not index.keeps_locations:
        return table
    table.metadata_table.init(RECORD_INDEX)
    return Table(store, load_config(store, limits), limits, None, writer)


def _check_opening(storage_options: object, index: object, limits: object, writer: object) -> None:
    """Refuse arguments of `open` that have the wrong type. None stands for no argument."""
    for name, value, kind, wanted in (
        ("storage_options", storage_options, Mapping, "a dict for fsspec"),
        ("index", index, Index, "a value such as SimpleBucketIndex(16)"),
        ("limits", limits, Limits, "a value such as Limits(ring_nodes_max=1000)"),
        ("writer", writer, WriterConfig, 'a value such as WriterConfig(lock="storage")'),
    ):
        if value is not None:
            check_kind(name, value, kind, wanted)


def check_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
    limits: Limits | None = None,
    *,
    depth: Depth = "default",
    partitions: Sequence[str] | None = None,
    since: Moment | None = None,
    max_findings: int = 100,
    progress: ProgressCallback | None = None,
    metadata_table_only: bool = False,
    processes: int = 1,
) -> CheckReport:
    """Check the table at `uri`, even if `open` refuses the table for damaged properties.

    The damage becomes finding T006, and the table is checked by the properties that are left.
    The first arguments are those of `open`, the others those of `Table.check`.

    With `processes`, so many processes open the data files: for tables of many small files. Python
    spawns them, so a script that asks for more than one has to begin with
    `if __name__ == "__main__":`.

    Raises:
        TableNotFoundError: there is no table at `uri`.
        CorruptError: hoodie.properties is too damaged for reading the table.
        UnsupportedError: this release does not read tables of this version or kind.
        ValueError: `index`, or another argument, contradicts the table; or several processes for
            a part of a table.
    """
    opening = partial(_open_damaged, uri, storage_options, index, limits)
    examined: list[bytes] = []
    if check_int("processes", processes, 1, _PROCESSES_MAX) > 1:
        if partitions is not None or since is not None or metadata_table_only:
            raise ValueError(
                "several processes check a whole table; leave out partitions= or processes="
            )
        if depth != "quick":
            examined = examine_in_processes(opening, depth, processes, progress)
    return opening().check(
        depth,
        partitions,
        since,
        max_findings,
        progress,
        metadata_table_only=metadata_table_only,
        examined=examined,
    )


def report_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
    limits: Limits | None = None,
    *,
    depth: Depth = "default",
    progress: ProgressCallback | None = None,
) -> TableReport:
    """Return a report on the table at `uri`, even if `open` refuses it for damaged properties.

    The first arguments are those of `open`, the others those of `Table.report`. Errors are those
    of `check_table`.
    """
    return _open_damaged(uri, storage_options, index, limits).report(depth, progress)


def _open_damaged(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    index: Index | None,
    limits: Limits | None,
) -> Table:
    """Open a table by what is left of its properties."""
    _check_opening(storage_options, index, limits, None)
    limits = DEFAULT_LIMITS if limits is None else limits
    store = open_store(uri, storage_options, limits)
    return Table(store, load_config_to_check(store, limits), limits, index)
