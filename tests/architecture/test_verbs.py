"""The verb of a function tells whether it does I/O (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import bucketfmt

PACKAGE = Path(bucketfmt.__file__).parent
PURE = ("encode_", "decode_", "parse_", "format_", "plan_", "find_")
STORES = {"Store", "LockedTable", "LockableTable"}
CHOOSES = {"find_lister"}  # how the store will be listed, and lists nothing


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                yield path.relative_to(PACKAGE).as_posix(), node


def test_what_is_named_as_pure_takes_no_store() -> None:
    found = [
        f"{module}: {function.name}"
        for module, function in functions()
        if function.name.startswith(PURE) and function.name not in CHOOSES
        for argument in [*function.args.args, *function.args.kwonlyargs]
        if argument.annotation is not None and ast.unparse(argument.annotation) in STORES
    ]
    assert found == []
