"""Random values for the judged tables, in the form Spark's JSON reader takes them.

Pure. Texts run over all of Unicode but lone surrogates, which no UTF-8 text, and so no Spark
string, can hold.
"""

from __future__ import annotations

import base64
import datetime as dt
import string
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

__all__ = ["COLUMN_TYPES", "ORDERING_TYPES", "ordering_value", "random_text", "random_value"]

_SPECIAL = [
    "__null__",
    "__empty__",
    "null",
    "NULL",
    "None",
    "true",
    "0",
    "-0",
    "00",
    "1e3",
    "a:b",
    "a,b",
    ":,",
    ",:",
    "id:7",
    "id:7,k:8",
    "k:,id:",
    "x:y:z,w",
    "%2F",
    "%3a",
    "/",
    "/a",
    "a/",
    "..",
    ".",
    "=",
    "a=b",
    "~",
    "*",
    "?",
    "#",
    "&",
    "+",
    "\\",
    "\\u0041",
    "'",
    '"',
    "`",
    "$",
    "{}",
    "[]",
    "()",
    "<tag>",
    "é",
    "ß",
    "ﬁ",
    "ĳ",
    "日本語",
    "한국어",
    "العربية",
    "עברית",
    "हिन्दी",
    "ไทย",
    "😀",
    "👩\u200d👩\u200d👧\u200d👦",
    "🇩🇪",
    "é",
    "́",
    "Å",
    "K",
    "Ω",
    "İ",
    "ı",
    "ſ",
]
_ODD = [
    *(" ", "  ", " a", "a ", "\t", "\n", "\r\n", "\0", "\x01", "\x1f", "\x7f", "\x80", "\x85"),
    *("\xa0", "\xad", "\u200b", "\u200d", "\u2028", "\u202e", "\ufeff", "\ufffd", "\ufffe"),
    *("\uffff", "\ud7ff", "\ue000", "\U00010000", "\U0001f600", "\U000e0001", "\U0010ffff"),
]
_ALPHABETS: list[Callable[[Random], str]] = [
    lambda random: random.choice(string.ascii_letters + string.digits),
    lambda random: random.choice(string.punctuation),
    lambda random: random.choice(",:,:_"),
    lambda random: chr(random.randrange(0x20)),
    lambda random: chr(random.randrange(0x80, 0x800)),
    lambda random: chr(random.randrange(0x300, 0x370)),  # combining
    lambda random: chr(random.randrange(0x800, 0xD800)),
    lambda random: chr(random.randrange(0xE000, 0x10000)),
    lambda random: chr(random.randrange(0x10000, 0x110000)),  # two UTF-16 units each
    lambda random: random.choice(_ODD),
]


def random_text(random: Random) -> str:
    """Return a text that is not empty: mostly short, some of them long, many of them awkward."""
    choice = random.random()
    if choice < 0.3:
        return "".join(random.choices(string.ascii_lowercase + string.digits + "-_", k=8))
    if choice < 0.5:
        return random.choice(_SPECIAL + _ODD)
    size = random.randrange(200, 2000) if choice > 0.97 else random.randrange(1, 12)
    if choice < 0.75:  # one script
        alphabet = random.choice(_ALPHABETS)
        return "".join(alphabet(random) for _ in range(size))
    return "".join(random.choice(_ALPHABETS)(random) for _ in range(size))


def _any_text(random: Random) -> str:
    return "" if random.random() < 0.1 else random_text(random)


def _integer(bits: int) -> Callable[[Random], int]:
    limit = 1 << (bits - 1)
    edges = (0, 1, -1, limit - 1, -limit)

    def value(random: Random) -> int:
        if random.random() < 0.3:
            return random.choice(edges)
        return random.randrange(-limit, limit) >> random.randrange(bits)

    return value


def _float(random: Random) -> float | str:
    odd = ("NaN", "Infinity", "-Infinity", -0.0, 0.0, 1e-300, 1.5e300, 0.1, 1e16, 123456789.0)
    return random.choice(odd) if random.random() < 0.3 else random.uniform(-1e6, 1e6)


