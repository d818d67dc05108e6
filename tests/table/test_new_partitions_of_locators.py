"""Keys of partitions that a locator does not have."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf

TABLES = [("1.2.0", "mor"), ("1.2.0", "ch_split"), ("0.15.0", "cow"), ("1.2.0", "partrules")]


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_a_new_partition_has_buckets_and_no_files(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    """It was a NotFoundError: "make a new one"."""
    table = bf.open(golden(version, name))
    key = table.scan([], meta_columns=True).to_arrow()["_hoodie_record_key"][0].as_py()
    asked = [{"_hoodie_record_key": key, "_hoodie_partition_path": path} for path in ("new", "eu")]
    found = pickle.loads(pickle.dumps(table.locator())).locate(asked).to_pylist()
    assert found == table.locate(asked).to_pylist()
    assert (found[0]["partition_path"], found[0]["file_id"]) == ("new", None)
    assert found[0]["bucket_id"] is not None


def test_a_locator_of_some_partitions_refuses_others(golden: Callable[[str, str], Path]) -> None:
    locator = bf.open(golden("1.2.0", "mor")).locator(["eu"])
    asked = [{"_hoodie_record_key": "k", "_hoodie_partition_path": "us"}]
    with pytest.raises(bf.NotFoundError, match="'us' is not among them; name it too by partitions"):
        locator.locate(asked)
