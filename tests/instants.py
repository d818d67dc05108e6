"""Instants near others, for files that are planted in a timeline."""

from __future__ import annotations

from datetime import timedelta

from bucketfmt.format.names.instants import format_instant_time, parse_instant_time

__all__ = ["shift_instant"]


def shift_instant(instant: str, milliseconds: int) -> str:
    """The instant so long after another; the number of its digits plus one may be no date."""
    return format_instant_time(parse_instant_time(instant) + timedelta(milliseconds=milliseconds))
