"""Buckets that grow by file groups, which is an extension: written and read by bucketfmt."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.format.table.properties import decode_properties
from bucketfmt.location.file_groups.plan_groups import place_new_keys
from bucketfmt.testing.recording_store import RecordingStore
from tests.write.models import NO_SERVICES, SCHEMA, Model, assert_reads_as, create_table, rows

FEW_ROWS = bf.MultiGroupBucketIndex(2, group_bytes=3_400)
"""A base file of a row has about 2,300 bytes."""


def created(folder: Path, table_type: str, version: int = 9, row_bytes: int = 60) -> bf.Table:
    return create_table(
        str(folder / "trips"),
        FEW_ROWS,
        table_type,
        table_version=version,
        properties={"hoodie.copyonwrite.record.size.estimate": str(row_bytes)},
        writer=NO_SERVICES,
    )


def groups_of(table: bf.Table) -> Counter[tuple[str, int]]:
    """How many file groups each bucket of each partition has."""
    found = table.inspect.buckets().select(["partition_path", "bucket_id"]).to_pylist()
    return Counter((row["partition_path"], row["bucket_id"]) for row in found)


@pytest.mark.rule("GRP-1", "GRP-2", "GRP-3")
@pytest.mark.rotated(0, among="works at random", one_of=2)
@pytest.mark.parametrize(
    ("table_type", "version"), [("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 6), ("MERGE_ON_READ", 9)]
)
def test_any_works_leave_what_a_dict_has(tmp_path: Path, table_type: str, version: int) -> None:
    table, model, random = created(tmp_path, table_type, version), Model(), Random(version)
    for step in range(10):
        some = rows(random.sample(range(400), random.choice((3, 60))), random.randrange(9), step)
        table.upsert(some)
        model.upsert(some)
        gone = rows(random.sample(range(400), 40), 0).select(["id", "region"])
        table.delete(gone)
        model.delete(gone["id"].to_pylist())
        if step % 4 == 3 and table_type == "MERGE_ON_READ":
            table.compact()
        asked = [f"key-{i:06d}" for i in random.sample(range(500), 20)]
        wanted = [row for (_, key), row in model.rows.items() if key in asked]
        found = table.lookup(asked).to_pylist()
        assert sorted(found, key=str) == sorted(wanted, key=str)
    assert_reads_as(table.uri, model)
    assert groups_of(table).most_common(1)[0][1] > 2


@pytest.mark.rule("GRP-7")
def test_what_the_table_states(tmp_path: Path) -> None:
    table = created(tmp_path, "COPY_ON_WRITE")
    stated = decode_properties((Path(table.uri) / ".hoodie/hoodie.properties").read_bytes())
    own = {k: v for k, v in stated.items() if ".index." in k or "file.size" in k}
    assert own == {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "MULTIPLE_FILE_GROUPS",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.parquet.max.file.size": "3400",
    }
    assert bf.open(table.uri).index == bf.MultiGroupBucketIndex(2, 3_400, ("id",))
    table.upsert(rows(range(3), ts=1))
    for other in (bf.SimpleBucketIndex(2), bf.MultiGroupBucketIndex(2, 7_000)):
        with pytest.raises(ValueError, match="contradicts the table"):
            bf.open(table.uri, index=other).lookup(["key-000001"])
    properties = Path(table.uri) / ".hoodie/hoodie.properties"
    text = properties.read_text()
    for size in ("0", "x", "9" * 18):
        properties.write_text(text.replace("file.size=3400", f"file.size={size}"))
        with pytest.raises(bf.CorruptError, match=r"hoodie.parquet.max.file.size"):
            bf.open(table.uri).locate(["key-000001"])
    plain = text.replace("hoodie.index.bucket.engine=MULTIPLE_FILE_GROUPS\n", "")
    properties.write_text("".join(x for x in plain.splitlines(True) if ".index." not in x))
    with pytest.raises(ValueError, match="created with this index"):
        bf.open(table.uri, index=FEW_ROWS).locate(["key-000001"])


@pytest.mark.rule("GRP-4")
def test_a_location_is_what_footers_do_not_rule_out(tmp_path: Path) -> None:
    table = created(tmp_path, "COPY_ON_WRITE", row_bytes=700)
    given = rows(range(200), ts=1)
    table.upsert(given)
    found = table.locate(given.select(["id", "region"])).to_pylist()
    files = {row["base_file"] for row in found}
    assert len(files) == sum(groups_of(table).values()) > 12
    keys = given["id"].to_pylist()
    assert [*dict.fromkeys(row["record_key"] for row in found)] == keys
    assert len(found) < 210  # bloom filters err now and then; ranges do not overlap here
    at = defaultdict(set)
    for row in found:
        at[row["base_file"].rpartition("/")[2]].add(row["record_key"])
    for row in table.scan(meta_columns=True).to_arrow().to_pylist():
        assert row["id"] in at[row["_hoodie_file_name"]]
    (nowhere,) = table.locate(pa.table({"id": ["key-900000"], "region": ["us"]})).to_pylist()
    assert nowhere["file_id"] is None
    assert nowhere["bucket_id"] in (0, 1)


@pytest.mark.rule("GRP-4")
def test_footers_are_read_once(tmp_path: Path) -> None:
    table = created(tmp_path, "COPY_ON_WRITE", row_bytes=700)
    given = rows(range(200), ts=1)
    table.upsert(given)
    store = RecordingStore(table.store)
    opened = bf.Table(store, table.config, table.limits, None)
    assert opened.lookup(given.select(["id", "region"])).num_rows == 200
    first = len(store.paths("open_arrow"))
    assert opened.lookup(["key-000007"]).num_rows == 1
    assert len(store.paths("open_arrow")) - first <= 2
    assert first >= 2 * sum(groups_of(table).values())


@pytest.mark.rule("GRP-3")
@pytest.mark.parametrize("ordering", [[], ["ts"]])
def test_a_key_that_the_log_deletes_is_not_appended(tmp_path: Path, ordering: list[str]) -> None:
    """A compaction would leave the key out of the base file, and only the log would have it."""
    table = bf.create(
        str(tmp_path / "trips"),
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["region"],
        ordering=ordering,
        index=bf.MultiGroupBucketIndex(1),
        table_type="MERGE_ON_READ",
        writer=NO_SERVICES,
    )
    table.upsert(rows([0, 3, 6], ts=1))
    table.delete(rows([3], ts=0).select(["id", "region"]))
    result = table.upsert(rows([3], ts=5))
    assert [path for path in result.files if path.endswith(".parquet")]
    result = table.upsert(rows([0], ts=6))
    assert not [path for path in result.files if path.endswith(".parquet")]
    table.compact()
    model = Model()
    for some, ts in (([6], 1), ([3], 5), ([0], 6)):
        model.upsert(rows(some, ts))
    assert_reads_as(table.uri, model)


@pytest.mark.rule("GRP-5")
def test_two_writers_of_a_new_key_conflict(tmp_path: Path) -> None:
    table = created(tmp_path, "COPY_ON_WRITE")
    table.upsert(rows(range(60), ts=1))
    other = bf.open(table.uri, writer=NO_SERVICES)
    read = table.timeline
    other.upsert(rows([600], ts=1))
    with pytest.raises(bf.ConflictError, match="bucket"):
        table.upsert(rows([600], ts=2), read_at=read)
    table.upsert(rows([600], ts=2))
    model = Model()
    model.upsert(rows([*range(60), 600], ts=1))
    model.upsert(rows([600], ts=2))
    assert_reads_as(table.uri, model)


def test_what_is_not_for_such_buckets_is_refused(tmp_path: Path) -> None:
    table = created(tmp_path, "MERGE_ON_READ")
    table.upsert(rows(range(30), ts=1))
    refused = [
        (lambda: table.rehash(4), "a bucket has one file group"),
        (lambda: table.rescale("us,4", default=2), "rescale of a table with multigroup"),
        (table.resize, "this table has multigroup"),
        (lambda: table.bulk_insert(rows([900], ts=1)), "use insert"),
        (lambda: table.start_write("upsert", SCHEMA), "packed into file groups"),
    ]
    for call, why in refused:
        with pytest.raises(bf.UnsupportedError, match=why):
            call()
    non_blocking = bf.WriterConfig(concurrency="non_blocking", services=None)
    with pytest.raises(ValueError, match="non_blocking"):
        bf.open(table.uri, writer=non_blocking).upsert(rows([1], ts=2))
    assert len(table.timeline.instants) == 1


@pytest.mark.rule("GRP-6")
@given(
    st.lists(st.integers(0, 10**6), max_size=60),
    st.lists(st.none() | st.integers(0, 200), max_size=5),
    st.integers(1, 200),
    st.integers(1, 50),
)
def test_new_keys_fill_the_smallest_group_and_then_new_ones(
    numbers: list[int], sizes: list[int | None], group_bytes: int, row_bytes: int
) -> None:
    keys = pa.array([f"{number:07d}" for number in numbers], pa.string())
    taker, places = place_new_keys(keys, sizes, group_bytes, row_bytes)
    assert len(places) == len(keys)
    open_sizes = [s for s in sizes if s is not None and s < group_bytes * 5 / 6]
    assert (taker is None) == (not open_sizes)
    if taker is None:
        assert 0 not in places
    else:
        assert sizes[taker] == min(open_sizes)
    held = {int(place): {numbers[i] for i in np.flatnonzero(places == place)} for place in places}
    assert sorted(set(held) | {0}) == list(range(max(held, default=0) + 1))
    for place, own in held.items():
        before = (sizes[taker] or 0) if place == 0 and taker is not None else 0
        assert before + (len(own) - 1) * row_bytes < group_bytes
    for one, other in combinations(sorted(held), 2):  # in the order of keys, each key in one
        assert max(held[one]) < min(held[other])
