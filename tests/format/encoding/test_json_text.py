from __future__ import annotations

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.json_text import (
    decode_json,
    decode_unambiguous_json,
    encode_jackson_json,
)


class Point(msgspec.Struct):
    x: int
    name: str = ""


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_layout_is_jacksons() -> None:
    value = {"a": {"b": [{"c": 1, "d": None}, {"e": []}], "f": {}}, "g": ["x", True]}
    assert encode_jackson_json(value).decode() == "\n".join(
        [
            "{",
            '  "a" : {',
            '    "b" : [ {',
            '      "c" : 1,',
            '      "d" : null',
            "    }, {",
            '      "e" : [ ]',
            "    } ],",
            '    "f" : { }',
            "  },",
            '  "g" : [ "x", true ]',
            "}",
        ]
    )


def test_text_is_escaped_as_jackson_does() -> None:
    assert encode_jackson_json('"\\/\n\x1f é') == '"\\"\\\\/\\n\\u001F é"'.encode()


@given(JSON_VALUES)
def test_is_json_of_the_same_value(value: object) -> None:
    assert json.loads(encode_jackson_json(value)) == value


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="float"):
        encode_jackson_json({"a": [1.5]})


def test_unknown_properties_are_skipped() -> None:
    assert decode_json(b'{"x": 1, "new": [{}]}', Point, "point") == Point(1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"x": "1"}',
        b'{"name": "no x"}',
        b'{"x": 1, "name": "\xff"}',
        b'{"x": 1, "y": ' + b"[" * 100_000,
        b'{"x": 1e999}',
        b'{"x": ' + b"9" * 10_000 + b"}",
        b"{'x': 1}",
        b'{"x": 1} trailing',
    ],
)
def test_bad_json_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptError, match=r"^point: "):
        decode_json(data, Point, "point")


@pytest.mark.parametrize(
    "data",
    [
        b'{"x": 1, "x": 1, "name": "a"}',
        b'{"x": 1, "name": "a", "na\\u006de": "a"}',
        b'{"x": 1, "name": "a", "new": {"y": 1, "y": 2}}',
        b'{"x": 1, "new": "", "new": ""}',
    ],
)
def test_a_property_that_is_given_twice_is_corrupt(data: bytes) -> None:
    decode_json(data, Point, "point")
    with pytest.raises(CorruptError, match="point: a property is given twice"):
        decode_unambiguous_json(data, Point, "point")


@given(st.builds(Point, st.integers(-9, 9), st.text()), st.sampled_from((b"", b" ", b"\r\n\t")))
def test_any_layout_is_unambiguous(point: Point, space: bytes) -> None:
    names = json.dumps({"x": point.x, "name": point.name, "new": None}).encode()
    data = space + names.replace(b'"x":', b'"x"' + space + b":") + space
    assert decode_unambiguous_json(data, Point, "point") == point


@given(st.binary())
def test_any_bytes_decode_or_are_corrupt(data: bytes) -> None:
    with suppress(CorruptError):
        decode_json(data, object, "any")
