from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketfmt.errors import CorruptError
from bucketfmt.format.names.instants import (
    INIT_INSTANT,
    InstantFile,
    State,
    comparable_action,
    find_instant_file,
    format_instant_file_name,
    format_instant_time,
    normalise_instant,
    parse_instant_time,
)
from tests.golden import GOLDEN

T = "20261121035636929"
C = "20261121035655993"
R, I, D = State.REQUESTED, State.INFLIGHT, State.COMPLETED  # noqa: E741

BOTH_LAYOUTS = [
    ("commit", R, f"{T}.commit.requested"),
    ("commit", I, f"{T}.inflight"),
    ("deltacommit", R, f"{T}.deltacommit.requested"),
    ("deltacommit", I, f"{T}.deltacommit.inflight"),
    ("replacecommit", R, f"{T}.replacecommit.requested"),
    ("replacecommit", I, f"{T}.replacecommit.inflight"),
    ("compaction", R, f"{T}.compaction.requested"),
    ("compaction", I, f"{T}.compaction.inflight"),
    ("logcompaction", R, f"{T}.logcompaction.requested"),
    ("logcompaction", I, f"{T}.logcompaction.inflight"),
    ("clean", R, f"{T}.clean.requested"),
    ("clean", I, f"{T}.clean.inflight"),
    ("rollback", R, f"{T}.rollback.requested"),
    ("rollback", I, f"{T}.rollback.inflight"),
    ("restore", R, f"{T}.restore.requested"),
    ("restore", I, f"{T}.restore.inflight"),
    ("savepoint", I, f"{T}.savepoint.inflight"),
    ("indexing", R, f"{T}.indexing.requested"),
    ("indexing", I, f"{T}.indexing.inflight"),
    ("schemacommit", R, f"{T}.schemacommit.requested"),
    ("schemacommit", I, f"{T}.schemacommit.inflight"),
]
COMPLETED = [
    "commit",
    "deltacommit",
    "replacecommit",
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "indexing",
    "schemacommit",
]


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize(("action", "state", "name"), BOTH_LAYOUTS)
def test_pending_files(layout: int, action: str, state: State, name: str) -> None:
    assert find_instant_file(name, layout) == InstantFile(T, None, action, state, name)
    assert format_instant_file_name(T, action, state, None, layout) == name


@pytest.mark.parametrize("action", COMPLETED)
def test_completed_files(action: str) -> None:
    plain, timed = f"{T}.{action}", f"{T}_{C}.{action}"
    assert find_instant_file(plain, 1) == InstantFile(T, None, action, D, plain)
    assert format_instant_file_name(T, action, D, None, 1) == plain
    assert format_instant_file_name(T, action, D, C, 1) == plain
    assert find_instant_file(timed, 2) == InstantFile(T, C, action, D, timed)
    assert format_instant_file_name(T, action, D, C, 2) == timed
    assert find_instant_file(timed, 1) is None


def test_a_legacy_file_of_layout_2_has_no_completion_time() -> None:
    name = f"{T}.deltacommit"
    assert find_instant_file(name, 2) == InstantFile(T, None, "deltacommit", D, name)


def test_clustering() -> None:
    requested = f"{T}.clustering.requested"
    assert find_instant_file(requested, 2) == InstantFile(T, None, "clustering", R, requested)
    assert find_instant_file(requested, 1) is None
    assert format_instant_file_name(T, "clustering", R, None, 2) == requested
    assert format_instant_file_name(T, "clustering", R, None, 1) == f"{T}.replacecommit.requested"
    assert format_instant_file_name(T, "clustering", D, C, 2) == f"{T}_{C}.replacecommit"


