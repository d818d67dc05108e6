"""What a write of rows would do, and whether it would be refused.

I/O, read only: goes the way of a write up to where the first file would be put.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from bucketfmt.choices import Concurrency
from bucketfmt.format.names.names import format_write_token
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.rows.merging.combine import check_ordering_values
from bucketfmt.snapshot.listing import is_partition
from bucketfmt.write.files.data_file import check_apart
from bucketfmt.write.files.plan_write import Target
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.bucket_writer import BucketWriter, FileFormats
from bucketfmt.write.rows.gathering import gather_rows
from bucketfmt.write.rows.grouping import GroupedRows
from bucketfmt.write.rows.replacement import find_replacement

__all__ = ["WritePreview", "preview_rows"]

_INSTANT = "99991231235959999"  # of no commit: nothing is put
_TOKEN = format_write_token(0, 0, 0)


@dataclass(frozen=True, slots=True)
class WritePreview:
    """What a write of rows would do.

    Attributes:
        rows: How many rows are given.
        partitions: How many partitions they go to.
        file_groups: How many file groups take rows, or lose rows to another partition.
        new_file_groups: How many of these there are not yet.
        file_groups_replaced: How many file groups the write would hide, as an overwrite does.
        schema_changes: As `CommitResult` has them.
        repeated: The write was committed before with its idempotency key, and would write nothing.
    """

    rows: int
    partitions: int
    file_groups: int
    new_file_groups: int
    file_groups_replaced: int
    schema_changes: tuple[str, ...]
    repeated: bool = False


def preview_rows(
    basis: Basis,
    operation: WriteOperation,
    tables: Iterable[pa.Table],
    concurrency: Concurrency,
    workers: int,
) -> WritePreview:
    """Return what a write would do. Arguments and errors are those of the write."""
    writer = BucketWriter(basis, operation, _INSTANT, FileFormats(), concurrency)
    with GroupedRows() as grouped:
        gather_rows(basis, tables, grouped, workers)
        num_rows = sum(grouped.num_rows([route]) for route in grouped.routes)
        with writer.placed(grouped) as placed:
            planned = []
            for group, routes in writer.targets(placed.counts):
                plan = writer.plan(group, routes, _TOKEN)
                if plan is not None:
                    planned.append(plan)
                given = placed.rows_of(routes) if operation.combines else None
                if given is not None:
                    check_ordering_values(given, basis.rules)
    for plan in planned:
        if plan.target is Target.REWRITTEN_BASE and plan.file_slice is not None:
            for file in plan.file_slice.files:
                file.check_exists()
    paths = {plan.group.partition_path for plan in planned}
    state = basis.snapshot.state
    for path in sorted(paths):
        if not is_partition(state.lister, path):
            check_apart(state, path)
    replaced = find_replacement(basis, operation, paths, (), _INSTANT).file_groups
    return WritePreview(
        rows=num_rows,
        partitions=len(paths),
        file_groups=len(planned),
        new_file_groups=sum(plan.file_slice is None for plan in planned),
        file_groups_replaced=sum(map(len, replaced.values())),
        schema_changes=basis.schema_changes,
    )
