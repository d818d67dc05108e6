"""`bucketfmt index`, as its users meet it."""

from __future__ import annotations

from pathlib import Path

import bucketfmt as bf
from tests.cli.conftest import Cli
from tests.write.test_pin_index import SIMPLE_4, index_properties, plain_table


def test_pinning_an_index(tmp_path: Path, cli: Cli) -> None:
    root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
    run = cli("index", "pin", root, "--index", "simple:8")
    assert (run.code, "contradicts the table" in run.err) == (64, True)
    assert index_properties(root) == {}
    run = cli("index", "pin", root, "--index", "simple:4", "--output", "json")
    assert run.code == 0
    assert run.json["recorded"] == "now"
    assert index_properties(root) == SIMPLE_4
    assert "already" in cli("index", "pin", root).out
