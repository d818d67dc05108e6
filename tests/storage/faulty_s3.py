"""A proxy before an S3 server that fails as networks and servers do."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

__all__ = ["FaultyProxy", "ServerFault", "faulty_proxy"]

STALL_S = 0.8
_ANSWER_BYTES_MAX = 64 << 20
_NEWEST = re.compile(rb"<Contents>(?:(?!</Contents>).)*</Contents>", re.DOTALL)
_MODIFIED = re.compile(rb"<LastModified>([^<]*)<")


class ServerFault(str, Enum):
    """What becomes of a request."""

    RESET_BEFORE = "the connection is closed, and nothing was done"
    RESET_AFTER = "it is done, and the connection is closed"
    STALL_BEFORE = "nothing is answered for long, and nothing was done"
    STALL_AFTER = "it is done, and nothing is answered for long"
    ERROR_BEFORE = "500, and nothing was done"
    ERROR_AFTER = "it is done, and the answer is 500"
    UNAVAILABLE = "503, and nothing was done"
    TOO_MANY = "429, and nothing was done"
    TRUNCATED = "half of the body comes, then the connection is closed"
    SHORT = "half of the body comes, and the answer says that this is all"
    LATE_LISTING = "a listing lacks the newest file"
    REFUSED_AFTER = "it is done, and the answer to the condition is 412"


_CODES = {
    ServerFault.ERROR_BEFORE: (500, "InternalError"),
    ServerFault.ERROR_AFTER: (500, "InternalError"),
    ServerFault.UNAVAILABLE: (503, "ServiceUnavailable"),
    ServerFault.TOO_MANY: (429, "TooManyRequests"),
    ServerFault.REFUSED_AFTER: (412, "PreconditionFailed"),
}
_UNDONE = {
    ServerFault.RESET_BEFORE,
    ServerFault.STALL_BEFORE,
    ServerFault.ERROR_BEFORE,
    ServerFault.UNAVAILABLE,
    ServerFault.TOO_MANY,
}


class FaultyProxy:
    """Passes requests on, except for those that are struck.

    Attributes:
        url: Where it listens.
        seen: The requests that the fault may strike, since `strike`.
        struck: The requests that were struck.
    """

    def __init__(self, backend: str) -> None:
        self.backend = urlsplit(backend).netloc
        self.url = ""
        self.seen: list[str] = []
        self.struck: list[str] = []
        self._guard = threading.Lock()
        self._fault: ServerFault | None = None
        self._at, self._lasts = 0, False

    def strike(self, at: int, fault: ServerFault | None, *, lasts: bool = False) -> None:
        """Strike one request from now on, and if the fault `lasts` all that repeat the request.

        Args:
            at: Its number among those that the fault may strike, from 1.
            fault: What becomes of it; None: nothing is struck.
            lasts: See above.
        """
        with self._guard:
            self._fault, self._at, self._lasts = fault, at, lasts
            self.seen, self.struck = [], []

    def find_fault(self, method: str, target: str, *, is_conditional: bool) -> ServerFault | None:
        """Count a request, and return what becomes of it."""
        with self._guard:
            may_strike = self._fault is not None and _may_strike(self._fault, method, target)
            if not may_strike or (self._fault is ServerFault.REFUSED_AFTER and not is_conditional):
                return None
            told = f"{method} {target}"
            self.seen.append(told)
            if len(self.seen) != self._at and not (self._lasts and told in self.struck):
                return None
            self.struck.append(told)
            return self._fault


def _may_strike(fault: ServerFault, method: str, target: str) -> bool:
    is_listing = "list-type" in target
    if fault is ServerFault.LATE_LISTING:
        return is_listing
    if fault is ServerFault.SHORT:
        return method == "GET" and not is_listing  # nothing in a listing tells its length
    if fault is ServerFault.TRUNCATED:
        return method == "GET"
    return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has gone
            super().handle()

    def _handle(self) -> None:
        body = self._read_body()
        fault = self.proxy.find_fault(
            self.command, self.path, is_conditional="if-" in str(self.headers).lower()
        )
        if fault is None:
            self._answer(*self._pass_on(body))
            return
        status, headers, content = (0, {}, b"") if fault in _UNDONE else self._pass_on(body)
        self.close_connection = True
        if fault in _CODES:
            code, name = _CODES[fault]
            told = f"<Error><Code>{name}</Code><Message>struck</Message></Error>".encode()
            self._answer(code, {"content-type": "application/xml"}, told)
        elif fault in (ServerFault.STALL_BEFORE, ServerFault.STALL_AFTER):
            time.sleep(STALL_S)
        elif fault is ServerFault.TRUNCATED:
            self._answer(status, headers, content, sent=len(content) // 2)
        elif fault is ServerFault.SHORT:
            self._answer(status, headers, content[: len(content) // 2])
        elif fault is ServerFault.LATE_LISTING:
            self._answer(status, headers, _without_newest(content))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        del self.headers["transfer-encoding"]
        return b"".join(parts)

    def _pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        backend = http.client.HTTPConnection(self.proxy.backend)
        try:
            left_out = ("expect", "content-length", "connection")
            given = {k: v for k, v in self.headers.items() if k.lower() not in left_out}
            backend.request(self.command, self.path, body, given)
            answer = backend.getresponse()
            headers = {k.lower(): v for k, v in answer.getheaders()}
            return answer.status, headers, answer.read(_ANSWER_BYTES_MAX)
        finally:
            backend.close()

    def _answer(
        self, status: int, headers: dict[str, str], content: bytes, sent: int | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        length = headers.get("content-length", "0") if is_head else str(len(content))
        self.send_header("content-length", length)
        self.end_headers()
        if not is_head:
            self.wfile.write(content[:sent])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _without_newest(listing: bytes) -> bytes:
    found = [match.group() for match in _NEWEST.finditer(listing)]
    if not found:
        return listing

    def modified(entry: bytes) -> bytes:
        match = _MODIFIED.search(entry)
        return match.group(1) if match else b""

    return listing.replace(max(found, key=modified), b"")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def faulty_proxy(backend: str) -> Iterator[FaultyProxy]:
    """Run a proxy before the server at this URL."""
    proxy = FaultyProxy(backend)
    handler: Callable[..., _Handler] = type("Handler", (_Handler,), {"proxy": proxy})
    with _Server(("127.0.0.1", 0), handler) as server:
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
