"""CPU time until a program, or a command, can begin: each start in a process of its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Figure, Result, Timing, cpu_ratio

__all__ = ["measure_startup"]

_REPETITIONS = 15
_ROOT = Path(__file__).resolve().parents[2]
_PYARROW = "import pyarrow, pyarrow.compute"
_IMPORT = "import bucketfmt"
_NO_PANDAS = "import bucketfmt, without pandas"
_OPEN = "from bucketfmt import open"
_HELP = "bucketfmt --help"
_STARTS = {
    _PYARROW: ["-c", _PYARROW],
    _IMPORT: ["-c", _IMPORT],
    _NO_PANDAS: ["-c", f"import sys; sys.modules['pandas'] = None; {_IMPORT}"],
    _OPEN: ["-c", _OPEN],
    _HELP: ["-m", "bucketfmt.cli", "--help"],
}
_NOTE = (
    "Modules of bucketfmt are imported when a name of theirs is first used; `from bucketfmt import "
    "open` imports what reading, writing and checking need, but pyarrow.parquet, fastavro, fsspec "
    "and pandas. Bytecode is compiled before."
)


def measure_startup(data: Path) -> list[Result]:
    """Return how long each start takes by the import of pyarrow, which all of them need."""
    del data  # no table is read
    timings = {name: Timing(name, [], []) for name in _STARTS}
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(-1, _REPETITIONS):
            for name, arguments in _STARTS.items():
                wall, cpu = _start(arguments, environment)
                if turn >= 0:  # in the round before, bytecode is compiled
                    timings[name].walls.append(wall)
                    timings[name].cpus.append(cpu)
    of = list(timings.values())
    figures = [
        Figure(f"CPU of {name} by import pyarrow", cpu_ratio(of, name, _PYARROW), "x", at_most=most)
        for name, most in ((_IMPORT, 1.4), (_NO_PANDAS, 1.4), (_HELP, 1.9))
    ]
    return [Result("Start-up", of, figures, notes=[_NOTE])]


def _start(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the wall and the CPU seconds of one process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall, cpu
