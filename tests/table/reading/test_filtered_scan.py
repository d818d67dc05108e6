"""A filter prunes partitions, buckets and row groups, and never changes the rows."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.format.timeline.commit_metadata import CommitMetadata
from bucketfmt.rows.filters.filter import parse_filter
from tests.check.planting import Patient
from tests.index.test_assign import index_of
from tests.rotation import examples

pytestmark = pytest.mark.rotated

Golden = Callable[[str, str], Path]

# One of each kind of partitioning, key and index; a merge-on-read table where rows move by merging.
TABLES = [
    ("0.15.0", "mor"),
    ("1.2.0", "mor"),
    ("1.0.2", "cow"),
    ("0.15.0", "complexkey"),
    ("1.2.0", "complexkey"),
    ("1.2.0", "intkey"),
    ("0.15.0", "intkey"),
    ("1.0.2", "nonpart"),
    ("1.2.0", "multipart"),
    ("1.2.0", "partlevel"),
    ("1.2.0", "partrules"),
    ("1.2.0", "ch_pending"),
    ("0.15.0", "ch_init"),
    ("1.2.0", "nbcc"),
    ("0.15.0", "virtual_complex"),
    ("1.2.0", "virtual_complex"),
    ("1.0.2", "virtual_mor"),
    ("1.2.0", "tskeygen"),
    ("1.0.2", "delete_marker_mor"),
]
OPERATORS = ["=", "==", "!=", "<", "<=", ">", ">="]


@cache
def opened(root: Path, name: str) -> tuple[bf.Table, pa.Table]:
    table = bf.open(root, index=index_of(name))
    return table, table.scan().to_arrow()


def rows_of(table: pa.Table) -> list[str]:
    """Rows in a fixed order, as text: NaN is not equal to itself."""
    return sorted(map(repr, table.to_pylist()))


@st.composite
def predicates(draw: st.DrawFn, rows: pa.Table) -> tuple[str, str, Any]:
    """A condition on a flat column: mostly with values that are there."""
    names = [f.name for f in rows.schema if not pa.types.is_nested(f.type)]
    name = draw(st.sampled_from(names))
    present = rows.column(name).unique().to_pylist()
    value = st.sampled_from(present)
    if pa.types.is_string(rows.schema.field(name).type):
        value |= st.sampled_from(["", "nothing", "key-000125", "__HIVE_DEFAULT_PARTITION__"])
    if draw(st.booleans()):
        op = draw(st.sampled_from(["in", "in", "not in"]))
        return name, op, draw(st.lists(value, min_size=1, max_size=4))
    return name, draw(st.sampled_from(OPERATORS)), draw(value.filter(lambda v: v is not None))


@st.composite
def filters(draw: st.DrawFn, rows: pa.Table) -> Any:
    conjunction = st.lists(predicates(rows), min_size=1, max_size=3)
    if draw(st.booleans()):
        return draw(conjunction)
    return draw(st.lists(conjunction, min_size=1, max_size=3))


@pytest.mark.parametrize(("version", "name"), TABLES)
@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_filtered_scan_is_the_filtered_full_scan(
    golden: Golden, version: str, name: str, data: st.DataObject
) -> None:
    table, everything = opened(golden(version, name), name)
    wanted = data.draw(filters(everything))
    scan = table.scan(filter=wanted)
    expected = everything.filter(parse_filter(wanted).expression)
    assert rows_of(scan.to_arrow()) == rows_of(expected), scan.plan()
    if everything.num_rows and data.draw(st.booleans()):
        assert scan.count() == expected.num_rows
        assert table.scan(filter=parse_filter(wanted).expression).count() == expected.num_rows


def pruned(scan: bf.Scan) -> tuple[int, int, int]:
    plan = scan.plan()
    return len(plan.slices), plan.partitions_pruned, plan.file_groups_pruned


class TestPruning:
    """Partitions eu, us, ap with 4 buckets each; keys spread over them by their number."""

    @pytest.fixture
    def table(self, golden: Golden) -> bf.Table:
        return bf.open(golden("1.2.0", "mor"), index=bf.SimpleBucketIndex(4))

    def test_everything(self, table: bf.Table) -> None:
        assert pruned(table.scan()) == (12, 0, 0)
        assert pruned(table.scan(filter=[("qty", "=", 3)])) == (12, 0, 0)

    @pytest.mark.parametrize(
        ("wanted", "left"),
        [
            ([("region", "=", "eu")], (4, 2, 0)),
            ([("region", "in", ["eu", "us", "xx"])], (8, 1, 0)),
            ([("region", "=", "nowhere")], (0, 3, 0)),
            ([("region", "!=", "eu")], (12, 0, 0)),
            ([("id", "=", "key-000125")], (3, 0, 9)),
            ([("id", "in", ["key-000125", "key-000126"])], (6, 0, 6)),
            ([("id", "in", [])], (0, 0, 12)),
            ([("id", "=", "key-000125"), ("region", "=", "ap")], (1, 2, 3)),
            ([("id", "in", ["key-000125", "key-000126"]), ("id", "=", "key-000125")], (3, 0, 9)),
            ([[("id", "=", "key-000125")], [("id", "=", "key-000126")]], (6, 0, 6)),
            ([[("id", "=", "key-000125")], [("qty", "=", 1)]], (12, 0, 0)),
            ([[("region", "=", "eu")], [("region", "=", "us")]], (8, 1, 0)),
            ([[("region", "=", "eu")], [("id", "=", "key-000125")]], (12, 0, 0)),
            ([("id", ">=", "key-000125")], (12, 0, 0)),
        ],
    )
    def test_what_is_left(self, table: bf.Table, wanted: Any, left: tuple[int, int, int]) -> None:
        assert pruned(table.scan(filter=wanted)) == left

    def test_the_key_column_of_hudi_prunes_row_groups_only(self, table: bf.Table) -> None:
        scan = table.scan(filter=[("_hoodie_record_key", "=", "key-000125")])
        assert pruned(scan) == (12, 0, 0)
        assert scan.to_arrow()["id"].to_pylist() == ["key-000125"]

    def test_an_expression_prunes_as_tuples_do(self, table: bf.Table) -> None:
        import pyarrow.compute as pc

        assert pruned(table.scan(filter=pc.field("region") == "eu")) == (4, 2, 0)
        assert pruned(table.scan(filter=~(pc.field("region") != "eu"))) == (12, 0, 0)

    def test_a_plan_says_what_it_prunes(self, table: bf.Table) -> None:
        scan = table.scan(filter=[("id", "=", "key-000125"), ("region", "=", "eu")])
        text = str(scan.plan())
        assert text.startswith("1 file groups, 4 files, ")
        assert text.endswith("bytes; pruned 2 partitions and 3 file groups")
        assert repr(scan) == f"<bucketfmt.Scan: {text}>"
        assert scan.plan().size == sum(
            file.size or 0 for group in scan.plan().slices for file in group.files
        )

    def test_changes_prune_too(self, table: bf.Table) -> None:
        scan = table.changes(None, filter=[("id", "=", "key-000125"), ("region", "=", "ap")])
        assert pruned(scan) == (1, 2, 3)
        assert scan.to_arrow()["name"].to_pylist() == ["n125u"]


def test_an_inferred_index_prunes_nothing(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "mor"))
    assert table.resolved_index.source == "file ids and keys"
    assert pruned(table.scan(filter=[("id", "=", "key-000125")])) == (12, 0, 0)


def test_partition_rules_and_rings_prune(golden: Golden) -> None:
    for name in ("partlevel", "partrules", "ch_init", "nbcc"):
        table = bf.open(golden("1.2.0", name), index=index_of(name))
        scan = table.scan(filter=[("id", "=", "key-000025")])
        kept, partitions_pruned, groups_pruned = pruned(scan)
        assert partitions_pruned == 0
        assert groups_pruned > 0
        assert kept <= 3, "one bucket of each partition"
        assert scan.to_arrow()["id"].to_pylist() == ["key-000025"]


def test_a_hash_field_of_a_complex_key_prunes(golden: Golden) -> None:
    for version in ("0.15.0", "1.2.0"):
        table = bf.open(golden(version, "complexkey"), index=index_of("complexkey"))
        by_id = table.scan(filter=[("id", "=", "key-000125")])
        by_both = table.scan(filter=[("id", "=", "key-000125"), ("name", "=", "n125")])
        by_name = table.scan(filter=[("name", "=", "n125")])
        if version == "0.15.0":  # a name with a comma in it would take part in that hash
            assert pruned(by_id) == (12, 0, 0)
        else:
            assert pruned(by_id) == (3, 0, 9)
        assert pruned(by_name) == (12, 0, 0)
        for scan in (by_id, by_both, by_name):
            assert scan.to_arrow()["id"].to_pylist() == ["key-000125"]


def test_typed_keys_and_partitions_prune(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "intkey"), index=bf.SimpleBucketIndex(4))
    all_groups = pruned(table.scan())[0]
    kept, _, groups_pruned = pruned(table.scan(filter=[("id", "=", -150)]))
    assert kept + groups_pruned == all_groups
    assert groups_pruned > kept
    null = table.scan(filter=[("region", "in", [None])])
    assert pruned(null)[1] == 2
    assert set(null.to_arrow()["region"].to_pylist()) == {None}
    rows = table.scan(filter=[("d", "=", dt.date(2024, 1, 4)), ("v", "=", Decimal("0.375"))])
    assert rows.to_arrow()["id"].to_pylist() == [-147]


def test_levels_of_partitions_prune_one_by_one(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "multipart"), index=bf.SimpleBucketIndex(1))
    everything = table.scan().to_arrow()
    kinds = everything["kind"].unique().to_pylist()
    for region, kind in itertools.product(["us", "eu"], kinds):
        if kind is None:
            continue
        scan = table.scan(filter=[("region", "=", region), ("kind", "=", kind)])
        expected = everything.filter(
            pa.compute.and_(
                pa.compute.equal(everything["region"], region),
                pa.compute.equal(everything["kind"], kind),
            )
        )
        assert rows_of(scan.to_arrow()) == rows_of(expected)
        assert len(scan.plan().slices) <= 1


def test_a_timestamp_key_generator_prunes_no_partition(golden: Golden) -> None:
    """Its paths are made of formatted times, not of the column's values."""
    table = bf.open(golden("1.2.0", "tskeygen"))
    everything = table.scan().to_arrow()
    for made in everything["made"].unique().to_pylist():
        scan = table.scan(filter=[("made", "=", made)])
        assert pruned(scan)[1] == 0
        assert scan.count() == everything["made"].to_pylist().count(made)


