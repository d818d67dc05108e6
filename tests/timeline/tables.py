"""Small tables for tests of the timeline: files in a store, without data."""

from __future__ import annotations

import uuid
from pathlib import Path

from bucketfmt.format.table.properties import decode_properties
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.storage.open import open_store
from bucketfmt.storage.store import Store

VERSION_OF_LAYOUT = {1: 6, 2: 8}


def config_of(layout: int, **properties: str) -> TableConfig:
    return TableConfig.from_properties(
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": str(VERSION_OF_LAYOUT[layout]),
            "hoodie.timeline.layout.version": str(layout),
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
    )


def empty_store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


def open_table(path: Path) -> tuple[Store, TableConfig]:
    store = open_store(path)
    properties = decode_properties(store.read(".hoodie/hoodie.properties", 1 << 20))
    return store, TableConfig.from_properties(properties)
