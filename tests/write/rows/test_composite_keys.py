"""Keys of several fields whose values look like fields."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.rows.columns import virtual_keys

pytestmark = pytest.mark.rule("KEY-12")

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
FIRST = {"a": "1,b:2", "b": "3", "v": 1, "ts": 1}
SECOND = {"a": "1", "b": "2,b:3", "v": 2, "ts": 2}
CLEAR = {"a": "1,x:2", "b": "3,a:4", "v": 3, "ts": 1}


def rows(*given: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(given), SCHEMA)


def create(folder: Path, **properties: str) -> bf.Table:
    return bf.create(
        folder / "t",
        schema=SCHEMA,
        record_key=["a", "b"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ",
        properties=properties,
    )


@pytest.mark.parametrize("given", [FIRST, SECOND])
def test_rows_that_would_become_one_record_are_refused(
    tmp_path: Path, given: dict[str, object]
) -> None:
    table = create(tmp_path)
    table.upsert(rows(CLEAR))
    keys = rows(given).select(["a", "b"])
    for attempt in (
        lambda: table.upsert(rows(CLEAR, given)),
        lambda: table.delete(keys),
        lambda: table.locate(keys),
        lambda: table.lookup(keys),
    ):
        with pytest.raises(bf.KeyEncodingError, match="would have the same record key"):
            attempt()
    assert table.lookup(rows(CLEAR).select(["a", "b"])).to_pylist() == [CLEAR]
    assert table.scan().to_arrow().to_pylist() == [CLEAR]


@pytest.mark.parametrize("meta_fields", ["true", "false"])
def test_a_table_that_has_such_keys_is_read_checked_and_compacted(
    tmp_path: Path, meta_fields: str
) -> None:
    """Hudi takes them: to Hudi both rows are one record."""
    table = create(tmp_path, **{"hoodie.populate.meta.fields": meta_fields})
    with mock.patch.object(virtual_keys, "_check_unambiguous"):  # as Hudi writes
        table.upsert(rows(CLEAR, FIRST))
        table.upsert(rows(SECOND))
    expected = [SECOND, CLEAR]
    for _ in range(2):
        assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["v"]) == expected
        assert table.scan(filter=[("a", "=", "1")]).to_arrow().to_pylist() == [SECOND]
        assert table.check(depth="full").status == "clean"
        assert table.lookup(["a:1,b:2,b:3"]).to_pylist() == [SECOND]
        table.compact()
    table.delete(["a:1,b:2,b:3"])
    assert table.scan().to_arrow().to_pylist() == [CLEAR]
