"""`df.write.format("bucketfmt")` and `writeStream`: the data source's writers.

Spark creates the writer in one process, runs tasks in other processes, and commits in a third
process; none of them lives during the whole write. So the first process begins the write and hands
it over, each task keeps the write's heartbeat going, and the last process resumes the write and
publishes it. Spark asks a data source in Python for no distribution, so the user has to call
`place_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as ds
from pyspark.sql import types as st

import bucketfmt as bf
from bucketfmt_spark.engine.resolver import META_COLUMNS, matched_names
from bucketfmt_spark.engine.spark_types import arrow_of
from bucketfmt_spark.source.sink_options import SinkOptions
from bucketfmt_spark.writing import write_batches

__all__ = ["BatchSink", "stream_sink"]

_QUERY_ID = "sql.streaming.queryId"


class Written(ds.WriterCommitMessage):
    """The result of one task.

    Attributes:
        task: The write.
        receipts: A receipt for each bucket.
        query: The id of the stream, which its checkpoint keeps; None if no stream is written.
    """

    def __init__(self, task: bf.WriteTask | None, receipts: list[bytes], query: str | None) -> None:
        self.task = task
        self.receipts = receipts
        self.query = query


class _Sink:
    """The common part of the writers of a DataFrame and of a stream."""

    def __init__(self, options: SinkOptions, schema: st.StructType) -> None:
        self._options = options
        self._columns = [name for name in schema.names if name not in META_COLUMNS]
        self._schema = st.StructType([schema[name] for name in self._columns])

    @cached_property
    def _table(self) -> bf.Table:
        return self._options.open_to_write()

    @cached_property
    def _names(self) -> list[str]:
        """The columns as the table names them.

        The process has no session to ask for `spark.sql.caseSensitive`. A column that differs from
        one of the table by case alone is refused, if it is not that one.
        """
        return matched_names(self._columns, self._table.schema.names)

    @cached_property
    def _task(self) -> bf.WriteTask | None:
        """The write, which begins here; None if it was committed before."""
        options, table = self._options, self._table
        key = options.idempotency_key
        if key is not None and table.find_commit(key) is not None:
            return None
        named = zip(arrow_of(self._schema), self._names, strict=True)
        schema = pa.schema([field.with_name(name) for field, name in named])
        return table.start_write(options.operation, schema, **options.arguments).hand_over()

    def __getstate__(self) -> dict[str, Any]:
        # Spark makes a writer also to commit a stream's batch. One that it sends to tasks writes.
        names = {"_columns": self._columns, "_names": self._names}
        return {"_options": self._options, **names, "_task": self._task}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task. Runs in the task."""
        if self._task is None:
            return Written(None, [], None)
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        rows = (self._own(batch) for batch in iterator if batch.num_rows)
        with self._options.open_to_write().keep_alive(self._task):
            return Written(self._task, write_batches(self._task, rows), query)

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays(columns, names=self._names)

    def _publish(self, messages: Sequence[Written | None], key: str | None) -> None:
        written = [message for message in messages if message is not None]
        task = next((message.task for message in written), None)
        if task is None:
            return
        options: bf.WriteArguments = {} if key is None else {"idempotency_key": key}
        with self._options.open_to_write().resume_write(task, **options) as started:
            try:
                started.publish([receipt for message in written for receipt in message.receipts])
            except ValueError as error:
                raise ValueError(
                    f"{error}: Spark does not bring the rows of a bucket into one task, so write "
                    "bucketfmt_spark.place_rows(df, uri) in place of df"
                ) from error

    def _take_back(self, task: bf.WriteTask | None) -> None:
        """Take a write back, unless it was published nevertheless."""
        if task is not None:
            with suppress(bf.ConflictError):  # it has ended
                self._options.open_to_write().resume_write(task).abort()


class BatchSink(_Sink, ds.DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions, schema: st.StructType) -> None:
        super().__init__(options, schema)
        _ = self._task  # begin: errors come as they are and not as those of pickling

    def commit(self, messages: list[Any]) -> None:
        """Publish the files of the tasks."""
        self._publish(messages, self._options.idempotency_key)

    def abort(self, messages: list[Any]) -> None:
        """Take the write back."""
        self._take_back(self._task)


def stream_sink(options: SinkOptions, schema: st.StructType) -> ds.DataSourceStreamWriter:
    """Return the writer of a stream.

    Raises:
        UnsupportedError: Spark is older than 4.1 and gives rows to a writer one by one.
        ValueError: `idempotency_key` is given, which is made of the query and the batch.
    """
    if not hasattr(ds, "DataSourceStreamArrowWriter"):
        raise bf.UnsupportedError(
            'writeStream.format("bucketfmt") needs Spark 4.1; write with '
            "foreachBatch(bucketfmt_spark.batch_writer(...))"
        )
    if options.idempotency_key is not None:
        raise ValueError("a stream makes its idempotency keys itself; leave the option out")
    return _StreamSink(options, schema)


if hasattr(ds, "DataSourceStreamArrowWriter"):

    class _StreamSink(_Sink, ds.DataSourceStreamArrowWriter):
        """Writes a stream, each batch once, however often Spark repeats it."""

        def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
            query = next((message.query for message in messages if message is not None), None)
            if query is None:
                raise bf.UnsupportedError(
                    "this Spark does not tell tasks which stream they belong to, so that a "
                    "repeated batch would be written twice; write with "
                    "foreachBatch(bucketfmt_spark.batch_writer(...))"
                )
            self._publish(messages, f"{query}/{batchId}")

        def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
            tasks = (message.task for message in messages if message is not None)
            self._take_back(next(tasks, None))
