"""The columns in which the rows of a slice are read, merged and returned.

Pure: rows come in, rows go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.log.log_block import LogBlock
from bucketfmt.format.names.paths import parse_partition_path
from bucketfmt.process import cached_property
from bucketfmt.rows.avro.avro_decode import WantedKeys
from bucketfmt.rows.columns.column_paths import top_column
from bucketfmt.rows.columns.conform import Renames
from bucketfmt.rows.columns.meta_columns import COMMIT_TIME, OPERATION, RECORD_KEY
from bucketfmt.rows.columns.virtual_keys import record_keys
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.rows.merging.log_entries import find_merge_columns
from bucketfmt.rows.merging.merge_rules import (
    MergeRules,
    find_partial_refusal,
)
from bucketfmt.rows.row_file import RowFile
from bucketfmt.slices.cross_checks import (
    check_block_columns,
    check_file_columns,
    find_nullability_changes,
)
from bucketfmt.slices.evolution import find_renames
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.read_basis import ReadBasis
from bucketfmt.snapshot.schema import TableSchema

__all__ = ["RowSpec", "SliceColumns", "stored_names"]


@dataclass(frozen=True)
class RowSpec:
    """Which rows and columns to read of every slice.

    Attributes:
        table: The table's columns.
        output: The columns to return.
        row_filter: What rows must pass, after merging.
        read_optimized: Leave log files unread.
        keys: Only rows of these record keys.
        commit_times: Only rows these instants wrote.
        with_orphans: As `MergedLog.remaining` has it.
    """

    table: TableSchema
    output: pa.Schema
    row_filter: Filter | None = None
    read_optimized: bool = False
    keys: pa.Array | None = None
    commit_times: frozenset[str] | None = None
    with_orphans: bool = False

    def counting(self) -> RowSpec:
        """Return the same without columns: only the number of rows is wanted."""
        return replace(self, output=pa.schema([]))

    def selecting(self, names: Sequence[str]) -> RowSpec:
        """Return the same with columns of these names."""
        return replace(self, output=self.table.select(names))


class _CheckedFile(NamedTuple):
    """Columns of a base file, those that its commit states, and which differ in being nullable."""

    stored: pa.Schema
    stated: pa.Schema
    nullability_changes: list[str]


class SliceColumns:
    """What becomes of the columns of files, and which rows are wanted."""

    def __init__(self, basis: ReadBasis, spec: RowSpec) -> None:
        self._basis, self._spec = basis, spec
        self._working: dict[tuple[bool, bool], pa.Schema] = {}
        self._checked: _CheckedFile | None = None  # the last file: mostly all have the same columns
        self._agreeing: tuple[pa.Schema | None, pa.Schema | None] = None, None  # of the last block

    @cached_property
    def rules(self) -> MergeRules:
        """How records merge."""
        return self._spec.table.merge_rules(self._basis.config)

    def check_file(self, reader: RowFile, instant: str) -> None:
        """Compare a base file's columns with those its commit states.

        Raises:
            CorruptError: they differ; the file or the commit is damaged.
        """
        stated, stored, checked = self._basis.stated_columns(instant), reader.schema, self._checked
        if stated is None:
            return
        if checked is None or checked.stored is not stored or checked.stated is not stated:
            check_file_columns(stored, stated)
            checked = _CheckedFile(stored, stated, find_nullability_changes(stored, stated))
            self._checked = checked
        reader.check_nullable(checked.nullability_changes)

    def check_columns(self, stored: pa.Schema, blocks: Sequence[LogBlock]) -> None:
        """Compare the columns of log blocks with those their commits state.

        Raises:
            CorruptError: they differ; a block or a commit is damaged.
        """
        for instant in dict.fromkeys(block.instant_time for block in blocks):
            stated = self._basis.stated_columns(instant)
            if not (self._agreeing[0] is stored and self._agreeing[1] is stated):
                check_block_columns(stored, stated)
                self._agreeing = stored, stated

    def working_schema(self, *, merging: bool, marks_operations: bool = False) -> pa.Schema:
        """The columns to read: those wanted, and those it takes to merge and to filter."""
        asked = merging, marks_operations
        if asked not in self._working:
            self._working[asked] = self._find_working_schema(*asked)
        return self._working[asked]

    def _find_working_schema(self, merging: bool, marks_operations: bool) -> pa.Schema:
        spec, table = self._spec, self._spec.table.with_meta
        if marks_operations and OPERATION not in table.names:
            table = table.append(pa.field(OPERATION, pa.string()))
        names = list(spec.output.names)
        if spec.row_filter is not None:
            names += spec.row_filter.columns or spec.table.data.names
        if spec.commit_times is not None:
            names.append(COMMIT_TIME)
        if merging:
            names += find_merge_columns(self.rules, table)
        if merging or spec.keys is not None:
            names.append(RECORD_KEY)
        if RECORD_KEY in names and not self._basis.config.populate_meta_fields:
            names += self._key_columns(table)
        own = {field.name: field for field in spec.output}
        return pa.schema([own.get(name) or table.field(name) for name in dict.fromkeys(names)])

    @cached_property
    def filled(self) -> frozenset[str]:
        """The columns that `complete` fills in every row."""
        return frozenset(self._basis.config.path_columns)

    def check_partial(self) -> None:
        """Raise UnsupportedError: log blocks of partial updates are not read in such a table."""
        by_column_id = self._spec.table.internal is not None
        reason = find_partial_refusal(self._basis.config, by_column_id=by_column_id)
        if reason is None and self._spec.commit_times is not None:
            reason = "the changes between two moments"
        if reason is not None:
            raise UnsupportedError(
                f"log blocks of partial updates (IS_PARTIAL) are not merged for {reason}; compact "
                "the table with Hudi, or read it read-optimized"
            )

    def matching_schema(self, working: pa.Schema) -> pa.Schema:
        """The columns of a working schema that tell which log record a base row meets."""
        names = [RECORD_KEY]
        if self._spec.commit_times is not None:
            names.append(COMMIT_TIME)
        if not self._basis.config.populate_meta_fields:
            names += self._key_columns(working)
        return pa.schema([working.field(name) for name in dict.fromkeys(names)])

    def _key_columns(self, schema: pa.Schema) -> list[str]:
        """The columns of a schema that record keys are made of."""
        return [top_column(schema.names, name) for name in self._basis.config.record_key_fields]

    def complete(self, rows: pa.Table, file_slice: FileSlice) -> pa.Table:
        """Fill the columns that files leave out because something else tells them."""
        config = self._basis.config
        if self.filled:
            values = parse_partition_path(
                file_slice.partition_path,
                config.partition_fields,
                config.hive_style,
                config.url_encode,
            )
            for name, text in zip(config.partition_fields, values, strict=True):
                index = rows.schema.get_field_index(name)
                if index >= 0:
                    field = rows.schema.field(index)
                    value = pa.scalar(text, pa.string()).cast(field.type)
                    rows = rows.set_column(index, field, pa.repeat(value, rows.num_rows))
        index = rows.schema.get_field_index(RECORD_KEY)
        if index >= 0 and not config.populate_meta_fields:
            keys = record_keys(rows, config, are_stored=True)
            rows = rows.set_column(index, rows.schema.field(index), keys)
        return rows

    def renames(self, written_at: str) -> Renames | None:
        """Return what columns were called when an instant wrote; None if as they are now."""
        return find_renames(self._spec.table.internal, self._basis.schema_history, written_at)

    def wanted_keys(self, stored: pa.Schema) -> WantedKeys | None:
        """Return the wanted keys, where they can be told by a column that is stored as it is."""
        keys = self._spec.keys
        if keys is None or not self._basis.config.populate_meta_fields:
            return None
        index = stored.get_field_index(RECORD_KEY)
        is_alike = index >= 0 and stored.field(index).type == keys.type
        return WantedKeys(RECORD_KEY, keys) if is_alike else None

    def of_keys(self, rows: pa.Table) -> pa.Table:
        """Return only the rows of the wanted keys."""
        if self._spec.keys is None:
            return rows
        return rows.filter(pc.is_in(rows.column(RECORD_KEY), self._spec.keys))

    def of_commit_times(self, rows: pa.Table) -> pa.Table:
        """Return only what the instants of the range wrote.

        As in Hudi, their rows are merged among themselves alone: a late record is a change
        although an older instant wrote a newer one, and the table shows that.
        """
        if self._spec.commit_times is None:
            return rows
        times = pa.array(sorted(self._spec.commit_times), pa.string())
        return rows.filter(pc.is_in(rows.column(COMMIT_TIME), times))

    def finish(self, rows: pa.Table) -> pa.Table:
        """Return the wanted rows, in the output's columns."""
        spec = self._spec
        rows = self.of_commit_times(self.of_keys(rows))
        if spec.row_filter is not None:
            rows = spec.row_filter.apply(rows)
        return rows.select(spec.output.names)


def stored_names(working: pa.Schema, stored: pa.Schema, renames: Renames | None) -> list[str]:
    """Return the columns to read of a file, under the names they have there."""
    names = (name if renames is None else renames.get(name, name) for name in working.names)
    known = set(stored.names)
    return [name for name in names if name is not None and name in known]
