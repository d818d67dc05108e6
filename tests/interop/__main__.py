"""The judge by hand, and for as long as one likes.

usage: python -m tests.interop replay VERSION SEED     one table again; its folder is kept
       python -m tests.interop soak MINUTES [SEED]     tables of all versions, from SEED on
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.interop.hudi import run_hudi
from tests.interop.judge import Verdict, judge_table
from tests.interop.plans import VERSIONS, Plan, make_plan

_TABLES_PER_JVM = 24
_JVMS = 2


def replay(version: str, seed: int) -> int:
    """Write one table again and say what differs."""
    folder = Path(tempfile.mkdtemp(prefix=f"judge-{version}-{seed}-"))
    plan = make_plan(version, seed)
    print(plan.describe())
    run_hudi(version, [plan], folder)
    print((folder / "read" / f"{plan.name}.json").read_text())
    print(f"the table is {folder}/tables/{plan.name}")
    return _tell(plan, judge_table(plan, folder))


def soak(minutes: float, seed: int) -> int:
    """Judge fresh tables until the time is up; return 1 if there was any disagreement."""
    ends = time.monotonic() + 60 * minutes
    folder = Path(tempfile.mkdtemp(prefix="judge-soak-"))
    judged: Counter[str] = Counter()
    failed = 0
    while time.monotonic() < ends:
        with ThreadPoolExecutor(_JVMS) as pool:
            rounds = list(pool.map(partial(_round, seed, folder), VERSIONS))
        for version, verdicts in zip(VERSIONS, rounds, strict=True):
            for plan, verdict in verdicts:
                judged[version] += verdict.unread is None
                failed += _tell(plan, verdict)
        shutil.rmtree(folder)
        seed += _TABLES_PER_JVM
        counts = ", ".join(f"{version}: {judged[version]}" for version in VERSIONS)
        print(f"tables judged: {counts}; with disagreements: {failed}", flush=True)
    return int(failed > 0)


def _round(seed: int, folder: Path, version: str) -> list[tuple[Plan, Verdict]]:
    plans = [make_plan(version, seed + number) for number in range(_TABLES_PER_JVM)]
    run_hudi(version, plans, folder / version)
    return [(plan, judge_table(plan, folder / version)) for plan in plans]


def _tell(plan: Plan, verdict: Verdict) -> int:
    where = f"{plan.version} {plan.seed}"
    if verdict.unread is not None:
        print(f"{where}: nothing to judge: {verdict.unread}")
    for disagreement in verdict.disagreements:
        print(f"{where}: {disagreement}")
    return int(bool(verdict.disagreements))


def main(arguments: list[str]) -> int:
    match arguments:
        case ["replay", version, seed]:
            return replay(version, int(seed))
        case ["soak", minutes, *seed]:
            return soak(float(minutes), int(seed[0]) if seed else int(time.time()))
    print(__doc__, file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
