"""Joda-Time's date formats and time zones, as far as partition paths use them.

Pure. Source: org.joda.time.format.DateTimeFormat: the letters y, Y, M, d, H, m, s, S, literal
text, and Z (an offset) in formats that are parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from bucketfmt.errors import UnsupportedError
from bucketfmt.process import cached_property

__all__ = ["TAKEN_AS_PATHS", "DateFormat", "parse_time_zone"]

# What is left to do where values do not tell partition paths.
TAKEN_AS_PATHS = "look-ups and deletes take partition paths themselves; have Hudi write such rows"

_TOKEN = re.compile(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_FIXED_ZONE = re.compile(r"(?:UTC|GMT|Z)?(?:([+-])(\d{1,2})(?::?(\d{2}))?)?")
_DIGITS_MAX = 9
_FIELDS = {"M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_STEPS = {"S": 1, "s": 1_000, "m": 60_000, "H": 3_600_000}
_DAY = 86_400_000
_EPOCH = datetime(1970, 1, 1)
_UTC = timezone.utc


@dataclass(frozen=True)
class DateFormat:
    """A date format.

    Raises:
        UnsupportedError: the format has a part that this release does not know.
    """

    pattern: str

    def __post_init__(self) -> None:
        position = 0
        for token in _TOKEN.finditer(self.pattern):
            letter = token[2]
            is_named = letter == "M" and len(token[0]) > 2  # months by name, in some language
            if token.start() != position or is_named or (letter or "y") not in "yYMdHmsSZ":
                break
            position = token.end()
        if position != len(self.pattern) or not self.pattern:
            raise UnsupportedError(
                f"the date format {self.pattern[:60]!r} has a part this release does not know; "
                + TAKEN_AS_PATHS
            )

    @cached_property
    def has_offset(self) -> bool:
        """Whether texts in this format hold an offset from UTC."""
        return any(token[2] == "Z" for token in _TOKEN.finditer(self.pattern))

    @cached_property
    def step(self) -> int:
        """Milliseconds of a step: times within one step since 1970 have the same text."""
        letters = {token[2] for token in _TOKEN.finditer(self.pattern)}
        return min(_STEPS.get(letter or "", _DAY) for letter in letters)

    def format(self, millis: int, offset: int = 0) -> str:
        """Return the text of a time as Joda prints it.

        Args:
            millis: The local time, in milliseconds since 1970.
            offset: The local time minus UTC, in milliseconds; used for Z only.

        Raises:
            OverflowError: the time is outside the years 1 to 9999.
        """
        time = (_EPOCH + timedelta(milliseconds=millis)).replace(
            tzinfo=timezone(timedelta(milliseconds=offset))
        )
        return _TOKEN.sub(lambda token: _written(token, time), self.pattern)

    def parse(self, text: str, zone: tzinfo | None) -> int | None:
        """Return the milliseconds since 1970 that a text stands for; None if the text does not fit.

        `zone` is the zone of a text without offset. A text does not fit if neither the text nor
        `zone` tells the zone, or if the zone's clocks skip the time. Of a time that occurs twice
        the first counts.
        """
        found = self._parser.fullmatch(text)
        if found is None:
            return None
        parts = {key: value for key, value in found.groupdict().items() if value is not None}
        try:
            local = datetime(
                int(parts.get("year", "1970")),
                int(parts.get("month", "1")),
                int(parts.get("day", "1")),
                int(parts.get("hour", "0")),
                int(parts.get("minute", "0")),
                int(parts.get("second", "0")),
                int(parts.get("fraction", "0").ljust(3, "0")[:3]) * 1000,
            )
            if "offset" in parts:
                zone = parse_time_zone(parts["offset"])
            if zone is None:
                return None
            aware = local.replace(tzinfo=zone)
            if aware.astimezone(_UTC).astimezone(zone).replace(tzinfo=None) != local:
                return None
            return (aware - _EPOCH.replace(tzinfo=_UTC)) // timedelta(milliseconds=1)
        except (ValueError, OverflowError, UnsupportedError):
            return None

    @cached_property
    def _parser(self) -> re.Pattern[str]:
        """The pattern of a text in this format; numbers may have fewer digits than letters."""
        tokens = list(_TOKEN.finditer(self.pattern))
        followers = [token[2] for token in tokens[1:]] + [None]
        parts, seen = [], set()
        for token, follower in zip(tokens, followers, strict=True):
            letter, width = token[2], len(token[0])
            if letter is None:
                parts.append(re.escape(_literal(token)))
                continue
            name = "year" if letter in "yY" else _FIELDS.get(letter, letter)
            if name in seen or (name == "year" and width == 2):  # two digits: of which century?
                raise UnsupportedError(
                    f"the date format {self.pattern[:60]!r} has two of {letter}, or a year of two "
                    "digits: texts in it are not parsed; " + TAKEN_AS_PATHS
                )
            seen.add(name)
            if letter == "S":
                parts.append(rf"(?P<fraction>\d{{1,{width}}})")
            elif letter == "Z":
                parts.append(r"(?P<offset>Z|[+-]\d{2}:?\d{2})")
            else:
                most = max(width, 2) if name != "year" else width if follower else _DIGITS_MAX
                parts.append(rf"(?P<{name}>\d{{1,{most}}})")
        return re.compile("".join(parts), re.ASCII)


def parse_time_zone(text: str) -> tzinfo:
    """Return the time zone Java's `TimeZone.getTimeZone` knows by this name.

    Raises:
        UnsupportedError: the name is unknown. Java would take GMT.
    """
    fixed = _FIXED_ZONE.fullmatch(text)
    if fixed and text:
        size = timedelta(hours=int(fixed[2] or 0), minutes=int(fixed[3] or 0))
        if size < timedelta(hours=24):
            return timezone(-size if fixed[1] == "-" else size)
    try:
        return ZoneInfo(text)
    except (LookupError, ValueError, OSError) as error:
        raise UnsupportedError(f"time zone {text[:60]!r} is unknown; correct its name") from error


def _written(token: re.Match[str], time: datetime) -> str:
    letter, width = token[2], len(token[0])
    if letter is None:
        return _literal(token)
    if letter in "yY":
        return f"{time.year % 100:02}" if width == 2 else f"{time.year:0{width}}"
    if letter == "S":
        return f"{time.microsecond // 1000:03}".ljust(width, "0")[:width]
    if letter == "Z":
        return f"{time:%z}"
    return f"{getattr(time, _FIELDS[letter]):0{width}}"


def _literal(token: re.Match[str]) -> str:
    """Return the literal text of a token that is not a letter; '' is a quote."""
    if token[0] == "''":
        return "'"
    return token[0] if token[1] is None else token[1].replace("''", "'")
