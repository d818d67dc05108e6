"""The examples of docstrings and of the README run, and give what they say they give."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf

ROOT = Path(__file__).parents[2]
TRIPS = pa.table({"id": ["t1", "t2"], "city": ["sf", "ny"], "ts": [1, 1], "fare": [10.5, 7.25]})
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "bucketfmt").rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE) and "demo" not in path.stem
]


class _Checker(doctest.OutputChecker):
    """Takes whatever an example gives that does not say what it gives."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def run(tests: list[doctest.DocTest]) -> int:
    """Run examples; return how many were run."""
    runner = doctest.DocTestRunner(_Checker(), optionflags=doctest.ELLIPSIS, verbose=False)
    told: list[str] = []
    for test in tests:
        runner.run(test, out=told.append)
    assert not runner.failures, "".join(told)
    return runner.tries


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A table at warehouse/trips, and the names that examples take for granted."""
    monkeypatch.chdir(tmp_path)
    table = bf.create(
        "warehouse/trips",
        schema=TRIPS.schema,
        record_key=["id"],
        partition_by=["city"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type="MERGE_ON_READ",
    )
    for _ in range(2):  # base files, and log files that a compaction takes
        table.upsert(TRIPS)
    return {"bf": bf, "t": table, "rows": TRIPS, "schema": TRIPS.schema, "receipts": []}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, trips: dict[str, Any]) -> None:
    found = doctest.DocTestFinder().find(importlib.import_module(name), globs=trips)
    assert run([test for test in found if test.examples])


def examples_of_readme() -> list[str]:
    blocks = re.findall(r"```python\n(>>> .*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [block for block in blocks if "spark" not in block]


def test_readme_reads(
    golden_copy: Callable[[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, _ = examples_of_readme()
    (tmp_path / "warehouse").mkdir()
    golden_copy("1.2.0", "mor").rename(tmp_path / "warehouse/trips")
    monkeypatch.chdir(tmp_path)
    assert run([doctest.DocTestParser().get_doctest(text, {}, "README.md", None, 0)]) >= 6


def test_readme_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = examples_of_readme()
    monkeypatch.chdir(tmp_path)
    assert run([doctest.DocTestParser().get_doctest(text, {}, "README.md", None, 0)]) >= 6


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks(notebook: Path) -> None:
    """Every cell runs, and its last value can be shown."""
    cells = json.loads(notebook.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for cell in code:
        tree = ast.parse("".join(cell["source"]))
        if "spark" in cell["metadata"].get("tags", ()):
            continue  # parsed only: a session of Spark takes ten seconds
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, notebook.name, "exec"), names)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), notebook.name, "eval"), names)
            assert "object at 0x" not in repr(shown)
    assert len(code) >= 10


def test_an_example_that_gives_something_else_fails() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    with pytest.raises(AssertionError, match="Expected"):
        run([wrong])
