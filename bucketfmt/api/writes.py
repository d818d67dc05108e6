"""Writes of a table: rows, deletes, and writes whose files other processes write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, get_args

import pyarrow as pa

from bucketfmt.arguments import (
    check_bool,
    check_choice,
    check_kind,
    check_names,
    check_text,
)
from bucketfmt.choices import Codec, DataFormat, Missing, RowsOperation, StartedOperation
from bucketfmt.errors import ConflictError, NotFoundError
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.index.model import Index
from bucketfmt.limits import Limits
from bucketfmt.location.key_encoding import find_key_encoding
from bucketfmt.process import cached_property
from bucketfmt.progress import ProgressCallback
from bucketfmt.rows.columns.virtual_keys import partition_paths, record_keys
from bucketfmt.rows.filters.filter import FilterLike
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.schema import find_stated_text
from bucketfmt.storage.store import Store
from bucketfmt.table.keys import KeySet, KeysLike, key_columns
from bucketfmt.table.table import Table as ReadableTable
from bucketfmt.timeline.timeline import Timeline
from bucketfmt.write.commit.result import CommitResult
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.commit.writer_config import WriterConfig, open_transactions
from bucketfmt.write.metadata.metadata_partitions import MetadataPartitions
from bucketfmt.write.rows.basis import find_columns
from bucketfmt.write.rows.bucket_writer import FileFormats
from bucketfmt.write.rows.data_like import DataLike, without_index
from bucketfmt.write.rows.incoming import written_columns
from bucketfmt.write.rows.preview import WritePreview
from bucketfmt.write.rows.schema_change import plan_columns
from bucketfmt.write.rows.started_write import StartedWrite, WriteOptions, check_idempotency_key
from bucketfmt.write.rows.write_task import WriteTask
from bucketfmt.write.rows.writer import TableWriter
from bucketfmt.write.services.maintenance import Maintenance

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "WritableTable",
    "WriteArguments",
]


class WriteArguments(TypedDict, total=False):
    """Keyword arguments of all writes.

    Attributes:
        commit_metadata: Entries of text for the commit's `extraMetadata`. The entries that the
            writer sets (`schema`, `latest_schema`, `bucketfmt.idempotency_key`) are refused.
        idempotency_key: Text that is not empty. A second write with the same key commits nothing
            and returns the first commit: one that is active, or among the last ten thousand that
            were archived.
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
            rewritten, or, for a new file, of the table's newest base file; else gzip if
            Hudi wrote to the table, and zstd if not.
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


