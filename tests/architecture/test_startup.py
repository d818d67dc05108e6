"""What starting imports: each dependency when it is first used, and nothing that is optional."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt

ROOT = Path(__file__).parents[2]
ON_USE = [
    "duckdb",
    "fastavro",
    "fsspec",
    "jinja2",
    "pandas",
    "polars",
    "pyarrow.parquet",
    "pyspark",
    "pytest",
    "rich",
    "s3fs",
    "typer",
]
"""Modules that take long to import and that most programs use some of."""


def imported_by(code: str) -> set[str]:
    """Run `code` in an interpreter of its own; return which modules of `ON_USE` it imported."""
    code += f"\nimport sys\nprint(*filter(sys.modules.get, {ON_USE}), file=sys.stderr)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return set(run.stderr.split())


def test_importing_the_tools_for_tests() -> None:
    assert imported_by("import bucketfmt.testing") == set()
    assert "pytest" in imported_by("from bucketfmt.testing import StoreContract")


def test_importing_every_public_name_and_opening_a_local_table(tmp_path: Path) -> None:
    index = bucketfmt.SimpleBucketIndex(4)
    schema = pa.schema({"id": pa.string()})
    bucketfmt.create(tmp_path, schema=schema, record_key=["id"], index=index)
    code = f"from bucketfmt import *\nt = open({str(tmp_path)!r})\nt.timeline, t.index, t.config"
    assert imported_by(code) == set()


def test_pandas_that_cannot_be_imported() -> None:
    code = "import sys\nsys.modules['pandas'] = None\nfrom bucketfmt import *"
    assert imported_by(code) == set()


def test_an_url_imports_fsspec() -> None:
    """The other side: a module that is listed here under a wrong name would never be found."""
    assert "fsspec" in imported_by("import bucketfmt.storage.stores.fsspec_store")


class TestPublicNames:
    def test_each_has_its_module(self) -> None:
        assert [*sorted(bucketfmt._MODULES), "__version__"] == sorted(
            bucketfmt.__all__, key=lambda name: (name == "__version__", name)
        )

    def test_type_checkers_see_what_is_imported(self) -> None:
        seen = {}
        for node in ast.walk(ast.parse((ROOT / "bucketfmt/__init__.py").read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("bucketfmt."):
                seen.update({alias.name: node.module for alias in node.names})
        assert seen == bucketfmt._MODULES

    @pytest.mark.parametrize("name", bucketfmt.__all__)
    def test_each_is_there(self, name: str) -> None:
        assert getattr(bucketfmt, name) is not None

    def test_dir_lists_them(self) -> None:
        assert dir(bucketfmt) == sorted(bucketfmt.__all__)

    def test_there_are_no_others(self) -> None:
        with pytest.raises(AttributeError, match="module 'bucketfmt' has no attribute 'opn'"):
            bucketfmt.opn  # noqa: B018
