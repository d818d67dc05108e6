"""Servers of storage protocols, each started on a free port of 127.0.0.1 and stopped afterwards.

`make stores-setup` fetches the programs. None of them is the service of a cloud.
"""

from __future__ import annotations

import base64
import http
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from soak.own_s3 import own_s3

__all__ = ["S3PROXY_WHY", "SERVERS", "Place", "run_hdfs"]

S3PROXY_WHY = "S3Proxy 3.0.0 compares first and puts later: two writers succeed at times"
"""Why tests of one winner may fail on S3Proxy."""

_PROGRAMS = Path(__file__).parents[2] / ".stores"
_START_S = 300
_STOP_S = 30
_BUCKET = "tables"
_S3_KEY = "testing"


@dataclass(frozen=True)
class Place:
    """Where tables of a server are.

    Attributes:
        root: The URL below which tables go.
        options: As of `storage_options`.
        hadoop: The same place as Hudi reaches it, where that is another URL.
    """

    root: str
    options: Mapping[str, Any]
    hadoop: str = ""

    def new_uri(self) -> str:
        """Return the URL of a folder that nobody has used."""
        return f"{self.root}/{uuid.uuid4().hex}/trips"


def _find(*parts: str) -> Path:
    """Return a program that `make stores-setup` made, or skip the test."""
    program = _PROGRAMS.joinpath(*parts)
    if not program.exists():
        pytest.skip(f"there is no {program.relative_to(_PROGRAMS.parent)}: run `make stores-setup`")
    return program


def _command(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on the path")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _run(command: list[str], folder: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that ends with its standard input, or is stopped."""
    with Path(folder, "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environment},
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], folder: str, is_ready: Callable[[], bool]) -> None:
    until = time.monotonic() + _START_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > until:
            told = Path(folder, "log").read_text(errors="replace")[-4000:]
            pytest.fail(f"{process.args} did not start: {told}", pytrace=False)
        time.sleep(0.1)


def _answers(url: str) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    return ask


@contextmanager
def _moto() -> Iterator[Place]:
    """S3 by moto, of PyPI."""
    with own_s3(_BUCKET) as options:
        yield Place(f"s3://{_BUCKET}", options)


@contextmanager
def _s3proxy() -> Iterator[Place]:
    """S3 by S3Proxy, of Maven, over a folder."""
    jars, java = _find("s3proxy", "jars"), _command("java")
    url = f"http://127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.endpoint": url,
            "s3proxy.ignore-unknown-headers": "true",
            "s3proxy.identity": _S3_KEY,
            "s3proxy.credential": _S3_KEY,
            "jclouds.provider": "transient-nio2",
            "jclouds.identity": "any",
            "jclouds.credential": "any",
            "jclouds.filesystem.basedir": f"{folder}/buckets",
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        Path(folder, "properties").write_text(text)
        Path(folder, "buckets").mkdir()
        command = [java, "-Xmx512m", "-cp", f"{jars}/*", "org.gaul.s3proxy.Main"]
        with _run([*command, "--properties", f"{folder}/properties"], folder) as process:
            _await(process, folder, _answers(url))
            yield _s3_place(url)


@contextmanager
def _versitygw() -> Iterator[Place]:
    """S3 by Versity S3 Gateway, of Go, over a folder. Its own conditional puts are atomic."""
    server, address = _find("bin", "versitygw"), f"127.0.0.1:{_free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "buckets").mkdir()
        keys = ["--access", _S3_KEY, "--secret", _S3_KEY]
        command = [str(server), "--quiet", "--port", address, *keys, "posix", f"{folder}/buckets"]
        with _run(command, folder) as process:
            _await(process, folder, _answers(f"http://{address}"))
            yield _s3_place(f"http://{address}")


