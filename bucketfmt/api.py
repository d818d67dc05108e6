"""`open` and `Table`: the way in.

A table is put together here from what reads it and from what is done with it besides, because
the latter stands on the former (docs/decisions/0006).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
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
from bucketfmt.errors import ConflictError, NotFoundError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.model import Index
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.process import cached_property
from bucketfmt.progress import ProgressCallback
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
from bucketfmt.write.commit.transaction import Transactions
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
from bucketfmt.write.undo.savepoints import RestoreResult, delete_savepoint, put_savepoint, restore

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["StartedOperation", "Table", "WriteArguments", "check_table", "create", "open"]

StartedOperation = Literal[
    "upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete"
]


def open(  # noqa: A001  (bucketfmt.open)
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
    limits: Limits | None = None,
    writer: WriterConfig | None = None,
) -> Table:
    """Return the Hudi table at `uri`. Writes nothing.

    Args:
        uri: A path, or any URL fsspec knows.
        storage_options: Passed to fsspec.
        index: How keys map to buckets, where the table does not record it.
        limits: Bounds on what the table may make this process hold.
        writer: How this table is written to, if it is.

    Raises:
        TableNotFoundError: there is no `.hoodie/hoodie.properties` at `uri`.
        UnsupportedError: the table is of a version or kind that this release does not read.
        CorruptError: hoodie.properties is damaged, and so is its backup if there is one.
        TypeError: an argument of another type.
        ValueError: `index` contradicts what the table records.
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
    """Make a new Hudi table at `uri` and return it.

    The index is written into hoodie.properties, where Hudi's writers find it: nobody can write
    with another number of buckets by mistake.

    Args:
        uri: A path, or any URL fsspec knows; its last part names the table unless `name` does.
        schema: The columns.
        record_key: The columns that tell records apart, within their partition.
        partition_by: The columns that make partitions; `"made:TIMESTAMP"` for one whose path is a
            date format, with the `hoodie.keygen.timebased.*` properties.
        ordering: The columns by which the newer of two rows with one key is found. None: the row
            written later.
        index: How keys map to buckets.
        table_type: COPY_ON_WRITE: files are rewritten. MERGE_ON_READ: changes are logged.
        table_version: 6 for Hudi 0.14 and 0.15, 8 for 1.0, 9 for 1.1 and later.
        name: The table's name.
        storage_options: Passed to fsspec.
        properties: More of hoodie.properties, such as
            `hoodie.datasource.write.hive_style_partitioning`.
        limits: As for `open`.
        writer: As for `open`.

    Raises:
        ValueError: there is a table already, or arguments contradict one another.
        SchemaError: a field that is not among the columns.
        TypeError: an argument of another type.
        UnsupportedError: a column of a type that Hudi has not.
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
    return Table(store, load_config(store, limits), limits, None, writer)


def _check_opening(storage_options: object, index: object, limits: object, writer: object) -> None:
    """Refuse arguments of `open` that are of another type. None is what is not given."""
    for name, value, kind, wanted in (
        ("storage_options", storage_options, Mapping, "a dict for fsspec"),
        ("index", index, Index, "a value such as SimpleBucketIndex(16)"),
        ("limits", limits, Limits, "a value such as Limits(ring_nodes_max=1000)"),
        ("writer", writer, WriterConfig, 'a value such as WriterConfig(lock="storage")'),
    ):
        if value is not None:
            check_kind(name, value, kind, wanted)


class Table(ReadableTable):
    """A Hudi table. Follows its timeline: each call sees the newest completed commit.

    Safe to use from several threads. Threads that share a Table, and the children of a process
    that forks, are writers like any other: they wait for one another, or get LockTimeoutError or
    ConflictError. A write, or a compaction, that was begun before a fork stays the parent's.

    Attributes:
        config: The table's properties, typed.
        limits: The bounds it was opened with.
        store: Its files.
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
        """Pickle what it was opened with, secrets of the store among it."""
        index = self._index_finder.argument
        return Table, (self.store, self.config, self.limits, index, self._writer_config)

    @cached_property
    def _transactions(self) -> Transactions:
        return open_transactions(self.store, self.config, self.limits, self._writer_config)

    @cached_property
    def _writer(self) -> TableWriter:
        return TableWriter(
            self._snapshot,
            self._adopt,
            self._index_finder,
            self._transactions,
            concurrency=self._writer_config.concurrency,
            pin_index=self._writer_config.pin_index,
        )

    def upsert(self, data: DataLike, **options: Unpack[WriteArguments]) -> CommitResult:
        """Write rows: those of new keys are added, those of known keys replace what is there.

        A key is one within its partition: a row with another partition is another record. Of
        several rows with one key, and of a row and what is there, the ordering fields decide. A
        row whose column `_hoodie_is_deleted` is true deletes. A delete ends what was known of a
        key: the next row of the key is a new row, whatever its ordering value.

        Args:
            data: Anything with an Arrow C stream, larger than memory if need be.
            options: See `WriteArguments`.

        Raises:
            SchemaError: the rows do not fit the table: a column is new or missing, without
                `evolve` or `missing`; a value is not equal to any of the column's type.
            KeyEncodingError: a key that is null or empty, that rows of other values would have too,
                or on which Hudi never returns.
            UnsafePathError: a partition value that would lead out of the table.
            IndexUnknownError: nothing says how keys map to buckets.
            CorruptError: a bucket has two file groups.
            ConflictError: other writers wrote to the same buckets, again and again.
            LockTimeoutError: another writer has the table lock.
            UnsupportedError: the table has a metadata table, or is of a kind that is not written.
            CommitUnknownError: the store failed and does not tell whether the commit took effect.
        """
        return self._writer.write_rows(WriteOperation.UPSERT, data, _options(options))

    def insert(self, data: DataLike, **options: Unpack[WriteArguments]) -> CommitResult:
        """Write rows as `upsert` does, told apart from it in the history only.

        Hudi may keep both rows where an inserted key is there already; this does not.
        """
        return self._writer.write_rows(WriteOperation.INSERT, data, _options(options))

    def bulk_insert(self, data: DataLike, **options: Unpack[WriteArguments]) -> CommitResult:
        """Write rows into empty buckets, without looking for equal keys among them.

        Raises:
            ValueError: a bucket has rows.
        """
        return self._writer.write_rows(WriteOperation.BULK_INSERT, data, _options(options))

    def insert_overwrite(
        self, data: DataLike, *, table: bool = False, **options: Unpack[WriteArguments]
    ) -> CommitResult:
        """Replace the partitions that the rows are in; with `table=True`, all of the table."""
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
        """Delete the rows of keys, or those that pass a filter.

        They pass as of one moment: where others write to their buckets before they are deleted,
        they are looked for again. Where there is no such row nothing is committed, unless an
        `idempotency_key` or `commit_metadata` is to be recorded: `CommitResult.committed`.

        Args:
            keys: As for `locate`. Keys without a partition are looked for in all.
            filter: As for `scan`.
            options: See `WriteArguments`.

        Raises:
            ValueError: both are given, or none.
            ConflictError: other writers wrote to the same buckets, again and again.
        """
        if (keys is None) == (filter is None):
            raise ValueError("delete takes keys or a filter")
        if filter is not None:
            return self._delete_where(filter, _options(options))
        found = self._read_keys(keys)
        if found.partition_paths is None:
            found = self._keys_of(self.lookup(found.record_keys, key_columns(self.config)))
        return self._writer.delete_keys(found, _options(options))

    def _delete_where(self, row_filter: FilterLike, options: WriteOptions) -> CommitResult:
        """Delete the rows that pass. One that was written since may pass no more."""
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
        """Return the keys of rows of the table, each with its partition."""
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
            ValueError: there is no such partition.
        """
        paths = check_names("paths", paths)
        return self._writer.delete_partitions(paths, _options(options))

    def start_write(
        self, operation: StartedOperation, schema: pa.Schema, **options: Unpack[WriteArguments]
    ) -> StartedWrite:
        """Begin a write whose files other processes are to write, and commit it afterwards.

        >>> with t.start_write("upsert", schema) as started:       # doctest: +SKIP
        ...     task = started.task                                # send it, with all rows of a
        ...     receipts = list(task.write(rows, "0-0-0"))         # bucket in one place
        ...     started.publish(receipts)

        Where this process dies, the next write takes it back. `retries` and `idempotency_key`
        are the caller's to heed beforehand: see `find_commit`.

        Args:
            operation: What to do.
            schema: The columns of the rows. Of a delete: those of the keys with their partitions.
            options: See `WriteArguments`.

        Raises:
            SchemaError: rows of these columns do not fit the table.
            IndexUnknownError: nothing says how keys map to buckets.
            LockTimeoutError: another writer has the table lock.
            UnsupportedError: the table has a metadata table, or is of a kind that is not written.
        """
        if operation not in get_args(StartedOperation):
            raise ValueError(f"no operation {operation!r}: {', '.join(get_args(StartedOperation))}")
        check_kind("schema", schema, pa.Schema, "a pyarrow Schema")
        started = WriteOperation(operation)
        incoming = None if started.takes_keys else schema
        return self._writer.start(started, incoming, _options(options))

    def resume_write(self, task: WriteTask, **options: Unpack[WriteArguments]) -> StartedWrite:
        """Take up a write that another process began, to publish it or to take it back.

        >>> task = t.start_write("upsert", schema).hand_over()     # doctest: +SKIP
        >>> with t.resume_write(task) as started:                  # elsewhere; doctest: +SKIP
        ...     started.publish(receipts)

        Its heartbeat is kept going from here on. One process publishes, once.

        Args:
            task: What `StartedWrite.hand_over` returned.
            options: See `WriteArguments`; how files are encoded, the task has.

        Raises:
            ConflictError: it has ended, or is being taken back since nothing kept it alive.
            LockTimeoutError: another writer has the table lock.
        """
        check_kind("task", task, WriteTask, "what StartedWrite.hand_over returned")
        return self._writer.resume(task, _options(options))

    def keep_alive(self, task: WriteTask) -> AbstractContextManager[None]:
        """Return a context in which the heartbeat of a write goes on that was handed over.

        For whoever writes its files: where nothing keeps a write alive for two minutes, the next
        writer may take it back.

        Raises:
            ConflictError: as `resume_write`; LockTimeoutError likewise.
        """
        check_kind("task", task, WriteTask, "what StartedWrite.hand_over returned")
        return self._writer.keep_alive(task)

    def find_commit(self, idempotency_key: str) -> CommitResult | None:
        """Return the commit that was made with this key; None if there is none."""
        check_idempotency_key(idempotency_key)
        return self._transactions.find_repeated(idempotency_key)

    def compact(
        self,
        *,
        min_log_files: int = 1,
        codec: Codec | None = None,
        progress: ProgressCallback | None = None,
    ) -> CommitResult | None:
        """Make what was logged into base files: readers then merge nothing.

        A compaction that is pending, scheduled by Hudi or left by a crash, is executed as it was
        planned, without log files that no completed instant wrote and that are gone: their write
        failed and took them back. Otherwise a compaction is scheduled and executed. Writers may go
        on meanwhile. Do not run it while Hudi executes a compaction, which looks the same as one
        that failed.

        Args:
            min_log_files: Leave file groups with fewer log files as they are.
            codec: Of parquet; by default that of the table's files, as in `WriteArguments`.
            progress: Called as it goes on.

        Returns:
            The commit; None if nothing was pending and there was nothing to compact.

        Raises:
            ConflictError: another process is executing the pending compaction.
            CorruptError: a file that is to be compacted is missing or damaged.
            UnsupportedError: the table has a metadata table, or is of a kind that is not written.
            LockTimeoutError: another writer has the table lock.
            CommitUnknownError: the store failed and does not tell whether the commit took effect.
        """
        _check_compaction(min_log_files, codec, progress)
        compactor = Compactor(self._snapshot, self._transactions)
        return compactor.run(min_log_files, codec, progress)

    def preview_compaction(self, *, min_log_files: int = 1) -> CompactionPreview:
        """Return what `compact` would do now. Reads only; raises what `compact` would at once."""
        _check_compaction(min_log_files)
        return Compactor(self._snapshot, self._transactions).preview(min_log_files)

    def start_compaction(
        self, *, min_log_files: int = 1, codec: Codec | None = None
    ) -> StartedCompaction | None:
        """Begin a compaction whose files other processes are to write. As `compact` otherwise.

        >>> with t.start_compaction() as started:                             # doctest: +SKIP
        ...     task = started.task                                           # send it
        ...     receipts = [task.compact(p, f"{n}-0-0") for n, p in enumerate(started.payloads)]
        ...     started.publish(receipts)
        """
        _check_compaction(min_log_files, codec)
        compactor = Compactor(self._snapshot, self._transactions)
        return compactor.start(min_log_files, codec)

    def clean(
        self,
        *,
        policy: CleanPolicy = "KEEP_LATEST_COMMITS",
        retain: int | None = None,
        dry_run: bool = True,
        progress: ProgressCallback | None = None,
    ) -> CleanResult:
        """Delete files that no reader of the retained commits needs; first only say which.

        Never deleted are files of the newest file slices, of savepoints, and those that pending
        compactions and clusterings need. A clean that a crash left pending is completed first.

        Args:
            policy: KEEP_LATEST_COMMITS: the table can be read as of the last `retain` commits.
                KEEP_LATEST_FILE_VERSIONS: of each file group `retain` file slices are kept, and
                nothing of those that were replaced.
            retain: 10 commits or 3 versions by default.
            dry_run: Delete nothing.
            progress: Called as it goes on.

        Raises:
            ValueError: `retain` is not positive, or an unknown policy.
            UnsupportedError: the table has a metadata table, or is of a kind that is not written.
            LockTimeoutError: another writer has the table lock.
        """
        check_bool("dry_run", dry_run)
        if progress is not None:
            check_callable("progress", progress)
        retention = Retention(policy, retain)
        cleaner = Cleaner(self._snapshot, self._transactions, progress)
        return cleaner.preview(retention) if dry_run else cleaner.run(retention)

    def archive(
        self, *, min_commits: int = 20, max_commits: int = 30, dry_run: bool = False
    ) -> tuple[Instant, ...]:
        """Move the oldest instants to the archived timeline; return them.

        Rows are read as before, and `changes` and `idempotency_key` reach into the archive. Only
        `scan(as_of=...)` of archived commits may find files cleaned. Nothing happens while there
        are no more than `max_commits`.

        Args:
            min_commits: How many commits to leave, at least.
            max_commits: How many there may be before anything is done.
            dry_run: Move nothing, and return what would be moved.

        Raises:
            ValueError: fewer than 1 commit would be left, or more than the most.
            UnsupportedError: the table has a metadata table.
            CorruptError: an instant, or the archived timeline, is damaged.
            LockTimeoutError: another writer has the table lock.
        """
        check_bool("dry_run", dry_run)
        kept = Kept(min_commits, max_commits)
        archiver = Archiver(self._snapshot, self._transactions)
        return archiver.preview(kept) if dry_run else archiver.run(kept)

    def rollback(self, instant: str, *, dry_run: bool = False) -> RollbackResult:
        """Take one write back: one that failed, or the newest that was completed.

        Writes that failed need no call: the next write takes them back. A rollback that a crash
        left half done is finished by this call, or by the next write.

        Args:
            instant: The write's requested time, as `inspect.commits()` tells it.
            dry_run: Write nothing, and return what would be done.

        Raises:
            ValueError: no such write is on the active timeline.
            ConflictError: it is savepointed; it is not the newest; a compaction or a clean came
                after it; all writes before it are archived, and it tells where the archive ends;
                a writer is at work; a restore was begun and not finished.
            UnsupportedError: the table has a metadata table.
            LockTimeoutError: another writer has the table lock.
        """
        check_text("instant", instant)
        check_bool("dry_run", dry_run)
        if dry_run:
            return self._transactions.rollbacks(self.config).roll_back(instant, dry_run=True)
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
        """Keep the table as it was after a write, so that it can be restored to it.

        Its files are not cleaned until `delete_savepoint`.

        Args:
            instant: The write's requested time; the newest by default.
            user: Who does it, for the record.
            comments: Why, for the record.
            dry_run: Write nothing, and return which instant it would be.

        Returns:
            The instant, for `restore`.

        Raises:
            ValueError: no such write is completed, or a clean may have deleted files of it.
            ConflictError: a restore was begun and not finished.
            LockTimeoutError: another writer has the table lock.
        """
        if instant is not None:
            check_text("instant", instant)
        check_text("user", user)
        check_text("comments", comments)
        check_bool("dry_run", dry_run)
        if dry_run:
            rollbacks = self._transactions.rollbacks(self.config)
            return put_savepoint(rollbacks, instant, user, comments, dry_run=True)
        with self._transactions.exclusive(keeps_files=True) as rollbacks:
            return put_savepoint(rollbacks, instant, user, comments)

    def delete_savepoint(self, instant: str) -> None:
        """Give a savepoint up: its files may be cleaned, and its write be rolled back.

        Raises:
            ValueError: there is none at this instant.
            ConflictError: a restore was begun and not finished.
            LockTimeoutError: another writer has the table lock.
        """
        check_text("instant", instant)
        with self._transactions.exclusive(keeps_files=True) as rollbacks:
            delete_savepoint(rollbacks, instant)

    def restore(self, savepoint: str, *, dry_run: bool = False) -> RestoreResult:
        """Take back every write after a savepoint.

        Until it is done, readers see the table as it was after one of these writes, and nobody
        can write. After a crash, call it again.

        Args:
            savepoint: Its instant.
            dry_run: Write nothing, and return what would be done.

        Raises:
            ValueError: there is no such savepoint.
            ConflictError: there is a later savepoint; a writer is at work; another restore was
                begun; a write to take back was archived.
            CorruptError: files of the savepoint are gone.
            UnsupportedError: the table has a metadata table.
            LockTimeoutError: another writer has the table lock.
        """
        check_text("savepoint", savepoint)
        check_bool("dry_run", dry_run)
        if dry_run:
            rollbacks = self._transactions.rollbacks(self.config)
            return restore(rollbacks, savepoint, dry_run=True)
        with self._transactions.exclusive() as rollbacks:
            return restore(rollbacks, savepoint)

    def pin_index(self) -> bool:
        """Record the index in hoodie.properties, where Hudi's DataFrame writers obey it.

        The index given to `open`, or the one that keys prove, is proved for every partition
        first. Writes do the same on their way (`WriterConfig.pin_index`), where they can.

        Returns:
            Whether hoodie.properties changed: False where the index was recorded already.

        Raises:
            IndexUnknownError: the index is unknown, or not proved for a partition: the message
                says which one and why.
            ValueError: `index` of `open` contradicts the table.
            UnsupportedError: the table has an index without buckets.
            ConflictError: other writers completed writes meanwhile, three times.
            LockTimeoutError: another writer has the table lock.
        """
        for attempts_left in (2, 1, 0):
            self._adopt(load_config(self.store, self.limits))
            if is_recorded(self.config):
                return False
            try:
                config = pin_index(self._snapshot(), self._index_finder, self._transactions)
            except ConflictError:
                if not attempts_left:
                    raise
                continue
            self._adopt(config)
            break
        return True

    def partitions_to_check(self) -> tuple[str, ...]:
        """Return the partition paths that `check` goes through, for dividing the work.

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
    ) -> CheckReport:
        """Check the table as a file-system check does. Reads only.

        Whatever is wrong with the table becomes a finding, and whatever could not be looked at
        is said: nothing in a table raises here. Ctrl-C ends the check with a report of what was
        found until then.

        Args:
            depth: quick: timeline, listings and names; no data file is opened. default: also
                footers, log framing and hashing metadata. full: also the checksum of every
                page, and every key hashed again.
            partitions: Only these partition paths. The timeline is always checked.
            since: Open only the files of file groups written to after this moment.
            max_findings: Keep so many; the worst.
            progress: Called as the check goes on.

        Raises:
            ValueError: an unknown depth or partition, or the index given to `open` contradicts
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
) -> CheckReport:
    """Check the table at `uri`, also one that `open` refuses because its properties are damaged.

    Such a damage is finding T006, and the table is checked by what the properties still tell.
    The first arguments are those of `open`, the others those of `Table.check`.

    Raises:
        TableNotFoundError: there is no table at `uri`.
        CorruptError: hoodie.properties is so damaged that the table cannot be read by it.
        UnsupportedError: the table is of a version or kind that this release does not read.
        ValueError: `index`, or another argument, contradicts the table.
    """
    _check_opening(storage_options, index, limits, None)
    limits = DEFAULT_LIMITS if limits is None else limits
    store = open_store(uri, storage_options, limits)
    table = Table(store, load_config_to_check(store, limits), limits, index)
    return table.check(depth, partitions, since, max_findings, progress)


def _check_compaction(min_log_files: object, codec: object = None, progress: object = None) -> None:
    check_int("min_log_files", min_log_files)
    if codec is not None:
        check_choice("codec", codec, get_args(Codec))
    if progress is not None:
        check_callable("progress", progress)


class WriteArguments(TypedDict, total=False):
    """Keyword arguments of all writes.

    Attributes:
        commit_metadata: Entries of text for the commit's `extraMetadata`. Those that the writer
            sets (`schema`, `latest_schema`, `bucketfmt.idempotency_key`) are refused.
        idempotency_key: Text that is not empty. The same key never commits twice: it returns the
            first commit.
        read_at: The `timeline` of the table that the rows were worked out from. A write to the
            same buckets since then is a conflict, and is not tried again.
        retries: How often to begin anew after a conflict; 3.
        evolve: Whether the rows may add columns to the table, and make its types wider; False.
            A wider type holds every stored value: int32 becomes int64 or float64, decimals get
            more digits. Columns that make keys, partitions or the order of rows keep their types.
        missing: What becomes of columns that the rows lack. `error`, the default: the rows are
            refused. `null`: these columns are null. `keep`, of upsert and insert: rows of known
            keys keep the stored values, a partial update; those of new keys have null.
        codec: Of parquet: zstd, snappy, gzip or none. By default what hoodie.properties states
            (`hoodie.parquet.compression.codec`), else the codec of the file that is rewritten, or
            for a new file of the table's newest base file, and zstd in a table without base files.
        log_format: Of log blocks: avro (the default) or parquet.
        progress: Called as files are written. What it raises ends the write.
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
