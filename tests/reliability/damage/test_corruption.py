"""Damaged tables are read right or refused. A sample; `python -m soak corruption` tries all.

What may be read wrong in silence is the values of rows in log files, and only where a bit
flipped in those: Hudi's formats have no checksum over them. docs/reliability.md has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from random import Random

import pytest

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.table.table import Table
from bucketfmt.testing.corruptions import Damage, flip_bits, flip_every_bit, truncate
from bucketfmt.timeline.table_properties import load_config
from soak.damage.judge import GOOD, Judge, Outcome, Question, content_of
from soak.damage.regions import FRAMING, ROW_DATA, kind_of, regions_of
from soak.damage.tables import (
    TABLES,
    files_to_damage,
    question_about,
    read_files,
    table_files,
    tiny_table,
)

_FLIPS, _CUTS = 60, 20


def _judged(
    table: str, path: str, cases: Iterable[Damage], question: Question | None = None
) -> Iterator[tuple[Damage, Outcome, str]]:
    store = tiny_table(table)
    judge = Judge(store, question or question_about(table))
    for case in cases:
        yield case, *judge.outcome(store.with_file(path, case.data))


def _check_flips(table: str, path: str, cases: Iterable[Damage]) -> None:
    regions = regions_of(path, table_files(table)[path])
    for case, outcome, detail in _judged(table, path, cases):
        unprovable = regions[case.offset] == ROW_DATA and kind_of(path) == "log file"
        allowed = GOOD | {Outcome.SILENT} if unprovable else GOOD
        assert outcome in allowed, f"{path}: {case.what}: {detail}"


def _check_cuts(table: str, path: str, cases: Iterable[Damage]) -> None:
    for case, outcome, detail in _judged(table, path, cases):
        assert outcome in GOOD, f"{path}: {case.what}: {detail}"


def _spread(table: str, cases: int) -> dict[str, list[int]]:
    """Places in files of a table, each byte as likely as any other."""
    files = {path: table_files(table)[path] for path in files_to_damage(table)}
    places = [(path, at) for path, data in files.items() for at in range(len(data))]
    spread: dict[str, list[int]] = {}
    for path, at in Random(table).sample(places, cases):
        spread.setdefault(path, []).append(at)
    return spread


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("table", TABLES)
def test_flipped_bits(table: str) -> None:
    for path, offsets in _spread(table, _FLIPS).items():
        if path in read_files(table):
            _check_flips(table, path, flip_bits(table_files(table)[path], 1, offsets))


@pytest.mark.rotated(1, one_of=3)
@pytest.mark.parametrize("table", TABLES)
def test_cut_files(table: str) -> None:
    for path, sizes in _spread(table, _CUTS).items():
        size = len(table_files(table)[path])
        _check_cuts(table, path, truncate(table_files(table)[path], [*sizes, 0, size - 1]))


@pytest.mark.rotated(0, among="every byte", one_of=4)
def test_every_byte_and_every_length_of_a_log_file() -> None:
    table = "0.15.0/tiny_mor"
    logs = {p: d for p, d in table_files(table).items() if kind_of(p) == "log file"}
    path, data = min(logs.items(), key=lambda file: len(file[1]))
    _check_flips(table, path, flip_bits(data, 2))
    _check_cuts(table, path, truncate(data))


@pytest.mark.rotated(0, among="every byte", one_of=4)
def test_every_byte_of_hashing_metadata() -> None:
    """A node may have any value: that a value is another one only the keys tell."""
    table = "1.2.0/tiny_ch"
    path = max(path for path in read_files(table) if kind_of(path) == "hashing_meta")
    data = table_files(table)[path]
    spans = [match.span(1) for match in re.finditer(rb'"value" : (\d+)', data)]
    values = {offset for span in spans for offset in range(*span)}
    silent = 0
    for case, outcome, detail in _judged(table, path, flip_bits(data, 1), _rows_of_each_bucket):
        assert outcome in GOOD or case.offset in values, f"{case.what}: {detail}"
        if outcome not in GOOD:
            silent += 1
            store = tiny_table(table).with_file(path, case.data)
            damaged = bf.Table(store, load_config(store, DEFAULT_LIMITS), DEFAULT_LIMITS, None)
            findings = damaged.check("full").findings
            assert [found.id for found in findings if found.severity == "error"] == ["B006"]
    assert silent == 1


def _rows_of_each_bucket(table: Table) -> object:
    """By the index alone: a scan does not read hashing metadata."""
    return content_of(table.lookup([f"key-{number:06}" for number in range(8)]))


@pytest.mark.rotated(0, among="every byte", one_of=4)
def test_every_bit_of_a_parquet_schema() -> None:
    """Where pyarrow takes a damaged type for another one."""
    table = "0.15.0/tiny_cow"
    path = next(path for path in read_files(table) if path.endswith(".parquet"))
    data = table_files(table)[path]
    schema = range(data.index(b"_record_key", len(data) - 4000), data.rindex(b"region%") + 8)
    wanted = set(schema)
    _check_flips(table, path, (case for case in flip_every_bit(data) if case.offset in wanted))


def test_both_regions_are_there() -> None:
    """Else the tests above would prove less than they say."""
    for table in TABLES:
        for path in read_files(table):
            regions = set(regions_of(path, table_files(table)[path]))
            if kind_of(path) in {"log file", "base file"}:
                assert regions == {FRAMING, ROW_DATA}
