"""An S3 of our own on a free port of this machine: moto, with conditional puts that are atomic."""

from __future__ import annotations

import contextlib
import io
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from moto.moto_server.threaded_moto_server import ThreadedMotoServer

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

__all__ = ["S3Server", "own_s3"]

_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


class _OneAtATime:
    """Requests with a condition, answered one at a time.

    moto compares first and puts later, in a thread for each request: two writers succeed at
    times. S3 lets one succeed, and what is tested here rests on that.
    """

    def __init__(self, answer: Callable[..., Iterable[bytes]]) -> None:
        self._answer = answer
        self._guard = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not any(condition in environ for condition in _CONDITIONS):
            return self._answer(environ, start_response)
        # Read first: a client that stalls amid its body must hold up nobody else.
        length = environ.get("CONTENT_LENGTH")
        body = environ["wsgi.input"].read(int(length) if length else -1)
        environ["wsgi.input"] = io.BytesIO(body)
        with self._guard:
            return list(self._answer(environ, start_response))


class S3Server(ThreadedMotoServer):
    """A server on 127.0.0.1 in threads of this process, whose conditional puts are atomic.

    All servers of a process have the same buckets.
    """

    def __init__(self) -> None:
        super().__init__(ip_address="127.0.0.1", port=0, verbose=False)

    def start(self) -> None:
        """Serve requests from now on."""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which tells of every request
        super().start()
        served = cast("BaseWSGIServer", self._server)
        served.app = _OneAtATime(served.app)


@contextlib.contextmanager
def own_s3(bucket: str = "tables") -> Iterator[dict[str, Any]]:
    """Yield the options with which s3fs reaches a server that has one empty bucket."""
    import s3fs  # noqa: PLC0415  (only here, and slow)

    server = S3Server()
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "endpoint_url": f"http://{host}:{port}",
        "key": "testing",
        "secret": "testing",
        "client_kwargs": {"region_name": "eu-west-1"},
    }
    s3fs.S3FileSystem(**options).makedirs(bucket, exist_ok=True)
    try:
        yield options
    finally:
        server.stop()
