"""Ordering values as delete blocks store them: a Java class and a value.

Pure. Source: OrderingValues, ArrayComparable, HoodieAvroWrapperUtils. The class matters as much as
the value: Hudi takes the integer 0 for "no ordering value", but not the long 0, and a delete wins
over a record whose ordering value has another class.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Union

__all__ = ["NO_ORDERING_VALUE", "OrderingKind", "OrderingValue", "RawOrderingValue"]


class OrderingKind(IntEnum):
    """The class of an ordering value. 0..12 are the branches of the Avro union (version 3).

    The comment names the Python value that goes with a kind.
    """

    NULL = 0  # None
    BOOLEAN = 1  # bool
    INT = 2  # int, 32 bits
    LONG = 3  # int, 64 bits
    FLOAT = 4  # float
    DOUBLE = 5  # float
    BYTES = 6  # bytes
    STRING = 7  # str
    DATE = 8  # int, days since 1970-01-01: java.sql.Date
    DECIMAL = 9  # decimal.Decimal; in Avro always with 15 fraction digits
    TIME_MICROS = 10  # int, microseconds
    TIMESTAMP_MICROS = 11  # int, microseconds since the epoch: java.sql.Timestamp
    ARRAY = 12  # tuple of OrderingValue, none of them ARRAY: several ordering fields
    LOCAL_DATE = 13  # int, days since 1970-01-01: java.time.LocalDate; in Avro only inside ARRAY
    INSTANT = 14  # int, nanoseconds since the epoch: java.time.Instant; Kryo only
    BIG_INTEGER = 15  # int; Kryo only


RawOrderingValue = Union[  # noqa: UP007  (a runtime alias, and Python 3.10 has no other way for it)
    None, bool, int, float, bytes, str, Decimal, tuple["OrderingValue", ...]
]


@dataclass(frozen=True, slots=True)
class OrderingValue:
    """One ordering value: equal only if kind and value are."""

    kind: OrderingKind
    value: RawOrderingValue


NO_ORDERING_VALUE = OrderingValue(OrderingKind.INT, 0)
"""The value that Hudi writes for a delete without ordering value."""
