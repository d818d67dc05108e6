"""Formatted times, against what Hudi 1.2.0 made of the same values (its own class, run)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketfmt.errors import BucketfmtError, SchemaError, UnsupportedError
from bucketfmt.rows.columns.date_formats import DateFormat, parse_time_zone
from bucketfmt.rows.columns.time_partitions import TimePartitions

# Paths cannot be given to a write, so that "pass the partition paths" was no advice there.
_TO_DO = "; look-ups and deletes take partition paths themselves; have Hudi write such rows"


def partitions(kind: str, output: str = "yyyy/MM/dd", **more: str) -> TimePartitions:
    kind, _, unit = kind.partition(":")
    given_properties = {"timestamp.type": kind, "output.dateformat": output}
    given_properties |= {"timestamp.scalar.time.unit": unit} if unit else {}
    given_properties |= {name.replace("_", "."): text for name, text in more.items()}
    if "timezone" not in given_properties:
        given_properties.setdefault("output.timezone", "UTC")
    return TimePartitions.from_properties(
        {f"hoodie.keygen.timebased.{name}": text for name, text in given_properties.items()}
    )


def values(form: TimePartitions, column: pa.Array) -> list[str]:
    return form.values(pa.chunked_array([column]), "t").to_pylist()


@pytest.mark.parametrize(
    ("kind", "output", "zone", "expected"),
    [
        (
            "EPOCHMILLISECONDS",
            "yyyy/MM/dd",
            "UTC",
            {
                1_700_000_000_123: "2023/11/14",
                -1: "1969/12/31",
                0: "1970/01/01",
                None: "1970/01/01",
                253_402_300_799_999: "9999/12/31",
                -62_135_596_800_000: "0001/01/01",
                1.9e12: "2030/03/17",
                -1.5: "1969/12/31",
                Decimal("1700000000123.99"): "2023/11/14",
            },
        ),
        (
            "EPOCHMICROSECONDS",
            "yyyy-MM-dd HH:mm:ss.SSS",
            "UTC",
            {
                1_700_000_000_123_456: "2023-11-14 22:13:20.123",
                -1: "1970-01-01 00:00:00.000",
                -1001: "1969-12-31 23:59:59.999",
                None: "1970-01-01 00:00:00.000",
            },
        ),
        (
            "UNIX_TIMESTAMP",
            "yyyyMMddHHmmss",
            "Asia/Kolkata",
            {
                1_700_000_000: "20231115034320",
                -1: "19700101052959",
                0: "19700101053000",
                None: "19700101053001",
            },
        ),
        (
            "UNIX_TIMESTAMP",
            "yyyy/MM/dd/HH",
            "America/New_York",
            {
                1_699_160_400: "2023/11/05/01",
                1_699_164_000: "2023/11/05/01",
                1_699_167_600: "2023/11/05/02",
                -5_000_000_000: "1811/07/23/10",
            },
        ),
        (
            "SCALAR:DAYS",
            "'day='yyyy-MM-dd",
            "GMT+8:00",
            {
                dt.date(2024, 2, 29): "day=2024-02-29",
                19000: "day=2022-01-08",
                -1: "day=1969-12-31",
            },
        ),
        ("SCALAR:hours", "yy M d H", "GMT", {472222: "23 11 14 22", -1: "69 12 31 23"}),
        (
            "SCALAR:NANOSECONDS",
            "SS S SSSS s m",
            "GMT",
            {1_700_000_000_123_456_789: "12 1 1230 20 13", -1: "00 0 0000 0 0"},
        ),
        (
            "UNIX_TIMESTAMP",
            "y''YYYYY'x''y'",
            "GMT",
            {-61_000_000_000: "36'00036x'y", 1_700_000_000: "2023'02023x'y"},
        ),
    ],
)
def test_numbers(kind: str, output: str, zone: str, expected: dict[Any, str]) -> None:
    form = partitions(kind, output, output_timezone=zone)
    for value, text in expected.items():
        column = pa.array([value, None], pa.int64() if value is None else None)
        assert values(form, column)[0] == text
        assert values(partitions(kind, output, timezone=zone), column)[0] == text


def test_numbers_of_other_widths_and_timestamps_by_what_is_stored() -> None:
    millis = partitions("EPOCHMILLISECONDS")
    assert values(millis, pa.array([5], pa.int32())) == ["1970/01/01"]
    assert values(millis, pa.array([1.7e9], pa.float32())) == ["1970/01/20"]
    time = dt.datetime(2023, 11, 14, 22, 13)
    assert values(millis, pa.array([time], pa.timestamp("ms", "UTC"))) == ["2023/11/14"]
    micros = partitions("EPOCHMICROSECONDS")
    assert values(micros, pa.array([time], pa.timestamp("us"))) == ["2023/11/14"]


LISTED = "yyyyMMdd, yyyy-MM-dd'T'HH:mm:ssZ, yyyy-MM-dd HH:mm:ss.SSS"


@pytest.mark.parametrize(
    ("pattern", "zone", "output", "output_zone", "expected"),
    [
        (
            "yyyy-MM-dd HH:mm:ss",
            "UTC",
            "yyyy/MM/dd",
            "UTC",
            {
                "2024-02-29 23:59:59": "2024/02/29",
                "2024-2-9 3:5:9": "2024/02/09",
                "24-1-1 0:0:0": "0024/01/01",
                None: "1970/01/01",
            },
        ),
        (
            "yyyyMMdd,yyyy-MM-dd'T'HH:mm:ssZ",
            "",
            "yyyy-MM-dd-HH",
            "Asia/Tokyo",
            {
                "2024-02-29T23:59:59+0100": "2024-03-01-07",
                "2024-02-29T23:59:59-01:00": "2024-03-01-09",
                "2024-02-29T23:59:59Z": "2024-03-01-08",
            },
        ),
        (
            LISTED,
            "Europe/Berlin",
            "yyyy-MM-dd-HH:mm:ss.SSS",
            "UTC",
            {
                "20240229": "2024-02-28-23:00:00.000",
                "2024022": "2024-02-01-23:00:00.000",
                "2024-02-29T23:59:59+0100": "2024-02-29-22:59:59.000",
                "2024-07-01 00:00:00.5": "2024-06-30-22:00:00.500",
                "2024-10-27 02:30:00.123": "2024-10-27-00:30:00.123",
                None: "1969-12-31-23:00:00.000",
            },
        ),
        (
            "yyyy-MM-dd",
            "UTC",
            "yyyyMMdd",
            "UTC",
            {"2024-02-29": "20240229", "2024-1-1": "20240101"},
        ),
    ],
)
@pytest.mark.parametrize("kind", ["DATE_STRING", "MIXED"])
def test_texts(
    kind: str, pattern: str, zone: str, output: str, output_zone: str, expected: dict[Any, str]
) -> None:
    form = partitions(
        kind, output, input_dateformat=pattern, input_timezone=zone, output_timezone=output_zone
    )
    column = pa.array(list(expected), pa.string())
    assert values(form, column) == list(expected.values())
    assert values(form, column.cast(pa.large_string())) == list(expected.values())


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-30 00:00:00.0",
        "x",
        "",
        "2024-03-31 02:30:00.0",  # clocks in Berlin skip it
        "2024-07-01 00:00:00.1234",
        "2024-07-01 24:00:00.0",
    ],
)
def test_texts_that_are_no_time(text: str) -> None:
    form = partitions("DATE_STRING", input_dateformat=LISTED, input_timezone="Europe/Berlin")
    with pytest.raises(SchemaError, match=r"column t: .* is not a time in the format yyyyMMdd, "):
        values(form, pa.array([text]))


def test_a_text_in_no_zone() -> None:
    form = partitions("DATE_STRING", input_dateformat="yyyy")
    with pytest.raises(SchemaError, match="in a known time zone"):
        values(form, pa.array(["2024"]))


def test_null_is_1_in_the_first_format_and_its_zone() -> None:
    west = {"input_timezone": "America/New_York", "output_timezone": "America/New_York"}
    for pattern in ("yyyy-MM-dd HH", "yyyy-MM-dd HHZ"):
        form = partitions("DATE_STRING", "yyyy-MM-dd HH", input_dateformat=pattern, **west)
        assert values(form, pa.array([None], pa.string())) == ["1969-12-31 19"]
    unzoned = partitions(
        "DATE_STRING",
        "yyyy-MM-dd HH",
        input_dateformat="yyyy-MM-ddZ",
        output_timezone="Asia/Kolkata",
    )
    assert values(unzoned, pa.array([None], pa.string())) == ["1970-01-01 00"]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("EPOCHMILLISECONDS", pa.array(["5"])),
        ("DATE_STRING", pa.array([5])),
        ("EPOCHMILLISECONDS", pa.array([b"5"])),
        ("EPOCHMILLISECONDS", pa.array([True])),
        ("EPOCHMILLISECONDS", pa.array([253_402_300_800_000])),
        ("UNIX_TIMESTAMP", pa.array([2**60])),
        ("SCALAR:DAYS", pa.array([-(2**63)])),
        ("EPOCHMILLISECONDS", pa.array([float("nan")])),
        ("EPOCHMILLISECONDS", pa.array([1e300])),
        ("EPOCHMILLISECONDS", pa.array([Decimal(10) ** 30])),
    ],
    ids=str,
)
def test_values_without_a_time(kind: str, column: pa.Array) -> None:
    with pytest.raises(SchemaError, match="column t: "):
        values(partitions(kind, input_dateformat="yyyy"), column)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timestamp.type": ""}, "timestamp.type is not in its hoodie.properties"),
        ({"timestamp.type": "LUNAR"}, "'LUNAR'"),
        ({"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "WEEKS"}, "'WEEKS'"),
        ({"timestamp.type": "DATE_STRING"}, "input.dateformat is not in"),
        ({"output.dateformat": ""}, "output.dateformat is not in"),
        ({"output.dateformat": "yyyy MMM"}, f"part this release does not know{_TO_DO}"),
        ({"output.dateformat": "yyyy ww"}, "part this release does not know"),
        ({"output.dateformat": "yyyy 'open"}, "part this release does not know"),
        ({"output.dateformat": "yyyyZ"}, f"has an offset{_TO_DO}"),
        ({"output.timezone": ""}, "output.timezone is not in"),
        ({"output.timezone": "Middle/Earth"}, "'Middle/Earth' is unknown"),
        ({"output.timezone": "../../etc/passwd"}, "is unknown"),
        (
            {
                "timestamp.type": "DATE_STRING",
                "input.dateformat": "yyyy",
                "input.dateformat.list.delimiter.regex": "(",
            },
            "not a regular expression",
        ),
    ],
)
def test_properties_that_say_too_little(changes: dict[str, str], message: str) -> None:
    settings_of = {
        "timestamp.type": "EPOCHMILLISECONDS",
        "output.dateformat": "yyyy",
        "output.timezone": "UTC",
        **changes,
    }
    for prefix in ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased."):
        with pytest.raises(UnsupportedError, match=message):
            TimePartitions.from_properties({prefix + k: v for k, v in settings_of.items()})


def test_a_parser_of_ones_own() -> None:
    with pytest.raises(UnsupportedError, match=f"which is code.*run{_TO_DO}"):
        TimePartitions.from_properties({"hoodie.keygen.datetime.parser.class": "my.Parser"})


@pytest.mark.parametrize("pattern", ["yy-MM", "yyyy yyyy", "MM M"])
def test_formats_that_are_only_written(pattern: str) -> None:
    assert DateFormat(pattern).format(0)
    with pytest.raises(UnsupportedError, match=f"texts in it are not parsed{_TO_DO}"):
        DateFormat(pattern).parse("24-01", dt.timezone.utc)


def test_time_zones() -> None:
    for name, hours in (("UTC", 0), ("GMT", 0), ("GMT-3", -3), ("+0530", 5.5), ("Z", 0)):
        assert parse_time_zone(name).utcoffset(None) == dt.timedelta(hours=hours)
    for name in ("", "GMT+99", "Mars"):
        with pytest.raises(UnsupportedError):
            parse_time_zone(name)


TIMES = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)).map(
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
)


@settings(deadline=None)
@given(st.lists(TIMES), st.sampled_from(["yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMddHHmmssSSS"]))
def test_what_is_written_is_read_again(times: list[dt.datetime], pattern: str) -> None:
    millis = [(time - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1) for time in times]
    texts = values(partitions("EPOCHMILLISECONDS", pattern), pa.array(millis, pa.int64()))
    assert texts == [
        time.strftime("%Y").zfill(4) + text[4:] for time, text in zip(times, texts, strict=True)
    ]
    assert [DateFormat(pattern).parse(text, dt.timezone.utc) for text in texts] == millis


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "timestamp.type",
                "output.dateformat",
                "timezone",
                "input.dateformat",
                "input.dateformat.list.delimiter.regex",
                "timestamp.scalar.time.unit",
            ]
        ),
        st.one_of(
            st.sampled_from(["DATE_STRING", "SCALAR", "UTC", "yyyy", "DAYS"]), st.text(max_size=9)
        ),
    ),
    st.one_of(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.text(max_size=9))),
)
def test_any_properties_make_values_or_an_error(found: dict[str, str], column: list) -> None:
    try:
        form = TimePartitions.from_properties(
            {f"hoodie.keygen.timebased.{name}": text for name, text in found.items()}
        )
        assert len(values(form, pa.array(column))) == len(column)
    except BucketfmtError:
        pass
