"""Run real Apache Hudi: one JVM a version, in a process of its own, until all plans are made."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from bucketfmt.format.keys.record_keys import hudi_never_returns
from tests.interop.columns import random_text
from tests.interop.plans import Plan

__all__ = ["ROOT", "HashedKey", "NoHudiError", "find_python", "run_hudi"]

ROOT = Path(__file__).parents[2]
_PYTHON = ROOT / ".venv-hudi/bin/python"
_SILENCE_MAX = 300  # seconds: a table takes a few
_FIELDS = ("id", "k2", "k3")

HashedKey = tuple[str, str, int, int, int]
"""Record key, hash fields, N; and what Hudi makes of them: the bucket, the ring value."""


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


def run_hudi(version: str, plans: Sequence[Plan], folder: Path, keys: int = 0) -> list[HashedKey]:
    """Have Hudi write and read the planned tables in `folder`, which is made anew.

    Args:
        version: Of Hudi.
        plans: The tables.
        folder: Where; see hudi_writer.py.
        keys: How many random record keys to have hashed by Hudi's classes.

    Returns:
        The hashed keys.

    Raises:
        NoHudiError: it does not run, or did not come back.
    """
    python = find_python()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "plans").mkdir(parents=True)
    for plan in plans:
        plan.save(folder / "plans")
    cases = _draw_keys(version, plans[0].seed if plans else 0, keys)
    (folder / "keys.json").write_text(json.dumps(cases))
    _run([str(python), str(ROOT / "tests/interop/hudi_writer.py"), version, str(folder)], folder)
    hashed = json.loads((folder / "buckets.json").read_text())
    return [
        (case["key"], case["hash_fields"], case["num_buckets"], *found)
        for case, found in zip(cases, hashed, strict=True)
    ]


def _run(command: list[str], folder: Path) -> None:
    """Run the writer until it ends; end it when nothing new comes from it for long."""
    log = folder / "log.txt"
    with log.open("w") as output:
        # A session of its own, so that the JVM it starts can be ended with it.
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        seen, since = 0, time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if log.stat().st_size > seen:
                    seen, since = log.stat().st_size, time.monotonic()
                if time.monotonic() - since > _SILENCE_MAX:
                    raise NoHudiError(f"Hudi does not come back: {_last_lines(log)}")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode:
        raise NoHudiError(f"the writer failed: {_last_lines(log)}")


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])


def _draw_keys(version: str, seed: int, count: int) -> list[dict[str, object]]:
    """Draw record keys as tables have them, and as nobody would make them."""
    random = Random(f"keys/{version}/{seed}")
    cases: list[dict[str, object]] = []
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
