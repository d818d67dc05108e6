"""Tables of every key generator: the keys and paths that rows get, in every table version."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.table.table_config import KeyGenerator

pytestmark = pytest.mark.rotated

ROW = {"id": "a,1", "number": 7, "made": 1_700_000_000_000, "day": date(2024, 1, 2), "area": "e/u"}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("number", pa.int64()),
        ("made", pa.int64()),
        ("day", pa.date32()),
        ("area", pa.string()),
    ]
)
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ESCAPED = {**HIVE, "hoodie.datasource.write.partitionpath.urlencode": "true"}
TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.timezone": "UTC",
    "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
}
GENERATOR = "hoodie.table.keygenerator.type"

# record_key, partition_by, properties; the generator, the record key, the partition path
MADE: dict[str, tuple[list[str], list[str], dict[str, str], KeyGenerator, str, str]] = {
    "simple": (["id"], ["day"], {}, KeyGenerator.SIMPLE, "a,1", "2024-01-02"),
    "hive": (["number"], ["day"], HIVE, KeyGenerator.SIMPLE, "7", "day=2024-01-02"),
    "escaped": (["id"], ["area"], ESCAPED, KeyGenerator.SIMPLE, "a,1", "area=e%2Fu"),
    "nested path": (["id"], ["area"], {}, KeyGenerator.SIMPLE, "a,1", "e/u"),
    "unpartitioned": (["number"], [], {}, KeyGenerator.NON_PARTITION, "7", ""),
    "complex": (
        ["id", "number"],
        ["number", "day"],
        {},
        KeyGenerator.COMPLEX,
        "id:a,1,number:7",
        "7/2024-01-02",
    ),
    "complex, unpartitioned": (
        ["id", "number"],
        [],
        {GENERATOR: "COMPLEX"},
        KeyGenerator.COMPLEX,
        "id:a,1,number:7",
        "",
    ),
    "timestamp": (
        ["id"],
        ["made:TIMESTAMP"],
        TIMES,
        KeyGenerator.TIMESTAMP,
        "a,1",
        "20231114",
    ),
    "custom": (
        ["id"],
        ["number:SIMPLE", "made:timestamp"],
        {**HIVE, **TIMES},
        KeyGenerator.CUSTOM,
        "a,1",
        "number=7/made=20231114",
    ),
    "custom of one": (["id"], ["day:SIMPLE"], {}, KeyGenerator.CUSTOM, "a,1", "2024-01-02"),
}


def create(root: Path, version: int, **arguments: Any) -> bf.Table:
    return bf.create(
        root, schema=SCHEMA, index=bf.SimpleBucketIndex(2), table_version=version, **arguments
    )


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("name", MADE)
def test_keys_and_paths(tmp_path: Path, name: str, version: int) -> None:
    record_key, partition_by, properties, generator, key, path = MADE[name]
    arguments = {"record_key": record_key, "partition_by": partition_by, "properties": properties}
    table = create(tmp_path / "t", version, **arguments)
    assert table.config.key_generator is generator
    rows = pa.Table.from_pylist([ROW], SCHEMA)
    table.upsert(rows)
    table.upsert(rows)
    again = bf.open(table.uri)
    own = ["_hoodie_record_key", "_hoodie_partition_path"]
    found = again.scan([*own, *SCHEMA.names]).to_arrow().to_pylist()
    assert found == [{own[0]: key, own[1]: path, **ROW}]
    assert again.check(depth="full").status == "clean"
    again.delete([key])
    assert again.scan().count() == 0


@pytest.mark.parametrize(("version", "ending"), [(6, "class"), (8, "type"), (9, "type")])
def test_where_each_version_says_the_key_generator(
    tmp_path: Path, version: int, ending: str
) -> None:
    table = create(
        tmp_path / "t",
        version,
        record_key=["id"],
        partition_by=["number:SIMPLE", "made:TIMESTAMP"],
        properties=TIMES,
    )
    said = table.config.properties
    names = {key for key in said if key.startswith("hoodie.table.keygenerator")}
    assert names == {f"hoodie.table.keygenerator.{ending}"}
    typed = "number:SIMPLE,made:TIMESTAMP"
    if version == 6:  # where Hudi keeps the types in its writers' options
        assert said["hoodie.table.partition.fields"] == "number,made"
        assert said["hoodie.datasource.write.partitionpath.field"] == typed
    else:
        assert said["hoodie.table.partition.fields"] == typed


@pytest.mark.parametrize(
    ("version", "ordering", "expected"),
    [
        (6, ["number"], {"hoodie.table.precombine.field": "number"}),
        (
            8,
            ["number"],
            {
                "hoodie.table.precombine.field": "number",
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            },
        ),
        (
            9,
            ["number", "made"],
            {
                "hoodie.table.ordering.fields": "number,made",
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            },
        ),
        (9, [], {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
    ],
)
def test_what_says_how_rows_merge(
    tmp_path: Path, version: int, ordering: list[str], expected: dict[str, str]
) -> None:
    table = create(tmp_path / "t", version, record_key=["id"], ordering=ordering)
    said = table.config.properties
    assert {key: said.get(key) for key in expected} == expected
    assert table.config.ordering_fields == tuple(ordering)
