from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, CorruptError, LimitError
from bucketfmt.format.table.internal_schema import (
    ArrayType,
    Field,
    InternalSchema,
    MapType,
    RecordType,
    decode_schema_history,
    encode_schema_history,
    find_schema_in_force,
    format_internal_schema,
    full_names,
    parse_internal_schema,
)
from bucketfmt.format.timeline.commit_metadata import decode_commit_metadata
from bucketfmt.limits import Limits
from tests.format.encoding.struct_strategies import mutations
from tests.format.timeline.timeline_files import Golden, timeline_files
from tests.golden import GOLDEN
from tests.rotation import examples

NESTED = InternalSchema(
    fields=(
        Field(0, "id", False, "string", "the key"),
        Field(
            1,
            "s",
            True,
            RecordType((Field(4, "x", True, "decimal(10, 2)"), Field(5, "y", True, "int"))),
        ),
        Field(2, "list", True, ArrayType(6, RecordType((Field(7, "z", True, "long"),)), True)),
        Field(3, "map", True, MapType(8, "string", 9, ArrayType(10, "date", False), True)),
    ),
    version_id=20260101000000000,
    max_column_id=12,
)
NESTED_JSON = (
    '{"max_column_id":12,"version_id":20260101000000000,"type":"record","fields":['
    '{"id":0,"name":"id","optional":false,"type":"string","doc":"the key"},'
    '{"id":1,"name":"s","optional":true,"type":{"type":"record","fields":['
    '{"id":4,"name":"x","optional":true,"type":"decimal(10, 2)"},'
    '{"id":5,"name":"y","optional":true,"type":"int"}]}},'
    '{"id":2,"name":"list","optional":true,"type":{"type":"array","element_id":6,"element":'
    '{"type":"record","fields":[{"id":7,"name":"z","optional":true,"type":"long"}]},'
    '"element_optional":true}},'
    '{"id":3,"name":"map","optional":true,"type":{"type":"map","key_id":8,"key":"string",'
    '"value_id":9,"value":{"type":"array","element_id":10,"element":"date",'
    '"element_optional":false},"value_optional":true}}]}'
)


# files Hudi wrote


def histories(golden: Golden) -> list[bytes]:
    return [
        path.read_bytes()
        for version, table in GOLDEN
        if table.startswith("evolved_ids")
        for path in sorted(golden(version, table).glob(".hoodie/.schema/*.schemacommit"))
    ]


def test_every_golden_history_decodes_and_encodes_to_the_same_bytes(golden: Golden) -> None:
    found = histories(golden)
    assert len(found) > 10
    for data in found:
        schemas = decode_schema_history(data)
        assert encode_schema_history(schemas) == data
        versions = [schema.version_id for schema in schemas]
        assert versions == sorted(versions, reverse=True)
        assert versions[-1] == 0


def test_golden_rename_keeps_the_id_and_a_dropped_id_is_not_reused(golden: Golden) -> None:
    newest = decode_schema_history(histories(golden)[-1])
    names = [set(full_names(schema).items()) for schema in newest]
    assert (8, "c") in names[-1]
    assert (8, "renamed") in names[0]
    assert (14, "s.y") in names[-1]
    assert (14, "s.z") in names[0]
    assert (15, "e") in set().union(*names)
    assert (17, "e") in names[0]
    assert newest[0].max_column_id == 17


def test_golden_commits_hold_their_schema(golden: Golden) -> None:
    seen = 0
    for file in timeline_files(golden):
        if not file.table.startswith("evolved_ids") or file.instant.state.value != "COMPLETED":
            continue
        if file.instant.action not in ("commit", "deltacommit"):
            continue
        text = decode_commit_metadata(file.data).extra_metadata.get("latest_schema")
        if text:
            schema = parse_internal_schema(text)
            assert format_internal_schema(schema) == text
            assert schema.version_id <= int(file.instant.requested_time)
            seen += 1
    assert seen > 5


# text made here


def test_every_nested_type() -> None:
    assert parse_internal_schema(NESTED_JSON) == NESTED
    assert format_internal_schema(NESTED) == NESTED_JSON
    assert full_names(NESTED) == {
        0: "id",
        1: "s",
        4: "s.x",
        5: "s.y",
        2: "list",
        6: "list.element",
        7: "list.element.z",
        3: "map",
        8: "map.key",
        9: "map.value",
        10: "map.value.element",
    }