def _float32(random: Random) -> float | str:
    odd = ("NaN", "Infinity", "-Infinity", -0.0, 0.0, 0.5, 16777216.0)
    return random.choice(odd) if random.random() < 0.3 else random.randrange(-(2**23), 2**23) / 64


def _decimal(precision: int, scale: int) -> Callable[[Random], str]:
    limit = 10**precision

    def value(random: Random) -> str:
        unscaled = random.choice((0, limit - 1, 1 - limit, random.randrange(-limit, limit)))
        digits = tuple(map(int, str(abs(unscaled))))
        return format(Decimal((int(unscaled < 0), digits, -scale)), "f")

    return value


def _date(random: Random) -> str:
    return (dt.date(1900, 1, 1) + dt.timedelta(days=random.randrange(80_000))).isoformat()


def _timestamp(random: Random) -> str:
    seconds, micros = random.randrange(-(2**31), 2**32), random.choice((0, 1, 999_999, 123_000))
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds, microseconds=micros)
    return moment.isoformat(timespec="microseconds") + "Z"


def _list(item: Callable[[Random], Any]) -> Callable[[Random], list[Any]]:
    # Lists of two levels, which Hudi writes unless told otherwise, cannot hold nulls.
    return lambda random: [item(random) for _ in range(random.randrange(4))]


def _struct(**fields: Callable[[Random], Any]) -> Callable[[Random], dict[str, Any]]:
    return lambda random: {
        name: None if random.random() < 0.2 else value(random) for name, value in fields.items()
    }


def _map(item: Callable[[Random], Any]) -> Callable[[Random], dict[str, Any]]:
    return lambda random: {_any_text(random): item(random) for _ in range(random.randrange(3))}


_VALUES: dict[str, Callable[[Random], Any]] = {
    "string": _any_text,
    "boolean": lambda random: random.random() < 0.5,
    "tinyint": _integer(8),
    "smallint": _integer(16),
    "int": _integer(32),
    "bigint": _integer(64),
    "float": _float32,
    "double": _float,
    "decimal(5,2)": _decimal(5, 2),
    "decimal(18,9)": _decimal(18, 9),
    "decimal(30,10)": _decimal(30, 10),
    "decimal(38,0)": _decimal(38, 0),
    "date": _date,
    "timestamp": _timestamp,
    "binary": lambda random: base64.b64encode(random.randbytes(random.randrange(9))).decode(),
    "array<string>": _list(_any_text),
    "array<int>": _list(_integer(32)),
    "array<struct<a:int,b:string>>": _list(_struct(a=_integer(32), b=_any_text)),
    "array<array<bigint>>": _list(_list(_integer(64))),
    "map<string,int>": _map(_integer(32)),
    "map<string,struct<x:double>>": _map(_struct(x=_float)),
    "struct<a:int,b:string>": _struct(a=_integer(32), b=_any_text),
    "struct<a:bigint,in:struct<d:date,t:timestamp,l:array<string>>>": _struct(
        a=_integer(64), **{"in": _struct(d=_date, t=_timestamp, l=_list(_any_text))}
    ),
}
COLUMN_TYPES = tuple(_VALUES)
"""Types of data columns, as Spark writes them in DDL."""

_ORDERING: dict[str, Callable[[int], Any]] = {
    "bigint": lambda order: order + 2**40,
    "int": lambda order: order,
    "double": lambda order: order / 4 - 1,
    "string": lambda order: f"{order:03d}",
    "timestamp": lambda order: f"2024-01-01T00:00:{order:02d}.000001Z",
    "date": lambda order: f"2024-02-{1 + order:02d}",
    "decimal(12,3)": lambda order: f"{order}.125",
}
ORDERING_TYPES = tuple(_ORDERING)
"""Types of ordering fields."""


def random_value(random: Random, kind: str, null_share: float = 0.15) -> Any:
    """Return a JSON value of a type in `COLUMN_TYPES`, or None."""
    return None if random.random() < null_share else _VALUES[kind](random)


def ordering_value(kind: str, order: int) -> Any:
    """Return the JSON value of a type in `ORDERING_TYPES` that stands for 0 <= order < 28."""
    return _ORDERING[kind](order)
