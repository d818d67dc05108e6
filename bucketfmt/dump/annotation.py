"""An annotated field, and the functions that all annotators share. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bucketfmt.errors import BucketfmtError
from bucketfmt.format.encoding.cursor import Cursor

__all__ = ["Annotation", "annotated_damage", "text_of"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """A field of a file.

    Attributes:
        offset: Where the field begins, in bytes from the beginning of the file.
        length: The field's length in bytes.
        field: The field's place in the format, for example `block[0].header.INSTANT_TIME`.
        value: The whole value as text, as `text_of` returns it.
        rule: The rule of the spec for the field; None if the spec has no rule.
        is_damage: Whether the bytes break the format; `value` then says how.
    """

    offset: int
    length: int
    field: str
    value: str
    rule: str | None = None
    is_damage: bool = False


def annotated_damage(field: str, error: BucketfmtError, cursor: Cursor) -> Iterator[Annotation]:
    """Yield the error of an annotator as a field, at the place of the error."""
    offset = cursor.position if error.offset is None else error.offset
    length = max(0, cursor.end - offset)
    yield Annotation(offset, length, field, error.message, is_damage=True)


def text_of(value: object) -> str:
    """Return a value as text: bytes as hex."""
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)
