"""The house keeps its own rules: who imports whom, and what is never used."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "bucketfmt"

LAYERS = [
    {"arguments", "choices", "errors", "extras", "facts"},
    {"limits", "process", "progress"},
    {"format"},
    {"texts"},
    {"rows"},
    {"storage"},
    {"timeline"},
    {"index"},
    {"snapshot"},
    {"slices"},
    {"metadata_table"},
    {"location"},
    {"table"},
    {"write"},
    {"resize"},
    {"check", "dump"},
    {"repair", "report"},
    {"api"},
    {"testing", "__init__"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# A column kernel works on Arrow's buffers; everything else in format/ knows bytes and text only.
ARROW_IN_FORMAT = {
    "bloom.py",
    "bloom_kernels.py",
    "entry_kernels.py",
    "hashing_kernels.py",
    "record_key_kernels.py",
    "reader.py",  # of HFiles
    "record_location_kernels.py",
    "secondary_key_kernels.py",
    "stored_entry_kernels.py",
}

IMPURE = {"time", "random", "logging", "secrets", "socket", "os", "pathlib", "threading"}
NEVER = {"pickle", "marshal", "shelve", "importlib", "ctypes", "subprocess", "pyspark"}
# What is imported on use, each by a table of literal names.
IMPORTS_BY_NAME = {"__init__.py", "cli/app.py"}
EVALUATING = {"eval", "exec", "__import__"}
DRAWERS = {"utils.py", "common.py", "helpers.py", "base.py", "misc.py"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """The nodes of a tree, listed once for all tests."""
    return list(ast.walk(tree))


def imported_modules(path: Path) -> set[str]:
    """The modules a module imports, by their whole names; a relative import begins with a dot."""
    modules: set[str] = set()
    for node in nodes_of(tree_of(path)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add("." * node.level + (node.module or ""))
    return modules


@cache
def all_imports() -> dict[Path, set[str]]:
    return {path: imported_modules(path) for path in MODULES}


@cache
def all_roots() -> dict[Path, set[str]]:
    return {
        path: {module.split(".")[0] for module in modules}
        for path, modules in all_imports().items()
    }


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_every_module_is_in_a_room_and_named_after_its_idea() -> None:
    assert len(MODULES) > 200
    assert [named(path) for path in MODULES if layer_of(path) not in RANK] == []
    assert [named(path) for path in MODULES if path.name in DRAWERS] == []


def test_rooms_import_rooms_before_them() -> None:
    wrong = []
    for path, modules in all_imports().items():
        layer = layer_of(path)
        for parts in (module.split(".") for module in modules):
            if parts[0] != "bucketfmt":
                continue
            imported = parts[1] if len(parts) > 1 else "__init__"
            if imported != layer and RANK[imported] >= RANK[layer]:
                wrong.append(f"{named(path)} imports {'.'.join(parts)}")
    assert wrong == []


def test_no_import_is_relative() -> None:
    assert [named(path) for path, roots in all_roots().items() if "" in roots] == []


def test_what_may_run_foreign_code_is_never_imported() -> None:
    found = {named(path): roots & NEVER for path, roots in all_roots().items() if roots & NEVER}
    assert found.keys() <= IMPORTS_BY_NAME, found
    assert all(names == {"importlib"} for names in found.values()), found


def test_fsspec_is_in_storage_only() -> None:
    assert [
        named(path)
        for path, roots in all_roots().items()
        if "fsspec" in roots and layer_of(path) != "storage"
    ] == []


def test_format_decodes_bytes_without_arrow() -> None:
    found = {
        path.name
        for path in MODULES
        if layer_of(path) == "format" and "pyarrow" in all_roots()[path]
    }
    assert found <= ARROW_IN_FORMAT, found - ARROW_IN_FORMAT


def test_decisions_do_no_io_and_know_no_clock_and_no_chance() -> None:
    assert {
        named(path): roots & IMPURE
        for path, roots in all_roots().items()
        if layer_of(path) in ("format", "rows", "index") and roots & IMPURE
    } == {}


def test_assert_never_checks_input_and_nothing_is_evaluated() -> None:
    wrong = []
    for path in MODULES:
        for node in nodes_of(tree_of(path)):
            if isinstance(node, ast.Assert) and path.name != "store_contract.py":  # tests
                wrong.append(f"{named(path)}:{node.lineno} asserts")
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in EVALUATING:
                wrong.append(f"{named(path)}:{node.lineno} calls {ast.unparse(node.func)}")
    assert wrong == []


DECISIONS = [
    path
    for path in MODULES
    if path.name.startswith("plan_")
    or named(path)
    in {
        "snapshot/data_files/files.py",
        "snapshot/data_files/file_slices.py",
        "snapshot/data_files/written_files.py",
        "write/conflicts/find_conflicts.py",
        "write/undo/rollback_conflicts.py",
    }
]
CLOCKS = {"time", "random", "secrets", "uuid", "datetime"}
EFFECTS = {"Store", "TableState", "Snapshot", "InstantClock", "Machine", "Heartbeats"}


def reached(module: str, seen: set[str]) -> set[str]:
    """All modules of the package that a module imports, and that those import."""
    path = PACKAGE.parent / (module.replace(".", "/") + ".py")
    if module.startswith("bucketfmt.") and module not in seen and path.exists():
        seen.add(module)
        for imported in all_imports()[path]:
            reached(imported, seen)
    return seen


def test_decisions_reach_no_store_and_no_clock() -> None:
    assert len(DECISIONS) >= 14
    found = {}
    for path in DECISIONS:
        module = ".".join(("bucketfmt", *path.relative_to(PACKAGE).with_suffix("").parts))
        modules = reached(module, set())
        effects = {name for name in modules if name.startswith("bucketfmt.storage")}
        effects |= modules & {"bucketfmt.timeline.clock", "bucketfmt.timeline.machine"}
        found[named(path)] = effects | (all_roots()[path] & CLOCKS)
    assert {name: effects for name, effects in found.items() if effects} == {}


def test_decisions_take_values() -> None:
    """No parameter and no attribute is of a type that does I/O or tells the time."""
    found = []
    for path in DECISIONS:
        for node in nodes_of(tree_of(path)):
            if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
                names = {n.id for n in ast.walk(node.annotation) if isinstance(n, ast.Name)}
                found += [f"{named(path)}:{node.lineno}: {name}" for name in names & EFFECTS]
    assert found == []


def importers_of(name: str) -> list[str]:
    """The modules that import a function, or the module that has it, by name."""
    return [
        named(path)
        for path in MODULES
        for node in nodes_of(tree_of(path))
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}
    ]


def test_one_module_requests_and_publishes_instants() -> None:
    locked_table = "write/commit/locked_table.py"
    assert importers_of("put_requested") == [locked_table]
    assert importers_of("put_completed") == [locked_table]
    assert importers_of("transitions") == []
    # To set an instant inflight takes no lock: what is begun without it is named here.
    unlocked = ["write/commit/transactions.py", "write/services/cleaning.py"]
    assert sorted(importers_of("put_inflight")) == [locked_table, *unlocked]
