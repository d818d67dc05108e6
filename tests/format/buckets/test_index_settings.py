"""What properties say about the index."""

from __future__ import annotations

import pytest

from bucketfmt.errors import CorruptError, IndexUnknownError, LimitError, UnsupportedError
from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.limits import Limits


def test_what_is_not_said_is_none() -> None:
    assert IndexSettings.from_properties({"hoodie.table.name": "t"}) == IndexSettings()
    empty = {"hoodie.index.type": "", "hoodie.bucket.index.hash.field": ""}
    assert IndexSettings.from_properties(empty) == IndexSettings()


def test_the_keys_of_the_releases() -> None:
    properties = {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": "8",
        "hoodie.bucket.index.min.num.buckets": "4",
        "hoodie.bucket.index.max.num.buckets": "32",
        "hoodie.bucket.index.hash.field": "id, k2",
        "hoodie.bucket.index.partition.expressions": "us,8;eu,2",
        "hoodie.bucket.index.partition.rule.type": "regex",
    }
    assert IndexSettings.from_properties(properties) == IndexSettings(
        index_type="BUCKET",
        engine="CONSISTENT_HASHING",
        num_buckets=8,
        min_num_buckets=4,
        max_num_buckets=32,
        hash_fields=("id", " k2"),  # Hudi does not trim
        partition_expressions="us,8;eu,2",
        partition_rule_type="regex",
    )


def test_the_names_of_the_rfcs() -> None:
    properties = {
        "hoodie.index.type": "BUCKET_HASH_INDEX",
        "hoodie.index.bucket.engine": "simple_hashing",
        "hoodie.hash.index.bucket.num": "1024",
        "hoodie.datasource.write.indexkey.field": "colA",
    }
    assert IndexSettings.from_properties(properties) == IndexSettings(
        index_type="BUCKET", engine="SIMPLE", num_buckets=1024, hash_fields=("colA",)
    )


@pytest.mark.parametrize("engine", ["DYNAMIC_HASHING", "LINEAR", "simple hashing"])
def test_unknown_engines_are_refused_where_they_count(engine: str) -> None:
    properties = {"hoodie.index.bucket.engine": engine}
    for index_type in ({}, {"hoodie.index.type": "bucket"}):
        with pytest.raises(UnsupportedError, match=engine):
            IndexSettings.from_properties({**properties, **index_type})
    other = IndexSettings.from_properties({**properties, "hoodie.index.type": "bloom"})
    assert other == IndexSettings(index_type="BLOOM")


def test_two_names_may_say_the_same_but_not_different_things() -> None:
    properties = {"hoodie.bucket.index.num.buckets": "8", "hoodie.hash.index.bucket.num": "8"}
    assert IndexSettings.from_properties(properties).num_buckets == 8
    properties["hoodie.hash.index.bucket.num"] = "16"
    with pytest.raises(IndexUnknownError, match=r"num\.buckets=8, .*bucket\.num=16; pass index="):
        IndexSettings.from_properties(properties)


@pytest.mark.parametrize("number", ["0", "-1", "four", "1.5", "٣", "+1", " 4", "9" * 5000])
def test_numbers_of_buckets_are_positive(number: str) -> None:
    with pytest.raises(CorruptError, match="not a positive number"):
        IndexSettings.from_properties({"hoodie.bucket.index.num.buckets": number})


def test_limits_hold() -> None:
    with pytest.raises(LimitError, match="num_buckets_max"):
        IndexSettings.from_properties({"hoodie.bucket.index.num.buckets": "100000000"})
    with pytest.raises(LimitError, match="num_buckets_max"):
        IndexSettings.from_properties(
            {"hoodie.bucket.index.max.num.buckets": "9"}, Limits(num_buckets_max=8)
        )
