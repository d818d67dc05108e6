"""Runs the fuzzer on every decoder, several at a time, and gathers what it says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

__all__ = ["fuzz_all"]

_DONE = re.compile(r"Done (\d+) runs")
_TAIL = 4_000  # characters of the fuzzer's output that tell what it found


def fuzz_all(names: Sequence[str], seconds: int, workers: int) -> int:
    """Fuzz decoders, each for some seconds; return how many failed.

    Raises:
        SystemExit: Atheris is not installed.
    """
    if importlib.util.find_spec("atheris") is None:
        raise SystemExit("the fuzzer needs Atheris: pip install -c constraints.txt -e '.[soak]'")
    runs = failed = 0
    with ThreadPoolExecutor(workers) as pool:
        for name, (number, found) in zip(
            names, pool.map(lambda name: _fuzz(name, seconds), names), strict=True
        ):
            runs += number
            failed += bool(found)
            print(f"{name}: {number} runs", "and a failure" if found else "", flush=True)
            if found:
                print(found, flush=True)
    print(f"{len(names)} decoders, {runs} runs, {failed} failures")
    return failed


def _fuzz(name: str, seconds: int) -> tuple[int, str]:
    """Return the number of runs, and what was found; "" if nothing was."""
    command = [sys.executable, "-m", "soak.damage.fuzz", name, f"-max_total_time={seconds}"]
    run = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, errors="replace", check=False
    )
    output = run.stdout + run.stderr
    done = _DONE.search(output)
    return int(done[1]) if done else 0, "" if run.returncode == 0 and done else output[-_TAIL:]
