"""What a scan gives, and in which forms."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bucketfmt as bf
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.snapshot.data_files.base_files import open_base_file
from bucketfmt.snapshot.data_files.log_files import load_log_file
from bucketfmt.snapshot.snapshot import Snapshot
from tests.golden import GOLDEN

pytestmark = pytest.mark.rotated

Golden = Callable[[str, str], Path]
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


@pytest.fixture
def table(golden: Golden) -> bf.Table:
    return bf.open(golden("1.2.0", "mor"))


def by_id(rows: pa.Table) -> pa.Table:
    return rows.sort_by("id").combine_chunks()


class TestColumns:
    def test_all_of_the_users_by_default(self, table: bf.Table) -> None:
        scan = table.scan()
        assert scan.schema == table.schema == scan.to_arrow().schema
        assert scan.schema.names == ["id", "name", "price", "qty", "ts", "region"]

    def test_meta_columns_come_first(self, table: bf.Table) -> None:
        assert table.scan(meta_columns=True).schema.names == META + table.schema.names
        assert table.scan(["qty", "id"], meta_columns=True).schema.names == [*META, "qty", "id"]

    def test_in_the_order_asked_for(self, table: bf.Table) -> None:
        whole = by_id(table.scan().to_arrow())
        for names in (["qty", "id"], ["region", "id", "_hoodie_file_name"], ["id"]):
            rows = table.scan(names).to_arrow()
            assert rows.column_names == names
            common = [name for name in names if name in whole.column_names]
            assert by_id(rows).select(common) == whole.select(common)

    def test_columns_that_only_merging_or_the_filter_needs_are_not_returned(
        self, table: bf.Table
    ) -> None:
        scan = table.scan(["name"], filter=[("qty", "=", 3), ("ts", ">", 1)])
        rows = scan.to_arrow()
        assert rows.column_names == ["name"]
        assert sorted(rows["name"].to_pylist()) == sorted(
            row["name"]
            for row in table.scan().to_arrow().to_pylist()
            if row["qty"] == 3 and row["ts"] > 1
        )

    def test_none_is_an_error_that_names_count(self, table: bf.Table) -> None:
        with pytest.raises(bf.SchemaError, match="count"):
            table.scan([])
        assert table.scan([], meta_columns=True).to_arrow().column_names == META

    @pytest.mark.parametrize("arguments", [{"columns": ["nope"]}, {"filter": [("nope", "=", 1)]}])
    def test_an_unknown_one_is_an_error_that_lists_those_there_are(
        self, table: bf.Table, arguments: dict[str, object]
    ) -> None:
        with pytest.raises(bf.SchemaError, match=r"'nope'.*id, name, price, qty, ts, region"):
            table.scan(**arguments)

    def test_one_twice_is_an_error(self, table: bf.Table) -> None:
        with pytest.raises(bf.SchemaError, match="twice"):
            table.scan(["id", "id"])

    def test_a_table_without_meta_columns_has_none(self, golden: Golden) -> None:
        virtual = bf.open(golden("1.2.0", "virtual"))
        assert virtual.scan(meta_columns=True).schema == virtual.schema
        with pytest.raises(bf.SchemaError, match="_hoodie_record_key"):
            virtual.scan(["_hoodie_record_key"])

    def test_a_filter_of_another_type_is_an_error(self, table: bf.Table) -> None:
        with pytest.raises(bf.SchemaError, match=r"column qty is int32, and .three. in the"):
            table.scan(filter=[("qty", "=", "three")]).to_arrow()
        with pytest.raises(ValueError, match="not one of the operators"):
            table.scan(filter=[("qty", "~", 3)])


class TestForms:
    def test_all_forms_hold_the_same_rows(self, table: bf.Table) -> None:
        import duckdb
        import polars

        scan = table.scan(filter=[("region", "in", ["eu", "us"])])
        rows = by_id(scan.to_arrow())
        assert rows.num_rows == 206
        assert by_id(scan.to_reader().read_all()) == rows
        assert by_id(pa.Table.from_batches(scan.to_batches(), scan.schema)) == rows
        assert by_id(pa.table(scan)) == rows  # through the Arrow C stream
        assert scan.to_polars().sort("id").equals(polars.DataFrame(rows))
        assert polars.DataFrame(scan).sort("id").equals(polars.DataFrame(rows))
        pandas_rows = scan.to_pandas().sort_values("id").reset_index(drop=True)
        assert pandas_rows.to_dict("list") == rows.to_pydict()
        with duckdb.connect() as connection:
            assert scan.to_duckdb(connection, "trips") is connection
            totals = connection.execute("select count(*), sum(qty), min(id) from trips").fetchone()
        assert totals == (206, pc.sum(rows["qty"]).as_py(), rows["id"][0].as_py())

    def test_the_arrow_stream_yields_batches_as_they_come(self, golden: Golden) -> None:
        scan = bf.open(golden("1.2.0", "ch_split")).scan()
        batches = list(pa.RecordBatchReader.from_stream(scan))
        assert len(batches) > 1
        rows = pa.Table.from_batches(batches)
        assert rows.num_rows == 6000
        assert by_id(rows) == by_id(scan.to_arrow())

    @pytest.mark.parametrize("rows", [1, 7, 100_000])
    def test_batches_are_no_larger_than_asked(self, table: bf.Table, rows: int) -> None:
        batches = list(table.scan().to_batches(rows))
        sizes = [batch.num_rows for batch in batches]
        assert max(sizes) <= rows
        assert 0 not in sizes
        assert by_id(pa.Table.from_batches(batches)) == by_id(table.scan().to_arrow())

    def test_nested_and_decimal_columns_survive_every_form(self, golden: Golden) -> None:
        scan = bf.open(golden("1.2.0", "intkey")).scan()
        rows = by_id(scan.to_arrow())
        assert by_id(pa.table(scan)) == rows
        polars_rows = scan.to_polars().to_dicts()  # Polars 1 has lists of entries for maps
        assert by_id(pa.Table.from_pylist(polars_rows, rows.schema)) == rows
        pandas_rows = scan.to_pandas().sort_values("id").reset_index(drop=True)
        assert by_id(pa.Table.from_pandas(pandas_rows, rows.schema, preserve_index=False)) == rows


class TestLimit:
    @pytest.mark.parametrize("limit", [0, 1, 26, 309, 310, 1000])
    def test_at_most_so_many_rows(self, table: bf.Table, limit: int) -> None:
        whole = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
        scan = table.scan(limit=limit)
        rows = scan.to_arrow()
        assert rows.num_rows == scan.count() == min(limit, 310)
        assert rows.schema == table.schema
        ids = rows["id"].to_pylist()
        assert len(set(ids)) == len(ids)
        assert rows.to_pylist() == [whole[key] for key in ids]
        batches = [row for batch in scan.to_batches(7) for row in batch.to_pylist()]
        assert len(batches) == min(limit, 310)
        assert all(row == whole[row["id"]] for row in batches)

    def test_of_filtered_rows(self, table: bf.Table) -> None:
        scan = table.scan(filter=[("qty", "=", 3)], limit=5)
        assert scan.to_arrow()["qty"].to_pylist() == [3] * 5

    def test_it_is_not_negative(self, table: bf.Table) -> None:
        with pytest.raises(ValueError, match="-1"):
            table.scan(limit=-1)


@pytest.mark.parametrize(
    ("version", "name"), [(v, n) for v, n in GOLDEN if n in ("cow", "mor", "ch_split", "evolved")]
)
def test_count_is_the_number_of_rows(golden: Golden, version: str, name: str) -> None:
    table = bf.open(golden(version, name))
    for arguments in (
        {},
        {"columns": ["id"]},
        {"filter": [("region", "=", "eu")]},
        {"filter": [("region", "=", "eu")], "columns": ["id", "ts"], "limit": 9},
        {"limit": 20},
        {"read_optimized": True},
        {"as_of": table.timeline.instants[0].requested_time},
    ):
        scan = table.scan(**arguments)
        rows = scan.to_arrow()
        assert scan.count() == rows.num_rows
        assert len(set(rows["id"].to_pylist())) == rows.num_rows, "no row is counted twice"


def test_counting_base_files_reads_footers_only(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bucketfmt.rows.parquet.base_file import BaseFileReader

    def refuse(*_: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(BaseFileReader, "read", refuse)
    monkeypatch.setattr(BaseFileReader, "iter_batches", refuse)
    assert bf.open(golden("1.2.0", "cow")).scan().count() == 310


def test_counting_reads_the_columns_of_the_filter_alone(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read all columns of the scan."""
    from bucketfmt.rows.parquet.base_file import BaseFileReader

    asked: list[list[str]] = []
    read = BaseFileReader.iter_batches

    def note(reader: BaseFileReader, columns: list[str], *given: Any) -> Any:
        asked.append(columns)
        return read(reader, columns, *given)

    monkeypatch.setattr(BaseFileReader, "iter_batches", note)
    scan = bf.open(golden("1.2.0", "cow")).scan(filter="qty > 5")
    assert scan.count() == scan.to_arrow().num_rows
    assert asked[0] == ["qty"]


