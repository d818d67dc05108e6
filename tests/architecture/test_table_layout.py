"""Paths of a table's own files are spelled in one module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_layers import nodes_of, tree_of

ROOT = Path(__file__).parents[2]
LAYOUT = ROOT / "bucketfmt/format/names/layout.py"
MODULES = [
    path
    for package in ("bucketfmt", "bucketfmt_spark")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path != LAYOUT
]
OWN_NAME = re.compile(
    r"(^|/)\.(hoodie|bucket_index|heartbeat|locks|temp|aux|schema)\b"
    r"|(?<=.)hoodie\.properties|hoodie\.properties(?=.)|\.hashing_(meta|config)|consistent_hashing_metadata"
    r"|partition_bucket_index_meta|table_lock\.json|hoodie_partition_metadata"
    r"|^_version_$|^manifest_|\.commits_\.archive|^mergeArchivePlan$"
)


def spelled_paths(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the literals that are such a path or a piece of one.

    Prose has spaces; `hoodie.properties` alone is how errors name the file.
    """
    for node in nodes_of(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if OWN_NAME.search(node.value) and not re.search(r"\s", node.value):
            yield node.lineno, node.value


def test_paths_of_the_tables_own_files_are_spelled_in_one_module() -> None:
    spelled = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path in MODULES
        for line, text in spelled_paths(tree_of(path))
    ]
    assert not spelled, "take these from bucketfmt.format.names.layout"


@pytest.mark.parametrize(
    "code",
    [
        'x = ".hoodie"',
        'x = f"{root}/.hoodie/lock"',
        'x = ".hoodie/hoodie.properties.backup"',
        'x = name.endswith(".hashing_config")',
        'x = folder + "/.bucket_index"',
    ],
)
def test_a_spelled_path_is_found(code: str) -> None:
    assert list(spelled_paths(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        'raise E("give the folder above .hoodie")',
        'x = "hoodie.table.create.schema"',
        'what = "hoodie.properties"',
    ],
)
def test_prose_and_property_names_are_no_paths(code: str) -> None:
    assert not list(spelled_paths(ast.parse(code)))
