"""What a vector is, and access to the tables real Hudi wrote."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["SCHEMAS", "Golden", "ListOf", "Vector", "canonical_json", "golden"]

SCHEMAS = Path(__file__).parent.parent / "schemas"
_DATA = Path(__file__).parent.parent.parent / "tests" / "data"
_ERRORS = (
    "corrupt",
    "truncated",
    "unsupported",
    "unsafe-path",
    "limit",
    "key-encoding",
    "index-unknown",
    "cleaned",
)
_INTEGER_MAX = 2**53 - 1
_PLAIN_MIN, _PLAIN_MAX = 1e-4, 1e15


@dataclass(frozen=True)
class ListOf:
    """Inputs of one format that are tried one by one."""

    items: Sequence[object]


@dataclass(frozen=True)
class Vector:
    """One input of a format, and what it stands for.

    Attributes:
        id: `<format>.<what is special about it>`; also the file's name.
        rules: The rules it exercises.
        recipe: Where input and expected value come from.
        input: bytes, text, a `ListOf`, or any other JSON value.
        expected: The value; for a `ListOf`, the list of values.
        error: The class of error instead of a value.
    """

    id: str
    rules: Sequence[str]
    recipe: str
    input: object
    expected: object = None
    error: str | None = None

    @property
    def folder(self) -> str:
        """good, bad or unsupported."""
        if self.error is None:
            return "good"
        return "unsupported" if self.error == "unsupported" else "bad"

    def document(self) -> dict[str, object]:
        """Return the vector as it is written."""
        if self.error is not None and self.error not in _ERRORS:
            raise ValueError(f"{self.id}: no error class {self.error}")
        kind, value, data = self._input()
        outcome: dict[str, object] = (
            {"error": self.error} if self.error else {"expected": _portable(self.expected)}
        )
        return {
            "id": self.id,
            "format": self.id.partition(".")[0],
            "rules": list(self.rules),
            "recipe": self.recipe,
            "input": {kind: value},
            "input_sha256": hashlib.sha256(data).hexdigest(),
            **outcome,
        }

    def _input(self) -> tuple[str, object, bytes]:
        if isinstance(self.input, bytes):
            return "hex", self.input.hex(), self.input
        if isinstance(self.input, str):
            return "text", self.input, self.input.encode()
        if isinstance(self.input, ListOf):
            items = _portable(list(self.input.items))
            return "list", items, canonical_json(items)
        value = _portable(self.input)
        return "json", value, canonical_json(value)


def _portable(value: object) -> object:
    """Return a JSON value whose numbers every JSON parser reads alike, ECMAScript's included.

    Raises:
        ValueError: a number needs more than a double, or has another form in Python than there.
    """
    if isinstance(value, dict):
        return {name: _portable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) > _INTEGER_MAX:
        raise ValueError(f"{value} is not exact as a double; give its digits as text")
    if isinstance(value, float) and not _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        raise ValueError(f"{value} needs an exponent; give its digits as text")
    return value


def canonical_json(value: object) -> bytes:
    """Return the bytes whose digest stands for a JSON input: RFC 8785, for `_portable` values."""
    text = json.dumps(_sorted(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _sorted(value: object) -> object:
    """Return a JSON value with members in the order of the UTF-16 units of their names."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: str(name).encode("utf-16-be"))
        return {name: _sorted(value[name]) for name in names}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class Golden:
    """The files of one table real Hudi wrote, by their path in the table."""

    def __init__(self, version: str, name: str) -> None:
        self.version, self.name = version, name
        with tarfile.open(_DATA / version / f"{name}.tar.xz") as archive:
            prefix = f"{name}/"
            self.files = {
                member.name.removeprefix("./").removeprefix(prefix): file.read()
                for member in archive
                if member.name.removeprefix("./").startswith(prefix)
                and (file := archive.extractfile(member)) is not None
            }

    def paths(self, start: str = "", contains: str = "", end: str = "") -> list[str]:
        """Return the paths of files, sorted, checksum files of Hadoop left out."""
        return sorted(
            path
            for path in self.files
            if path.startswith(start)
            and contains in path
            and path.endswith(end)
            and not path.endswith(".crc")
        )

    def recipe(self, path: str, part: str = "whole file") -> str:
        """Return where a vector taken from this table comes from."""
        return f"Hudi {self.version}, table {self.name} (tests/data), {path}, {part}"


@cache
def golden(version: str, name: str) -> Golden:
    """Return a table, unpacked in memory once."""
    return Golden(version, name)
