"""Ordering values of many records, compared in pairs as Java compares them.

Pure. Sources: OrderingValues, ArrayComparable, RecordContext.getOrderingValue;
OrderingValueEngineTypeConverter for the classes of a delete block's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bucketfmt.format.log.delete_records import DeleteBlock
from bucketfmt.format.log.ordering_values import OrderingKind, OrderingValue

__all__ = ["DeleteOrdering", "Indexes", "Mask", "OrderingValues", "find_delete_ordering"]

Mask = NDArray[np.bool_]
Indexes = NDArray[np.int64]
_Comparable: TypeAlias = "NDArray[np.int64] | pa.Array"

_LEAST = np.iinfo(np.int64).min
_INT_CLASSES = (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_date32)


@dataclass(frozen=True, slots=True, eq=False)
class OrderingValues:
    """The ordering values of some records, one comparable column per ordering field.

    Several fields compare as a tuple. Null is Hudi's default, the integer 0. In a column of Java
    integers (int, date) null equals 0; in any other column, where Hudi cannot compare the two and
    fails, null is less than every value.
    """

    columns: tuple[_Comparable, ...]

    @classmethod
    def of(cls, columns: Sequence[pa.ChunkedArray], null_is_zero: bool) -> OrderingValues:
        """Return the values in `columns`; there is one column per ordering field.

        `null_is_zero=False`: null is less than every value in integer columns too.
        """
        return cls(tuple(_comparable(column, null_is_zero) for column in columns))

    def take(self, indexes: Indexes) -> OrderingValues:
        """Return the values of the records at `indexes`."""
        return OrderingValues(tuple(_take(column, indexes) for column in self.columns))

    def as_bytes(self) -> OrderingValues:
        """Return the values as Hudi 0.15 compares those of two records of a log.

        It has a decimal as the bytes of Avro's `fixed` there, and compares them as if they had no
        sign: a negative decimal is greater than any other. Source: GenericData.Fixed.compareTo.
        """
        return OrderingValues(tuple(map(_as_bytes, self.columns)))

    def greater(self, indexes: Indexes, other: OrderingValues, other_indexes: Indexes) -> Mask:
        """Return for each pair of records whether the first has the greater ordering value."""
        result = np.zeros(len(indexes), np.bool_)
        equal = np.ones(len(indexes), np.bool_)
        for mine, others in zip(self.columns, other.columns, strict=True):
            left, right = _take(mine, indexes), _take(others, other_indexes)
            result |= equal & _greater(left, right)
            if len(self.columns) > 1:
                equal &= ~_greater(left, right) & ~_greater(right, left)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class DeleteOrdering:
    """The ordering values of delete block entries, in terms of the table's ordering columns.

    Attributes:
        columns: One per ordering field, of its type; null where `is_comparable` is False.
        is_default: The delete was issued without an ordering value.
        is_comparable: The value is of the Java class that the ordering columns have.
    """

    columns: tuple[pa.Array, ...]
    is_default: Mask
    is_comparable: Mask


def find_delete_ordering(
    block: DeleteBlock, types: Sequence[pa.DataType], legacy: bool
) -> DeleteOrdering:
    """Return how the entries of a delete block order among rows.

    Args:
        block: The delete block.
        types: Types of the ordering columns.
        legacy: Merge as Hudi 0.15: a string or decimal has another class in a row than in a block.
    """
    kinds = np.frombuffer(block.ordering_kinds, np.uint8)
    values = np.empty(len(kinds), object)
    values[:] = block.ordering_values
    is_zero = values == 0
    is_default = (kinds == OrderingKind.NULL) | ((kinds == OrderingKind.INT) & is_zero)
    if len(types) > 1:
        columns, is_comparable = _tuple_columns(kinds, values, types, legacy)
    else:
        is_comparable = np.isin(kinds, _kinds_of(types[0], legacy))
        columns = [_column(values, is_comparable, types[0])]
    return DeleteOrdering(tuple(columns), is_default, is_comparable)


def _tuple_columns(
    kinds: NDArray[np.uint8], values: NDArray[Any], types: Sequence[pa.DataType], legacy: bool
) -> tuple[list[pa.Array], Mask]:
    is_comparable = kinds == OrderingKind.ARRAY
    is_comparable[is_comparable] = [len(found) == len(types) for found in values[is_comparable]]
    elements: list[NDArray[Any]] = []
    for position, kind in enumerate(types):
        column = np.empty(len(kinds), object)
        items: list[OrderingValue] = [found[position] for found in values[is_comparable]]
        column[is_comparable] = [item.value for item in items]
        elements.append(column)
        same = np.isin([int(item.kind) for item in items], _kinds_of(kind, legacy))
        is_comparable[is_comparable] = same
    columns = zip(elements, types, strict=True)
    return [_column(column, is_comparable, kind) for column, kind in columns], is_comparable


def _kinds_of(kind: pa.DataType, legacy: bool) -> list[int]:
    """Return the kinds of delete ordering values that share their Java class with a row's.

    Dates and timestamps are plain numbers in a row, but not in a delete block that holds them
    as dates and timestamps.
    """
    for test, found in (
        (pa.types.is_boolean, OrderingKind.BOOLEAN),
        *((test, OrderingKind.INT) for test in _INT_CLASSES),
        (pa.types.is_int64, OrderingKind.LONG),
        (pa.types.is_timestamp, OrderingKind.LONG),
        (pa.types.is_float32, OrderingKind.FLOAT),
        (pa.types.is_float64, OrderingKind.DOUBLE),
        (pa.types.is_binary, OrderingKind.BYTES),
    ):
        if test(kind):
            return [int(found)]
    if not legacy and pa.types.is_string(kind):
        return [int(OrderingKind.STRING)]
    if not legacy and pa.types.is_decimal(kind):
        return [int(OrderingKind.DECIMAL)]
    return []


def _column(values: NDArray[Any], is_comparable: Mask, kind: pa.DataType) -> pa.Array:
    """Return `values` as an array of `kind`, null where not comparable."""
    if not is_comparable.any():
        return pa.nulls(len(values), kind)
    values = values.copy()
    values[~is_comparable] = None
    if pa.types.is_decimal(kind):  # stored with 15 fraction digits, whatever the column has
        return pa.array(values, pa.decimal128(38, 15)).cast(kind, safe=False)
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        storage = pa.int64() if pa.types.is_timestamp(kind) else pa.int32()
        return pa.array(values, storage).cast(kind)
    return pa.array(values, kind)


def _comparable(column: pa.ChunkedArray, null_is_zero: bool) -> _Comparable:
    """Return 64-bit integers in the same order; an Arrow array if the type has none."""
    kind = column.type
    least = 0 if null_is_zero and any(test(kind) for test in _INT_CLASSES) else _LEAST
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        numbers = column.cast(pa.float64())
        bits = pc.fill_null(numbers, 0.0).to_numpy().copy()
        bits[np.isnan(bits)] = np.nan  # all NaN are one, and greater than everything
        integers = bits.view(np.int64)
        integers = integers ^ ((integers >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        integers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    elif pa.types.is_date32(kind):
        integers = pc.fill_null(column.cast(pa.int32()).cast(pa.int64()), 0).to_numpy()
    elif pa.types.is_timestamp(kind):
        integers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    else:
        if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
            column = column.cast(pa.large_string())
        elif pa.types.is_binary(kind):
            column = column.cast(pa.large_binary())
        combined = column.combine_chunks()
        return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
    if column.null_count and least:
        integers = np.where(column.is_null().to_numpy(), least, integers)
    return integers


def _as_bytes(column: _Comparable) -> _Comparable:
    """Return a column whose order is that of the bytes of its values."""
    if isinstance(column, np.ndarray) or not pa.types.is_decimal(column.type):
        return column
    wide = column.cast(pa.decimal256(column.type.precision + 2, column.type.scale))
    above = Decimal(2).scaleb(column.type.precision - column.type.scale)
    negative = pc.less(wide, pa.scalar(Decimal(0), wide.type))
    raised = pc.add(wide, pa.scalar(above, wide.type)).cast(wide.type)
    return pc.if_else(negative, raised, wide)


def _take(column: _Comparable, indexes: Indexes) -> _Comparable:
    return column[indexes] if isinstance(column, np.ndarray) else column.take(pa.array(indexes))


def _greater(left: _Comparable, right: _Comparable) -> Mask:
    if isinstance(left, np.ndarray):
        result: Mask = left > right
        return result
    answer = pc.fill_null(pc.greater(left, right), False)
    answer = pc.or_(answer, pc.and_(pc.is_valid(left), pc.is_null(right)))
    return np.asarray(answer.to_numpy(zero_copy_only=False), np.bool_)