def test_what_is_pending_completes_under_another_name() -> None:
    assert format_instant_file_name(T, "compaction", D, C, 2) == f"{T}_{C}.commit"
    assert format_instant_file_name(T, "logcompaction", D, None, 1) == f"{T}.deltacommit"
    assert comparable_action("compaction", 1) == comparable_action("compaction", 2) == "commit"
    assert comparable_action("logcompaction", 1) == "deltacommit"
    assert comparable_action("clustering", 2) == "replacecommit"
    assert comparable_action("clustering", 1) == "clustering"
    assert comparable_action("clean", 2) == "clean"


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize(
    "name",
    [
        "",
        T,
        f".{T}.commit.crc",
        f"{T}.commit.crc",
        f"{T}.commit.0c6fca6c-1d3b-4b34-8f16-9a2c4f2f0b1c",
        f"{T}.deltacommit.inflight.0c6fca6c-1d3b-4b34-8f16-9a2c4f2f0b1c",
        f"{T}.commit.inflight",
        f"{T}.savepoint.requested",
        f"{T}.compaction",
        f"{T}.logcompaction",
        f"{T}.clustering",
        f"{T}.requested",
        f"{T}.COMMIT",
        f"{T}.merge",
        f"{T}.commit\n",
        f"{T}_.commit",
        f"_{C}.commit",
        f"{T}_{C}_{C}.commit",
        "٢٠٢٦.commit",
        "hoodie.properties",
        "hoodie.properties.backup",
        "manifest_4",
    ],
)
def test_other_files_are_no_instants(name: str, layout: int) -> None:
    assert find_instant_file(name, layout) is None


def test_instants_of_other_lengths() -> None:
    for instant in ("20210527160855", "00000000000000010", "20261121041742042010"):
        found = find_instant_file(f"{instant}.deltacommit", 1)
        assert found is not None
        assert found.requested_time == instant


@pytest.mark.parametrize(
    ("action", "state", "layout"),
    [("savepoint", R, 2), ("merge", D, 2), ("", I, 1), ("clustering", R, 3)],
)
def test_file_names_that_do_not_exist(action: str, state: State, layout: int) -> None:
    with pytest.raises(ValueError, match="layout"):
        format_instant_file_name(T, action, state, C, layout)


def test_a_completed_file_of_layout_2_needs_its_completion_time() -> None:
    with pytest.raises(ValueError, match="completion time"):
        format_instant_file_name(T, "commit", D, None, 2)


@given(st.text() | st.from_regex(r"[0-9_]+(\.[a-z]+){1,3}"), st.sampled_from([1, 2]))
def test_any_name_is_an_instant_or_not(name: str, layout: int) -> None:
    found = find_instant_file(name, layout)
    if found is not None and found.state is D and found.completion_time is None:
        assert name == f"{found.requested_time}.{found.action}"
    elif found is not None and "_" not in name:
        assert name == format_instant_file_name(
            found.requested_time, found.action, found.state, found.completion_time, layout
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20261121035636929", datetime(2026, 11, 21, 3, 56, 36, 929_000)),
        ("20210527160855", datetime(2021, 5, 27, 16, 8, 55, 999_000)),
        ("20261121041742042010", datetime(2026, 11, 21, 4, 17, 42, 42_000)),
        ("00010101000000000", datetime(1, 1, 1)),
    ],
)
def test_instant_times(text: str, expected: datetime) -> None:
    assert parse_instant_time(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        INIT_INSTANT,
        "00000000000000001",
        "2026112103563692",
        "20261321035636929",
        "20260230000000000",
        "2026112103563692x",
        "２０２６１１２１０３５６３６",
        " 0261121035636",
        "20261121035636\n",
    ],
)
def test_instants_that_are_no_dates(text: str) -> None:
    with pytest.raises(CorruptError, match="not a date"):
        parse_instant_time(text)


@given(st.datetimes())
def test_instant_times_read_back(moment: datetime) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    text = format_instant_time(moment)
    assert len(text) == 17
    assert parse_instant_time(text) == moment


def test_an_instant_has_no_time_zone_of_its_own() -> None:
    with pytest.raises(ValueError, match="time zone"):
        format_instant_time(datetime(2026, 1, 1, tzinfo=timezone.utc))