class TestAbandoning:
    """A consumer may stop early: then the reading threads end, and files are closed."""

    @staticmethod
    def readers() -> list[str]:
        return [t.name for t in threading.enumerate() if t.name.startswith("bucketfmt-read")]

    def test_closing_the_iterator_ends_the_threads(self, golden: Golden) -> None:
        batches = bf.open(golden("1.2.0", "ch_split")).scan().to_batches(10)
        first = next(batches)
        assert first.num_rows == 10
        batches.close()  # type: ignore[attr-defined]
        assert self.readers() == []
        whole = bf.open(golden("1.2.0", "ch_split")).scan().to_arrow().to_pylist()
        assert all(row in whole for row in first.to_pylist())

    def test_forgetting_the_iterator_ends_the_threads(self, golden: Golden) -> None:
        for _ in bf.open(golden("1.2.0", "ch_split")).scan().to_batches(10):
            break
        assert self.readers() == []

    def test_forgetting_an_arrow_stream_ends_the_threads(self, golden: Golden) -> None:
        reader = pa.RecordBatchReader.from_stream(bf.open(golden("1.2.0", "ch_split")).scan())
        assert reader.read_next_batch().num_rows > 0
        del reader
        assert self.readers() == []

    def test_an_error_in_one_slice_ends_all(self, golden_copy: Golden) -> None:
        root = golden_copy("1.2.0", "ch_split")
        scan = bf.open(root).scan()
        victim = next(f for s in scan.plan().slices for f in s.files)
        (root / victim.path).write_bytes(b"")
        with pytest.raises(bf.CorruptError):
            for _ in scan.to_batches():
                pass
        assert self.readers() == []

    def test_a_limit_ends_them_too(self, golden: Golden) -> None:
        assert bf.open(golden("1.2.0", "ch_split")).scan(limit=3).to_arrow().num_rows == 3
        assert self.readers() == []


