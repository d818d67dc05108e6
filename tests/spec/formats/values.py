"""Small things the formats share."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Json", "as_bytes", "members"]

Json: TypeAlias = Any


def as_bytes(data: bytes | str) -> bytes:
    """Return the bytes of an input that is given as hex or as text."""
    return data if isinstance(data, bytes) else data.encode()


def members(value: object, *names: str) -> dict[str, Json]:
    """Return some attributes of a value."""
    return {name: getattr(value, name) for name in names}
