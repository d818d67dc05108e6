"""A proxy before a server of a storage protocol that fails as networks and servers do."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

__all__ = ["AZURE", "GCS", "S3", "FaultyProxy", "Protocol", "ServerFault", "faulty_proxy"]

STALL_S = 0.8
_ANSWER_BYTES_MAX = 64 << 20


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


@dataclass(frozen=True)
class Protocol:
    """How the requests of a storage protocol are told apart, and how a server says it failed.

    Attributes:
        listing: In the targets of listings.
        content: In the targets of reads of files, where a file may be asked for its state too.
        condition: In the target or the headers of a request on condition.
        without_newest: Takes the newest file out of the answer to a listing.
        error: The type and the text of an answer that is an error, by its code and name.
        refused: Code and name where a file is to be created and exists, unless as other conditions.
    """

    listing: re.Pattern[str]
    content: re.Pattern[str]
    condition: re.Pattern[str]
    without_newest: Callable[[bytes], bytes]
    error: Callable[[int, str], tuple[str, str]]
    refused: tuple[int, str] = _CODES[ServerFault.REFUSED_AFTER]

    def may_strike(self, fault: ServerFault, method: str, target: str) -> bool:
        """Whether a request may have the fault, conditions apart."""
        is_listing = method == "GET" and bool(self.listing.search(target))
        if fault is ServerFault.LATE_LISTING:
            return is_listing
        if fault is ServerFault.SHORT:  # nothing in other answers tells their length
            return method == "GET" and not is_listing and bool(self.content.search(target))
        if fault is ServerFault.TRUNCATED:
            return method == "GET"
        return True


def _as_xml(_code: int, name: str) -> tuple[str, str]:
    told = f"<Error><Code>{name}</Code><Message>struck</Message></Error>"
    return "application/xml", told


def _as_json(code: int, _name: str) -> tuple[str, str]:
    return "application/json", json.dumps({"error": {"code": code, "message": "struck"}})


def _without_newest_of_xml(name: str, modified: str, listing: bytes) -> bytes:
    """Take out the element of this name whose element `modified` has the last text."""
    every = rf"<{name}>(?:(?!</{name}>).)*<{modified}>([^<]*)<(?:(?!</{name}>).)*</{name}>"
    found = list(re.finditer(every.encode(), listing, re.DOTALL))
    if not found:
        return listing
    # Of those of one second, the last by name: a completed instant rather than its requested file.
    newest = max(found, key=lambda match: (match.group(1), match.start()))
    return listing.replace(newest.group(), b"")


def _without_newest_of_json(listing: bytes) -> bytes:
    told = json.loads(listing)
    items = told.get("items") or []
    newest = max(items, key=lambda item: item["updated"], default=None)
    return json.dumps({**told, "items": [item for item in items if item is not newest]}).encode()


_ANY = re.compile("")
S3 = Protocol(
    listing=re.compile("list-type"),
    content=_ANY,
    condition=re.compile("(?i)^if-", re.MULTILINE),
    without_newest=partial(_without_newest_of_xml, "Contents", "LastModified"),
    error=_as_xml,
)
GCS = Protocol(
    listing=re.compile(r"/b/[^/]+/o(\?|$)"),
    content=re.compile("alt=media"),
    condition=re.compile("ifGenerationMatch"),
    without_newest=_without_newest_of_json,
    error=_as_json,
)
AZURE = Protocol(
    listing=re.compile("comp=list(&|$)"),
    content=_ANY,
    condition=re.compile("(?i)^if-(none-)?match", re.MULTILINE),
    without_newest=partial(_without_newest_of_xml, "Blob", "Last-Modified"),
    error=_as_xml,
    refused=(409, "BlobAlreadyExists"),
)


class FaultyProxy:
    """Passes requests on, except for those that are struck.

    Attributes:
        protocol: Of the server.
        url: Where it listens.
        seen: The requests that the fault may strike, since `strike`.
        struck: The requests that were struck.
    """

    def __init__(self, backend: str, protocol: Protocol) -> None:
        self.protocol = protocol
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
            fault, protocol = self._fault, self.protocol
            may_strike = fault is not None and protocol.may_strike(fault, method, target)
            if not may_strike or (self._fault is ServerFault.REFUSED_AFTER and not is_conditional):
                return None
            told = f"{method} {target}"
            self.seen.append(told)
            if len(self.seen) != self._at and not (self._lasts and told in self.struck):
                return None
            self.struck.append(told)
            return self._fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has gone
            super().handle()

    def _handle(self) -> None:
        body = self._read_body()
        protocol = self.proxy.protocol
        is_conditional = bool(protocol.condition.search(f"{self.path}\n{self.headers}"))
        fault = self.proxy.find_fault(self.command, self.path, is_conditional=is_conditional)
        if fault is None:
            self._answer(*self._pass_on(body))
            return
        status, headers, content = (0, {}, b"") if fault in _UNDONE else self._pass_on(body)
        self.close_connection = True
        if fault in _CODES:
            code, name = _CODES[fault]
            if fault is ServerFault.REFUSED_AFTER and self.headers.get("if-none-match"):
                code, name = protocol.refused
            kind, told = protocol.error(code, name)
            headers = {"content-type": kind, "x-ms-error-code": name}
            self._answer(code, headers, told.encode())
        elif fault in (ServerFault.STALL_BEFORE, ServerFault.STALL_AFTER):
            time.sleep(STALL_S)
        elif fault is ServerFault.TRUNCATED:
            self._answer(status, headers, content, sent=len(content) // 2)
        elif fault is ServerFault.SHORT:
            self._answer(status, headers, content[: len(content) // 2])
        elif fault is ServerFault.LATE_LISTING:
            self._answer(status, headers, protocol.without_newest(content))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _handle  # noqa: N815

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


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def faulty_proxy(backend: str, protocol: Protocol = S3) -> Iterator[FaultyProxy]:
    """Run a proxy before the server at this URL."""
    proxy = FaultyProxy(backend, protocol)
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
