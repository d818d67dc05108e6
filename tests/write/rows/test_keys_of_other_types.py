"""Rows to delete and to look up have keys of other types, as rows to write do."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.table.tables import state_properties

pytestmark = pytest.mark.rotated

MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 123000)
UTC = MOMENT.replace(tzinfo=dt.timezone.utc)

EQUAL: list[tuple[pa.DataType, Any, pa.Array]] = [
    (pa.timestamp("us"), MOMENT, pa.array([MOMENT], pa.timestamp("ns"))),
    (pa.timestamp("us"), MOMENT, pa.array([MOMENT], pa.timestamp("ms"))),
    (pa.timestamp("us", "UTC"), UTC, pa.array([UTC], pa.timestamp("ms", "UTC"))),
    (pa.timestamp("us", "UTC"), UTC, pa.array([UTC], pa.timestamp("ns", "Asia/Tokyo"))),
    (pa.int64(), 1, pa.array([1.0])),
    (pa.int32(), 1, pa.array([1], pa.uint64())),
    (pa.float64(), 7.0, pa.array([7])),
    (pa.decimal128(10, 2), Decimal("1.10"), pa.array([Decimal("1.1")])),
    (pa.decimal128(10, 2), Decimal("3.00"), pa.array([3])),
    (pa.date32(), dt.date(2024, 1, 2), pa.array([dt.date(2024, 1, 2)], pa.date64())),
    (pa.string(), "k", pa.array(["k"], pa.string_view())),
    (
        pa.string(),
        "k",
        pa.DictionaryArray.from_arrays(
            pa.array([1], pa.uint32()), pa.array(["j", "k"], pa.string_view())
        ),
    ),
]


def create(folder: Path, kind: pa.DataType, *, in_partition: bool) -> bf.Table:
    fields = [("id", pa.int64() if in_partition else kind), ("v", pa.int64())]
    if in_partition:
        fields.append(("p", kind))
    return bf.create(
        folder / "t",
        schema=pa.schema(fields),
        record_key=["id"],
        partition_by=["p"] if in_partition else [],
        index=bf.SimpleBucketIndex(8),
        properties={"hoodie.datasource.write.partitionpath.urlencode": "true"},
    )


@pytest.mark.parametrize("in_partition", [False, True])
@pytest.mark.parametrize(("kind", "value", "given"), EQUAL, ids=lambda part: str(part)[:40])
def test_equal_values_find_and_delete_the_row(
    tmp_path: Path, kind: pa.DataType, value: object, given: pa.Array, in_partition: bool
) -> None:
    table = create(tmp_path, kind, in_partition=in_partition)
    row = {"id": 7, "v": 5, "p": value} if in_partition else {"id": value, "v": 5}
    table.upsert(pa.Table.from_pylist([row], table.schema))
    keys = pa.table({"id": [7], "p": given} if in_partition else {"id": given})
    table = bf.open(tmp_path / "t")
    assert table.lookup(keys).to_pylist() == [row]
    (place,) = table.locate(keys).to_pylist()
    assert place["file_id"] is not None
    own = keys.set_column(0, "id", pa.array([row["id"]], table.schema.field("id").type))
    if in_partition:
        own = own.set_column(1, "p", pa.array([value], kind))
    locator = pickle.loads(pickle.dumps(table.locator()))
    assert locator.locate(keys).to_pylist() == table.locate(own).to_pylist() == [place]
    assert table.upsert(keys.append_column("v", pa.array([6]))).rows_updated == 1
    assert table.delete(keys).committed
    assert bf.open(tmp_path / "t").scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int64(), pa.array([1.5])),
        (pa.int64(), pa.array(["1"])),
        (pa.decimal128(10, 2), pa.array([Decimal("1.111")])),
        (pa.timestamp("us"), pa.array([1], pa.timestamp("ns"))),
    ],
    ids=str,
)
def test_values_without_an_equal_are_refused(
    tmp_path: Path, kind: pa.DataType, given: pa.Array
) -> None:
    for in_partition in (False, True):
        table = create(tmp_path / str(in_partition), kind, in_partition=in_partition)
        keys = pa.table({"id": [7], "p": given} if in_partition else {"id": given})
        for find in (table.lookup, table.locate, table.locator().locate, table.delete):
            with pytest.raises(bf.SchemaError, match=r"column (id|p)"):
                find(keys)


def test_a_key_in_a_struct_counts_in_the_type_of_the_table(tmp_path: Path) -> None:
    at = pa.struct([("day", pa.timestamp("us")), ("x", pa.int64())])
    table = bf.create(
        tmp_path / "t",
        schema=pa.schema([("id", pa.int64()), ("at", at), ("v", pa.int64())]),
        record_key=["id", "at.day"],
        index=bf.SimpleBucketIndex(2),
    )
    row = {"id": 1, "at": {"day": MOMENT, "x": 1}, "v": 5}
    table.upsert(pa.Table.from_pylist([row], table.schema))
    fine = pa.array([{"day": MOMENT}], pa.struct([("day", pa.timestamp("ns"))]))
    keys = pa.table({"id": [1.0], "at": fine})
    assert table.lookup(keys).to_pylist() == [row]
    assert table.delete(keys).committed
    assert table.scan().to_arrow().num_rows == 0


def test_columns_of_polars_categories(tmp_path: Path) -> None:
    import polars

    frame = polars.DataFrame(
        {
            "id": polars.Series(["a", "b"], dtype=polars.Enum(["b", "a", "c"])),
            "p": polars.Series(["x", "y"], dtype=polars.Categorical),
            "v": polars.Series(["m", None], dtype=polars.Categorical),
            "tags": polars.Series([["t", "u"], []], dtype=polars.List(polars.Categorical)),
        }
    ).with_columns(polars.struct("v").alias("s"))
    table = bf.create(
        tmp_path / "t",
        schema=pa.RecordBatchReader.from_stream(frame).schema,
        record_key=["id"],
        partition_by=["p"],
        index=bf.SimpleBucketIndex(2),
    )
    assert table.schema.field("s").type == pa.struct([("v", pa.string())])
    table.upsert(frame)
    expected = [
        {"id": "a", "p": "x", "v": "m", "tags": ["t", "u"], "s": {"v": "m"}},
        {"id": "b", "p": "y", "v": None, "tags": [], "s": {"v": None}},
    ]
    rows = table.scan().to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == expected
    assert table.lookup(frame.select("id", "p")).num_rows == 2
    keys = frame.get_column("id").to_arrow()
    assert table.lookup(frame.get_column("id")).num_rows == len(keys) == 2
    assert table.delete(frame.select("id", "p").head(1)).committed
    assert table.scan().to_arrow().to_pylist() == expected[1:]


@pytest.mark.parametrize("field", ["id", "p"])
def test_timestamps_that_are_text_in_stored_keys_are_told(tmp_path: Path, field: str) -> None:
    """Hudi's row writers make such keys, others by an option that no table states."""
    stored = {"id": "k1", "p": "eu", field: "2024-01-03 01h"}
    moment = dt.datetime(2024, 1, 3, 1, 2, 3, 100000, dt.timezone.utc)
    given = pa.table(
        {
            "id": [stored["id"]],
            "p": [stored["p"]],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "v": [1],
        }
    )
    index = bf.SimpleBucketIndex(1)
    table = bf.create(tmp_path / "t", schema=given, record_key="id", partition_by="p", index=index)
    table.upsert(given)
    kind = {"id": "recordkey", "p": "partition"}[field]
    state_properties(tmp_path / "t", {f"hoodie.table.{kind}.fields": "at"})
    table = bf.open(tmp_path / "t", index=index)
    said = "writers of Hudi differ in timestamps of keys and partition paths"
    for write in (
        lambda: table.upsert(given),
        lambda: table.delete(given.select(["id", "p", "at"])),
        lambda: table.lookup(given.select(["id", "p", "at"])),
    ):
        with pytest.raises(bf.UnsupportedError, match=said):
            write()
    assert table.scan().to_arrow().to_pylist() == given.to_pylist()
    assert table.lookup([stored["id"]]).to_pylist() == given.to_pylist()
    assert table.delete([stored["id"]]).committed
    assert table.scan().count() == 0
