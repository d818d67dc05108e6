"""Fixtures every part of the suite shares."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.golden import expected, unpack


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Return the folder of a table real Hudi wrote. Shared by all tests: read only."""
    base = tmp_path_factory.getbasetemp()
    in_parallel = "PYTEST_XDIST_WORKER" in os.environ  # then the parent is shared by all workers
    into = (base.parent if in_parallel else base) / "golden"
    return lambda version, name: unpack(version, name, into) / name


@pytest.fixture(scope="session")
def golden_expected(
    golden: Callable[[str, str], Path],
) -> Callable[..., pa.Table]:
    """Return what Hudi itself read from that table."""

    def load(version: str, name: str, suffix: str = "") -> pa.Table:
        return expected(golden(version, name).parent, name, suffix)

    return load
