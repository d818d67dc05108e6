"""What the store for Google Cloud Storage asks its client for; `tests/stores` has a server."""

from __future__ import annotations

import os
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
