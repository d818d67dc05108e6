"""A Spark cluster on this machine: a master and two workers, processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

_START_S = 300  # on a machine that has much else to do


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a cluster with two workers, each of room for two executors."""
    folder = tmp_path_factory.mktemp("cluster")
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    started = [start(folder, "master", "--host", "127.0.0.1", "--port", port, "--webui-port", page)]
    try:
        for number in (1, 2):
            own = ("--host", "127.0.0.1", "--webui-port", 0, "--cores", 2, "--memory", "1200m")
            work = ("--work-dir", folder / f"work-{number}")
            started.append(start(folder, f"worker-{number}", *own, *work, url))
        wait_for_workers(f"http://127.0.0.1:{page}/json/", folder)
        yield url
    finally:
        for process in started[::-1]:
            os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            process.wait(30)


def start(folder: Path, name: str, *arguments: object) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    kind = {"m": "master.Master", "w": "worker.Worker"}[name[0]]
    command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{kind}"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / f"{name}.log").open("w") as log:
        return subprocess.Popen(
            [*command, *map(str, arguments)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_for_workers(page: str, folder: Path) -> None:
    last = ""
    for _ in range(_START_S * 2):
        time.sleep(0.5)
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:
                last = answer.read().decode()
        except OSError as error:
            last = str(error)
        if '"aliveworkers" : 2' in last:
            return
    logs = "".join(log.read_text()[-2000:] for log in folder.glob("*.log"))
    pytest.fail(f"the cluster does not start: {last[-500:]}\n{logs}", pytrace=False)
