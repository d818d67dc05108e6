"""Keys against buckets: are they where they hash to, and written in one way.

Pure: record keys in, tallies and findings out. B006, B007, B009. The tally of a file slice takes
the keys batch by batch and keeps only what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.check.report import Finding
from bucketfmt.errors import KeyEncodingError
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import KeyDialect, hudi_never_returns
from bucketfmt.format.table.table_config import KeyGenerator, TableConfig
from bucketfmt.index.layout import BucketLayout
from bucketfmt.snapshot.data_files.files import FileSlice

__all__ = [
    "KeyTally",
    "describe_best_fit",
    "expected_key_prefix",
    "find_collapsing_keys",
    "find_endless_keys",
    "hash_field_choices",
    "is_misplaced",
    "key_prefix",
]

_SUSPECTS_MAX = 200_000  # keys of one slice kept for a second look
_FITTED_KEYS = 2_000
_COLLAPSED_KEYS_MIN = 16  # fewer are an odd key or two, not a collapse
_COLLAPSED_SHARE = 0.5

_NAMED_ALWAYS = frozenset({KeyGenerator.GLOBAL_DELETE})
_PLAIN_ALWAYS = frozenset(
    {
        KeyGenerator.SIMPLE,
        KeyGenerator.TIMESTAMP,
        KeyGenerator.NON_PARTITION,
        KeyGenerator.CUSTOM,
    }
)


def key_prefix(config: TableConfig) -> str | None:
    """Return what a named key of a single field begins with, `id:`; None for other keys."""
    fields = config.record_key_fields
    return f"{fields[0]}:" if len(fields) == 1 else None


def expected_key_prefix(config: TableConfig) -> bool | None:
    """Return whether the table's key generator writes that prefix; None where releases differ."""
    if config.key_generator in _NAMED_ALWAYS:
        return True
    if config.key_generator in _PLAIN_ALWAYS:
        return False
    return True if config.key_generator is KeyGenerator.COMPLEX and _is_v9(config) else None


def _is_v9(config: TableConfig) -> bool:
    return config.table_version >= 9


def is_misplaced(keys: pa.Array, layout: BucketLayout, bucket_id: int | None) -> np.ndarray:
    """Return for each key whether it hashes to another bucket; keys Hudi cannot hash do not."""
    try:
        return np.asarray(layout.assign(keys) != bucket_id)
    except KeyEncodingError:
        sound = ~_are_endless(keys, layout)
        wrong = np.zeros(len(keys), np.bool_)
        wrong[sound] = layout.assign(keys.filter(pa.array(sound))) != bucket_id
        return wrong


def _are_endless(keys: pa.Array, layout: BucketLayout) -> np.ndarray:
    """Only where a batch has such a key: looked at one by one."""
    fields = layout.hash_fields
    endless = (key is not None and hudi_never_returns(key, fields) for key in keys.to_pylist())
    return np.fromiter(endless, np.bool_, len(keys))


@dataclass
class KeyTally:
    """What the keys of one file slice are like.

    Attributes:
        file_slice: Whose keys.
        layout: Of the partition; None where the layout is unknown.
        bucket_id: That of the slice.
        prefix: `key_prefix` of the table.
        keys: How many were seen; a key that was updated counts twice.
        nulls: How many had no key.
        misplaced: How many hash to another bucket.
        suspects: Those, up to a bound.
        endless: How many Hudi 1.x never returns from, and `endless_key` one of them.
        collapsed: How many give no value to hash.
        named: How many begin with `prefix`.
    """

    file_slice: FileSlice
    layout: BucketLayout | None
    bucket_id: int | None
    prefix: str | None
    keys: int = 0
    nulls: int = 0
    misplaced: int = 0
    endless: int = 0
    endless_key: str = ""
    collapsed: int = 0
    named: int = 0
    suspects: list[pa.Array] = field(default_factory=list)
    _kept: int = 0

    def add(self, keys: pa.Array) -> None:
        """Take a batch of record keys.

        Raises:
            CorruptError: they are not UTF-8.
        """
        if keys.null_count:
            self.nulls += keys.null_count
            keys = keys.drop_null()
        self.keys += len(keys)
        if self.prefix is not None:
            begins = pc.starts_with(keys, self.prefix)
            self.named += pc.sum(begins, min_count=0).as_py()
        if self.layout is None or self.bucket_id is None or not len(keys):
            return
        try:
            values = hash_value_columns(keys, self.layout.hash_fields, self.layout.dialect)
        except KeyEncodingError:
            endless = _are_endless(keys, self.layout)
            self.endless += int(endless.sum())
            self.endless_key = self.endless_key or keys[int(endless.argmax())].as_py()
            keys = keys.filter(pa.array(~endless))
            if not len(keys):
                return
            values = hash_value_columns(keys, self.layout.hash_fields, self.layout.dialect)
        if pa.types.is_large_list(values[0].type):
            self.collapsed += pc.sum(pc.equal(pc.list_value_length(values[0]), 0)).as_py()
        misplaced = self.layout.assign_values(values) != self.bucket_id
        count = int(np.count_nonzero(misplaced))
        if count:
            self.misplaced += count
            if self._kept < _SUSPECTS_MAX:
                found = keys.filter(pa.array(misplaced)).slice(0, _SUSPECTS_MAX - self._kept)
                self._kept += len(found)
                self.suspects.append(found)


def find_endless_keys(tally: KeyTally) -> Iterator[Finding]:
    """Yield B007 for keys that Hudi 1.x never returns from."""
    if tally.endless:
        yield Finding.of(
            "B007",
            f"{tally.endless} keys, such as {tally.endless_key[:80]!r}: Hudi 1.x never returns "
            "from hashing them; a write of one hangs",
            partition=tally.file_slice.partition_path,
            bucket=tally.bucket_id,
            slices=[tally.file_slice],
        )


def find_collapsing_keys(
    keys: Mapping[str, int], collapsed: Mapping[str, int]
) -> Iterator[Finding]:
    """Yield B007 for partitions most of whose keys share a bucket for lack of a hash value.

    `keys` and `collapsed` are counts by partition path.
    """
    for partition_path, count in sorted(collapsed.items()):
        if count >= _COLLAPSED_KEYS_MIN and count > keys[partition_path] * _COLLAPSED_SHARE:
            yield Finding.of(
                "B007",
                f"{count} of {keys[partition_path]} keys give no value to hash, and so share one "
                "bucket: Hudi 0.13 to 0.15 takes what is before their ':' for a field name",
                partition=partition_path,
            )


def describe_best_fit(
    keys: pa.Array, layout: BucketLayout, bucket_id: int, key_fields: Sequence[str]
) -> str:
    """Say under which dialect and hash fields most of some misplaced keys would be at home."""
    sample = keys.slice(0, _FITTED_KEYS)
    best, best_text = 0, ""
    for dialect in KeyDialect:
        for fields in hash_field_choices(key_fields):
            other = layout.hashed_by(fields, dialect)
            try:
                fitting = len(sample) - int(is_misplaced(sample, other, bucket_id).sum())
            except KeyEncodingError:
                continue
            if fitting > best:
                best = fitting
                best_text = f"dialect {dialect.value}, hash fields {', '.join(fields)}"
    if best * 2 <= len(sample):
        return "no dialect and hash fields fit most of them"
    return f"{best_text} fits {best} of {len(sample)} of them"


def hash_field_choices(key_fields: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a key that buckets may be hashed by, more fields before fewer."""
    for size in range(len(key_fields), 0, -1):
        yield from combinations(key_fields, size)
