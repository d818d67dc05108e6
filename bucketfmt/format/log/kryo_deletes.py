"""Delete payloads of versions 1 (`HoodieKey[]`) and 2 (`DeleteRecord[]`): Kryo, Hudi 0.5 to 0.13.

Pure. Source: HoodieDeleteBlock, HoodieKey, DeleteRecord, ArrayComparable, SerializationUtils,
HoodieCommonKryoRegistrar. Fields of a class are in alphabetical order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from typing import Any

from bucketfmt.errors import UnsupportedError
from bucketfmt.format.encoding.cursor import Buffer, Cursor
from bucketfmt.format.encoding.kryo import KryoReader, KryoWriter
from bucketfmt.format.log.ordering_values import (
    NO_ORDERING_VALUE,
    OrderingKind,
    OrderingValue,
    RawOrderingValue,
)
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["KryoDelete", "decode_kryo_deletes", "encode_kryo_deletes"]

KryoDelete = tuple["str | None", "str | None", OrderingValue]
"""Record key, partition path, ordering value."""

_KEY = "org.apache.hudi.common.model.HoodieKey"
_KEY_ARRAY = f"[L{_KEY};"
_DELETE = "org.apache.hudi.common.model.DeleteRecord"
_DELETE_ARRAY = f"[L{_DELETE};"
_ARRAY_COMPARABLE = "org.apache.hudi.common.util.collection.ArrayComparable"
_COMPARABLES = "[Ljava.lang.Comparable;"
_STRING = "java.lang.String"
_UTF8 = "org.apache.avro.util.Utf8"
_BIG_DECIMAL = "java.math.BigDecimal"
_BIG_INTEGER = "java.math.BigInteger"
_TIMESTAMP = "java.sql.Timestamp"
_SQL_DATE = "java.sql.Date"
_LOCAL_DATE = "java.time.LocalDate"
_INSTANT = "java.time.Instant"

_NAMED_CLASSES = frozenset(
    (
        *(_KEY, _KEY_ARRAY, _DELETE, _DELETE_ARRAY, _ARRAY_COMPARABLE, _COMPARABLES, _UTF8),
        *(_BIG_DECIMAL, _BIG_INTEGER, _TIMESTAMP, _SQL_DATE, _LOCAL_DATE, _INSTANT),
    )
)

# Ids below 10 are Kryo's own. Avro's Utf8 has another id in every release of Hudi:
# 28 in 0.15, 42 in 1.0, 43 in 1.1, 44 in 1.2.
_INT, _TEXT, _FLOAT, _BOOLEAN, _LONG, _DOUBLE = 0, 1, 2, 3, 7, 8
_REGISTERED_CLASSES = {
    _INT: "int",
    _TEXT: _STRING,
    _FLOAT: "float",
    _BOOLEAN: "boolean",
    _LONG: "long",
    _DOUBLE: "double",
    **dict.fromkeys((28, 42, 43, 44), _UTF8),
}

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MILLIS = 86_400_000
_SECOND_NANOS = 1_000_000_000
_NUMBER_BYTES_MAX = 32  # as far as Arrow's decimals go
_SCALE_MAX = 76  # likewise
_F32 = struct.Struct(">f")
_F64 = struct.Struct(">d")


def decode_kryo_deletes(
    payload: Buffer, version: int, limits: Limits = DEFAULT_LIMITS
) -> list[KryoDelete]:
    """Return the deletes of a payload of version 1 or 2.

    Version 1 holds no ordering values; they become the integer 0, as in Hudi. An Avro Utf8 becomes
    a STRING.

    Raises:
        CorruptError: the bytes are not such an array.
        UnsupportedError: the payload has a Java class that is not on the list, a number that Arrow
            cannot hold, or a java.sql.Date of a writer that did not run in UTC (its zone is not
            recorded).
        LimitError: the payload has more objects than `limits.kryo_objects_max`.
    """
    reader = KryoReader(Cursor(payload, limits=limits), _NAMED_CLASSES, _REGISTERED_CLASSES)
    decoder = _Decoder(reader)
    if version == 1:
        deletes = reader.required(_KEY_ARRAY, decoder.keys)
    else:
        deletes = reader.required(_DELETE_ARRAY, decoder.deletes)
    reader.cursor.expect_end("Kryo payload")
    return deletes


class _Decoder:
    """Reads Hudi's classes, and every class an ordering value may have."""

    def __init__(self, reader: KryoReader) -> None:
        self.reader = reader
        cursor = reader.cursor
        self.primitives: dict[str, tuple[OrderingKind, Callable[[], RawOrderingValue]]] = {
            "boolean": (OrderingKind.BOOLEAN, reader.boolean),
            "int": (OrderingKind.INT, reader.int_),
            "long": (OrderingKind.LONG, reader.long),
            "float": (OrderingKind.FLOAT, cursor.f32),
            "double": (OrderingKind.DOUBLE, cursor.f64),
        }
        self.objects: dict[str, tuple[OrderingKind, Callable[[], RawOrderingValue]]] = {
            _STRING: (OrderingKind.STRING, reader.text),
            _UTF8: (OrderingKind.STRING, lambda: cursor.utf8(reader.size(), "Utf8")),
            _BIG_DECIMAL: (OrderingKind.DECIMAL, self.big_decimal),
            _BIG_INTEGER: (OrderingKind.BIG_INTEGER, lambda: reader.number(_NUMBER_BYTES_MAX)),
            _TIMESTAMP: (OrderingKind.TIMESTAMP_MICROS, self.timestamp),
            _SQL_DATE: (OrderingKind.DATE, self.sql_date),
            _LOCAL_DATE: (OrderingKind.LOCAL_DATE, self.local_date),
            _INSTANT: (OrderingKind.INSTANT, self.instant),
            _ARRAY_COMPARABLE: (OrderingKind.ARRAY, self.array_comparable),
        }

    def keys(self) -> list[KryoDelete]:
        required = self.reader.required
        return [(*required(_KEY, self.key), NO_ORDERING_VALUE) for _ in range(self.reader.size())]

    def deletes(self) -> list[KryoDelete]:
        return [self.reader.required(_DELETE, self.delete) for _ in range(self.reader.size())]

    def delete(self) -> KryoDelete:
        return (*self.reader.required(_KEY, self.key), self.ordering_value())

    def key(self) -> tuple[str | None, str | None]:
        partition_path = self.reader.reference(_STRING, self.reader.text)
        return self.reader.reference(_STRING, self.reader.text), partition_path

    def ordering_value(self, within_array: bool = False) -> OrderingValue:
        java_class = self.reader.java_class()
        if java_class is None:
            return OrderingValue(OrderingKind.NULL, None)
        if java_class in self.primitives:
            kind, read = self.primitives[java_class]
            return OrderingValue(kind, read())
        if java_class not in self.objects or (within_array and java_class == _ARRAY_COMPARABLE):
            raise self.reader.corrupt(f"{java_class} as an ordering value")
        kind, read = self.objects[java_class]
        value = self.reader.reference(java_class, read)
        return OrderingValue(OrderingKind.NULL if value is None else kind, value)

    def array_comparable(self) -> tuple[OrderingValue, ...]:
        return self.reader.required(_COMPARABLES, self.comparables)

    def comparables(self) -> tuple[OrderingValue, ...]:
        return tuple(self.ordering_value(within_array=True) for _ in range(self.reader.size()))

    def big_decimal(self) -> Decimal:
        unscaled = self.reader.number(_NUMBER_BYTES_MAX)
        scale = self.reader.int_()
        if abs(scale) > _SCALE_MAX:
            raise UnsupportedError(
                f"a BigDecimal of scale {scale}", offset=self.reader.cursor.position
            )
        return Decimal(f"{unscaled}E{-scale}")

    def timestamp(self) -> int:
        micros = self.reader.plain_long() * 1000
        if not -(1 << 63) <= micros < 1 << 63:
            raise self.reader.corrupt("timestamp out of range")
        return micros

    def sql_date(self) -> int:
        days, rest = divmod(self.reader.plain_long(), _DAY_MILLIS)
        if rest:
            raise UnsupportedError(
                "a java.sql.Date that is not midnight in UTC", offset=self.reader.cursor.position
            )
        return days

    def local_date(self) -> int:
        year = self.reader.cursor.varint(32, "year")
        month, day = self.reader.cursor.take(2, "month and day")
        try:
            return date(year, month, day).toordinal() - _EPOCH_DAY
        except (ValueError, OverflowError) as error:
            raise self.reader.corrupt(f"date {year}-{month}-{day}") from error

    def instant(self) -> int:
        seconds = self.reader.plain_long()
        nanos = self.reader.cursor.varint(32, "nanoseconds")
        if nanos >= _SECOND_NANOS:
            raise self.reader.corrupt(f"{nanos} nanoseconds")
        return seconds * _SECOND_NANOS + nanos


