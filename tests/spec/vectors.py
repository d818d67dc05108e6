"""The vectors of spec/vectors, loaded."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from spec.vector_sources.vector import canonical_json

__all__ = ["SPEC", "VECTORS", "load_vectors", "vector_bytes"]

SPEC = Path(__file__).parent.parent.parent / "spec"
VECTORS = SPEC / "vectors"


@cache
def load_vectors() -> dict[str, dict[str, Any]]:
    """Return {path below spec/vectors: the vector}."""
    manifest = json.loads((VECTORS / "manifest.json").read_bytes())
    return {
        entry["path"]: json.loads((VECTORS / entry["path"]).read_bytes())
        for entry in manifest["vectors"]
    }


def vector_bytes(vector: dict[str, Any]) -> bytes:
    """Return the bytes of a vector's input, those its digest is of."""
    ((kind, value),) = vector["input"].items()
    if kind == "hex":
        return bytes.fromhex(value)
    if kind == "text":
        return str(value).encode()
    return canonical_json(value)


def sha256(data: bytes) -> str:
    """Return the hexadecimal digest."""
    return hashlib.sha256(data).hexdigest()
