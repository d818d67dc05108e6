"""Keys are taken in every form a caller has them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.table.keys import KeySet, KeysLike
from bucketfmt.table.keys import read_keys as read_keys_of

Golden = Callable[[str, str], Path]
KEYS = ["key-000125", "key-000126", "key-000125"]


def config(**properties: str) -> TableConfig:
    settings = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "region",
        "hoodie.table.keygenerator.type": "SIMPLE",
    }
    given = {key.replace("__", "."): value for key, value in properties.items()}
    return TableConfig.from_properties({**settings, **given})


def read_keys(keys: KeysLike, settings: TableConfig) -> KeySet:
    """Read keys of a table whose columns have the types of the rows."""
    return read_keys_of(keys, settings, lambda: pa.schema([]))


def forms() -> dict[str, Any]:
    import pandas
    import polars

    column = pa.array(KEYS)
    return {
        "list": KEYS,
        "tuple": tuple(KEYS),
        "array": column,
        "chunked": pa.chunked_array([KEYS[:1], KEYS[1:]]),
        "slice": pa.array(["x", *KEYS, "y"]).slice(1, 3),
        "large_string": column.cast(pa.large_string()),
        "string_view": column.cast(pa.string_view()),
        "dictionary": column.dictionary_encode(),
        "dictionary of views": pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 0], pa.uint32()), pa.array(KEYS[:2], pa.string_view())
        ),
        "polars series": polars.Series(KEYS),
        "pandas series": pandas.Series(KEYS),
        "key column": pa.table({"id": column}),
        "record_key": pa.table({"record_key": column, "qty": [1, 2, 3]}),
        "meta column": pa.table({"_hoodie_record_key": column, "id": ["a", "b", "c"]}),
        "record batch": pa.record_batch({"id": column}),
        "reader": pa.table({"id": column}).to_reader(),
        "polars": polars.DataFrame({"id": KEYS, "qty": [1, 2, 3]}),
        "pandas": pandas.DataFrame({"id": KEYS}),
    }


@pytest.mark.parametrize("form", sorted(forms()))
def test_every_form(form: str) -> None:
    found = read_keys(forms()[form], config())
    assert found.record_keys.type == pa.string()
    assert found.record_keys.to_pylist() == KEYS
    assert found.partition_paths is None


@pytest.mark.parametrize(
    "rows",
    [
        {"id": KEYS, "region": ["us", "eu", "us"]},
        {"id": KEYS, "_hoodie_partition_path": ["us", "eu", "us"]},
        {"_hoodie_record_key": KEYS, "_hoodie_partition_path": ["us", "eu", "us"]},
        {"record_key": KEYS, "partition_path": ["us", "eu", "us"]},
    ],
)
def test_rows_with_their_partition(rows: dict[str, list[str]]) -> None:
    found = read_keys(pa.table(rows), config())
    assert found.partition_paths is not None
    assert found.partition_paths.to_pylist() == ["us", "eu", "us"]


def test_partition_paths_are_made_as_the_table_makes_them() -> None:
    rows = pa.table({"id": KEYS, "region": ["us/ca", None, "eu"]})
    given = config(
        hoodie__datasource__write__hive_style_partitioning="true",
        hoodie__datasource__write__partitionpath__urlencode="true",
    )
    found = read_keys(rows, given)
    assert found.partition_paths is not None
    assert found.partition_paths.to_pylist() == [
        "region=us%2Fca",
        "region=__HIVE_DEFAULT_PARTITION__",
        "region=eu",
    ]


def test_a_table_without_partitions_has_one_path() -> None:
    found = read_keys(KEYS, config(hoodie__table__partition__fields=""))
    assert found.partition_paths is not None
    assert found.partition_paths.to_pylist() == ["", "", ""]


def test_keys_are_made_of_key_fields_as_the_table_makes_them() -> None:
    given = config(
        hoodie__table__recordkey__fields="id,at.day", hoodie__table__keygenerator__type="COMPLEX"
    )
    rows = pa.table({"id": [1, 2], "at": [{"day": "mo"}, {"day": None}]})
    assert read_keys(rows, given).record_keys.to_pylist() == [
        "id:1,at.day:mo",
        "id:2,at.day:__null__",
    ]


def test_a_complex_key_of_one_field_is_written_in_two_ways() -> None:
    rows = pa.table({"id": ["7"]})
    for version in ("6", "8"):
        given = config(hoodie__table__keygenerator__type="COMPLEX", hoodie__table__version=version)
        with pytest.raises(ValueError, match="as 7 or as id:7; give the column _hoodie_record_key"):
            read_keys(rows, given)
        meta = rows.rename_columns(["_hoodie_record_key"])
        assert read_keys(meta, given).record_keys.to_pylist() == ["7"]
    named = config(hoodie__table__keygenerator__type="COMPLEX")
    assert read_keys(rows, named).record_keys.to_pylist() == ["id:7"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a", 2], "one type"),
        (["\ud800"], "one type"),
        ([object()], "one type"),
        (pa.table({"_hoodie_record_key": [1]}), "a record key is text .* not int64"),
        (None, "not NoneType"),
    ],
)
def test_what_is_no_key_is_a_type_error(keys: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        read_keys(keys, config())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([None, "a"], "a record key is null"),
        (pa.array(["a", None]), "a record key is null"),
        (pa.table({"nope": ["a"]}), "need the column _hoodie_record_key, or all of: id"),
        (
            pa.table({"id": ["a"], "_hoodie_partition_path": pa.array([None], pa.string())}),
            "a partition path is null",
        ),
    ],
)
def test_what_lacks_a_key_is_a_value_error(keys: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_keys(keys, config())


def test_rows_without_a_key_value_have_none() -> None:
    with pytest.raises(bf.KeyEncodingError, match="row 1"):
        read_keys(pa.table({"id": ["a", None]}), config())


def test_a_partition_that_would_leave_the_table(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    for column in ("region", "_hoodie_partition_path"):
        with pytest.raises(bf.UnsafePathError):
            table.lookup(pa.table({"id": ["a"], column: ["../cow"]}))


class TestColumnsOfTheUser:
    """Columns of the table that are called as `locate` calls its own are not keys."""

    def test_a_row_is_found_and_deleted_by_its_own_key(self, tmp_path: Path) -> None:
        rows = pa.table({"id": ["a", "b", "c"], "record_key": ["b", "c", "a"], "n": [1, 2, 3]})
        table = bf.create(tmp_path / "t", schema=rows, record_key="id")
        table.upsert(rows)
        found = table.to_arrow(filter="n = 1")
        assert table.lookup(found).to_pylist() == found.to_pylist()
        assert table.locate(found)["record_key"].to_pylist() == ["a"]
        table.delete(found)
        assert sorted(table.to_arrow()["id"].to_pylist()) == ["b", "c"]
        with pytest.raises(ValueError, match="need the column _hoodie_record_key"):
            table.delete(rows.select(["record_key"]))

    def test_a_row_is_deleted_in_its_own_partition(self, tmp_path: Path) -> None:
        rows = pa.table({"id": ["a", "a"], "city": ["sf", "ny"], "partition_path": ["ny", "sf"]})
        table = bf.create(tmp_path / "t", schema=rows, record_key="id", partition_by="city")
        table.upsert(rows)
        table.delete(rows.slice(0, 1))
        assert table.to_arrow()["city"].to_pylist() == ["ny"]
