from __future__ import annotations

import base64
import contextlib
import datetime as dt
import io
import itertools
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.limits import Limits
from bucketfmt.rows.filters.filter import parse_filter
from bucketfmt.rows.parquet.base_file import BaseFileReader
from tests.golden import GOLDEN
from tests.rotation import examples


def written(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **{"store_schema": False, "row_group_size": 4, **options})
    return sink.getvalue()


def opened(data: bytes, limits: Limits | None = None) -> BaseFileReader:
    return BaseFileReader(pa.py_buffer(data), limits or Limits())


ROWS = pa.table(
    {
        "_hoodie_record_key": [f"k{number:02}" for number in range(10)],
        "n": list(range(10)),
        "f": [number / 2 for number in range(10)],
    }
)


def test_reads_all_some_and_in_batches() -> None:
    reader = opened(written(ROWS))
    assert reader.num_rows == 10
    assert reader.metadata.num_row_groups == 3
    assert reader.schema == ROWS.schema
    assert reader.read() == ROWS
    assert reader.read(["n"], [2, 0], use_threads=False)["n"].to_pylist() == [8, 9, 0, 1, 2, 3]
    assert reader.read(["n", "absent"]).schema.names == ["n"]
    assert reader.read([]).num_rows == 10
    assert reader.read(row_groups=[]).num_rows == 0
    batches = list(reader.iter_batches(["n"], [0, 1], batch_rows=3))
    assert [row for batch in batches for row in batch["n"].to_pylist()] == list(range(8))
    assert all(isinstance(batch, pa.RecordBatch) and batch.num_rows <= 3 for batch in batches)
    assert pa.Table.from_batches(reader.iter_batches()) == ROWS


