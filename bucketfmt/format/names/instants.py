"""Instant times and the names of timeline files.

Pure, but for one thing: a zone-aware datetime in the zone "LOCAL" is converted by the
system's time zone, as Hudi does. Source: `HoodieInstantTimeGenerator`,
`InstantGeneratorV1/V2`, `InstantFileNameGeneratorV1/V2`, `ActiveTimelineV1/V2`.

Instants compare as plain text everywhere in Hudi, and so they stay text here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from bucketfmt.errors import CorruptError

__all__ = [
    "INIT_INSTANT",
    "InstantFile",
    "State",
    "comparable_action",
    "find_instant_file",
    "format_instant_file_name",
    "format_instant_time",
    "normalise_instant",
    "parse_instant_time",
]

INIT_INSTANT = "00000000000000"
"""Earlier than any write: the instant of files that exist before the first commit."""


class State(str, Enum):
    """The states of an action, in this order."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class InstantFile:
    """The parts of a timeline file's name.

    `action` is spelled as in the name (a pending `compaction` completes as `commit`: see
    `comparable_action`). `completion_time` is None for a pending action, in layout 1, and for
    a legacy file of layout 2 (completed before the table was upgraded: its content is layout
    1's and its completion time is the file's modification time).
    """

    requested_time: str
    completion_time: str | None
    action: str
    state: State
    name: str


_COMPLETED_AS = {"compaction": "commit", "logcompaction": "deltacommit"}
_COMPLETED_AS_LAYOUT_2 = {**_COMPLETED_AS, "clustering": "replacecommit"}

_COMPLETED_ACTIONS = (
    "commit",
    "deltacommit",
    "replacecommit",
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "indexing",
    "schemacommit",
)


def _extensions(layout: int) -> dict[str, tuple[str, State]]:
    """Every valid extension: `.clean.inflight` -> (clean, INFLIGHT), and so on."""
    pending_only = _COMPLETED_AS if layout == 1 else _COMPLETED_AS_LAYOUT_2
    found = {f".{action}": (action, State.COMPLETED) for action in _COMPLETED_ACTIONS}
    for action in (*_COMPLETED_ACTIONS, *pending_only):
        found[f".{action}.requested"] = (action, State.REQUESTED)
        found[f".{action}.inflight"] = (action, State.INFLIGHT)
    # The oldest inflight files named no action, and commits never changed.
    found[".inflight"] = found.pop(".commit.inflight")
    del found[".savepoint.requested"]
    return found


_EXTENSIONS = {layout: _extensions(layout) for layout in (1, 2)}
_FILE_NAME = {
    1: re.compile(r"([0-9]+)()(\.[a-z]+(?:\.[a-z]+)?)"),
    2: re.compile(r"([0-9]+)(?:_([0-9]+))?(\.[a-z]+(?:\.[a-z]+)?)"),
}


def _check_layout(layout: int) -> None:
    if layout not in _EXTENSIONS:
        raise ValueError(f"timeline layout {layout} is neither 1 nor 2")


def find_instant_file(name: str, layout: int) -> InstantFile | None:
    """Return the parts of a timeline file's name; None for a file that is not of an instant.

    Temporary files (`<name>.<uuid>`), checksum files and unknown extensions give None.

    Args:
        name: File name without folder.
        layout: `TableConfig.timeline_layout`.
    """
    _check_layout(layout)
    found = _FILE_NAME[layout].fullmatch(name)
    if found is None or found[3] not in _EXTENSIONS[layout]:
        return None
    action, state = _EXTENSIONS[layout][found[3]]
    completion_time = found[2] or None if state is State.COMPLETED else None
    return InstantFile(found[1], completion_time, action, state, name)


def format_instant_file_name(
    requested_time: str, action: str, state: State, completion_time: str | None, layout: int
) -> str:
    """Return the file name of an instant; a pending-only action completes under its other name.

    Args:
        requested_time: When the action began.
        action: For example `deltacommit`, `compaction`, `clustering`.
        state: The state the file stands for.
        completion_time: Required in layout 2 for a completed instant, otherwise ignored.
        layout: `TableConfig.timeline_layout`.

    Raises:
        ValueError: the layout has no such file, or the completion time is missing.
    """
    _check_layout(layout)
    if state is State.COMPLETED or (layout == 1 and action == "clustering"):
        action = comparable_action(action, 2)
    if (action, state) not in _EXTENSIONS[layout].values():
        raise ValueError(f"a timeline of layout {layout} has no {state.value} {action!r}")
    time = requested_time
    if state is State.COMPLETED and layout == 2:
        if not completion_time:
            raise ValueError(f"the completed {action} {requested_time} needs a completion time")
        time = f"{requested_time}_{completion_time}"
    if state is State.COMPLETED:
        return f"{time}.{action}"
    if (action, state) == ("commit", State.INFLIGHT):
        return f"{time}.inflight"
    return f"{time}.{action}.{state.value.lower()}"


