from __future__ import annotations

import pyarrow as pa
import pytest

from bucketfmt.storage.store import has_content
from bucketfmt.testing.memory_store import MemoryStore


@pytest.mark.parametrize(
    ("there", "is_it"),
    [(b"abc", True), (b"abd", False), (b"ab", False), (b"abcd", False), (None, False)],
)
def test_the_whole_content_is_compared(there: bytes | None, is_it: bool) -> None:
    store = MemoryStore()
    if there is not None:
        assert store.put_if_absent("a/b", there)
    assert has_content(store, "a/b", b"abc") is is_it
    assert has_content(store, "a/b", pa.py_buffer(b"abc")) is is_it