def test_reads_from_a_native_file(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(written(ROWS))
    with pa.OSFile(str(path)) as source:
        assert BaseFileReader(source).read() == ROWS


def test_footer() -> None:
    schema = ROWS.schema.with_metadata(
        {
            "parquet.avro.schema": '{"type": "record"}',
            "hoodie_min_record_key": "k00",
            "hoodie_max_record_key": "k09",
            b"not text": b"\xff",
        }
    )
    reader = opened(written(ROWS.cast(schema), store_schema=True))
    assert reader.avro_schema == '{"type": "record"}'
    assert reader.keys.key_range == ("k00", "k09")
    assert reader.keys.bloom_filter is None
    assert reader.schema.metadata is None
    assert reader.read().schema.metadata is None
    assert [batch.schema.metadata for batch in reader.iter_batches()] == [None]
    plain = opened(written(ROWS))
    assert (plain.avro_schema, plain.keys.key_range, plain.key_values) == (None, None, {})


def test_row_groups_of_a_filter_and_of_keys() -> None:
    reader = opened(written(ROWS))
    assert reader.find_row_groups(parse_filter([("n", ">", 3)]), ROWS.schema) == [1, 2]
    assert reader.find_row_groups_of_keys(pa.array(["k03", "k09"])) == [0, 2]
    assert reader.find_row_groups_of_keys(pa.array(["", "zz"])) == []
    assert reader.find_row_groups_of_keys(pa.array([], pa.string())) == []
    unknown = opened(written(ROWS, write_statistics=False))
    assert unknown.find_row_groups_of_keys(pa.array(["zz"])) == [0, 1, 2]
    without = opened(written(ROWS.drop(["_hoodie_record_key"])))
    assert without.find_row_groups_of_keys(pa.array(["k03"])) == [0, 1, 2]


def test_a_damaged_bloom_filter_is_found_by_reading_the_keys(
    golden: Callable[[str, str], Path],
) -> None:
    path = max(golden("0.15.0", "tiny_ch").glob("us/*.parquet"))
    data = path.read_bytes()
    text = opened(data).key_values["org.apache.hudi.bloomfilter"].encode()
    bits = base64.b64decode(text)
    empty = base64.b64encode(bits[:13] + bytes(len(bits) - 13))
    keys = opened(data).read(["_hoodie_record_key"])["_hoodie_record_key"].combine_chunks()
    assert opened(data).find_row_groups_of_keys(keys) == [0]
    with pytest.raises(CorruptError, match="the bloom filter says"):
        opened(data.replace(text, empty)).find_row_groups_of_keys(keys)


def test_a_damaged_key_range_is_not_that_of_the_statistics() -> None:
    for low, high in (("k0", "k09"), ("k00", "k19"), ("", "k09")):
        metadata = {"hoodie_min_record_key": low, "hoodie_max_record_key": high}
        damaged = opened(written(ROWS.replace_schema_metadata(metadata), store_schema=True))
        with pytest.raises(CorruptError, match="by the statistics of the key column"):
            damaged.find_row_groups_of_keys(pa.array(["k03"]))


def test_key_ranges_in_the_order_of_java_are_no_damage() -> None:
    by_utf8 = ["a\ue000", "a\U00010000"]  # in Java's order the other way round
    metadata = {"hoodie_min_record_key": by_utf8[1], "hoodie_max_record_key": by_utf8[0]}
    rows = pa.table({"_hoodie_record_key": by_utf8}).replace_schema_metadata(metadata)
    reader = opened(written(rows, store_schema=True))
    assert reader.find_row_groups_of_keys(pa.array(by_utf8)) == [0]


def test_columns_are_stored_with_levels_if_they_may_be_null(
    golden: Callable[[str, str], Path],
) -> None:
    reader = opened(next(golden("1.2.0", "tiny_cow").glob("us/*.parquet")).read_bytes())
    reader.check_nullable(reader.schema.names)
    reader.schema = pa.schema([field.with_nullable(field.name != "qty") for field in reader.schema])
    with pytest.raises(CorruptError, match="'qty' is stored as nullable where it is not"):
        reader.check_nullable(["qty"])


@pytest.mark.rule("BLOOM-11")
def test_key_range_excludes_only_where_all_writers_compare_alike() -> None:
    def may_hold(low: str, high: str, keys: list[str]) -> list[bool]:
        metadata = {"hoodie_min_record_key": low, "hoodie_max_record_key": high}
        reader = opened(written(ROWS.replace_schema_metadata(metadata), store_schema=True))
        return reader.keys.may_hold(pa.array(keys)).tolist()

    assert may_hold("b", "d", ["a", "b", "c", "d", "da", "😀"]) == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    # U+FFFD sorts after 😀 by UTF-16 units, before it by bytes
    assert may_hold("b", "\ufffd", ["a", "😀", "\ufffe"]) == [False, True, True]
    assert may_hold("😀", "😀z", ["a", "\ufffd"]) == [True, True]


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_base_files_of_hudi(version: str, name: str, golden: Callable[[str, str], Path]) -> None:
    paths = golden(version, name).glob("**/*.parquet")
    files = sorted(path for path in paths if ".hoodie" not in path.parts)
    for path in files[:1]:
        reader = opened(path.read_bytes())
        rows = reader.read()
        assert rows.num_rows == reader.num_rows > 0
        batched = pa.Table.from_batches(reader.iter_batches(batch_rows=7), rows.schema)
        assert str(batched.to_pylist()) == str(rows.to_pylist())  # as text: there are NaN
        keys = rows["_hoodie_record_key"].combine_chunks()
        if name.startswith("virtual"):
            continue  # no keys there
        assert reader.keys.may_hold(keys).all()
        assert reader.find_row_groups_of_keys(keys) == list(range(reader.metadata.num_row_groups))
        assert reader.find_row_groups_of_keys(pa.array(["\x01", "\ud7ff"])) == []


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_footers_of_hudi(version: str, golden: Callable[[str, str], Path]) -> None:
    path = next(golden(version, "cow").glob("us/*.parquet"))
    reader = opened(path.read_bytes())
    keys = reader.read(["_hoodie_record_key"])["_hoodie_record_key"].combine_chunks()
    assert reader.keys.key_range == (min(keys.to_pylist()), max(keys.to_pylist()))
    assert '"_hoodie_record_key"' in (reader.avro_schema or "")
    assert reader.keys.bloom_filter is not None
    assert reader.keys.may_hold(keys).all()
    between = pa.array([f"{key}~" for key in keys.to_pylist()])
    assert not reader.keys.may_hold(between).any()
    assert reader.find_row_groups_of_keys(between) == []


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_types_hudi_writes(
    version: str, golden: Callable[[str, str], Path], golden_expected: Callable[..., pa.Table]
) -> None:
    expected = {row["id"]: row for row in golden_expected(version, "intkey").to_pylist()}
    found = 0
    for path in golden(version, "intkey").glob("region=*/**/*.parquet"):
        reader = opened(path.read_bytes())
        assert reader.schema.field("v").type == pa.decimal128(18, 4)
        assert reader.schema.field("t").type == pa.timestamp("us", "UTC")
        for row in reader.read().to_pylist():
            want = expected[row["id"]]
            for column in ("v", "d", "tags", "m", "region", "_hoodie_record_key"):
                assert row[column] == want[column], (row["id"], column)
            assert row["t"].timestamp() == want["t"].replace(tzinfo=row["t"].tzinfo).timestamp()
            found += 1
    assert found == len(expected) == 300


def test_int96_is_microseconds_in_utc_at_any_depth() -> None:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
    stamp = pa.timestamp("ns")
    rows = pa.table(
        {
            "t": pa.array([moment, None], stamp),
            "plain": pa.array([moment, None], pa.timestamp("us")),
            "deep": pa.array(
                [[{"at": moment, "n": 1}], None],
                pa.list_(pa.struct([("at", stamp), ("n", pa.int32())])),
            ),
            "m": pa.array([[("k", moment)], None], pa.map_(pa.string(), stamp)),
        }
    )
    sink = io.BytesIO()
    pq.write_table(
        rows.select(["t", "deep", "m"]),
        sink,
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    )
    reader = opened(sink.getvalue())
    utc = pa.timestamp("us", "UTC")
    assert reader.schema.field("t").type == utc
    assert reader.schema.field("deep").type.value_type.field("at").type == utc
    assert reader.schema.field("m").type.item_type == utc
    aware = moment.replace(tzinfo=dt.timezone.utc)
    (first, second), (batch,) = reader.read().to_pylist(), reader.iter_batches()
    assert batch.to_pylist() == [first, second]
    assert first == {"t": aware, "deep": [{"at": aware, "n": 1}], "m": [("k", aware)]}
    assert second == {"t": None, "deep": None, "m": None}
    assert opened(written(rows.select(["plain"]))).schema.field("plain").type == pa.timestamp("us")


def test_arrow_types_a_writer_recorded_become_plain() -> None:
    rows = pa.table(
        {
            "d": pa.array(["a", "b", "a"]).dictionary_encode(),
            "l": pa.array([[1], None, []], pa.large_list(pa.int32())),
        }
    )
    reader = opened(written(rows, store_schema=True))
    assert reader.schema.types == [pa.string(), pa.list_(pa.int32())]
    assert reader.read().to_pydict() == {"d": ["a", "b", "a"], "l": [[1], None, []]}


def test_damage_is_a_corrupt_error() -> None:
    data = written(ROWS)
    for bad in (b"", b"PAR1", data[:-1], data[:900] + bytes(60) + data[960:], b"x" * 100):
        with pytest.raises(CorruptError):
            opened(bad)
    checked = bytearray(written(ROWS, write_page_checksum=True, compression="none"))
    checked[60] ^= 1  # in the first page's data
    with pytest.raises(CorruptError):
        opened(bytes(checked)).read()
    with pytest.raises(CorruptError):
        list(opened(bytes(checked)).iter_batches())
    with pytest.raises(CorruptError, match="same name"):
        opened(written(pa.table([[1], [2]], names=["a", "a"])))
    bad_bloom = ROWS.replace_schema_metadata(
        {"org.apache.hudi.bloomfilter": b64encode(b"x").decode()}
    )
    with pytest.raises(CorruptError):
        opened(written(bad_bloom, store_schema=True)).keys.may_hold(pa.array(["k"]))


@pytest.mark.parametrize(
    "limits",
    [
        Limits(base_file_rows_max=9),
        Limits(row_group_rows_max=3),
        Limits(row_group_bytes_max=10),
        Limits(schema_fields_max=2),
    ],
)
def test_limits(limits: Limits) -> None:
    with pytest.raises(LimitError):
        opened(written(ROWS), limits)


SMALL = written(ROWS.slice(0, 4), compression="none")


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255), st.integers(0, len(SMALL)))
def test_any_bytes_read_or_fail_as_our_own(position: int, flip: int, cut: int) -> None:
    damaged = bytearray(SMALL)
    damaged[position] ^= flip
    read_or_refuse(bytes(damaged))
    read_or_refuse(SMALL[:cut])


