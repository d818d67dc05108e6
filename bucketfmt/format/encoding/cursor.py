"""A bounded reader over bytes, which checks every length that a file states.

Every count or length is compared with the remaining bytes before anything is sliced or allocated,
so no value in a file can make the process allocate more than the file holds. Pure: no I/O.
"""

from __future__ import annotations

import struct

from bucketfmt.errors import CorruptError, TruncatedError
from bucketfmt.limits import DEFAULT_LIMITS, Limits

__all__ = ["Buffer", "Cursor"]

Buffer = bytes | bytearray | memoryview

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_F32 = struct.Struct(">f")
_F64 = struct.Struct(">d")


class Cursor:
    """Reads big-endian values from `data[start:end]`, moving `position` forward.

    `position` counts from the beginning of `data`, so that errors state the offset in the whole
    buffer.
    """

    __slots__ = ("data", "end", "limits", "position")

    def __init__(
        self,
        data: Buffer,
        start: int = 0,
        end: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.data = memoryview(data).cast("B") if not isinstance(data, memoryview) else data
        self.position = start
        self.end = len(self.data) if end is None else end
        self.limits = limits
        if not 0 <= start <= self.end <= len(self.data):
            raise ValueError(f"span {start}..{self.end} is outside {len(self.data)} bytes")

    @property
    def remaining(self) -> int:
        """Bytes left."""
        return self.end - self.position

    def take(self, size: int, what: str = "bytes") -> memoryview:
        """Return a view of the next `size` bytes.

        Raises:
            CorruptError: `size` is negative.
            TruncatedError: fewer than `size` bytes are left.
        """
        if size < 0:
            raise CorruptError(f"{what}: negative length {size}", offset=self.position)
        if size > self.remaining:
            raise TruncatedError(
                f"{what}: {size} bytes wanted, {self.remaining} left", offset=self.position
            )
        view = self.data[self.position : self.position + size]
        self.position += size
        return view

    def u8(self, what: str = "byte") -> int:
        """Return the next byte, 0..255."""
        return self.take(1, what)[0]

    def i32(self, what: str = "int32") -> int:
        """Return a signed 32-bit big-endian integer."""
        value: int = _I32.unpack(self.take(4, what))[0]
        return value

    def i64(self, what: str = "int64") -> int:
        """Return a signed 64-bit big-endian integer."""
        value: int = _I64.unpack(self.take(8, what))[0]
        return value

    def f32(self, what: str = "float") -> float:
        """Return a big-endian 32-bit float."""
        value: float = _F32.unpack(self.take(4, what))[0]
        return value

    def f64(self, what: str = "double") -> float:
        """Return a big-endian 64-bit float."""
        value: float = _F64.unpack(self.take(8, what))[0]
        return value

    def varint(self, bits: int = 64, what: str = "varint") -> int:
        """Return an unsigned little-endian base-128 integer of at most `bits` bits.

        Raises:
            CorruptError: the value is longer than `bits` bits.
        """
        start, result, shift = self.position, 0, 0
        while True:
            byte = self.u8(what)
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits + 6:
                raise CorruptError(f"{what}: longer than {bits} bits", offset=start)
        if result >> bits:
            raise CorruptError(f"{what}: longer than {bits} bits", offset=start)
        return result

    def zigzag(self, bits: int = 64, what: str = "zigzag varint") -> int:
        """Return a signed base-128 integer in zigzag form (Avro's and Kryo's int and long)."""
        value = self.varint(bits, what)
        return (value >> 1) ^ -(value & 1)

    def count(self, value: int, item_bytes_min: int, what: str) -> int:
        """Return `value` if that many items of at least `item_bytes_min` bytes can still follow.

        Checks a count before a list of that size is made.

        Raises:
            CorruptError: the count is negative, or the items cannot fit in the remaining bytes.
        """
        if value < 0:
            raise CorruptError(f"{what}: negative count {value}", offset=self.position)
        if value * item_bytes_min > self.remaining:
            raise TruncatedError(
                f"{what}: {value} items cannot fit in the {self.remaining} bytes left",
                offset=self.position,
            )
        return value

    def utf8(self, size: int, what: str = "text") -> str:
        """Return the next `size` bytes as UTF-8 text.

        Raises:
            CorruptError: the bytes are not UTF-8.
        """
        start = self.position
        try:
            return str(self.take(size, what), "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptError(f"{what}: not UTF-8", offset=start) from error

    def expect_end(self, what: str) -> None:
        """Check that no bytes are left.

        Raises:
            CorruptError: bytes follow.
        """
        if self.remaining:
            raise CorruptError(
                f"{what}: {self.remaining} bytes follow the last value", offset=self.position
            )
