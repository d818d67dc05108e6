"""`open`, `create`, `check_table` and `Table`: the public functions.

The `Table` of users is composed here, from the readable table and from writes, services and checks,
which are rooms above it (docs/decisions/0006).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import pyarrow as pa

from bucketfmt.arguments import (
    check_bool,
    check_callable,
    check_choice,
    check_int,
    check_kind,
    check_names,
    check_text,
)
from bucketfmt.check import run as checking
from bucketfmt.check.report import CheckReport, Depth
from bucketfmt.check.salvage import load_config_to_check
from bucketfmt.errors import BucketfmtError, ConflictError, NotFoundError
from bucketfmt.format.keys.record_keys import KeyEncoding
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.model import BucketIndex, Index, SimpleBucketIndex, as_bucket_index
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.location.record_locations import RECORD_INDEX
from bucketfmt.process import cached_property
from bucketfmt.progress import ProgressCallback
from bucketfmt.resize.advice import (
    HORIZON_DAYS,
    TARGET_BYTES,
    BucketAdvice,
    load_figures,
    plan_advice,
)
from bucketfmt.resize.growth import Duration, estimate_duration
from bucketfmt.resize.migrate import Migrator
from bucketfmt.resize.plan_migrate import (
    PARTITIONS_PER_COMMIT,
    MigratePreview,
    MigrateResult,
    Migration,
)
from bucketfmt.resize.plan_rehash import RehashPreview
from bucketfmt.resize.plan_rescale import RescalePreview
from bucketfmt.resize.rehash import Rehasher
from bucketfmt.resize.rescale import Rescaler
from bucketfmt.resize.rewrite import StartedRewrite
from bucketfmt.resize.split_merge.directory import DirectoryResizer
from bucketfmt.resize.split_merge.resize_limits import ResizeLimits, ResizePreview
from bucketfmt.resize.split_merge.ring import RingResizer
from bucketfmt.resize.split_merge.split_policies import SplitPolicy, parse_split_policy
from bucketfmt.resize.split_merge.started_resize import StartedResize
from bucketfmt.rows.columns.virtual_keys import partition_paths, record_keys
from bucketfmt.rows.filters import FilterLike
from bucketfmt.rows.log_writer import DataFormat
from bucketfmt.rows.parquet.parquet_chunks import Codec
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store
from bucketfmt.table.keys import KeySet, KeysLike, key_columns
from bucketfmt.table.table import Moment
from bucketfmt.table.table import Table as ReadableTable
from bucketfmt.timeline.table_properties import load_config
from bucketfmt.timeline.timeline import Instant, Timeline
from bucketfmt.write.commit.open import WriterConfig, open_transactions
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.metadata.metadata_partitions import MetadataPartitions
from bucketfmt.write.properties.create import create_table
from bucketfmt.write.properties.pin_index import is_recorded, pin_index
from bucketfmt.write.properties.plan_create import TableType, name_of, plan_properties
from bucketfmt.write.rows.bucket_writer import FileFormats
from bucketfmt.write.rows.incoming import DataLike
from bucketfmt.write.rows.schema_change import Missing
from bucketfmt.write.rows.started_write import StartedWrite, WriteOptions, check_idempotency_key
from bucketfmt.write.rows.write_task import WriteTask
from bucketfmt.write.rows.writer import TableWriter
from bucketfmt.write.services.archiving import Archiver
from bucketfmt.write.services.cleaning import Cleaner, CleanResult
from bucketfmt.write.services.compaction import Compactor, StartedCompaction
from bucketfmt.write.services.plan_archive import Kept
from bucketfmt.write.services.plan_clean import CleanPolicy, Retention
from bucketfmt.write.services.plan_compaction import CompactionPreview
from bucketfmt.write.undo.plan_rollback import RollbackResult
from bucketfmt.write.undo.plan_savepoint import find_completed_write
from bucketfmt.write.undo.restore import RestoreResult, preview_restore, restore
from bucketfmt.write.undo.rollback import Rollbacks
from bucketfmt.write.undo.savepoints import (
    delete_savepoint,
    preview_savepoint,
    put_savepoint,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "ResizeArguments",
    "StartedOperation",
    "Table",
    "WriteArguments",
    "check_table",
    "create",
    "open",
]

StartedOperation = Literal[
    "upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete"
]

KeyForm = Literal["value", "named"]
Duplicates = Literal["refuse", "latest"]


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
        ValueError: `index` contradicts the index that the table records.
    """
    _check_opening(storage_options, index, limits, writer)
    limits = DEFAULT_LIMITS if limits is None else limits
    store = open_store(uri, storage_options, limits)
    return Table(store, load_config(store, limits), limits, index, writer)