def read_or_refuse(data: bytes) -> None:
    limits = Limits(row_group_bytes_max=1 << 20, row_group_rows_max=1 << 16)
    with contextlib.suppress(BucketfmtError):
        reader = opened(data, limits)
        reader.find_row_groups_of_keys(pa.array(["k01"]))
        reader.find_row_groups(parse_filter([("n", "<", 3), ("f", ">", 0.5)]), ROWS.schema)
        reader.read()
        list(reader.iter_batches())


def test_no_row_is_missing_without_an_error() -> None:
    """Arrow passes over a page whose header is damaged so that the page is of no known type."""
    refused = 0
    for position, bit in itertools.product(range(4, 120), range(8)):
        damaged = bytearray(SMALL)
        damaged[position] ^= 1 << bit
        for read in (
            lambda reader: sum(batch.num_rows for batch in reader.iter_batches()),
            lambda reader: sum(
                batch.num_rows for batch in reader.iter_batches(["_hoodie_record_key"])
            ),
            lambda reader: reader.read(["_hoodie_record_key"]).num_rows,
            lambda reader: reader.read(["n"]).num_rows,
            lambda reader: reader.read_stored(["n"], 0)[0].num_rows,
        ):
            try:
                assert read(opened(bytes(damaged))) == 4, (position, bit)
            except BucketfmtError:  # noqa: PERF203
                refused += 1
    assert refused > 100


def test_row_order_and_threads_agree() -> None:
    rows = pa.table({"n": np.arange(100_000)})
    reader = opened(written(rows, row_group_size=7_000))
    assert reader.read(use_threads=True) == reader.read(use_threads=False) == rows
