"""After any writes, reads by the metadata table give the rows that reads by folders give."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.metadata_table.metadata_lister import metadata_behind
from bucketfmt.metadata_table.skipping.data_skipping import prune_slices
from bucketfmt.rows.filters.filter import Filter, parse_filter
from bucketfmt.slices.slice_columns import RowSpec
from bucketfmt.slices.slice_reader import SliceReader
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import load_config
from soak.damage.tables import table_files
from tests.rotation import seed

METADATA = ".hoodie/metadata/"
VERSIONS = ("0.15.0", "1.0.2", "1.2.0")


def opened(store: MemoryStore) -> bf.Table:
    return bf.Table(
        store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, bf.SimpleBucketIndex(4)
    )


def write(table: bf.Table, chance: random.Random) -> None:
    rows = table.scan().to_arrow()
    some = rows.take(pa.array(sorted(chance.sample(range(rows.num_rows), 12))))
    match chance.choice(["upsert", "insert", "delete", "compact", "clean"]):
        case "upsert":
            qty = pa.array([chance.randrange(-50, 50) for _ in range(12)], pa.int32())
            table.upsert(some.set_column(some.schema.get_field_index("qty"), "qty", qty))
        case "insert":
            keys = pa.array([f"new-{chance.randrange(10**6)}" for _ in range(12)])
            table.upsert(some.set_column(some.schema.get_field_index("id"), "id", keys))
        case "delete":
            table.delete(some.select(["id", "region"]).slice(0, 4))
        case "compact":
            table.compact()
        case "clean":
            table.clean(retain=1)


def read_both_ways(store: MemoryStore, chance: random.Random, *, is_used: bool) -> None:
    table = opened(store)
    snapshot, by_folders = table._snapshot(), table._listed_snapshot()
    metadata = metadata_behind(snapshot.state.lister)
    assert metadata is not None
    assert (metadata.why_not("files") is None) == is_used, metadata.why_not("files")
    rows = rows_of(by_folders)
    assert rows_of(snapshot) == rows
    schema = snapshot.schema.data
    for row_filter in [a_filter(chance) for _ in range(15)]:
        slices = snapshot.slices_of(snapshot.partitions)
        kept = prune_slices(metadata, slices, row_filter, schema, whatever_it_costs=True)
        names = {(each.partition_path, each.file_id) for each in kept}
        for name, own in rows.items():
            if name not in names:
                assert row_filter.apply(own).num_rows == 0, row_filter.alternatives


def rows_of(snapshot: Snapshot) -> dict[tuple[str, str], pa.Table]:
    reader = SliceReader(snapshot, RowSpec(snapshot.schema, snapshot.schema.data))
    return {
        (each.partition_path, each.file_id): pa.concat_tables(list(reader.read(each, None)))
        for each in snapshot.slices_of(snapshot.partitions)
    }


def a_filter(chance: random.Random) -> Filter:
    value: Any
    column, value = chance.choice(
        [
            ("qty", chance.randrange(-60, 60)),
            ("id", chance.choice(["key-000100", "new-5", "zzz", "a"])),
            ("region", chance.choice(["us", "eu", "none"])),
            ("ts", chance.randrange(5)),
        ]
    )
    return parse_filter([(column, chance.choice(["==", "<", ">", "<=", ">=", "!="]), value)])


@pytest.mark.rotated(0, among="works at random", one_of=2)
@pytest.mark.parametrize("version", VERSIONS)
def test_reads_after_writes_in_step_and_not(version: str) -> None:
    chance = random.Random(f"{seed()} {version}")
    store = MemoryStore(dict(table_files(f"{version}/mdt_bucket")))
    for _ in range(3):
        write(opened(store), chance)
        read_both_ways(store, chance, is_used=True)
    # A writer that does not know of metadata tables:
    before = {path: data for path, data in store.files.items() if path.startswith(METADATA)}
    rows = opened(store).scan().to_arrow().slice(0, 9)
    opened(store).upsert(rows)
    for path in [path for path in store.files if path.startswith(METADATA)]:
        store.delete(path)
    for path, data in before.items():
        store.put_if_absent(path, data)
    read_both_ways(store, chance, is_used=False)
