"""Annotates JSON: every scalar with its path and its place. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from bucketfmt.dump.annotation import Annotation, text_of
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.limits import Limits

__all__ = ["annotate_json"]

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<mark>[][{},:])|(?P<scalar>[^\s"\[\]{},:]+))'
)


def annotate_json(
    data: Buffer, limits: Limits, rules: dict[str, str] | None = None
) -> Iterator[Annotation]:
    """Yield the scalars of a JSON text. `rules` maps a property's name to its rule."""
    raw = bytes(data)
    text = raw.decode("utf-8", "surrogateescape")  # keeps every byte, so offsets stay true
    is_ascii = raw.isascii()
    rules = rules or {}
    path: list[str | int] = []
    key: str | None = None
    expects_key: list[bool] = []
    position = 0
    while (token := _TOKEN.match(text, position)) is not None:
        position = token.end()
        start = token.end() - len(token.group().lstrip())
        mark = token["mark"]
        if mark in ("{", "["):
            limits.check("json_depth_max", len(expects_key) + 1)
            path.append("" if mark == "{" else 0)
            expects_key.append(mark == "{")
        elif mark in ("}", "]") and path:
            path.pop()
            expects_key.pop()
        elif mark == "," and path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else ""
        elif mark is None and expects_key and expects_key[-1] and path[-1] == "":
            path[-1] = key = _unquoted(token.group().strip())
        elif mark is None:
            value = token.group().strip()
            offset = start if is_ascii else _size(text[:start])
            name = next((part for part in reversed(path) if isinstance(part, str)), key or "")
            yield Annotation(
                offset,
                _size(value),
                _format(path),
                text_of(_unquoted(value)),
                rules.get(name),
            )
    if text[position:].strip():
        offset = _size(text[:position])
        yield Annotation(offset, len(raw) - offset, "damage", "no JSON", is_damage=True)


def _format(path: list[str | int]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".")


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token)) if token.startswith('"') else token
    except ValueError:
        return token


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
