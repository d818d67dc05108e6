"""Hudi carries on from what bucketfmt wrote, and bucketfmt from what Hudi wrote."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from soak.covering import cover
from tests.interop.carry_on import as_table, doubled_buckets, start_turns
from tests.interop.hudi_session import HudiSession
from tests.interop.matrix import PLAYS, all_kinds_of, plays_of
from tests.interop.plans import VERSIONS
from tests.interop.sides import Hudi, copying, serving_metadata_soon
from tests.rotation import seed

SEED = int(os.environ.get("JUDGE_SEED", "0"))
Turn = tuple[str, str, str, str]
TURNS: list[Turn] = [
    (version, kind, play, "with a metadata table" if has_metadata_table else "without")
    for version in VERSIONS
    for kind in all_kinds_of(version)
    for has_metadata_table in (False, True)
    for play in plays_of(version, kind, has_metadata_table)
]


def choose(seed: str) -> list[Turn]:
    """Return the plays of a run: one in order of each version, another one, and a shape.

    To play in order is to do everything. Others are chosen with each commit;
    `python -m tests.interop matrix` plays all in all.
    """
    in_order = [turn for turn in TURNS if turn[2:] == ("in order", "without")]
    shapes = [turn for turn in TURNS if turn[2] == "shapes"]
    others = [turn for turn in TURNS if turn not in in_order and turn not in shapes]
    chosen = cover(shapes, seed, strength=0) + cover(others, seed, strength=0)
    for version in VERSIONS:
        own = [turn for turn in in_order if turn[0] == version]
        chosen += cover(own, f"{seed} {version}", strength=0)
    return chosen


pytestmark = pytest.mark.judge


@pytest.mark.parametrize(("version", "kind", "play", "metadata"), choose(seed()))
def test_writing_in_turns(
    hudi: Callable[[str], HudiSession],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    kind: str,
    play: str,
    metadata: str,
) -> None:
    session = hudi(version)
    monkeypatch.setattr(session, "has_metadata_table", metadata != "without")
    with copying(), serving_metadata_soon():
        PLAYS[play](session, tmp_path, kind, SEED)


def test_every_turn_comes_with_some_seed() -> None:
    assert {turn for number in range(3000) for turn in choose(str(number))} == {*TURNS}


@pytest.mark.parametrize("version", ["1.2.0"])
def test_hudi_finds_keys_by_bloom_filters_and_key_ranges(
    hudi: Callable[[str], HudiSession], tmp_path: Path, version: str
) -> None:
    """Its bloom index goes by the footers of base files; what it misses it writes again."""
    session = hudi(version)
    turns = start_turns(session, tmp_path, "cow-simple", SEED)
    given = as_table(turns.draw())
    turns.us.upsert(given)
    properties = Path(turns.table.uri, ".hoodie/hoodie.properties")
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "index" not in line))
    by_footers = Hudi(session, bf.open(turns.table.uri), {"hoodie.index.type": "BLOOM"})
    by_footers.upsert(given)
    read = by_footers.read()
    assert read.num_rows == given.num_rows
    assert len(set(read["_hoodie_commit_time"].to_pylist())) == 1  # of Hudi's write
    assert not doubled_buckets(read)
