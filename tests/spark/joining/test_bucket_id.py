"""The bucket of a row as a Column is the core's, for every key there is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import bucketfmt as bf
import bucketfmt_spark as bs
from bucketfmt.format.keys.record_keys import KeyEncoding, format_record_key, hudi_never_returns
from bucketfmt.format.table.table_config import KeyGenerator
from bucketfmt_spark.bucket_id import simple_bucket_id
from bucketfmt_spark.engine.placement import find_salts, murmur3_ints
from tests.interop.replays.columns import random_text

NUMBERS = random.Random(0)
ODD = ["a,b:c", "id:1,x:2", ",:", ":,", "a:b,c", "x,id:__null__", "id:,x:", "ab,c:d,e:f"]
ODD += ["é,ü:\U0001f600", "\U0001f600", "\n:\n,\n:"]
TEXTS = {
    *ODD,
    *(random_text(NUMBERS) for _ in range(400)),
    *(chr(code) for code in (*range(1, 0xD800, 977), *range(0xE000, 0x110000, 6143))),
    *("".join(NUMBERS.choices("ab,:id12_", k=NUMBERS.randrange(1, 14))) for _ in range(800)),
}


def hudi_returns(key: str, fields: tuple[str, ...] = ("id",)) -> bool:
    return not hudi_never_returns(key, fields)


KEYS = sorted(key for key in TEXTS if key and hudi_returns(key))


@pytest.fixture(autouse=True)
def compiled(spark: SparkSession) -> Iterator[None]:
    """As sessions are set by default: the expressions are compiled."""
    settings = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = {name: spark.conf.get(name) for name in settings}
    spark.conf.set(settings[0], "true")
    spark.conf.set(settings[1], "FALLBACK")
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def make(path: Path, schema: pa.Schema, keys: list[str], **options: Any) -> bf.Table:
    given = {"index": bf.SimpleBucketIndex(7), **options}
    return bf.create(str(path), schema=schema, record_key=keys, **given)


def test_rows_are_moved_by_their_bucket_with_no_column_more(spark: SparkSession) -> None:
    bucket = bs.bucket_id("id", index=bf.SimpleBucketIndex(4))
    rows = spark.createDataFrame([("a",)], "id string").repartition(4, bucket)
    plan = str(rows._jdf.queryExecution().optimizedPlan().toString())  # type: ignore[operator]
    assert "RepartitionByExpression" in plan
    assert "_nondeterministic" not in plan


def test_buckets_where_the_classes_of_spark_are_others(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("bucketfmt_spark.bucket_id")  # of whose name is a function too
    monkeypatch.setattr(module, "_called_hash", lambda text: None)
    reflected = simple_bucket_id(("id",), bf.SimpleBucketIndex(7), is_named=False)
    monkeypatch.undo()
    called = simple_bucket_id(("id",), bf.SimpleBucketIndex(7), is_named=False)
    assert "reflect" in str(reflected)
    assert "toString" in str(called)
    rows = spark.createDataFrame([(key,) for key in KEYS], "id string")
    assert rows.where(reflected != called).count() == 0


def both(spark: SparkSession, table: bf.Table, rows: pa.Table) -> tuple[list[int], list[int]]:
    found = spark.createDataFrame(rows).select(bs.bucket_id(index=table)).toArrow()
    return found.column(0).to_pylist(), table.pinned().assign(rows)["bucket_id"].to_pylist()


def test_single_keys_of_all_unicode(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path / "t", pa.schema([("id", pa.string())]), ["id"])
    rows = pa.table({"id": KEYS})
    found, expected = both(spark, table, rows)
    assert found == expected
    assert set(found) == set(range(7))
    column = bs.bucket_id("id", index=bf.SimpleBucketIndex(7))
    frame = spark.createDataFrame(rows).select(column.alias("b"))
    assert "Python" not in frame._jdf.queryExecution().toString()
    assert [row.b for row in frame.collect()] == expected


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("hash_fields", [None, ("k2",), ("id",), ("k2", "id")])
def test_keys_of_several_fields(
    spark: SparkSession, tmp_path: Path, hash_fields: tuple[str, ...] | None
) -> None:
    schema = pa.schema([("id", pa.string()), ("k2", pa.string()), ("k3", pa.int64())])
    index = bf.SimpleBucketIndex(7, hash_fields)
    table = make(tmp_path / "t", schema, ["id", "k2", "k3"], index=index)
    odd = [None, ""]
    rows = pa.table(
        {
            "id": [NUMBERS.choice([*KEYS, *odd, *odd * 40]) for _ in range(1500)],
            "k2": [NUMBERS.choice([*KEYS, *odd * 40]) for _ in range(1500)],
            "k3": [NUMBERS.choice([None, -5, 0, 2**62]) for _ in range(1500)],
        },
        schema,
    )
    rows = without_endless(table, rows)
    found, expected = both(spark, table, rows)
    assert found == expected


def without_endless(table: bf.Table, rows: pa.Table) -> pa.Table:
    """Leave out keys from which Hudi never returns, and those that are refused."""
    fields = table.index.hash_fields or table.config.record_key_fields  # type: ignore[union-attr]
    kept = []
    for number, row in enumerate(rows.to_pylist()):
        if any(value not in (None, "") for value in row.values()):
            texts = [None if v is None else str(v) for v in row.values()]
            try:
                key = format_record_key(list(row), texts, KeyGenerator.COMPLEX, KeyEncoding.NAMED)
            except bf.KeyEncodingError:  # other values would have the same key
                continue
            if hudi_returns(key, fields):
                kept.append(number)
    assert len(kept) > 1000
    return rows.take(kept)


@pytest.mark.parametrize(
    "index", [bf.PartitionBucketIndex(3, "-5,5;0,2"), bf.ConsistentHashingIndex(4)]
)
def test_before_spark_4_1_the_kernel_is_called_by_pandas(
    spark: SparkSession, tmp_path: Path, index: bf.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sf, "arrow_udf")
    schema = pa.schema([("id", pa.string()), ("day", pa.int32())])
    options: dict[str, Any] = {"partition_by": ["day"], "index": index}
    if isinstance(index, bf.ConsistentHashingIndex):
        options["table_type"] = "MERGE_ON_READ"
    table = make(tmp_path / "t", schema, ["id"], **options)
    days = [NUMBERS.choice([-5, 0, 7, None]) for _ in KEYS]
    rows = pa.table({"id": KEYS, "day": pa.array(days, pa.int32())})
    found, expected = both(spark, table, rows)
    assert found == expected
    assert len(set(found)) > 3
    odd = pa.schema([("id", pa.float64()), ("day", pa.int32())])
    table = make(tmp_path / "odd", odd, ["id"], **options)
    with pytest.raises(bf.UnsupportedError, match=r"need Spark 4\.1"):
        bs.bucket_id(index=table)


def test_keys_from_which_hudi_never_returns_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path / "t", pa.schema([("id", pa.string())]), ["id"])
    refused = sorted(key for key in TEXTS if key and not hudi_returns(key))
    assert len(refused) > 50
    for key in refused[:3]:
        frame = spark.createDataFrame(pa.table({"id": [key]}))
        with pytest.raises(Exception, match="never returns from hashing"):
            frame.select(bs.bucket_id(index=table)).collect()


TYPED = {
    "long": (pa.int64(), [0, -1, 2**63 - 1, -(2**63)]),
    "int": (pa.int32(), [0, -7, 2**31 - 1]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "double": (pa.float64(), [0.0, -0.0, 1e7, 1.5e-300, float("nan"), float("inf")]),
    "decimal": (pa.decimal128(20, 10), [Decimal("0E-10"), Decimal("1.5"), Decimal("-100")]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime(2024, 2, 3, 4, 5, 6, 7, timezone.utc)]),
}


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("kind", TYPED)
@pytest.mark.parametrize("version", [6, 9])
def test_keys_of_other_types(spark: SparkSession, tmp_path: Path, kind: str, version: int) -> None:
    arrow_type, values = TYPED[kind]
    schema = pa.schema([("id", arrow_type)])
    table = make(tmp_path / "t", schema, ["id"], table_version=version)
    found, expected = both(spark, table, pa.table({"id": values}, schema))
    assert found == expected


def test_rules_and_rings(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    rows = pa.table({"id": KEYS, "p": [NUMBERS.choice(["a", "b", None]) for _ in KEYS]}, schema)
    for name, index in {
        "rules": bf.PartitionBucketIndex(3, "a,5;b,11"),
        "ring": bf.ConsistentHashingIndex(5),
    }.items():
        table = make(
            tmp_path / name,
            schema,
            ["id"],
            index=index,
            partition_by=["p"],
            table_type="MERGE_ON_READ",
        )
        found, expected = both(spark, table, rows)
        assert found == expected
        assert len(set(found)) >= 5


def test_an_index_that_is_not_recorded_is_proved(
    spark: SparkSession, golden: Callable[[str, str], Path]
) -> None:
    path = golden("1.2.0", "cow")
    rows = bf.open(path).scan(["id", "region"]).to_arrow()
    found, expected = both(spark, bf.open(path, index=bf.SimpleBucketIndex(4)), rows)
    assert found == expected
    assert len(set(found)) == 4
    wrong = bs.bucket_id(index=bf.open(path, index=bf.SimpleBucketIndex(8)))
    with pytest.raises(Exception, match="num_buckets=8"):
        spark.createDataFrame(rows).select(wrong).collect()


@pytest.mark.parametrize("key", [None, ""])
def test_null_keys_are_refused(spark: SparkSession, key: str | None) -> None:
    frame = spark.createDataFrame(pa.table({"id": ["a", key]}, pa.schema([("id", pa.string())])))
    column = bs.bucket_id("id", index=bf.SimpleBucketIndex(7))
    with pytest.raises(Exception, match="id are null or empty; Hudi takes no such row"):
        frame.select(column).collect()


def test_an_unknown_column_is_an_error_of_sparks(spark: SparkSession) -> None:
    """Whose message prints the expressions, and what they would raise."""
    frame = spark.range(1)
    with pytest.raises(AnalysisException, match="`nope` cannot be resolved"), bs.typed_errors():
        frame.select(bs.bucket_id("nope", index=bf.SimpleBucketIndex(4)))


def test_types_it_cannot_tell_are_refused(spark: SparkSession) -> None:
    column = bs.bucket_id("id", index=bf.SimpleBucketIndex(7))
    with pytest.raises(Exception, match="Hudi hashes the text of a double"):
        spark.range(1).select(sf.lit(1.5).alias("id")).select(column).collect()
    with pytest.raises(TypeError, match="takes a SimpleBucketIndex or a"):
        bs.bucket_id("id", index=bf.ConsistentHashingIndex(4))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the columns that make"):
        bs.bucket_id(index=bf.SimpleBucketIndex(7))


def test_salts_are_what_spark_hashes_to_each_partition(spark: SparkSession) -> None:
    numbers = np.array([0, 1, -1, 2**31 - 1, -(2**31), 12345], np.int32)
    frame = spark.createDataFrame([(int(n),) for n in numbers], "n int").select(sf.hash("n"))
    assert [row[0] for row in frame.collect()] == murmur3_ints(numbers).tolist()
    for count in (1, 2, 7, 200):
        hashes = murmur3_ints(find_salts(count)).astype(np.int64)
        assert (hashes % count).tolist() == list(range(count))