def test_old_schemas_lack_version_and_highest_id() -> None:
    text = '{"type":"record","fields":[{"id":7,"name":"a","optional":true,"type":"int"}]}'
    schema = parse_internal_schema(text)
    assert (schema.version_id, schema.max_column_id) == (0, 7)
    assert parse_internal_schema('{"type":"record","fields":[]}').max_column_id == -1


def test_a_type_no_release_knows_hurts_nobody_yet() -> None:
    text = NESTED_JSON.replace('"decimal(10, 2)"', '"vector[3, FLOAT, PARQUET]"')
    assert format_internal_schema(parse_internal_schema(text)) == text


def test_the_schema_in_force() -> None:
    first, second = (InternalSchema(fields=(), version_id=version) for version in (100, 200))
    history = (second, first)
    assert find_schema_in_force(history, "99") is None
    assert find_schema_in_force(history, "100") is first
    assert find_schema_in_force(history, "199") is first
    assert find_schema_in_force(history, "20260101000000000") is second
    assert find_schema_in_force((), "1") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"type":"array","fields":[]}',
        '{"type":"record","fields":[{"id":1,"name":"a","optional":true}]}',
        '{"type":"record","fields":[{"id":1,"name":"a","optional":true,"type":{"type":"set"}}]}',
        '{"type":"record","fields":[{"id":2147483648,"name":"a","optional":true,"type":"int"}]}',
        NESTED_JSON.replace('"id":5', '"id":4'),
        NESTED_JSON.replace('"key_id":8', '"key_id":0'),
        '{"type":"record","fields":[{"id":1,"name":"a","optional":true,"type":' * 10_000,
    ],
)
def test_what_is_no_schema_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptError):
        parse_internal_schema(text)


def test_bounds() -> None:
    deep = '"int"'
    for column_id in range(100):
        deep = (
            f'{{"type":"array","element_id":{column_id},"element":{deep},"element_optional":true}}'
        )
    text = f'{{"type":"record","fields":[{{"id":100,"name":"a","optional":true,"type":{deep}}}]}}'
    with pytest.raises(LimitError, match="schema_depth_max"):
        parse_internal_schema(text)
    with pytest.raises(LimitError, match="schema_fields_max"):
        parse_internal_schema(NESTED_JSON, Limits(schema_fields_max=10))
    with pytest.raises(LimitError, match="timeline_file_bytes_max"):
        decode_schema_history(bytes(11), Limits(timeline_file_bytes_max=10))


TYPES = st.recursive(
    st.sampled_from(["int", "string", "decimal(10, 2)", "fixed[16]"]),
    lambda inner: (
        st.lists(
            st.builds(Field, st.just(0), st.text(), st.booleans(), inner, st.none() | st.text()),
            max_size=3,
        ).map(lambda fields: RecordType(tuple(fields)))
        | st.builds(ArrayType, st.just(0), inner, st.booleans())
        | st.builds(MapType, st.just(0), inner, st.just(0), inner, st.booleans())
    ),
    max_leaves=8,
)


def with_ids(text: str) -> str:
    """Number the columns, which a recursive strategy cannot do."""
    numbers = iter(range(1000))

    def number(value: object) -> object:
        if isinstance(value, list):
            return [number(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: next(numbers) if key == "id" or key.endswith("_id") else number(item)
            for key, item in value.items()
        }

    return json.dumps({**json.loads(text), "fields": number(json.loads(text)["fields"])})


@given(st.lists(st.tuples(st.text(), TYPES), max_size=4))
def test_round_trip(columns: list[tuple[str, object]]) -> None:
    fields = tuple(Field(0, name, True, kind) for name, kind in columns)  # type: ignore[arg-type]
    draft = format_internal_schema(InternalSchema(fields=fields, version_id=5, max_column_id=9))
    schema = parse_internal_schema(with_ids(draft))
    assert parse_internal_schema(format_internal_schema(schema)) == schema
    assert decode_schema_history(encode_schema_history([schema, schema])) == (schema, schema)
    assert len(full_names(schema)) == draft.count('"id":') + draft.count('_id":0')


@given(st.binary() | mutations(encode_schema_history([NESTED])))
@settings(max_examples=examples(300))
def test_any_bytes_decode_or_raise_our_error(data: bytes) -> None:
    with suppress(BucketfmtError):
        assert isinstance(decode_schema_history(data), tuple)
