"""Writing rows to a table: from what a caller gives to a completed commit.

I/O. Rows are routed to their buckets, then an instant begins, every touched bucket gets one
file, and the commit is published if no other writer touched the same buckets meanwhile.
Source: BaseHoodieWriteClient, BaseCommitActionExecutor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa

from bucketfmt.errors import ConflictError, SchemaError, UnsupportedError
from bucketfmt.format.commit_metadata import CommitMetadata, WriteStat
from bucketfmt.format.hashing_metadata import encode_hashing_metadata, initial_hashing_metadata
from bucketfmt.format.instants import INIT_INSTANT
from bucketfmt.format.names import format_hashing_metadata_name, format_write_token
from bucketfmt.format.paths import join_path
from bucketfmt.format.table_config import TableConfig
from bucketfmt.index.model import ConsistentHashingIndex
from bucketfmt.rows.base_file_writer import Codec
from bucketfmt.rows.conform import conform
from bucketfmt.rows.log_writer import DataFormat
from bucketfmt.rows.meta_columns import RECORD_KEY
from bucketfmt.rows.meta_rows import add_meta_fields
from bucketfmt.rows.virtual_keys import partition_paths, record_keys
from bucketfmt.table.files import FileSlice
from bucketfmt.table.find_index import IndexFinder
from bucketfmt.table.hashing_files import HASHING_METADATA_FOLDERS, load_hashing_metadata
from bucketfmt.table.keys import KeySet
from bucketfmt.table.snapshot import Snapshot
from bucketfmt.table.streams import map_in_order, worker_count
from bucketfmt.timeline.timeline import Timeline
from bucketfmt.write.basis import Basis
from bucketfmt.write.group_writer import Deletes, GroupWriter, WriteSettings
from bucketfmt.write.grouping import BucketRef, GroupedRows, route_rows
from bucketfmt.write.incoming import DataLike, IncomingRows
from bucketfmt.write.plan_write import GroupWrite, Target, new_file_id, plan_group_write
from bucketfmt.write.result import CommitResult
from bucketfmt.write.schema_change import plain_schema
from bucketfmt.write.transaction import IDEMPOTENCY_KEY, Transaction, Transactions

__all__ = ["RowOperation", "TableWriter", "WriteOptions", "deletes_need_ordering"]

RowOperation = Literal[
    "INSERT", "UPSERT", "BULK_INSERT", "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"
]
_OVERWRITES = frozenset({"INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"})
_TOKEN_ATTEMPT_BITS = 31


@dataclass(frozen=True)
class WriteOptions:
    """How to write.

    Attributes:
        commit_metadata: Entries of the caller's for the commit's `extraMetadata`.
        idempotency_key: A commit with this key is made once: the same key again returns it.
        read_at: The timeline of the table that the caller read to decide what to write. Whoever
            wrote to the same buckets since is in conflict. None: the beginning of the write.
        retries: How often to begin anew after a conflict. Not done with `read_at`.
        codec: Of parquet.
        log_format: Of log blocks.
    """

    commit_metadata: Mapping[str, str] | None = None
    idempotency_key: str | None = None
    read_at: Timeline | None = None
    retries: int = 3
    codec: Codec = "zstd"
    log_format: DataFormat = "avro"


_Given = Mapping[BucketRef, Callable[[], "pa.Table | Deletes"]]


def deletes_need_ordering(config: TableConfig) -> bool:
    """Whether a delete without an ordering value would be in Hudi's way.

    Hudi 1.0 fails where a later row of the key has an ordering value of another class than the
    integer 0, which stands for none.
    """
    is_logged = config.table_type == "MERGE_ON_READ" and config.table_version == 8
    return is_logged and bool(config.ordering_fields)


class TableWriter:
    """Writes to one table."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        finder: IndexFinder,
        transactions: Transactions,
        workers: int | None = None,
    ) -> None:
        """Set up a writer.

        Args:
            snapshot: Returns the table as it is now.
            finder: Its index.
            transactions: Begins and publishes commits.
            workers: Files to write at a time.
        """
        self._snapshot = snapshot
        self._finder = finder
        self._transactions = transactions
        self._workers = workers or transactions.machine.processors or worker_count()

    def write_rows(
        self, operation: RowOperation, data: DataLike, options: WriteOptions
    ) -> CommitResult:
        """Write rows. Operations and errors as the methods of `bucketfmt.Table` have them."""
        repeated = self._transactions.find_repeated(options.idempotency_key)
        if repeated is not None:
            return repeated
        incoming = IncomingRows(data)
        with ExitStack() as stack:
            basis = Basis(self._snapshot(), self._finder, incoming.schema)
            grouped = stack.enter_context(GroupedRows())
            _gather(basis, incoming, grouped, self._workers)
            given = {group: partial(grouped.rows, group) for group in grouped.groups}
            return self._commit(operation, basis, given, options)

    def delete_keys(
        self, keys: KeySet, options: WriteOptions, rows: pa.Table | None = None
    ) -> CommitResult:
        """Delete the rows of keys, each in its partition.

        `rows` are these rows, one a key and in the order of `keys`, where the deletes are to
        have their ordering values.
        """
        repeated = self._transactions.find_repeated(options.idempotency_key)
        if repeated is not None:
            return repeated
        if keys.partition_paths is None:
            raise ValueError("keys to delete come with their partition paths")
        basis = Basis(self._snapshot(), self._finder)
        with_key = pa.table({RECORD_KEY: keys.record_keys})
        if rows is not None:
            with_key = rows.drop_columns([RECORD_KEY]).append_column(RECORD_KEY, keys.record_keys)
        given: dict[BucketRef, Callable[[], pa.Table | Deletes]] = {}
        for group, own in route_rows(with_key, keys.partition_paths, basis.buckets):
            if rows is None:
                deletes = Deletes(pa.chunked_array([own.column(RECORD_KEY).unique()]))
            else:
                deletes = Deletes(own.column(RECORD_KEY), own)
            given[group] = partial(_the_same, deletes)
        return self._commit("DELETE", basis, given, options)

    def delete_partitions(self, paths: Sequence[str], options: WriteOptions) -> CommitResult:
        """Hide every file group of these partitions."""
        repeated = self._transactions.find_repeated(options.idempotency_key)
        if repeated is not None:
            return repeated
        basis = Basis(self._snapshot(), self._finder)
        if isinstance(basis.index, ConsistentHashingIndex):
            raise UnsupportedError(
                "dropping partitions under consistent hashing, where file ids belong to the "
                "ring; delete the rows with a filter"
            )
        unknown = sorted(set(paths) - set(basis.snapshot.partitions))
        if unknown:
            raise ValueError(f"no partition {unknown[0]!r}; inspect.partitions() lists them")
        return self._commit("DELETE_PARTITION", basis, {}, options, paths)

    # -- commits

    def _commit(
        self,
        operation: str,
        basis: Basis,
        given: _Given,
        options: WriteOptions,
        dropped: Sequence[str] = (),
    ) -> CommitResult:
        tries = 1 if options.read_at is not None else 1 + options.retries
        for left in range(tries - 1, -1, -1):
            try:
                return self._attempt(operation, basis, given, options, dropped)
            except ConflictError:  # noqa: PERF203  (a try is a whole write)
                if not left:
                    raise
                basis = self._renewed(basis, given)
        raise ValueError(f"retries is 0 or more, not {options.retries}")

    def _renewed(self, basis: Basis, given: _Given) -> Basis:
        """Return the basis as of now, for rows that were routed by an earlier one.

        Raises:
            ConflictError: they would be routed, or stored, differently now.
        """
        renewed = Basis(self._snapshot(), self._finder, basis.incoming)
        if renewed.avro_schema != basis.avro_schema or any(
            renewed.buckets(path) != basis.buckets(path) for path, _ in given
        ):
            raise ConflictError(
                "another writer has changed the table's columns or buckets; write again"
            )
        return renewed

    def _attempt(
        self,
        operation: str,
        basis: Basis,
        given: _Given,
        options: WriteOptions,
        dropped: Sequence[str],
    ) -> CommitResult:
        is_replacing = operation in _OVERWRITES or operation == "DELETE_PARTITION"
        config = basis.snapshot.state.config
        action = "deltacommit" if config.table_type == "MERGE_ON_READ" else "commit"
        if is_replacing:
            action = "replacecommit"
        with self._transactions.begin(action) as transaction:
            if transaction.timeline.instants != basis.snapshot.state.timeline.instants:
                basis = self._renewed(basis, given)
            stats = self._write_groups(operation, basis, given, transaction, options)
            extra = {**(options.commit_metadata or {}), "schema": basis.avro_schema}
            if basis.latest_schema is not None:
                extra["latest_schema"] = basis.latest_schema
            if options.idempotency_key is not None:
                extra[IDEMPOTENCY_KEY] = options.idempotency_key
            by_partition: dict[str, list[WriteStat]] = {}
            for stat in stats:
                by_partition.setdefault(stat.partition_path or "", []).append(stat)
            metadata = CommitMetadata(
                partition_to_write_stats=by_partition,
                extra_metadata=extra,
                operation_type=operation,
                partition_to_replace_file_ids=_replaced(operation, basis, given, dropped),
            )
            return transaction.publish(
                metadata,
                basis.index,
                options.read_at or basis.snapshot.state.timeline,
                options.idempotency_key,
            )

    def _write_groups(
        self,
        operation: str,
        basis: Basis,
        given: _Given,
        transaction: Transaction,
        options: WriteOptions,
    ) -> list[WriteStat]:
        settings = WriteSettings(
            instant=transaction.instant,
            schema=basis.schema,
            avro_schema=add_meta_fields(basis.avro_schema),
            rules=basis.rules,
            combine=operation != "BULK_INSERT",
            codec=options.codec,
            log_format=options.log_format,
        )
        writer = GroupWriter(basis.snapshot, settings)
        attempt = self._transactions.machine.randbits(_TOKEN_ATTEMPT_BITS)
        plans: list[tuple[GroupWrite, Callable[[], pa.Table | Deletes]]] = []
        for group, load in given.items():
            plan = self._plan(operation, basis, group, transaction, len(plans), attempt)
            if plan is not None:
                plans.append((plan, load))
        if isinstance(basis.index, ConsistentHashingIndex):
            for path in sorted({plan.group.partition_path for plan, _ in plans}):
                _put_initial_ring(basis, basis.index, path)
        with ThreadPoolExecutor(self._workers) as pool:
            pending = [
                pool.submit(_write_one, writer, plan, number, load)
                for number, (plan, load) in enumerate(plans)
            ]
            try:
                stats = [task.result() for task in pending]
            finally:
                for task in pending:
                    task.cancel()
        return [stat for stat in stats if stat is not None]

    def _plan(
        self,
        operation: str,
        basis: Basis,
        group: BucketRef,
        transaction: Transaction,
        number: int,
        attempt: int,
    ) -> GroupWrite | None:
        """Return what to write of a bucket; None if there is nothing to delete from."""
        state = basis.snapshot.state
        buckets = basis.buckets(group.partition_path)
        file_slice: FileSlice | None = None
        if operation not in _OVERWRITES:
            file_slice = basis.slices(group.partition_path).get(group.bucket_id)
        if operation == "DELETE" and file_slice is None:
            return None
        if operation == "BULK_INSERT" and file_slice is not None:
            raise ValueError(
                f"bulk_insert into bucket {group.bucket_id} of partition "
                f"{group.partition_path!r}, which has rows; use upsert or insert"
            )
        is_ring = isinstance(basis.index, ConsistentHashingIndex)
        if state.config.table_type == "MERGE_ON_READ":
            appends = file_slice is not None or (is_ring and operation != "BULK_INSERT")
            target = Target.LOG if appends else Target.NEW_BASE
        else:
            target = Target.NEW_BASE if file_slice is None else Target.REWRITTEN_BASE
        if operation in _OVERWRITES and is_ring:
            raise UnsupportedError(
                "overwriting under consistent hashing, where file ids belong to the ring; "
                "delete the rows and insert others"
            )
        file_id = (
            file_slice.file_id
            if file_slice is not None
            else new_file_id(buckets, group.bucket_id, self._transactions.machine.new_uuid())
        )
        if file_slice is None and basis.snapshot.is_replaced(group.partition_path, file_id):
            raise UnsupportedError(
                f"file group {file_id} of the ring was replaced, by an overwrite or a dropped "
                "partition: what is written to it stays hidden. Write this partition's rows to "
                "another table",
                partition=group.partition_path,
            )
        compaction = state.pending_compactions.get((group.partition_path, file_id))
        return plan_group_write(
            group,
            file_slice,
            file_id,
            target,
            instant=transaction.instant,
            write_token=format_write_token(number, 0, attempt),
            table_version=state.config.table_version,
            listed=state.listed_files(group.partition_path).get(file_id, ()),
            pending_compaction=None if compaction is None else compaction.requested_time,
        )


