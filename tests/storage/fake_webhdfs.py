"""A server of WebHDFS for a local folder: name node and data node in one."""

from __future__ import annotations

import http.server
import itertools
import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

__all__ = ["fake_webhdfs"]

_PREFIX = "/webhdfs/v1"
_DATA = "/data"
_BY_NUMBER = "/.reserved/.inodes/"
_STATUS = {"FileNotFoundException": 404}  # of exceptions, but for 403


class _RefusedError(Exception):
    """An answer that names a Java exception."""


class _Tree:
    """Files of a folder, with what a local disk does not have: numbers and attributes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = threading.RLock()  # as the name node has one for its tree
        self._numbers: dict[str, int] = {}
        self._next = itertools.count(16_386)
        self.attributes: dict[int, dict[str, str]] = {}
        self.dead_nodes: list[str] = []  # which the name node names first

    def path(self, name: str) -> Path:
        return self.root / name.strip("/")

    def number(self, name: str) -> int:
        with self.lock:
            return self._numbers.setdefault(name.strip("/"), next(self._next))

    def name(self, given: str) -> str:
        """Return the name of what may be given by its number."""
        if not given.startswith(_BY_NUMBER):
            return given
        with self.lock:
            wanted = int(given.removeprefix(_BY_NUMBER))
            names = [name for name, number in self._numbers.items() if number == wanted]
            if not names:
                raise _RefusedError("FileNotFoundException", f"no inode {wanted}")
            return names[0]

    def found(self, name: str) -> Path:
        path = self.path(name)
        if not path.exists():
            raise _RefusedError("FileNotFoundException", f"no {path.name}")
        return path

    def create(self, name: str, content: bytes) -> None:
        with self.lock:
            path = self.path(name)
            if path.exists():
                raise _RefusedError("FileAlreadyExistsException", f"{name} already exists")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def rename(self, name: str, to: str, options: str) -> None:
        with self.lock:
            path, destination = self.found(name), self.path(to)
            if destination.exists() and options != "OVERWRITE":
                raise _RefusedError("FileAlreadyExistsException", f"{to} already exists")
            number = self.number(name)
            path.replace(destination)
            del self._numbers[name.strip("/")]
            self._numbers[to.strip("/")] = number

    def set_attribute(self, name: str, key: str, value: str) -> None:
        with self.lock:
            name = self.name(name)
            self.found(name)
            own = self.attributes.setdefault(self.number(name), {})
            if key in own:
                raise _RefusedError("IOException", f"XAttr: {key} already exists")
            own[key] = value

    def delete(self, name: str) -> bool:
        with self.lock:
            path = self.path(name)
            if not path.exists():
                return False
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            self._numbers = {
                own: number
                for own, number in self._numbers.items()
                if own != name.strip("/") and not own.startswith(name.strip("/") + "/")
            }
            return True

    def status(self, path: Path, suffix: str) -> dict[str, Any]:
        found = path.stat()
        return {
            "pathSuffix": suffix,
            "type": "DIRECTORY" if path.is_dir() else "FILE",
            "length": 0 if path.is_dir() else found.st_size,
            "modificationTime": found.st_mtime_ns // 1_000_000,
            "fileId": self.number(path.relative_to(self.root).as_posix()),
        }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    tree: _Tree

    def _handle(self) -> None:
        url = urlsplit(self.path)
        given = {name: values[-1] for name, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        is_data = url.path.startswith(_DATA)
        name = unquote(url.path[len(_DATA if is_data else _PREFIX) :])
        try:
            if is_data:
                self._as_data_node(name, given, body)
            else:
                self._as_name_node(name, given, url.query)
        except _RefusedError as refused:
            kind, message = refused.args
            told = {"RemoteException": {"exception": kind, "message": message}}
            self._answer(_STATUS.get(kind, 403), json.dumps(told).encode())

    do_GET = do_PUT = do_DELETE = _handle  # noqa: N815  (as http.server calls them)

    def _as_data_node(self, name: str, given: dict[str, str], body: bytes) -> None:
        if given["op"] == "CREATE":
            self.tree.create(name, body)
            self._answer(201, b"")
            return
        begin = int(given["offset"])
        content = self.tree.found(name).read_bytes()
        self._answer(200, content[begin : begin + int(given["length"])])

    def _as_name_node(self, name: str, given: dict[str, str], query: str) -> None:
        tree, operation = self.tree, given["op"]
        told: Any = None
        if operation in ("OPEN", "CREATE"):
            if operation == "OPEN":
                tree.found(name)
            excluded = given.get("excludedatanodes", "").split(",")
            nodes = [*tree.dead_nodes, self.headers["host"]]
            node = next((each for each in nodes if each not in excluded), None)
            if node is None:
                raise _RefusedError("IOException", "No active nodes contain this block")
            at = f"http://{node}{_DATA}{quote(name)}?{query}"
            self._answer(307, b"", location=at)
            return
        if operation == "GETFILESTATUS":
            with tree.lock:
                told = {"FileStatus": tree.status(tree.found(name), "")}
        elif operation == "LISTSTATUS":
            with tree.lock:
                path = tree.found(name)
                entries = (
                    [tree.status(entry, entry.name) for entry in sorted(path.iterdir())]
                    if path.is_dir()
                    else [tree.status(path, "")]
                )
            told = {"FileStatuses": {"FileStatus": entries}}
        elif operation == "GETXATTRS":
            with tree.lock:
                name = tree.name(name)
                tree.found(name)
                own = tree.attributes.get(tree.number(name), {})
            told = {"XAttrs": [{"name": key, "value": value} for key, value in own.items()]}
        elif operation == "SETXATTR":
            tree.set_attribute(name, given["xattr.name"], given["xattr.value"])
        elif operation == "RENAME":
            tree.rename(name, given["destination"], given["renameoptions"])
        elif operation == "DELETE":
            told = {"boolean": tree.delete(name)}
        self._answer(200, b"" if told is None else json.dumps(told).encode())

    def _answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def fake_webhdfs(root: Path, dead_nodes: Sequence[str] = ()) -> Iterator[str]:
    """Serve a folder; yield the URL of the server, `http://127.0.0.1:PORT`.

    `dead_nodes` are hosts with ports that the name node takes for data nodes, and names first.
    """
    tree = _Tree(root)
    tree.dead_nodes += dead_nodes
    handler = type("Handler", (_Handler,), {"tree": tree})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
