"""Tables that tell what was done to their files."""

from __future__ import annotations

from pathlib import Path

import bucketfmt as bf
from bucketfmt.index.model import BucketIndex
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.open import open_store
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.timeline.table_properties import load_config

__all__ = [
    "forget_index",
    "open_recorded",
    "opened_files",
    "state_buckets",
    "state_index",
    "state_properties",
]


def open_recorded(root: Path, index: bf.Index | None = None) -> tuple[bf.Table, RecordingStore]:
    """Open a table over a store that remembers what it was asked."""
    store = RecordingStore(open_store(root))
    return bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, index), store


def opened_files(store: RecordingStore) -> list[str]:
    """Return the base and log files that were opened, in order."""
    return [
        path
        for path in store.paths("read", "read_ranges", "open_arrow")
        if not path.startswith(".hoodie")
    ]


def state_properties(root: Path, properties: dict[str, str]) -> Path:
    """Write settings into a table's hoodie.properties, and return its folder."""
    path = root / ".hoodie" / "hoodie.properties"
    lines = [f"{key}={value}" for key, value in properties.items()]
    path.write_text("\n".join([path.read_text().rstrip("\n"), *lines, ""]))
    return root


def state_buckets(root: Path, num_buckets: int) -> Path:
    """Make a table state its number of buckets; one on a ring keeps its ring."""
    if (root / ".hoodie/.bucket_index/consistent_hashing_metadata").exists():
        return root
    number = str(num_buckets)
    settings = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": number}
    return state_properties(root, settings)


def state_index(root: Path, index: bf.Index) -> Path:
    """Make a table state its index in hoodie.properties; a ring stays in its index files."""
    assert isinstance(index, BucketIndex)
    fields = index.hash_fields or bf.open(root).config.record_key_fields
    stated = {"hoodie.bucket.index.hash.field": ",".join(fields)}
    if isinstance(index, bf.PartitionBucketIndex):
        state_buckets(root, index.default)
        stated["hoodie.bucket.index.partition.expressions"] = index.rules
    else:
        state_buckets(root, index.num_buckets)
    return state_properties(root, stated)


def forget_index(root: Path) -> Path:
    """Take the index out of hoodie.properties, as Hudi leaves it, and return the folder."""
    path = root / ".hoodie" / "hoodie.properties"
    lines = path.read_text().splitlines(keepends=True)
    index = ("hoodie.index.", "hoodie.bucket.index.")
    path.write_text("".join(line for line in lines if not line.startswith(index)))
    return root
