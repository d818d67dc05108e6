from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from bucketfmt.errors import (
    CorruptError,
    IndexUnknownError,
    KeyEncodingError,
    LimitError,
    NotFoundError,
    TruncatedError,
    UnsafePathError,
    UnsupportedError,
)
from spec.make_vectors import build_vectors
from spec.vector_sources.vector import canonical_json
from tests.spec.formats import FORMATS
from tests.spec.vectors import SPEC, VECTORS, load_vectors, sha256, vector_bytes

ERRORS = {
    "corrupt": CorruptError,
    "truncated": TruncatedError,
    "unsupported": UnsupportedError,
    "unsafe-path": UnsafePathError,
    "limit": LimitError,
    "key-encoding": KeyEncodingError,
    "index-unknown": IndexUnknownError,
    "cleaned": NotFoundError,
}


def inputs(vector: dict[str, Any]) -> list[Any]:
    ((kind, value),) = vector["input"].items()
    if kind == "list":
        return list(value)
    return [bytes.fromhex(value) if kind == "hex" else value]


def comparable(vector: dict[str, Any], values: list[Any]) -> Any:
    """Return the values as JSON; of records of the timeline without what means nothing."""
    values = json.loads(json.dumps(values))
    if vector["format"] in ("commit-metadata", "timeline-file"):
        return without_empty(values)
    return values


def without_empty(value: Any) -> Any:
    """Leave out null, empty lists and empty maps: they mean the same there (META-2)."""
    if isinstance(value, dict):
        members = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in members.items() if item not in (None, [], {})}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value


@pytest.mark.parametrize("path", sorted(load_vectors()))
def test_vector(path: str) -> None:
    vector = load_vectors()[path]
    decode = FORMATS[vector["format"]]
    if "error" in vector:
        for item in inputs(vector):
            with pytest.raises(ERRORS[vector["error"]]):
                decode(item)
        return
    values = [decode(item) for item in inputs(vector)]
    expected = vector["expected"] if "list" in vector["input"] else [vector["expected"]]
    assert comparable(vector, values) == comparable(vector, expected)


def test_no_vector_depends_on_the_order_of_members() -> None:
    for path, vector in load_vectors().items():
        if "expected" in vector and "hex" not in vector["input"]:
            turned = {**vector, "input": with_members_turned(vector["input"])}
            values = [FORMATS[vector["format"]](item) for item in inputs(turned)]
            expected = vector["expected"] if "list" in vector["input"] else [vector["expected"]]
            assert comparable(vector, values) == comparable(vector, expected), path


def with_members_turned(value: Any) -> Any:
    """Return a JSON value with the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {name: with_members_turned(value[name]) for name in reversed(value)}
    return [with_members_turned(item) for item in value] if isinstance(value, list) else value


def test_numbers_survive_a_parser_that_knows_only_doubles() -> None:
    for path, vector in load_vectors().items():
        for number in numbers_in([vector["input"], vector.get("expected")]):
            assert abs(number) < 2**53, f"{path}: {number} is not exact as a double"
            plain = isinstance(number, int) or not re.search(r"[eE]|\.0$", repr(number))
            assert plain, f"{path}: Python and ECMAScript write {number} differently"


def numbers_in(value: Any) -> Iterator[int | float]:
    """Yield the numbers in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers_in(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        (
            {"é": "日本\x7f\u2028", "a": '\x01\x1f"\\/\n'},
            '{"a":"\\u0001\\u001f\\"\\\\/\\n","é":"日本\x7f\u2028"}',
        ),
        ({"\uffff": 1, "😀": 2}, '{"😀":2,"\uffff":1}'),
        ([0.5, 199.5, -1], "[0.5,199.5,-1]"),
    ],
)
def test_the_digest_of_json_is_that_of_its_canonical_form(value: Any, text: str) -> None:
    assert canonical_json(value) == text.encode()


def test_the_manifest_names_every_vector_and_its_digest() -> None:
    manifest = json.loads((VECTORS / "manifest.json").read_bytes())
    assert manifest["version"] == 2
    paths = [entry["path"] for entry in manifest["vectors"]]
    on_disk = {p.relative_to(VECTORS).as_posix() for p in VECTORS.glob("*/*.json")}
    assert len(paths) == len(set(paths))
    assert set(paths) == on_disk
    for entry in manifest["vectors"]:
        assert sha256((VECTORS / entry["path"]).read_bytes()) == entry["file_sha256"]
        assert load_vectors()[entry["path"]]["rules"] == entry["rules"]


def test_vectors_are_filed_by_what_they_stand_for() -> None:
    for path, vector in load_vectors().items():
        folder, _, name = path.partition("/")
        error = vector.get("error")
        classes = {None: "good", "unsupported": "unsupported"}
        assert folder == classes.get(error, "bad")
        assert name == f"{vector['id']}.json"
        assert vector["id"].startswith(f"{vector['format']}.")
        assert vector["rules"]
        assert vector["recipe"]
        assert ("expected" in vector) != ("error" in vector)
        assert sha256(vector_bytes(vector)) == vector["input_sha256"]


def test_every_format_has_vectors() -> None:
    assert {vector["format"] for vector in load_vectors().values()} == set(FORMATS)


def test_the_text_says_what_every_format_takes_and_returns() -> None:
    section = (SPEC / "15-vectors.md").read_text().partition("## 15.5 ")[2]
    rows = re.findall(r"^\| (`[^|]*`) \| [^|]+ \| [^|]+ \|$", section, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row)]
    assert sorted(named) == sorted(FORMATS)


def test_the_text_lists_the_classes_of_errors() -> None:
    section = (SPEC / "15-vectors.md").read_text().partition("## 15.4 ")[2].partition("## 15.5 ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(ERRORS)


def test_making_the_vectors_again_changes_nothing() -> None:
    made = build_vectors()
    stale = [
        path
        for path, content in made.items()
        if not (VECTORS / path).exists() or (VECTORS / path).read_bytes() != content
    ]
    assert stale == [], "run: python spec/make_vectors.py"
    on_disk = {p.relative_to(VECTORS).as_posix() for p in VECTORS.glob("**/*.json")}
    assert on_disk == set(made)
