"""Whether rows can be appended to the log of a file slice, or the slice is to be rewritten.

I/O: reads the deletes of the slice, and the rows of their keys. Source: docs/decisions/0016.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import ConflictError, UnsupportedError
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.merging.log_entries import find_delete_marks
from bucketfmt.rows.merging.over_deletes import OverDeletes
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.timeline.load import load_compaction_plan
from bucketfmt.write.files.plan_write import GroupWrite
from bucketfmt.write.files.write_settings import WriteSettings

__all__ = ["Appending"]


class Appending:
    """Decides for each file slice of one write. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot, settings: WriteSettings) -> None:
        self._snapshot = snapshot
        self._state = snapshot.state
        self._settings = settings
        self._config = snapshot.state.config

    def place(self, plan: GroupWrite, given: pa.Table) -> GroupWrite:
        """Return how to write rows so that readers see those of deleted keys.

        Where a delete in the log would hide an appended row, or the deleted row would come back,
        the slice is rewritten: a base file keeps no deletes (docs/decisions/0016). So it is where
        a compaction would leave such a key out of the base file which has to have it.
        """
        if plan.group.resize is not None:
            self._check_copies(plan, plan.group.resize, given)
            return plan
        found = self._count_over_deletes(plan.file_slice, given)
        is_half_compacted = self._is_half_compacted(plan)
        # Hudi 1.0 fails to read a row over a delete without ordering value.
        yields = self._config.table_version == 8 or is_half_compacted
        num_wrong = max(found.num_revived, found.num_unordered if yields else 0)
        if not self._settings.is_non_blocking:
            is_compared = is_half_compacted or self._settings.keeps_keys_in_base
            is_seen = not (found.num_hidden or num_wrong or (is_compared and found.num_rows))
            if is_seen:
                return plan
            self._check_no_log_compaction(plan)
            return plan.rewriting
        if num_wrong:
            raise UnsupportedError(
                f"{num_wrong} rows of keys that the log deletes: appended, they would bring the "
                "deleted rows back, or values of theirs. Compact the table first, or write "
                'with concurrency="optimistic"',
                partition=plan.group.partition_path,
                bucket=plan.group.bucket_id,
            )
        return plan

    def _check_no_log_compaction(self, plan: GroupWrite) -> None:
        """Refuse to write the next base file below what a log compaction is about to rewrite.

        It would complete above the new base file, with what was deleted and is in its plan.
        """
        state = self._state
        for instant in state.timeline.pending.of("logcompaction").instants:
            planned = load_compaction_plan(state.store, state.config, instant, state.limits)
            for operation in planned.operations:
                group = (operation.partition_path or "", operation.file_id)
                if group == (plan.group.partition_path, plan.file_id):
                    raise ConflictError(
                        f"log compaction {instant.requested_time} is pending, and rows of deleted "
                        "keys take the next base file of the file group, which it would complete "
                        "above; let Hudi execute it, then write again",
                        partition=plan.group.partition_path,
                        bucket=plan.group.bucket_id,
                    )

    def _check_copies(self, plan: GroupWrite, resize: str, given: pa.Table) -> None:
        """Refuse copies of rows that would not be read once the pending resize is completed.

        The base file below the copies will have what the file groups held when the resize was
        planned. Nothing can be rewritten before.
        """
        before = Snapshot(self._state, as_of=resize)
        split = {file_slice.file_id for file_slice in plan.stored}
        keys = pc.unique(given.column(RECORD_KEY))

        def read_base(schema: pa.Schema) -> Iterator[pa.Table]:
            spec = RowSpec(table=self._settings.schema, output=schema, keys=keys)
            reader = SliceReader(before, spec, side_by_side=True)
            for file_slice in before.slices_where(plan.group.partition_path, split.__contains__):
                yield from reader.read(file_slice, None)

        found = self._count_over_deletes(plan.file_slice, given, read_base)
        yields = self._config.table_version == 8  # Hudi 1.0 fails to read such a row
        num_wrong = found.num_hidden + found.num_revived + (found.num_unordered if yields else 0)
        if num_wrong:
            raise UnsupportedError(
                f"{num_wrong} rows of keys that were deleted while the resize of {resize} is "
                "pending, with lower ordering values than the deletes: once the resize is "
                "completed, readers would miss the rows. Have the resize executed or rolled back "
                "first",
                partition=plan.group.partition_path,
                bucket=plan.group.bucket_id,
            )

    def _is_half_compacted(self, plan: GroupWrite) -> bool:
        """Whether a pending compaction will make a base file of a part of the slice's log.

        A row in that part is then compared with what is appended, although a delete in the
        other part came in between.
        """
        group = (plan.group.partition_path, plan.file_id)
        pending = self._state.pending_compactions.get(group)
        base = plan.file_slice.base_file if plan.file_slice else None
        return pending is not None and (base is None or base.name.instant < pending.requested_time)

    def _count_over_deletes(
        self,
        file_slice: FileSlice | None,
        given: pa.Table,
        read_base: Callable[[pa.Schema], Iterable[pa.Table]] | None = None,
    ) -> OverDeletes:
        settings, rules = self._settings, self._settings.rules
        may_be_wrong = rules.filling is not None or (
            rules.log_by_ordering and bool(rules.ordering_fields)
        )
        if file_slice is None or not (may_be_wrong or settings.keeps_keys_in_base):
            return OverDeletes()
        if rules.delete_field is None and not any(
            file.may_hold_deletes for file in file_slice.log_files
        ):
            return OverDeletes()
        marked = np.logical_or(*find_delete_marks(given, rules))
        rows = given.filter(pa.array(~marked)) if marked.any() else given
        keys = pc.unique(rows.column(RECORD_KEY))
        spec = RowSpec(table=settings.schema, output=pa.schema([]), keys=keys)
        reader = SliceReader(self._snapshot, spec, side_by_side=True)
        return reader.count_over_deletes(file_slice, rows, read_base)