def _s3_place(url: str) -> Place:
    """Make the bucket of a server of S3 that takes our keys."""
    import s3fs

    options = {
        "endpoint_url": url,
        "key": _S3_KEY,
        "secret": _S3_KEY,
        "client_kwargs": {"region_name": "us-east-1"},
    }
    s3fs.S3FileSystem(**options).call_s3("create_bucket", Bucket=_BUCKET)
    return Place(f"s3://{_BUCKET}", options)


@contextmanager
def _gcs() -> Iterator[Place]:
    """Google Cloud Storage by fake-gcs-server, in memory."""
    # Or gcsfs asks a server that only Google has for the kind of each bucket, for a minute.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    gcsfs = pytest.importorskip("gcsfs")
    server, port = _find("bin", "fake-gcs-server"), _free_port()
    url = f"http://127.0.0.1:{port}"
    address = ["-scheme", "http", "-host", "127.0.0.1", "-port", f"{port}"]
    told = ["-external-url", url, "-public-host", f"127.0.0.1:{port}", "-log-level", "warn"]
    with (
        tempfile.TemporaryDirectory() as folder,
        _run([str(server), "-backend", "memory", *address, *told], folder) as process,
    ):
        _await(process, folder, _answers(f"{url}/storage/v1/b"))
        options = {"endpoint_url": url, "token": "anon", "project": "tests"}
        gcsfs.GCSFileSystem(**options).mkdir(_BUCKET)
        yield Place(f"gs://{_BUCKET}", options)


_ACCOUNT, _KEY = "tests", base64.b64encode(b"tests").decode()


@contextmanager
def _azure() -> Iterator[Place]:
    """Azure Blob Storage by Azurite, of npm, in memory."""
    adlfs = pytest.importorskip("adlfs")
    node, port = _command("node"), _free_port()
    server = _find("azurite", "node_modules", "azurite", "dist", "src", "blob", "main.js")
    with tempfile.TemporaryDirectory() as folder:
        command = [node, str(server), "--blobPort", f"{port}", "--silent"]
        quiet = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
        accounts = f"{_ACCOUNT}:{_KEY}"
        with _run([*command, *quiet], folder, AZURITE_ACCOUNTS=accounts) as process:
            url = f"http://127.0.0.1:{port}/{_ACCOUNT}"
            _await(process, folder, _answers(url))
            told = f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};"
            options = {"connection_string": f"{told}BlobEndpoint={url};"}
            adlfs.AzureBlobFileSystem(**options).mkdir(_BUCKET)
            yield Place(f"az://{_BUCKET}", options)


@contextmanager
def run_hdfs() -> Iterator[Place]:
    """HDFS by Hadoop's mini cluster, of Maven, with one data node."""
    jars, java = _find("hdfs", "jars"), _command("java")
    port, rpc_port = _free_port(), _free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [java, "-Xmx512m", f"-Dtest.build.data={folder}/data", "-cp", f"{jars}/*"]
        cluster = ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"]
        ports = ["-httpport", f"{port}", "-nnport", f"{rpc_port}"]
        settings = [*ports, "-D", "dfs.permissions.enabled=false"]
        with _run([*command, *cluster, *settings], folder) as process:
            # Names a data node for the file once there is one; the name node listens before.
            url = f"http://127.0.0.1:{port}/webhdfs/v1/f?op=CREATE&noredirect=true&user.name=tests"
            _await(process, folder, _is_ok(urllib.request.Request(url, method="PUT")))
            yield Place(
                f"webhdfs://127.0.0.1:{port}", {"user": "tests"}, f"hdfs://127.0.0.1:{rpc_port}"
            )


def _is_ok(request: urllib.request.Request) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return bool(answer.status == http.HTTPStatus.OK)
        except OSError:
            return False

    return ask


SERVERS: Mapping[str, Callable[[], AbstractContextManager[Place]]] = {
    "moto": _moto,
    "s3proxy": _s3proxy,
    "versitygw": _versitygw,
    "fake-gcs-server": _gcs,
    "azurite": _azure,
    "hdfs": run_hdfs,
}
"""How each server is started."""
