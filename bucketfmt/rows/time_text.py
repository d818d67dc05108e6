"""Times of day and moments in ISO 8601, in the unit of a column. Pure.

Python ends at microseconds and reads longer fractions as if they were cut, and Arrow reads no times
of day, and no fraction of more digits than the unit has, zeros included.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pyarrow as pa

__all__ = ["moment_units", "time_units", "without_zeros"]

_DIGITS: dict[str, int] = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d+))?)?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?")


def time_units(text: str, kind: pa.DataType) -> int:
    """Return a time of day, such as `10:00:00.5`, in units of a `time32` or `time64` column.

    Raises:
        ValueError: the text is no such time, has a zone, or is finer than the unit.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:100]!r} is no time of day, as in 10:00:00")
    hours, minutes, seconds = (int(match[part] or 0) for part in (1, 2, 3))
    return _units((hours * 60 + minutes) * 60 + seconds, match[4], text, kind)


def moment_units(text: str, kind: pa.DataType) -> int:
    """Return a moment in units of a `timestamp` column since 1970; without a zone it is in UTC.

    Raises:
        ValueError: the text is no moment, or is finer than the unit.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:100]!r} is no moment, as in 2026-01-31T10:00:00Z")
    zone = (match[3] or "Z").replace("Z", "+00:00")
    zone = zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    since = datetime.fromisoformat(match[1] + zone) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return _units(since.days * 86_400 + since.seconds, match[2], text, kind)


def without_zeros(text: str) -> str:
    """Return a moment without the zeros that end its fraction: Arrow counts them as digits."""
    match = _MOMENT.fullmatch(text)
    if match is None or not match[2]:
        return text
    digits = match[2].rstrip("0")
    return f"{match[1]}{'.' if digits else ''}{digits}{match[3] or ''}"


def _units(seconds: int, fraction: str | None, text: str, kind: pa.DataType) -> int:
    digits, places = (fraction or "").rstrip("0"), _DIGITS[kind.unit]
    if len(digits) > places:
        raise ValueError(f"{text[:100]!r} is finer than {kind}")
    ticks: int = 10**places
    return seconds * ticks + int(digits.ljust(places, "0") or 0)
