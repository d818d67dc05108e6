"""Tables of eight rows in one partition: small enough to damage every byte of every file."""

from __future__ import annotations

from recipes.basics import CONSISTENT, NOW, RESIZING
from recipes.lab import MOR, SMALL, Lab
from recipes.registry import recipe

_ONE = {**SMALL, "hoodie.bucket.index.num.buckets": "1"}


@recipe()
def tiny_mor(lab: Lab, name: str) -> None:
    """Eight rows, three updates, a delete: a base file and two log files."""
    options = {**_ONE, **MOR}
    lab.write(lab.rows(0, 8, 1, regions=1), name, "upsert", options)
    lab.write(lab.rows(2, 5, 2, "u", regions=1), name, "upsert", options)
    lab.write(lab.rows(7, 8, 3, regions=1), name, "delete", options)
    lab.expect_all(name)


@recipe()
def tiny_cow(lab: Lab, name: str) -> None:
    """The same on base files alone, then the partition overwritten and updated once more."""
    lab.write(lab.rows(0, 8, 1, regions=1), name, "upsert", _ONE)
    lab.write(lab.rows(2, 5, 2, "u", regions=1), name, "upsert", _ONE)
    lab.write(lab.rows(0, 6, 3, "o", regions=1), name, "insert_overwrite", _ONE)
    lab.write(lab.rows(4, 8, 4, "v", regions=1), name, "upsert", _ONE)
    lab.expect(name)


@recipe()
def tiny_ch(lab: Lab, name: str) -> None:
    """Consistent hashing: eight rows in two buckets that are split, then updates."""
    sizes = {"hoodie.parquet.max.file.size": "1000", "hoodie.index.bloom.num_entries": "10"}
    options = {**SMALL, **MOR, **CONSISTENT, **sizes, "hoodie.bloom.index.filter.type": "SIMPLE"}
    lab.write(lab.rows(0, 8, 1, regions=1), name, "upsert", options)
    split = {**options, **RESIZING, **NOW}
    lab.write(lab.rows(0, 8, 2, "u", regions=1), name, "upsert", split)
    lab.write(lab.rows(2, 5, 3, "v", regions=1), name, "upsert", options)
    lab.expect(name)
