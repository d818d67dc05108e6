"""Writes the file of one bucket: its rows with what was there, or after it.

I/O: reads the file slice where it is rewritten, writes a marker, the partition's metadata file
and the data file. Sources: HoodieCreateHandle, HoodieMergeHandle, HoodieAppendHandle.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from bucketfmt.choices import Codec
from bucketfmt.format.log.virtual_log import PointedFile, VirtualLog, encode_virtual_log
from bucketfmt.format.names.names import LogFileName
from bucketfmt.format.timeline.commit_metadata import NULL_COMMIT, WriteStat
from bucketfmt.process import cached_property
from bucketfmt.rows.columns.meta_columns import COMMIT_TIME, RECORD_KEY
from bucketfmt.rows.columns.meta_rows import (
    add_written_columns,
    file_constants,
    merge_schema,
)
from bucketfmt.rows.merging.combine import combine_rows
from bucketfmt.rows.merging.log_entries import (
    DeleteRun,
    RowRun,
    Run,
    find_delete_marks,
)
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.parquet.base_file_writer import encode_base_file
from bucketfmt.rows.parquet.copying import find_codec_of
from bucketfmt.rows.row_file import RowFile
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.listing import is_partition
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.commit.receipts import RowReport
from bucketfmt.write.files.announcer import Announcer
from bucketfmt.write.files.appending import Appending
from bucketfmt.write.files.data_file import check_apart, put_data_file
from bucketfmt.write.files.log_contents import LogBuilder, LogContents
from bucketfmt.write.files.merged_base import encode_merged_base
from bucketfmt.write.files.plan_write import GroupWrite, Target
from bucketfmt.write.files.row_report import load_reporter
from bucketfmt.write.files.table_codec import DEFAULT_CODEC, find_codec
from bucketfmt.write.files.write_settings import (
    Deletes,
    RowNumbering,
    WriteSettings,
    WrittenFile,
)
from bucketfmt.write.properties.key_filters import new_key_footer
from bucketfmt.write.properties.stated_codec import stated_codec

__all__ = ["GroupWriter"]

_NO_KEYS = pa.chunked_array([], pa.string())


class GroupWriter:
    """Writes files of one write. Safe to use from several threads.

    Attributes:
        announcer: Of the files.
    """

    def __init__(self, snapshot: Snapshot, settings: WriteSettings) -> None:
        self._snapshot = snapshot
        self._state = snapshot.state
        self._settings = settings
        self._config = snapshot.state.config
        self.announcer = Announcer(snapshot.state.store, settings.instant)
        self._appending = Appending(snapshot, settings)
        self._logs = LogBuilder(snapshot, settings)
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
            plan = self._appending.place(plan, given)
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
            plan = self._appending.place(plan, together)
        for own, given in tables:
            self._appending.place(own, given)
        pointed: list[WrittenFile] = []
        logs: list[LogContents] = []
        names: list[PointedFile] = []
        for own, rows_or_keys in parts:
            log = self._logs.of(own, numbering, rows_or_keys)
            if log.is_empty:
                continue
            file = self._put_log(own, self._encoded(own, log), log)
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
        return self._put_log(plan, encode_virtual_log(virtual), LogContents.of_all(logs)), pointed

    def _standing(self, given: pa.Table | Deletes) -> pa.Table | Deletes:
        """Return rows without those that yield to another row of their key."""
        if isinstance(given, Deletes) or not self._settings.combine:
            return given
        return combine_rows(given, given.column(RECORD_KEY), self._settings.rules)[0]

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
        rows, constants = self._written(numbering, given), self._constants(plan)
        if self._config.populate_meta_fields:
            rows = rows.drop_columns([COMMIT_TIME])
            constants[COMMIT_TIME] = settings.instant  # of every row of a new file
        else:
            rows = rows.drop_columns([RECORD_KEY])
        data = encode_base_file(
            rows,
            settings.avro_schema,
            new_key_footer(self._config),
            self._new_codec(plan),
            constants=constants,
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
        settings = self._settings
        runs: list[Run] = []
        if isinstance(given, Deletes):
            deletes = given
        else:
            rows = self._written(numbering, given)
            runs.append(RowRun(rows, are_keys_distinct=settings.combine))
        if deletes is not None:
            runs.append(DeleteRun(self._logs.delete_block(plan, deletes)))
        log = merge_log(runs, settings.rules, self._working_schema, self._state.limits)
        reader = self._reader
        with (
            self.announcer.early(plan.marker),
            reader.opened_base(file_slice) as replaced,
        ):
            merged = encode_merged_base(
                log,
                reader.read_pieces(file_slice, replaced),
                # Its footer tells no keys of the log.
                None if file_slice.log_files else replaced,
                settings.avro_schema,
                self._constants(plan),
                key_footer=new_key_footer(self._config),
                codec=self._rewritten_codec(plan, replaced),
            )
        if not log.num_matched and not merged.num_inserts:
            return None
        stat = self._put(plan, merged.data)
        stat = merged.complete(stat, file_slice.base_file, self._config.table_version)
        written = merged.written_keys
        if file_slice.log_files:  # of which the index may lack the keys that Hudi logged
            written = pa.chunked_array([log.written_keys])
        report = self._report(plan, merged.data, written, merged.removed_keys)
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

    @cached_property
    def _working_schema(self) -> pa.Schema:
        is_populated = self._config.populate_meta_fields
        return merge_schema(self._settings.schema.data, is_populated=is_populated)

    @cached_property
    def _reader(self) -> SliceReader:
        """Reads the slices that are rewritten."""
        spec = RowSpec(table=self._settings.schema, output=self._working_schema)
        return SliceReader(self._snapshot, spec, side_by_side=True)

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
        log = self._logs.of(plan, numbering, given, others)
        return None if log.is_empty else self._put_log(plan, self._encoded(plan, log), log)

    def _encoded(self, plan: GroupWrite, log: LogContents) -> bytes:
        is_parquet = self._settings.log_format == "parquet"
        return self._logs.encode(log, self._new_codec(plan) if is_parquet else DEFAULT_CODEC)

    def _put_log(self, plan: GroupWrite, data: bytes, log: LogContents) -> WrittenFile:
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

    def _put(self, plan: GroupWrite, data: bytes | pa.Buffer) -> WriteStat:
        partition_path = plan.group.partition_path
        stat = put_data_file(
            self.announcer,
            plan.marker,
            plan.file_id,
            data,
            is_partition_known=self._is_partition_known(partition_path),
        )
        self._partitions.add(partition_path)
        return stat

    def _is_partition_known(self, partition_path: str) -> bool:
        """Whether the partition has its metadata file, by the listing or by this write."""
        if partition_path in self._partitions or is_partition(self._state.lister, partition_path):
            return True
        check_apart(self._state, partition_path)
        return False


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
