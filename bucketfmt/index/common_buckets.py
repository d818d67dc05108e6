"""The buckets that several tables, or partitions, have in common.

Keys that are equal have one hash. Two divisions of the hashes into buckets therefore have a
coarsest common one: rows that can be equal are in one of its buckets on either side, whole, and
are joined or grouped there without being moved. For numbers of buckets it is their greatest
common divisor (RFC-29: 8 and 4), for rings the nodes that stand in all of them, for directories the
buckets that are not divided in any of them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import KeyEncodingError, SchemaError, UnsupportedError
from bucketfmt.format.keys.record_key_kernels import hash_value_columns
from bucketfmt.format.keys.record_keys import EMPTY_PLACEHOLDER, NULL_PLACEHOLDER, KeyDialect
from bucketfmt.index.layout import BucketLayout
from bucketfmt.rows.columns.java_text import java_strings

__all__ = ["CommonBuckets", "HashedColumns", "find_common_buckets"]

_Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HashedColumns:
    """The columns whose values make the hash, and how these become text.

    Attributes:
        fields: Their names, in the order they are hashed.
        types: As the table has them.
        key_fields: All fields of the record key.
        dialect: How values are found in a record key.
        names_single: Whether the key of a single field has its name, `id:7`; None: either, as
            releases wrote it.
    """

    fields: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    key_fields: tuple[str, ...]
    dialect: KeyDialect
    names_single: bool | None

    def record_keys(self, texts: Sequence[pa.Array]) -> pa.Array:
        """Return the record keys of values of all key fields, which need not be sound ones."""
        if len(texts) == 1 and not self.names_single:
            return texts[0].fill_null(NULL_PLACEHOLDER)
        parts = []
        for name, text in zip(self.fields, texts, strict=True):
            written = pc.if_else(pc.equal(text, ""), EMPTY_PLACEHOLDER, text)
            parts.append(
                pc.binary_join_element_wise(name, written.fill_null(NULL_PLACEHOLDER), ":")
            )
        return pc.binary_join_element_wise(*parts, ",")


@dataclass(frozen=True)
class CommonBuckets:
    """A division of hash values; its buckets are numbered from 0. Pickles.

    Attributes:
        columns: What is hashed.
        layout: The division, which need not be that of a partition.
        values_tell_all: Whether columns' values determine the hash. Where keys are not made
            alike on all sides, or have fields besides, they do only without `,` and `:`.
    """

    columns: HashedColumns
    layout: BucketLayout
    values_tell_all: bool = True

    @property
    def num_buckets(self) -> int:
        """How many buckets there are."""
        return len(self.layout.bucket_ids)

    def bucket_of(self, bucket_id: int) -> int:
        """Return the common bucket that a bucket of one of the partitions lies in."""
        return int(self._buckets_of(np.array([bucket_id]))[0])

    def assign_keys(self, record_keys: pa.Array | pa.ChunkedArray) -> _Ids:
        """Return the bucket of each record key.

        Raises:
            KeyEncodingError: a key on which Hudi itself never returns.
        """
        texts = hash_value_columns(record_keys, self.columns.fields, self.columns.dialect)
        return self._buckets_of(self.layout.hash_rows(texts))

    def assign_rows(self, values: Sequence[pa.Array | pa.ChunkedArray]) -> _Ids:
        """Return the bucket of each row, by the columns that are hashed. Null has one like any.

        Raises:
            SchemaError: a column is not of the table's type, nor can be made so.
            KeyEncodingError: values that do not tell how the table's keys were hashed.
        """
        return self._buckets_of(self.layout.hash_rows(self._texts(values)))

    def assign_parts(self, values: Sequence[pa.Array | pa.ChunkedArray], num_parts: int) -> _Ids:
        """Return which part of its bucket each row is in, where a bucket is too large for memory.

        Equal values are in one part: the hash is divided on, as by more buckets.
        """
        hashes = self.layout.hash_rows(self._texts(values)).astype(np.int64)
        return self.layout.divide_further(hashes, num_parts)

    def check_rows_tell(self) -> None:
        """Refuse to assign rows by their columns where record keys are written either way.

        Raises:
            UnsupportedError: they are.
        """
        if self.columns.names_single is None:
            name = self.columns.fields[0]
            raise UnsupportedError(
                f"releases write the complex record key of one field as 7 or as {name}:7, and the "
                "table does not say which, so that rows do not tell their bucket; read() the table "
                "and use Spark's own join"
            )

    def check_values(self, values: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        """Refuse rows of a table whose bucket their values do not tell.

        Raises:
            KeyEncodingError: there is one.
        """
        if self.values_tell_all:
            return
        for name, column in zip(self.columns.fields, values, strict=True):
            is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            if not is_text or not _bytes_have(column, b",:"):
                continue
            if any(pc.any(pc.match_substring(column, mark)).as_py() for mark in ",:"):
                raise KeyEncodingError(
                    f"column {name} has values with `,` or `:`, which record keys do not keep "
                    "apart, so that they do not tell the bucket; read() the tables and use "
                    "Spark's own join or groupBy"
                )

    def _buckets_of(self, hashes: _Ids) -> _Ids:
        found, ids = self.layout.buckets_of_hashes(hashes), self.layout.bucket_ids
        if isinstance(ids, range):  # found without an array of all ids for each batch
            return np.asarray((found.astype(np.int64) - ids.start) // ids.step)
        return np.searchsorted(np.array(ids), found).astype(np.int64)

    def _texts(self, values: Sequence[pa.Array | pa.ChunkedArray]) -> Sequence[pa.Array]:
        self.check_values(values)
        columns = self.columns
        texts = []
        for name, kind, column in zip(columns.fields, columns.types, values, strict=True):
            whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            try:
                text = java_strings(whole.cast(kind)).cast(pa.string())
            except pa.ArrowException as error:
                raise SchemaError(
                    f"column {name} is {column.type} and hashed as {kind}; cast it: {error}"
                ) from None
            texts.append(text)
        if columns.fields != columns.key_fields:
            return texts
        keys = columns.record_keys(texts)
        return hash_value_columns(keys, columns.fields, columns.dialect)


def _bytes_have(texts: pa.Array | pa.ChunkedArray, marks: bytes) -> bool:
    """Return whether the bytes of texts, those of nulls too, have one of the marks.

    Most have none, which shows in a tenth of the time that a search in each text takes.
    """
    for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
        _, offsets, data = chunk.buffers()
        if data is None or not len(chunk):
            continue
        kind = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
        ends = np.frombuffer(offsets, kind)
        first, last = ends[chunk.offset], ends[chunk.offset + len(chunk)]
        found = np.frombuffer(data, np.uint8)[first:last]
        if any((found == mark).any() for mark in marks):
            return True
    return False


def find_common_buckets(
    columns: Sequence[HashedColumns], layouts: Sequence[BucketLayout]
) -> CommonBuckets:
    """Return the coarsest division that all these have.

    Args:
        columns: Of each table.
        layouts: Of each partition of each table; at least one.

    Raises:
        UnsupportedError: they hash differently, or only one bucket would be left of many.
    """
    first = columns[0]
    for other in columns[1:]:
        _check_alike(first, other)
    common: BucketLayout | None = layouts[0]
    for layout in layouts[1:]:
        common = None if common is None else common.meet(layout)
    if common is None:
        raise UnsupportedError(
            "the tables have bucket indexes of different engines, so that no bucket of one is a "
            "bucket of the other; read() both and join the DataFrames"
        )
    alike = all((c.key_fields, c.dialect) == (first.key_fields, first.dialect) for c in columns)
    tells = alike and first.key_fields == first.fields
    found, finest = len(common.bucket_ids), min(len(layout.bucket_ids) for layout in layouts)
    if found < 1 or (found == 1 and finest > 1):
        raise UnsupportedError(
            "the tables' buckets have nothing in common, so that all rows would be one task's; "
            "use numbers of buckets of which one divides the other, or read() both and join the "
            "DataFrames"
        )
    return CommonBuckets(first, common, tells)


def _check_alike(one: HashedColumns, other: HashedColumns) -> None:
    if one.fields != other.fields:
        raise UnsupportedError(
            f"one table is hashed by {', '.join(one.fields)} and the other by "
            f"{', '.join(other.fields)}, so that equal rows are in different buckets; read() both "
            "and join the DataFrames"
        )
    if one.names_single is not other.names_single or one.names_single is None:
        raise UnsupportedError(
            f"record keys are written with the field's name, {one.fields[0]}:7, in one table and "
            "without in the other, or it is not known how; read() both and join the DataFrames"
        )
    for name, kind, another in zip(one.fields, one.types, other.types, strict=True):
        both_integers = pa.types.is_integer(kind) and pa.types.is_integer(another)
        if not kind.equals(another) and not both_integers:
            raise UnsupportedError(
                f"{name} is {kind} in one table and {another} in the other, and is hashed as the "
                "text of its type; read() both and join the DataFrames"
            )
