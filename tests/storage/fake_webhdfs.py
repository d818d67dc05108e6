"""A server of WebHDFS for a local folder: name node and data node in one, to be read."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

__all__ = ["fake_webhdfs"]

_PREFIX = "/webhdfs/v1"
_DATA = "/data"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        given = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path.startswith(_DATA):
            begin = int(given["offset"])
            content = (self.root / unquote(url.path[len(_DATA) + 1 :])).read_bytes()
            self._answer(200, content[begin : begin + int(given["length"])])
            return
        path = self.root / unquote(url.path[len(_PREFIX) + 1 :])
        if not path.exists():
            told = {"exception": "FileNotFoundException", "message": f"no {path.name}"}
            self._answer(404, json.dumps({"RemoteException": told}).encode())
        elif given["op"] == "OPEN":
            place = f"{_DATA}{quote(url.path[len(_PREFIX) :])}"
            at = f"http://{self.headers['host']}{place}?op=OPEN&{url.query}"
            self._answer(307, b"", location=at)
        elif given["op"] == "GETFILESTATUS":
            self._answer(200, json.dumps({"FileStatus": _status(path, "")}).encode())
        else:
            entries = [_status(entry, entry.name) for entry in sorted(path.iterdir())]
            told = {"FileStatuses": {"FileStatus": entries}}
            self._answer(200, json.dumps(told).encode())

    def _answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _status(path: Path, name: str) -> dict[str, Any]:
    found = path.stat()
    return {
        "pathSuffix": name,
        "type": "DIRECTORY" if path.is_dir() else "FILE",
        "length": 0 if path.is_dir() else found.st_size,
        "modificationTime": found.st_mtime_ns // 1_000_000,
    }


@contextmanager
def fake_webhdfs(root: Path) -> Iterator[str]:
    """Serve a folder; yield the URL of the server, `http://127.0.0.1:PORT`."""
    handler = type("Handler", (_Handler,), {"root": root})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
