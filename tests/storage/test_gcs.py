"""What the store for Google Cloud Storage asks its client for; `tests/stores` has a server."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from bucketfmt.errors import LimitError
from bucketfmt.limits import Limits
from bucketfmt.storage.open import open_store

# Or gcsfs asks a server that only Google has for the kind of each bucket, for a minute.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
gcsfs = pytest.importorskip("gcsfs")


def test_a_folder_is_listed_no_further_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of a million files is refused before all of its pages are in memory."""
    names = [f"trips/d/{number:05}" for number in range(5_500)]
    asked = []

    async def call(_fs: Any, method: str, path: str, *of: str, **given: Any) -> dict[str, Any]:
        assert (method, path, of) == ("GET", "b/{}/o", ("tables",))
        assert (given["prefix"], given["delimiter"]) == ("trips/d/", "/")
        asked.append(given)
        first = int(given.get("pageToken") or 0)
        some = names[first : first + given["maxResults"]]
        end = first + len(some)
        items = [{"name": name, "size": "0", "bucket": "tables"} for name in some]
        page = {"kind": "storage#objects", "items": items, "prefixes": []}
        return page if end == len(names) else {**page, "nextPageToken": str(end)}

    monkeypatch.setattr(gcsfs.GCSFileSystem, "_call", call)
    for most, pages_read in ((5_500, 6), (5_499, 6), (1_500, 2), (10, 1)):
        limits = Limits(folder_entries_max=most)
        store = open_store("gs://tables/trips", {"token": "anon"}, limits)
        asked.clear()
        if most == len(names):
            found = store.list("d")
            assert [f"trips/{entry.path}" for entry in found] == names
        else:
            with pytest.raises(LimitError, match=f"{most + 1} exceeds .* folder_entries_max"):
                store.list("d")
        assert len(asked) == pages_read


class OneEmptyObject(BaseHTTPRequestHandler):
    """Of every name there is an empty object."""

    def do_GET(self) -> None:
        status = 416 if self.headers.get("Range") else 200
        self.send_response_only(status)
        self.send_header("content-length", "0")
        self.send_header("x-goog-generation", "7")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Of a server with an empty object of every name."""
    with HTTPServer(("127.0.0.1", 0), OneEmptyObject) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_empty_file_is_read_without_a_word(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each archival printed the tracebacks of two errors for each commit, which were none."""
    options = {"token": "anon", "endpoint_url": url}
    store = open_store("gs://tables/trips", options)
    with caplog.at_level(logging.WARNING):
        assert store.read_versioned("1.inflight", 100) == (b"", "7")
        assert not caplog.records
        with pytest.raises(gcsfs.retry.HttpError):  # of others, who are told as before
            gcsfs.GCSFileSystem(**options).cat_file("tables/trips/1.inflight", start=0, end=9)
    assert [record.getMessage() for record in caplog.records] == [
        "_request non-retriable exception: , 416"
    ]
