"""A footer is read without its bloom filter: it says the same as the whole footer."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketfmt.errors import CorruptError
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.parquet import footer_bytes
from bucketfmt.rows.parquet.base_file import BaseFileReader
from bucketfmt.rows.parquet.footer_bytes import BLOOM_KEY
from bucketfmt.rows.parquet.parquet_footer import decode_footer
from bucketfmt.rows.parquet.parquet_opening import open_parquet

TEXT = "AAAA" * 20_000  # as base64, longer than what is read of a footer
ENTRY = b"\x18\x1borg.apache.hudi.bloomfilter\x18"


class Reads(io.BytesIO):
    """A file that keeps which ranges were read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, size: int = -1) -> bytes:
        start = self.tell()
        data = super().read(size)
        self.ranges.append((start, start + len(data)))
        return data

    @property
    def num_bytes(self) -> int:
        return sum(end - start for start, end in self.ranges)


def written(entries: dict[str, str], rows: pa.Table | None = None, **options: Any) -> bytes:
    rows = pa.table({"_hoodie_record_key": ["a", "b"], "v": [1, 2]}) if rows is None else rows
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False, **options) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(entries)
    return sink.getvalue()


def as_whole(data: bytes) -> tuple[object, ...]:
    """What the footer says where it is read and parsed as a whole."""
    file = open_parquet(pa.BufferReader(data), DEFAULT_LIMITS)
    size = int.from_bytes(data[-8:-4], "little")
    entries = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (file.metadata.metadata or {}).items()
    }
    ranges = decode_footer(data[-8 - size : -8]).ranges(file.schema_arrow)
    return file.metadata.num_rows, entries, ranges, size, file.metadata.created_by


def as_read(reader: BaseFileReader) -> tuple[object, ...]:
    ranges = reader.ranges(reader.schema.names)
    created_by = reader.metadata.created_by
    return reader.num_rows, reader.key_values, ranges, reader.footer_size, created_by


@pytest.mark.parametrize(
    "entries",
    [
        {"min": "a", BLOOM_KEY: TEXT, "parquet.avro.schema": "{}"},
        {BLOOM_KEY: TEXT},
        {"parquet.avro.schema": "x" * 9_000, BLOOM_KEY: TEXT},  # the filter is out of reach
        {BLOOM_KEY: TEXT, "parquet.avro.schema": "x" * 9_000},
        {"parquet.avro.schema": TEXT},
        {BLOOM_KEY: "AAAA"},
        {},
    ],
    ids=["between", "alone", "late", "early", "another", "short", "none"],
)
def test_a_footer_says_the_same_as_the_whole_footer(entries: dict[str, str]) -> None:
    data = written(entries)
    assert as_read(BaseFileReader(pa.py_buffer(data))) == as_whole(data)


def test_the_filter_is_read_when_it_is_asked_for() -> None:
    data = written({"min": "a", BLOOM_KEY: TEXT, "max": "b"})
    file = Reads(data)
    reader = BaseFileReader(pa.PythonFile(file, mode="r"))
    assert reader.read(["v"])["v"].to_pylist() == [1, 2]
    assert file.num_bytes < 30_000
    assert reader.key_values == {"min": "a", BLOOM_KEY: TEXT, "max": "b"}
    assert file.num_bytes > len(TEXT)


@pytest.mark.parametrize("placeholder", [b"", footer_bytes._PLACEHOLDER])
def test_values_that_look_like_the_entry(placeholder: bytes) -> None:
    # Statistics, names and entries before the filter hold the bytes by which it is found.
    lookalike = ENTRY + placeholder + b"\x90\x03" + b"z" * 400
    keys = [lookalike, lookalike + b"z"]
    rows = pa.table({"_hoodie_record_key": pa.array(keys, pa.binary()), "v": [1, 2]})
    for entries in ({BLOOM_KEY: TEXT}, {"e": lookalike.decode("latin-1"), BLOOM_KEY: TEXT}):
        data = written(entries, rows)
        assert data.count(ENTRY) >= (3 if "e" in entries else 2)  # once before the filter
        assert as_read(BaseFileReader(pa.py_buffer(data))) == as_whole(data)
    # An entry of the same name, and an entry within the filter's text.
    text = TEXT[:9_000] + (ENTRY + b"\x04BBBB").decode() + TEXT
    data = written({BLOOM_KEY: text, "org.apache.hudi.bloomfilteR": TEXT})
    assert as_read(BaseFileReader(pa.py_buffer(data))) == as_whole(data)


def test_forged_lengths_of_the_filter() -> None:
    data = written({BLOOM_KEY: TEXT, "parquet.avro.schema": "{}"})
    at = data.rfind(ENTRY) + len(ENTRY)
    assert data[at : at + 3] == b"\x80\xf1\x04"  # 80,000
    random = np.random.default_rng(7)
    forged = [b"\x81\xf1\x04", b"\xff\xff\x7f", b"\x80\xf1\x00", b"\x80\x80\x80"]
    forged += [bytes(random.integers(0, 256, 3, np.uint8)) for _ in range(30)]
    for length in forged:
        damaged = data[:at] + length + data[at + 3 :]
        try:
            expected = as_whole(damaged)
        except (pa.ArrowException, OSError, CorruptError):
            with pytest.raises(CorruptError):
                as_read(BaseFileReader(pa.py_buffer(damaged)))
        else:
            assert as_read(BaseFileReader(pa.py_buffer(damaged))) == expected


def test_a_filter_longer_than_the_limit() -> None:
    data = written({BLOOM_KEY: TEXT})
    with pytest.raises(CorruptError):
        BaseFileReader(pa.py_buffer(data), Limits(bloom_filter_bytes_max=1_000))


def test_files_cut_within_their_footer() -> None:
    data = written({BLOOM_KEY: TEXT})
    for size in (0, 3, 11, 12, len(data) - 1, len(data) - 9):
        with pytest.raises(CorruptError):
            BaseFileReader(pa.py_buffer(data[:size]))
    with pytest.raises(CorruptError, match="begin before the file"):
        BaseFileReader(pa.py_buffer(data[-5_000:]))
