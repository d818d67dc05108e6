"""Kryo 4 object graphs, as far as Hudi's delete blocks need them: classes, references, values.

Pure. Source: Kryo, MapReferenceResolver, Input, Output, DefaultSerializers of Kryo 4.0.2, set up as
in Hudi's SerializationUtils: references on, registration not required.

A payload names Java classes, so the reader has an allow-list: no object of another class is read or
made. Every object except null and the boxed primitives gets a number when it is first read, and may
be referred to again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar, cast

from bucketfmt.errors import CorruptError, UnsupportedError
from bucketfmt.format.encoding.cursor import Cursor

__all__ = ["KryoReader", "KryoWriter"]

_T = TypeVar("_T")

_NULL = 0  # as a class tag and as a reference
_BY_NAME = 1  # class tag; a registered class is its id + 2
_NEW = 1  # reference; an object met before is its number + 2
_U64 = (1 << 64) - 1
_ASCII_END = re.compile(rb"[\x80-\xff]")


class KryoReader:
    """Reads one object graph from a cursor.

    Args:
        cursor: Positioned at the graph; its limits bound the number of objects.
        named_classes: The classes that a payload may state by name.
        registered_classes: The classes that a payload may state by id.
    """

    def __init__(
        self,
        cursor: Cursor,
        named_classes: Collection[str],
        registered_classes: Mapping[int, str],
    ) -> None:
        self.cursor = cursor
        self._named = named_classes
        self._registered = registered_classes
        self._names: list[str] = []
        self._objects: list[tuple[str, object] | None] = []  # None while being read

    def corrupt(self, message: str) -> CorruptError:
        """Return an error at the current position."""
        return CorruptError(f"Kryo: {message}", offset=self.cursor.position)

    def java_class(self) -> str | None:
        """Return the class of the next object; None if the object is null.

        Raises:
            UnsupportedError: the class is not on the list; its bytes stay unread.
        """
        tag = self.cursor.varint(32, "class tag")
        if tag == _NULL:
            return None
        if tag != _BY_NAME:
            registered = self._registered.get(tag - 2)
            if registered is None:
                raise UnsupportedError(f"Kryo class id {tag - 2}", offset=self.cursor.position)
            return registered
        name_id = self.cursor.varint(32, "class name id")
        if name_id > len(self._names):
            raise self.corrupt(f"class name id {name_id} before its name")
        if name_id == len(self._names):
            name = self.text()
            if name not in self._named:
                raise UnsupportedError(
                    f"Java class {name[:200]!r} in a Kryo payload", offset=self.cursor.position
                )
            self._names.append(name)
        return self._names[name_id]

    def reference(self, java_class: str, read: Callable[[], _T]) -> _T | None:
        """Return the next object of `java_class`: null, new (by `read`) or read before.

        Raises:
            CorruptError: a reference points to an object that was not read yet, or has another
                class.
            LimitError: the graph has more objects than `limits.kryo_objects_max`.
        """
        marker = self.cursor.varint(32, "reference")
        if marker == _NULL:
            return None
        if marker == _NEW:
            index = self.cursor.limits.check("kryo_objects_max", len(self._objects) + 1) - 1
            self._objects.append(None)
            value = read()
            self._objects[index] = (java_class, value)
            return value
        known = self._objects[marker - 2] if marker - 2 < len(self._objects) else None
        if known is None or known[0] != java_class:
            raise self.corrupt(f"reference to object {marker - 2}, which is no {java_class}")
        return cast("_T", known[1])

    def required(self, java_class: str, read: Callable[[], _T]) -> _T:
        """Return the next object, which must be of `java_class` and not null."""
        found = self.java_class()
        if found != java_class:
            raise self.corrupt(f"{found} where {java_class} must be")
        value = self.reference(java_class, read)
        if value is None:
            raise self.corrupt(f"null where {java_class} must be")
        return value

    def size(self) -> int:
        """Return the length of an array or a byte string, which is written plus one."""
        return self.cursor.count(self.cursor.varint(32, "length") - 1, 1, "length")

    def text(self) -> str:
        """Return a string: ASCII up to a byte with its high bit set, or counted UTF-16 units.

        Raises:
            CorruptError: the string is not valid Unicode. Java strings can hold half of a surrogate
                pair; no record key does, because such a string has no UTF-8 form.
        """
        cursor = self.cursor
        start = cursor.position
        first = cursor.u8("string")
        if first < 0x80:
            last = _ASCII_END.search(cursor.data, start, cursor.end)
            size = cursor.remaining + 1 if last is None else last.start() - start
            cursor.position = start
            return str(cursor.take(size, "string"), "ascii") + chr(cursor.u8("string") & 0x7F)
        length = first & 0x3F
        if first & 0x40:
            length |= cursor.varint(26, "string length") << 6
        length = cursor.count(length - 1, 1, "string length")
        start = cursor.position
        text = bytes(cursor.take(length, "string"))
        if not text.isascii():  # a character takes one to three bytes
            cursor.position = start
            for _ in range(length):
                lead = cursor.u8("character")
                if lead >= 0xF0:
                    raise self.corrupt("a character of four bytes")
                cursor.take(0 if lead < 0x80 else 1 if lead < 0xE0 else 2, "character")
            text = bytes(cursor.data[start : cursor.position])
        try:
            halves = text.decode("utf-8", "surrogatepass")
            return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise CorruptError("Kryo: a string is not valid Unicode", offset=start) from error

    def boolean(self) -> bool:
        """Return a boolean."""
        byte = self.cursor.u8("boolean")
        if byte > 1:
            raise self.corrupt(f"boolean {byte}")
        return byte == 1

    def int_(self) -> int:
        """Return a signed 32-bit integer in zigzag form."""
        return self.cursor.zigzag(32)

    def long(self) -> int:
        """Return a signed 64-bit integer in zigzag form."""
        value = self._packed()
        return (value >> 1) ^ -(value & 1)

    def plain_long(self) -> int:
        """Return a signed 64-bit integer that is not in zigzag form."""
        value = self._packed()
        return value - (1 << 64) if value >> 63 else value

    def _packed(self) -> int:
        """Return 64 bits as Kryo packs them: eight groups of seven bits, then a whole byte."""
        result = 0
        for shift in range(0, 56, 7):
            byte = self.cursor.u8("long")
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
        return result | self.cursor.u8("long") << 56

    def number(self, size_max: int) -> int:
        """Return a big integer of at most `size_max` bytes.

        Raises:
            UnsupportedError: the number is longer.
        """
        size = self.size()
        if size > size_max:
            raise UnsupportedError(f"a big integer of {size} bytes", offset=self.cursor.position)
        return int.from_bytes(self.cursor.take(size, "number"), "big", signed=True)


class KryoWriter:
    """Writes one object graph to `out`."""

    def __init__(self) -> None:
        self.out = bytearray()
        self._names: dict[str, int] = {}
        self._objects = 0
        self._shared: dict[object, int] = {}

    def varint(self, value: int) -> None:
        """Write an unsigned integer, low seven bits first."""
        while value > 0x7F:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def int_(self, value: int) -> None:
        """Write a signed 32-bit integer in zigzag form."""
        self.varint((value << 1) ^ (value >> 31))

    def long(self, value: int) -> None:
        """Write a signed 64-bit integer in zigzag form."""
        self.plain_long((value << 1) ^ (value >> 63))

    def plain_long(self, value: int) -> None:
        """Write 64 bits: eight groups of seven bits, then a whole byte."""
        value &= _U64
        for _ in range(8):
            if value < 0x80:
                break
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def number(self, value: int) -> None:
        """Write a big integer."""
        size = (value if value >= 0 else ~value).bit_length() // 8 + 1
        self.varint(size + 1)
        self.out += value.to_bytes(size, "big", signed=True)

    def text(self, text: str) -> None:
        """Write a string.

        Raises:
            UnicodeEncodeError: the text has half of a surrogate pair.
        """
        units = text.encode("utf-16-be")
        count = len(units) // 2
        if text.isascii() and 1 < count < 64:
            self.out += text.encode()
            self.out[-1] |= 0x80
            return
        length = count + 1
        self.out.append(length & 0x3F | (0xC0 if length >> 6 else 0x80))
        if length >> 6:
            self.varint(length >> 6)
        if count == len(text):
            self.out += text.encode()
        else:  # each half of a surrogate pair is a character of its own
            halves = map(chr, struct.unpack(f">{count}H", units))
            self.out += "".join(halves).encode("utf-8", "surrogatepass")

    def null(self) -> None:
        """Write a null object or a null reference."""
        self.out.append(_NULL)

    def registered_class(self, class_id: int) -> None:
        """Write the class of the object that follows, by id."""
        self.varint(class_id + 2)

    def named_class(self, name: str) -> None:
        """Write the class of the object that follows, by name."""
        self.out.append(_BY_NAME)
        known = self._names.get(name)
        if known is not None:
            self.varint(known)
            return
        self.varint(len(self._names))
        self._names[name] = len(self._names)
        self.text(name)

    def new_reference(self) -> None:
        """Announce an object that was not met before; its body follows."""
        self.out.append(_NEW)
        self._objects += 1

    def shared_reference(self, value: object) -> bool:
        """Refer to `value` if it was announced here before; else announce it and return True."""
        known = self._shared.get(value)
        if known is not None:
            self.varint(known + 2)
            return False
        self._shared[value] = self._objects
        self.new_reference()
        return True
