"""Partitions of the metadata table that bucketfmt does not keep in step, or does not know."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.choices import MetadataPolicy
from bucketfmt.errors import UnsafePathError, UnsupportedError
from bucketfmt.format.table.table_config import METADATA_PARTITIONS
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.snapshot.kept_commits import KeptCommits
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.table_properties import change_properties, load_config
from bucketfmt.write.metadata import keeper
from soak.damage.tables import table_files
from tests.write.metadata.metadata_records import assert_in_step

DEFINITIONS = ".hoodie/.index_defs/index.json"
NAME = "vector_index_of_later"
ROWS = pa.table({"id": [f"k{n}" for n in range(9)], "v": range(9), "part": ["a", "b", "c"] * 3})


def with_expression_index(version: str, policy: MetadataPolicy = "sync") -> bf.Table:
    """A table of Hudi's, in memory."""
    store = MemoryStore(table_files(f"metadata/{version}/mdt_expression"))
    config = load_config(store, DEFAULT_LIMITS)
    writer = bf.WriterConfig(metadata_table=policy)
    return bf.Table(store, config, DEFAULT_LIMITS, bf.SimpleBucketIndex(2), writer)


def with_unknown_partition(path: Path, name: str = NAME, table_version: int = 9) -> bf.Table:
    """A table that lists a partition of a later release, which has a file group."""
    table = bf.create(
        path,
        schema=ROWS.schema,
        record_key=["id"],
        partition_by=["part"],
        index=bf.SimpleBucketIndex(2),
        table_version=table_version,
    )
    table.metadata_table.init("column_stats", "record_index")
    table.upsert(ROWS)

    def listed(old: dict[str, str]) -> dict[str, str]:
        return {**old, METADATA_PARTITIONS: f"{old[METADATA_PARTITIONS]},{name}"}

    change_properties(table.store, DEFAULT_LIMITS, 1.0, listed, lambda: None)
    if name == NAME:
        (one,) = (path / ".hoodie/metadata/files").glob("files-*.hfile")
        (path / ".hoodie/metadata" / NAME).mkdir()
        group = f"{NAME.replace('_', '-')}-{one.name.removeprefix('files-')}"
        (path / ".hoodie/metadata" / NAME / group).write_bytes(b"of a later release")
    return bf.open(path)


def opened(table: bf.Table, policy: MetadataPolicy) -> bf.Table:
    return bf.open(table.uri, writer=bf.WriterConfig(metadata_table=policy))


def rows_of(table: bf.Table) -> list[dict[str, object]]:
    found = bf.open(table.uri).scan().to_arrow()
    return found.sort_by("id").to_pylist()


def contents_of(table: bf.Table) -> list[str]:
    """The rows without Hudi's columns, as text, in order."""
    found = table.scan().to_arrow()
    names = [name for name in found.column_names if not name.startswith("_hoodie")]
    return sorted(map(str, found.select(names).to_pylist()))


@pytest.mark.rule("MDT-22")
@pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
def test_an_expression_index_goes_with_its_definition(version: str) -> None:
    """Hudi refuses reads by the expression where it finds the definition alone."""
    table = with_expression_index(version)
    assert_in_step(table)
    with pytest.warns(UserWarning, match="expr_index_by_day, expr_index_by_name of the metadata"):
        table.upsert(table.scan(limit=3).to_arrow())
    assert load_config(table.store, DEFAULT_LIMITS).metadata_partitions == ("files",)
    assert json.loads(table.store.read(DEFINITIONS, 1 << 20)) == {"indexDefinitions": {}}
    assert [e.name for e in table.store.list(".hoodie/metadata") if "expr" in e.name] == []
    assert_in_step(table)


def test_an_expression_index_goes_with_the_metadata_table() -> None:
    table = with_expression_index("1.2.0", "drop")
    table.upsert(table.scan(limit=3).to_arrow())
    assert load_config(table.store, DEFAULT_LIMITS).metadata_partitions == ()
    assert json.loads(table.store.read(DEFINITIONS, 1 << 20)) == {"indexDefinitions": {}}


