"""`format("bucketfmt")`: the data source, which uses the functions behind `read` and `write`.

Spark does not push columns down into a Python data source, nor ask it for statistics, so `read`
and the option `columns` are faster. There are two sources, because a session without filter
push-down refuses a reader that offers it; `register` chooses the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

import bucketfmt as bf
from bucketfmt_spark.engine.spark_types import arrow_for_spark, as_spark_takes_it, spark_schema
from bucketfmt_spark.engine.tasks import plan_read_tasks
from bucketfmt_spark.source.sink import BatchSink, stream_sink
from bucketfmt_spark.source.sink_options import SinkOptions
from bucketfmt_spark.source.source_options import SourceOptions
from bucketfmt_spark.source.stream_source import stream_reader

__all__ = ["BucketfmtSource", "FilteringSource", "choose_source"]

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
_SPLITS = 64  # a source does not know how many tasks run at a time

Condition = tuple[str, str, Any]


class BucketfmtSource(DataSource):
    """Reads, writes and streams a table; options as in `SourceOptions` and `SinkOptions`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "bucketfmt"

    def schema(self) -> st.StructType:
        """Return the table's columns, or those of the option `columns`."""
        return spark_schema(arrow_for_spark(SourceOptions(self.options).scan().schema))

    def reader(self, schema: st.StructType) -> DataSourceReader:
        """Return a reader to which no filters are pushed."""
        return _Reader(SourceOptions(self.options).with_columns(schema))

    def streamReader(self, schema: st.StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of the changes of commits."""
        return stream_reader(SourceOptions(self.options).with_columns(schema))

    def writer(self, schema: st.StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame."""
        return BatchSink(SinkOptions(self.options, overwrite=overwrite), schema)

    def streamWriter(  # noqa: N802
        self, schema: st.StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Return the writer of the batches of a stream."""
        return stream_sink(SinkOptions(self.options, overwrite=overwrite), schema)


class FilteringSource(BucketfmtSource):
    """The source for sessions that push filters down."""

    def reader(self, schema: st.StructType) -> DataSourceReader:
        """Return a reader that prunes by the filters of the query."""
        return _FilteringReader(SourceOptions(self.options).with_columns(schema))


def choose_source(spark: SparkSession) -> type[BucketfmtSource]:
    """Return the source for the session's present setting of filter push-down."""
    pushes = str(spark.conf.get(_PUSH_DOWN, "false")).lower() == "true"
    can_push = hasattr(DataSourceReader, "pushFilters")  # from Spark 4.1
    return FilteringSource if pushes and can_push else BucketfmtSource


class _Slices(InputPartition):
    """File slices that one task reads."""

    def __init__(self, payloads: list[bytes]) -> None:
        super().__init__(None)
        self.payloads = payloads


class _Reader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._filter: list[Condition] = []

    @cached_property
    def _scan(self) -> bf.Scan:
        return self._options.scan(self._filter)

    @cached_property
    def _task_reader(self) -> bf.TaskReader:
        return self._scan.task_reader()

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends the reader to executors before it asks for partitions: plan it now.
        state = {"_options": self._options, "_filter": self._filter}
        return {**state, "_task_reader": self._task_reader}

    def partitions(self) -> list[InputPartition]:
        return [_Slices(payloads) for payloads in plan_read_tasks(self._scan.tasks(), _SPLITS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        accepted = arrow_for_spark(self._task_reader.schema)
        payloads = partition.payloads if isinstance(partition, _Slices) else []
        for payload in payloads:
            for batch in self._task_reader.read(payload):
                yield as_spark_takes_it(batch, accepted)


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802
        """Keep the filters that can prune; Spark applies all filters again."""
        schema = self._options.table_schema()
        found = (_condition(item, schema) for item in filters)
        self._filter = [condition for condition in found if condition is not None]
        return filters


def _condition(item: Any, schema: pa.Schema) -> Condition | None:
    """Return a pushed filter in the form of `Table.scan`; None if results might differ.

    Only types with the same order and equality in Spark and in Arrow are converted, and no
    floating point numbers.
    """
    operators = {
        "EqualTo": "=",
        "GreaterThan": ">",
        "GreaterThanOrEqual": ">=",
        "LessThan": "<",
        "LessThanOrEqual": "<=",
        "In": "in",
    }
    operator = operators.get(type(item).__name__)
    if operator is None or len(item.attribute) != 1 or item.attribute[0] not in schema.names:
        return None
    name = item.attribute[0]
    kind = schema.field(name).type
    is_exact: list[Callable[[pa.DataType], bool]] = [
        pa.types.is_string,
        pa.types.is_integer,
        pa.types.is_date32,
        pa.types.is_boolean,
    ]
    values = list(item.value) if operator == "in" else [item.value]
    values = [value for value in values if value is not None]  # null equals nothing
    if not values or not any(test(kind) for test in is_exact):
        return None
    return (name, operator, values if operator == "in" else values[0])