def test_a_scan_can_be_read_again_and_by_many(table: bf.Table) -> None:
    scan = table.scan(meta_columns=True)
    first = by_id(scan.to_arrow())
    found: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: found.append(scan.to_arrow())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [by_id(rows) == first for rows in found] == [True] * 4


class TestMoments:
    @pytest.fixture
    def travelled(self, golden: Golden) -> bf.Table:
        return bf.open(golden("1.2.0", "timetravel_mor"))

    def test_before_the_first_instant_there_is_nothing(self, golden: Golden) -> None:
        for version, name in (("0.15.0", "timetravel"), ("1.2.0", "timetravel_mor")):
            table = bf.open(golden(version, name))
            for moment in ("20200101000000000", "2020-01-01", datetime(2020, 1, 1)):
                scan = table.scan(as_of=moment)
                assert scan.to_arrow() == table.schema.empty_table()
                assert scan.count() == 0
            assert table.changes(None, until="20200101000000000").count() == 0

    def test_far_in_the_future_there_is_what_is_now(self, travelled: bf.Table) -> None:
        assert by_id(travelled.scan(as_of="2099-01-01").to_arrow()) == by_id(
            travelled.scan().to_arrow()
        )
        assert travelled.changes("2099-01-01").count() == 0

    def test_changes_end_no_sooner_than_they_begin(self, travelled: bf.Table) -> None:
        assert travelled.changes("2099-01-01", "2099-01-01").count() == 0
        with pytest.raises(ValueError, match=r"until=2098.* is before since=2099.*: exchange"):
            travelled.changes("2099-01-01", "2098-01-01")

    def test_instant_text_and_datetime_are_one_moment(
        self, travelled: bf.Table, golden: Golden
    ) -> None:
        root = golden("1.2.0", "timetravel_mor")
        recorded = json.loads((root.parent / "_expected/timetravel_mor.json").read_text())
        for instant in recorded["as_of"]:
            iso = (
                f"{instant[:4]}-{instant[4:6]}-{instant[6:8]}T{instant[8:10]}:{instant[10:12]}:"
                f"{instant[12:14]}.{instant[14:17]}"
            )
            rows = by_id(travelled.scan(as_of=instant).to_arrow())
            for same in (iso, datetime.fromisoformat(iso)):
                assert by_id(travelled.scan(as_of=same).to_arrow()) == rows

    @pytest.mark.parametrize("moment", ["yesterday", "2024-13-01", "", "12"])
    def test_no_moment_is_a_value_error(self, travelled: bf.Table, moment: str) -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            travelled.scan(as_of=moment)

    def test_changes_of_a_table_without_meta_columns_are_not_known(self, golden: Golden) -> None:
        with pytest.raises(bf.UnsupportedError, match="as_of="):
            bf.open(golden("1.2.0", "virtual")).changes(None)


def test_a_file_that_went_since_it_was_listed(golden_copy: Golden) -> None:
    """As where a metadata table lists what is gone."""
    table = bf.open(golden_copy("1.2.0", "mor"))
    (file_slice, *_) = Snapshot(table.state).slices("ap")
    for file in file_slice.files:
        Path(table.uri, file.path).unlink()
        opens = open_base_file(table.store, file, DEFAULT_LIMITS).__enter__
        is_base = file is file_slice.base_file
        read = opens if is_base else partial(load_log_file, table.store, file, DEFAULT_LIMITS)
        with pytest.raises(
            bf.NotFoundError, match=r"though the table lists it; check\(\) says"
        ) as told:
            read()
        assert told.value.path == file.path
    assert len(file_slice.files) > 1


def test_read_optimized_leaves_out_logs(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    scan = table.scan(read_optimized=True, meta_columns=True)
    rows = scan.to_arrow()
    assert scan.count() == rows.num_rows == 300
    assert all(name.endswith(".parquet") for name in rows["_hoodie_file_name"].to_pylist())
    assert set(rows["ts"].to_pylist()) == {1}, "no update of a log"
    only_logs = bf.open(golden("1.2.0", "nbcc"))
    assert only_logs.scan(read_optimized=True).to_arrow() == only_logs.schema.empty_table()
