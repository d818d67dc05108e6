"""The jobs of benchmarks that run in Hudi's environment are found and understood there.

No JVM is started: each is imported, or prints its help, as its benchmark has it started.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop.engines.hudi import ROOT, find_python


def run_there(*arguments: str, cwd: Path, path: str = "") -> str:
    """Run the interpreter that has Spark; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": path}
    command = [str(find_python()), *arguments]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("job", ["benchmarks.spark.writing_job", "benchmarks.spark.scale_job"])
def test_a_job_of_run_job(job: str, tmp_path: Path) -> None:
    code = f"import {job} as job; print(job.main)"
    assert "function main" in run_there("-c", code, cwd=tmp_path, path=str(ROOT))


def test_the_writers_that_are_raced() -> None:
    code = "import benchmarks.writing.hudi_writes as job; print(job.main)"
    assert "function main" in run_there("-c", code, cwd=ROOT)


def test_the_tables_that_hudi_writes(tmp_path: Path) -> None:
    script = str(ROOT / "benchmarks" / "make_data.py")
    assert "--scale" in run_there(script, "--help", cwd=tmp_path)