def comparable_action(action: str, layout: int) -> str:
    """Return the action that an instant completes as; files with equal results are one instant.

    Source: `InstantComparatorV1/V2.getComparableAction`.
    """
    _check_layout(layout)
    completed_as = _COMPLETED_AS if layout == 1 else _COMPLETED_AS_LAYOUT_2
    return completed_as.get(action, action)


_INSTANT_TIME = re.compile(r"\d{14}(?:\d{3,})?", re.ASCII)
_DATE_TEXT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{3})(?:\d{3})?)?(Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)


def parse_instant_time(text: str) -> datetime:
    """Return an instant as a naive datetime in the table's time zone, to the millisecond.

    Instants of 14 digits count as the last millisecond of their second; digits after the 17th
    (table version 6's metadata table adds some) are left out, both as Hudi does.

    Raises:
        CorruptError: the text is not a date. `INIT_INSTANT` is not a date either.
    """
    not_a_date = CorruptError(
        f"instant {text[:40]!r} is not a date of the form yyyyMMddHHmmss[SSS]"
    )
    if _INSTANT_TIME.fullmatch(text) is None:
        raise not_a_date
    year, month, day, hour = int(text[:4]), int(text[4:6]), int(text[6:8]), int(text[8:10])
    minute, second, millisecond = int(text[10:12]), int(text[12:14]), int(text[14:17] or "999")
    try:
        return datetime(year, month, day, hour, minute, second, millisecond * 1000)
    except ValueError:
        raise not_a_date from None


def format_instant_time(time: datetime) -> str:
    """Return `yyyyMMddHHmmssSSS` for a naive datetime in the table's time zone.

    Raises:
        ValueError: the datetime has a time zone; convert it with `normalise_instant`.
    """
    if time.tzinfo is not None:
        raise ValueError("an instant is a datetime without time zone, in the table's own zone")
    return (
        f"{time.year:04}{time.month:02}{time.day:02}"
        f"{time.hour:02}{time.minute:02}{time.second:02}{time.microsecond // 1000:03}"
    )


def normalise_instant(value: str | datetime, table_timezone: str = "LOCAL") -> str:
    """Return the instant that a caller means, for comparison with the timeline as text.

    Accepted are instants (14 digits, as they are, or 17), `yyyy-MM-dd` (its midnight),
    `yyyy-MM-dd HH:mm:ss[.SSS]` (without a fraction: the last millisecond of that second), the
    same with "T" and with an offset or "Z", and datetimes. A time with a zone is converted to the
    table's zone; a time without zone is in the table's zone. Source: Spark's
    `formatQueryInstant`.

    Args:
        value: The argument of the caller.
        table_timezone: `TableConfig.timezone`, "UTC" or "LOCAL".

    Raises:
        TypeError: the value is neither text nor a datetime.
        ValueError: the text has none of these forms, or is not a date.
    """
    if isinstance(value, datetime):
        if value != value:  # noqa: PLR0124  (NaT of pandas)
            raise ValueError(f"{value} is no instant")
        return format_instant_time(_in_table_timezone(value, table_timezone))
    if not isinstance(value, str):
        raise TypeError(f"an instant is text or a datetime, not {type(value).__name__}")
    if len(value) in (14, 17) and not value.strip("0"):
        return value  # INIT_INSTANT, or what the metadata table makes of it
    found = _DATE_TEXT.fullmatch(value)
    if found is not None:
        year, month, day, hour, minute, second, fraction, offset = found.groups()
        time = f"{hour}{minute}{second}{fraction or '999'}" if hour else "000000000"
        instant = f"{year}{month}{day}{time}"
    else:
        instant, offset = (value if len(value) in (14, 17) else ""), None
    try:
        parsed = parse_instant_time(instant)
    except CorruptError:
        raise ValueError(
            f"{value!r} is not an instant; give yyyyMMddHHmmssSSS, yyyy-MM-dd, "
            "yyyy-MM-dd HH:mm:ss[.SSS] or a datetime"
        ) from None
    if offset is None:
        return instant
    zone = timezone.utc if offset == "Z" else _parse_offset(offset)
    return format_instant_time(_in_table_timezone(parsed.replace(tzinfo=zone), table_timezone))


def _parse_offset(text: str) -> timezone:
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return timezone(-offset if text[0] == "-" else offset)


def _in_table_timezone(time: datetime, table_timezone: str) -> datetime:
    if time.tzinfo is None:
        return time
    if table_timezone not in ("LOCAL", "UTC"):
        raise ValueError(f"table time zone {table_timezone!r} is neither LOCAL nor UTC")
    zone = timezone.utc if table_timezone == "UTC" else None  # None: the system's zone
    try:
        return time.astimezone(zone).replace(tzinfo=None)
    except (OverflowError, OSError):
        raise ValueError(f"{time} is out of range") from None
