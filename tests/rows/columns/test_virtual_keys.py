from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import KeyEncodingError, SchemaError, UnsafePathError, UnsupportedError
from bucketfmt.format.keys.record_keys import KeyEncoding, format_record_key
from bucketfmt.format.names.paths import format_partition_path
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.rows.columns.virtual_keys import partition_paths, record_keys
from bucketfmt.rows.parquet.base_file import BaseFileReader
from tests.golden import GOLDEN
from tests.rows.parquet.test_base_file_writer import base_files


def config(keys: str, partitions: str = "", generator: str = "", version: int = 9) -> TableConfig:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.version": str(version),
        "hoodie.table.recordkey.fields": keys,
        "hoodie.table.partition.fields": partitions,
    }
    if generator:
        properties["hoodie.table.keygenerator.type"] = generator
    return TableConfig.from_properties(properties)


def test_simple_key_is_the_value_alone() -> None:
    rows = pa.table({"id": [1, -2], "p": ["a", "b"]})
    assert record_keys(rows, config("id", "p")).to_pylist() == ["1", "-2"]


@pytest.mark.rule("KEY-4")
@pytest.mark.parametrize(
    ("column", "key"),
    [
        (pa.array([dt.date(2024, 1, 2)]), "2024-01-02"),
        (pa.array([Decimal("12.34")], pa.decimal128(10, 2)), "12.34"),
        (pa.array([True]), "true"),
        (pa.array([1.0]), "1.0"),
        (pa.array([1.1], pa.float32()), "1.1"),
        (pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC")), "1700000000123456"),
        (pa.array(["x,y:z"]), "x,y:z"),
    ],
)
def test_value_text(column: pa.Array, key: str) -> None:
    assert record_keys(pa.table({"id": column}), config("id")).to_pylist() == [key]


def test_several_fields_are_named_and_placeholders_stand_for_nothing() -> None:
    rows = pa.table({"a": ["x", None, ""], "b": [1, 2, 3]})
    expected = ["a:x,b:1", "a:__null__,b:2", "a:__empty__,b:3"]
    assert record_keys(rows, config("a,b")).to_pylist() == expected
    assert record_keys(rows, config("a,b", "b", "COMPLEX", 6)).to_pylist() == expected


def test_complex_key_of_one_field_depends_on_the_release() -> None:
    rows = pa.table({"id": [7]})
    assert record_keys(rows, config("id", "id", "COMPLEX", 9)).to_pylist() == ["id:7"]
    assert record_keys(rows, config("id", "id", "COMPLEX", 8)).to_pylist() == ["7"]
    named = record_keys(rows, config("id", "id", "COMPLEX", 8), KeyEncoding.NAMED)
    assert named.to_pylist() == ["id:7"]


def test_nested_key_field() -> None:
    rows = pa.table({"who": [{"id": 7}, {"id": 8}], "b": [1, None]})
    assert record_keys(rows, config("who.id,b")).to_pylist() == [
        "who.id:7,b:1",
        "who.id:8,b:__null__",
    ]


def test_refusals() -> None:
    for value in ("", None):
        with pytest.raises(KeyEncodingError, match="row 1"):
            record_keys(pa.table({"id": ["a", value]}), config("id"))
    with pytest.raises(KeyEncodingError, match="row 0"):
        record_keys(pa.table({"a": [None], "b": [""]}), config("a,b"))
    with pytest.raises(SchemaError, match="no column id"):
        record_keys(pa.table({"x": [1]}), config("id"))
    with pytest.raises(UnsupportedError, match="AUTO_RECORD"):
        record_keys(pa.table({"x": [1]}), config("x", generator="AUTO_RECORD"))
    with pytest.raises(UnsupportedError, match="no text form"):
        record_keys(pa.table({"x": [b"1"]}), config("x"))
    with pytest.raises(UnsupportedError, match=r"not made of its columns.*; have Hudi write"):
        partition_paths(pa.table({"p": [1]}), config("x", "p", "USER_PROVIDED"))


@pytest.mark.rule("KEY-12")
def test_two_rows_of_one_key_are_refused_unless_they_are_stored() -> None:
    rows = pa.table({"a": ["x", "1,b:2", "1"], "b": ["y", "3", "2,b:3"]})
    with pytest.raises(KeyEncodingError, match=r"row 1: the value '1,b:2' .* field a holds ',b:'"):
        record_keys(rows, config("a,b"))
    with pytest.raises(KeyEncodingError, match=r"row 0: the value '2,b:3' .* field b"):
        record_keys(rows.slice(2), config("a,b"))
    stored = record_keys(rows, config("a,b"), are_stored=True)
    assert stored.to_pylist() == ["a:x,b:y", "a:1,b:2,b:3", "a:1,b:2,b:3"]
    literal = pa.table({"a": ["x", "__null__"], "b": [1, 2]})
    with pytest.raises(KeyEncodingError, match="row 1: the value '__null__'"):
        record_keys(literal, config("a,b"))
    alone = pa.table({"id": ["__null__", "1,id:2", "1,b:2"]})
    expected = ["id:__null__", "id:1,id:2", "id:1,b:2"]
    assert record_keys(alone, config("id", "id", "COMPLEX")).to_pylist() == expected


TEXTS = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.lists(st.sampled_from([",a:", ",b:", "__null__", "x"]), max_size=2).map("".join),
)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5), st.sampled_from([1, 2]))
def test_agrees_with_the_scalar_form(values: list, width: int) -> None:
    fields = ["a", "b"][:width]
    settings = config(",".join(fields), "p")
    rows = pa.table(
        {name: pa.array([v[i] for v in values], pa.string()) for i, name in enumerate("ab")}
    )
    try:
        expected = [
            format_record_key(fields, v[:width], settings.key_generator, KeyEncoding.NAMED)
            for v in values
        ]
    except KeyEncodingError:
        with pytest.raises(KeyEncodingError):
            record_keys(rows, settings)
    else:
        assert record_keys(rows, settings).to_pylist() == expected


