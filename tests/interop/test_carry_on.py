"""Hudi carries on from what bucketfmt wrote, and bucketfmt from what Hudi wrote."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from soak.covering import cover
from tests.interop.carry_on import as_table, doubled_buckets, kinds_of, start_turns
from tests.interop.hudi_session import HudiSession
from tests.interop.matrix import PLAYS, plays_of
from tests.interop.plans import VERSIONS
from tests.interop.shapes import shapes_of
from tests.interop.sides import Hudi, copying
from tests.rotation import seed

SEED = int(os.environ.get("JUDGE_SEED", "0"))
TURNS = [
    (version, kind, play)
    for version in VERSIONS
    for kind in kinds_of(version)
    for play in plays_of(version, kind)
]
# Every play, kind and version once, and a shape: other ones with each commit.
# `python -m tests.interop matrix` plays all in all.
_SHAPES = [(version, shape, "shapes") for version in VERSIONS for shape in shapes_of(version)]
CHOSEN = [*cover(TURNS, seed(), strength=1), *cover(_SHAPES, seed(), strength=0)]

pytestmark = pytest.mark.judge


@pytest.mark.parametrize(("version", "kind", "play"), CHOSEN)
def test_writing_in_turns(
    hudi: Callable[[str], HudiSession], tmp_path: Path, version: str, kind: str, play: str
) -> None:
    with copying():
        PLAYS[play](hudi(version), tmp_path, kind, SEED)


def test_every_version_kind_and_play_is_among_those_chosen() -> None:
    versions, kinds, plays = (set(names) for names in zip(*CHOSEN, strict=True))
    assert versions == set(VERSIONS)
    assert kinds >= {kind for version in VERSIONS for kind in kinds_of(version)}
    assert plays == PLAYS.keys()


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
