"""The definitions of indexes are read while Hudi writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.metadata.index_definitions import IndexDefinition, encode_index_definitions
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table import definitions
from bucketfmt.metadata_table.definitions import load_index_definitions
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from tests.write.models import create_table

PATH = ".hoodie/.index_defs/index.json"
KNOWN = {
    "record_index": IndexDefinition(
        index_name="record_index", index_type="record_index", source_fields=["id"], version="V2"
    )
}
WHOLE = encode_index_definitions(KNOWN)


class WrittenInPlace(MemoryStore):
    """A store whose definitions are read as they grow."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.parts: list[bytes] = []

    def read(self, path: str, limit_bytes: int) -> bytes:
        return self.parts.pop(0) if path == PATH else super().read(path, limit_bytes)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WrittenInPlace:
    """Return a table whose properties say where the definitions are."""
    monkeypatch.setattr(definitions, "_PAUSES_S", (0.0,) * len(definitions._PAUSES_S))
    create_table(f"{tmp_path}/t", bf.SimpleBucketIndex(1))
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    properties.write_text(properties.read_text() + f"hoodie.table.index.defs.path={PATH}\n")
    return WrittenInPlace(MemoryStore.of_folder(tmp_path / "t").files)


def load(store: MemoryStore) -> object:
    config = load_config(store, DEFAULT_LIMITS)
    return load_index_definitions(store, config, DEFAULT_LIMITS)


@pytest.mark.parametrize("halves", [0, 1, 3])
def test_half_written_definitions_are_read_again(store: WrittenInPlace, halves: int) -> None:
    """A write failed with CorruptError while Hudi made an index, and asked for a rebuild."""
    store.parts = [*[b"", WHOLE[:20], WHOLE[:-1]][:halves], WHOLE]
    assert load(store) == KNOWN
    assert store.parts == []


def test_damaged_definitions_stay_an_error(store: WrittenInPlace) -> None:
    store.parts = [WHOLE[:20]] * 4
    with pytest.raises(bf.CorruptError, match="index definitions"):
        load(store)
    assert store.parts == []