class WritableTable(ReadableTable):
    """A table with its writes."""

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

    def __reduce__(self) -> tuple[type[WritableTable], tuple[object, ...]]:
        """Pickle the arguments of `open`, including secrets of the store."""
        index = self._index_finder.argument
        return type(self), (self.store, self.config, self.limits, index, self._writer_config)

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
            maintenance=self._maintenance,
        )

    @cached_property
    def _maintenance(self) -> Maintenance | None:
        services = self._writer_config.services
        if services is None:
            return None
        return Maintenance(self._listed_snapshot, self._transactions, services)

    @cached_property
    def metadata_table(self) -> MetadataPartitions:
        """The partitions of Hudi's metadata table: `list`, `init`, `rebuild` and `drop`."""
        return MetadataPartitions(self._transactions, self._adopt)

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
            UnsupportedError: tables of this kind cannot be written, or the table has a metadata
                table and the writer is set to refuse such tables.
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

        By a record index the rows go to new file groups, and their keys have to be new.

        Raises:
            ValueError: a bucket has rows already; or, by a record index, a key is given twice or is
                stored already.
        """
        return self._writer.write_rows(WriteOperation.BULK_INSERT, data, _options(options))

    def insert_overwrite(
        self, data: DataLike, *, table: bool = False, **options: Unpack[WriteArguments]
    ) -> CommitResult:
        """Replace the partitions that the rows are in; with `table=True`, the whole table.

        Raises:
            ValueError: by a global record index, a key is stored in a partition that stays.
        """
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
        the rows, or moved rows to another partition, before they were deleted; so are keys without
        a partition looked up. If there is no such row, nothing is committed
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
        columns = key_columns(self.config)
        if filter is not None:
            return self._delete_found(
                lambda: self.scan(columns, filter).to_arrow(), _options(options)
            )
        given = self._read_keys(keys)
        if given.partition_paths is None:
            return self._delete_found(
                lambda: self._look_up(given.record_keys, columns, with_orphans=True),
                _options(options),
            )
        return self._writer.delete_keys(given, _options(options))

    def _delete_found(self, find: Callable[[], pa.Table], options: WriteOptions) -> CommitResult:
        """Delete rows of the table; find them again after a conflict."""
        left = options.allowed_retries
        while True:
            read_at = options.read_at or self.timeline
            try:
                found = self._keys_of(find())
                since = replace(options, read_at=read_at, num_found=len(found.record_keys))
                return self._writer.delete_keys(found, since)
            except (ConflictError, NotFoundError):
                if not left:
                    raise
                left -= 1

    def _keys_of(self, rows: pa.Table) -> KeySet:
        """Return the keys and partitions of rows of the table."""
        if self.config.populate_meta_fields:
            return self._read_keys(rows)
        encoding = on_newest(self._snapshot, find_key_encoding)
        keys = record_keys(rows, self.config, encoding, are_stored=True)
        return KeySet(keys, partition_paths(rows, self.config, are_stored=True))

    def delete_partitions(
        self, paths: str | Sequence[str], **options: Unpack[WriteArguments]
    ) -> CommitResult:
        """Hide all rows of these partition paths.

        Raises:
            ValueError: no path is given, or the table has no such partition.
        """
        paths = check_names("paths", paths)
        if not paths:
            raise ValueError("paths is empty: name the partitions to drop")
        return self._writer.delete_partitions(paths, _options(options))

    def preview_schema_changes(
        self, schema: pa.Schema, *, evolve: bool = False, missing: Missing = "error"
    ) -> tuple[str, ...]:
        """Return what a write of rows with these columns would change about the table's columns.

        The texts are those of `CommitResult.schema_changes`. Nothing is written.

        Args:
            schema: The columns of the rows.
            evolve: As of `WriteArguments`.
            missing: As of `WriteArguments`.

        Raises:
            SchemaError: rows of these columns would be refused.
            UnsupportedError: a new column has a type that a table cannot hold.
        """
        check_kind("schema", schema, pa.Schema, "a pyarrow Schema")
        options = WriteOptions(evolve=evolve, missing=missing)
        given = options.given(WriteOperation.UPSERT, written_columns(schema))
        snapshot = self._snapshot()
        known = find_columns(snapshot, find_stated_text(snapshot.commits, self.config))
        return () if known is None else plan_columns(known.data, given, self.config).changes

    def preview_write(
        self,
        data: DataLike,
        operation: RowsOperation = "upsert",
        **options: Unpack[WriteArguments],
    ) -> WritePreview:
        """Return what a write of rows would do, and fail as it would. Nothing is written.

        Rows that are marked as deleted count as rows. What only the stored rows tell (the columns
        that `missing="keep"` keeps), what dead writers left of a record index, the lock, and what
        other writers do meanwhile, is not looked at.

        Args:
            data: The rows, as for `upsert`.
            operation: What would be done with them.
            options: Those of the write.
        """
        check_choice("operation", operation, get_args(RowsOperation))
        return self._writer.preview_rows(WriteOperation(operation), data, _options(options))

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
            UnsupportedError: tables of this kind cannot be written, or the table has a metadata
                table and the writer is set to refuse such tables.
        """
        if check_text("operation", operation) not in get_args(StartedOperation):
            known = ", ".join(get_args(StartedOperation))
            raise ValueError(f"there is no operation {operation!r}; the operations are {known}")
        check_kind("schema", schema, pa.Schema, "a pyarrow Schema")
        started = WriteOperation(operation)
        incoming = None if started.takes_keys else without_index(schema)
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
        """Return the commit with this key; None if no commit has the key.

        Commits that are active, and the last ten thousand that were archived, are looked at.
        """
        check_idempotency_key(idempotency_key)
        return self._transactions.find_repeated(self.state, idempotency_key)
