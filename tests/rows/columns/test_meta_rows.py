from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bucketfmt.format.names.names import parse_base_file_name, parse_write_token
from bucketfmt.rows.avro.avro_schema import arrow_schema, parse_avro_schema
from bucketfmt.rows.avro.avro_schema_json import avro_schema_json
from bucketfmt.rows.columns.meta_columns import META_COLUMNS
from bucketfmt.rows.columns.meta_rows import (
    add_meta_columns,
    add_meta_fields,
    add_null_meta_columns,
    add_written_columns,
    file_constants,
    merge_schema,
    meta_schema,
)
from bucketfmt.rows.parquet.base_file import BaseFileReader
from tests.golden import GOLDEN
from tests.rows.parquet.test_base_file_writer import base_files

ROWS = pa.table({"id": ["a", "b"], "n": pa.array([1, None], pa.int32())})
KEYS = pa.chunked_array([["id:a"], ["id:b"]])


def written(rows: pa.Table = ROWS, first_row: int = 0) -> pa.Table:
    return add_meta_columns(rows, KEYS, "p=1", "f_0-1-2_3.parquet", "3", 7, first_row)


def test_rows_newly_written() -> None:
    found = written()
    assert found.schema == meta_schema(ROWS.schema)
    assert found.schema.names == [*META_COLUMNS, "id", "n"]
    assert found.to_pylist() == [
        {
            "_hoodie_commit_time": "3",
            "_hoodie_commit_seqno": f"3_7_{number}",
            "_hoodie_record_key": key,
            "_hoodie_partition_path": "p=1",
            "_hoodie_file_name": "f_0-1-2_3.parquet",
            "id": key[3:],
            "n": n,
        }
        for number, (key, n) in enumerate([("id:a", 1), ("id:b", None)])
    ]
    assert found.select(ROWS.schema.names) == ROWS


def test_sequence_numbers_go_on() -> None:
    assert written(first_row=9)["_hoodie_commit_seqno"].to_pylist() == ["3_7_9", "3_7_10"]


@pytest.mark.parametrize(
    "first_row", [0, 5, 99_999, (1 << 32) - 70_000, (1 << 32) - 5, 10**12 - 3, (1 << 63) - 70_001]
)
def test_sequence_numbers_of_any_width(first_row: int) -> None:
    many = pa.table({"id": pa.nulls(70_000, pa.string())})
    found = add_written_columns(many, many["id"], "3", 7, first_row)["_hoodie_commit_seqno"]
    assert found.to_pylist() == [f"3_7_{first_row + i}" for i in range(70_000)]


def test_no_rows() -> None:
    none = add_meta_columns(ROWS.slice(0, 0), KEYS.slice(0, 0), "", "f", "3", 0)
    assert none == meta_schema(ROWS.schema).empty_table()
    assert add_null_meta_columns(ROWS.slice(0, 0)) == none


def test_virtual_keys() -> None:
    found = add_null_meta_columns(ROWS)
    assert found.schema == meta_schema(ROWS.schema)
    assert {found[name].null_count for name in META_COLUMNS} == {2}
    assert found.select(ROWS.schema.names) == ROWS


def test_what_differs_from_row_to_row_and_what_does_not() -> None:
    whole = written()
    rows = add_written_columns(ROWS, KEYS, "3", 7)
    assert rows.cast(whole.select(rows.schema.names).schema) == whole.select(rows.schema.names)
    assert rows.column("_hoodie_commit_time").chunk(0).dictionary.to_pylist() == ["3"]
    assert rows.schema == merge_schema(ROWS.schema, is_populated=True)
    constants = file_constants("p=1", "f_0-1-2_3.parquet", is_populated=True)
    assert {name: set(whole[name].to_pylist()) for name in constants} == {
        name: {value} for name, value in constants.items()
    }
    assert {*rows.schema.names, *constants} == set(whole.schema.names)


def test_what_is_constant_where_keys_are_virtual() -> None:
    assert file_constants("p=1", "f", is_populated=False) == dict.fromkeys(META_COLUMNS)
    assert merge_schema(ROWS.schema, is_populated=False).names == ["_hoodie_record_key", "id", "n"]


def test_schema_text_and_arrow_schema_agree() -> None:
    text = avro_schema_json(ROWS.schema, "t_record", "hoodie.t")
    assert arrow_schema(parse_avro_schema(add_meta_fields(text))) == meta_schema(ROWS.schema)
    unicode = '{"type":"record","name":"r","fields":[{"name":"a","type":"int","doc":"ü\\n"}]}'
    assert add_meta_fields(unicode).endswith('"type":"int","doc":"ü\\n"}]}')


# ---------------------------------------------------------------------------- Hudi's own


def golden_files(folder: Path) -> Iterator[tuple[Path, BaseFileReader]]:
    for path in base_files(folder):
        reader = BaseFileReader(pa.memory_map(str(path)))
        if reader.avro_schema is not None:
            yield path, reader


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_schema_text_is_hudis(golden: Callable[[str, str], Path], version: str, name: str) -> None:
    for _, reader in list(golden_files(golden(version, name)))[:3]:
        text = reader.avro_schema or ""
        record = json.loads(text)
        record["fields"] = [f for f in record["fields"] if f["name"] not in META_COLUMNS]
        without = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
        assert add_meta_fields(without) == text


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), GOLDEN)
def test_columns_of_files_that_one_instant_wrote(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    """A file whose rows are all new counts them from 0, by the task of its write token."""
    for path, reader in list(golden_files(golden(version, name)))[:20]:
        rows = reader.read()
        file_name = parse_base_file_name(path.name)
        times = rows["_hoodie_commit_time"].unique().to_pylist()
        if times != [file_name.instant]:  # rows copied from an older file, or virtual keys
            continue
        task = parse_write_token(file_name.write_token).task_partition_id
        (partition,) = rows["_hoodie_partition_path"].unique().to_pylist()
        own = rows.drop_columns(list(META_COLUMNS))
        made = add_meta_columns(
            own,
            rows["_hoodie_record_key"],
            partition,
            path.name,
            file_name.instant,
            task,
        )
        assert made.schema == rows.schema
        assert made.select(META_COLUMNS) == rows.select(META_COLUMNS)


def test_golden_files_that_one_instant_wrote(golden: Callable[[str, str], Path]) -> None:
    for version in ("0.15.0", "1.0.2", "1.2.0"):
        reader = next(reader for _, reader in golden_files(golden(version, "tiny_cow")))
        assert len(reader.read()["_hoodie_commit_time"].unique()) == 1
