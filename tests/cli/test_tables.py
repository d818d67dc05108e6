"""describe, history, files, buckets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from tests.cli.conftest import Cli
from tests.table.tables import state_buckets

Golden = Callable[[str, str], Path]


class TestDescribe:
    def test_text(self, golden: Golden, cli: Cli) -> None:
        root = golden("0.15.0", "mor")
        run = cli("describe", root)
        assert (run.code, run.err) == (0, "")
        facts = dict(line.split(maxsplit=1) for line in run.out.splitlines() if line.strip())
        assert facts["uri"].strip() == str(root)
        assert facts["type"].strip() == "MERGE_ON_READ"
        assert facts["version"].strip() == "6"
        assert facts["ordering"].strip() == "ts"
        assert re.search(r"^index +simple:4$", run.out, re.MULTILINE)
        assert facts["price"].strip() == "double"
        assert "5.0 MiB" in facts["size"]

    def test_json(self, golden: Golden, cli: Cli) -> None:
        run = cli("describe", golden("1.2.0", "ch_split"), "--output", "json")
        facts = run.json
        assert (facts["table"], facts["version"]) == ("ch_split", 9)
        assert facts["index"] == "consistent:4"
        assert facts["index_source"] == "index files"
        assert (facts["record_key"], facts["partitioned_by"]) == (["id"], ["region"])
        assert (facts["metadata_table"], facts["files_left_out_by"]) == ([], None)
        assert facts["columns"] == {
            field.name: str(field.type) for field in bf.open(golden("1.2.0", "ch_split")).schema
        }

    def test_an_index_given(self, golden: Golden, cli: Cli) -> None:
        facts = cli(
            "describe", golden("0.15.0", "mor"), "--index", "simple:4:id", "--output", "json"
        ).json
        assert facts["index"] == "simple:4:id"
        assert facts["index_source"] == "argument"
        assert facts["index_evidence"] == "given by the caller, and proved where it is used"


class TestHistory:
    def test_newest_first(self, golden: Golden, cli: Cli) -> None:
        root = golden("1.2.0", "mor")
        run = cli("history", root, "--output", "json")
        assert run.err == ""
        commits = run.json
        times = [commit["requested_time"] for commit in commits]
        assert times == sorted(times, reverse=True)
        assert len(times) == bf.open(root).inspect.commits().num_rows
        assert {"UPSERT", "DELETE"} <= {commit["operation_type"] for commit in commits}

    def test_text(self, golden: Golden, cli: Cli) -> None:
        head, *lines = cli("history", golden("1.2.0", "mor")).out.splitlines()
        assert head.split()[:3] == ["requested_time", "completion_time", "action"]
        assert all("deltacommit" in line and "COMPLETED" in line for line in lines)

    def test_archived(self, golden: Golden, cli: Cli) -> None:
        root = golden("1.2.0", "cleaned")
        shown = cli("history", root, "--output", "json")
        assert "left out; --archived lists them too\n" in shown.err
        run = cli("history", root, "--archived", "--output", "json")
        active, both = shown.json, run.json
        assert run.err == ""
        assert len(both) > len(active)
        assert both == (
            bf.open(root)
            .inspect.commits(archived=True)
            .sort_by([("requested_time", "descending")])
            .to_pylist()
        )


class TestFiles:
    def test_those_a_reader_opens(self, golden: Golden, cli: Cli) -> None:
        root = golden("1.2.0", "mor")
        files = cli("files", root, "--output", "json").json
        assert files == bf.open(root).inspect.files().to_pylist()
        assert all((root / file["path"]).stat().st_size == file["size"] for file in files)

    def test_of_one_partition(self, golden: Golden, cli: Cli) -> None:
        run = cli("files", golden("1.2.0", "mor"), "--partition", "eu")
        head, *lines = run.out.splitlines()
        assert head.split()[0] == "partition_path"
        assert lines
        assert all(line.startswith("eu ") for line in lines)

    @pytest.mark.parametrize("command", ["files", "buckets"])
    def test_of_no_partition(self, golden: Golden, cli: Cli, command: str) -> None:
        run = cli(command, golden("1.2.0", "mor"), "--partition", "nowhere", "--output", "json")
        assert (run.code, run.out) == (64, "")
        assert run.err == "bucketfmt: the table has no partition 'nowhere'\n"


class TestBuckets:
    def test_a_bar_a_bucket(self, golden_copy: Golden, cli: Cli) -> None:
        root = state_buckets(golden_copy("0.15.0", "mor"), 4)
        run = cli("buckets", root, "--partition", "eu")
        lines = run.out.splitlines()
        assert lines[0] == "partition eu"
        assert [line[:8] for line in lines[1:5]] == [f"{n:08d}" for n in range(4)]
        assert all("█" * 50 in line and "+ 3 log" in line for line in lines[1:5])
        assert lines[5].startswith("4 buckets, 1.7 MiB; largest / median 1.00, Gini 0.00")
        assert lines[6] == "suggested N 1 (for 120.0 MiB a bucket)"

    def test_json(self, golden: Golden, cli: Cli) -> None:
        partitions = cli("buckets", golden("0.15.0", "mor"), "--output", "json").json
        assert [p["partition_path"] for p in partitions] == ["ap", "eu", "us"]
        for partition in partitions:
            sizes = [bucket["size"] for bucket in partition["buckets"]]
            assert partition["total_bytes"] == sum(sizes)
            assert [bucket["bucket_id"] for bucket in partition["buckets"]] == [0, 1, 2, 3]
            assert partition["suggested_buckets"] == 1

    def test_a_table_without_partitions(self, golden: Golden, cli: Cli) -> None:
        run = cli("buckets", golden("1.2.0", "nonpart"))
        assert run.out.startswith("table\n")

    def test_advice_says_what_to_run(self, golden_copy: Golden, cli: Cli) -> None:
        root = state_buckets(golden_copy("0.15.0", "mor"), 4)
        advice = cli("buckets", root, "--advise", "--output", "json").json
        assert (advice["engine"], advice["target_bytes"]) == ("simple", 120 << 20)
        assert [each["partition_path"] for each in advice["partitions"]] == ["ap", "eu", "us"]
        assert {each["num_buckets"] for each in advice["partitions"]} == {4}
        (first, *_) = advice["recommendations"]
        shown = cli("buckets", root, "--advise").out
        assert "suggested: simple, 1 buckets" in shown
        assert first["command"] == f"bucketfmt rehash {root} 1 --dry-run"
        assert first["command"] in shown
        assert cli("buckets", root, "--advise", "--partition", "eu").code == 64

    def test_empty_buckets_are_drawn(self, golden: Golden, cli: Cli) -> None:
        run = cli("buckets", golden("1.2.0", "tiny_mor"), "--index", "simple:1")
        assert run.out.splitlines()[1].startswith("00000000  █")


def test_json_is_text_of_any_alphabet(golden: Golden, cli: Cli) -> None:
    run = cli("describe", golden("1.2.0", "multipart"), "--output", "json")
    assert json.loads(run.out)["partitions"] > 1
