"""The house keeps its own rules: who imports whom, and what is never used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "bucketfmt"

LAYERS = [
    {"arguments", "errors"},
    {"limits", "process", "progress"},
    {"format"},
    {"rows"},
    {"storage"},
    {"timeline"},
    {"index"},
    {"snapshot"},
    {"slices"},
    {"location"},
    {"table"},
    {"write"},
    {"check", "dump"},
    {"api"},
    {"testing", "__init__"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# A column kernel works on Arrow's buffers; everything else in format/ knows bytes and text only.
ARROW_IN_FORMAT = {"hashing_kernels.py", "record_key_kernels.py", "bloom.py", "bloom_kernels.py"}

IMPURE = {"time", "random", "logging", "secrets", "socket", "os", "pathlib", "threading"}
NEVER = {"pickle", "marshal", "shelve", "importlib", "ctypes", "subprocess", "pyspark"}
# What is imported on use, each by a table of literal names.
IMPORTS_BY_NAME = {"__init__.py", "cli/app.py"}
DRAWERS = {"utils.py", "common.py", "helpers.py", "base.py", "misc.py"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_modules(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules.add(node.module or "")
    return modules


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_module_keeps_the_house_rules(path: Path) -> None:
    layer, modules = layer_of(path), imported_modules(path)
    roots = {module.split(".")[0] for module in modules}

    assert path.name not in DRAWERS, "a module is named after its idea"
    assert layer in RANK, f"no place in the house for {layer}"
    for module in modules:
        parts = module.split(".")
        if parts[0] == "bucketfmt":
            imported = parts[1] if len(parts) > 1 else "__init__"
            if imported == layer:
                continue
            assert RANK[imported] < RANK[layer], f"{layer} imports {imported}: only leftwards"
    by_name = str(path.relative_to(PACKAGE)) in IMPORTS_BY_NAME
    assert not roots & (NEVER - {"importlib"} if by_name else NEVER)
    if "fsspec" in roots:
        assert layer == "storage", "fsspec appears in storage/ only"
    if "pyarrow" in roots and layer == "format":
        assert path.name in ARROW_IN_FORMAT, "format/ decodes bytes without Arrow"
    if layer in ("format", "rows", "index"):
        assert not roots & IMPURE, "no I/O, clock or randomness where decisions are made"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_module_has_no_eval_and_no_assert(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: assert never checks input"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "__import__"), f"line {node.lineno}"


PURE_MODULES = [
    path
    for path in MODULES
    if path.parent.name in {"table", "snapshot", "commit"}
    and (
        path.name.startswith("plan_")
        or path.stem in {"files", "file_slices", "written_files", "conflicts"}
    )
]


@pytest.mark.parametrize("path", PURE_MODULES, ids=lambda p: p.stem)
def test_decisions_never_take_a_store(path: Path) -> None:
    assert not any(module.startswith("bucketfmt.storage") for module in imported_modules(path))
