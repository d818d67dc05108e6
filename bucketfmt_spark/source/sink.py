"""`df.write.format("bucketfmt")` and `writeStream`: Spark's own way in, over what `write` does.

Spark makes the writer in one process, once the rows are there, has tasks write in others, and
commits in a third; nothing of ours lives for as long as the write. So the first begins it and
hands it over, each task keeps its heartbeat going, and the last takes it up and publishes it.
Spark asks a source written in Python for no distribution: `place_rows` is the user's to call.
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
from bucketfmt_spark.engine.spark_types import arrow_of
from bucketfmt_spark.source.sink_options import SinkOptions
from bucketfmt_spark.writing import META_COLUMNS, write_batches

__all__ = ["BatchSink", "stream_sink"]

_QUERY_ID = "sql.streaming.queryId"


class Written(ds.WriterCommitMessage):
    """What one task has written.

    Attributes:
        task: Of which write.
        receipts: One for each bucket.
        query: The id of the stream, which is that of its checkpoint; None of a batch.
    """

    def __init__(self, task: bf.WriteTask | None, receipts: list[bytes], query: str | None) -> None:
        self.task = task
        self.receipts = receipts
        self.query = query


class _Sink:
    """What writing a batch and writing a stream's batch have in common."""

    def __init__(self, options: SinkOptions, schema: st.StructType) -> None:
        self._options = options
        self._columns = [name for name in schema.names if name not in META_COLUMNS]
        self._schema = st.StructType([schema[name] for name in self._columns])

    @cached_property
    def _task(self) -> bf.WriteTask | None:
        """The write, which begins here; None if it was made before."""
        options, table = self._options, self._options.open()
        key = options.idempotency_key
        if key is not None and table.find_commit(key) is not None:
            return None
        schema = arrow_of(self._schema)
        return table.start_write(options.operation, schema, **options.arguments).hand_over()

    def __getstate__(self) -> dict[str, Any]:
        # Spark makes a writer also to commit a stream's batch. One that it sends to tasks writes.
        return {"_options": self._options, "_columns": self._columns, "_task": self._task}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write what came to a task, which runs this."""
        if self._task is None:
            return Written(None, [], None)
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        rows = (batch.select(self._columns) for batch in iterator if batch.num_rows)
        with self._options.open().keep_alive(self._task):
            return Written(self._task, write_batches(self._task, rows), query)

    def _publish(self, messages: Sequence[Written | None], key: str | None) -> None:
        written = [message for message in messages if message is not None]
        task = next((message.task for message in written), None)
        if task is None:
            return
        options: bf.WriteArguments = {} if key is None else {"idempotency_key": key}
        with self._options.open().resume_write(task, **options) as started:
            try:
                started.publish([receipt for message in written for receipt in message.receipts])
            except ValueError as error:
                raise ValueError(
                    f"{error}: Spark does not ask where rows are to go, so write "
                    "bucketfmt_spark.place_rows(df, uri) in place of df"
                ) from error

    def _take_back(self, task: bf.WriteTask | None) -> None:
        """Leave nothing of a write, unless it was published in spite of all."""
        if task is not None:
            with suppress(bf.ConflictError):  # it has ended
                self._options.open().resume_write(task).abort()


class BatchSink(_Sink, ds.DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions, schema: st.StructType) -> None:
        super().__init__(options, schema)
        _ = self._task  # begin: errors come as they are and not as those of pickling

    def commit(self, messages: list[Any]) -> None:
        """Publish what the tasks have written."""
        self._publish(messages, self._options.idempotency_key)

    def abort(self, messages: list[Any]) -> None:
        """Take it back."""
        self._take_back(self._task)


def stream_sink(options: SinkOptions, schema: st.StructType) -> ds.DataSourceStreamWriter:
    """Return the writer of a stream.

    Raises:
        UnsupportedError: Spark before 4.1, which hands rows to it one by one.
        ValueError: an `idempotency_key`, which is made of the query and the batch.
    """
    if not hasattr(ds, "DataSourceStreamArrowWriter"):
        raise bf.UnsupportedError(
            'writeStream.format("bucketfmt") wants Spark 4.1; write with '
            "foreachBatch(bucketfmt_spark.batch_writer(...))"
        )
    if options.idempotency_key is not None:
        raise ValueError("a stream makes its idempotency keys itself: leave the option out")
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
