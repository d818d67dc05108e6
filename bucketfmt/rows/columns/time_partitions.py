"""Partition values that are times written by a date format: timestamp-based partition paths.

Pure. Each distinct time is formatted once. Sources:
TimestampBasedAvroKeyGenerator, HoodieDateTimeParser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bucketfmt.errors import SchemaError, UnsupportedError
from bucketfmt.rows.columns.date_formats import TAKEN_AS_PATHS, DateFormat, parse_time_zone

__all__ = ["TimePartitions"]

_PREFIXES = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
_PARSER = "hoodie.keygen.datetime.parser.class"
_HUDIS_PARSER = "org.apache.hudi.keygen.parser.HoodieDateTimeParser"

_UNIT_OF_TYPE = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
    "DATE_STRING": None,
    "MIXED": None,
}
_NANOS = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}
_MILLI = 1_000_000
_SECOND = timedelta(seconds=1)
_LEAST = (datetime.min - datetime(1970, 1, 1)) // _SECOND * 1000
_GREATEST = (datetime.max - datetime(1970, 1, 1)) // _SECOND * 1000 + 999

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TimePartitions:
    """How a table turns a column into partition values.

    Attributes:
        unit: The unit of a number, counted since 1970; None if the column is text.
        input_formats: The formats of texts; the first format that fits a text counts.
        input_zone: The zone of texts without offset; None if texts must have an offset.
        output_format: The format of the partition values.
        output_zone: The zone of the partition values.
    """

    unit: str | None
    input_formats: tuple[DateFormat, ...]
    input_zone: tzinfo | None
    output_format: DateFormat
    output_zone: tzinfo

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TimePartitions:
        """Return the settings of the `hoodie.keygen.timebased.*` properties.

        Hudi 0.15 records only some of them in hoodie.properties, and for a custom key generator
        no release records any. Without an output zone Hudi takes the zone of its JVM.

        Raises:
            UnsupportedError: the properties are missing, or have values that this release does not
                know.
        """

        def find(name: str) -> str:
            found = (properties.get(prefix + name, "").strip() for prefix in _PREFIXES)
            return next(filter(None, found), "")

        def require(name: str) -> str:
            if text := find(name):
                return text
            raise UnsupportedError(
                f"the table's partition paths are formatted times, and {_PREFIXES[0]}{name} is not "
                "in its hoodie.properties; put it there with the value its writers use"
            )

        parser = properties.get(_PARSER) or _HUDIS_PARSER
        if parser != _HUDIS_PARSER:
            raise UnsupportedError(
                f"{_PARSER} is {parser[:80]!r}, which is code that bucketfmt does not "
                "run; " + TAKEN_AS_PATHS
            )
        kind = require("timestamp.type")
        unit = _UNIT_OF_TYPE.get(kind)
        if kind == "SCALAR":
            unit = (find("timestamp.scalar.time.unit") or "SECONDS").upper()
        if unit not in _NANOS and (unit or kind not in _UNIT_OF_TYPE):
            raise UnsupportedError(
                f"{_PREFIXES[0]}timestamp.type is {kind[:40]!r} and its unit {str(unit)[:40]!r}; "
                f"this release knows SCALAR, {', '.join(_UNIT_OF_TYPE)}, and {', '.join(_NANOS)}"
            )
        output_format = DateFormat(require("output.dateformat"))
        if output_format.has_offset:
            raise UnsupportedError(
                f"the output date format {output_format.pattern[:60]!r} has an offset; "
                + TAKEN_AS_PATHS
            )
        both = find("timezone")
        input_zone = both or find("input.timezone")
        return cls(
            unit,
            _input_formats(find, require) if unit is None else (),
            parse_time_zone(input_zone) if input_zone else None,
            output_format,
            parse_time_zone(both or require("output.timezone")),
        )

    def values(self, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        """Return the partition value of each row, not escaped; null counts as the number 1.

        Args:
            column: Numbers, dates and timestamps (by their stored number), or text.
            name: The name of the column, for errors.

        Raises:
            SchemaError: the type holds no times, no input format fits a text, or a time is outside
                the years 1 to 9999.
        """
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if is_text != (self.unit is None):
            wanted = "text" if self.unit is None else "numbers"
            raise SchemaError(
                f"column {name}: {column.type}, but the table makes partition paths of {wanted}"
            )
        if self.unit is None:
            millis = self._parsed(column, name)
        else:
            millis = _to_millis(_to_integers(column, name), _NANOS[self.unit], name)
        step = self.output_format.step
        encoded = pa.array(_to_local(millis, self.output_zone, name) // step).dictionary_encode()
        texts = [self.output_format.format(n * step) for n in encoded.dictionary.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string()).take(encoded.indices)])

    def _parsed(self, column: pa.ChunkedArray, name: str) -> _Integers:
        """Return the milliseconds since 1970 that each text stands for."""
        encoded = column.combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        parsed = pa.array([self._parse(text, name) for text in texts], pa.int64())
        millis = parsed.take(encoded.indices)
        if millis.null_count:  # is the text that 1 makes in the first format
            zone = self.input_zone or self.output_zone
            local = int(_to_local(np.ones(1, np.int64), zone, name)[0])
            millis = millis.fill_null(
                self._parse(self.input_formats[0].format(local, offset=local - 1), name)
            )
        return np.asarray(millis.to_numpy(), np.int64)

    def _parse(self, text: str, name: str) -> int:
        for form in self.input_formats:
            millis = form.parse(text, self.input_zone)
            if millis is not None:
                return millis
        known = ", ".join(form.pattern for form in self.input_formats)
        raise SchemaError(
            f"column {name}: {text[:60]!r} is not a time in the format {known}, in a "
            f"known time zone; where the text states none, set {_PREFIXES[0]}input.timezone"
        )


def _input_formats(find: Any, require: Any) -> tuple[DateFormat, ...]:
    delimiter = find("input.dateformat.list.delimiter.regex") or ","
    try:
        patterns = re.split(delimiter, require("input.dateformat"))
    except re.error as error:
        raise UnsupportedError(
            f"{delimiter[:60]!r} is not a regular expression: {error}"
        ) from error
    return tuple(DateFormat(pattern.strip()) for pattern in patterns)


def _to_integers(column: pa.ChunkedArray, name: str) -> _Integers:
    """Return each number converted as by Java's `longValue`; null as 1."""
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = pc.trunc(column)
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
        raise SchemaError(f"column {name}: Hudi makes no partition path of {kind}")
    try:
        return np.asarray(column.cast(pa.int64()).fill_null(1).to_numpy(), np.int64)
    except pa.ArrowInvalid as error:
        raise _outside(name) from error


def _to_millis(numbers: _Integers, nanos: int, name: str) -> _Integers:
    """Return milliseconds, truncated towards zero as by Java's TimeUnit."""
    if nanos < _MILLI:
        whole: _Integers = numbers // (_MILLI // nanos)
        is_cut = (numbers < 0) & (numbers % (_MILLI // nanos) != 0)
        whole += is_cut
        return whole
    factor = nanos // _MILLI
    if ((numbers < _LEAST // factor) | (numbers > _GREATEST // factor)).any():
        raise _outside(name)
    millis: _Integers = numbers * factor
    return millis


def _to_local(millis: _Integers, zone: tzinfo, name: str) -> _Integers:
    """Return the local time of a zone, in milliseconds since 1970."""
    if isinstance(zone, ZoneInfo):
        times = pa.array(millis).cast(pa.timestamp("ms", zone.key))
        local: _Integers = pc.local_timestamp(times).cast(pa.int64()).to_numpy()
    else:
        local = millis + (zone.utcoffset(None) or timedelta()) // _SECOND * 1000
    if ((local < _LEAST) | (local > _GREATEST)).any():
        raise _outside(name)
    return local


def _outside(name: str) -> SchemaError:
    return SchemaError(f"column {name}: a time outside the years 1 to 9999")
