"""The judge by hand, and for as long as one likes.

usage: python -m tests.interop replay VERSION SEED        one table again; its folder is kept
       python -m tests.interop turns VERSION KIND SEED    writing in turns again; likewise
       python -m tests.interop soak MINUTES [SEED]        tables of all versions, from SEED on
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.interop.carry_on import kinds_of, play_at_random, play_in_order
from tests.interop.hudi import run_hudi
from tests.interop.hudi_session import HudiSession
from tests.interop.judge import Verdict, judge_table
from tests.interop.overlapping import play_overlapping
from tests.interop.plans import VERSIONS, Plan, make_plan
from tests.interop.side_by_side import play_side_by_side

_TABLES_PER_JVM = 24
_JVMS = 2
Play = Callable[[HudiSession, Path, str, int], None]


def replay(version: str, seed: int) -> int:
    """Write one table again and say what differs."""
    folder = Path(tempfile.mkdtemp(prefix=f"judge-{version}-{seed}-"))
    plan = make_plan(version, seed)
    print(plan.describe())
    run_hudi(version, [plan], folder)
    print((folder / "read" / f"{plan.name}.json").read_text())
    print(f"the table is {folder}/tables/{plan.name}")
    return _tell(plan, judge_table(plan, folder))


def turns(version: str, kind: str, seed: int) -> int:
    """Write in turns again."""
    folder = Path(tempfile.mkdtemp(prefix=f"turns-{version}-{kind}-{seed}-"))
    print(f"the table is in {folder}")
    session = HudiSession(version, folder / "hudi")
    try:
        return int(_play(session, kind, seed, folder) > 0)
    finally:
        session.close()


def soak(minutes: float, seed: int) -> int:
    """Judge fresh tables until the time is up; return 1 if there was any disagreement."""
    ends = time.monotonic() + 60 * minutes
    folder = Path(tempfile.mkdtemp(prefix="judge-soak-"))
    judged: Counter[str] = Counter()
    played: Counter[str] = Counter()
    failed = 0
    while time.monotonic() < ends:
        with ThreadPoolExecutor(_JVMS) as pool:
            rounds = list(pool.map(partial(_round, seed, folder), VERSIONS))
        for version, verdicts in zip(VERSIONS, rounds, strict=True):
            for plan, verdict in verdicts:
                judged[version] += verdict.unread is None
                failed += _tell(plan, verdict)
        for version in VERSIONS:
            session = HudiSession(version, folder / "turns" / version)
            for kind in kinds_of(version):
                if time.monotonic() < ends or not played[version]:
                    failed += _play(session, kind, seed, folder / f"{version}-{kind}")
                    played[version] += 1
            session.close()
        shutil.rmtree(folder)
        seed += _TABLES_PER_JVM
        for what, counter in (("judged", judged), ("written in turns", played)):
            counts = ", ".join(f"{version}: {counter[version]}" for version in VERSIONS)
            print(f"tables {what}: {counts}", flush=True)
        print(f"with disagreements: {failed}", flush=True)
    return int(failed > 0)


def _round(seed: int, folder: Path, version: str) -> list[tuple[Plan, Verdict]]:
    plans = [make_plan(version, seed + number) for number in range(_TABLES_PER_JVM)]
    run_hudi(version, plans, folder / version)
    return [(plan, judge_table(plan, folder / version)) for plan in plans]


def _play(session: HudiSession, kind: str, seed: int, folder: Path) -> int:
    """Write a kind of table in all ways there are; return how many ended in disagreement."""
    plays: list[Play] = [play_at_random, play_in_order, play_side_by_side]
    # Hudi has non-blocking writes from 1.0 on, with simple buckets.
    if session.version != "0.15.0" and kind in ("mor-simple", "mor-rules"):
        plays.append(play_overlapping)
    return sum(_differ(play, session, kind, seed, folder) for play in plays)


def _differ(play: Play, session: HudiSession, kind: str, seed: int, folder: Path) -> bool:
    try:
        play(session, folder / play.__name__, kind, seed)
    except Exception as error:
        print(f"{session.version} {kind} {seed} {play.__name__}: {error}", flush=True)
        return True
    return False


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
        case ["turns", version, kind, seed]:
            return turns(version, kind, int(seed))
        case ["soak", minutes, *seed]:
            return soak(float(minutes), int(seed[0]) if seed else int(time.time()))
    print(__doc__, file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
