"""Write spec/vectors: `python spec/make_vectors.py`. Running it again changes nothing.

The expected values come from literal tables, from running Hudi, or from a few lines of plain
parsing here; never from the package that the vectors test, which is not imported.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from spec.vector_sources import SOURCES
from spec.vector_sources.vector import Vector

__all__ = ["build_vectors", "write_vectors"]

VECTORS = Path(__file__).parent / "vectors"


def build_vectors() -> dict[str, bytes]:
    """Return every file of spec/vectors: {path below it: content}."""
    files: dict[str, bytes] = {}
    entries = []
    for vector in sorted(_vectors(), key=lambda vector: vector.id):
        path = f"{vector.folder}/{vector.id}.json"
        if path in files:
            raise ValueError(f"two vectors are called {vector.id}")
        files[path] = _text(vector.document())
        digest = hashlib.sha256(files[path]).hexdigest()
        entries.append({"path": path, "rules": list(vector.rules), "file_sha256": digest})
    files["manifest.json"] = _text({"version": 2, "vectors": entries})
    return files


def _vectors() -> Iterator[Vector]:
    for source in SOURCES:
        yield from source()


def _text(document: object) -> bytes:
    """Lay out a document: one line per member of its outer objects, readable in a review."""
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def write_vectors() -> int:
    """Make the folder hold exactly the vectors there are; return how many files changed."""
    files = build_vectors()
    changed = 0
    for path in [
        p for p in VECTORS.glob("**/*.json") if p.relative_to(VECTORS).as_posix() not in files
    ]:
        path.unlink()
        changed += 1
    for name, content in files.items():
        path = VECTORS / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            changed += 1
    return changed


if __name__ == "__main__":
    print(f"{write_vectors()} files changed")
