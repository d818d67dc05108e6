"""The smaller set: Spark Connect, and the Spark that real Hudi runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.engines.hudi import find_python

ROOT = Path(__file__).parents[2]
CHECKS = ("reads", "joins", "lookups", "writes", "source", "streams", "operations")
DONE = [f"check_{what}" for what in CHECKS]
PYTHONS = os.environ.get("SPARK_PYTHONS", "").split()
"""The environments of tests/spark/setup.sh, in `make judge-matrix`."""


def run_set(python: Path | str, kind: str, golden: Callable[[str, str], Path], into: Path) -> str:
    into.mkdir()
    for name in ("mor", "ch_split"):
        (into / name).symlink_to(golden("1.2.0", name))
    command = [str(python), str(Path(__file__).with_name("smaller_set.py")), kind, str(into)]
    preload = str(Path(__file__).with_name("preload"))
    path = os.pathsep.join(filter(None, [preload, str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": str(python)}
    if kind == "connect":
        environment["SPARK_TESTING"] = "1"  # it listens on a port that is free
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    assert done.stdout.splitlines()[: len(DONE)] == DONE
    return done.stdout.splitlines()[-1]


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
@pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.judge), "connect"])
def test_all_that_has_to_work(
    golden: Callable[[str, str], Path], tmp_path: Path, kind: str
) -> None:
    """Spark 3.5 is in the environment of the judge."""
    python, version = (find_python(), "3.5") if kind == "classic" else (sys.executable, "4")
    assert run_set(python, kind, golden, tmp_path / "t").startswith(f"spark {version}.")


@pytest.mark.parametrize("kind", ["classic", "connect"])
@pytest.mark.parametrize("python", PYTHONS, ids=lambda python: Path(python).parts[-3])
def test_all_that_has_to_work_on_every_release(
    golden: Callable[[str, str], Path], tmp_path: Path, kind: str, python: str
) -> None:
    release = Path(python).parts[-3]
    assert run_set(python, kind, golden, tmp_path / "t").startswith(f"spark {release} ")


@pytest.mark.rotated(among="plays, and tests with a JVM of their own")
def test_the_example_of_three_layers_runs_again_in_its_folder(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    told = []
    for _ in range(2):
        command = [sys.executable, str(ROOT / "examples/medallion.py"), str(tmp_path)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        told.append(done.stdout)
    assert told[0] == told[1], "the same commits, the same sums"
    assert told[0].splitlines()[-1] == "trips: 60000"
