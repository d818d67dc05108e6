"""The Spark package keeps to the public names of the core, and runs nothing that data names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import bucketfmt

PACKAGE = Path(__file__).parents[2] / "bucketfmt_spark"
MODULES = sorted(PACKAGE.rglob("*.py"))
NEVER = {"pickle", "cloudpickle", "marshal", "shelve", "ctypes", "subprocess"}
DRAWERS = {"utils.py", "common.py", "helpers.py", "base.py", "misc.py"}


def names_of(tree: ast.AST, module: str) -> set[str]:
    """The attributes taken of a module by the names it is imported as."""
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == module
    }
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_it_imports_public_names_of_the_core_only(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names = [node.module or ""]
        for name in names:
            assert not name.startswith("bucketfmt."), f"line {node.lineno}: {name}"
            assert name.split(".")[0] not in NEVER, f"line {node.lineno}: {name}"
    used = names_of(tree, "bucketfmt")
    assert used <= {*bucketfmt.__all__, "__all__"}, used - set(bucketfmt.__all__)
    assert path.name not in DRAWERS, "a module is named after its idea"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_it_has_no_eval_and_no_assert(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: assert never checks input"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "__import__"), f"line {node.lineno}"


def test_it_is_imported_without_spark_4() -> None:
    """What only Spark 4 has is imported where it is used."""
    for path in MODULES:
        if path.stem in {"datasource", "stream_source", "write_source", "registering"}:
            continue
        modules = {
            node.module
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ImportFrom)
        }
        assert not {m for m in modules if m and m.endswith(("datasource", "stream_source"))}, path
