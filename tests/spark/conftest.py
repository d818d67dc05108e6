"""The Spark session these tests share.

A JVM takes seconds to start and a gigabyte to run, so all tests share one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

_PRELOAD = Path(__file__).parent / "preload"
_QUICK_START = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # Small queries: to compile them takes longer than to run them as they are.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",  # plans stay as a test reads them
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    # A short life: no time to compile.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A classic session on two cores of this machine. Shared: a test that sets a conf unsets it."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.fail(
            "no Java on this machine, and tests/spark run Spark: install a JDK 17 (Debian: "
            "apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set "
            "JAVA_HOME; the rest of the suite runs without: pytest --ignore tests/spark",
            pytrace=False,
        )
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(_PRELOAD), os.environ.get("PYTHONPATH")])
    )
    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("bucketfmt tests")
    for key, value in _QUICK_START.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(folder / "local"))
    session = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have xdist run all tests of the shared session in one process."""
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark"))
