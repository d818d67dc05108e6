"""hash, dump, check, demo."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.keys.hashing import bucket_of_hash, java_list_hash
from tests.check.planting import Patient
from tests.cli.conftest import Cli

Golden = Callable[[str, str], Path]


class TestHash:
    def test_the_bucket_is_that_of_a_table(self, golden: Golden, cli: Cli) -> None:
        located = bf.open(golden("0.15.0", "mor")).locate(["key-000125"], ["eu"]).to_pylist()
        (row,) = cli("hash", "key-000125", "--buckets", 4, "--output", "json").json
        assert row["bucket_id"] == located[0]["bucket_id"] == 1
        assert row["hash_values"] == ["key-000125"]
        assert row["java_hash"] == java_list_hash(["key-000125"])

    def test_the_ring_position_is_that_of_a_table(self, golden: Golden, cli: Cli) -> None:
        table = bf.open(golden("1.2.0", "tiny_ch"))
        (located,) = table.locate(["key-000001"]).to_pylist()
        nodes = [
            node["value"]
            for node in table.inspect.hashing_metadata().to_pylist()
            if node["partition_path"] == located["partition_path"]
        ]
        (row,) = cli("hash", "key-000001", "--output", "json").json
        behind = [value for value in sorted(nodes) if value >= row["ring_hash"]]
        assert located["bucket_id"] == (behind or sorted(nodes))[0]

    @pytest.mark.parametrize(
        ("dialect", "values"), [("indexOf", ["a,b"]), ("split-filter", ["a", "b"])]
    )
    def test_a_field_of_a_complex_key(self, cli: Cli, dialect: str, values: list[str]) -> None:
        """Where the value has a comma, Hudi's releases differ."""
        key = "x:a,b,y:2"
        (row,) = cli(
            "hash", key, "--field", "x", "--dialect", dialect, "-n", 16, "--output", "json"
        ).json
        assert row["hash_values"] == values
        assert row["bucket_id"] == bucket_of_hash(java_list_hash(values), 16)

    def test_a_key_that_is_not_of_the_dialect(self, cli: Cli) -> None:
        run = cli("hash", "x:a,b,y:2", "--field", "x", "--dialect", "colon-map")
        assert (run.code, run.out) == (2, "")
        assert run.err.count("\n") == 1

    def test_text(self, cli: Cli) -> None:
        head, line = cli("hash", "key-1").out.splitlines()
        assert head.split() == ["record_key", "hash_values", "java_hash", "bucket_id", "ring_hash"]
        assert line.split() == ["key-1", "key-1", "101943394", "98", "962816521"]


class TestDump:
    def test_a_log_file(self, golden: Golden, cli: Cli) -> None:
        path = Patient(golden("1.2.0", "tiny_mor")).log_file("us")
        run = cli("dump", path)
        assert run.code == 0
        assert "INSTANT_TIME" in run.out
        fields = cli("dump", path, "--output", "json").json
        assert fields[0]["offset"] == 0
        assert {"INSTANT_TIME", "SCHEMA"} <= {str(f["field"]).split(".")[-1] for f in fields}

    def test_json_has_whole_values_and_text_has_their_beginning(
        self, cli: Cli, tmp_path: Path
    ) -> None:
        path = tmp_path / "1.commit"
        value = "it's\n\\ " + 200 * "x"
        path.write_text(json.dumps({"one\ntwo": value, "short": "1"}))
        told = cli("dump", path, "--output", "json").json
        assert [(each["field"], each["value"]) for each in told] == [
            ("one\ntwo", value),
            ("short", "1"),
        ]
        _, first, *rest = cli("dump", path).out.splitlines()
        assert "one\\ntwo" in first
        assert first.rstrip().endswith("it's\\n\\\\ " + 150 * "x" + "…")
        assert len(rest) == 1

    def test_json_has_the_whole_schema_of_a_log_block(self, golden: Golden, cli: Cli) -> None:
        path = Patient(golden("1.2.0", "tiny_mor")).log_file("us")
        told = cli("dump", path, "--output", "json").json
        (schema,) = (each["value"] for each in told if each["field"].endswith(".header.SCHEMA"))
        assert len(json.loads(schema)["fields"]) > 5

    def test_a_file_that_is_not_there(self, cli: Cli, tmp_path: Path) -> None:
        run = cli("dump", tmp_path / "nothing.commit")
        assert (run.code, run.out) == (2, "")
        assert "nothing.commit: no such file" in run.err


class TestCheck:
    def test_clean(self, golden: Golden, cli: Cli) -> None:
        run = cli("check", golden("1.2.0", "tiny_mor"))
        assert run.code == 0
        assert run.out.splitlines()[-1] == "clean"

    def test_findings(self, golden_copy: Golden, cli: Cli) -> None:
        root = golden_copy("1.2.0", "tiny_mor")
        path = Patient(root).log_file("us")
        path.write_bytes(path.read_bytes()[:-1])
        run = cli("check", root, "--json")
        assert run.code == 1
        report = run.json
        assert (report["status"], report["depth"]) == ("findings", "default")
        assert path.relative_to(root).as_posix() in report["findings"][0]["paths"]
        shown = cli("check", root)
        assert shown.code == 1
        assert f"file   {path.relative_to(root).as_posix()}" in shown.out


@pytest.mark.rotated(0, among="processes of commands", one_of=3)
def test_demo(cli: Cli, tmp_path: Path) -> None:
    """The main job from end to end, on the table in the package."""
    kept = tmp_path / "my trips"
    run = cli("demo", "--keep", kept)
    assert (run.code, run.err) == (0, "")
    assert "record key" in run.out
    for step in ("t.locate(", "t.lookup(", "bucketfmt buckets", "t.check("):
        assert f"\n>>> {step}" in run.out
    assert "█" in run.out
    assert "n125u" in run.out
    assert "\nclean\n" in run.out
    assert "\n2 findings\n" in run.out
    assert "COMPACT: 2 files" in run.out
    assert "4 buckets, " in run.out
    assert re.search(r"\n1[01] buckets, .*; largest / median 1.0", run.out)
    told = re.search(
        r"(\d+) commits and \d+ reads meanwhile; (\d+) rows, of which (\d+) are", run.out
    )
    assert told
    commits, rows, new = map(int, told.groups())
    assert (rows, new) == (40_000 + 20 * commits, 20 * commits)
    *_, last, step, _ = run.out.splitlines()
    assert (last, step) == ("", f">>> bucketfmt check '{kept}'")
    assert "\ncheck: clean\n" in run.out
    assert cli("check", kept).out.splitlines()[-1] == "clean"
    again = cli("demo", "--keep", kept)
    assert (again.code, again.out) == (64, "")
    assert f"--keep {kept}: the folder exists" in again.err
