"""Formats of record keys, buckets, partition rules and rings."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from bucketfmt.format.buckets.child_nodes import find_ring_changes
from bucketfmt.format.buckets.extendible_directory import (
    DirectoryBucket,
    buddy_of,
    directory_entries,
    merge_bucket,
    split_bucket,
)
from bucketfmt.format.buckets.extendible_metadata import (
    ExtendibleMetadata,
    choose_extendible_metadata,
    decode_extendible_metadata,
    encode_extendible_metadata,
    initial_extendible_metadata,
)
from bucketfmt.format.buckets.hashing_metadata import (
    HashingMetadata,
    choose_hashing_metadata,
    decode_hashing_metadata,
    encode_hashing_metadata,
    initial_hashing_metadata,
)
from bucketfmt.format.buckets.partition_rules import (
    PartitionBucketRules,
    choose_hashing_config,
    decode_hashing_config,
    encode_hashing_config,
)
from bucketfmt.format.buckets.rehashes import REHASH, Rehash, find_num_buckets
from bucketfmt.format.buckets.ring import (
    HashingNode,
    apply_children,
    find_node,
    find_node_indexes,
    initial_ring,
    merge_nodes,
    split_node,
)
from bucketfmt.format.keys.hashing import (
    HASH_VALUE_MASK,
    bucket_of_hash,
    java_list_hash,
    java_string_hash,
    xxhash32,
)
from bucketfmt.format.keys.hashing_kernels import java_list_hashes, java_string_hashes, xxhash32s
from bucketfmt.format.keys.record_keys import (
    KeyDialect,
    KeyEncoding,
    dialect_for_table_version,
    extract_hash_values,
    format_record_key,
)
from bucketfmt.format.table.table_config import KeyGenerator
from bucketfmt.format.timeline.plans import ClusteringGroup, ClusteringPlan
from bucketfmt.index.infer import infer_num_buckets
from bucketfmt.index.layout import DirectoryBuckets, FixedBuckets, RingBuckets
from bucketfmt.location.file_groups.plan_groups import place_new_keys
from bucketfmt.rows.columns.java_text import java_strings
from tests.spec.formats.values import Json, as_bytes

__all__ = ["FORMATS"]


def record_key(question: Json) -> Json:
    return format_record_key(
        question["fields"],
        question["values"],
        KeyGenerator(question["key_generator"]),
        KeyEncoding(question["encoding"]),
    )


def key_text(question: Json) -> Json:
    kind, value = question["type"], question["value"]
    if kind in ("float", "double"):
        value = float(value)
    elif kind == "decimal":
        value = Decimal(value)
    elif kind not in ("boolean", "string"):
        value = int(value)
    found = java_strings(pa.array([value], _KEY_TYPES[kind])).to_pylist()
    return found[0]


_KEY_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal": None,
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}


def hash_values(question: Json) -> Json:
    dialect = KeyDialect(question["dialect"])
    return extract_hash_values(question["key"], question["fields"], dialect)


def java_string_hash_of_units(data: bytes) -> Json:
    text = data.decode("utf-16-le")
    assert java_string_hashes(pa.array([text])).tolist() == [java_string_hash(text)]
    return java_string_hash(text)


def java_list_hash_of(values: Json) -> Json:
    columns = [pa.array([value], pa.string()) for value in values]
    if columns:
        assert java_list_hashes(columns).tolist() == [java_list_hash(values)]
    return java_list_hash(values)


def bucket_id(question: Json) -> Json:
    fields, dialect = tuple(question["fields"]), KeyDialect(question["dialect"])
    buckets = FixedBuckets(question["num_buckets"], fields, dialect)
    values = extract_hash_values(question["key"], fields, dialect)
    bucket = bucket_of_hash(java_list_hash(values), question["num_buckets"])
    assert buckets.assign(pa.array([question["key"]])).tolist() == [bucket]
    return bucket


def infer(question: Json) -> Json:
    return infer_num_buckets(
        np.array(question["hashes"], np.int32),
        np.array(question["buckets"], np.int64),
        question["largest_bucket"],
    )


def hashing_config(data: bytes | str) -> Json:
    return msgspec.to_builtins(decode_hashing_config(as_bytes(data)))


def hashing_config_text(value: Json) -> Json:
    return encode_hashing_config(msgspec.convert(value, PartitionBucketRules)).decode()


def partition_buckets(question: Json) -> Json:
    rules = PartitionBucketRules(question["expressions"], question["default"], question["rule"])
    return rules.num_buckets_for(question["path"])


def hashing_config_choice(question: Json) -> Json:
    return choose_hashing_config(
        question["instants"],
        question["pending"],
        question.get("archived", ()),
        question.get("as_of"),
    )


def _ring(values: list[int]) -> list[HashingNode]:
    return [HashingNode(value, f"f{value}") for value in values]


def _nodes(nodes: Json) -> Json:
    return None if nodes is None else msgspec.to_builtins(list(nodes))


def ring_hash(values: Json) -> Json:
    joined = "".join("null" if value is None else value for value in values)
    hashed = xxhash32(joined.encode()) & HASH_VALUE_MASK
    columns = [pa.array([value], pa.string()) for value in values]
    assert (xxhash32s(columns) & HASH_VALUE_MASK).tolist() == [hashed]
    return hashed


def ring_node(question: Json) -> Json:
    ring = question["ring"]
    node = find_node(_ring(ring), question["hash"])
    index = find_node_indexes(np.array(ring), np.array([question["hash"]]))
    assert ring[index[0]] == node.value
    return node.value


def ring_node_of_key(question: Json) -> Json:
    buckets = RingBuckets(
        tuple(_ring(question["ring"])), tuple(question["fields"]), KeyDialect(question["dialect"])
    )
    return buckets.assign(pa.array([question["key"]])).tolist()[0]


def ring_split(question: Json) -> Json:
    first, second = question["prefixes"]
    return _nodes(split_node(_ring(question["ring"]), question["value"], (first, second)))


def ring_merge(question: Json) -> Json:
    return _nodes(merge_nodes(_ring(question["ring"]), question["values"], question["prefix"]))


def ring_apply(question: Json) -> Json:
    nodes, children = (
        msgspec.convert(question[name], list[HashingNode]) for name in ("nodes", "children")
    )
    return _nodes(apply_children(nodes, children))


def resize(question: Json) -> Json:
    metadata = msgspec.convert(question["metadata"], HashingMetadata)
    groups = [ClusteringGroup(extra_metadata=group) for group in question["groups"]]
    instant = "20240102030405678"
    (change,) = find_ring_changes(ClusteringPlan(input_groups=groups), instant).values()
    after = change.apply(metadata)
    assert (after.instant, after.seq_no) == (instant, metadata.seq_no + 1)
    return _nodes(after.nodes)


def hashing_metadata(data: bytes | str) -> Json:
    return msgspec.to_builtins(decode_hashing_metadata(as_bytes(data)))


def hashing_metadata_text(value: Json) -> Json:
    return encode_hashing_metadata(msgspec.convert(value, HashingMetadata)).decode()


def initial_metadata(question: Json) -> Json:
    metadata = initial_hashing_metadata(question["partition_path"], question["num_buckets"])
    return encode_hashing_metadata(metadata).decode()


def hashing_metadata_choice(question: Json) -> Json:
    return choose_hashing_metadata(
        question["instants"],
        question["markers"],
        question["completed"],
        question["pending"],
        question["with_base_file"].__contains__,
    )


def _buckets(values: Json) -> list[DirectoryBucket]:
    return msgspec.convert(values, list[DirectoryBucket])


def directory_bucket_of_key(question: Json) -> Json:
    buckets = DirectoryBuckets(
        tuple(_buckets(question["buckets"])),
        tuple(question["fields"]),
        KeyDialect(question["dialect"]),
    )
    return buckets.assign(pa.array([question["key"]])).tolist()[0]


def directory_split(question: Json) -> Json:
    low, high = question["prefixes"]
    return _nodes(split_bucket(_buckets(question["buckets"]), question["bucket_id"], (low, high)))


def directory_merge(question: Json) -> Json:
    buckets, bucket_id = _buckets(question["buckets"]), question["bucket_id"]
    if buddy_of(buckets, bucket_id) is None:
        return None
    return _nodes(merge_bucket(buckets, bucket_id, question["prefix"]))


def initial_directory(question: Json) -> Json:
    metadata = initial_extendible_metadata(question["partition_path"], question["num_buckets"])
    return msgspec.to_builtins(metadata)


def extendible_metadata_text(value: Json) -> Json:
    return encode_extendible_metadata(msgspec.convert(value, ExtendibleMetadata)).decode()


def extendible_metadata_choice(question: Json) -> Json:
    return choose_extendible_metadata(question["instants"], question["visible"].__contains__)


def rehashed_number(question: Json) -> Json:
    found = [Rehash.find({REHASH: text}) for text in question["entries"]]
    rehashes = [rehash for rehash in found if rehash is not None]
    return find_num_buckets(question["stated"], rehashes, set(question["completed"]).__contains__)


def new_key_groups(question: Json) -> Json:
    keys = pa.array(question["keys"], pa.string())
    sizes, size = question["sizes"], question["group_bytes"]
    taker, groups = place_new_keys(keys, sizes, size, question["row_bytes"])
    return {"taker": taker, "groups": groups.tolist()}


FORMATS: dict[str, Callable[[Any], Json]] = {
    "bucket-id": bucket_id,
    "directory-bucket-of-key": directory_bucket_of_key,
    "directory-entries": lambda q: directory_entries(_buckets(q)).tolist(),
    "directory-merge": directory_merge,
    "directory-split": directory_split,
    "extendible-metadata": lambda data: msgspec.to_builtins(
        decode_extendible_metadata(as_bytes(data))
    ),
    "extendible-metadata-choice": extendible_metadata_choice,
    "extendible-metadata-text": extendible_metadata_text,
    "hash-values": hash_values,
    "hashing-config": hashing_config,
    "hashing-config-choice": hashing_config_choice,
    "hashing-config-text": hashing_config_text,
    "hashing-metadata": hashing_metadata,
    "hashing-metadata-choice": hashing_metadata_choice,
    "hashing-metadata-text": hashing_metadata_text,
    "infer-num-buckets": infer,
    "initial-extendible-metadata": initial_directory,
    "initial-hashing-metadata": initial_metadata,
    "initial-ring": lambda q: _nodes(initial_ring(q["partition_path"], q["num_buckets"])),
    "java-list-hash": java_list_hash_of,
    "java-string-hash": java_string_hash_of_units,
    "key-text": key_text,
    "key-dialect": lambda version: dialect_for_table_version(version).value,
    "new-key-groups": new_key_groups,
    "partition-buckets": partition_buckets,
    "record-key": record_key,
    "rehashed-number": rehashed_number,
    "resize": resize,
    "ring-apply": ring_apply,
    "ring-hash": ring_hash,
    "ring-merge": ring_merge,
    "ring-node": ring_node,
    "ring-node-of-key": ring_node_of_key,
    "ring-split": ring_split,
    "xxhash32": lambda text: xxhash32(text.encode()),
}
