from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.cursor import Cursor
from bucketfmt.format.encoding.kryo import KryoReader, KryoWriter


def reader(data: bytes | bytearray) -> KryoReader:
    return KryoReader(Cursor(data), {"a.A", "b.B"}, {5: "int"})


@given(st.text(max_size=200), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_values_round_trip(text: str, int_: int, long: int) -> None:
    writer = KryoWriter()
    writer.text(text)
    writer.int_(int_)
    writer.long(long)
    writer.plain_long(long)
    writer.number(long)
    values = reader(writer.out)
    assert values.text() == text
    assert values.int_() == int_
    assert values.long() == long
    assert values.plain_long() == long
    assert values.number(16) == long
    assert values.cursor.remaining == 0


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", "81"),
        ("a", "8261"),
        ("ab", "61e2"),
        ("é", "82c3a9"),
        ("a" * 63, "61" * 62 + "e1"),
        ("a" * 64, "c101" + "61" * 64),
        ("a" * 65, "c201" + "61" * 65),
        ("😀", "83eda0bdedb880"),
        ("\0", "8200"),
    ],
)
def test_strings(text: str, encoded: str) -> None:
    writer = KryoWriter()
    writer.text(text)
    assert writer.out.hex() == encoded
    assert reader(writer.out).text() == text


def test_a_class_is_named_once() -> None:
    writer = KryoWriter()
    for name in ("a.A", "b.B", "a.A"):
        writer.named_class(name)
    writer.registered_class(5)
    writer.null()
    assert writer.out == b"\1\0a.\xc1\1\1b.\xc2\1\0\7\0"
    classes = reader(writer.out)
    assert [classes.java_class() for _ in range(5)] == ["a.A", "b.B", "a.A", "int", None]


def test_a_class_off_the_list_is_not_read() -> None:
    with pytest.raises(UnsupportedError, match=r"'c\.C'"):
        reader(b"\1\0c.\xc3").java_class()
    with pytest.raises(UnsupportedError, match="class id 4"):
        reader(b"\6").java_class()
    with pytest.raises(CorruptError, match="before its name"):
        reader(b"\1\1c.\xc3").java_class()


def test_an_object_is_shared() -> None:
    writer = KryoWriter()
    for text in ("x", "y", "x"):
        if writer.shared_reference(text):
            writer.text(text)
    writer.null()
    objects = reader(writer.out)
    assert [objects.reference("a.A", objects.text) for _ in range(4)] == ["x", "y", "x", None]


def test_a_reference_to_itself_or_to_another_class_is_refused() -> None:
    graph = reader(b"\1\2")
    with pytest.raises(CorruptError, match="object 0"):
        graph.reference("a.A", lambda: graph.reference("a.A", graph.text))
    graph = reader(b"\1\x81\2")
    graph.reference("a.A", graph.text)
    with pytest.raises(CorruptError, match=r"no b\.B"):
        graph.reference("b.B", graph.text)
