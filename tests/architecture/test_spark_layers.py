"""The Spark package keeps to the public names of the core, and runs nothing that data names."""

from __future__ import annotations

import ast
from pathlib import Path

import bucketfmt

PACKAGE = Path(__file__).parents[2] / "bucketfmt_spark"
MODULES = sorted(PACKAGE.rglob("*.py"))
NEVER = {"pickle", "cloudpickle", "marshal", "shelve", "ctypes", "subprocess"}
EVALUATING = {"eval", "exec", "__import__"}
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


TREES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in MODULES}


def imported_modules(tree: ast.AST) -> set[str]:
    """The modules a module imports, by their whole names; a relative import begins with a dot."""
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add("." * node.level + (node.module or ""))
    return modules


def test_it_imports_public_names_of_the_core_only() -> None:
    assert len(TREES) > 20
    imports = {name: imported_modules(tree) for name, tree in TREES.items()}
    assert {
        name: module
        for name, modules in imports.items()
        for module in modules
        if (module.startswith(("bucketfmt.", ".")) and module != "bucketfmt.choices")
        or module.split(".")[0] in NEVER
    } == {}
    public = {*bucketfmt.__all__, "__all__"}
    used = {name: names_of(tree, "bucketfmt") - public for name, tree in TREES.items()}
    assert {name: names for name, names in used.items() if names} == {}


def test_a_module_is_named_after_its_idea() -> None:
    assert not {path.name for path in MODULES} & DRAWERS


def test_it_has_no_eval_and_no_assert() -> None:
    wrong = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                wrong.append(f"{name}:{node.lineno} asserts")
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in EVALUATING:
                wrong.append(f"{name}:{node.lineno} calls {ast.unparse(node.func)}")
    assert wrong == []


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
