"""Every finding of the catalogue is planted by some test, and explained."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bucketfmt.check.catalogue import CATALOGUE, FindingKind

_PLANTING = re.compile(r"test_([a-z][0-9]{3})_")


def planted_ids() -> set[str]:
    """What tests are named after: `test_b001_...` plants B001."""
    planted = set()
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (found := _PLANTING.match(node.name)):
                planted.add(found[1].upper())
    return planted


def test_every_finding_is_planted_by_a_test() -> None:
    assert planted_ids() == set(CATALOGUE)


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.id)
def test_a_finding_is_explained(kind: FindingKind) -> None:
    for text in (kind.cause, kind.fix, kind.evidence):
        assert text.endswith(".")
        assert len(text) > 9
    assert re.search(r"#\d+|hudi-cli", kind.issues)
    assert not kind.title.endswith(".")
