"""JSON in and out of tables: bounded typed decoding, and text laid out as Jackson lays it out.

Pure. Hudi writes its JSON with Jackson's `DefaultPrettyPrinter` (Hudi: `JsonUtils`); the
same layout makes files written here comparable with Hudi's by eye and by byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from bucketfmt.errors import CorruptError, LimitError
from bucketfmt.format.encoding.cursor import Buffer

__all__ = ["decode_json", "decode_unambiguous_json", "encode_jackson_json"]

T = TypeVar("T")

_SPACE = b" \t\r\n"

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
}


def decode_json(data: Buffer | str, kind: type[T], what: str) -> T:
    """Return the JSON value as `kind`; properties that `kind` lacks are skipped.

    Raises:
        CorruptError: the bytes are not JSON or not UTF-8, are nested too deeply, or do not fit
            `kind`.
        LimitError: memory does not suffice.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except MemoryError as error:
        raise LimitError.of_memory(what, error) from error
    except (ValueError, RecursionError, OverflowError) as error:
        # msgspec's own errors and UnicodeDecodeError are ValueErrors
        raise CorruptError(f"{what}: {error}") from error


def decode_unambiguous_json(data: Buffer, kind: type[T], what: str) -> T:
    """Return the JSON value as `kind`, without a property that is given twice.

    Readers disagree about which value of such a property counts. Properties that `kind` lacks are
    skipped. Text that is, white space apart, the encoding of the value has no property twice; other
    text is parsed once more, object by object, which takes five times as long.

    Raises:
        CorruptError: as `decode_json`, or an object has a property twice.
    """
    value = decode_json(data, kind, what)
    if _without_space(bytes(data)) != _without_space(msgspec.json.encode(value)):
        _check_no_duplicate_properties(data, what)
    return value


def _without_space(text: bytes) -> bytes:
    return text.translate(None, _SPACE)


def _check_no_duplicate_properties(data: Buffer, what: str) -> None:
    def check(members: list[tuple[str, Any]]) -> None:
        if len(members) != len({name for name, _ in members}):
            names = [name for name, _ in members[:8]]
            raise CorruptError(f"{what}: a property is given twice, among {names}")

    try:
        json.loads(bytes(data), object_pairs_hook=check)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{what}: {error}") from error


def encode_jackson_json(value: object) -> bytes:
    """Return `value` (dicts, lists, iterators, texts, integers, booleans, None) as Jackson prints.

    Objects span lines and indent by two, arrays stay on the line, `" : "` separates key and value.

    Raises:
        TypeError: `value` holds a value of another type.
    """
    return _format(value, "").encode()


def _format(value: object, indent: str) -> str:
    if isinstance(value, str):
        return _quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        inner = indent + "  "
        members = [f"{inner}{_quote(key)} : {_format(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}" if members else "{ }"
    if isinstance(value, (list, tuple, Iterator)):
        items = [_format(item, indent) for item in value]
        return f"[ {', '.join(items)} ]" if items else "[ ]"
    raise TypeError(f"{type(value).__name__} cannot be written in Hudi's JSON")


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
