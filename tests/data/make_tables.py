"""Write the tables of this folder with real Apache Hudi.

usage: make_tables.py VERSION OUT [NAME...]     write OUT/NAME, and what Hudi reads in OUT/_expected
       make_tables.py pack OUT INTO [NAME...]   write INTO/NAME.tar.xz: same folder, same bytes
       make_tables.py list VERSION              name the tables that VERSION can write

Needs a virtual environment with pyspark 3.5 (tests/interop/setup.sh makes one) and a JVM 17.
"""

from __future__ import annotations

import sys
from pathlib import Path

from recipes import RECIPES, pack


def make(version: str, out: Path, names: list[str]) -> int:
    from recipes.lab import Lab, root_cause

    lab = Lab(version, out)
    failed = 0
    for name, recipe in RECIPES.items():
        if (names and name not in names) or not recipe.runs_on(version):
            continue
        try:
            lab.remake(name, recipe.write)
        except Exception as error:
            failed += 1
            print(f"FAILED {version} {name}: {root_cause(error)}", flush=True)
            (out / f"{name}.failed").write_text(str(error))
    lab.stop()
    return failed


def main(arguments: list[str]) -> int:
    match arguments:
        case ["pack", out, into, *names]:
            return pack.pack_tables(Path(out), Path(into), names)
        case ["list", version]:
            print(*(name for name, recipe in RECIPES.items() if recipe.runs_on(version)), sep="\n")
            return 0
        case [version, out, *names]:
            return make(version, Path(out).resolve(), names)
    print(__doc__, file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
