"""Keys located and looked up by the record index of tables that Hudi wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.write.rows.bucket_writer import BucketWriter

Golden = Callable[[str, str], Path]
VERSIONS = ("0.15.0", "1.0.2", "1.2.0")


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_are_where_the_index_says(golden: Golden, version: str) -> None:
    table = bf.open(golden(version, "rli"))
    assert table.index == bf.RecordIndex()
    assert table.resolved_index.source == "metadata table"
    stored = table.scan(["id", "region"], meta_columns=True).to_arrow()
    keys = stored["_hoodie_record_key"]
    asked = pa.chunked_array([*keys.chunks, pa.array(["no such key"])])
    found = table.locate(asked)
    assert found["record_key"] == asked
    names = stored["_hoodie_file_name"]
    assert found["file_id"].to_pylist() == [*(n.split("_")[0] for n in names.to_pylist()), None]
    assert found["partition_path"].to_pylist() == [*stored["region"].to_pylist(), None]
    assert found["bucket_id"].null_count == len(asked)
    rows = table.lookup(asked.slice(len(keys) - 20), ["id", "region"])
    expected = stored.select(["id", "region"]).slice(len(keys) - 20)
    assert rows.sort_by("id") == expected.sort_by("id")


def test_keys_with_their_partitions_are_looked_for_there(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "rli"), index=bf.RecordIndex())
    stored = table.scan(["region"], filter=[("region", "=", "us")], meta_columns=True).to_arrow()
    keys = stored["_hoodie_record_key"].slice(0, 2).combine_chunks()
    asked = pa.table({"record_key": keys, "partition_path": ["us", "eu"]})
    found = table.locate(asked)
    assert found["partition_path"].to_pylist() == ["us", "eu"]
    assert found["file_id"].is_valid().to_pylist() == [True, False]
    assert table.lookup(asked)["id"].to_pylist() == [keys[0].as_py()]
    in_others = table.locate(keys, partitions=["eu", "ap"])
    assert in_others["file_id"].null_count == in_others["partition_path"].null_count == 2
    assert table.locate(keys, partitions=["us"])["file_id"].null_count == 0
    with pytest.raises(ValueError, match="leave partitions= out"):
        table.locate(asked, partitions=["us"])


def test_an_index_that_lacks_a_commit_is_not_used(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "rli")
    (*_, newest) = sorted((root / ".hoodie/metadata/.hoodie/timeline").glob("2*.deltacommit"))
    newest.unlink()
    table = bf.open(root)
    key = table.scan(["id"], limit=1).to_arrow()["id"].to_pylist()
    assert table.lookup(key)["id"].to_pylist() == key
    with pytest.raises(bf.IndexUnknownError, match="not in step with the table: it lacks"):
        table.locate(key)


def test_a_table_with_numbered_file_groups_is_not_taken_for_one_without_buckets(
    golden_copy: Golden,
) -> None:
    root = golden_copy("1.2.0", "mdt_bucket")
    properties = root / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("metadata.partitions=", "metadata.partitions=record_index,"))
    index = bf.open(root).index
    assert isinstance(index, bf.SimpleBucketIndex)


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch) -> str:
    """Have file ids begin with eight digits, as one random UUID in 43 does; return the digits."""
    begin, new_file_id = "83920147", BucketWriter._new_file_id
    monkeypatch.setattr(
        BucketWriter,
        "_new_file_id",
        lambda self, group: begin + new_file_id(self, group)[len(begin) :],
    )
    return begin


_SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])


def numbered(keys: Iterable[str], n: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "n": n} for key in keys], _SCHEMA)


def without_stated_index(root: Path) -> bf.Table:
    """As Hudi has it, which does not record the index of its writers."""
    properties = root / ".hoodie/hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "hoodie.index.type" not in line))
    return bf.open(root)


@pytest.mark.parametrize("keys", [1, 50])
def test_file_groups_that_look_like_buckets_by_chance(
    tmp_path: Path, digits: str, keys: int
) -> None:
    root = tmp_path / "t"
    created = bf.create(root, schema=_SCHEMA, record_key="id", index=bf.RecordIndex())
    created.upsert(numbered([f"key-{n}" for n in range(keys)], 1))
    table = without_stated_index(root)
    files = table.inspect.files()
    assert [path.startswith(digits) for path in files["path"].to_pylist()] == [True]
    assert files["bucket_id"].to_pylist() == [None]
    assert table.index == bf.RecordIndex()
    assert table.upsert(numbered(["key-0", "new"], 2)).rows_updated == 1
    found = table.lookup(["key-0", "new"]).sort_by("id")
    assert found == numbered(["key-0", "new"], 2)


def test_a_file_group_that_looks_like_a_bucket_does_not_hide_that_there_are_none(
    tmp_path: Path, digits: str
) -> None:
    root = tmp_path / "t"
    created = bf.create(root, schema=_SCHEMA, record_key="id", index=bf.RecordIndex())
    created.upsert(numbered(["a", "b"], 1))
    created.metadata_table.drop()
    with pytest.raises(bf.IndexUnknownError, match=r"not prove .*migrate\(\) gives the table"):
        without_stated_index(root).locate(["a"])
