"""Keys go to the buckets Hudi put them in: by vectors, and in every table real Hudi wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.errors import KeyEncodingError
from bucketfmt.format.buckets.ring import HashingNode, find_node, initial_ring
from bucketfmt.format.keys.hashing import bucket_of_hash, java_list_hash, xxhash32
from bucketfmt.format.keys.record_keys import KeyDialect, dialect_for_table_version
from bucketfmt.format.names.names import find_data_file_name
from bucketfmt.index.layout import FixedBuckets, RingBuckets
from bucketfmt.rows.columns.virtual_keys import record_keys
from tests.golden import GOLDEN, expected

Golden = Callable[[str, str], Path]

KEYS = pa.array(["key-000125", "a", "", "ß", "日本語", "😀", "-150", "A" * 300])


def fixed(num_buckets: int, *hash_fields: str) -> FixedBuckets:
    return FixedBuckets(num_buckets, hash_fields or ("id",), KeyDialect.INDEX_OF)


def test_a_fixed_bucket_is_the_list_hash_modulo_n() -> None:
    for num_buckets in (1, 4, 7, 256, 99_999_999):
        wanted = [bucket_of_hash(java_list_hash([key]), num_buckets) for key in KEYS.to_pylist()]
        assert fixed(num_buckets).assign(KEYS).tolist() == wanted


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters=":"))))
def test_chunks_make_no_difference(keys: list[str]) -> None:
    chunked = pa.chunked_array([keys[:2], keys[2:]], pa.string())
    whole = pa.array(keys, pa.string())
    ring = RingBuckets(initial_ring("us", 5), ("id",), KeyDialect.INDEX_OF)
    for buckets in (fixed(7), ring):
        assert buckets.assign(chunked).tolist() == buckets.assign(whole).tolist()
        assert set(buckets.assign(whole).tolist()) <= set(buckets.bucket_ids)


def test_only_the_hash_fields_of_a_complex_key_count() -> None:
    keys = pa.array(["id:7,name:x", "id:7,name:y", "id:8,name:x"])
    by_id = fixed(1000, "id").assign(keys).tolist()
    assert by_id[0] == by_id[1] == bucket_of_hash(java_list_hash(["7"]), 1000) != by_id[2]
    by_both = fixed(1000, "id", "name").assign(keys).tolist()
    assert by_both[0] == bucket_of_hash(java_list_hash(["7", "x"]), 1000)
    assert len(set(by_both)) == 3


def test_a_key_hudi_never_returns_from_is_refused() -> None:
    with pytest.raises(KeyEncodingError, match="never returns"):
        fixed(4, "id").assign(pa.array(["id:1,other:x:y"]))


@pytest.mark.rule("HASH-6")
def test_a_file_group_beyond_the_last_bucket_is_in_none() -> None:
    assert fixed(4).bucket_of("00000003-1ad8-4c4f-84b0-f9f06e6013ae-0") == 3
    assert fixed(4).bucket_of("00000004-1ad8-4c4f-84b0-f9f06e6013ae-0") is None
    assert fixed(4).bucket_of("d2b6f626-1ad8-4c4f-84b0-f9f06e6013ae-0") is None


def test_a_ring_bucket_is_the_node_at_or_above_the_hash() -> None:
    nodes = initial_ring("us", 4)
    buckets = RingBuckets(nodes, ("id",), KeyDialect.INDEX_OF)
    hashes = [xxhash32(key.encode()) & 0x7FFFFFFF for key in KEYS.to_pylist()]
    assert buckets.assign(KEYS).tolist() == [find_node(nodes, h).value for h in hashes]
    assert list(buckets.bucket_ids) == [node.value for node in nodes]


def test_above_the_last_node_the_ring_begins_anew() -> None:
    hash_of_a = xxhash32(b"a") & 0x7FFFFFFF
    nodes = (HashingNode(hash_of_a - 2, "low"), HashingNode(hash_of_a - 1, "high"))
    buckets = RingBuckets(nodes, ("id",), KeyDialect.INDEX_OF)
    assert buckets.assign(pa.array(["a"])).tolist() == [hash_of_a - 2]


def test_a_ring_knows_its_file_groups() -> None:
    nodes = (HashingNode(10, "5ff1a1a3-0"), HashingNode(20, None, "DELETE"))
    buckets = RingBuckets(nodes, ("id",), KeyDialect.INDEX_OF)
    assert buckets.bucket_of("5ff1a1a3-0-0") == 10
    assert buckets.bucket_of("5ff1a1a3-0") is None


INDEXES: dict[str, bf.Index] = {
    # What the recipes that wrote the tables say; Hudi itself records it in none of them.
    **dict.fromkeys(
        ("cow", "mor", "mor_compacted", "mdt_bucket", "parquet_log", "cleaned", "intkey"),
        bf.SimpleBucketIndex(4),
    ),
    **dict.fromkeys(
        (
            "cow_bucket",
            "cow_changelog",
            "mor_bucket",
            "mor_changelog",
            "mor_changelog_compacted",
            "mor_types",
        ),
        bf.SimpleBucketIndex(4),
    ),
    **dict.fromkeys(("tiny_cow", "tiny_mor"), bf.SimpleBucketIndex(1)),
    "nonpart": bf.SimpleBucketIndex(4),
    "complexkey": bf.SimpleBucketIndex(4, ("id",)),
    "customkeygen": bf.SimpleBucketIndex(1),
    "multipart": bf.SimpleBucketIndex(1),
    "tskeygen": bf.SimpleBucketIndex(1),
    "partlevel": bf.PartitionBucketIndex(4, "us,8;eu,2"),
    "partrules": bf.PartitionBucketIndex(2, "us,1;ap,5"),
    **dict.fromkeys(
        ("ch_init", "ch_pending", "ch_split", "mor_consistent", "tiny_ch"),
        bf.ConsistentHashingIndex(4),
    ),
}
NO_BUCKETS = {"bloom", "clustered", "pending_clustering", "positions", "rli"}


def index_of(name: str) -> bf.Index:
    return INDEXES.get(name, bf.SimpleBucketIndex(2))


BUCKET_TABLES = [(version, name) for version, name in GOLDEN if name not in NO_BUCKETS]


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.rule("HASH-3", "RING-2", "KEY-6")
@pytest.mark.parametrize(
    ("version", "name"), [(v, n) for v, n in BUCKET_TABLES if not n.startswith("virtual")]
)
def test_every_key_hashes_to_the_file_group_hudi_read_it_from(
    golden: Golden, version: str, name: str
) -> None:
    rows = expected(golden(version, name).parent, name)
    located = bf.open(golden(version, name), index=index_of(name)).locate(rows)
    assert located["record_key"].to_pylist() == rows["_hoodie_record_key"].to_pylist()
    assert located["partition_path"].to_pylist() == rows["_hoodie_partition_path"].to_pylist()
    names = rows["_hoodie_file_name"].to_pylist()
    file_ids = [found.file_id if (found := find_data_file_name(n)) else n for n in names]
    assert located["file_id"].to_pylist() == file_ids
    assert len(file_ids) >= 6


@pytest.mark.parametrize(
    ("version", "name"), [(v, n) for v, n in BUCKET_TABLES if n.startswith("virtual")]
)
def test_virtual_keys_hash_to_the_file_group_they_are_in(
    golden: Golden, version: str, name: str
) -> None:
    """Rows without meta columns do not name their file: read the base files one by one."""
    root = golden(version, name)
    table = bf.open(root)
    dialect = dialect_for_table_version(table.config.table_version)
    buckets = FixedBuckets(2, table.config.record_key_fields, dialect)
    in_base_files = 0
    for row in table.inspect.files().to_pylist():
        if row["kind"] == "base":
            rows = pq.read_table(root / row["path"])
            assert set(buckets.assign(record_keys(rows, table.config))) == {row["bucket_id"]}
            in_base_files += rows.num_rows
    assert in_base_files > 40