def encode_kryo_deletes(deletes: Iterable[KryoDelete], version: int) -> bytes:
    """Return the payload of version 1 (ordering values are left out) or 2.

    Equal keys, and equal partition paths, are written once and then referred to, as Kryo does with
    shared Java objects.

    Raises:
        UnsupportedError: Kryo in Hudi cannot write an ordering value of this kind.
    """
    rows = list(deletes)
    writer = KryoWriter()
    writer.named_class(_KEY_ARRAY if version == 1 else _DELETE_ARRAY)
    writer.new_reference()
    writer.varint(len(rows) + 1)
    for record_key, partition_path, ordering_value in rows:
        if version == 1:
            _write_key(writer, record_key, partition_path)
        else:
            writer.named_class(_DELETE)
            writer.new_reference()
            _write_key(writer, record_key, partition_path)
            _write_ordering_value(writer, ordering_value)
    return bytes(writer.out)


def _write_key(writer: KryoWriter, record_key: str | None, partition_path: str | None) -> None:
    writer.named_class(_KEY)
    if not writer.shared_reference((record_key, partition_path)):
        return
    if partition_path is None:
        writer.null()
    elif writer.shared_reference(partition_path):
        writer.text(partition_path)
    if record_key is None:
        writer.null()
    else:
        writer.new_reference()
        writer.text(record_key)