def test_an_expression_index_goes_where_the_metadata_table_is_to_be_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a rollback of an instant whose records are in base files of the metadata table."""
    table = with_expression_index("1.2.0")
    rows = contents_of(table)
    monkeypatch.setattr(keeper, "remove_delta_commit", lambda *_: False)
    with pytest.warns(UserWarning, match="the next change of the table makes it anew"):
        keeper.MetadataKeeper("sync", KeptCommits(table.store, DEFAULT_LIMITS)).take_back(
            table.store, DEFAULT_LIMITS, "20990101000000000", lambda: None, is_completed=False
        )
    left = load_config(table.store, DEFAULT_LIMITS).metadata_partitions_unfinished
    assert left == ("expr_index_by_day", "expr_index_by_name", "files")
    with pytest.warns(UserWarning, match="expr_index_by_day, expr_index_by_name of the metadata"):
        table.upsert(table.scan(limit=3).to_arrow())
    config = load_config(table.store, DEFAULT_LIMITS)
    assert config.metadata_partitions == ("files",)
    assert config.metadata_partitions_unfinished == ()
    assert json.loads(table.store.read(DEFINITIONS, 1 << 20)) == {"indexDefinitions": {}}
    assert_in_step(table)
    assert contents_of(table) == rows


def with_secondary_index(path: Path, *, is_partitioned: bool) -> bf.Table:
    """A table that has a key and its value in two partitions, where its record index lets it.

    The secondary index is of a column of fractions, so that it cannot be kept in any case.
    """
    index = bf.RecordIndex(partitioned=is_partitioned)
    table = bf.create(
        path,
        schema=ROWS.schema.append(pa.field("d", pa.float64())),
        record_key=["id"],
        partition_by=["part"],
        index=index,
        table_version=9,
    )
    rows = ROWS.append_column("d", ROWS["v"].cast(pa.float64()))
    table.upsert(rows)
    if is_partitioned:
        moved = pa.array(["c", "a", "b"] * 3)
        table.upsert(rows.set_column(rows.column_names.index("part"), "part", moved))
    definitions = json.loads((path / DEFINITIONS).read_text())
    definitions["indexDefinitions"]["secondary_index_by_d"] = {
        "indexName": "secondary_index_by_d",
        "indexType": "secondary_index",
        "indexFunction": "identity",
        "sourceFields": ["d"],
        "indexOptions": {},
        "version": "V2",
    }
    table.store.replace(DEFINITIONS, json.dumps(definitions).encode())

    def listed(old: dict[str, str]) -> dict[str, str]:
        return {**old, METADATA_PARTITIONS: f"{old[METADATA_PARTITIONS]},secondary_index_by_d"}

    change_properties(table.store, DEFAULT_LIMITS, 1.0, listed, lambda: None)
    return bf.open(table.uri)


@pytest.mark.rule("MDT-22")
@pytest.mark.parametrize("is_partitioned", [True, False])
def test_a_secondary_index_goes_with_its_definition_where_keys_are_not_unique(
    tmp_path: Path, is_partitioned: bool
) -> None:
    """Hudi makes an index anew that is defined, and fails where a value has a key twice."""
    table = with_secondary_index(tmp_path / "t", is_partitioned=is_partitioned)
    with pytest.warns(UserWarning, match="secondary_index_by_d of the metadata table cannot be"):
        table.upsert(table.scan(limit=3).to_arrow())
    after = bf.open(table.uri)
    assert after.config.metadata_partitions == ("files", "record_index")
    left = json.loads((tmp_path / "t" / DEFINITIONS).read_text())["indexDefinitions"]
    expected = {"record_index"} if is_partitioned else {"record_index", "secondary_index_by_d"}
    assert left.keys() == expected
    assert_in_step(after)


def test_an_expression_index_stays_where_nothing_is_written() -> None:
    table = with_expression_index("1.2.0", "refuse")
    before = json.loads(table.store.read(DEFINITIONS, 1 << 20))
    with pytest.raises(UnsupportedError, match="the table has a metadata table"):
        table.upsert(table.scan(limit=3).to_arrow())
    with pytest.raises(UnsupportedError, match=r"or remove it: .*drop\('expr_index_by_day'\)"):
        table.metadata_table.rebuild()
    assert json.loads(table.store.read(DEFINITIONS, 1 << 20)) == before
    assert len(load_config(table.store, DEFAULT_LIMITS).metadata_partitions) == 3
    table.metadata_table.drop("expr_index_by_day")
    left = json.loads(table.store.read(DEFINITIONS, 1 << 20))["indexDefinitions"]
    assert left.keys() == {"expr_index_by_name"}


@pytest.mark.rule("MDT-23")
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_partition_of_an_unknown_kind_is_not_guessed_at(
    tmp_path: Path, table_version: int
) -> None:
    table = with_unknown_partition(tmp_path / "t", table_version=table_version)
    assert table.config.metadata_partitions == ("column_stats", "files", "record_index", NAME)
    assert table.scan(filter=[("v", ">", 5)]).to_arrow().num_rows == 3
    assert table.inspect.files().num_rows == 6
    with pytest.raises(UnsupportedError, match="of a kind that is not known here; leave it to"):
        table.inspect.metadata_entries(NAME)
    listed = {each.name: each.file_groups for each in table.metadata_table.list()}
    assert listed == {"column_stats": 2, "files": 1, "record_index": 10, NAME: 1}
    report = table.check(depth="full")
    assert report.findings == ()
    assert [why for why in report.not_checked if NAME in why] == [
        f".hoodie/metadata/{NAME}: partition '{NAME}' of the metadata table is of a kind that is "
        f"not known here; leave it to Hudi, or remove it: metadata_table.drop('{NAME}')"
    ]


@pytest.mark.rule("MDT-23")
@pytest.mark.parametrize("table_version", [6, 9])
def test_a_write_removes_a_partition_of_an_unknown_kind(tmp_path: Path, table_version: int) -> None:
    table = with_unknown_partition(tmp_path / "t", table_version=table_version)
    rows = rows_of(table)
    with pytest.raises(UnsupportedError, match="the writer is set to write to no such table"):
        opened(table, "refuse").upsert(ROWS)
    with pytest.raises(UnsupportedError, match=f"or remove it: .*drop\\('{NAME}'\\)"):
        table.metadata_table.rebuild()
    assert NAME in bf.open(table.uri).config.metadata_partitions
    with pytest.warns(UserWarning, match=f"{NAME} of the metadata table cannot be kept in step"):
        opened(table, "sync").upsert(ROWS.slice(0, 3))
    after = bf.open(table.uri)
    assert after.config.metadata_partitions == ("column_stats", "files", "record_index")
    assert not (Path(table.uri) / ".hoodie/metadata" / NAME).exists()
    assert_in_step(after)
    assert rows_of(table) == rows


def test_a_partition_of_an_unknown_kind_goes_with_the_metadata_table(tmp_path: Path) -> None:
    table = with_unknown_partition(tmp_path / "t")
    opened(table, "drop").upsert(ROWS.slice(0, 3))
    after = bf.open(table.uri)
    assert after.config.metadata_partitions == ()
    assert not (Path(table.uri) / ".hoodie/metadata").exists()
    assert after.check(depth="full").status == "clean"


def test_a_partition_that_points_elsewhere_is_refused_before_anything_changes(
    tmp_path: Path,
) -> None:
    table = with_unknown_partition(tmp_path / "t", "../timeline")
    instants = table.timeline.instants
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*cannot be kept in step")
            with pytest.raises(UnsafePathError, match=r"\.\./timeline.* treat the table as"):
                opened(table, "sync").upsert(ROWS)
    after = bf.open(table.uri)
    assert "../timeline" in after.config.metadata_partitions
    assert after.timeline.instants == instants
    assert len(rows_of(table)) == 9
