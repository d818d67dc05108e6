"""Fixtures every part of the suite shares."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.golden import expected, unpack

# Ignored in a background job, and then by the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.costs", "tests.rotation"]

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 << 30
"""What the temporary folders of a run may need: some, since passed tests leave nothing."""


def pytest_configure() -> None:
    """Have temporary folders in memory, if there is room: a disk is waited for at each sync."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        room = os.statvfs(_MEMORY)
        if room.f_bavail * room.f_frsize >= _ROOM_BYTES:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail where xdist was to group tests and has not: every process would start every JVM."""
    is_grouped = item.get_closest_marker("xdist_group") is None or "@" in item.nodeid
    if getattr(item.config.option, "loadgroup", False) and not is_grouped:
        told = f"xdist does not group tests with pytest {pytest.__version__}: run `make setup`"
        pytest.fail(told, pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Drop the tables at `memory://`: that file system looks at all its files for one answer."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


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


@pytest.fixture
def golden_copy(golden: Callable[[str, str], Path], tmp_path: Path) -> Callable[[str, str], Path]:
    """Return the folder of a copy of such a table, for the test to change."""

    def copy(version: str, name: str) -> Path:
        return shutil.copytree(golden(version, name), tmp_path / version / name)

    return copy


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, Any]]:
    """Return the options that reach an S3 of our own, on a free port of this machine.

    It has one bucket, `tables`.
    """
    pytest.importorskip("moto.server")
    from soak.own_s3 import own_s3  # not every environment has moto

    with own_s3() as options:
        yield options
