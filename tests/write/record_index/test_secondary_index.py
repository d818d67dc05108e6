"""Secondary indexes in the metadata table, kept in step with the rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.metadata.index_definitions import (
    IndexDefinition,
    decode_index_definitions,
    encode_index_definitions,
)
from bucketfmt.format.metadata.metadata_keys import format_secondary_key
from bucketfmt.format.metadata.secondary_key_kernels import find_value_parts, format_secondary_keys
from soak.damage.tables import table_files
from tests.write.metadata.metadata_records import assert_in_step, records_of

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("word", pa.string()),
        ("size", pa.int32()),
        ("ts", pa.int64()),
        ("part", pa.string()),
    ]
)
WORDS = [None, "", "a", "a$b", "a\\$b", "\\", "\n$", "ü😀"]
DEFINITIONS = ".hoodie/.index_defs/index.json"


def make(path: Path, table_type: Any, version: int) -> bf.Table:
    """A table with a record index and two secondary indexes, as Hudi defines them."""
    table = bf.create(
        path,
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        index=bf.RecordIndex(update_partition_path=True),
        table_type=table_type,
        table_version=version,
        properties={"hoodie.table.index.defs.path": DEFINITIONS},
    )
    known = {}
    if table.store.info(DEFINITIONS) is not None:
        known = dict(decode_index_definitions(table.store.read(DEFINITIONS, 1 << 20)))
    for column in ("word", "size"):
        known[f"secondary_index_by_{column}"] = IndexDefinition(
            index_name=f"secondary_index_by_{column}",
            index_type="secondary_index",
            index_function="identity",
            source_fields=[column],
            version="V2" if version >= 9 else None,
        )
    table.store.replace(DEFINITIONS, encode_index_definitions(known))
    table.metadata_table.init("secondary_index_by_word", "secondary_index_by_size")
    return table


def rows(chance: random.Random, keys: range, ts: int) -> pa.Table:
    words = WORDS if ts % 2 else WORDS[2:]
    given = [
        {
            "id": f"k{key}$",
            "word": chance.choice(words),
            "size": chance.choice([None, -1, 7]),
            "ts": ts,
            "part": "ab"[key % 2],
        }
        for key in keys
    ]
    return pa.Table.from_pylist(given, SCHEMA)


@pytest.mark.filterwarnings("error:.*cannot be kept in step")
@pytest.mark.rotated(0, among="every change in the metadata table", one_of=2)
@pytest.mark.parametrize(
    ("table_type", "version"),
    [("MERGE_ON_READ", 9), ("COPY_ON_WRITE", 8)],
)
def test_every_change_is_in_the_index(tmp_path: Path, table_type: Any, version: int) -> None:
    chance = random.Random(f"{table_type}{version}")
    table = make(tmp_path / "t", table_type, version)
    table.upsert(rows(chance, range(20), 1))
    assert_in_step(table)
    table.upsert(rows(chance, range(10, 30), 2))
    table.delete([f"k{key}$" for key in range(3)])
    assert_in_step(table)
    moved = rows(chance, range(10, 14), 3)
    table.upsert(moved.set_column(4, "part", pa.array(["b"] * 4)))
    assert_in_step(table)
    if table_type == "MERGE_ON_READ":
        table.compact()
        table.upsert(rows(chance, range(8, 12), 4))
        assert_in_step(table)
    last = table.upsert(rows(chance, range(5, 9), 5)).instant
    table.rollback(last)
    assert_in_step(table)
    table.insert_overwrite(rows(chance, range(0, 6, 2), 6))
    assert_in_step(table)
    table.delete_partitions(["b"])
    assert_in_step(table)
    # With a replacement on the timeline, readers ask it which blocks of logs count.
    table.upsert(rows(chance, range(12), 7))
    assert_in_step(table)
    table.delete([f"k{key}$" for key in range(3)])
    table.upsert(rows(chance, range(4, 8), 8).set_column(4, "part", pa.array(["b"] * 4)))
    assert_in_step(table)
    assert len(records_of(table, "secondary_index_by_size")) > 0
    table.metadata_table.rebuild()
    assert_in_step(table)


@pytest.mark.filterwarnings("error:.*cannot be kept in step")
@pytest.mark.parametrize("name", ["1.2.0/mdt_secondary", "1.0.2/mdt_secondary_mor"])
def test_entries_are_those_that_hudi_writes(tmp_path: Path, name: str) -> None:
    files = table_files(f"metadata/{name}")
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    table = bf.open(tmp_path)
    assert_in_step(table)
    some = table.scan(limit=9).to_arrow()
    words = pa.array(["z", "\\$", ""] * 3)
    table.upsert(some.set_column(some.schema.get_field_index("name"), "name", words))
    table.delete(some["id"].slice(0, 2))
    assert_in_step(table)


def test_an_index_goes_with_the_type_of_its_column(tmp_path: Path) -> None:
    chance = random.Random(7)
    table = make(tmp_path / "t", "COPY_ON_WRITE", 9)
    table.upsert(rows(chance, range(5), 1))
    wide = rows(chance, range(3), 2)
    wide = wide.set_column(2, "size", wide["size"].cast(pa.float64()))
    with pytest.warns(UserWarning, match="secondary_index_by_size of the metadata table cannot"):
        table.upsert(wide, evolve=True)
    names = [each.name for each in table.metadata_table.list()]
    assert names == ["files", "record_index", "secondary_index_by_word"]
    assert_in_step(table)
    last = table.upsert(wide).instant
    table.metadata_table.drop("record_index")  # without which readers cannot use the other
    with pytest.warns(UserWarning, match="secondary_index_by_word of the metadata table cannot"):
        bf.open(table.uri).rollback(last)
    assert [each.name for each in table.metadata_table.list()] == ["files"]


@pytest.mark.rule("MDT-3", "MDT-7")
def test_keys_in_columns_are_those_one_by_one() -> None:
    values = [*WORDS, "\0", "a\0"]
    keys = [f"{n}\\$" for n in range(len(values))]
    found = format_secondary_keys(pa.array(values), pa.array(keys), 9).to_pylist()
    assert found == [format_secondary_key(*each) for each in zip(values, keys, strict=True)]
    parts = find_value_parts(pa.array(found, pa.large_string())).to_pylist()
    assert parts == [key[: len(key) - len(f"{n}") - 4] for n, key in enumerate(found)]
    old = format_secondary_keys(pa.array(values), pa.array(keys), 8).to_pylist()
    assert old == [
        format_secondary_key(value, key).replace("\\\0", "\0")
        for value, key in zip(values, keys, strict=True)
        if value is not None
    ]


def test_an_index_is_made_beside_a_record_index_only(tmp_path: Path) -> None:
    """Without one no reader uses it, and the next write would remove it."""
    table = make(tmp_path / "t", "COPY_ON_WRITE", 9)
    table.upsert(rows(random.Random(8), range(5), 1))
    partitions = table.metadata_table
    partitions.drop("record_index")
    named: tuple[str, ...]
    for named in ((), ("secondary_index_by_word",)):
        with pytest.raises(ValueError, match="leads to keys of record_index, which the table does"):
            partitions.rebuild(*named)
    (skipped,) = table.check(depth="full", metadata_table_only=True).not_checked
    assert "it leads to keys of record_index, which is not there" in str(skipped)
    partitions.init("record_index")
    partitions.rebuild()
    assert_in_step(table)
    partitions.drop("files")  # keeps the definitions
    with pytest.raises(ValueError, match="make that with it"):
        partitions.init("secondary_index_by_word")
    assert partitions.list() == ()
    partitions.init("record_index", "secondary_index_by_word")
    names = [each.name for each in partitions.list()]
    assert names == ["files", "record_index", "secondary_index_by_word"]
    assert_in_step(table)
