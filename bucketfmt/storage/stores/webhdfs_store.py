"""A `Store` over WebHDFS, for reading: a request that fails is sent again.

Does I/O. Source: Hadoop's WebHDFS REST API. The name node answers a read with the location of the
content, which a data node has. fsspec's client waits for ever for a node that is silent, sends no
request again, and takes what a data node says of an error for the content of the file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from bucketfmt.storage.stores.fsspec_store import FsspecStore

__all__ = ["WebHdfsStore"]

_SILENCE_S = 60.0  # as the clients of S3 and Azure have it
_TRIES = 5
_FIRST_WAIT_S = 0.1  # and twice as long after each try
_PASSING = frozenset({429, 500, 502, 503, 504})
_NOT_FOUND = 404


class WebHdfsStore(FsspecStore):
    """The files below one `webhdfs://` URL, to be read. See `Store` for the verbs.

    A request is sent again up to four times where a node is silent for a minute, closes the
    connection, sends less than was asked for, or answers 429, 500, 502, 503 or 504.
    """

    # A file system of its own: other users of fsspec keep the session that theirs has.
    _options: ClassVar[Mapping[str, Any]] = {"skip_instance_cache": True}

    def _open(self) -> tuple[tuple[Any, str], str]:
        opened, root = super()._open()
        fs, _ = opened
        fs.session = _PatientSession(fs.session)
        return opened, root


class _PatientSession:
    """What fsspec's client reads by, in place of its `requests.Session`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def request(self, *, method: str, url: str, **given: Any) -> Any:
        """Ask a name node; the caller looks at the status of the answer."""
        return self._ask(method, url, None, given)

    def get(self, location: str) -> Any:
        """Ask a data node for content."""
        lengths = parse_qs(urlsplit(location).query).get("length")
        answer = self._ask("GET", location, int(lengths[0]) if lengths else None, {})
        if answer.status_code == _NOT_FOUND:
            raise FileNotFoundError(location)  # removed since the name node was asked
        answer.raise_for_status()
        return answer

    def _ask(self, method: str, url: str, length: int | None, given: Mapping[str, Any]) -> Any:
        """Send a request, and if it is a GET again until there is an answer, of this length."""
        from requests import exceptions  # noqa: PLC0415  (an optional dependency, as WebHDFS)

        passing = (exceptions.ChunkedEncodingError, exceptions.ConnectionError, exceptions.Timeout)

        def ask() -> Any:
            answer = self._session.request(method, url, timeout=_SILENCE_S, **given)
            if length is not None and answer.ok and len(answer.content) != length:
                told = f"{len(answer.content)} bytes came where {length} were asked for"
                raise exceptions.ChunkedEncodingError(told)
            return answer

        for number in range(_TRIES - 1 if method == "GET" else 0):
            with suppress(*passing):
                answer = ask()
                if answer.status_code not in _PASSING:
                    return answer
            time.sleep(_FIRST_WAIT_S * 2**number)
        return ask()