def _gather(basis: Basis, incoming: IncomingRows, grouped: GroupedRows, workers: int) -> None:
    """Sort all rows into their buckets."""
    for routed in map_in_order(partial(_route, basis, incoming.schema), incoming, workers):
        for group, own in routed:
            grouped.add(group, own)


def _route(basis: Basis, schema: pa.Schema, given: pa.Table) -> list[tuple[BucketRef, pa.Table]]:
    """Bring rows to the table's columns, and return those of each bucket with their keys."""
    config, target, plain = basis.snapshot.state.config, basis.schema.data, plain_schema(schema)
    try:
        rows = given if given.schema.equals(plain) else given.cast(plain)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise SchemaError(f"a value has no place in the table: {error}") from error
    rows = conform(rows, target)
    for field in target:
        if not field.nullable and rows.column(field.name).null_count:
            raise SchemaError(f"column {field.name}: null, where the table allows none")
    keys = record_keys(rows, config)
    paths = partition_paths(rows, config)
    with_key = rows.append_column(RECORD_KEY, keys.cast(pa.string()))
    return list(route_rows(with_key, paths, basis.buckets))


def _replaced(
    operation: str, basis: Basis, given: _Given, dropped: Sequence[str]
) -> dict[str, list[str]]:
    """Return the file groups a replacement hides."""
    if operation == "INSERT_OVERWRITE_TABLE":
        paths = set(basis.snapshot.partitions)
    elif operation == "INSERT_OVERWRITE":
        paths = {group.partition_path for group in given}
    else:
        paths = set(dropped)
    known = paths & set(basis.snapshot.partitions)
    found = {path: [s.file_id for s in basis.snapshot.slices(path)] for path in sorted(known)}
    return {path: file_ids for path, file_ids in found.items() if file_ids}


def _put_initial_ring(basis: Basis, index: ConsistentHashingIndex, partition_path: str) -> None:
    """Write down the ring of a new partition, as Hudi does before the first write to it."""
    state = basis.snapshot.state
    if load_hashing_metadata(state, partition_path) is not None:
        return
    name = format_hashing_metadata_name(INIT_INSTANT)
    metadata = initial_hashing_metadata(partition_path, index.num_buckets)
    path = join_path(HASHING_METADATA_FOLDERS[0], partition_path, name)
    state.store.put_if_absent(path, encode_hashing_metadata(metadata))


def _write_one(
    writer: GroupWriter, plan: GroupWrite, number: int, load: Callable[[], pa.Table | Deletes]
) -> WriteStat | None:
    return writer.write(plan, number, load())


def _the_same(deletes: Deletes) -> Deletes:
    return deletes
