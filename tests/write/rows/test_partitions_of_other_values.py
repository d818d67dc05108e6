"""Partition values that would share a folder."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.rows.columns import virtual_keys

pytestmark = [pytest.mark.rotated, pytest.mark.rule("PATH-13")]

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("q", pa.string()), ("v", pa.int64())])
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
URL = "hoodie.datasource.write.partitionpath.urlencode"
HIVE = "hoodie.datasource.write.hive_style_partitioning"


def rows(*places: tuple[str | None, str | None]) -> pa.Table:
    given = [{"id": "a", "p": p, "q": q, "v": n} for n, (p, q) in enumerate(places)]
    return pa.Table.from_pylist(given, SCHEMA)


def create(folder: Path, fields: list[str], **properties: str) -> bf.Table:
    return bf.create(
        folder / "t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=fields,
        index=bf.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ",
        properties=properties,
    )


@pytest.mark.parametrize("hive", ["true", "false"])
@pytest.mark.parametrize("url", ["true", "false"])
@pytest.mark.parametrize(
    "places",
    [
        [("x/y", "z"), ("x", "y/z")],
        [("x/q=y", "z"), ("x", "y/q=z")],
        [(None, "z"), (DEFAULT, "z")],
        [(None, "z"), ("", "z")],
        [("x", None), ("x", DEFAULT)],
    ],
)
def test_no_row_replaces_a_row_of_another_partition_value(
    tmp_path: Path, places: list[tuple[str | None, str | None]], url: str, hive: str
) -> None:
    table = create(tmp_path, ["p", "q"], **{URL: url, HIVE: hive})
    given = rows(*places)
    if url == "true" and "/" in f"{places[0]}":
        table.upsert(given)
        stored = table.scan().to_arrow().to_pylist()
        assert sorted(stored, key=lambda row: row["v"]) == given.to_pylist()
        assert table.delete(given.slice(1)).committed
        assert table.scan().to_arrow().to_pylist() == given.to_pylist()[:1]
        return
    for attempt in (table.upsert, table.delete, table.lookup, table.locate):
        with pytest.raises(bf.KeyEncodingError, match="the partition field"):
            attempt(given)
    assert table.scan().to_arrow().num_rows == 0


def test_one_partition_column_may_hold_a_slash(tmp_path: Path) -> None:
    table = create(tmp_path, ["p"])
    given = rows(("2024/01/01", "x"), ("2024/01/02", "x"), (None, "x"))
    table.upsert(given)
    stored = table.scan().to_arrow().to_pylist()
    assert sorted(stored, key=lambda row: row["v"]) == given.to_pylist()


@pytest.mark.parametrize("meta_fields", ["true", "false"])
def test_stored_rows_of_such_partitions_are_read_compacted_and_deleted(
    tmp_path: Path, meta_fields: str
) -> None:
    """Hudi takes them."""
    table = create(tmp_path, ["p", "q"], **{"hoodie.populate.meta.fields": meta_fields})
    given = rows(("x/y", "z"), ("x", ""), (DEFAULT, "w"))
    with mock.patch.object(virtual_keys, "_check_own_path"):  # as Hudi writes
        table.upsert(given)
        table.upsert(given)
    for _ in range(2):
        stored = table.scan().to_arrow().to_pylist()
        assert sorted(stored, key=lambda row: row["v"]) == given.to_pylist()
        assert table.check(depth="full").status == "clean"
        table.compact()
    paths = pa.table({"record_key": ["id:a"], "partition_path": ["x/y/z"]})
    assert table.lookup(paths).to_pylist() == given.to_pylist()[:1]
    assert table.delete(paths).committed
    assert table.delete(filter=[("v", "=", 1)]).committed
    assert table.scan().to_arrow().to_pylist() == given.to_pylist()[2:]
