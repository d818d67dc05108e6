"""Where real Apache Hudi is on this machine, and the record keys it is asked to hash."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

from bucketfmt.format.keys.record_keys import hudi_never_returns
from tests.interop.replays.columns import random_text

__all__ = ["ROOT", "NoHudiError", "draw_keys", "find_python"]

ROOT = Path(__file__).parents[3]
_PYTHON = ROOT / ".venv-hudi/bin/python"
_FIELDS = ("id", "k2", "k3")


class NoHudiError(RuntimeError):
    """Hudi cannot be run here, or did not come back; the message says what to do."""


def find_python() -> Path:
    """Return the interpreter that has Spark."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise NoHudiError(
            "no Java on this machine, and real Hudi judges these tests: install a JDK 17 "
            "(Debian: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or "
            'set JAVA_HOME; the rest of the suite runs without: pytest -m "not judge"'
        )
    if not _PYTHON.exists():
        raise NoHudiError("Spark is not installed for the judge: run `make interop-setup`")
    return _PYTHON


def draw_keys(version: str, seed: int, count: int) -> list[dict[str, Any]]:
    """Draw record keys as tables have them, and as nobody would make them."""
    random = Random(f"keys/{version}/{seed}")
    cases: list[dict[str, Any]] = []
    while len(cases) < count:
        number = random.randrange(1, 4)
        parts = [
            f"{name}:{random.choice((random_text(random), '__null__', '__empty__'))}"
            for name in _FIELDS[:number]
        ]
        key = ",".join(parts) if random.random() < 0.7 else random_text(random)
        chosen = sorted(random.sample(_FIELDS[:number], random.randrange(1, number + 1)))
        if not version.startswith("0.") and hudi_never_returns(key, chosen):
            continue
        num_buckets = random.choice((1, 2, 3, 7, 16, 64, 256, 1000, 99_999_999))
        # The ring of a partition has a node a bucket, so it is kept small.
        case = {"key": key, "hash_fields": ",".join(chosen), "num_buckets": num_buckets}
        cases.append({**case, "nodes": min(num_buckets, 64)})
    return cases