def create(
    uri: str | os.PathLike[str],
    *,
    schema: pa.Schema,
    record_key: Sequence[str],
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    index: Index,
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
        schema: The columns.
        record_key: The columns that identify a record within its partition.
        partition_by: The columns that make partitions; `"made:TIMESTAMP"` for a column whose path
            is a date format, with the `hoodie.keygen.timebased.*` properties.
        ordering: The columns that decide which of two rows with one key is newer. Without them,
            the row that was written later is newer.
        index: How keys map to buckets; or `RecordIndex()` for a table without buckets, whose
            record index is made too. Its keys are unique in the table.
        table_type: COPY_ON_WRITE rewrites files, MERGE_ON_READ logs changes.
        table_version: 6 for Hudi 0.14 and 0.15, 8 for 1.0, 9 for 1.1 and later.
        name: The table's name.
        storage_options: Passed to fsspec.
        properties: Further entries of hoodie.properties, such as
            `hoodie.datasource.write.hive_style_partitioning`.
        limits: As in `open`.
        writer: As in `open`.

    Raises:
        ValueError: there is a table already, or arguments contradict one another.
        SchemaError: a key, partition or ordering field is not among the columns.
        TypeError: an argument has the wrong type.
        UnsupportedError: Hudi has no type for a column.
    """
    _check_opening(storage_options, index, limits, writer)
    limits = DEFAULT_LIMITS if limits is None else limits
    store = open_store(uri, storage_options, limits)
    planned = plan_properties(
        name=name or name_of(uri),
        schema=schema,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        index=index,
        table_type=table_type,
        table_version=table_version,
        properties=properties,
    )
    create_table(store, planned, index)
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


class Table(ReadableTable):
    """A Hudi table. A table follows its timeline: each call sees the newest completed commit.

    Safe to use from several threads. Threads that share a Table, and forked children, are writers
    like any other: they wait for one another, or raise LockTimeoutError or ConflictError. A write
    or compaction that was begun before a fork belongs to the parent.

    Attributes:
        config: The table's properties, typed.
        limits: The bounds that were given to `open`.
        store: The table's files.
    """

    def __init__(
        self,
        store: Store,
        config: TableConfig,
        limits: Limits,
        index: Index | None,
        writer: WriterConfig | None = None,
    ) -> None:
        super().__init__(store, config, limits, index)
        self._writer_config = WriterConfig() if writer is None else writer

    def __reduce__(self) -> tuple[type[Table], tuple[object, ...]]:
        """Pickle the arguments of `open`, including secrets of the store."""
        index = self._index_finder.argument
        return Table, (self.store, self.config, self.limits, index, self._writer_config)

    @cached_property
    def _transactions(self) -> Transactions:
        return open_transactions(
            self.store, self.config, self.limits, self._writer_config, self._kept_commits
        )

    @cached_property
    def _writer(self) -> TableWriter:
        return TableWriter(
            self._listed_snapshot,
            self._adopt,
            self._index_finder,
            self._transactions,
            concurrency=self._writer_config.concurrency,
            pin_index=self._writer_config.pin_index,
        )

    @cached_property
    def metadata_table(self) -> MetadataPartitions:
        """The partitions of Hudi's metadata table: `list`, `init`, `rebuild` and `drop`."""
        return MetadataPartitions(self._transactions)

    def upsert(self, data: DataLike, **options: Unpack[WriteArguments]) -> CommitResult:
        """Write rows: adds rows with new keys, and replaces rows with known keys.

        A key is unique within its partition only: a row with another partition is another record.
        Of several rows with one key, stored rows included, the ordering fields decide which row is
        newer. A row whose column `_hoodie_is_deleted` is true deletes. After a delete, the next row
        of the key is a new row, whatever its ordering value.

        Args:
            data: Anything with an Arrow C stream. The rows may be larger than memory.
            options: See `WriteArguments`.

        Raises:
            SchemaError: the rows do not fit the table: a column is new or missing, without
                `evolve` or `missing`; or a value has no equal in the column's type.
            KeyEncodingError: a key is null or empty, rows with other values would have the same
                key, or Hudi never returns from hashing the key.
            UnsafePathError: a partition value would lead out of the table.
            IndexUnknownError: the index is unknown, or not proved for a partition.
            CorruptError: a bucket has two file groups.
            ConflictError: other writers wrote to the same buckets, in every try.
            LockTimeoutError: the table lock could not be acquired.
            UnsupportedError: the table has a metadata table, or tables of this kind cannot be
                written.
            CommitUnknownError: the store failed, and the commit may have taken effect.
        """
        return self._writer.write_rows(WriteOperation.UPSERT, data, _options(options))

    def insert(self, data: DataLike, **options: Unpack[WriteArguments]) -> CommitResult:
        """Write rows as `upsert` does; only the history tells the two apart.

        Where a key exists, Hudi's insert may keep both rows; this method replaces the stored row.
        """
        return self._writer.write_rows(WriteOperation.INSERT, data, _options(options))

    def bulk_insert(self, data: DataLike, **options: Unpack[WriteArguments]) -> CommitResult:
        """Write rows into empty buckets, without looking for equal keys among the rows.

        Raises:
            ValueError: a bucket has rows already.
        """
        return self._writer.write_rows(WriteOperation.BULK_INSERT, data, _options(options))

    def insert_overwrite(
        self, data: DataLike, *, table: bool = False, **options: Unpack[WriteArguments]
    ) -> CommitResult:
        """Replace the partitions that the rows are in; with `table=True`, the whole table."""
        check_bool("table", table)
        operation = (
            WriteOperation.INSERT_OVERWRITE_TABLE if table else WriteOperation.INSERT_OVERWRITE
        )
        return self._writer.write_rows(operation, data, _options(options))

    def delete(
        self,
        keys: KeysLike | None = None,
        *,
        filter: FilterLike | None = None,  # noqa: A002
        **options: Unpack[WriteArguments],
    ) -> CommitResult:
        """Delete the rows with the given keys, or the rows that pass a filter.

        The filter is evaluated at one moment, and again if another writer wrote to the buckets of
        the rows before they were deleted. If there is no such row, nothing is committed
        (`CommitResult.committed`), unless `idempotency_key` or `commit_metadata` is to be recorded.

        Args:
            keys: As in `locate`. Keys without a partition are deleted in every partition.
            filter: As in `scan`.
            options: See `WriteArguments`.

        Raises:
            ValueError: both `keys` and `filter` are given, or neither is.
            ConflictError: other writers wrote to the same buckets, in every try.
        """
        if (keys is None) == (filter is None):
            raise ValueError("delete takes either keys or a filter; give one of them")
        if filter is not None:
            return self._delete_where(filter, _options(options))
        found = self._read_keys(keys)
        if found.partition_paths is None:
            found = self._keys_of(self.lookup(found.record_keys, key_columns(self.config)))
        return self._writer.delete_keys(found, _options(options))

    def _delete_where(self, row_filter: FilterLike, options: WriteOptions) -> CommitResult:
        """Delete the rows that pass; evaluate the filter again after a conflict."""
        columns = key_columns(self.config)
        left = options.allowed_retries
        while True:
            read_at = options.read_at or self.timeline
            try:
                found = self._keys_of(self.scan(columns, row_filter).to_arrow())
                return self._writer.delete_keys(found, replace(options, read_at=read_at))
            except (ConflictError, NotFoundError):
                if not left:
                    raise
                left -= 1

    def _keys_of(self, rows: pa.Table) -> KeySet:
        """Return the keys and partitions of rows of the table."""
        if self.config.populate_meta_fields:
            return self._read_keys(rows)
        encoding = find_key_encoding(self._snapshot())
        keys = record_keys(rows, self.config, encoding, are_stored=True)
        return KeySet(keys, partition_paths(rows, self.config, are_stored=True))

    def delete_partitions(
        self, paths: Sequence[str], **options: Unpack[WriteArguments]
    ) -> CommitResult:
        """Hide all rows of these partition paths.

        Raises:
            ValueError: the table has no such partition.
        """
        paths = check_names("paths", paths)
        return self._writer.delete_partitions(paths, _options(options))

    def start_write(
        self, operation: StartedOperation, schema: pa.Schema, **options: Unpack[WriteArguments]
    ) -> StartedWrite:
        """Begin a write whose files other processes write, and which this process commits.

        >>> with t.start_write("upsert", schema) as started:
        ...     task = started.task                                # send it; all rows of a bucket
        ...     receipts = list(task.write(rows, "0-0-0"))         # go to one task
        ...     started.publish(receipts)

        If this process dies, the next write takes this one back. The caller has to repeat a write
        after a conflict (`retries`), and to look for the `idempotency_key` first (`find_commit`).

        Args:
            operation: What to do with the rows.
            schema: The columns of the rows; for a delete, of the keys and their partitions.
            options: See `WriteArguments`.

        Raises:
            SchemaError: rows of these columns do not fit the table.
            IndexUnknownError: the index is unknown.
            LockTimeoutError: the table lock could not be acquired.
            UnsupportedError: the table has a metadata table, or tables of this kind cannot be
                written.
        """
        if operation not in get_args(StartedOperation):
            known = ", ".join(get_args(StartedOperation))
            raise ValueError(f"there is no operation {operation!r}; the operations are {known}")
        check_kind("schema", schema, pa.Schema, "a pyarrow Schema")
        started = WriteOperation(operation)
        incoming = None if started.takes_keys else schema
        return self._writer.start(started, incoming, _options(options))

    def resume_write(self, task: WriteTask, **options: Unpack[WriteArguments]) -> StartedWrite:
        """Resume a write that another process began, to publish it or to take it back.

        >>> task = t.start_write("upsert", schema).hand_over()
        >>> with t.resume_write(task) as started:                  # elsewhere
        ...     started.publish(receipts)

        This process keeps the write's heartbeat going from now on. Only one process may publish.

        Args:
            task: The result of `StartedWrite.hand_over`.
            options: See `WriteArguments`. The task has the formats of files.

        Raises:
            ConflictError: the write has ended, or is being taken back because no process kept it
                alive.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_kind("task", task, WriteTask, "the result of StartedWrite.hand_over")
        return self._writer.resume(task, _options(options))

    def keep_alive(self, task: WriteTask) -> AbstractContextManager[None]:
        """Return a context that keeps the heartbeat of a handed over write going.

        For processes that write its files: if no process keeps a write alive for two minutes, the
        next writer may take the write back.

        Raises:
            ConflictError: as `resume_write`.
            LockTimeoutError: as `resume_write`.
        """
        check_kind("task", task, WriteTask, "the result of StartedWrite.hand_over")
        return self._writer.keep_alive(task)

    def find_commit(self, idempotency_key: str) -> CommitResult | None:
        """Return the commit with this key; None if no commit has the key."""
        check_idempotency_key(idempotency_key)
        return self._transactions.find_repeated(self.state, idempotency_key)

    def compact(
        self,
        *,
        min_log_files: int = 1,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Merge log files into base files, so that readers have nothing to merge.

        A pending compaction, which Hudi scheduled or a crash left behind, is executed as it was
        planned. It leaves out planned log files that no completed instant wrote and that no longer
        exist: their write failed and was taken back. Without a pending compaction, a new one is
        scheduled and executed. Writers may continue meanwhile. Do not call this while Hudi executes
        a compaction, which cannot be distinguished from one that failed.

        Args:
            min_log_files: Leave out file groups with fewer log files.
            codec: The codec of parquet; by default that of the table's files, as in
                `WriteArguments`.
            progress: Called as files are written.

        Returns:
            The commit; None if there was nothing to compact.

        Raises:
            ConflictError: another process is executing the pending compaction.
            CorruptError: a file of the compaction is missing or damaged.
            UnsupportedError: the table has a metadata table, or tables of this kind cannot be
                written.
            LockTimeoutError: the table lock could not be acquired.
            CommitUnknownError: the store failed, and the commit may have taken effect.
        """
        _check_compaction(min_log_files, codec, progress)
        compactor = Compactor(self._listed_snapshot, self._transactions)
        return compactor.run(min_log_files, codec, progress)

    def preview_compaction(self, *, min_log_files: int = 1) -> CompactionPreview:
        """Return what `compact` would do now. Reads only; raises the errors of its planning."""
        _check_compaction(min_log_files)
        return Compactor(self._listed_snapshot, self._transactions).preview(min_log_files)

    def start_compaction(
        self, *, min_log_files: int = 1, codec: Codec | None = None
    ) -> StartedCompaction | None:
        """Begin a compaction whose files other processes write. Otherwise as `compact`.

        >>> with t.start_compaction() as started:
        ...     task = started.task                                           # send it
        ...     receipts = [task.compact(p, f"{n}-0-0") for n, p in enumerate(started.payloads)]
        ...     started.publish(receipts)
        """
        _check_compaction(min_log_files, codec)
        compactor = Compactor(self._listed_snapshot, self._transactions)
        return compactor.start(min_log_files, codec)

    def advise_buckets(
        self, *, target_bytes: int = TARGET_BYTES, horizon_days: int = HORIZON_DAYS
    ) -> BucketAdvice:
        """Return which number of buckets and which engine suit the table, and what to do next.

        Goes by the sizes of its files and by what the commits of the active timeline tell of
        growth. Opens no data file, unless keys have to prove the index. Writes nothing.

        Args:
            target_bytes: How large the base file of a bucket may grow; by default as large as Hudi
                makes base files (`hoodie.parquet.max.file.size`).
            horizon_days: For how long, if the table goes on growing as it did.

        Raises:
            ValueError: an argument is not positive.
            CorruptError: the timeline, or what states the index, is damaged.
        """
        target_bytes = check_int("target_bytes", target_bytes, 1)
        horizon_days = check_int("horizon_days", horizon_days, 0)
        figures = load_figures(self._listed_snapshot(), self._index_finder, self.uri)
        return plan_advice(figures, target_bytes, horizon_days)

    def rehash(
        self,
        num_buckets: int,
        *,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Give every partition another number of buckets, in one replacecommit.

        The rows stay as they are, with their commit times. Readers see the old file groups until
        the commit is completed, and `as_of` finds them until they are cleaned. Writers of this
        package go on meanwhile, also in other processes: what they change is divided again, and a
        write that is under way at the end is routed by the new buckets. Writers of Hudi have the
        number of buckets in their options: stop them, and start them with the new number.

        From N to a multiple of N a bucket is divided locally, and back some are joined; other
        numbers bring whole partitions together, in temporary files where they are large.

        Args:
            num_buckets: The new number.
            codec: Of parquet; by default that of the table's files.
            progress: Called as pieces of the table are done.

        Returns:
            The commit; None if the table has this number of buckets already.

        Raises:
            ValueError: there is no such number of buckets.
            UnsupportedError: the table has no simple bucket index.
            ConflictError: a compaction or a clustering is pending, or other writers changed the
                table faster than it could be divided again. Nothing was published.
            CorruptError: a file is missing or damaged, or has keys of other buckets.
            LockTimeoutError: the table lock could not be acquired.
        """
        SimpleBucketIndex(num_buckets)  # checks the number
        _check_compaction(1, codec, progress)
        done = self._rehasher().run(num_buckets, codec, progress)
        if done is not None:
            self._index_finder.forget_argument()
            with suppress(BucketfmtError):  # readers know by the commit; the next write records it
                self.pin_index()
        return done

    def preview_rehash(self, num_buckets: int) -> RehashPreview:
        """Return what `rehash` would do now. Reads only; raises the errors of its planning."""
        SimpleBucketIndex(num_buckets)
        found = self._rehasher().preview(num_buckets)
        return replace(found, duration=self._duration_of(found.bytes))

    def start_rehash(
        self, num_buckets: int, *, codec: Codec | None = None
    ) -> StartedRewrite | None:
        """Begin a rehash whose files other processes write. Otherwise as `rehash`.

        >>> with t.start_rehash(16) as started:
        ...     receipts = []
        ...     for number, payload in enumerate(started.payloads):
        ...         receipts += started.task.rewrite(payload, f"{number}-0-0")
        ...     started.publish(receipts)
        """
        SimpleBucketIndex(num_buckets)
        _check_compaction(1, codec)
        return self._rehasher().start(num_buckets, codec)

    def _duration_of(self, rewritten: int) -> Duration | None:
        """Return how long rewriting files of so many bytes takes; None for none."""
        return estimate_duration(rewritten, self.state.commits) if rewritten else None

    def _rehasher(self) -> Rehasher:
        return Rehasher(self._listed_snapshot, self._index_finder, self._transactions)

    def resize(
        self,
        *,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
        **options: Unpack[ResizeArguments],
    ) -> CommitResult | None:
        """Split buckets of rings or directories that are too large, and merge small ones.

        Only the buckets concerned are read and written, and the rows stay as they are, with their
        commit times. Readers see the old file groups until the commit is completed.

        With consistent hashing, a resize that is pending, planned here or by Hudi, is executed;
        otherwise one is planned. Writers that begin meanwhile, of this package or of Hudi, write to
        the old and to the new file groups. Left before it is completed, a resize stays pending:
        call `resize` again, have Hudi execute it, or take it back by `rollback`.

        With extendible hashing, a bucket is divided by as many bits as bring its parts below the
        bound, and two small buckets that differ in one bit are merged. What others write meanwhile
        is rewritten too, and a write to these buckets that is under way at the end routes its rows
        anew. Left before it is completed, nothing remains.

        Args:
            codec: Of parquet; by default that of the table's files.
            progress: Called as buckets are rewritten.
            **options: See `ResizeArguments`.

        Returns:
            The commit; None if no bucket is too large or too small.

        Raises:
            ValueError: options contradict one another.
            UnsupportedError: the table has neither a consistent nor an extendible hashing index, or
                is of a kind that is not written.
            ConflictError: a write is under way that does not know of the resize; one of
                `partitions` is being resized already; or somebody took the resize back.
            CorruptError: a file is missing or damaged, or a ring is.
            LockTimeoutError: the table lock could not be acquired.
        """
        _check_compaction(1, codec, progress)
        limits, partitions = _resize_limits(options)
        return self._resizer().run(limits, partitions, codec, progress)

    def preview_resize(self, **options: Unpack[ResizeArguments]) -> ResizePreview:
        """Return what `resize` would do now. Reads only; raises the errors of its planning."""
        found = self._resizer().preview(*_resize_limits(options))
        return replace(found, duration=self._duration_of(found.bytes))

    def start_resize(
        self, *, codec: Codec | None = None, **options: Unpack[ResizeArguments]
    ) -> StartedResize | StartedRewrite | None:
        """Begin a resize whose files other processes write. Otherwise as `resize`.

        Each of its `payloads` is a task, as in the example of `start_rehash`.
        """
        _check_compaction(1, codec)
        limits, partitions = _resize_limits(options)
        return self._resizer().start(limits, partitions, codec)

    def schedule_resize(self, **options: Unpack[ResizeArguments]) -> str | None:
        """Put a resize on the timeline for anyone to execute: `resize`, or Hudi.

        Returns:
            The instant; None if no bucket is too large or too small.

        Raises:
            ConflictError, CorruptError, LockTimeoutError, UnsupportedError, ValueError: as
                `resize`.
        """
        return self._resizer().schedule(*_resize_limits(options))

    def _resizer(self) -> RingResizer | DirectoryResizer:
        index = as_bucket_index(self.index)
        make = DirectoryResizer if index is not None and index.has_directories else RingResizer
        return make(self._listed_snapshot, self._index_finder, self._transactions)

    def migrate(
        self,
        index: BucketIndex | None = None,
        *,
        keys: KeyForm | None = None,
        duplicates: Duplicates = "refuse",
        partitions_per_commit: int = PARTITIONS_PER_COMMIT,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> MigrateResult | None:
        """Give a table with another index, or without one, a bucket index.

        Each replacecommit moves some partitions. Readers go on, `as_of` reads the table as it was
        before until its files are cleaned, and rows keep their commit times. The table has its old
        index, and may be written by it, until the last step, which states the new index. A
        partition that others wrote to since it was moved is moved again. After a crash or an error
        a call with the same arguments goes on with the partitions that are left.

        Args:
            index: The bucket index; rules take table version 9, and rings a merge-on-read table.
                None, with `keys`, leaves a table its numbered buckets.
            keys: How complex keys of one field are written anew, where Hudi releases have written
                some as `7` (`value`) and some as `id:7` (`named`). Of two rows of one record the
                row stays that the ordering fields, or the commit times, say is later.
            duplicates: What to do where several rows of a partition have one key, as tables have
                that were appended to: `refuse`, or keep the `latest`.
            partitions_per_commit: How many partitions a replacecommit moves.
            codec: Of parquet; by default that of the table's files.
            progress: Called as partitions are done.

        Returns:
            What was done; None if the table has the index already.

        Raises:
            ValueError: the index is not for such a table; or `keys` is for none such.
            UnsupportedError: the table has other buckets already; keys have several rows, or are
                written in several ways; or the table is of a kind that is not written.
            ConflictError: a compaction or a clustering is pending, or others are writing by the old
                index all the time. Partitions that were moved stay moved.
            LockTimeoutError: the table lock could not be acquired.
        """
        migration = self._migration(index, keys, duplicates)
        number = check_int("partitions_per_commit", partitions_per_commit, 1)
        _check_compaction(1, codec, progress)
        done = self._migrator().run(migration, number, codec, progress)
        if done is not None:
            self._index_finder.forget_argument()
            self._adopt(load_config(self.store, self.limits))
        return done

    def preview_migrate(
        self,
        index: BucketIndex | None = None,
        *,
        keys: KeyForm | None = None,
        duplicates: Duplicates = "refuse",
        partitions_per_commit: int = PARTITIONS_PER_COMMIT,
    ) -> MigratePreview:
        """Return what `migrate` would do now. Reads only; raises the errors of its planning.

        Whether keys have several rows is found when they are moved.
        """
        migration = self._migration(index, keys, duplicates)
        number = check_int("partitions_per_commit", partitions_per_commit, 1)
        return self._migrator().preview(migration, number)

    def _migration(
        self, index: BucketIndex | None, keys: KeyForm | None, duplicates: Duplicates
    ) -> Migration:
        check_choice("duplicates", duplicates, get_args(Duplicates))
        encoding = None
        if keys is not None:
            check_choice("keys", keys, get_args(KeyForm))
            encoding = KeyEncoding[keys.upper()]
        if index is None:
            index = self._index_finder.resolve(self._listed_snapshot()).bucket_index
            if index is None or encoding is None:
                raise ValueError(
                    "migrate takes the index that the table is to have, such as "
                    "SimpleBucketIndex(16); only keys are written anew without it, in a table that "
                    "has buckets"
                )
        check_kind("index", index, BucketIndex, "a bucket index such as SimpleBucketIndex(16)")
        return Migration(index, encoding, keeps_latest=duplicates == "latest")

    def _migrator(self) -> Migrator:
        return Migrator(self._listed_snapshot, self._index_finder, self._transactions)

    def rescale(
        self,
        rules: str,
        *,
        default: int | None = None,
        add: bool = False,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Give partitions numbers of buckets by rules (Hudi 1.1 and later, RFC-89).

        Only partitions whose number changes are rewritten, in one replacecommit, as `rehash` does.
        A simple bucket index with one number for all partitions becomes one with rules; the table
        keeps rules from then on. Other rules take the place of those of now.

        `t.rescale("^2024-,16;^2023-,4", default=8)` gives partitions of a year so many buckets, and
        `t.rescale("^2025-01-31$,32", add=True)` one partition, and no other.

        Args:
            rules: `regex,number` at each `;`. The first rule whose regex is found anywhere in the
                path of a partition tells the number of its buckets.
            default: The number of buckets where no rule matches; by default as it is.
            add: The rules go before those of now, instead of taking their place.
            codec: Of parquet; by default that of the table's files.
            progress: Called as pieces of the table are done.

        Returns:
            The commit; None if the table has these rules already.

        Raises:
            ValueError: the rules are malformed, or there is no such number of buckets.
            UnsupportedError: the table has no simple bucket index, or is of a version before 9; or
                a regex is not supported.
            LimitError: there are too many rules.
            ConflictError: a compaction or a clustering is pending, somebody else changed the
                buckets, or other writers changed the table faster than it could be divided again.
                Nothing was published.
            CorruptError: a file is missing or damaged, or has keys of other buckets.
            LockTimeoutError: the table lock could not be acquired.
        """
        _check_rescale(rules, default, add)
        _check_compaction(1, codec, progress)
        done = self._rescaler().run(rules, default, add=add, codec=codec, progress=progress)
        if done is not None:
            self._index_finder.forget_argument()
        return done

    def preview_rescale(
        self, rules: str, *, default: int | None = None, add: bool = False
    ) -> RescalePreview:
        """Return what `rescale` would do now. Reads only; raises the errors of its planning."""
        _check_rescale(rules, default, add)
        return self._rescaler().preview(rules, default, add=add)

    def _rescaler(self) -> Rescaler:
        return Rescaler(self._listed_snapshot, self._index_finder, self._transactions)

    def clean(
        self,
        *,
        policy: CleanPolicy = "KEEP_LATEST_COMMITS",
        retain: int | None = None,
        dry_run: bool = True,
        progress: ProgressCallback | None = None,
    ) -> CleanResult:
        """Delete files that no reader of the retained commits needs; by default only list them.

        Files of the newest file slices and of savepoints are never deleted, nor files that pending
        compactions and clusterings need. A clean that a crash left pending is completed first.

        Args:
            policy: KEEP_LATEST_COMMITS: the table can be read as of the last `retain` commits.
                KEEP_LATEST_FILE_VERSIONS: each file group keeps `retain` file slices, and replaced
                file groups keep none.
            retain: 10 commits or 3 versions by default.
            dry_run: Return the files and delete nothing.
            progress: Called as files are deleted.

        Raises:
            ValueError: `retain` is not positive, or the policy is unknown.
            UnsupportedError: the table has a metadata table, or tables of this kind cannot be
                written.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_bool("dry_run", dry_run)
        if progress is not None:
            check_callable("progress", progress)
        retention = Retention(policy, retain)
        cleaner = Cleaner(self._listed_snapshot, self._transactions, progress)
        return cleaner.preview(retention) if dry_run else cleaner.run(retention)

    def archive(
        self, *, min_commits: int = 20, max_commits: int = 30, dry_run: bool = False
    ) -> tuple[Instant, ...]:
        """Move the oldest instants to the archived timeline; return them.

        Reads return the same rows as before, and `changes` and `idempotency_key` also search the
        archive. Only a `scan(as_of=...)` of an archived commit may find its files cleaned. Nothing
        happens as long as there are at most `max_commits` commits.

        Args:
            min_commits: Leave at least this many commits.
            max_commits: Archive only if there are more commits than this.
            dry_run: Move nothing, and return the instants that would be moved.

        Raises:
            ValueError: `min_commits` is less than 1, or greater than `max_commits`.
            UnsupportedError: the table has a metadata table.
            CorruptError: an instant, or the archived timeline, is damaged.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_bool("dry_run", dry_run)
        kept = Kept(min_commits, max_commits)
        archiver = Archiver(self._listed_snapshot, self._transactions)
        return archiver.preview(kept) if dry_run else archiver.run(kept)

    def rollback(self, instant: str | None = None, *, dry_run: bool = False) -> RollbackResult:
        """Take back one write: a failed write, or the newest completed write.

        A failed write needs no call: the next write takes it back. This call or the next write also
        completes a rollback that a crash interrupted.

        Args:
            instant: The write's requested time, as `inspect.commits()` returns it; by default that
                of the newest completed write.
            dry_run: Write nothing, and return what would be done.

        Raises:
            ValueError: the active timeline has no such write.
            ConflictError: the write has a savepoint; the write is not the newest; a compaction or a
                clean came after the write; all earlier writes are archived, so that the write marks
                the end of the archive; a writer is at work; or a restore is not finished.
            UnsupportedError: the table has a metadata table.
            LockTimeoutError: the table lock could not be acquired.
        """
        if instant is None:
            instant = find_completed_write(self.timeline, None)
        check_text("instant", instant)
        check_bool("dry_run", dry_run)
        if dry_run:
            return self._transactions.rollback_planner(self.config).preview(instant)
        with self._transactions.exclusive() as rollbacks:
            return rollbacks.roll_back(instant)

    def savepoint(
        self,
        instant: str | None = None,
        *,
        user: str = "",
        comments: str = "",
        dry_run: bool = False,
    ) -> str:
        """Keep the table as it was after a write, for a later `restore`.

        The files of the savepoint are not cleaned until `delete_savepoint`.

        Args:
            instant: The write's requested time; the newest write by default.
            user: Who makes the savepoint; recorded in it.
            comments: Why the savepoint is made; recorded in it.
            dry_run: Write nothing, and return the instant of the savepoint.

        Returns:
            The instant, for `restore`.

        Raises:
            ValueError: there is no such completed write, or a clean may have deleted its files.
            ConflictError: a restore is not finished.
            LockTimeoutError: the table lock could not be acquired.
        """
        if instant is not None:
            check_text("instant", instant)
        check_text("user", user)
        check_text("comments", comments)
        check_bool("dry_run", dry_run)
        if dry_run:
            return preview_savepoint(self._transactions.rollback_planner(self.config), instant)
        with self._transactions.locked() as table:
            return put_savepoint(Rollbacks(table), instant, user, comments)

    def delete_savepoint(self, instant: str) -> None:
        """Delete a savepoint: its files may then be cleaned, and its write be rolled back.

        Raises:
            ValueError: there is no savepoint at this instant.
            ConflictError: a restore is not finished.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_text("instant", instant)
        with self._transactions.locked() as table:
            delete_savepoint(Rollbacks(table), instant)

    def restore(self, savepoint: str, *, dry_run: bool = False) -> RestoreResult:
        """Take back every write after a savepoint.

        Until the restore is done, readers see the table as it was after one of these writes, and
        writes are refused. After a crash, call this again.

        Args:
            savepoint: The savepoint's instant.
            dry_run: Write nothing, and return what would be done.

        Raises:
            ValueError: there is no such savepoint.
            ConflictError: there is a later savepoint; a writer is at work; another restore is not
                finished; or a write to take back was archived.
            CorruptError: files of the savepoint are missing.
            UnsupportedError: the table has a metadata table.
            LockTimeoutError: the table lock could not be acquired.
        """
        check_text("savepoint", savepoint)
        check_bool("dry_run", dry_run)
        if dry_run:
            return preview_restore(self._transactions.rollback_planner(self.config), savepoint)
        with self._transactions.exclusive() as rollbacks:
            return restore(rollbacks, savepoint)

    def pin_index(self) -> bool:
        """Record the index in hoodie.properties, where Hudi's DataFrame writers obey it.

        The index of `open`, or the index that was inferred from keys, is first proved for every
        partition. Writes record the index too, where they can (`WriterConfig.pin_index`).

        Returns:
            Whether hoodie.properties changed: False if the index was recorded before.

        Raises:
            IndexUnknownError: the index is unknown, or not proved for a partition; the message
                names the partition and the reason.
            ValueError: `index` of `open` contradicts the table.
            UnsupportedError: the index of the table has no buckets.
            ConflictError: other writers completed writes meanwhile, three times.
            LockTimeoutError: the table lock could not be acquired.
        """
        for attempts_left in (2, 1, 0):
            self._adopt(load_config(self.store, self.limits))
            snapshot = self._listed_snapshot()
            if is_recorded(self.config, snapshot):
                return False
            try:
                config = pin_index(snapshot, self._index_finder, self._transactions)
            except ConflictError:
                if not attempts_left:
                    raise
                continue
            self._adopt(config)
            break
        return True

    def partitions_to_check(self) -> tuple[str, ...]:
        """Return the partition paths that `check` examines, for dividing the work.

        Raises:
            StorageError: the timeline cannot be listed.
        """
        return checking.find_partitions(self.store, self.config, self.limits)

    def check(
        self,
        depth: Depth = "default",
        partitions: Sequence[str] | None = None,
        since: Moment | None = None,
        max_findings: int = 100,
        progress: ProgressCallback | None = None,
        *,
        metadata_table_only: bool = False,
    ) -> CheckReport:
        """Check the table as a file-system check does. Reads only.

        Damage in the table becomes a finding and raises no error, and the report lists everything
        that could not be checked. Ctrl-C ends the check with a report of the findings so far.

        Args:
            depth: quick: timeline, listings and names; no data file is opened. default: also
                footers, log framing and hashing metadata. full: also the checksum of every
                page, and the hash of every key.
            partitions: Check only these partition paths. The timeline is always checked.
            since: Open only the files of file groups that were written after this moment.
            max_findings: Keep this many findings, the worst first.
            progress: Called during the check.
            metadata_table_only: Compare only the metadata table with the table.

        Raises:
            ValueError: the depth or a partition is unknown, or the index of `open` contradicts
                the table.
            StorageError: the timeline cannot be listed.
        """
        return checking.check_table(
            self.store,
            self.config,
            self.limits,
            self._index_finder,
            depth=depth,
            partitions=partitions,
            since=self._instant(since),
            max_findings=max_findings,
            progress=progress,
            metadata_table_only=metadata_table_only,
        )


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
) -> CheckReport:
    """Check the table at `uri`, even if `open` refuses the table for damaged properties.

    The damage becomes finding T006, and the table is checked by the properties that are left.
    The first arguments are those of `open`, the others those of `Table.check`.

    Raises:
        TableNotFoundError: there is no table at `uri`.
        CorruptError: hoodie.properties is too damaged for reading the table.
        UnsupportedError: this release does not read tables of this version or kind.
        ValueError: `index`, or another argument, contradicts the table.
    """
    _check_opening(storage_options, index, limits, None)
    limits = DEFAULT_LIMITS if limits is None else limits
    store = open_store(uri, storage_options, limits)
    table = Table(store, load_config_to_check(store, limits), limits, index)
    return table.check(
        depth,
        partitions,
        since,
        max_findings,
        progress,
        metadata_table_only=metadata_table_only,
    )


def _check_compaction(min_log_files: object, codec: object = None, progress: object = None) -> None:
    check_int("min_log_files", min_log_files)
    if codec is not None:
        check_choice("codec", codec, get_args(Codec))
    if progress is not None:
        check_callable("progress", progress)


class ResizeArguments(TypedDict, total=False):
    """Keyword arguments of all resizes.

    Attributes:
        min_buckets: A partition keeps at least so many buckets. By default what the table states
            (`hoodie.bucket.index.min.num.buckets`), or the number of buckets that partitions begin
            with.
        max_buckets: A partition gets at most so many buckets. By default what the table states
            (`hoodie.bucket.index.max.num.buckets`), or any number.
        max_file_size: Bytes of a base file, as the writers of the table have it; by default 120
            MiB. Buckets of more than twice as much are split, and neighbours of at most a fifth are
            merged.
        split: Where buckets of a ring are divided: `"middle"`, as Hudi has it, halves the range.
            `"even"` reads the keys, and finds where parts get as many rows each.
        sort_by: Columns to sort rows by; then all other buckets are sorted as well.
        partitions: Only these partition paths; by default all that are not being resized.
        max_bytes: Bytes that one resize reads; by default 2 GiB. One bucket at least.
        max_groups: Buckets, or groups of neighbours, of one resize.
        max_partitions: Partitions of one resize.
    """

    min_buckets: int
    max_buckets: int
    max_file_size: int
    split: Literal["middle", "even"] | SplitPolicy
    sort_by: Sequence[str]
    partitions: Sequence[str]
    max_bytes: int
    max_groups: int
    max_partitions: int


def _resize_limits(options: ResizeArguments) -> tuple[ResizeLimits, Sequence[str] | None]:
    given = dict(options)
    unknown = sorted(set(given) - ResizeArguments.__annotations__.keys())
    if unknown:
        raise TypeError(f"resize has no argument {unknown[0]!r}")
    partitions = given.pop("partitions", None)
    if partitions is not None:
        partitions = check_names("partitions", partitions)
    split = given.pop("split", "middle")
    policy = parse_split_policy(split) if isinstance(split, str) else split
    if not isinstance(policy, SplitPolicy):
        raise TypeError(f'split is "middle", "even" or a value such as EvenSplit(), not {split!r}')
    sort_by = given.pop("sort_by", None)
    columns = () if sort_by is None else tuple(check_names("sort_by", sort_by))
    numbers = {name: check_int(name, value, 1) for name, value in given.items()}
    return ResizeLimits(split=policy, sort_by=columns, **numbers), partitions


def _check_rescale(rules: object, default: object, add: object) -> None:
    check_text("rules", rules)
    if default is not None:
        check_int("default", default, 1)
    check_bool("add", add)


class WriteArguments(TypedDict, total=False):
    """Keyword arguments of all writes.

    Attributes:
        commit_metadata: Entries of text for the commit's `extraMetadata`. The entries that the
            writer sets (`schema`, `latest_schema`, `bucketfmt.idempotency_key`) are refused.
        idempotency_key: Text that is not empty. A second write with the same key commits nothing
            and returns the first commit.
        read_at: The `timeline` of the table from whose rows the given rows were computed. A write
            of another writer to the same buckets since then is a conflict, without another try.
        retries: How often to try again after a conflict; by default 3.
        evolve: Whether the rows may add columns to the table and widen its types; by default False.
            A wider type holds every stored value: int32 becomes int64 or float64, decimals get
            more digits. Key, partition and ordering columns keep their types.
        missing: What to store in columns that the rows lack. `error`, the default, refuses the
            rows. `null` stores null. `keep`, for upsert and insert, is a partial update: rows with
            known keys keep the stored values, rows with new keys get null.
        codec: The codec of parquet: zstd, snappy, gzip or none. By default the codec in
            hoodie.properties (`hoodie.parquet.compression.codec`); else that of the file that is
            rewritten, or, for a new file, of the table's newest base file; else zstd.
        log_format: The format of rows in log blocks: avro (the default) or parquet.
        progress: Called as files are written. An exception that it raises ends the write.
    """

    commit_metadata: Mapping[str, str]
    idempotency_key: str
    read_at: Timeline
    retries: int
    evolve: bool
    missing: Missing
    codec: Codec | None
    log_format: DataFormat
    progress: ProgressCallback


def _options(given: WriteArguments) -> WriteOptions:
    found = WriteOptions(
        commit_metadata=given.get("commit_metadata"),
        idempotency_key=given.get("idempotency_key"),
        read_at=given.get("read_at"),
        retries=given.get("retries", 3),
        evolve=given.get("evolve", False),
        missing=given.get("missing", "error"),
        formats=FileFormats(given.get("codec"), given.get("log_format", "avro")),
        progress=given.get("progress"),
    )
    unknown = given.keys() - WriteArguments.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown argument {sorted(unknown)[0]!r}")
    return found
