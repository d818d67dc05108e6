"""Keys located and looked up by the record index of tables that Hudi wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf

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


def test_an_index_that_names_what_is_not_there(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "rli")
    table = bf.open(root)
    found = table.locate(table.scan(["id"]).to_arrow()["id"])
    some = found.slice(0, 1).to_pylist()[0]
    gone = found.filter(pc.equal(found["file_id"], some["file_id"]))
    for path in (root / some["partition_path"]).glob(f"{some['file_id']}*"):
        path.unlink()
    # Commits name the file group, so that the index is right and the files are lost.
    assert table.locate(gone["record_key"])["file_id"].null_count == 0
    with pytest.raises(bf.CorruptError, match="does not exist"):
        bf.open(root).lookup(gone["record_key"])


def test_a_table_with_numbered_file_groups_is_not_taken_for_one_without_buckets(
    golden_copy: Golden,
) -> None:
    root = golden_copy("1.2.0", "mdt_bucket")
    properties = root / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("metadata.partitions=", "metadata.partitions=record_index,"))
    index = bf.open(root).index
    assert isinstance(index, bf.SimpleBucketIndex)