STYLES = st.tuples(st.booleans(), st.booleans())


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5), STYLES, st.sampled_from(["a", "a,b"]))
def test_partition_paths_agree_with_the_scalar_form(
    values: list, style: tuple, fields: str
) -> None:
    hive_style, url_encode = style
    properties = {
        **config("id", fields).properties,
        "hoodie.datasource.write.partitionpath.urlencode": str(url_encode).lower(),
        "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
    }
    settings = TableConfig.from_properties(properties)
    names = fields.split(",")
    rows = pa.table(
        {name: pa.array([v[i] for v in values], pa.string()) for i, name in enumerate("ab")}
    )
    try:
        expected = [
            format_partition_path(v[: len(names)], names, hive_style, url_encode) for v in values
        ]
    except (KeyEncodingError, UnsafePathError):
        with pytest.raises((KeyEncodingError, UnsafePathError)):
            partition_paths(rows, settings)
    else:
        assert partition_paths(rows, settings).to_pylist() == expected


def test_partition_paths_of_other_types_and_none() -> None:
    rows = pa.table({"d": pa.array([19000, None], pa.int32()).cast(pa.date32()), "n": [1, 2]})
    assert partition_paths(rows, config("n", "d")).to_pylist() == [
        "2022-01-08",
        "__HIVE_DEFAULT_PARTITION__",
    ]
    assert partition_paths(rows, config("n")).to_pylist() == ["", ""]


# ---------------------------------------------------------------------------- formatted times

TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
DAYS = pa.table({"p": [0, 86_400_000, None], "q": ["a/b", None, "c"]})


def with_properties(config: TableConfig, **more: str) -> TableConfig:
    dotted = {name.replace("__", "."): text for name, text in more.items()}
    return TableConfig.from_properties({**config.properties, **TIMES, **dotted})


def test_timestamp_partition_paths() -> None:
    settings = config("id", "p", "TIMESTAMP")
    assert partition_paths(DAYS, with_properties(settings)).to_pylist() == [
        "1970/01/01",
        "1970/01/02",
        "1970/01/01",  # Hudi takes null for 1
    ]
    styled = with_properties(
        settings,
        hoodie__datasource__write__hive_style_partitioning="true",
        hoodie__datasource__write__partitionpath__urlencode="true",
    )
    assert partition_paths(DAYS, styled).to_pylist()[1] == "p=1970%2F01%2F02"
    with pytest.raises(UnsupportedError, match=r"timestamp.type is not in its hoodie.properties"):
        partition_paths(DAYS, settings)
    with pytest.raises(SchemaError, match="no column p"):
        partition_paths(pa.table({"x": [1]}), with_properties(settings))


def test_custom_partition_paths() -> None:
    expected = [
        "a/b/1970/01/01",
        "__HIVE_DEFAULT_PARTITION__/1970/01/02",
        "c/1970/01/01",
    ]
    typed = with_properties(config("id", "q:simple,p:TIMESTAMP", "CUSTOM"))
    assert partition_paths(DAYS, typed).to_pylist() == expected
    untyped = with_properties(config("id", "q,p", "CUSTOM", 6))  # as Hudi 0.15 records it
    with pytest.raises(UnsupportedError, match="which of the partition fields q, p are times"):
        partition_paths(DAYS, untyped)
    told = with_properties(
        untyped, hoodie__datasource__write__partitionpath__field="q:SIMPLE, p:timestamp"
    )
    assert partition_paths(DAYS, told).to_pylist() == expected


def test_slashed_dates_are_left_to_hudi() -> None:
    for fields, generator in (("p", "SIMPLE"), ("p", "TIMESTAMP"), ("q:simple,p:simple", "CUSTOM")):
        slashed = with_properties(
            config("id", fields, generator),
            hoodie__datasource__write__slash__separated__date__partitioning="true",
        )
        with pytest.raises(UnsupportedError, match="not made of its columns"):
            partition_paths(DAYS, slashed)


# ---------------------------------------------------------------------------- Hudi's own

# What Hudi was told and did not write into hoodie.properties.
NOT_RECORDED = {
    "tskeygen": TIMES,
    "customkeygen": {
        **TIMES,
        "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd",
        "hoodie.datasource.write.partitionpath.field": "region:SIMPLE,made:TIMESTAMP",
    },
}


LACKING = ("virtual_bulk", "dropped_column")
"""Tables whose files lack keys, or the columns of partitions."""


# Hudi breaks `virtual_bulk`: see the README of these tables.
@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "name"), [g for g in GOLDEN if g[1] not in LACKING])
def test_keys_and_paths_of_hudi(
    golden: Callable[[str, str], Path], version: str, name: str
) -> None:
    folder = golden(version, name)
    properties = decode_properties((folder / ".hoodie" / "hoodie.properties").read_bytes())
    settings = TableConfig.from_properties({**NOT_RECORDED.get(name, {}), **properties})
    encoding = KeyEncoding.NAMED if version == "1.2.0" else KeyEncoding.VALUE
    for path in base_files(folder):
        rows = BaseFileReader(pa.memory_map(str(path))).read()
        if not settings.populate_meta_fields:
            partitions = pa.chunked_array(
                [[path.parent.relative_to(folder).as_posix()] * len(rows)]
            )
        else:
            assert record_keys(rows, settings, encoding) == rows["_hoodie_record_key"]
            partitions = rows["_hoodie_partition_path"]
        assert partition_paths(rows, settings, are_stored=True) == partitions
