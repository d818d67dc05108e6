"""Record keys: text <-> key field values, and the values a bucket is hashed from.

Pure. A record key of several fields is `f1:v1,f2:v2`, with `__null__` and `__empty__` for absent
values. Neither `:` nor `,` is escaped in values, so a convention decides how a key is split, and
the convention changed between Hudi releases: `KeyDialect`. The bucket of a record follows from the
values that the dialect reads from the key, whatever the original values were.
Sources: `KeyGenUtils`, `BucketIdentifier.getHashKeys`, `KeyGenerator.constructRecordKey`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from bucketfmt.errors import KeyEncodingError, UnsupportedError
from bucketfmt.format.table.table_config import KeyGenerator

__all__ = [
    "EMPTY_PLACEHOLDER",
    "NULL_PLACEHOLDER",
    "KeyDialect",
    "KeyEncoding",
    "ambiguous_value_error",
    "dialect_for_table_version",
    "extract_hash_values",
    "find_ambiguous_marks",
    "format_record_key",
    "hudi_never_returns",
    "never_returns_error",
    "parse_record_key",
]

NULL_PLACEHOLDER = "__null__"
EMPTY_PLACEHOLDER = "__empty__"


class KeyDialect(str, Enum):
    """How a Hudi release splits a record key to hash it.

    All dialects take a key without any `:` whole.
    """

    COLON_MAP = "colon-map"  # 0.11, 0.12: parts at every `,`, a map of what stands around `:`
    SPLIT_FILTER = "split-filter"  # 0.13 to 0.15: parts at every `,`, unnamed ones always kept
    INDEX_OF = "indexOf"  # 1.x: a `,` parts fields only where a field name follows


class KeyEncoding(str, Enum):
    """How a complex key generator writes a single key field, for example `id` with value 7."""

    VALUE = "7"  # 0.14.1, 0.15, 1.0.0 to 1.0.2
    NAMED = "id:7"  # up to 0.14.0, and again from 1.1


def dialect_for_table_version(version: int) -> KeyDialect:
    """Return the dialect of the Hudi releases that write this table version by default.

    Versions up to 6 were last written by 0.15; 8 and 9 are written by 1.x. A table of version
    6 that 1.x wrote to has keys hashed in both dialects.
    """
    return KeyDialect.SPLIT_FILTER if version <= 6 else KeyDialect.INDEX_OF


def extract_hash_values(
    record_key: str, hash_fields: Sequence[str], dialect: KeyDialect
) -> list[str | None]:
    """Return the values that Hudi hashes for `record_key` in this dialect, in hashing order.

    No `hash_fields` means all fields (none in COLON_MAP). There may be more or fewer values
    than fields.

    Raises:
        KeyEncodingError: Hudi fails on this key, or never returns from hashing it.
    """
    if ":" not in record_key:
        return [record_key]
    if dialect is KeyDialect.COLON_MAP:
        return _extract_colon_map(record_key, hash_fields)
    if dialect is KeyDialect.SPLIT_FILTER:
        return _extract_split_filter(record_key, hash_fields)
    values = _extract_index_of(record_key, hash_fields)
    if values is None:
        raise never_returns_error(record_key)
    return values


def hudi_never_returns(record_key: str, hash_fields: Sequence[str]) -> bool:
    """Return whether Hudi 1.x loops for ever on this key (seen with 1.0.2, 1.1.1 and 1.2.0).

    Hudi loops if the last field of the key is not hashed and its value contains a `:`. The
    loop in `KeyGenUtils.extractRecordKeysByFields` that skips such a field looks for a further
    field after every later `:`, and starts over from the first `:` if there is no such field.
    """
    return _extract_index_of(record_key, hash_fields) is None


def never_returns_error(record_key: str) -> KeyEncodingError:
    """Return the error for a key from which Hudi 1.x never returns."""
    return KeyEncodingError(
        f"record key {_shorten(record_key)}: Hudi 1.x never returns from hashing it, because its "
        "last field is not a hash field and has a ':' in its value; hash that field too, or "
        "list it before the hash fields in the record key"
    )


def format_record_key(
    fields: Sequence[str],
    values: Sequence[str | None],
    key_generator: KeyGenerator,
    encoding: KeyEncoding,
) -> str:
    """Return the record key of a row whose key fields have these values, already as text.

    `encoding` counts only for `KeyGenerator.COMPLEX` with one field.

    Raises:
        KeyEncodingError: all values are null or empty; or other values would make the same key
            (`find_ambiguous_marks`).
        UnsupportedError: the generator's keys do not follow from the fields.
        ValueError: fields and values do not match each other or the generator.
    """
    if len(fields) != len(values) or not fields:
        raise ValueError(f"{len(values)} values for the key fields {list(fields)}")
    if key_generator in {KeyGenerator.SIMPLE, KeyGenerator.TIMESTAMP}:
        if len(fields) > 1:
            raise ValueError(f"{key_generator.value} takes one key field, not {list(fields)}")
        named = False
    elif key_generator in {KeyGenerator.NON_PARTITION, KeyGenerator.CUSTOM}:
        named = len(fields) > 1
    elif key_generator is KeyGenerator.COMPLEX:
        named = len(fields) > 1 or encoding is KeyEncoding.NAMED
    elif key_generator is KeyGenerator.GLOBAL_DELETE:
        named = True
    else:
        raise UnsupportedError(
            f"record keys of the key generator {key_generator.value} cannot be made from columns; "
            "pass the record keys themselves"
        )
    if not any(values):
        raise KeyEncodingError(f"the key fields {list(fields)} are all null or empty")
    if not named:
        return values[0] or ""
    if len(fields) > 1:
        _check_unambiguous(fields, values)
    parts = zip(fields, values, strict=True)
    return ",".join(f"{field}:{_write_value(value)}" for field, value in parts)


def find_ambiguous_marks(fields: Sequence[str], position: int) -> list[str]:
    """Return the texts that a value of one key field may not contain.

    The texts are `,name:` of the next field, and of the field itself unless the field is the first.
    A key whose values contain none of these texts can be split in one way only
    (`parse_record_key`): a field begins at the first `,name:` after the previous field, which is
    also the last `,name:` before the next field. A key with such a value can be split in two ways.
    Names have no `,`, so `,name:` texts never overlap.
    """
    following = fields[position + 1 : position + 2]
    own = fields[position : position + 1] if position else []
    return [f",{name}:" for name in (*following, *own)]


def ambiguous_value_error(field: str, value: str, found: str, where: str = "") -> KeyEncodingError:
    """Return the error for a value that makes a record key ambiguous.

    Args:
        field: The record key field.
        value: Its value.
        found: The part of the value that makes the key ambiguous.
        where: Which row, as the beginning of a sentence.
    """
    return KeyEncodingError(
        f"{where}the value {_shorten(value)} of the record key field {field} holds {found!r}, "
        "which Hudi does not escape: rows with other values would have the same record key. "
        "Change the value, or make the key of other fields"
    )


def parse_record_key(
    record_key: str, fields: Sequence[str], encoding: KeyEncoding = KeyEncoding.VALUE
) -> tuple[str | None, ...]:
    """Return the value of each key field: the inverse of `format_record_key`.

    `encoding` is used only for one field: VALUE takes the key as it is.

    Raises:
        KeyEncodingError: the key does not have these fields, or values that look like fields
            leave more than one way to read it.
        ValueError: there are no fields.
    """
    if not fields:
        raise ValueError("a record key has at least one field")
    if len(fields) == 1 and encoding is KeyEncoding.VALUE:
        return (record_key,)
    text = f",{record_key}"
    marks = [f",{field}:" for field in fields]
    starts = _find_in_order(text, marks)
    if not starts or starts[0] != 0:
        raise KeyEncodingError(
            f"record key {_shorten(record_key)} does not have the fields {list(fields)}"
        )
    if starts != [0, *_find_in_reverse(text, marks[1:])]:
        raise KeyEncodingError(
            f"record key {_shorten(record_key)} can be read in more than one way: "
            "a value contains what looks like the next field"
        )
    ends = [*starts[1:], len(text)]
    return tuple(
        _read_value(text[start + len(mark) : end])
        for start, mark, end in zip(starts, marks, ends, strict=True)
    )


def _extract_colon_map(record_key: str, hash_fields: Sequence[str]) -> list[str | None]:
    """`BucketIdentifier.getHashKeys` of 0.11 and 0.12: placeholders stay text there."""
    values: dict[str, str] = {}
    for part in _java_split(record_key, ","):
        pair = _java_split(part, ":")
        if len(pair) < 2 or pair[0] in values:
            raise KeyEncodingError(
                f"record key {_shorten(record_key)}: Hudi 0.11 and 0.12 cannot hash it, because "
                f"of its part {_shorten(part)}; such a key cannot be in a table they wrote"
            )
        values[pair[0]] = pair[1]
    return [values.get(field) for field in hash_fields]


def _extract_split_filter(record_key: str, hash_fields: Sequence[str]) -> list[str | None]:
    """`KeyGenUtils.extractRecordKeysByFields` of 0.13 to 0.15."""
    values: list[str | None] = []
    for part in _java_split(record_key, ","):
        name, colon, value = part.partition(":")
        if not colon:
            values.append(part)
        elif not hash_fields or name in hash_fields:
            values.append(_read_value(value))
    return values


def _extract_index_of(record_key: str, hash_fields: Sequence[str]) -> list[str | None] | None:
    """`KeyGenUtils.extractRecordKeysByFields` of 1.x; None where it does not return.

    A field ends at the last `,` before the next `:` that has a `,` between it and the field's
    own `:`. Hudi finds it by trying `:` after `:`, which comes to the same.
    """
    if "," not in record_key or ":" not in record_key:
        return [record_key]
    every = not hash_fields or list(hash_fields) == [""]
    values: list[str | None] = []
    start = 0
    while start < len(record_key):
        colon = record_key.find(":", start)  # there always is one: fields begin before a ':'
        comma = record_key.find(",", colon)
        next_colon = record_key.find(":", comma) if comma >= 0 else -1
        is_last = next_colon < 0
        end = len(record_key) if is_last else record_key.rfind(",", colon, next_colon)
        if every or record_key[start:colon] in hash_fields:
            values.append(_read_value(record_key[colon + 1 : end]))
        elif is_last and ":" in record_key[colon + 1 :]:
            return None
        start = end + 1
    return values or [record_key]


def _check_unambiguous(fields: Sequence[str], values: Sequence[str | None]) -> None:
    for position, (field, value) in enumerate(zip(fields, values, strict=True)):
        if value in (NULL_PLACEHOLDER, EMPTY_PLACEHOLDER):
            raise ambiguous_value_error(field, value, value)
        for mark in find_ambiguous_marks(fields, position):
            if mark in (value or ""):
                raise ambiguous_value_error(field, value or "", mark)


def _find_in_order(text: str, marks: Sequence[str]) -> list[int]:
    """Return the first position of each mark after the previous mark; empty if one is missing."""
    found, start = [], 0
    for mark in marks:
        start = text.find(mark, start)
        if start < 0:
            return []
        found.append(start)
        start += len(mark)
    return found


def _find_in_reverse(text: str, marks: Sequence[str]) -> list[int]:
    """Return the last position of each mark before the next mark."""
    found, end = [], len(text)
    for mark in reversed(marks):
        end = text.rfind(mark, 0, end)
        found.append(end)
    return found[::-1]


def _java_split(text: str, separator: str) -> list[str]:
    """`String.split`: empty parts at the end are dropped."""
    parts = text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _read_value(text: str) -> str | None:
    if text == NULL_PLACEHOLDER:
        return None
    return "" if text == EMPTY_PLACEHOLDER else text


def _write_value(value: str | None) -> str:
    return NULL_PLACEHOLDER if value is None else value or EMPTY_PLACEHOLDER


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
