"""`merge`: updates, deletes and inserts by the rows of a DataFrame, as SQL's MERGE INTO.

The rows go to the tasks of their buckets by one exchange. A task looks up the stored rows of its
keys; Spark evaluates conditions and values; and the same task writes its buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

import bucketfmt as bf
from bucketfmt_spark.bucket_id import key_fields
from bucketfmt_spark.engine.arguments import (
    check_condition,
    check_frame,
    check_kind,
    check_text,
    is_column,
    shown,
)
from bucketfmt_spark.engine.executors import check_executors, map_batches
from bucketfmt_spark.engine.failures import typed_errors
from bucketfmt_spark.engine.named_jobs import (
    allowed_retries,
    options_of_try,
    repeat_on_conflict,
)
from bucketfmt_spark.engine.opening import TableOrUri, open_table
from bucketfmt_spark.engine.resolver import META_COLUMNS, Resolver, named_as
from bucketfmt_spark.engine.spark_types import (
    arrow_for_spark,
    arrow_of,
    as_spark_takes_it,
    spark_schema,
)
from bucketfmt_spark.engine.tasks import PackedTasks
from bucketfmt_spark.writing import place_rows, write_placed

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Delete", "Insert", "Update", "merge"]

_DELETED = "_hoodie_is_deleted"
_SOURCE, _TARGET, _MATCHED, _CLAUSE = (
    "source",
    "target",
    "__bucketfmt_matched",
    "__bucketfmt_clause",
)
Value: TypeAlias = "str | Column"


@dataclass(frozen=True)
class Update:
    """WHEN MATCHED THEN UPDATE.

    Attributes:
        condition: SQL text or a Column, of `source.x` and `target.x`; None: always.
        set: The new value of each column, as SQL text or a Column; other columns stay. None: all
            columns that the source has.
    """

    condition: Value | None = None
    set: Mapping[str, Value] | None = None

    def __post_init__(self) -> None:
        """Raise a TypeError or a ValueError for what is no condition and no value."""
        _check_given(self.condition, "set", self.set)


@dataclass(frozen=True)
class Delete:
    """WHEN MATCHED THEN DELETE, in tables that have a column `_hoodie_is_deleted`.

    Attributes:
        condition: As of `Update`.
    """

    condition: Value | None = None

    def __post_init__(self) -> None:
        """Raise a TypeError or a ValueError for what is no condition."""
        _check_given(self.condition)


@dataclass(frozen=True)
class Insert:
    """WHEN NOT MATCHED THEN INSERT.

    Attributes:
        condition: SQL text or a Column, of `source.x`; None: always.
        values: The value of each column, as SQL text or a Column; other columns are null. None:
            all columns that the source has.
    """

    condition: Value | None = None
    values: Mapping[str, Value] | None = None

    def __post_init__(self) -> None:
        """Raise a TypeError or a ValueError for what is no condition and no value."""
        _check_given(self.condition, "values", self.values)


def _check_given(condition: Any, name: str = "", values: Any = None) -> None:
    if condition is not None:
        check_condition("condition", condition)
    if values is None:
        return
    check_kind(name, values, Mapping, "a dict such as {'fare': 'source.fare + 1'}")
    for column, value in values.items():
        check_text(f"a column of {name}", column, "text")
        if not is_column(value):
            check_text(f"{name}[{column!r}]", value, "SQL text such as '1', or a Column")


Clause: TypeAlias = "Update | Delete | Insert"


def merge(
    df: DataFrame,
    uri: TableOrUri,
    *clauses: Clause,
    num_tasks: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: bf.Index | None = None,
    writer: bf.WriterConfig | None = None,
    **options: Unpack[bf.WriteArguments],
) -> bf.CommitResult:
    """Merge the rows of a DataFrame into a table by record key and partition, as MERGE INTO.

    >>> bs.merge(                                                               # doctest: +SKIP
    ...     changes, "s3://lake/trips",
    ...     bs.Delete("source.op = 'D'"), bs.Update(), bs.Insert("source.op <> 'D'"),
    ... )

    For each row the first clause counts whose condition is true, among those for matched or for
    unmatched rows; without such a clause nothing happens to the row. The result is one commit, by
    one exchange. Where the table has ordering fields, an update whose ordering value is lower than
    the stored one is no change, as in `write`.

    Values are stored as equal values of the table's types, or the merge fails, as in `write`: an
    expression that is to round or to cut is cast.

    Args:
        df: The source, with the key and partition fields of the table. At most one row has a key.
            The rows of a task are in memory, with the stored rows of their keys.
        uri: The URI of the table, or the table.
        clauses: What happens to matched and unmatched rows.
        num_tasks: As in `write`.
        storage_options: As in `bucketfmt.open`.
        index: As in `bucketfmt.open`.
        writer: As in `bucketfmt.open`.
        options: See `bucketfmt.WriteArguments`; neither `evolve` nor `missing`.

    Raises:
        ValueError: there is no clause; two rows of the source have one key; a clause sets a key
            or partition field, or a column that the table lacks; or an option is none of `merge`.
        SchemaError: the source lacks a key or partition field, or a value has no equal value in the
            type of its column.
        UnsupportedError: a `Delete` for a table without the column `_hoodie_is_deleted`, or the
            buckets of the table do not follow from keys.
        ExecutorError: executors have no bucketfmt, or another release.
        ConflictError: other writers wrote to the same buckets, in every try.
    """
    check_frame("df", df)
    _check_clauses(clauses, options)
    table = open_table(df.sparkSession, uri, storage_options, index, writer)
    df = named_as(df, table.schema.names)
    df = df.select(*[name for name in df.columns if name not in META_COLUMNS])
    resolver = Resolver.of(df.sparkSession, table.schema)
    clauses = tuple(_resolved(clause, resolver) for clause in clauses)
    _check(df, table, clauses)
    key = options.get("idempotency_key")
    repeated = None if key is None else table.find_commit(key)
    if repeated is not None:
        return repeated
    check_executors(df.sparkSession)
    retries = allowed_retries(options)

    def attempt() -> bf.CommitResult:
        given = options_of_try(options, table)
        placed = place_rows(df, table, num_tasks)
        rows = _merged(_looked_up(placed, table), table, clauses)
        started = table.start_write("upsert", arrow_of(rows.schema), **given)
        with started, typed_errors():
            return write_placed(rows, started, "merge")

    return repeat_on_conflict(f"a merge into {table.config.name}", retries, attempt)


def _resolved(clause: Clause, resolver: Resolver) -> Clause:
    """Return a clause whose columns have the names of the table."""
    if isinstance(clause, Update) and clause.set is not None:
        values = {resolver.name(name): value for name, value in clause.set.items()}
        return Update(clause.condition, values)
    if isinstance(clause, Insert) and clause.values is not None:
        values = {resolver.name(name): value for name, value in clause.values.items()}
        return Insert(clause.condition, values)
    return clause


def _check_clauses(clauses: Sequence[Clause], options: Collection[str]) -> None:
    if not clauses:
        raise ValueError("merge takes clauses: Update(), Delete() or Insert()")
    for clause in clauses:
        if not isinstance(clause, (Update, Delete, Insert)):
            raise TypeError(f"clauses are Update(), Delete() and Insert(), and not {shown(clause)}")
    for option in ("evolve", "missing"):
        if option in options:
            raise ValueError(
                f"merge takes no {option}: the rows have the columns of the table; add columns by "
                "a write with evolve=True before"
            )


def _check(df: DataFrame, table: bf.Table, clauses: Sequence[Clause]) -> None:
    own = key_fields(table)
    lacking = [name for name in own if name not in df.columns]
    if lacking:
        raise bf.SchemaError(
            f"the source lacks {', '.join(lacking)}, by which rows of the table are matched"
        )
    known = table.schema.names
    for clause in clauses:
        if isinstance(clause, Delete):
            if _DELETED not in known:
                raise bf.UnsupportedError(
                    f"merge deletes rows in tables that have a column {_DELETED} BOOLEAN; write "
                    "the keys with write(keys, uri, 'delete') instead"
                )
            continue
        values = clause.set if isinstance(clause, Update) else clause.values
        for name in values or ():
            if name not in known:
                raise ValueError(f"{name} is not a column of the table: {', '.join(known)}")
            if name in own:
                raise ValueError(
                    f"{name} makes keys or partitions, which are those of the source: leave it out"
                )


def _looked_up(placed: DataFrame, table: bf.Table) -> DataFrame:
    """Return the rows of the source with the stored rows of their keys, in the same partitions."""
    scan = table.scan()
    groups = bf.group_buckets(scan)
    buckets, reader = groups.buckets, scan.task_reader()
    packed = PackedTasks.of([[task.payload for _, task in group] for group in groups.tasks[0]])
    paths = [[path for path, _ in group] for group in groups.tasks[0]]
    source, target = arrow_of(placed.schema), arrow_for_spark(scan.schema)

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark gives timestamps in the session's zone, and may give texts with long offsets.
        rows = [as_spark_takes_it(batch, source) for batch in batches if batch.num_rows]
        given = pa.Table.from_batches(rows)
        keys = _keys_of(reader, given)
        _check_unique(keys)
        of_bucket = buckets.assign_keys(keys.column("record_key"))
        stored, stored_keys = [target.empty_table()], []
        for bucket in sorted(set(of_bucket.tolist())):
            own = keys.filter(pa.array(of_bucket == bucket))
            for path, payload in zip(paths[bucket], packed[bucket], strict=True):
                wanted = own.filter(pc.equal(own.column("partition_path"), path))
                if not wanted.num_rows:
                    continue
                texts = wanted.column("record_key").combine_chunks().cast(pa.string())
                for batch in reader.of_keys(texts).read(payload):
                    found = pa.Table.from_batches([as_spark_takes_it(batch, target)])
                    stored.append(found)
                    record_keys = reader.keys_of(pa.Table.from_batches([batch]))
                    stored_keys.append(_joined(record_keys.column("record_key"), path))
        yield from _paired(given, keys, pa.concat_tables(stored), stored_keys, source)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if batch.num_rows]
        if rows:
            yield from find(iter(rows))

    schema = st.StructType(
        [
            st.StructField(_SOURCE, placed.schema),
            st.StructField(_TARGET, spark_schema(target)),
            st.StructField(_MATCHED, st.BooleanType()),
        ]
    )
    return map_batches(placed, run, schema)


def _paired(
    given: pa.Table,
    keys: pa.Table,
    stored: pa.Table,
    stored_keys: list[pa.Array],
    source: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    known = pa.chunked_array(stored_keys, pa.string())
    wanted = _joined(keys.column("record_key"), keys.column("partition_path"))
    places = pc.index_in(wanted, known)
    columns = [column.combine_chunks() for column in given.columns]
    left = pa.StructArray.from_arrays(columns, fields=list(source))
    matched = stored.take(places)
    right = pa.StructArray.from_arrays(
        [_one(column) for column in matched.columns], fields=list(stored.schema)
    )
    is_matched = pc.is_valid(places)
    names = [_SOURCE, _TARGET, _MATCHED]
    yield pa.RecordBatch.from_arrays([left, right, _one(is_matched)], names=names)


def _one(column: Any) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _keys_of(reader: bf.TaskReader, rows: pa.Table) -> pa.Table:
    """Return record_key and partition_path of rows; without partitions the path is empty."""
    keys = reader.keys_of(rows)
    paths = pc.fill_null(keys.column("partition_path").cast(pa.string()), "")
    return pa.table({"record_key": keys.column("record_key"), "partition_path": paths})


def _joined(record_keys: Any, paths: Any) -> pa.Array:
    """Return one text for each key and partition; a path has no line break."""
    return _one(pc.binary_join_element_wise(record_keys.cast(pa.string()), paths, "\n"))


def _check_unique(keys: pa.Table) -> None:
    counts = keys.group_by(["record_key", "partition_path"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts.column("count_all"), 1))
    if twice.num_rows:
        raise ValueError(
            f"{twice.num_rows} keys have several rows in the source of a merge, such as "
            f"{twice.column('record_key')[0].as_py()!r}; give one row for each key"
        )


def _merged(rows: DataFrame, table: bf.Table, clauses: Sequence[Clause]) -> DataFrame:
    """Return the rows to write, by the first clause that holds for each row."""
    matched = sf.col(_MATCHED)
    chosen = reduce(
        lambda found, numbered: found.when(_holds(numbered[1], matched), sf.lit(numbered[0])),
        enumerate(clauses),
        sf.when(sf.lit(False), sf.lit(-1)),
    )
    picked = rows.withColumn(_CLAUSE, chosen).where(sf.col(_CLAUSE).isNotNull())
    kinds = spark_schema(arrow_for_spark(table.schema))
    source: Any = rows.schema[_SOURCE].dataType
    keys = key_fields(table)
    values = {
        field.name: [sf.col(f"{_SOURCE}.`{field.name}`")]
        if field.name in keys
        else [_value(clause, field.name, source.names) for clause in clauses]
        for field in kinds
    }
    every = [value for own in values.values() for value in own]
    given = iter(picked.select(*[v.alias(str(n)) for n, v in enumerate(every)]).schema)
    columns = []
    for field in kinds:
        exact = [_exactly(value, next(given).dataType, field) for value in values[field.name]]
        if field.name in keys:
            (chosen_value,) = exact
        else:
            chosen_value = sf.lit(None).cast(field.dataType)
            for number, value in enumerate(exact):
                chosen_value = sf.when(sf.col(_CLAUSE) == number, value).otherwise(chosen_value)
        columns.append(chosen_value.alias(field.name))
    return picked.select(*columns)


def _exactly(value: Column, kind: st.DataType, field: st.StructField) -> Column:
    """Return a value in the type of a column; what changes by that fails.

    A cast of Spark rounds, cuts, fails, or makes null or another number of what does not fit, by
    settings.

    Raises:
        SchemaError: the types differ and hold maps, which Spark does not compare.
    """
    wanted = field.dataType
    if isinstance(kind, st.NullType) or _alike(field.name, kind, wanted):
        return value.cast(wanted)
    if _has_maps(kind):
        raise bf.SchemaError(
            f"column {field.name} is {wanted.simpleString()} in the table, and the value is "
            f"{kind.simpleString()}: Spark does not compare maps; cast the value"
        )
    refusal = (
        f"column {field.name} is {wanted.simpleString()} in the table, and a value of type "
        f"{kind.simpleString()} is not equal to any of that type; cast or round it"
    )
    cast = _tried(value, wanted)
    # What Spark computes may be never null within, and no cast leads back to such a type.
    (nullable,) = spark_schema(arrow_of(st.StructType([st.StructField(field.name, kind)])))
    is_equal = _tried(cast, nullable.dataType).eqNullSafe(value)
    return sf.when(is_equal, cast).otherwise(sf.raise_error(refusal))


def _tried(value: Column, kind: st.DataType) -> Column:
    """Return a cast that is null where it fails; on Spark 3.5 one that fails, if ANSI is set."""
    return value.try_cast(kind) if hasattr(value, "try_cast") else value.cast(kind)


def _has_maps(kind: st.DataType) -> bool:
    if isinstance(kind, st.ArrayType):
        return _has_maps(kind.elementType)
    if isinstance(kind, st.StructType):
        return any(_has_maps(field.dataType) for field in kind.fields)
    return isinstance(kind, st.MapType)


def _alike(column: str, kind: st.DataType, other: st.DataType) -> bool:
    """Whether types differ in nothing but what may be null."""
    fields = (st.StructType([st.StructField(column, own)]) for own in (kind, other))
    one, two = (arrow_of(own) for own in fields)
    return bool(one.equals(two))


def _holds(clause: Clause, matched: Column) -> Column:
    wanted = ~matched if isinstance(clause, Insert) else matched
    return wanted if clause.condition is None else wanted & _column(clause.condition)


def _value(clause: Clause, name: str, given: Sequence[str]) -> Column:
    source = sf.col(f"{_SOURCE}.`{name}`") if name in given else None
    stored = sf.col(f"{_TARGET}.`{name}`")
    if isinstance(clause, Delete):
        return sf.lit(True) if name == _DELETED else stored
    values = clause.set if isinstance(clause, Update) else clause.values
    if values is not None and name in values:
        return _column(values[name])
    if isinstance(clause, Update):
        return stored if source is None or values is not None else source
    return sf.lit(None) if source is None or values is not None else source


def _column(value: Value) -> Column:
    return sf.expr(value) if isinstance(value, str) else value
