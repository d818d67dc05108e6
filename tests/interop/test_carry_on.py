"""Hudi carries on from what bucketfmt wrote, and bucketfmt from what Hudi wrote."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any, get_args

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.format.table.table_config import METADATA_PARTITIONS_UNFINISHED
from bucketfmt.storage.stores.local_store import LocalStore
from bucketfmt.testing.faulty_store import Killed
from bucketfmt.write.commit.transaction import Transaction
from bucketfmt.write.metadata import initialise
from soak.covering import cover
from tests.interop.engines.hudi_session import HudiSession, Metadata
from tests.interop.matrix import PLAYS, all_kinds_of, plays_of
from tests.interop.replays.plans import VERSIONS
from tests.interop.turns.carry_on import SCHEMA, as_table, doubled_buckets, start_turns
from tests.interop.turns.sides import Hudi, copying, metadata_options, serving_metadata_soon
from tests.rotation import seed
from tests.write.metadata.metadata_records import assert_in_step

SEED = int(os.environ.get("JUDGE_SEED", "0"))
DAY = date(2020, 1, 1)
INSTEAD = pytest.mark.rotated(among="plays, and tests with a JVM of their own")
Turn = tuple[str, str, str, Metadata]
TURNS: list[Turn] = [
    (version, kind, play, metadata)
    for version in VERSIONS
    for kind in all_kinds_of(version)
    for metadata in get_args(Metadata)
    for play in plays_of(version, kind, metadata)
]


IN_ORDER = [turn for turn in TURNS if turn[2:] == ("in order", "off")]
SHAPES = [turn for turn in TURNS if turn[2] == "shapes"]
OTHERS = [turn for turn in TURNS if turn not in IN_ORDER and turn not in SHAPES]


def choose_in_order(seed: str) -> list[Turn]:
    """Return a play in order, which is to do everything, of each version.

    `python -m tests.interop matrix` plays all in all.
    """
    of_version = {v: [turn for turn in IN_ORDER if turn[0] == v] for v in VERSIONS}
    return [turn for v in VERSIONS for turn in cover(of_version[v], f"{seed} {v}", strength=0)]


def choose_others(seed: str) -> list[Turn]:
    """Return plays of which a run takes one, or a test with a JVM of its own instead."""
    chance = Random(seed)
    return chance.sample(SHAPES, 3) + chance.sample(OTHERS, 4)


pytestmark = pytest.mark.judge


@pytest.mark.parametrize(
    ("version", "kind", "play", "metadata"),
    [
        *choose_in_order(seed()),
        *(pytest.param(*turn, marks=INSTEAD) for turn in choose_others(seed())),
    ],
)
def test_writing_in_turns(
    hudi: Callable[[str], HudiSession],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    kind: str,
    play: str,
    metadata: Metadata,
) -> None:
    session = hudi(version)
    monkeypatch.setattr(session, "metadata", metadata)
    with copying(), serving_metadata_soon():
        PLAYS[play](session, tmp_path, kind, SEED)


def test_every_turn_comes_with_some_seed() -> None:
    seeds = [str(number) for number in range(1000)]
    assert {turn for drawn in seeds for turn in choose_in_order(drawn)} == {*IN_ORDER}
    assert {turn for drawn in seeds for turn in choose_others(drawn)} == {*SHAPES, *OTHERS}


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


@INSTEAD
@pytest.mark.parametrize("work", ["upsert", "rehash"])
@pytest.mark.parametrize("kind", ["cow-simple", "mor-simple"])
@pytest.mark.parametrize("version", VERSIONS)
def test_hudi_rolls_back_by_markers_that_were_put_together(
    hudi: Callable[[str], HudiSession],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    kind: str,
    work: str,
) -> None:
    """A writer of ours dies before its commit, with its files announced as over a network."""
    session = hudi(version)
    turns = start_turns(session, tmp_path, kind, SEED)
    first, lost, last = (as_table(turns.draw()) for _ in range(3))
    turns.us.upsert(first)
    left: list[str] = []

    def die(transaction: Transaction, *_: object, **__: object) -> None:
        left.append(transaction.instant)
        transaction.heartbeat.abandon()
        raise Killed

    with monkeypatch.context() as network:
        network.setattr(LocalStore, "failures_are_final", False)
        network.setattr(Transaction, "publish", die)
        with pytest.raises(Killed):
            turns.us.upsert(lost) if work == "upsert" else turns.table.rehash(12)
    root = Path(turns.table.uri)
    (instant,) = left
    markers = root / ".hoodie/.temp" / instant
    assert {path.name for path in markers.iterdir()} == {"MARKERS.type", "MARKERS0"}
    lines = (markers / "MARKERS0").read_text().splitlines()
    files = [root / line.partition(".marker.")[0] for line in lines]
    assert len(files) >= 3
    is_there = [path.is_file() for path in files]
    assert all(is_there) or (work == "rehash" and any(is_there))  # a bucket may have no row
    at_once = {
        "hoodie.cleaner.policy.failed.writes": "EAGER",
        "hoodie.rollback.using.markers": "true",
    }
    Hudi(session, turns.table, at_once).upsert(last)
    # Hudi rolls back what was logged by logging so.
    assert not any(path.exists() for path in files) or (kind, work) == ("mor-simple", "upsert")
    table = bf.open(turns.table.uri)
    assert not table.timeline.pending.instants
    found = table.scan().to_arrow()
    assert set(found["id"].to_pylist()) == {*first["id"].to_pylist(), *last["id"].to_pylist()}
    assert table.check(depth="full").status == "clean"


@INSTEAD
@pytest.mark.filterwarnings("ignore:the metadata table is made anew")
@pytest.mark.parametrize("kind", ["cow-simple", "mor-simple"])
@pytest.mark.parametrize("version", VERSIONS)
def test_hudi_keeps_the_names_of_partitions_that_a_dead_writer_was_making(
    hudi: Callable[[str], HudiSession],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    kind: str,
) -> None:
    """Hudi writes to a table whose metadata table is half made anew, without it and with it.

    Hudi 0.15 is not told to make the partitions that lack: where `files` is there, it makes
    column_stats of none of the files.
    """
    session = hudi(version)
    with_metadata = {"hoodie.metadata.enable": "true"}
    if version != "0.15.0":
        with_metadata = metadata_options(has_record_index=False)
    turns = start_turns(session, tmp_path, kind, SEED)
    table = turns.table
    names = ["column_stats", "bloom_filters"]
    names += ["partition_stats"] if table.config.table_version >= 8 else []

    def draw() -> pa.Table:
        """Draw rows with dates: Hudi 1.0 fails to log a null one where statistics are on."""
        return as_table({at: {**row, "day": DAY} for at, row in turns.draw().items()})

    turns.us.upsert(draw())
    table.metadata_table.init(*names)

    def put_or_die(*given: Any) -> None:
        if given[1] == "column_stats":
            raise Killed
        put_partition(*given)

    put_partition = initialise._put_partition
    for options in ({"hoodie.metadata.enable": "false"}, with_metadata):
        with monkeypatch.context() as dying:
            dying.setattr(initialise, "_put_partition", put_or_die)
            with pytest.raises(Killed):
                table.metadata_table.rebuild()
        writer = Hudi(session, table, options)
        writer.upsert(draw())
        properties = bf.open(table.uri).config.properties
        assert properties[METADATA_PARTITIONS_UNFINISHED] == ",".join(sorted(names))
        turns.us.upsert(draw())
        found = bf.open(table.uri)
        assert set(found.config.metadata_partitions) == {"files", *names}
        assert not found.config.metadata_partitions_unfinished
        assert_in_step(found)
        assert found.check(depth="full").status == "clean"
        by_metadata = writer.read(hoodie__metadata__enable="true")
        assert _rows(by_metadata) == _rows(writer.read(hoodie__metadata__enable="false"))
        assert _rows(by_metadata) == _rows(found.scan().to_arrow())


def _rows(rows: pa.Table) -> list[dict[str, Any]]:
    keys = [("region", "ascending"), ("id", "ascending")]
    return rows.select(SCHEMA.names).sort_by(keys).to_pylist()
