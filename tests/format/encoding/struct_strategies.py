"""Hypothesis values of any msgspec Struct, and bytes that are nearly right."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import strategies as st
from msgspec import inspect

T = TypeVar("T")


def values_of(kind: type[T]) -> st.SearchStrategy[T]:
    """Values of a Struct, every field drawn from its annotation."""
    return _values(inspect.type_info(kind))


def _values(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StructType():
            fields = {field.name: _values(field.type) for field in info.fields}
            return st.builds(info.cls, **fields)
        case inspect.UnionType():
            return st.one_of([_values(member) for member in info.types])
        case inspect.ListType():
            return st.lists(_values(info.item_type), max_size=2)
        case inspect.DictType():
            return st.dictionaries(st.text(max_size=5), _values(info.value_type), max_size=2)
        case inspect.IntType():
            return st.integers(info.ge, info.le)
        case inspect.FloatType():
            return st.floats(allow_nan=False)
        case inspect.StrType():
            return st.text(max_size=8)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    raise AssertionError(f"no strategy for {info}")


@st.composite
def mutations(draw: st.DrawFn, original: bytes) -> bytes:
    """`original` with a few bytes changed, and perhaps its end cut off."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
        if not data:
            break
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)
