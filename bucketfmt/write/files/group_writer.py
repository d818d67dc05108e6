"""Writes the file of one bucket: its rows with what was there, or after it.

I/O: reads the file slice where it is rewritten, writes a marker, the partition's metadata file
and the data file. Sources: HoodieCreateHandle, HoodieMergeHandle, HoodieAppendHandle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.log.delete_records import DeleteBlock
from bucketfmt.format.log.virtual_log import PointedFile, VirtualLog, encode_virtual_log
from bucketfmt.format.names.layout import is_partition_metafile_name
from bucketfmt.format.names.names import LogFileName
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT, WriteStat
from bucketfmt.location.records.record_locations import RECORD_INDEX
from bucketfmt.rows.columns.conform import conform
from bucketfmt.rows.columns.meta_columns import COMMIT_TIME, RECORD_KEY
from bucketfmt.rows.columns.meta_rows import (
    add_meta_columns,
    add_null_meta_columns,
    add_written_columns,
    file_constants,
    merge_schema,
    meta_schema,
)
from bucketfmt.rows.log_writer import DataFormat, encode_log_blocks, make_delete_block
from bucketfmt.rows.merging.combine import find_standing_rows
from bucketfmt.rows.merging.log_entries import (
    DeleteRun,
    RowRun,
    Run,
    find_delete_marks,
    find_merge_columns,
)
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.merging.over_deletes import OverDeletes
from bucketfmt.rows.parquet.base_file_writer import encode_base_file
from bucketfmt.rows.parquet.copying import find_codec_of
from bucketfmt.rows.parquet.key_footer import KeyFooter
from bucketfmt.rows.parquet.parquet_chunks import Codec
from bucketfmt.rows.row_file import RowFile
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.files import FileSlice
from bucketfmt.snapshot.schema import TableSchema
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.commit.receipts import RowReport
from bucketfmt.write.files.data_file import announced, put_data_file
from bucketfmt.write.files.merged_base import encode_merged_base
from bucketfmt.write.files.plan_write import GroupWrite, Target
from bucketfmt.write.files.row_report import load_reporter
from bucketfmt.write.files.table_codec import DEFAULT_CODEC, find_codec
from bucketfmt.write.properties.stated_codec import stated_codec

__all__ = ["Deletes", "GroupWriter", "RowNumbering", "WriteSettings", "WrittenFile"]

_NO_KEYS = pa.chunked_array([], pa.string())


@dataclass(frozen=True)
class WriteSettings:
    """What all files of one write have in common.

    Attributes:
        instant: Its requested time.
        schema: The table's columns as the write leaves them.
        avro_schema: The same as Avro JSON, Hudi's columns included.
        rules: How records merge.
        combine: Of several rows with one key only the one that stands is written.
        codec: Of base files and parquet blocks; None: as the table's files have it.
        log_format: Of data blocks.
        is_non_blocking: Others may log to the same buckets, so that no slice is rewritten.
        reports_keys: The metadata table is told keys, which are many.
        keeps_keys_in_base: Each key that a log has is in the base file below, which tells where
            the key is.
    """

    instant: str
    schema: TableSchema
    avro_schema: str
    rules: MergeRules
    combine: bool = True
    codec: Codec | None = None
    log_format: DataFormat = "avro"
    is_non_blocking: bool = False
    reports_keys: bool = True
    keeps_keys_in_base: bool = False


@dataclass(frozen=True)
class Deletes:
    """Keys to delete, whatever their rows are.

    Attributes:
        record_keys: Each once.
        rows: The rows as they are, where deletes are to have their ordering values.
    """

    record_keys: pa.ChunkedArray = field(repr=False)
    rows: pa.Table | None = field(repr=False, default=None)


class RowNumbering(NamedTuple):
    """Where the sequence numbers of a file's rows begin: they are distinct within an instant.

    Attributes:
        task_partition_id: Of the task that writes the file.
        first_row: How many rows the task has written before.
    """

    task_partition_id: int
    first_row: int = 0


class WrittenFile(NamedTuple):
    """A file of one write.

    Attributes:
        stat: What the commit says of the file.
        report: What the metadata table is told of its rows; None if there is no metadata table.
    """

    stat: WriteStat
    report: RowReport | None


class _Log(NamedTuple):
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
    def of_all(cls, logs: Sequence[_Log]) -> _Log:
        """Return at least one log as one."""
        blocks = [log.deletes for log in logs if log.deletes is not None]
        return cls(
            pa.concat_tables([log.rows for log in logs]),
            pa.chunked_array([chunk for log in logs for chunk in log.written.chunks], pa.string()),
            reduce(DeleteBlock.joined_with, blocks) if blocks else None,
        )

    @property
    def num_deletes(self) -> int:
        return 0 if self.deletes is None else len(self.deletes)

    @property
    def is_empty(self) -> bool:
        return not self.rows.num_rows and not self.num_deletes

    @property
    def deleted_keys(self) -> pa.ChunkedArray:
        keys = () if self.deletes is None else self.deletes.record_keys
        return pa.chunked_array([pa.array([k for k in keys if k is not None], pa.string())])


class GroupWriter:
    """Writes files of one write. Safe to use from several threads."""

    def __init__(self, snapshot: Snapshot, settings: WriteSettings) -> None:
        self._snapshot = snapshot
        self._state = snapshot.state
        self._settings = settings
        self._config = snapshot.state.config
        self._found_codec: Codec | None = None
        self._reporter = load_reporter(
            self._state.store,
            self._config,
            self._state.limits,
            takes_keys=settings.reports_keys,
        )
        self._partitions: set[str] = set()  # those known to have their metadata file

    def write(
        self,
        plan: GroupWrite,
        numbering: RowNumbering,
        given: pa.Table | Deletes,
        deletes: Deletes | None = None,
    ) -> WrittenFile | None:
        """Write one file; return what is known of it, or None if there is nothing to write.

        Args:
            plan: Which file.
            numbering: Where sequence numbers begin.
            given: The rows, with `_hoodie_record_key`, or the keys to delete.
            deletes: Other keys to delete beside the rows.

        Raises:
            SchemaError: rows do not fit the table.
            ConflictError: the write has ended meanwhile.
            CorruptError: a file of the slice is missing or damaged.
            UnsupportedError: a non-blocking write would bring deleted rows back.
            StorageError: the store failed.
        """
        given = self._standing(given)
        if plan.target is Target.LOG and isinstance(given, pa.Table):
            plan = self._over_deletes(plan, given)
        if plan.target is Target.LOG:
            return self._write_log(plan, numbering, given, deletes)
        if plan.file_slice is None:
            return self._write_new_base(plan, numbering, given)
        return self._rewrite_base(plan, numbering, given, deletes, plan.file_slice)

    def write_virtual(
        self,
        plan: GroupWrite,
        parts: Sequence[tuple[GroupWrite, pa.Table | Deletes]],
        numbering: RowNumbering,
    ) -> tuple[WrittenFile | None, list[WrittenFile]]:
        """Write rows to log files of other file groups, and the virtual log that points to them.

        Where rows have to be written with those of the slice to its next base file, they go there
        as well, and there is no virtual log.

        Args:
            plan: The virtual log.
            parts: Each log file with its rows, or with its keys to delete.
            numbering: Where sequence numbers begin.

        Returns:
            The virtual log, or the base file, and the log files; of what has nothing to write none.

        Raises:
            SchemaError, ConflictError, CorruptError, UnsupportedError, StorageError: as `write`.
        """
        parts = [(own, self._standing(given)) for own, given in parts]
        tables = [(own, given) for own, given in parts if isinstance(given, pa.Table)]
        together = pa.concat_tables([given for _, given in tables]) if tables else None
        if together is not None:
            plan = self._over_deletes(plan, together)
        for own, given in tables:
            self._over_deletes(own, given)
        pointed: list[WrittenFile] = []
        logs: list[_Log] = []
        names: list[PointedFile] = []
        for own, rows_or_keys in parts:
            log = self._log(own, numbering, rows_or_keys)
            if log.is_empty:
                continue
            file = self._put_log(own, self._encode(own, log), log)
            numbering = RowNumbering(
                numbering.task_partition_id, numbering.first_row + log.rows.num_rows
            )
            pointed.append(file)
            logs.append(log)
            names.append(PointedFile(_log_name(own), file.stat.file_size_in_bytes or 0))
        if plan.target is not Target.LOG and together is not None and plan.file_slice is not None:
            return self._rewrite_base(plan, numbering, together, None, plan.file_slice), pointed
        if not pointed:
            return None, pointed
        virtual = VirtualLog(self._settings.instant, parts[0][0].name.instant, tuple(names))
        return self._put_log(plan, encode_virtual_log(virtual), _Log.of_all(logs)), pointed

    def _standing(self, given: pa.Table | Deletes) -> pa.Table | Deletes:
        """Return rows without those that yield to another row of their key."""
        if isinstance(given, Deletes) or not self._settings.combine:
            return given
        kept = find_standing_rows(given, given.column(RECORD_KEY), self._settings.rules)
        return given if len(kept) == given.num_rows else given.take(pa.array(kept))

    def _over_deletes(self, plan: GroupWrite, given: pa.Table) -> GroupWrite:
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
            return plan if is_seen else plan.rewriting
        if num_wrong:
            raise UnsupportedError(
                f"{num_wrong} rows of keys that were deleted without an ordering value: appended, "
                "the rows would bring the deleted rows back. Compact the table first, or write "
                'with concurrency="optimistic"',
                partition=plan.group.partition_path,
                bucket=plan.group.bucket_id,
            )
        return plan

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
        is_by_ordering = rules.log_by_ordering and bool(rules.ordering_fields)
        if file_slice is None or not (is_by_ordering or settings.keeps_keys_in_base):
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

    # -- base files

    def _write_new_base(
        self, plan: GroupWrite, numbering: RowNumbering, given: pa.Table | Deletes
    ) -> WrittenFile | None:
        if isinstance(given, Deletes):
            return None
        settings = self._settings
        by_column, by_operation = find_delete_marks(given, settings.rules)
        marked = by_column | by_operation
        if marked.any():
            given = given.filter(pa.array(~marked))
        if not given.num_rows:
            return None
        keys = given.column(RECORD_KEY)
        rows, constants, footer = self._written(numbering, given), self._constants(plan), None
        if self._config.populate_meta_fields:
            rows, footer = rows.drop_columns([COMMIT_TIME]), KeyFooter()
            constants[COMMIT_TIME] = settings.instant  # of every row of a new file
        else:
            rows = rows.drop_columns([RECORD_KEY])
        data = encode_base_file(
            rows, settings.avro_schema, footer, self._new_codec(plan), constants=constants
        )
        stat = msgspec.structs.replace(
            self._put(plan, data),
            prev_commit=NULL_COMMIT,
            num_writes=rows.num_rows,
            num_inserts=rows.num_rows,
        )
        return WrittenFile(stat, self._report(plan, data, keys, _NO_KEYS))

    def _rewrite_base(
        self,
        plan: GroupWrite,
        numbering: RowNumbering,
        given: pa.Table | Deletes,
        deletes: Deletes | None,
        file_slice: FileSlice,
    ) -> WrittenFile | None:
        settings, working = self._settings, self._working_schema
        runs: list[Run] = []
        if isinstance(given, Deletes):
            deletes = given
        else:
            runs.append(RowRun(self._written(numbering, given)))
        if deletes is not None:
            runs.append(DeleteRun(self._delete_block(plan, deletes.record_keys, deletes.rows)))
        log = merge_log(runs, settings.rules, working, self._state.limits)
        spec = RowSpec(table=settings.schema, output=working)
        reader = SliceReader(self._snapshot, spec, side_by_side=True)
        with self._announced(plan) as is_announced, reader.opened_base(file_slice) as replaced:
            merged = encode_merged_base(
                log,
                reader.read_pieces(file_slice, replaced),
                # Its footer tells no keys of the log.
                None if file_slice.log_files else replaced,
                settings.avro_schema,
                self._constants(plan),
                with_key_footer=self._config.populate_meta_fields,
                codec=self._rewritten_codec(plan, replaced),
            )
        if not log.num_matched and not merged.num_inserts:
            return None
        stat = self._put(plan, merged.data, is_announced=is_announced)
        stat = merged.complete(stat, file_slice.base_file, self._config.table_version)
        report = self._report(plan, merged.data, merged.written_keys, merged.removed_keys)
        return WrittenFile(stat, report)

    def _report(
        self,
        plan: GroupWrite,
        data: pa.Buffer,
        written: pa.ChunkedArray,
        removed: pa.ChunkedArray,
    ) -> RowReport | None:
        """Return what is told of a base file."""
        if self._reporter is None:
            return None
        return self._reporter.of_base_file(str(plan.name), data, written, removed)

    @property
    def _working_schema(self) -> pa.Schema:
        is_populated = self._config.populate_meta_fields
        return merge_schema(self._settings.schema.data, is_populated=is_populated)

    def _constants(self, plan: GroupWrite) -> dict[str, str | None]:
        is_populated = self._config.populate_meta_fields
        path = plan.group.partition_path
        return file_constants(path, str(plan.name), is_populated=is_populated)

    def _written(self, numbering: RowNumbering, rows: pa.Table) -> pa.Table:
        """Return rows in the columns they are merged in."""
        keys, data = rows.column(RECORD_KEY), rows.select(self._settings.schema.data.names)
        if not self._config.populate_meta_fields:
            return data.add_column(0, pa.field(RECORD_KEY, pa.string()), keys)
        return add_written_columns(data, keys, self._settings.instant, *numbering)

    # -- log files

    def _write_log(
        self,
        plan: GroupWrite,
        numbering: RowNumbering,
        given: pa.Table | Deletes,
        others: Deletes | None,
    ) -> WrittenFile | None:
        log = self._log(plan, numbering, given, others)
        return None if log.is_empty else self._put_log(plan, self._encode(plan, log), log)

    def _log(
        self,
        plan: GroupWrite,
        numbering: RowNumbering,
        given: pa.Table | Deletes,
        others: Deletes | None = None,
    ) -> _Log:
        settings = self._settings
        deletes: DeleteBlock | None = None
        rows, written = meta_schema(settings.schema.data).empty_table(), _NO_KEYS
        if isinstance(given, Deletes):
            deletes = self._delete_block(plan, given.record_keys, given.rows)
        else:
            by_column, by_operation = find_delete_marks(given, settings.rules)
            marked = by_column | by_operation
            if marked.any():
                mask = pa.array(marked)
                gone = self._without_late(plan.stored, given.filter(mask))
                deletes = self._delete_block(plan, gone.column(RECORD_KEY), gone)
                given = given.filter(pc.invert(mask))
            rows, written = self._logged(plan, numbering, given), given.column(RECORD_KEY)
        if others is not None:
            more = self._delete_block(plan, others.record_keys, others.rows)
            deletes = more if deletes is None else deletes.joined_with(more)
        return _Log(rows, written, deletes)

    def _encode(self, plan: GroupWrite, log: _Log) -> bytes:
        settings = self._settings
        blocks = encode_log_blocks(
            log.rows,
            log.deletes,
            settings.instant,
            settings.avro_schema,
            settings.log_format,
            self._new_codec(plan) if settings.log_format == "parquet" else DEFAULT_CODEC,
        )
        return b"".join(blocks)

    def _put_log(self, plan: GroupWrite, data: bytes, log: _Log) -> WrittenFile:
        """Put a log file; `log` is what readers find by the file."""
        name, version = _log_name(plan), self._config.table_version
        base_file, log_files = "", [str(name)]
        if version < 8:
            base_file, log_files = _of_slice(plan)
        stat = msgspec.structs.replace(
            self._put(plan, data),
            prev_commit=name.instant if version < 8 else self._settings.instant,
            num_writes=log.rows.num_rows,
            num_deletes=log.num_deletes,
            num_update_writes=log.rows.num_rows,
            log_version=name.version,
            log_offset=0,
            base_file=base_file,
            log_files=log_files,
        )
        if self._reporter is None:
            return WrittenFile(stat, None)
        written, removed = log.written, log.deleted_keys
        if plan.group.resize is not None:  # readers find the keys where they were until then
            written = removed = _NO_KEYS
        return WrittenFile(stat, self._reporter.of_log_file(str(name), log.rows, written, removed))

    def _without_late(self, stored: Sequence[FileSlice], marked: pa.Table) -> pa.Table:
        """Return the rows marked as deleted, but for those older than the stored row.

        An entry of a delete block keeps no ordering value in version 6, and removes any base row.
        In other versions readers pass such an entry over, but the record index would lose the key.
        """
        rules = self._settings.rules
        by_ordering = rules.base_by_ordering and bool(rules.ordering_fields)
        is_indexed = RECORD_INDEX in self._config.metadata_partitions
        if not stored or not by_ordering or not (rules.legacy or is_indexed):
            return marked
        keys = pc.unique(marked.column(RECORD_KEY))
        working = self._working_schema
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

    def _delete_block(
        self, plan: GroupWrite, record_keys: pa.ChunkedArray, rows: pa.Table | None = None
    ) -> DeleteBlock:
        return make_delete_block(
            record_keys,
            plan.group.partition_path,
            rows,
            self._settings.rules.ordering_fields,
            self._config.table_version,
        )

    # -- both

    def _new_codec(self, plan: GroupWrite) -> Codec:
        """Return the codec of parquet that takes the place of none."""
        if self._settings.codec is not None:
            return self._settings.codec
        if self._found_codec is None:  # for all files of the write
            self._found_codec = find_codec(self._snapshot, plan.group.partition_path)
        return self._found_codec

    def _rewritten_codec(self, plan: GroupWrite, replaced: RowFile | None) -> Codec:
        """Return the codec of a base file that takes the place of another."""
        told = self._settings.codec or stated_codec(self._config)
        return told or find_codec_of(replaced) or self._new_codec(plan)

    def _announced(self, plan: GroupWrite) -> AbstractContextManager[bool]:
        return announced(self._state.store, self._settings.instant, plan.marker)

    def _put(
        self, plan: GroupWrite, data: bytes | pa.Buffer, *, is_announced: bool = False
    ) -> WriteStat:
        partition_path = plan.group.partition_path
        stat = put_data_file(
            self._state.store,
            self._settings.instant,
            plan.marker,
            plan.file_id,
            data,
            is_partition_known=self._is_partition_known(partition_path),
            is_announced=is_announced,
        )
        self._partitions.add(partition_path)
        return stat

    def _is_partition_known(self, partition_path: str) -> bool:
        """Whether the partition has its metadata file, by the listing or by this write."""
        if partition_path in self._partitions:
            return True
        others = self._state.lister.other_files(partition_path)
        return any(map(is_partition_metafile_name, others))


def _log_name(plan: GroupWrite) -> LogFileName:
    if not isinstance(plan.name, LogFileName):
        raise TypeError(f"{plan.target} takes a log file name, not {plan.name}")
    return plan.name


def _of_slice(plan: GroupWrite) -> tuple[str, list[str]]:
    """Return the base file and all log files of the slice, as stats before version 8 have them."""
    file_slice = plan.file_slice
    is_copy = plan.group.resize is not None  # Hudi does not see earlier ones
    if is_copy or file_slice is None or plan.name.instant != file_slice.base_instant:
        return "", [str(plan.name)]  # a new slice: of a new group, or behind a planned compaction
    base = file_slice.base_file
    logs = [str(file.name) for file in file_slice.log_files]
    return "" if base is None else str(base.name), [*logs, str(plan.name)]
