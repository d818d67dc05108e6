"""What a vector is, and access to the tables real Hudi wrote."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Golden", "ListOf", "Vector", "canonical_json", "golden"]

_DATA = Path(__file__).parent.parent.parent / "tests" / "data"
_ERRORS = ("corrupt", "truncated", "unsupported", "unsafe-path", "limit", "key-encoding")


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
            {"error": self.error} if self.error else {"expected": self.expected}
        )
        return {
            "id": self.id,
            "format": self.id.partition(".")[0],
            "rules": list(self.rules),
            "recipe": self.recipe,
            "input": {kind: value},
            "sha256": hashlib.sha256(data).hexdigest(),
            **outcome,
        }

    def _input(self) -> tuple[str, object, bytes]:
        if isinstance(self.input, bytes):
            return "hex", self.input.hex(), self.input
        if isinstance(self.input, str):
            return "text", self.input, self.input.encode()
        if isinstance(self.input, ListOf):
            items = list(self.input.items)
            return "list", items, canonical_json(items)
        return "json", self.input, canonical_json(self.input)


def canonical_json(value: object) -> bytes:
    """Return the bytes whose digest stands for a JSON input: no spaces, keys sorted, UTF-8."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


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