def _write_ordering_value(writer: KryoWriter, ordering_value: OrderingValue) -> None:
    kind = ordering_value.kind
    value: Any = ordering_value.value
    if kind is OrderingKind.NULL:
        writer.null()
    elif kind in _PRIMITIVE_WRITERS:
        class_id, write = _PRIMITIVE_WRITERS[kind]
        writer.registered_class(class_id)
        write(writer, value)
    elif kind in _OBJECT_WRITERS:
        name, write = _OBJECT_WRITERS[kind]
        if name == _STRING:
            writer.registered_class(_TEXT)
        else:
            writer.named_class(name)
        writer.new_reference()
        write(writer, value)
    else:
        raise UnsupportedError(f"a {kind.name} ordering value in a Kryo delete block")


def _write_big_decimal(writer: KryoWriter, value: Decimal) -> None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} as an ordering value")
    unscaled = int("".join(map(str, digits)))
    writer.number(-unscaled if sign else unscaled)
    writer.int_(-exponent)


def _write_local_date(writer: KryoWriter, days: int) -> None:
    day = date.fromordinal(days + _EPOCH_DAY)
    writer.varint(day.year)
    writer.out += bytes((day.month, day.day))


def _write_instant(writer: KryoWriter, nanos: int) -> None:
    seconds, rest = divmod(nanos, _SECOND_NANOS)
    writer.plain_long(seconds)
    writer.varint(rest)


def _write_array_comparable(writer: KryoWriter, values: tuple[OrderingValue, ...]) -> None:
    writer.named_class(_COMPARABLES)
    writer.new_reference()
    writer.varint(len(values) + 1)
    for value in values:
        _write_ordering_value(writer, value)


_Write = Callable[[KryoWriter, Any], object]

_PRIMITIVE_WRITERS: dict[OrderingKind, tuple[int, _Write]] = {
    OrderingKind.BOOLEAN: (_BOOLEAN, lambda writer, value: writer.out.append(value)),
    OrderingKind.INT: (_INT, KryoWriter.int_),
    OrderingKind.LONG: (_LONG, KryoWriter.long),
    OrderingKind.FLOAT: (_FLOAT, lambda writer, value: writer.out.extend(_F32.pack(value))),
    OrderingKind.DOUBLE: (_DOUBLE, lambda writer, value: writer.out.extend(_F64.pack(value))),
}
_OBJECT_WRITERS: dict[OrderingKind, tuple[str, _Write]] = {
    OrderingKind.STRING: (_STRING, KryoWriter.text),
    OrderingKind.DECIMAL: (_BIG_DECIMAL, _write_big_decimal),
    OrderingKind.BIG_INTEGER: (_BIG_INTEGER, KryoWriter.number),
    OrderingKind.TIMESTAMP_MICROS: (_TIMESTAMP, lambda writer, v: writer.plain_long(v // 1000)),
    OrderingKind.DATE: (_SQL_DATE, lambda writer, value: writer.plain_long(value * _DAY_MILLIS)),
    OrderingKind.LOCAL_DATE: (_LOCAL_DATE, _write_local_date),
    OrderingKind.INSTANT: (_INSTANT, _write_instant),
    OrderingKind.ARRAY: (_ARRAY_COMPARABLE, _write_array_comparable),
}
