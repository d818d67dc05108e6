from __future__ import annotations

import json
from typing import Any

import pytest

from bucketfmt.errors import (
    CorruptError,
    KeyEncodingError,
    LimitError,
    TruncatedError,
    UnsafePathError,
    UnsupportedError,
)
from spec.make_vectors import build_vectors
from tests.spec.formats import FORMATS
from tests.spec.vectors import VECTORS, load_vectors, sha256, vector_bytes

ERRORS = {
    "corrupt": CorruptError,
    "truncated": TruncatedError,
    "unsupported": UnsupportedError,
    "unsafe-path": UnsafePathError,
    "limit": LimitError,
    "key-encoding": KeyEncodingError,
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


def test_the_manifest_names_every_vector_and_its_digest() -> None:
    manifest = json.loads((VECTORS / "manifest.json").read_bytes())
    assert manifest["version"] == 1
    paths = [entry["path"] for entry in manifest["vectors"]]
    on_disk = {p.relative_to(VECTORS).as_posix() for p in VECTORS.glob("*/*.json")}
    assert len(paths) == len(set(paths))
    assert set(paths) == on_disk
    for entry in manifest["vectors"]:
        assert sha256((VECTORS / entry["path"]).read_bytes()) == entry["sha256"]
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
        assert sha256(vector_bytes(vector)) == vector["sha256"]


def test_every_format_has_vectors() -> None:
    assert {vector["format"] for vector in load_vectors().values()} == set(FORMATS)


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
