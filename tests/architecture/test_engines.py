"""Engines are asked about nowhere but where they are defined: others go by what they say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.test_layers import MODULES, PACKAGE, layer_of, nodes_of, tree_of

ENGINES = {
    "BloomIndex",
    "BucketIndex",
    "BucketLayout",
    "ConsistentHashingIndex",
    "DirectoryBuckets",
    "ExtendibleHashingIndex",
    "FixedBuckets",
    "GrowingBuckets",
    "Index",
    "MultiGroupBucketIndex",
    "PartitionBucketIndex",
    "RecordIndex",
    "RingBuckets",
    "SimpleBucketIndex",
}
LAYOUTS = {"DirectoryBuckets", "FixedBuckets", "GrowingBuckets", "RingBuckets"}
ASK_ENGINES = {
    "index/layout.py",
    "index/layout_codec.py",
    "index/model.py",
    "index/numbered_buckets.py",
    "index/resolve.py",
    "index/stored_buckets.py",
}
UNPROVED = {
    "check/partition.py",  # compares keys with what is stated, proved or not
    "check/placement/index_view.py",
    "index/model.py",
    "index/numbered_buckets.py",
    "index/stored_buckets.py",
    "location/find_index.py",  # for display
    "location/layouts.py",  # proves it
    "repair/buckets.py",  # moves rows to it
    "repair/rings.py",  # the ring that would prove it is lost
    "resize/migration/plan_migrate.py",  # plans the layout that rows are moved to
    "table/inspect.py",  # for display
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def names_in(node: ast.AST) -> frozenset[str]:
    named = [n for n in nodes_of(node) if isinstance(n, ast.Name | ast.Attribute)]
    return frozenset(n.id if isinstance(n, ast.Name) else n.attr for n in named)


def questions(tree: ast.AST) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield (line, names) of every place that asks for the class of a value."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                yield node.lineno, names_in(node.args[1])
        elif isinstance(node, ast.MatchClass):
            yield node.lineno, names_in(node.cls)
        elif isinstance(node, ast.Compare) and any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "type"
            for n in (node.left, *node.comparators)
        ):
            yield node.lineno, names_in(node)


def test_nobody_else_asks_which_engine_it_is() -> None:
    asked = [
        (name_of(path), line, names & ENGINES)
        for path in MODULES
        for line, names in questions(tree_of(path))
        if names & ENGINES and name_of(path) not in ASK_ENGINES
    ]
    assert asked == [], "make it a method or a property of the index or of its layout"


def test_questions_are_found() -> None:
    text = (
        "isinstance(a, b.RingBuckets | X)\nmatch a:\n  case FixedBuckets(): pass\ntype(a) is Index"
    )
    found = {line: names & ENGINES for line, names in questions(ast.parse(text))}
    assert found == {1: {"RingBuckets"}, 3: {"FixedBuckets"}, 4: {"Index"}}


def test_layouts_are_made_in_one_place() -> None:
    """Who is not named here gets layouts of `IndexFinder.layout`, which are proved."""
    makers = {
        name_of(path)
        for path in MODULES
        if layer_of(path) != "index" and names_in(tree_of(path)) & LAYOUTS
    }
    assert makers == set(), "`location.layouts` makes and proves layouts"
    unproved = {
        name_of(path)
        for path in MODULES
        if names_in(tree_of(path)) & {"unproved", "unproved_layout"}
    }
    assert unproved <= UNPROVED, "keys are looked for and stored by proved layouts only"
