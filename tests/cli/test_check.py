"""check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Cli

Copy = Callable[[str, str], Path]


def test_clean(golden: Copy, cli: Cli) -> None:
    run = cli("check", golden("1.2.0", "mor"))
    assert (run.code, run.err) == (0, "")
    *_, last = run.out.splitlines()
    assert last == "clean"
    assert "checked (default): " in run.out
    assert "not checked: keys and pages: depth default reads footers" in run.out


def test_findings(golden_copy: Copy, cli: Cli) -> None:
    root = golden_copy("1.2.0", "mor")
    (root / "eu/.hoodie_partition_metadata").unlink()
    run = cli("check", root, "--depth", "quick")
    assert (run.code, run.err) == (1, "")
    assert "error T005: Partition without metadata file partition 'eu'" in run.out
    for label in ("what   ", "file   eu/", "cause  ", "fix    ", "rows may be lost or wrong"):
        assert label in run.out
    assert run.out.splitlines()[-1] == "1 finding"


def test_json(golden_copy: Copy, cli: Cli) -> None:
    root = golden_copy("1.2.0", "mor")
    (root / "eu/.hoodie_partition_metadata").unlink()
    run = cli("check", root, "--output", "json")
    assert run.code == 1
    report = run.json
    assert (report["status"], report["depth"]) == ("findings", "default")
    (finding,) = report["findings"]
    assert (finding["id"], finding["partition"], finding["bucket"]) == ("T005", "eu", None)
    assert report["checked"]["partitions"] == 3
    assert cli("check", root, "--json").out == run.out


def test_max_findings(golden_copy: Copy, cli: Cli) -> None:
    root = golden_copy("1.2.0", "mor")
    for partition in ("ap", "eu", "us"):
        (root / partition / ".hoodie_partition_metadata").unlink()
    report = cli("check", root, "--max-findings", 2, "--output", "json").json
    assert [finding["partition"] for finding in report["findings"]] == ["ap", "eu"]
    assert "1 further findings are left out (max_findings)" in report["not_checked"]
    assert report["findings_left_out"] == 1
    shown = cli("check", root, "--max-findings", 2)
    assert shown.out.splitlines()[-1] == "2 of 3 findings; --max-findings N for more"
    assert cli("check", root, "--max-findings", 0).code == 64


def test_partitions(golden: Copy, cli: Cli) -> None:
    root = golden("1.2.0", "mor")
    report = cli("check", root, "--partition", "us", "--partition", "eu", "--output", "json").json
    assert report["checked"]["partitions"] == 2
    assert "1 partitions: not asked for" in report["not_checked"]
    run = cli("check", root, "--partition", "mars")
    assert (run.code, run.out) == (64, "")
    assert run.err == "bucketfmt: the table has no partition 'mars'\n"


def test_since(golden: Copy, cli: Cli) -> None:
    root = golden("1.2.0", "mor")
    everything = cli("check", root, "--depth", "full", "--output", "json").json
    later = cli("check", root, "--depth", "full", "--since", "2099-01-01", "--output", "json").json
    assert everything["checked"]["keys"] > 0
    assert "keys" not in later["checked"]
    assert later["status"] == "clean"
    assert any("12 file groups: not written to since 2099" in s for s in later["not_checked"])
    assert cli("check", root, "--since", "yesterday").code == 64


def test_no_table(tmp_path: Path, cli: Cli) -> None:
    run = cli("check", tmp_path)
    assert (run.code, run.out) == (2, "")
    assert run.err.count("\n") == 1
    assert "no Hudi table at" in run.err


def test_a_table_that_cannot_be_opened(golden_copy: Copy, cli: Cli) -> None:
    root = golden_copy("1.2.0", "mor")
    (root / ".hoodie/hoodie.properties").write_bytes(b"\xff\x00" * 9)
    run = cli("check", root)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)


def test_a_version_not_supported(golden_copy: Copy, cli: Cli) -> None:
    root = golden_copy("1.2.0", "mor")
    path = root / ".hoodie/hoodie.properties"
    path.write_text(path.read_text().replace("table.version=9", "table.version=14"))
    run = cli("check", root)
    assert (run.code, run.out, run.err.count("\n")) == (3, "", 1)
    assert run.err.startswith("bucketfmt: not supported: ")


def test_a_feature_not_supported_is_not_clean(golden_copy: Copy, cli: Cli) -> None:
    root = golden_copy("1.2.0", "cow")
    (root / "us/data.parquet_20260101000000000_hudiext").write_bytes(b"")
    run = cli("check", root, "--depth", "quick")
    assert run.code == 3
    assert run.out.splitlines()[-1] == "nothing found, but not all could be checked"
