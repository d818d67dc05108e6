"""Which index is believed, and why: the caller, the properties, the index files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bucketfmt.errors import IndexUnknownError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.partition_rules import PartitionBucketRules
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.index.layout import FixedBuckets
from bucketfmt.index.model import BloomIndex, Index, RecordIndex
from bucketfmt.index.numbered_buckets import PartitionBucketIndex, SimpleBucketIndex
from bucketfmt.index.parse_index import parse_index
from bucketfmt.index.resolve import (
    ResolvedIndex,
    check_hash_fields,
    check_index_argument,
    find_declared_index,
    find_stray_file_group,
    find_stray_key,
)
from bucketfmt.index.stored_buckets import ConsistentHashingIndex

N, TYPE = "hoodie.bucket.index.num.buckets", "hoodie.index.type"
ENGINE, FIELDS = "hoodie.index.bucket.engine", "hoodie.bucket.index.hash.field"
RULES = "hoodie.bucket.index.partition.expressions"


def declared(
    properties: dict[str, str],
    rules: PartitionBucketRules | None = None,
    has_hashing_metadata: bool = False,
) -> ResolvedIndex:
    settings = IndexSettings.from_properties(properties)
    return find_declared_index(settings, rules, has_hashing_metadata)


@pytest.mark.parametrize(
    ("properties", "index"),
    [
        ({TYPE: "BUCKET", N: "16"}, SimpleBucketIndex(16)),
        ({TYPE: "BUCKET", N: "16", FIELDS: "id,day"}, SimpleBucketIndex(16, ("id", "day"))),
        (
            {TYPE: "BUCKET_HASH_INDEX", "hoodie.hash.index.bucket.num": "8"},
            SimpleBucketIndex(8),
        ),
        ({TYPE: "BUCKET", N: "4", RULES: "us,8"}, PartitionBucketIndex(4, "us,8")),
        (
            {TYPE: "BUCKET", ENGINE: "CONSISTENT_HASHING", N: "4"},
            ConsistentHashingIndex(4),
        ),
        ({TYPE: "RECORD_INDEX"}, RecordIndex()),
        ({TYPE: "GLOBAL_BLOOM"}, BloomIndex()),
    ],
)
def test_what_properties_state(properties: dict[str, str], index: Index) -> None:
    resolved = declared(properties)
    assert resolved.index == index
    assert resolved.source == "properties"
    assert resolved.is_declared
    assert "hoodie.properties" in resolved.evidence


@pytest.mark.parametrize(
    "properties", [{}, {N: "16"}, {TYPE: "BUCKET"}, {TYPE: "HBASE"}, {TYPE: "SIMPLE"}]
)
def test_half_a_statement_is_none(properties: dict[str, str]) -> None:
    resolved = declared(properties)
    assert (resolved.index, resolved.source, resolved.is_declared) == (None, "unknown", False)


def test_index_files_count_before_properties() -> None:
    properties = {TYPE: "BUCKET", N: "16", FIELDS: "id"}
    rules = PartitionBucketRules(
        expressions="us,8", default_num_buckets=2, instant="20240101000000000"
    )
    resolved = declared(properties, rules)
    assert resolved.index == PartitionBucketIndex(2, "us,8", ("id",))
    assert resolved.source == "index files"
    assert "20240101000000000" in resolved.evidence

    resolved = declared(properties, has_hashing_metadata=True)
    assert resolved.index == ConsistentHashingIndex(16, hash_fields=("id",))
    assert resolved.source == "index files"


def test_the_caller_is_believed_where_the_table_is_silent() -> None:
    resolved = check_index_argument(SimpleBucketIndex(8), declared({}))
    assert (resolved.index, resolved.source) == (SimpleBucketIndex(8), "argument")
    assert resolved.is_declared


@pytest.mark.parametrize(
    ("argument", "properties"),
    [
        (SimpleBucketIndex(8), {TYPE: "BUCKET", N: "16"}),
        (SimpleBucketIndex(16, ("day",)), {TYPE: "BUCKET", N: "16", FIELDS: "id"}),
        (PartitionBucketIndex(16, "us,8"), {TYPE: "BUCKET", N: "16"}),
        (PartitionBucketIndex(16, "us,8"), {TYPE: "BUCKET", N: "16", RULES: "us,4"}),
        (SimpleBucketIndex(16), {TYPE: "BUCKET", ENGINE: "CONSISTENT_HASHING", N: "16"}),
        (SimpleBucketIndex(16), {TYPE: "BLOOM"}),
        (RecordIndex(), {TYPE: "BLOOM"}),
    ],
)
def test_an_argument_against_the_table_is_refused(
    argument: Index, properties: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="contradicts the table, which has") as caught:
        check_index_argument(argument, declared(properties))
    assert "leave index= out" in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "properties"),
    [
        (SimpleBucketIndex(16), {TYPE: "BUCKET", N: "16"}),
        (SimpleBucketIndex(16, ("id",)), {TYPE: "BUCKET", N: "16"}),
        # The ring is in the table: the caller's numbers only steer how it will be resized.
        (ConsistentHashingIndex(4), {TYPE: "BUCKET", ENGINE: "CONSISTENT_HASHING", N: "16"}),
        (RecordIndex(), {TYPE: "RECORD_INDEX"}),
    ],
)
def test_an_argument_that_agrees_is_the_callers(
    argument: Index, properties: dict[str, str]
) -> None:
    resolved = check_index_argument(argument, declared(properties))
    assert (resolved.index, resolved.source) == (argument, "argument")


def test_hash_fields_only_the_table_states_are_kept() -> None:
    stated = declared({TYPE: "BUCKET", N: "16", FIELDS: "id"})
    resolved = check_index_argument(SimpleBucketIndex(16), stated)
    assert resolved.index == SimpleBucketIndex(16, ("id",))


def test_an_argument_is_an_index() -> None:
    with pytest.raises(TypeError, match="SimpleBucketIndex"):
        check_index_argument(16, declared({}))  # type: ignore[arg-type]


def test_hash_fields_are_key_fields() -> None:
    check_hash_fields(SimpleBucketIndex(4), ("id",))
    check_hash_fields(SimpleBucketIndex(4, ("name",)), ("id", "name"))
    with pytest.raises(ValueError, match=r"'day' is not among .* id, name"):
        check_hash_fields(SimpleBucketIndex(4, ("day",)), ("id", "name"))


def test_file_ids_can_contradict_the_number_of_buckets() -> None:
    buckets = FixedBuckets(4, ("id",), KeyDialect.INDEX_OF)
    assert find_stray_file_group(buckets, ["00000003-1ad8-0", "00000000-1ad8-0"]) is None
    for file_id in ("00000004-1ad8-0", "d2b6f626-1ad8-4c4f-84b0-f9f06e6013ae-0"):
        stray = find_stray_file_group(buckets, ["00000003-1ad8-0", file_id])
        assert stray == f"file group {file_id} is in no bucket of the index"


def test_keys_can_contradict_the_number_of_buckets() -> None:
    keys = pa.chunked_array([[f"key-{i:06d}" for i in range(20)]])
    four, eight = (FixedBuckets(n, ("id",), KeyDialect.INDEX_OF) for n in (4, 8))
    own = keys.filter(pa.array(four.assign(keys) == 3))
    assert find_stray_key(four, "00000003-1ad8-0", own) is None
    assert find_stray_key(eight, "d2b6f626-1ad8-0", own) is None, "which may hold any key"
    stray = find_stray_key(eight, "00000003-1ad8-0", own)
    assert stray is not None
    assert stray.startswith("it puts key key-0000")
    assert stray.endswith("into bucket 7, and file group 00000003-1ad8-0 has it")


def test_a_contradiction_is_the_callers_mistake_or_makes_the_index_unknown() -> None:
    given = ResolvedIndex(
        SimpleBucketIndex(4), "argument", "given by the caller, and proved where it is used"
    )
    error = given.contradiction("a key is elsewhere", "us")
    assert isinstance(error, ValueError)
    assert "contradicts the table: a key is elsewhere (partition 'us')" in str(error)
    inferred = ResolvedIndex(SimpleBucketIndex(4), "file ids and keys", "inferred")
    error = inferred.contradiction("a key is elsewhere", "us")
    assert isinstance(error, IndexUnknownError)
    assert error.partition == "us"


@pytest.mark.parametrize("number", [0, -1, 100_000_000])
def test_a_bucket_number_has_eight_digits(number: int) -> None:
    for make in (
        SimpleBucketIndex,
        ConsistentHashingIndex,
        lambda n: PartitionBucketIndex(n, "us,8"),
    ):
        with pytest.raises(ValueError, match="99,999,999"):
            make(number)


@pytest.mark.parametrize(
    "text",
    [
        "simple:16",
        "simple:16:id,city",
        "partition:4:eu,8;us,2",
        "consistent:4",
        "consistent:4:virtual-logs",
        "extendible:2",
        "multigroup:2:1048576",
        "record",
        "record:moving",
        "record:partitioned",
    ],
)
def test_an_index_as_text_and_back(text: str) -> None:
    assert parse_index(text).text == text


def test_an_index_without_a_text() -> None:
    assert BloomIndex().text == "bloom index"