def test_row_groups_without_the_value_are_not_read(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bucketfmt.rows.parquet.base_file import BaseFileReader

    asked: list[int] = []
    find = BaseFileReader.find_row_groups

    def counting(self: BaseFileReader, *arguments: Any) -> list[int]:
        groups = find(self, *arguments)
        asked.append(len(groups))
        return groups

    monkeypatch.setattr(BaseFileReader, "find_row_groups", counting)
    table = bf.open(golden("1.2.0", "cow"))
    assert table.scan(filter=[("id", ">", "key-000326")]).count() == 3
    assert len(asked) == 12
    assert sum(asked) == 4  # one ends in that very key, which may have been cut short


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_a_dropped_column_that_files_have_as_nulls(
    golden_copy: Callable[[str, str], Path], version: str
) -> None:
    """Hudi 1.2 writes it so where it writes a file again for a delete; the path tells the value."""
    root = golden_copy(version, "dropped_column")
    before = bf.open(root).scan().to_arrow().sort_by("id")
    patient = Patient(root)

    def stating_it(metadata: CommitMetadata) -> CommitMetadata:
        schema = json.loads(metadata.extra_metadata["schema"] or "")
        schema["fields"].append({"name": "region", "type": ["null", "string"], "default": None})
        stated = {**metadata.extra_metadata, "schema": json.dumps(schema)}
        return msgspec.structs.replace(metadata, extra_metadata=stated)

    for instant in patient.instants:
        patient.edit_commit(instant, stating_it)
    for path in [p for p in root.rglob("*.parquet") if ".hoodie" not in p.parts]:
        rows = pq.read_table(path, partitioning=None)
        nulls = rows.append_column("region", pa.nulls(rows.num_rows, pa.string()))
        pq.write_table(nulls, path, store_schema=False)
        patient.record(path)
    table = bf.open(root)
    assert table.scan().to_arrow().sort_by("id").equals(before)
    for region in ("us", "eu"):
        wanted = [row for row in before.to_pylist() if row["region"] == region]
        found = table.scan(filter=f"region = '{region}'").to_arrow().sort_by("id").to_pylist()
        assert found == wanted != []
    assert table.scan(filter="region is null").count() == 0
