"""Commands on pages exist, do what the page says, and print it."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer import Exit
from typer.main import get_command

import bucketfmt as bf
from bucketfmt.cli.app import UsageError, app
from tests.check.planting import Patient
from tests.docs.conftest import ROOT
from tests.docs.pages import FENCE, commands, play, run

TROUBLE = (ROOT / "docs/troubleshooting.md").read_text()


def test_getting_started(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is the one that the site has for download."""
    shutil.copy(site / "downloads/trips.tar.xz", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "88")
    assert play(ROOT / "docs/getting-started.md") > 20
    assert (tmp_path / "trips.html").exists()


def test_metadata_table(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.unpack_archive(site / "downloads/trips.tar.xz", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert play(ROOT / "docs/how-to/metadata-table.md") == 9


TRIPS = pa.table({"id": ["t1", "t2"], "city": ["sf", "ny"], "ts": [1, 1], "fare": [10.5, 7.25]})


def snippets(page: str) -> list[str]:
    """Return the blocks of Python of a page that a reader puts into a program."""
    text = (ROOT / "docs/how-to" / page).read_text()
    found = [body for _, language, body in FENCE.findall(text) if language == "python"]
    return [body for body in found if not body.startswith(">>> ")]


def test_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of the page and its commands run in one folder, one after the other."""
    monkeypatch.chdir(tmp_path)
    (first, *_) = snippets("write.md")
    names: dict[str, Any] = {}
    exec(first, names)
    assert names["t"].to_arrow()["id"].to_pylist() == ["t1"]

    pq.write_table(TRIPS, "trips.parquet")
    Path("more.csv").write_text("id,city,ts,fare\nt2,ny,2,1.5\nt3,la,2,2.5\n")
    pq.write_table(TRIPS.slice(0, 1), "monday.parquet")
    text = (ROOT / "docs/how-to/write.md").read_text().partition("## From the shell")[2]
    ((_, _, body),) = FENCE.findall(text)
    printed = {
        " ".join(words): run(words) for words, _ in commands(body) if words[0] == "bucketfmt"
    }
    assert len(printed) == 6
    assert not [told for told in printed.values() if "rror" in told]
    assert "dry" in list(printed)[-1]
    left = bf.open("warehouse/rides").to_arrow().sort_by("id")
    assert left.select(["id", "fare"]).to_pydict() == {"id": ["t1", "t3"], "fare": [10.5, 2.5]}


def test_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bf.create("warehouse/trips", schema=TRIPS, record_key="id", partition_by="city")
    t = bf.open("warehouse/trips", writer=bf.WriterConfig(services=None))
    t.upsert(TRIPS)
    names: dict[str, Any] = {"rows": TRIPS}
    services, one_by_one, taken_back = snippets("maintain-a-table.md")
    for snippet in (services, one_by_one, taken_back):
        exec(snippet, names)
    assert isinstance(names["instant"], str)
    assert names["t"].to_arrow().sort_by("id") == TRIPS
    assert names["instant"] not in t.inspect.commits()["requested_time"].to_pylist()


def test_virtual_logs_of_a_resize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"bf": bf, "trips": TRIPS}
    exec(snippets("resize.md")[-1], names)
    names["t"].upsert(TRIPS)
    exec(snippets("resize.md")[0], names)
    assert names["t"].to_arrow().sort_by("id") == TRIPS


def test_commands_and_options_exist() -> None:
    """Each command of a page is taken apart as the command line takes it apart."""
    wrong, seen = [], 0
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for _, language, body in FENCE.findall(page.read_text()):
            for words, _ in commands(body) if language == "console" else ():
                if words[0] == "bucketfmt":
                    seen += 1
                    if reason := refusal(words[1:]):
                        wrong.append(f"{page.name}: {shlex.join(words)}: {reason}")
    assert wrong == []
    assert seen > 60


def refusal(words: list[str]) -> str:
    """Return why the command line does not take some words, or ""."""
    at: Any = get_command(app)
    try:
        while hasattr(at, "commands") and not words[0].startswith("-"):
            at, words = at.get_command(None, words[0]) or at.commands[words[0]], words[1:]
        at.make_context("bucketfmt", list(words))
    except Exit:
        return ""  # --version, --help
    except (KeyError, UsageError) as error:
        return str(error)
    return ""


def section(heading: str) -> list[list[str]]:
    """Return the commands of a section of Troubleshooting."""
    (text,) = re.findall(
        rf"^### {re.escape(heading)}.*?\n(.*?)^##", TROUBLE, re.MULTILINE | re.DOTALL
    )
    return [words for _, _, body in FENCE.findall(text) for words, _ in commands(body)]


def two_file_groups(root: Path) -> None:
    patient = Patient(root)
    first = patient.base_file("us", 1)
    twin = patient.copy_file(first, file_id="00000001-1111-4222-8333-444455556666-0")
    patient.record(twin, like=first)


def cut_hfile(root: Path) -> None:
    for path in (root / ".hoodie/metadata/files").glob("*.hfile"):
        path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("heading", "table", "plant", "finding"),
    [
        ("Find multiple files at partition", ("0.15.0", "cow"), two_file_groups, "B001"),
        ("ArrayIndexOutOfBoundsException", ("1.2.0", "mdt_bucket"), cut_hfile, "M002"),
        ("A commit stays inflight", ("1.2.0", "uncommitted"), lambda _: None, "T001"),
    ],
    ids=["two-file-groups", "metadata-table", "inflight"],
)
def test_troubles_are_found_and_mended(
    heading: str,
    table: tuple[str, str],
    plant: Callable[[Path], None],
    finding: str,
    golden_copy: Callable[[str, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = golden_copy(*table).rename(tmp_path / "trips")
    plant(root)
    monkeypatch.chdir(tmp_path)
    printed = [run(words) for words in section(heading)]
    assert finding in printed[0]
    assert printed[-1].endswith("clean\n"), "\n".join(printed)


def test_findings_that_pages_name_are_linked() -> None:
    linked = set(re.findall(r"\[([BCMPT]\d{3})\]\(reference/findings.md#([bcmpt]\d{3})\)", TROUBLE))
    assert len(linked) > 15
    assert {code for code, anchor in linked if code.lower() != anchor} == set()


NOT_FOR_USERS = {"key_hint", "state"}
"""Of a table, for other packages of this repository."""


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs/reference/api.md").read_text()
    shown = {*re.findall(r"^::: bucketfmt\.(\w+)$", page, re.MULTILINE)}
    public = {*bf.__all__} - {*bf.errors.__all__, "__version__"}
    assert public <= shown
    (members,) = re.findall(r"members: \[(.{100,})\]", page)
    methods = {name for name in dir(bf.Table) if not name.startswith("_")}
    assert methods - NOT_FOR_USERS == {*members.split(", ")}
