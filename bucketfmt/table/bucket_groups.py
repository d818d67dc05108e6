"""Groups the buckets of several scans, for joins and aggregations without a shuffle.

Planning lists files. It opens data files only where keys have to prove the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bucketfmt.errors import IndexUnknownError, UnsupportedError
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.table.table_config import KeyGenerator, TableConfig
from bucketfmt.index.common_buckets import CommonBuckets, HashedColumns, find_common_buckets
from bucketfmt.index.layout import BucketLayout
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.snapshot.data_files.files import FileSlice
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.table.plan_read import may_hold_a_comma
from bucketfmt.table.read_tasks import ReadTask

__all__ = ["BucketGroups", "BucketedScan", "plan_bucketed_scan", "plan_groups"]


@dataclass(frozen=True)
class BucketedScan:
    """The file slices of a scan and their buckets.

    Attributes:
        columns: The hash fields.
        layouts: Of each partition, by path.
        slices: (file slice, bucket id).
    """

    columns: HashedColumns
    layouts: dict[str, BucketLayout]
    slices: tuple[tuple[FileSlice, int], ...]


@dataclass(frozen=True)
class BucketGroups:
    """The parts of several scans in each bucket that they have in common.

    Attributes:
        buckets: The common buckets; pickles.
        tasks: For each scan and each bucket, the tasks to read, each with its partition.
    """

    buckets: CommonBuckets
    tasks: tuple[tuple[tuple[tuple[str, ReadTask], ...], ...], ...]


def plan_bucketed_scan(
    snapshot: Snapshot, index_finder: IndexFinder, slices: Sequence[FileSlice]
) -> BucketedScan:
    """Return the buckets of a scan's slices.

    Raises:
        IndexUnknownError: the index is unknown, has no buckets, or leaves out file groups.
        UnsupportedError: a hash field is not a column, or equal values of its type may have
            different hashes.
        ValueError: `index` of `open` contradicts the table's file groups.
    """
    found: dict[str, BucketLayout] = {}
    for path in dict.fromkeys(file_slice.partition_path for file_slice in slices) or [""]:
        found[path] = index_finder.layout(snapshot, path)
    of_bucket = []
    for file_slice in slices:
        bucket_id = found[file_slice.partition_path].bucket_of(file_slice.file_id)
        if bucket_id is None:
            raise IndexUnknownError(
                f"file group {file_slice.file_id} is in no bucket of the index, so hashing does "
                "not tell which keys it holds; pass the index= it was written with, or read() the "
                "table",
                partition=file_slice.partition_path,
            )
        of_bucket.append((file_slice, bucket_id))
    some = next(iter(found.values()))
    config, schema = snapshot.state.config, snapshot.schema.data
    fields = tuple(name for name in config.record_key_fields if name in some.hash_fields)
    types = tuple(_hashed_type(schema, name) for name in fields)
    others = [name for name in config.record_key_fields if name not in fields]
    if some.dialect is not KeyDialect.INDEX_OF and any(may_hold_a_comma(n, schema) for n in others):
        raise UnsupportedError(
            f"a table of version {config.table_version} is hashed by {', '.join(fields)} and by "
            f"what follows a comma in {', '.join(others)}; read() the table and use Spark's join"
        )
    columns = HashedColumns(
        fields, types, config.record_key_fields, some.dialect, _names_single(config)
    )
    return BucketedScan(columns, found, tuple(of_bucket))


def _names_single(config: TableConfig) -> bool | None:
    if len(config.record_key_fields) > 1:
        return False
    if config.key_generator is KeyGenerator.GLOBAL_DELETE:
        return True
    if config.key_generator is KeyGenerator.COMPLEX:
        return True if config.table_version >= 9 else None
    return False


def _hashed_type(schema: pa.Schema, name: str) -> pa.DataType:
    index = schema.get_field_index(name)
    if index < 0:
        raise UnsupportedError(
            f"the hash field {name} is no column of its own; read() the table and use Spark's join"
        )
    kind = schema.field(index).type
    if pa.types.is_floating(kind):
        raise UnsupportedError(
            f"the hash field {name} is {kind}, of which equal values (0.0 and -0.0) may have "
            "different texts, and so buckets; read() the table and use Spark's join"
        )
    return kind


def plan_groups(scans: Sequence[BucketedScan]) -> BucketGroups:
    """Return the parts of each scan in each bucket that the scans have in common. Pure.

    Raises:
        UnsupportedError: the scans have no bucket in common.
    """
    common = find_common_buckets(
        [scan.columns for scan in scans],
        [layout for scan in scans for layout in scan.layouts.values()],
    )
    tasks = []
    for scan in scans:
        groups: list[list[tuple[str, ReadTask]]] = [[] for _ in range(common.num_buckets)]
        for file_slice, bucket_id in scan.slices:
            group = groups[common.bucket_of(bucket_id)]
            group.append((file_slice.partition_path, ReadTask.of(file_slice)))
        tasks.append(tuple(tuple(group) for group in groups))
    return BucketGroups(common, tuple(tasks))
