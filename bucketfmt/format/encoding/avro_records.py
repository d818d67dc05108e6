"""Many structures as Avro records of one schema: the files of a commit, which may be a million.

Pure. fastavro finds the branch of each union anew, and makes a dict of each record: it takes
several times as long. The fields of such records may be null, and most of their values recur:
numbers are looked up, encoded or decoded, and the end of a record is compared with the last one's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from bucketfmt.errors import CorruptError
from bucketfmt.format.encoding.avro_container import AvroSchema, encode_datum

__all__ = [
    "OtherAvroTypeError",
    "RecordDecoder",
    "RecordEncoder",
    "decode_count",
    "decode_text",
    "encode_long",
    "encode_text",
]

_NULL, _PRESENT = b"\x00", b"\x02"  # the branches of a union of null and a type
_END = b"\x00"  # of an array or a map
_NUMBERS_KEPT = 4096
_RANGES = {"int": 1 << 31, "long": 1 << 63}
_LONG_BITS = 64
_VARYING_STEPS = 6  # file id, path, commit before, numbers, partition, numbers; then mostly nulls

_Step = Callable[[bytes, int, list[Any]], int]
"""Reads fields of a record at an offset, appends their values, and returns the offset after."""


class OtherAvroTypeError(Exception):
    """A value is of a type that is not decoded here, but by fastavro."""


class RecordEncoder:
    """Encodes structures of one class as records whose fields may all be null."""

    def __init__(self, schema: AvroSchema, kind: type[msgspec.Struct]) -> None:
        """Prepare.

        Args:
            schema: A record; each field is a union of null and another type.
            kind: Has the fields of the record by its encoded names, and perhaps others.
        """
        names, fields = kind.__struct_encode_fields__, schema["fields"]
        self._pick = itemgetter(*(names.index(field["name"]) for field in fields))
        self._encoders = [_encoder(field["type"]) for field in fields]

    def encode(self, values: Iterable[msgspec.Struct]) -> Iterator[bytes]:
        """Yield the record of each structure.

        Raises:
            OverflowError: a number does not fit its field.
            UnicodeEncodeError: a text is not Unicode.
        """
        encoders, pick, astuple = self._encoders, self._pick, msgspec.structs.astuple
        for value in values:
            fields = zip(encoders, pick(astuple(value)), strict=True)
            yield b"".join([encode(field) for encode, field in fields])


class RecordDecoder:
    """Decodes records whose fields may be null into structures of one class."""

    def __init__(self, schema: AvroSchema, kind: type[msgspec.Struct]) -> None:
        """Prepare.

        Args:
            schema: Of the writer, a record with at least two fields.
            kind: Has fields of the record by its encoded names; those that the record lacks, and
                those that are null, take their defaults. Takes them by position.
        """
        self._kind = kind
        defaults = {field.encode_name: field.default for field in msgspec.structs.fields(kind)}
        fields = [(field["name"], field["type"]) for field in schema["fields"]]
        lacking = [name for name in defaults if name not in dict(fields)]
        self._lacking = [defaults[name] for name in lacking]
        places = [*(name for name, _ in fields), *lacking]
        self._pick = itemgetter(*(places.index(name) for name in defaults))
        steps: list[_Step] = []
        for is_number, run in groupby(fields, lambda field: _range_of(field[1]) is not None):
            if is_number:
                own = [(_range_of(union) or 0, defaults.get(name)) for name, union in run]
                steps.append(_number_reader(own))
            else:
                steps += [_reader(union, defaults.get(name)) for name, union in run]
        self._varying, self._tail = steps[:_VARYING_STEPS], steps[_VARYING_STEPS:]

    def decode(self, data: bytes, at: int, count: int) -> tuple[list[Any], int]:
        """Return so many records that follow one another, and the offset after them.

        Raises:
            CorruptError: a value does not decode.
            IndexError, UnicodeDecodeError: the data end within a value, or a text is not UTF-8.
            OtherAvroTypeError: a field is of another type than a text, a number or a list of texts.
        """
        kind, pick, lacking = self._kind, self._pick, self._lacking
        found: list[Any] = []
        tail_values: list[Any] = []
        tail = b""
        for _ in range(count):
            values: list[Any] = []
            for step in self._varying:
                at = step(data, at, values)
            if tail and data.startswith(tail, at):  # then the values are the same
                at += len(tail)
            else:
                start, tail_values = at, []
                for step in self._tail:
                    at = step(data, at, tail_values)
                tail = data[start:at]
            found.append(kind(*pick((*values, *tail_values, *lacking))))
        return found, at


def encode_long(value: int) -> bytes:
    """Return an Avro int or long."""
    value = (value << 1) ^ (value >> (_LONG_BITS - 1))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_text(text: str) -> bytes:
    """Return an Avro string."""
    data = text.encode()
    return encode_long(len(data)) + data


def decode_count(data: bytes, at: int) -> tuple[int, int]:
    """Return how many values the next block of an array or a map has, and their offset.

    Raises:
        CorruptError: the number has more than 64 bits.
        IndexError: the data end within the number.
    """
    count, at = _decode_long(data, at)
    if count < 0:  # then the size of the block in bytes follows
        _, at = _decode_long(data, at)
    return abs(count), at


def decode_text(data: bytes, at: int) -> tuple[str, int]:
    """Return the Avro string that begins at `at`, and the offset after it.

    Raises:
        CorruptError: the text is longer than the data.
        IndexError, UnicodeDecodeError: the data end, or the text is not UTF-8.
    """
    size = data[at]
    if size < 0x80 and not size & 1:  # most texts are short: it takes half as long
        size, at = size >> 1, at + 1
    else:
        size, at = _decode_long(data, at)
    end = at + size
    if not at <= end <= len(data):
        raise CorruptError("an Avro text is longer than the file", offset=at)
    return data[at:end].decode(), end


def _decode_long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift > _LONG_BITS:
            break
    if value >> _LONG_BITS or byte >= 0x80:
        raise CorruptError("an Avro number of more than 64 bits", offset=at)
    return (value >> 1) ^ -(value & 1), at


def _range_of(union: AvroSchema) -> int | None:
    """Return the bound of the numbers of an optional number; None for another type."""
    match union:
        case ["null", str(kind)]:
            return _RANGES.get(kind)
    return None


def _encoder(union: AvroSchema) -> Callable[[Any], bytes]:
    bound = _range_of(union)
    if bound is not None:
        return _EncodedNumbers(bound).__getitem__
    if union == ["null", "string"]:
        return _EncodedTexts().__getitem__
    is_texts = union[1] == {"type": "array", "items": "string"}

    def encode(value: Any) -> bytes:
        if value is None:
            return _NULL
        if not is_texts:
            return encode_datum(union, msgspec.to_builtins(value))
        head = encode_long(len(value)) if value else b""
        return b"".join((_PRESENT, head, *map(encode_text, value), _END))

    return encode


def _number_reader(fields: Sequence[tuple[int, Any]]) -> _Step:
    """Return what reads optional numbers that follow one another: their bounds and defaults."""
    match = re.compile(rb"(\x00|\x02[\x80-\xff]{0,9}[\x00-\x7f])" * len(fields)).match
    known = [_DecodedNumbers(*field) for field in fields]

    def read(data: bytes, at: int, values: list[Any]) -> int:
        found = match(data, at)
        if found is None:
            raise CorruptError("not an optional Avro number", offset=at)
        values += [decoded[text] for decoded, text in zip(known, found.groups(), strict=True)]
        return found.end()

    return read


def _reader(union: AvroSchema, default: Any) -> _Step:
    """Return what reads an optional text or list of texts."""
    is_text = union == ["null", "string"]
    is_texts = union == ["null", {"type": "array", "items": "string"}]
    is_optional = isinstance(union, list) and len(union) == 2 and union[0] == "null"

    def read(data: bytes, at: int, values: list[Any]) -> int:
        if is_optional and data[at] == _NULL[0]:
            values.append(default)
            return at + 1
        if not (is_text or is_texts) or data[at] != _PRESENT[0]:
            raise OtherAvroTypeError
        value, at = decode_text(data, at + 1) if is_text else _decode_texts(data, at + 1)
        values.append(value)
        return at

    return read


def _decode_texts(data: bytes, at: int) -> tuple[list[str], int]:
    texts: list[str] = []
    while True:
        count, at = decode_count(data, at)
        if not count:
            return texts, at
        for _ in range(count):
            text, at = decode_text(data, at)
            texts.append(text)


class _EncodedTexts(dict[str | None, bytes]):
    """Texts to their encoded form, and null; none is kept."""

    def __init__(self) -> None:
        super().__init__({None: _NULL})

    def __missing__(self, text: str) -> bytes:
        return _PRESENT + encode_text(text)


class _EncodedNumbers(dict[int | None, bytes]):
    """Numbers to their encoded form, and null; those that come first are kept."""

    def __init__(self, bound: int) -> None:
        super().__init__({None: _NULL})
        self._bound = bound

    def __missing__(self, number: int) -> bytes:
        if not -self._bound <= number < self._bound:
            raise OverflowError(f"{number} does not fit a number below {self._bound}")
        encoded = _PRESENT + encode_long(number)
        if len(self) < _NUMBERS_KEPT:
            self[number] = encoded
        return encoded


class _DecodedNumbers(dict[bytes, Any]):
    """Optional numbers by their encoded form; those that come first are kept."""

    def __init__(self, bound: int, default: Any) -> None:
        super().__init__({_NULL: default})
        self._bound = bound

    def __missing__(self, text: bytes) -> int:
        number, _ = _decode_long(text, 1)
        if not -self._bound <= number < self._bound:
            raise CorruptError(f"the number {number} is not below {self._bound}")
        if len(self) < _NUMBERS_KEPT:
            self[text] = number
        return number
