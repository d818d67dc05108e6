"""Values as texts for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timezone

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.instants import parse_instant_time

__all__ = [
    "count_text",
    "duration_text",
    "first_of",
    "instant_text",
    "ratio_text",
    "round_text",
    "seconds_of",
    "size_text",
]
__all__ += ["visible_text"]

_SHOWN_MAX = 3  # of names in a sentence
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Characters that are not seen, or that change how others are seen: controls of terminals and of
writing direction, separators of lines, halves of characters."""


def first_of(names: Sequence[str]) -> str:
    """Return the first names, and how many there are more: `a, b, c and 4 more`."""
    more = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def visible_text(text: str) -> str:
    r"""Return a text in which unseen characters are spelled out: `\x1b`, `\u202e`."""
    return _UNSEEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def seconds_of(instant: str | None) -> float | None:
    """Return an instant as seconds, for differences; None for an instant that is not a date."""
    if instant is None:
        return None
    try:
        return parse_instant_time(instant).replace(tzinfo=timezone.utc).timestamp()
    except (CorruptError, ValueError, OverflowError):
        return None


def instant_text(instant: str | None) -> str:
    """Return an instant as a date and a time; as it is if it is not a date."""
    if instant is None:
        return ""
    try:
        return parse_instant_time(instant).strftime("%Y-%m-%d %H:%M:%S")
    except (CorruptError, ValueError):
        return instant


_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def duration_text(seconds: float) -> str:
    """Return a duration in its largest unit: `3 days`, `1 hour`."""
    for length, unit in _UNITS:
        number = int(seconds // length)
        if number:
            return counted_text(number, unit)
    return "less than a second"


def size_text(size: float) -> str:
    """Return a number of bytes: `1.4 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def count_text(number: int) -> str:
    """Return a number with a comma at each thousand."""
    return f"{number:,}"


def counted_text(number: int, noun: str) -> str:
    """Return a number and a noun, in the plural if need be."""
    return f"{count_text(number)} {noun}{'' if number == 1 else 's'}"


def round_text(number: int) -> str:
    """Return a number as `count_text` does; a large one with three digits: `10.1 billion`."""
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**7, "million")):
        if number >= size:
            return f"{number / (10**6 if name == 'million' else size):,.1f} {name}"
    return count_text(number)


def ratio_text(ratio: float) -> str:
    """Return a ratio with two digits after the point."""
    return f"{ratio:.2f}"
