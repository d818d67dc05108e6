"""Pages name modules and functions that exist; the figures of architecture.md show its text."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
NAMED = re.compile(r"`([\w/]+\.py)`(?:\s+`([A-Za-z_.]+)`)?")


def defined_names(path: Path) -> set[str]:
    """Return the functions and classes of a module, and `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{own.name}" for own in node.body if isinstance(own, ast.FunctionDef)
            }
    return found


def test_modules_and_functions_exist() -> None:
    assert len(NAMED.findall(PAGE)) > 30
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = [(page, *found) for page in pages for found in NAMED.findall(page.read_text())]
    for page, path, function in named:
        here, inside = ROOT / path, ROOT / "bucketfmt" / path
        module = here if here.exists() else inside
        assert module.exists(), f"{page.name} names {path}"
        if function:
            assert function in defined_names(module), f"{page.name} names {function} of {path}"


def test_every_room_is_on_the_page() -> None:
    rooms = {path.parent.name for path in (ROOT / "bucketfmt").glob("*/__init__.py")}
    assert {room for room in rooms if f"| `{room}/` |" not in PAGE} == set()


def test_figures_are_those_of_the_script() -> None:
    drawn = runpy.run_path(str(ROOT / "docs/figures.py"))
    for name, draw in drawn["FIGURES"].items():
        committed = (ROOT / "docs/figures" / f"{name}.svg").read_text()
        assert committed == draw(), "run `python docs/figures.py`"


def test_figures_show_what_the_text_names() -> None:
    drawn = runpy.run_path(str(ROOT / "docs/figures.py"))
    ways = PAGE.split("\n## The way of ")[1:]
    for way, text in zip(("READ", "WRITE", "SPARK_WRITE"), ways, strict=True):
        said = re.findall(r"^\d+\. (.*(?:\n {3,}.*)*)", text, re.MULTILINE)
        for step, sentences in zip(drawn[way], said, strict=True):
            assert step.function in sentences


def test_figures_show_the_rooms() -> None:
    drawn = runpy.run_path(str(ROOT / "docs/figures.py"))
    names = {name for room in drawn["ROOMS"] for name in room.name.split(", ")}
    rooms = {path.parent.name for path in (ROOT / "bucketfmt").glob("*/__init__.py")}
    assert rooms <= names
    for room in drawn["ROOMS"]:
        first = room.name.partition(",")[0]
        folder = ROOT / first if first == "bucketfmt_spark" else ROOT / "bucketfmt" / first
        inner = {path.parent.name for path in folder.glob("*/__init__.py")}
        assert set(room.rooms) <= inner, room.name
        assert not inner - set(room.rooms) - {"commands"}, room.name


def test_no_page_has_marks_of_a_merge() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "spec").glob("*.md")]
    marks = ("<<<<<<< ", ">>>>>>> ")
    marked = [
        p.name for p in pages for line in p.read_text().splitlines() if line.startswith(marks)
    ]
    assert len(pages) > 40
    assert marked == []
