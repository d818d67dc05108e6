"""report: a page about a table, in a file or on standard output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bucketfmt as bf
from tests.cli.conftest import Cli
from tests.table.tables import state_buckets

Golden = Callable[[str, str], Path]


def test_a_page_in_a_file(golden: Golden, cli: Cli, tmp_path: Path) -> None:
    root, out = golden("1.2.0", "mor"), tmp_path / "report.html"
    run = cli("report", root, "-o", out, "--depth", "quick")
    assert (run.code, run.out, run.err) == (0, "", f"{out}: clean\n")
    page = out.read_text()
    assert page.startswith("<!doctype html>")
    assert "Checked at depth quick" in page
    assert f"<code>bucketfmt rehash {root} 1 --dry-run</code>" in page, "in the words of a shell"
    assert "t.preview_" not in page
    for group in bf.open(root).inspect.file_groups()["file_id"].to_pylist():
        assert group in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_findings_are_told_and_are_no_failure(
    golden_copy: Golden, cli: Cli, tmp_path: Path
) -> None:
    root, out = state_buckets(golden_copy("0.15.0", "mor"), 2), tmp_path / "report.html"
    run = cli("report", root, "--out", out)
    assert (run.code, run.err) == (0, f"{out}: findings\n")
    assert "B005" in out.read_text()


def test_no_table_and_no_folder(golden: Golden, cli: Cli, tmp_path: Path) -> None:
    run = cli("report", tmp_path, "-o", tmp_path / "report.html")
    assert run.code == 2
    assert "report.html" not in run.err
    run = cli("report", golden("1.2.0", "tiny_mor"), "-o", tmp_path / "none" / "report.html")
    assert run.code == 2
    assert str(tmp_path / "none" / "report.html") in run.err
    assert cli("report", golden("1.2.0", "tiny_mor")).code == 64  # -o is not given
