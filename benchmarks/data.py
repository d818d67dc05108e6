"""Where the tables to read are: made once, kept outside the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.wide_table import make_wide_table

__all__ = ["FOLDER_VARIABLE", "find_data_folder", "make_missing_tables"]

FOLDER_VARIABLE = "BUCKETFMT_BENCH"
_SCALE = 5  # of the tables that show memory not to follow the table's size
_LARGE = f"_{_SCALE}x"
_REPOSITORY = Path(__file__).resolve().parent.parent
_HUDI_PYTHON = _REPOSITORY / ".venv-hudi" / "bin" / "python"
_MAKE_DATA = Path(__file__).with_name("make_data.py")


def find_data_folder() -> Path:
    """Return the folder named by the environment, else one in the user's cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "bucketfmt" / "bench"


def make_missing_tables(data: Path, tables: Iterable[str]) -> None:
    """Write the tables that are not there: real Hudi writes all but `wide`."""
    index = data / "data.json"  # names a table when it is whole
    whole = set(json.loads(index.read_text())) if index.exists() else set()
    if (data / "wide/.hoodie/hoodie.properties").exists():  # written last
        whole.add("wide")
    missing = [name for name in tables if name not in whole]
    data.mkdir(parents=True, exist_ok=True)
    if "wide" in missing:
        print(f"writing {data / 'wide'}", file=sys.stderr, flush=True)
        shutil.rmtree(data / "wide", ignore_errors=True)
        make_wide_table(data / "wide")
    large = [name for name in missing if name.endswith(_LARGE)]
    small = [name for name in missing if name != "wide" and name not in large]
    if small:
        _run_hudi(data, small, 1)
    if large:
        _run_hudi(data, [name.removesuffix(_LARGE) for name in large], _SCALE)


def _run_hudi(data: Path, names: list[str], scale: int) -> None:
    if not _HUDI_PYTHON.exists():
        raise SystemExit(
            f"{data} lacks tables that real Hudi writes, and there is no {_HUDI_PYTHON} to run it: "
            "`make interop-setup` makes that environment (it wants Java 17)"
        )
    print(f"Hudi writes {', '.join(names)} x {scale} into {data}", file=sys.stderr, flush=True)
    command = [str(_HUDI_PYTHON), str(_MAKE_DATA), str(data), *names, "--scale", str(scale)]
    subprocess.run(command, check=True)
