"""Plans which file groups a read opens. Pure. Prunes only by a layout that is proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bucketfmt.errors import CorruptError
from bucketfmt.format.keys.record_keys import KeyDialect
from bucketfmt.format.names.paths import (
    DEFAULT_PARTITION,
    FORMER_DEFAULT_PARTITION,
    parse_partition_path,
)
from bucketfmt.format.table.table_config import KeyGenerator, TableConfig
from bucketfmt.index.layout import BucketLayout
from bucketfmt.rows.filters.filter import Filter
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = ["ScanPlan", "find_buckets", "may_hold_a_comma", "plan_partitions", "plan_slices"]

_VALUE_KEYS = (KeyGenerator.SIMPLE, KeyGenerator.TIMESTAMP, KeyGenerator.NON_PARTITION)
_UNKNOWN_KEYS = (KeyGenerator.USER_PROVIDED, KeyGenerator.AUTO_RECORD)


@dataclass(frozen=True)
class ScanPlan:
    """The file slices that a scan opens, and how many it leaves out.

    Attributes:
        slices: The file slices to open.
        partitions_pruned: Number of partitions that the filter excludes; they are not listed.
        file_groups_pruned: Number of file groups in other partitions that are excluded by hash.
        file_groups_skipped: Number of other file groups that are excluded by the statistics in the
            metadata table.
    """

    slices: tuple[FileSlice, ...]
    partitions_pruned: int = 0
    file_groups_pruned: int = 0
    file_groups_skipped: int = 0

    @property
    def size(self) -> int:
        """Bytes of all files in the plan."""
        return sum(file_slice.size for file_slice in self.slices)

    def __str__(self) -> str:
        files = sum(len(file_slice.files) for file_slice in self.slices)
        pruned = self.file_groups_pruned + self.file_groups_skipped
        return (
            f"{len(self.slices)} file groups, {files} files, {self.size} bytes; pruned "
            f"{self.partitions_pruned} partitions and {pruned} file groups"
        )

    def __repr__(self) -> str:
        return f"<bucketfmt.ScanPlan: {self}>"


def plan_partitions(
    partitions: Iterable[str], config: TableConfig, schema: pa.Schema, row_filter: Filter | None
) -> list[str]:
    """Return the partitions that may hold rows for which the filter holds.

    Prunes by = and IN on partition fields of text or integers, where the path is made of
    the column's value.
    """
    if row_filter is None or not config.partition_path_holds_values:
        return list(partitions)
    allowed: dict[int, frozenset[str | None]] = {}
    for position, field in enumerate(config.partition_fields):
        index = schema.get_field_index(field)
        if index < 0 or not _is_text_or_integer(schema.field(index).type):
            continue
        values = row_filter.key_values([field], schema)
        if values is not None:
            texts = frozenset(value for (value,) in values)
            # These three share one path component: another one up to Hudi 0.11, and an upgrade
            # may leave that in place (`hoodie.skip.default.partition.validation`).
            unset = not texts.isdisjoint({"", DEFAULT_PARTITION})
            allowed[position] = texts | {None, FORMER_DEFAULT_PARTITION} if unset else texts
    return [path for path in partitions if _may_match(path, config, allowed)]


def _is_text_or_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def _may_match(path: str, config: TableConfig, allowed: dict[int, frozenset[str | None]]) -> bool:
    if not allowed:
        return True
    try:
        values = parse_partition_path(
            path, config.partition_fields, config.hive_style, config.url_encode
        )
    except (CorruptError, ValueError):
        return True  # not made as the configuration says: proves nothing
    return all(values[position] in texts for position, texts in allowed.items())


def find_buckets(
    row_filter: Filter | None, config: TableConfig, schema: pa.Schema, layout: BucketLayout
) -> frozenset[int] | None:
    """Return the buckets that may hold rows for which the filter holds; None for all buckets.

    Prunes by = and IN on every hash field, combined by AND and OR. Values with `,` or `:` prune
    nothing, because they are ambiguous in a composite key. Up to Hudi 0.15 a hash field beside a
    key field of text prunes nothing either, because commas in that text take part in the hash.
    """
    fields = config.record_key_fields
    if row_filter is None or not fields or config.key_generator in _UNKNOWN_KEYS:
        return None
    hash_fields = [field for field in fields if field in layout.hash_fields]
    if layout.dialect is not KeyDialect.INDEX_OF and any(
        may_hold_a_comma(field, schema) for field in fields if field not in hash_fields
    ):
        return None
    rows = row_filter.key_values(hash_fields, schema) if hash_fields else None
    if rows is None:
        return None
    if not rows:
        return frozenset()
    if len(fields) == 1:
        keys = [text for (text,) in rows if text is not None]
        if config.key_generator not in _VALUE_KEYS:
            # Releases differ in how a complex key of one field is written: either may be meant.
            keys += [f"{fields[0]}:{text}" for text in keys]
        return frozenset(layout.assign(pa.array(keys, pa.string())).tolist())
    if any(text and ("," in text or ":" in text) for row in rows for text in row):
        return None
    columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
    return frozenset(layout.assign_values(columns).tolist())


def may_hold_a_comma(field: str, schema: pa.Schema) -> bool:
    """Return whether the text of a key field may hold a comma, which separates key fields."""
    index = schema.get_field_index(field)
    return index < 0 or not pa.types.is_integer(schema.field(index).type)


def plan_slices(
    slices: Sequence[FileSlice], layout: BucketLayout, wanted: frozenset[int] | None
) -> list[FileSlice]:
    """Return the slices that may hold rows of the wanted buckets; None stands for all buckets."""
    if wanted is None:
        return list(slices)
    kept = layout.may_hold([file_slice.file_id for file_slice in slices], wanted)
    return [file_slice for file_slice in slices if file_slice.file_id in kept]
