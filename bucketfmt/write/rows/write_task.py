"""The half of a write that happens where the rows are: in a thread, a process, an executor.

I/O. A `WriteTask` is a small value that pickles: it holds the table as the write began on it by
its timeline, and reads commits and listings again where it is used. Source: Hudi's write
functions, which Spark runs a task a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bucketfmt.choices import Concurrency
from bucketfmt.format.names.names import parse_write_token
from bucketfmt.format.timeline.write_operation import WriteOperation
from bucketfmt.location.routes import Route
from bucketfmt.process import cached_property
from bucketfmt.storage.streams import map_in_order
from bucketfmt.table.keys import read_keys
from bucketfmt.table.pinned import PinnedTable
from bucketfmt.write.commit.receipts import encode_receipt
from bucketfmt.write.files.plan_write import GroupWrite
from bucketfmt.write.files.write_settings import RowNumbering
from bucketfmt.write.rows.basis import Basis
from bucketfmt.write.rows.bucket_writer import BucketWriter, FileFormats
from bucketfmt.write.rows.data_like import DataLike, open_rows
from bucketfmt.write.rows.gathering import gather_keys, gather_rows
from bucketfmt.write.rows.grouping import GroupedRows
from bucketfmt.write.rows.incoming import IncomingRows
from bucketfmt.write.rows.schema_change import GivenColumns

__all__ = ["WriteTask"]

_THREADS = 4
_NETWORK_THREADS = 16  # of a task, beside those of the machine's other tasks
_MANY = 16  # buckets of a task, from which on waiting for the disk is worth threads
_SMALL_ROWS = 10_000
_SMALL_BYTES = 1 << 20  # of the files of a bucket that are read to write the next


@dataclass(frozen=True, eq=False)
class WriteTask:
    """Writes rows of whole buckets for a write that was started elsewhere.

    Pickles; holds the store's options, secrets among them. To be used by one thread.

    Attributes:
        table: As the write stands on it.
        incoming: The columns of the rows, and what they may change; None for keys to delete.
        operation: What the write does.
        instant: The write's requested time.
        formats: How files are encoded.
        concurrency: How the table's writers go together.
    """

    table: PinnedTable
    incoming: GivenColumns | None
    operation: WriteOperation
    instant: str
    formats: FileFormats
    concurrency: Concurrency = "optimistic"

    def write(self, data: DataLike, write_token: str) -> Iterator[bytes]:
        """Write rows, and yield a receipt for each bucket there are rows of.

        All rows of a bucket go to one task. A task that failed is run again with another token.
        Rows are spilled to disk where they are more than memory should hold; a bucket's rows are
        in memory while it is written. Many small buckets are written several at a time, since most
        of their time is spent waiting for the store.

        Args:
            data: Anything with an Arrow C stream; for a delete, keys with their partitions as
                `Table.locate` takes them.
            write_token: `<task>-<stage>-<attempt>`: three numbers that no other attempt has.

        Raises:
            SchemaError: rows do not fit the table.
            KeyEncodingError: a key that is null or empty, that rows of other values would have too,
                or on which Hudi never returns.
            UnsafePathError: a partition value that would lead out of the table.
            CorruptError: a bucket has two file groups; a file of it is damaged.
            ConflictError: the write has ended meanwhile: nobody waits for this attempt.
            StorageError: the store failed.
            ValueError: keys without their partitions, a bulk-insert into a bucket with rows.
        """
        task_partition_id = parse_write_token(write_token).task_partition_id
        with GroupedRows() as grouped:
            self._gather(data, grouped)
            writer, written, routes = self._writer, 0, grouped.routes
            writer.locator.put_metadata(route.partition_path for route in routes)
            planned: list[tuple[GroupWrite, list[Route], RowNumbering]] = []
            are_small = True
            for group, own in writer.targets(grouped.counts):
                plan = writer.plan(group, own, write_token)
                if plan is not None:
                    num_rows = grouped.num_rows(own)
                    planned.append((plan, own, RowNumbering(task_partition_id, written)))
                    written += num_rows
                    stored = 0 if plan.file_slice is None else plan.file_slice.size
                    are_small &= num_rows <= _SMALL_ROWS and stored <= _SMALL_BYTES

            def write(each: tuple[GroupWrite, list[Route], RowNumbering]) -> bytes:
                return encode_receipt(writer.write(*each, grouped.rows))

            workers = 1
            if are_small and not self.table.store.failures_are_final:
                workers = _NETWORK_THREADS
            elif are_small and len(planned) >= _MANY:
                workers = _THREADS
            yield from map_in_order(write, planned, workers)

    @property
    def action(self) -> str:
        """What the write is on the timeline."""
        return self.operation.action(self.table.config.table_type)

    def _gather(self, data: DataLike, grouped: GroupedRows) -> None:
        if not self.operation.takes_keys:
            alike = self.incoming is not None and self.incoming.missing == "keep"
            gather_rows(self._basis, IncomingRows(data, alike=alike), grouped, workers=1)
            return
        for batch in open_rows(data):
            keys = read_keys(
                pa.Table.from_batches([batch]),
                self.table.config,
                lambda: self.table.snapshot.schema.data,
                lambda: self._basis.key_encoding,
            )
            gather_keys(self._basis, keys, grouped)

    @cached_property
    def _basis(self) -> Basis:
        return Basis(self.table.snapshot, self.table.finder, self.incoming)

    @cached_property
    def _writer(self) -> BucketWriter:
        # All receipts come to one process: keys would make them many times as large.
        return BucketWriter(
            self._basis,
            self.operation,
            self.instant,
            self.formats,
            self.concurrency,
            reports_keys=False,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
