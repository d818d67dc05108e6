"""`bucketfmt index`, as its users meet it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import bucketfmt as bf
from tests.cli.conftest import Cli
from tests.write.commit.test_pin_index import SIMPLE_4, index_properties, plain_table


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


def test_partitions_of_the_metadata_table(tmp_path: Path, cli: Cli) -> None:
    root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
    assert "no metadata table" in cli("index", "list", root).out
    assert cli("index", "rebuild", root).code == 64
    run = cli("index", "init", root, "column_stats", "record_index", "--output", "json")
    assert run.code == 0
    groups = {"column_stats": 2, "files": 1, "record_index": 10}
    assert {each["name"]: each["file_groups"] for each in run.json} == groups
    assert cli("index", "init", root, "record_index").code == 64
    assert cli("index", "rebuild", root).code == 0
    assert cli("index", "drop", root, "bloom_filters").code == 64
    assert "column_stats" not in cli("index", "drop", root, "column_stats").out
    listed = cli("index", "list", root).out.splitlines()
    assert [line.split(maxsplit=1) for line in listed] == [
        ["files", "1 file group"],
        ["record_index", "10 file groups"],
    ]
    assert "no metadata table" in cli("index", "drop", root).out


def test_a_partition_that_does_not_exist(tmp_path: Path, cli: Cli) -> None:
    """It is a slip of the caller, and no feature that is not supported."""
    schema = pa.schema({"id": pa.string()})
    bf.create(tmp_path / "t", schema=schema, record_key="id", index=bf.SimpleBucketIndex(1))
    run = cli("index", "init", tmp_path / "t", "record_idnex")
    assert (run.code, run.out) == (64, "")
    assert "'record_idnex' is no partition of a metadata table; made are files, " in run.err
    run = cli("index", "init", tmp_path / "t", "partition_stats")
    assert run.code == 64
    assert "worked out from column_stats; make those too" in run.err
    assert cli("index", "init", tmp_path / "t", "expr_index_x").code == 3
    assert not (tmp_path / "t/.hoodie/metadata").exists()


def test_the_metadata_table_is_checked_alone(tmp_path: Path, cli: Cli) -> None:
    root = plain_table(tmp_path / "t", bf.SimpleBucketIndex(4))
    run = cli("index", "check", root)
    assert (run.code, "the table has none" in run.out) == (0, True)
    cli("index", "init", root, "record_index")
    run = cli("index", "check", root, "--output", "json")
    assert run.code == 0
    counted = {"files in the metadata table", "entries of the record index"}
    assert run.json["checked"].keys() == counted
    timeline = tmp_path / "t/.hoodie/metadata/.hoodie/timeline"
    kept = set(timeline.glob("*.deltacommit"))
    table = bf.open(root)
    table.upsert(table.scan().to_arrow())
    for path in set(timeline.glob("*.deltacommit")) - kept:
        path.unlink()
    run = cli("index", "check", root, "--output", "json")
    assert run.code == 1
    assert {found["id"] for found in run.json["findings"]} == {"M004"}


def test_a_group_of_commands_alone_prints_its_help(cli: Cli) -> None:
    run = cli("index")
    assert (run.code, run.err) == (64, "")
    assert "rebuild" in run.out