@pytest.mark.rule("TL-3")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (T, T),
        ("20261121035636", "20261121035636"),
        (INIT_INSTANT, INIT_INSTANT),
        ("00000000000000000", "00000000000000000"),
        ("2026-11-21", "20261121000000000"),
        ("2026-11-21 03:56:36", "20261121035636999"),
        ("2026-11-21 03:56:36.929", "20261121035636929"),
        ("2026-11-21T03:56:36", "20261121035636999"),
        ("2026-11-21T03:56:36.929", "20261121035636929"),
        ("2026-11-21T03:56:36.929999", "20261121035636929"),
        ("2026-11-21T03:56:36.929Z", "20261121035636929"),
        ("2026-11-21T03:56:36.929+02:00", "20261121015636929"),
        ("2026-11-21 03:56:36-05:30", "20261121092636999"),
        (datetime(2026, 11, 21, 3, 56, 36, 929_999), "20261121035636929"),
        (datetime(2026, 11, 21), "20261121000000000"),
        (datetime(2026, 11, 21, 3, tzinfo=timezone(timedelta(hours=2))), "20261121010000000"),
    ],
)
def test_what_callers_may_give(value: str | datetime, expected: str) -> None:
    assert normalise_instant(value, "UTC") == expected


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.rule("TL-3")
def test_a_local_table_counts_in_the_systems_zone(berlin: None) -> None:
    summer = datetime(2026, 7, 1, 12, tzinfo=timezone.utc)
    winter = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    assert normalise_instant(summer) == "20260701140000000"
    assert normalise_instant(winter) == "20260101130000000"
    assert normalise_instant("2026-07-01T12:00:00.000Z", "LOCAL") == "20260701140000000"
    assert normalise_instant(winter, "UTC") == "20260101120000000"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "latest",
        "2026",
        "20261121",
        "202611210356",
        "2026112103563692",
        "20261121035636929010",
        "20261321035636",
        "2026-13-01",
        "2026-02-30 00:00:00",
        "2026-11-21T03:56",
        "2026-11-21 3:56:36",
        "2026-11-21 03:56:36.9",
        "2026-11-21 03:56:36 ",
        "2026-11-21T03:56:36+24:00",
        "2026-11-21Z",
        "0001-01-01T00:00:00+05:00",
        "2026-11-21 03:56:36\n",
        "２０２６-11-21",
    ],
)
def test_what_is_no_instant(value: str) -> None:
    with pytest.raises(ValueError, match=r"not an instant|out of range|offset"):
        normalise_instant(value, "UTC")


def test_other_types_and_zones_are_the_callers_mistake() -> None:
    with pytest.raises(TypeError, match="not int"):
        normalise_instant(20261121035636929)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="neither LOCAL nor UTC"):
        normalise_instant(datetime(2026, 1, 1, tzinfo=timezone.utc), "Europe/Berlin")


@given(
    st.text() | st.from_regex(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{3})?(Z|[+-]\d\d:\d\d)?)?")
)
def test_any_text_is_an_instant_or_a_value_error(text: str) -> None:
    try:
        instant = normalise_instant(text, "UTC")
    except ValueError:
        return
    assert len(instant) in (14, 17)
    assert instant.isdigit()


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize(("version", "table"), GOLDEN)
def test_every_timeline_hudi_wrote(version: str, table: str, golden) -> None:
    root: Path = golden(version, table)
    layout = 1 if version == "0.15.0" else 2
    for base in (root, root / ".hoodie" / "metadata"):
        folder = base / ".hoodie" / ("timeline" if layout == 2 else "")
        if not folder.exists():
            continue
        files = [path.name for path in folder.iterdir() if path.is_file()]
        instants = [found for name in files if (found := find_instant_file(name, layout))]
        ignored = set(files) - {found.name for found in instants}
        assert all(name.endswith(".crc") or name == "hoodie.properties" for name in ignored)
        assert any(found.state is D for found in instants)
        for found in instants:
            assert found.name == format_instant_file_name(
                found.requested_time, found.action, found.state, found.completion_time, layout
            )
            assert (found.completion_time is not None) == (found.state is D and layout == 2)
            if found.completion_time is not None:
                assert parse_instant_time(found.completion_time).year == 2026


def test_a_missing_time_is_no_instant() -> None:
    """It read as of no time, which found no row; `changes` since it were all rows."""
    with pytest.raises(ValueError, match="NaT is no instant"):
        normalise_instant(pd.NaT)
