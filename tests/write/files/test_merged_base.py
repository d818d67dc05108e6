"""A base file that is rewritten: what is copied of the one before, and what is encoded again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.check.contents.pages import check_pages
from bucketfmt.format.log.delete_records import DeleteBlock, DeleteRecord
from bucketfmt.format.log.ordering_values import NO_ORDERING_VALUE
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.merging.log_entries import DeleteRun, RowRun, Run
from bucketfmt.rows.merging.merge import merge_log
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.parquet.base_file_writer import encode_base_file
from bucketfmt.rows.parquet.key_footer import KeyFooter
from bucketfmt.slices.slice_reader import BasePiece
from bucketfmt.write.files.merged_base import MergedBase, encode_merged_base

RULES = MergeRules((), False, False)
SCHEMA = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("list", pa.list_(pa.int64())),
    ]
)
AVRO = avro_schema_json(SCHEMA, "r", "")
KEY, TEXT, NUMBER, LIST = SCHEMA.names


def rows(*values: tuple[str, Any, Any, Any]) -> pa.Table:
    columns = zip(*values, strict=True) if values else ((),) * 4
    return pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], SCHEMA)


def base_rows(count: int, start: int = 0) -> pa.Table:
    return rows(*((f"k{i:06}", f"text {i}", i / 2, [i]) for i in range(start, start + count)))


def rewritten(old: pa.Buffer, *runs: Run, **options: Any) -> MergedBase:
    reader = BaseFileReader(old)
    pieces = (
        BasePiece(*reader.read_stored(SCHEMA.names, n)) for n in range(len(reader.row_groups))
    )
    log = merge_log(list(runs), RULES, SCHEMA)
    given: dict[str, Any] = {"key_footer": KeyFooter(), "codec": "zstd", **options}
    return encode_merged_base(log, pieces, reader, AVRO, {}, **given)


def deletes(*keys: str) -> DeleteRun:
    return DeleteRun(
        DeleteBlock.from_records(DeleteRecord(key, "", NO_ORDERING_VALUE) for key in keys)
    )


def pages(file: pa.Buffer, group: int = 0) -> dict[str, bytes]:
    """The pages of each column of a row group."""
    found = BaseFileReader(file).row_groups[group]
    whole = file.to_pybytes()
    return {name: b"".join(whole[slice(*c.pages)] for c in cs) for name, cs in found.chunks.items()}


def copied(old: pa.Buffer, new: pa.Buffer, group: int = 0) -> set[str]:
    before, now = pages(old, group), pages(new, group)
    return {name for name in before if before[name] == now[name]}


def group_rows(file: pa.Buffer) -> list[int]:
    return [group.num_rows for group in BaseFileReader(file).row_groups]


OLD = encode_base_file(base_rows(1000), AVRO, KeyFooter(), row_group_bytes=16_000)


def read(file: pa.Buffer) -> pa.Table:
    assert check_pages(pa.BufferReader(file)).with_checksum > 0
    return BaseFileReader(file).read()


def test_columns_that_stay_are_copied_and_rows_keep_their_places() -> None:
    first, *others = group_rows(OLD)
    assert others
    updates = rows(("k000007", "text 7", -1.0, [7]), ("k000003", "text 3", -2.0, [3]))
    merged = rewritten(OLD, RowRun(updates))
    expected = base_rows(1000).to_pylist()
    expected[7]["number"], expected[3]["number"] = -1.0, -2.0
    assert read(merged.data).to_pylist() == expected
    assert copied(OLD, merged.data) == {KEY, TEXT, LIST}
    for group in range(1, len(others) + 1):
        assert copied(OLD, merged.data, group) == set(SCHEMA.names)
    assert group_rows(merged.data) == [first, *others]
    counted = merged.num_rows, merged.num_updates, merged.num_inserts, merged.num_deletes
    assert counted == (1000, 2, 0, 0)
    assert BaseFileReader(merged.data).key_values == BaseFileReader(OLD).key_values


@pytest.mark.parametrize(
    ("before", "now"),
    [(0.0, -0.0), (-0.0, 0.0), (1.0, math.nan), (math.nan, 1.0), (None, 0.0), (0.0, None)],
)
def test_a_value_that_merely_equals_is_another(before: Any, now: Any) -> None:
    old = encode_base_file(rows(("a", "x", before, None), ("b", "", 1.0, None)), AVRO, KeyFooter())
    merged = rewritten(old, RowRun(rows(("a", "x", now, None))))
    assert repr(read(merged.data)[NUMBER].to_pylist()) == repr([now, 1.0])
    assert copied(old, merged.data) >= {KEY, TEXT}
    assert NUMBER not in copied(old, merged.data)


def test_nan_stays() -> None:
    old = encode_base_file(rows(("a", "x", math.nan, None)), AVRO, KeyFooter())
    merged = rewritten(old, RowRun(rows(("a", "y", math.nan, None))))
    assert copied(old, merged.data) >= {KEY, NUMBER}
    assert read(merged.data)[TEXT].to_pylist() == ["y"]


def test_a_row_group_that_loses_rows_is_encoded_again() -> None:
    first, second, *_ = group_rows(OLD)
    gone = [f"k{first + i:06}" for i in range(0, second, 2)]
    merged = rewritten(OLD, deletes(*gone))
    assert merged.num_deletes == len(gone)
    assert copied(OLD, merged.data) == set(SCHEMA.names)
    assert group_rows(merged.data)[:2] == [first, second - len(gone)]
    left = [key for key in base_rows(1000)[KEY].to_pylist() if key not in gone]
    assert read(merged.data)[KEY].to_pylist() == left
    fresh = KeyFooter()
    fresh.add(pa.array(left))
    assert fresh.entries.items() <= BaseFileReader(merged.data).key_values.items()


def test_a_row_group_that_is_far_from_full_takes_the_inserts() -> None:
    merged = rewritten(OLD, RowRun(rows(("z", "new", 1.0, None))))
    *full, last = group_rows(OLD)
    assert group_rows(merged.data) == [*full, last + 1]
    assert copied(OLD, merged.data) == set(SCHEMA.names)
    assert read(merged.data)[KEY].to_pylist()[-2:] == ["k000999", "z"]
    assert BaseFileReader(merged.data).keys.key_range == ("k000000", "z")


def test_inserts_after_a_row_group_that_is_half_full_begin_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bucketfmt.write.files.merged_base.ROW_GROUP_BYTES", 1000)
    merged = rewritten(OLD, RowRun(rows(("z", "new", 1.0, None))))
    assert group_rows(merged.data) == [*group_rows(OLD), 1]
    merged = rewritten(merged.data, RowRun(rows(("zz", "new", 1.0, None))))
    assert group_rows(merged.data) == [*group_rows(OLD), 2]


def test_another_codec_is_not_copied() -> None:
    merged = rewritten(OLD, RowRun(base_rows(1)), codec="snappy")
    found = pq.ParquetFile(pa.BufferReader(merged.data)).metadata
    codecs = {found.row_group(0).column(i).compression for i in range(found.num_columns)}
    assert codecs == {"SNAPPY"}
    assert read(merged.data) == base_rows(1000)


KEYS = st.sampled_from("abcdefgh")
ROW = st.tuples(
    KEYS,
    st.sampled_from(["", "x", "y", None]),
    st.sampled_from([0.0, 1.5, None]),
    st.sampled_from([None, [], [1]]),
)


@settings(deadline=None)
@given(
    st.lists(ROW, unique_by=lambda row: row[0]),
    st.lists(ROW, unique_by=lambda row: row[0]),
    st.sets(KEYS),
    st.integers(1, 300),
)
def test_any_change_of_any_file(
    base: list[Any], updates: list[Any], gone: set[str], row_group_bytes: int
) -> None:
    updates = [row for row in updates if row[0] not in gone]
    old = encode_base_file(rows(*base), AVRO, KeyFooter(), row_group_bytes=row_group_bytes)
    runs: list[Run] = [RowRun(rows(*updates))] + ([deletes(*gone)] if gone else [])
    merged = rewritten(old, *runs)
    model = {row[0]: row for row in base if row[0] not in gone} | {row[0]: row for row in updates}
    assert BaseFileReader(merged.data).read().to_pylist() == rows(*model.values()).to_pylist()
    known = {row[0] for row in base}
    assert merged.num_updates == sum(row[0] in known for row in updates)
    assert merged.num_deletes == len(known & gone)
    if model:
        assert BaseFileReader(merged.data).keys.may_hold(pa.array(list(model))).all()


# ---------------------------------------------------------------------------- in a table


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bf.Table:
    monkeypatch.setattr("bucketfmt.rows.parquet.copying._COPIED_BYTES", 0)
    return bf.create(
        str(tmp_path / "t"),
        schema=pa.schema(
            [("id", pa.string()), ("name", pa.string()), ("qty", pa.int32()), ("ts", pa.int64())]
        ),
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(1),
    )


def given_rows(count: int, ts: int, qty: int = 0) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "id": [f"key-{i}" for i in numbers],
            "name": [f"name {i % 10}" for i in numbers],
            "qty": pa.array([qty] * count, pa.int32()),
            "ts": [ts] * count,
        }
    )


def newest_file(table: bf.Table) -> pa.Buffer:
    (base,) = (s.base_file for s in table.scan().plan().slices)
    assert base is not None
    return pa.py_buffer((Path(table.uri) / base.path).read_bytes())


def test_an_upsert_copies_what_stays(table: bf.Table) -> None:
    table.upsert(given_rows(5000, ts=1))
    old = newest_file(table)
    table.upsert(given_rows(100, ts=2))
    new = newest_file(table)
    same = {"_hoodie_record_key", "_hoodie_partition_path", "id", "name", "qty"}
    assert copied(old, new) - {"_hoodie_partition_path"} == same - {"_hoodie_partition_path"}
    found = table.scan(["id", "ts", "_hoodie_file_name"]).to_arrow()
    assert found["id"].to_pylist() == [f"key-{i}" for i in range(5000)]
    assert found["ts"].to_pylist() == [2] * 100 + [1] * 4900
    assert len(found["_hoodie_file_name"].unique()) == 1
    assert table.check(depth="full").findings == ()


def test_a_stale_row_changes_nothing(table: bf.Table) -> None:
    table.upsert(given_rows(50, ts=5))
    old = newest_file(table)
    table.upsert(given_rows(50, ts=4, qty=9))
    assert copied(old, newest_file(table)) >= {"id", "name", "qty", "ts", "_hoodie_commit_time"}
    assert set(table.scan(["qty"]).to_arrow()["qty"].to_pylist()) == {0}


def test_a_column_of_another_type_or_none_is_encoded(table: bf.Table) -> None:
    table.upsert(given_rows(50, ts=1))
    wider = given_rows(10, ts=2)
    wider = wider.set_column(2, "qty", wider["qty"].cast(pa.int64()))
    table.upsert(wider.append_column("note", pa.array(["n"] * 10)), evolve=True)
    found = table.scan().to_arrow()
    assert found.schema.field("qty").type == pa.int64()
    assert found["note"].to_pylist() == ["n"] * 10 + [None] * 40
    assert found["qty"].to_pylist() == [0] * 50
    assert table.check(depth="full").findings == ()


def test_a_row_group_too_large_to_hold_is_streamed(
    table: bf.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.upsert(given_rows(50, ts=1))
    old = newest_file(table)
    monkeypatch.setattr("bucketfmt.rows.parquet.copying._HELD_ROWS", 49)
    monkeypatch.setattr(BaseFileReader, "read_stored", None)
    table.upsert(given_rows(10, ts=2))
    assert table.scan(["ts"]).to_arrow()["ts"].to_pylist() == [2] * 10 + [1] * 40
    assert newest_file(table) != old
