"""The judge by hand, and for as long as one likes.

usage: python -m tests.interop replay VERSION SEED        one table again; its folder is kept
       python -m tests.interop turns VERSION KIND SEED [METADATA]     writing in turns again
       python -m tests.interop matrix [VERSION] [METADATA] SEED...    all plays of all kinds
       python -m tests.interop flink SEED...              tables that Flink writes in turns with us
       python -m tests.interop soak MINUTES [SEED]        tables of all versions, from SEED on

METADATA is metadata=off, metadata=on or metadata=index: whether the tables have a metadata table,
and whether it has a record index. Without it, matrix plays all three.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import get_args

from tests.interop.engines.hudi_session import HudiSession, Metadata
from tests.interop.matrix import all_kinds_of, format_matrix, play_kind, play_matrix
from tests.interop.replays.judge import Verdict, judge_table
from tests.interop.replays.plans import VERSIONS, Plan, make_plan
from tests.interop.turns.flink_turns import format_flink, play_flink_in_turns

_TABLES_PER_JVM = 24
_JVMS = 2
_METADATA: dict[str, Metadata] = {f"metadata={word}": word for word in get_args(Metadata)}


def replay(version: str, seed: int) -> int:
    """Write one table again and say what differs."""
    folder = Path(tempfile.mkdtemp(prefix=f"judge-{version}-{seed}-")) / "hudi"
    plan = make_plan(version, seed)
    print(plan.describe())
    _make(version, [plan], folder)
    print((folder / "read" / f"{plan.name}.json").read_text())
    print(f"the table is {folder}/tables/{plan.name}")
    return _tell(plan, judge_table(plan, folder))


def turns(version: str, kind: str, seed: int, metadata: Metadata) -> int:
    """Write in turns again."""
    folder = Path(tempfile.mkdtemp(prefix=f"turns-{version}-{kind}-{seed}-"))
    with closing(HudiSession(version, folder / "hudi")) as session:
        ended = play_kind(session, kind, seed, folder, metadata)
        return int(any(one.tally is None for one in ended))


def matrix(arguments: list[str]) -> int:
    """Write every kind of table in turns, and say how it went.

    Args:
        arguments: Versions, METADATA and seeds; without a version or METADATA: all.
    """
    versions = [word for word in arguments if word in VERSIONS]
    metadata_tables = [_METADATA[word] for word in arguments if word in _METADATA]
    seeds = [int(word) for word in arguments if word not in (*VERSIONS, *_METADATA)]
    folder = Path(tempfile.mkdtemp(prefix="judge-matrix-"))
    ended = play_matrix(
        versions or VERSIONS, seeds, folder, metadata_tables or list(_METADATA.values())
    )
    print(format_matrix(ended))
    return int(any(one.tally is None for one in ended))


def flink(seeds: list[int]) -> int:
    """Write every kind of table in turns with Flink, and say how it went."""
    ended = play_flink_in_turns(seeds, Path(tempfile.mkdtemp(prefix="judge-flink-")))
    print(format_flink(ended))
    return int(any(one.tally is None for one in ended))


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
            for kind in all_kinds_of(version):
                if time.monotonic() < ends or not played[version]:
                    own = folder / f"{version}-{kind}"
                    number = seed // _TABLES_PER_JVM + played[version]
                    metadata = [*_METADATA.values()][number % len(_METADATA)]
                    ended = play_kind(session, kind, seed, own, metadata)
                    failed += sum(one.tally is None for one in ended)
                    played[version] += 1
            session.close()
        shutil.rmtree(folder)
        seed += _TABLES_PER_JVM
        for what, counter in (("judged", judged), ("written in turns", played)):
            counts = ", ".join(f"{version}: {counter[version]}" for version in VERSIONS)
            print(f"tables {what}: {counts}", flush=True)
        print(f"with disagreements: {failed}", flush=True)
    return int(failed > 0)


def _make(version: str, plans: Sequence[Plan], folder: Path) -> None:
    with closing(HudiSession(version, folder)) as session:
        for plan in plans:
            session.make(plan)


def _round(seed: int, folder: Path, version: str) -> list[tuple[Plan, Verdict]]:
    plans = [make_plan(version, seed + number) for number in range(_TABLES_PER_JVM)]
    _make(version, plans, folder / version)
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
        case ["turns", version, kind, seed]:
            return turns(version, kind, int(seed), "off")
        case ["turns", version, kind, seed, metadata] if metadata in _METADATA:
            return turns(version, kind, int(seed), _METADATA[metadata])
        case ["matrix", *given] if given and given[-1].isdecimal():
            return matrix(given)
        case ["flink", seed, *seeds]:
            return flink([int(seed), *map(int, seeds)])
        case ["soak", minutes, *seed]:
            return soak(float(minutes), int(seed[0]) if seed else int(time.time()))
    print(__doc__, file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
