"""What a write logs to a file group: rows, and keys to delete.

I/O: reads stored rows where a delete may be older. Source: HoodieAppendHandle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.choices import Codec
from bucketfmt.format.log.delete_records import DeleteBlock
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.rows.columns.conform import conform
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.columns.meta_rows import (
    add_meta_columns,
    add_null_meta_columns,
    merge_schema,
    meta_schema,
)
from bucketfmt.rows.log_writer import encode_log_blocks, make_delete_block
from bucketfmt.rows.merging.log_entries import RowRun, find_delete_marks, find_merge_columns
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.files.plan_write import GroupWrite
from bucketfmt.write.files.write_settings import Deletes, RowNumbering, WriteSettings

__all__ = ["LogBuilder", "LogContents"]

_NO_KEYS = pa.chunked_array([], pa.string())


class LogContents(NamedTuple):
    """What a write logs to a file group.

    Attributes:
        rows: The rows, with Hudi's columns.
        written: Their keys.
        deletes: The keys to delete; None for none.
    """

    rows: pa.Table
    written: pa.ChunkedArray
    deletes: DeleteBlock | None

    @classmethod
    def of_all(cls, logs: Sequence[LogContents]) -> LogContents:
        """Return at least one log as one."""
        blocks = [log.deletes for log in logs if log.deletes is not None]
        return cls(
            pa.concat_tables([log.rows for log in logs]),
            pa.chunked_array([chunk for log in logs for chunk in log.written.chunks], pa.string()),
            reduce(DeleteBlock.joined_with, blocks) if blocks else None,
        )

    @property
    def num_deletes(self) -> int:
        """How many keys are deleted."""
        return 0 if self.deletes is None else len(self.deletes)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to log."""
        return not self.rows.num_rows and not self.num_deletes

    @property
    def deleted_keys(self) -> pa.ChunkedArray:
        """The keys that are deleted, without null."""
        if self.deletes is None:
            return _NO_KEYS
        keys = [key for key in self.deletes.record_keys if key is not None]
        return pa.chunked_array([pa.array(keys, pa.string())])


class LogBuilder:
    """Builds what one write logs. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot, settings: WriteSettings) -> None:
        self._snapshot = snapshot
        self._state = snapshot.state
        self._settings = settings
        self._config = snapshot.state.config

    def of(
        self,
        plan: GroupWrite,
        numbering: RowNumbering,
        given: pa.Table | Deletes,
        others: Deletes | None = None,
    ) -> LogContents:
        """Return what is logged to a file group, of rows or keys and of other keys to delete."""
        settings = self._settings
        deletes: DeleteBlock | None = None
        rows, written = meta_schema(settings.schema.data).empty_table(), _NO_KEYS
        if isinstance(given, Deletes):
            deletes = self.delete_block(plan, given)
        else:
            by_column, by_operation = find_delete_marks(given, settings.rules)
            marked = by_column | by_operation
            if marked.any():
                mask = pa.array(marked)
                gone = self._without_late(plan.stored, given.filter(mask))
                deletes = self.delete_block(plan, Deletes(gone.column(RECORD_KEY), gone))
                given = given.filter(pc.invert(mask))
            rows, written = self._logged(plan, numbering, given), given.column(RECORD_KEY)
        if others is not None:
            more = self.delete_block(plan, others)
            deletes = more if deletes is None else deletes.joined_with(more)
        return LogContents(rows, written, deletes)

    def delete_block(self, plan: GroupWrite, deletes: Deletes) -> DeleteBlock:
        """Return deletes of a file group as a log has them."""
        return make_delete_block(
            deletes.record_keys,
            plan.group.partition_path,
            deletes.rows if self._settings.orders_deletes else None,
            self._settings.rules.ordering_fields,
            self._config.table_version,
        )

    def encode(self, contents: LogContents, codec: Codec) -> bytes:
        """Return the blocks of a log file; `codec` is that of parquet blocks."""
        settings = self._settings
        blocks = encode_log_blocks(
            contents.rows,
            contents.deletes,
            settings.instant,
            settings.avro_schema,
            settings.log_format,
            codec,
        )
        return b"".join(blocks)

    def _without_late(self, stored: Sequence[FileSlice], marked: pa.Table) -> pa.Table:
        """Return the rows marked as deleted, but for those older than the stored row.

        An entry of a delete block keeps no ordering value in version 6, and none is written where
        Hudi would fail to compare it: it removes any base row.
        In other versions readers pass such an entry over, but the record index would lose the key.
        """
        rules = self._settings.rules
        by_ordering = rules.base_by_ordering and bool(rules.ordering_fields)
        is_indexed = RECORD_INDEX in self._config.metadata_partitions
        is_kept = rules.legacy or is_indexed or not self._settings.orders_deletes
        if not stored or not by_ordering or not is_kept:
            return marked
        keys = pc.unique(marked.column(RECORD_KEY))
        is_populated = self._config.populate_meta_fields
        working = merge_schema(self._settings.schema.data, is_populated=is_populated)
        names = find_merge_columns(rules, working)
        output = pa.schema([working.field(name) for name in names])
        log = merge_log([RowRun(conform(marked, output))], rules, output, self._state.limits)
        spec = RowSpec(table=self._settings.schema, output=output, keys=keys)
        reader = SliceReader(self._snapshot, spec, side_by_side=True)
        late: list[pa.Array] = []
        for rows in chain.from_iterable(reader.read(own, None) for own in stored):
            stays = np.ones(rows.num_rows, np.bool_)
            stays[log.find_replacements(rows).gone] = False
            late += rows.filter(pa.array(stays)).column(RECORD_KEY).chunks
        older = pc.is_in(marked.column(RECORD_KEY), pa.chunked_array(late, pa.string()))
        return marked.filter(pc.invert(older))

    def _logged(self, plan: GroupWrite, numbering: RowNumbering, rows: pa.Table) -> pa.Table:
        keys, data = rows.column(RECORD_KEY), rows.select(self._settings.schema.data.names)
        if not self._config.populate_meta_fields:
            return add_null_meta_columns(data)
        path, instant = plan.group.partition_path, self._settings.instant
        return add_meta_columns(data, keys, path, plan.file_id, instant, *numbering)
