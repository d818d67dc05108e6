"""An object store on this machine whose requests take time, are counted, and are told.

`python -m benchmarks.remote.server` starts moto's S3 behind a proxy and prints the port of the
proxy. The proxy holds each request back for some time, as a network does, and tells when each
request came and when the answer had gone.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from soak.own_s3 import S3Server

__all__ = ["Request", "Requests", "Server", "serve"]

_CONTROL = "/-/"
_HEAD_BYTES_MAX = 1 << 20


class Request(NamedTuple):
    """One request: `kind` is its method, or LIST; times are in seconds."""

    kind: str
    path: str
    began: float
    ended: float


@dataclass(frozen=True)
class Requests:
    """The requests of one piece of work."""

    every: Sequence[Request]

    @property
    def depth(self) -> int:
        """The number of requests of the longest chain in which each began after another's end."""
        running: list[tuple[float, int]] = []  # (end, depth), the first to end first
        deepest = 0  # of those that ended
        for request in sorted(self.every, key=lambda request: request.began):
            while running and running[0][0] <= request.began:
                deepest = max(deepest, heapq.heappop(running)[1])
            heapq.heappush(running, (request.ended, deepest + 1))
        return max((depth for _, depth in running), default=0)

    def kinds(self) -> str:
        """Return how many requests of each kind there were, as text."""
        counts = Counter(request.kind for request in self.every)
        return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))


class Server:
    """The server, from a process that uses it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def set_delay(self, seconds: float) -> None:
        """Hold each request back for so long from now on."""
        self._ask(f"delay?seconds={seconds}")

    def take(self) -> Requests:
        """Return the requests since the last call."""
        return Requests([Request(*fields) for fields in self._ask("requests")])

    def _ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{_CONTROL}{what}") as answer:
            return json.load(answer)


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server in a process of its own."""
    starting = [sys.executable, "-m", "benchmarks.remote.server"]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(starting, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("the server has no output")
            yield Server(int(process.stdout.readline()))
        finally:
            process.terminate()


class _Proxy:
    """Passes requests on to a server that closes each connection, as moto's does."""

    def __init__(self, host: str, port: int) -> None:
        self._backend = host, port
        self._delay_s = 0.0
        self._told: list[Request] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._handle_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _handle_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, headers = _split_head(await reader.readuntil(b"\r\n\r\n"))
        method, target, _ = first.split(" ", 2)
        began = asyncio.get_running_loop().time()
        if target.startswith(_CONTROL):
            body = json.dumps(self._control(urlsplit(target))).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            return True
        if headers.pop("expect", None):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _read_body(reader, headers)
        await asyncio.sleep(self._delay_s)
        answer = await self._ask_backend(method, target, headers, body)
        self._told.append(
            Request(_kind(method, target), target, began, asyncio.get_running_loop().time())
        )
        writer.write(answer)
        await writer.drain()
        return True

    async def _ask_backend(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bytes:
        reader, writer = await asyncio.open_connection(*self._backend)
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{k}: {v}" for k, v in {**headers, "connection": "close"}.items()]
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        await writer.drain()
        answer = await reader.read()
        writer.close()
        head, _, content = answer.partition(b"\r\n\r\n")
        first, found = _split_head(head + b"\r\n\r\n")
        found.pop("connection", None)
        if method != "HEAD" and "transfer-encoding" not in found:
            found["content-length"] = str(len(content))
        lines = [first.replace("HTTP/1.0", "HTTP/1.1"), *(f"{k}: {v}" for k, v in found.items())]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content

    def _control(self, asked: Any) -> Any:
        if asked.path.endswith("/delay"):
            self._delay_s = float(parse_qs(asked.query)["seconds"][0])
            return None
        told, self._told = self._told, []
        return told


def _split_head(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    fields = (line.split(":", 1) for line in lines)
    return first, {name.strip().lower(): value.strip() for name, value in fields}


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    del headers["transfer-encoding"]
    body = b"".join(parts)
    headers["content-length"] = str(len(body))
    return body


def _kind(method: str, target: str) -> str:
    query = parse_qs(urlsplit(target).query, keep_blank_values=True)
    if method == "GET" and ("list-type" in query or "prefix" in query):
        return "LIST"
    return "DELETE" if method == "POST" and "delete" in query else method


async def _run() -> None:
    backend = S3Server()
    backend.start()
    proxy = _Proxy(*backend.get_host_and_port())
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_run())
