"""Writes the buckets of one write: which file of a bucket takes its rows, and that file.

I/O, in whatever process the rows are; it needs nothing of the one that began the write but the
table as that one read it. Sources: BaseSparkCommitActionExecutor.handleUpsertPartition,
SparkBucketIndexPartitioner, HoodieSimpleBucketIndex.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.arguments import check_choice
from bucketfmt.choices import Codec, Concurrency, DataFormat
from bucketfmt.errors import SchemaError, UnsupportedError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.routes import GroupRef, Route
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.columns.meta_rows import add_meta_fields
from bucketfmt.rows.columns.virtual_keys import record_keys
from bucketfmt.rows.log_writer import orders_deletes
from bucketfmt.rows.merging.log_entries import find_delete_marks, find_merge_columns
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.table.keys import key_columns
from bucketfmt.table.lookup import read_keys_of_slices
from bucketfmt.table.scan import output_schema
from bucketfmt.write.commit.receipts import PointedReceipt, Receipt
from bucketfmt.write.files.group_writer import GroupWriter
from bucketfmt.write.files.plan_write import GroupWrite, Target, plan_group_write
from bucketfmt.write.files.table_codec import DEFAULT_CODEC
from bucketfmt.write.files.write_settings import Deletes, RowNumbering, WriteSettings, WrittenFile
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.grouping import GroupedRows, find_targets
from bucketfmt.write.rows.placing import PlacedRows, place_rows

__all__ = ["BucketWriter", "FileFormats"]

_FILE_IDS = uuid.UUID("8c9a2c51-3f0e-5b8e-9a64-0d0f6c1f7a3d")  # of no meaning, but ours


@dataclass(frozen=True)
class FileFormats:
    """How files are encoded.

    Attributes:
        codec: Of parquet; None: as the table's files have it, see `write.table_codec`.
        log_format: Of log blocks.
    """

    codec: Codec | None = None
    log_format: DataFormat = "avro"

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("codec", DEFAULT_CODEC if self.codec is None else self.codec, Codec),
            ("log_format", self.log_format, DataFormat),
        ):
            check_choice(name, value, get_args(kind))


class BucketWriter:
    """Writes buckets of one instant. `plan` in one thread, `write` in several.

    Attributes:
        locator: Tells which file groups take which rows.
    """

    def __init__(
        self,
        basis: Basis,
        operation: WriteOperation,
        instant: str,
        formats: FileFormats,
        concurrency: Concurrency = "optimistic",
        *,
        reports_keys: bool = True,
    ) -> None:
        self._is_non_blocking = concurrency == "non_blocking"
        self.locator = basis.locator
        self._basis = basis
        self._operation = operation
        self._instant = instant
        self._pointed: set[str] = set()  # files planned for virtual logs
        self._orders_deletes = orders_deletes(
            basis.schema.data,
            basis.rules.ordering_fields,
            basis.snapshot.state.config.table_version,
        )
        settings = WriteSettings(
            instant=instant,
            schema=basis.schema,
            avro_schema=add_meta_fields(basis.avro_schema),
            rules=basis.rules,
            combine=operation.combines,
            codec=formats.codec,
            log_format=formats.log_format,
            is_non_blocking=self._is_non_blocking,
            reports_keys=reports_keys,
            keeps_keys_in_base=basis.index.group_bytes is not None,
            orders_deletes=self._orders_deletes,
        )
        self._writer = GroupWriter(basis.snapshot, settings)

    def placed(self, gathered: GroupedRows) -> AbstractContextManager[PlacedRows]:
        """Return gathered rows by routes that lead to file groups. As `place_rows`."""
        return place_rows(self._basis, self._operation, gathered)

    def announced(self, plans: Iterable[GroupWrite]) -> AbstractContextManager[None]:
        """Announce files while the body makes them. As `Announcer.together`."""
        files = chain.from_iterable((plan, *plan.pointed.values()) for plan in plans)
        markers = dict.fromkeys(file.marker for file in files)
        return self._writer.announcer.together(list(markers))

    def targets(self, counts: Mapping[Route, int]) -> Iterator[tuple[GroupRef, list[Route]]]:
        """Yield the file groups that take the rows of routes. As `find_targets`.

        Raises:
            CorruptError: a bucket has two file groups.
            IndexUnknownError: a file group is in no bucket.
        """
        operation, by_late = self._operation, self.locator.late is not None
        begins = operation.overwrites or (operation.fills_empty_buckets and by_late)
        targets_of = self.locator.first_targets if begins else self.locator.targets
        return find_targets(counts, targets_of)

    def plan(self, group: GroupRef, routes: Sequence[Route], write_token: str) -> GroupWrite | None:
        """Return what to write to a file group; None if there is nothing to delete from.

        Args:
            group: The file group.
            routes: Of the rows that it takes.
            write_token: Of its file.

        Raises:
            ValueError: rows are to be bulk-inserted into a bucket that has rows.
            UnsupportedError: file groups of a ring are hidden.
        """
        basis, operation = self._basis, self._operation
        file_slice: FileSlice | None = None
        stored: Sequence[FileSlice] = ()
        if not operation.overwrites:
            file_slice, stored = self.locator.slice_of(group), self.locator.stored(group)
        if operation.takes_keys and not stored:
            return None
        if operation.fills_empty_buckets and stored:
            raise ValueError(
                f"bulk_insert into bucket {group.bucket_id} of partition "
                f"{group.partition_path!r}, which has rows; use upsert or insert"
            )
        file_id = group.file_id or self._new_file_id(group)
        if file_slice is None and basis.snapshot.is_replaced(group.partition_path, file_id):
            raise UnsupportedError(
                f"file group {file_id} of the ring was replaced, by an overwrite or a dropped "
                "partition: what is written to it stays hidden. Have the rings repaired "
                "(repair_rings), and write again",
                partition=group.partition_path,
            )
        plan = self._plan(group, file_slice, file_id, write_token, stored)
        return replace(plan, pointed=self._plan_pointed(plan, routes, write_token))

    def _plan(
        self,
        group: GroupRef,
        file_slice: FileSlice | None,
        file_id: str,
        write_token: str,
        stored: Sequence[FileSlice],
    ) -> GroupWrite:
        state = self._basis.snapshot.state
        compaction = state.pending_compactions.get((group.partition_path, file_id))
        return plan_group_write(
            group,
            file_slice,
            file_id,
            self._find_target(group, file_slice),
            instant=self._instant,
            write_token=write_token,
            table_version=state.config.table_version,
            listed=state.lister.files(group.partition_path).get(file_id, ()),
            pending_compaction=None if compaction is None else compaction.requested_time,
            stored=stored,
        )

    def _plan_pointed(
        self, plan: GroupWrite, routes: Sequence[Route], write_token: str
    ) -> dict[int, GroupWrite]:
        """Return which log files take the rows of routes, where a virtual log is to point to them.

        File groups that are merged have a file each in the file group to come.
        """
        planned: dict[GroupRef, GroupWrite] = {}
        found: dict[int, GroupWrite] = {}
        for route in routes:
            group = self.locator.pointed_at(plan.group, route.number)
            if group is None or group.file_id is None:
                continue
            if group not in planned:
                file_slice = self.locator.slice_of(group)
                own = self._plan(group, file_slice, group.file_id, write_token, plan.stored)
                while own.path in self._pointed:  # of a file group that is merged into this one too
                    own = own.next_version
                self._pointed.add(own.path)
                planned[group] = own
            found[route.number] = planned[group]
        return found

    def write(
        self,
        plan: GroupWrite,
        routes: Sequence[Route],
        numbering: RowNumbering,
        load: Callable[[Sequence[Route]], pa.Table | None],
        load_moved: Callable[[Sequence[Route]], pa.Table | None] | None = None,
    ) -> Receipt:
        """Write one bucket and return its receipt.

        Args:
            plan: Which file.
            routes: Of the rows that it takes.
            numbering: Where sequence numbers begin.
            load: Returns the rows of routes; of deletes the keys, as `_hoodie_record_key`. None for
                a file group that only loses keys.
            load_moved: Returns the keys that the file group loses, because their rows go to another
                partition; None for none.

        Raises:
            SchemaError: rows do not fit the table.
            ConflictError: the write has ended meanwhile.
            StorageError: the store failed.
        """
        pointed: Sequence[WrittenFile] = ()
        if plan.pointed:
            written, pointed = self._write_virtual(plan, routes, numbering, load)
        else:
            moved = None if load_moved is None else load_moved(routes)
            deletes = None if moved is None else self._deletes(plan, moved)
            given = self._given(plan, load(routes))
            if given is None:
                given, deletes = deletes or Deletes(pa.chunked_array([], pa.string())), None
            written = self._writer.write(plan, numbering, given, deletes)
        return Receipt(
            partition_path=plan.group.partition_path,
            file_id=plan.file_id,
            write_token=plan.name.write_token or "",
            stat=None if written is None else written.stat,
            report=None if written is None else written.report,
            pointed=tuple(PointedReceipt(*file) for file in pointed),
        )

    def _write_virtual(
        self,
        plan: GroupWrite,
        routes: Sequence[Route],
        numbering: RowNumbering,
        load: Callable[[Sequence[Route]], pa.Table | None],
    ) -> tuple[WrittenFile | None, Sequence[WrittenFile]]:
        """Write rows to the log files that take them, and the virtual log that points to them."""
        parts = []
        for own in {id(each): each for each in plan.pointed.values()}.values():
            given = self._given(own, load([r for r in routes if plan.pointed[r.number] is own]))
            if given is not None:
                parts.append((own, given))
        return self._writer.write_virtual(plan, parts, numbering)

    def _given(self, plan: GroupWrite, rows: pa.Table | None) -> pa.Table | Deletes | None:
        """Return rows, or keys to delete, with all that is stored of them."""
        if rows is None:
            return None
        if self._operation.takes_keys:
            return self._deletes(plan, rows)
        return self._completed(plan, self._keyed(rows))

    def _new_file_id(self, group: GroupRef) -> str:
        """Return the id of the file group that this write begins.

        The same for every attempt: one that comes too late leaves a file too many in the group,
        which readers tell from the committed one, and never a second group in the bucket.
        """
        number = group.new_number if group.bucket_id is None else group.bucket_id
        name = f"{self._instant}/{group.partition_path}/{number}"
        if group.bucket_id is not None and group.new_number:
            name += f"/{group.new_number}"
        seed = uuid.uuid5(_FILE_IDS, name)
        return self.locator.new_file_id(
            group,
            str(seed),
            is_shared=self._is_non_blocking,
            overwriting=self._instant if self._operation.overwrites else None,
        )

    def _find_target(self, group: GroupRef, file_slice: FileSlice | None) -> Target:
        if group.resize is not None:
            return Target.LOG
        if group.takes_new_keys:
            return Target.NEW_BASE if file_slice is None else Target.REWRITTEN_BASE
        if self._basis.snapshot.state.config.table_type == "MERGE_ON_READ":
            begins_with_log = self._basis.index.begins_with_log or self._is_non_blocking
            appends = begins_with_log and self._operation.appends
            appends = appends or file_slice is not None
            return Target.LOG if appends else Target.NEW_BASE
        return Target.NEW_BASE if file_slice is None else Target.REWRITTEN_BASE

    def _keyed(self, rows: pa.Table) -> pa.Table:
        """Return rows with their keys, which cost less to make twice than to sort and to spill."""
        keys = record_keys(rows, self._basis.snapshot.state.config, self._basis.key_encoding)
        return rows.append_column(RECORD_KEY, keys)

    def _completed(self, plan: GroupWrite, rows: pa.Table) -> pa.Table:
        """Return rows with the columns that they lack, as they are stored of their keys.

        What another writer makes of these columns meanwhile is a conflict, as any write to the
        bucket is.
        """
        kept = [self._basis.schema.data.field(name) for name in self._basis.kept]
        if not kept:
            return rows
        stored = self._stored(plan, rows.column(RECORD_KEY), kept)
        places = pc.index_in(rows.column(RECORD_KEY), stored.column(RECORD_KEY))
        is_deleted = pa.array(np.logical_or(*find_delete_marks(rows, self._basis.rules)))
        for field in kept:
            column = stored.column(field.name).take(places)
            if not field.nullable and pc.any(pc.and_not(column.is_null(), is_deleted)).as_py():
                raise SchemaError(
                    f"the rows lack the column {field.name}, which is never null, and have keys "
                    "that are new; give the column"
                )
            rows = rows.append_column(field, column)
        return rows

    def _stored(
        self, plan: GroupWrite, record_keys: pa.ChunkedArray, columns: list[pa.Field]
    ) -> pa.Table:
        """Return the keys that the bucket has rows of, and these columns of them."""
        output = pa.schema([pa.field(RECORD_KEY, pa.string()), *columns])
        spec = RowSpec(self._basis.schema, output, keys=record_keys.unique())
        reader = SliceReader(self._basis.snapshot, spec, side_by_side=True)
        pieces = chain.from_iterable(reader.read(own, None) for own in plan.stored)
        stored = pa.concat_tables([output.empty_table(), *pieces]).combine_chunks()
        keys = stored.column(RECORD_KEY)
        if pc.count_distinct(keys).as_py() != len(keys):
            double = keys.value_counts()
            key = double.field("values").filter(pc.greater(double.field("counts"), 1))[0].as_py()
            raise UnsupportedError(
                f"the bucket has several rows of the key {key!r}, each with values to keep; "
                "give the rows all columns",
                partition=plan.group.partition_path,
                bucket=plan.group.bucket_id,
            )
        return stored

    def _deletes(self, plan: GroupWrite, keys: pa.Table) -> Deletes:
        given = pa.chunked_array([keys.column(RECORD_KEY).unique()])
        snapshot = self._basis.snapshot
        config = snapshot.state.config
        needs_ordering = self._orders_deletes and _deletes_need_ordering(config, self._basis.rules)
        if not plan.stored or not needs_ordering:
            return Deletes(given)
        merged = find_merge_columns(self._basis.rules, snapshot.schema.data)
        columns = dict.fromkeys((*key_columns(config), *merged))
        output = output_schema(snapshot.schema, list(columns), meta_columns=False)
        asked = [(file_slice, given.chunk(0)) for file_slice in plan.stored]
        rows = read_keys_of_slices(snapshot, asked, output, with_orphans=True)
        if not config.populate_meta_fields:
            return Deletes(record_keys(rows, config, are_stored=True), rows)
        return Deletes(rows.column(RECORD_KEY), rows)


def _deletes_need_ordering(config: TableConfig, rules: MergeRules) -> bool:
    """Whether deletes have the ordering values of the rows they delete (docs/decisions/0016).

    A delete without ordering value yields to any row that is logged later, whoever logs it, and
    the deleted base row may then be read again. Hudi 1.0 even fails to read where the later row
    has an ordering value of another class than the integer 0, which stands for none. In table
    version 6 a delete yields to any later row, whatever its ordering value.
    """
    is_logged = config.table_type == "MERGE_ON_READ" and config.table_version >= 8
    return is_logged and bool(rules.ordering_fields)
