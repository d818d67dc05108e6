"""Hudi carries on from what bucketfmt wrote, and bucketfmt from what Hudi wrote."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import bucketfmt as bf
from tests.interop.carry_on import KINDS, SCHEMA, Server, Turns
from tests.interop.plans import VERSIONS

SEED = int(os.environ.get("JUDGE_SEED", "0"))
ROUNDS = int(os.environ.get("JUDGE_ROUNDS", "4"))
TABLE_VERSIONS = {"0.15.0": 6, "1.0.2": 8, "1.2.0": 9}

pytestmark = pytest.mark.judge


@pytest.fixture(scope="module")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    """Return the server of a version; one runs at a time."""
    running: dict[str, Server] = {}

    def serve(version: str) -> Server:
        if version not in running:
            for server in running.values():
                server.close()
            running.clear()
            running[version] = Server(version, tmp_path_factory.mktemp("hudi") / version)
        return running[version]

    yield serve
    for server in running.values():
        server.close()


# Hudi has bucket rules by partition from 1.1 on.
TABLES = [(v, k) for v in VERSIONS for k in KINDS if v == "1.2.0" or not k.endswith("rules")]


@pytest.mark.parametrize(("version", "kind"), TABLES)
def test_writing_in_turns(
    hudi: Callable[[str], Server], tmp_path: Path, version: str, kind: str
) -> None:
    server = hudi(version)
    table_type, index = KINDS[kind]
    table = bf.create(
        str(tmp_path / f"t_{kind.replace('-', '_')}"),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=["ts"],
        index=index,
        table_type=table_type,  # type: ignore[arg-type]
        table_version=TABLE_VERSIONS[version],
        properties={
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
        },
    )
    turns = Turns(server, table, Random(f"{SEED}/{version}/{kind}"))
    for number in range(ROUNDS):
        turns.play("us" if number % 2 == 0 else "hudi")
