"""A table follows its timeline; a scan stays with what it was planned on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from tests.same_rows import assert_same
from tests.table.tables import open_recorded

pytestmark = pytest.mark.rotated

Golden = Callable[[str, str], Path]


def timeline_of(root: Path) -> Path:
    layout_2 = root / ".hoodie" / "timeline"
    return layout_2 if layout_2.is_dir() else root / ".hoodie"


def completed(root: Path) -> list[Path]:
    """The completed instants, oldest first."""
    return sorted(
        path
        for path in timeline_of(root).iterdir()
        if path.suffix in (".commit", ".deltacommit", ".replacecommit")
    )


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
@pytest.mark.parametrize("name", ["timetravel", "timetravel_mor"])
def test_instants_are_seen_as_they_complete(
    golden_copy: Golden,
    golden_expected: Callable[..., pa.Table],
    tmp_path: Path,
    version: str,
    name: str,
) -> None:
    root = golden_copy(version, name)
    instants = completed(root)
    aside = tmp_path / "aside"
    aside.mkdir()
    for path in instants[1:]:
        shutil.move(path, aside / path.name)

    table = bf.open(root)
    counts, scans = [], []
    for path in [None, *instants[1:]]:
        if path is not None:
            shutil.move(aside / path.name, path)
        scans.append(table.scan(meta_columns=True))
        counts.append(scans[-1].count())
        assert len(table.timeline.commits.completed.instants) == len(counts)
        assert table.scan(filter=[("id", "=", "key-000062")]).count() == (len(counts) > 1)
    assert counts[0] == 60
    assert counts[1] == 66
    assert counts[2] == 60
    assert_same(scans[-1].to_arrow(), golden_expected(version, name))
    # The first scan, planned when there was one instant, still reads as it did then.
    assert scans[0].count() == 60
    assert set(scans[0].to_arrow()["ts"].to_pylist()) == {1}


def test_a_call_lists_the_timeline_and_nothing_that_is_known(golden: Golden) -> None:
    table, store = open_recorded(golden("1.2.0", "mor"), bf.SimpleBucketIndex(4))
    table.scan().to_arrow()
    store.operations.clear()
    table.scan().plan()
    table.schema  # noqa: B018
    assert store.operations == [("list", ".hoodie/timeline")] * 2


def test_a_rollback_takes_rows_away(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "timetravel")
    table = bf.open(root)
    before = table.scan().to_arrow()
    last = completed(root)[-1]
    last.unlink()
    for path in timeline_of(root).glob(f"{last.name.split('_')[0]}.*"):
        path.unlink()
    after = table.scan().to_arrow()
    assert 5 in before["ts"].to_pylist()
    assert 5 not in after["ts"].to_pylist()
    assert before.num_rows == after.num_rows


def test_a_file_archived_between_listing_and_reading(golden_copy: Golden) -> None:
    """The listing shows a commit that is gone when it is read: the timeline is listed again."""
    root = golden_copy("1.2.0", "timetravel")
    table, store = open_recorded(root)
    first = completed(root)[0]
    listing = store.list_names

    def then_archive(path: str) -> list[str]:
        entries = listing(path)
        if path == ".hoodie/timeline" and first.exists():
            for file in timeline_of(root).glob(f"{first.name.split('_')[0]}*"):
                file.unlink()
        return entries

    store.list_names = then_archive  # type: ignore[method-assign]
    assert table.scan().count() > 0
    assert len(table.timeline.commits.completed.instants) == 4


class TestWithoutStatedSchema:
    """Commits without a schema: the files state it."""

    @staticmethod
    def forget(root: Path, schema: str) -> None:
        for path in completed(root):
            text = path.read_bytes()
            assert schema.encode() in text
            path.write_bytes(text.replace(b'"schema"', b'"schemaX"'))

    def test_base_files_tell(self, golden_copy: Golden) -> None:
        root = golden_copy("0.15.0", "cow")
        stated = bf.open(root).scan().to_arrow()
        self.forget(root, "schema")
        table = bf.open(root)
        assert table.schema.names == stated.schema.names
        assert table.scan().to_arrow().sort_by("id") == stated.sort_by("id").cast(table.schema)

    def test_log_files_tell(self, golden_copy: Golden) -> None:
        root = golden_copy("0.15.0", "ch_init")
        for path in root.glob("*/*.parquet"):
            raise AssertionError(f"{path}: meant to be log only")
        stated = bf.open(root).scan().to_arrow()
        self.forget(root, "schema")
        assert bf.open(root).scan().to_arrow().sort_by("id") == stated.sort_by("id")

    def test_a_table_that_was_never_written(self, golden_copy: Golden) -> None:
        root = golden_copy("1.2.0", "cow")
        for path in timeline_of(root).iterdir():
            path.unlink() if path.is_file() else shutil.rmtree(path)
        for partition in ("us", "eu", "ap"):
            shutil.rmtree(root / partition)
        table = bf.open(root)
        with pytest.raises(bf.SchemaError, match="write to it first"):
            table.scan()
        assert table.inspect.commits().num_rows == 0
        assert table.inspect.files().num_rows == 0
        assert table.index is None
        assert "there are no file groups" in table.resolved_index.evidence

    def test_a_table_that_was_created_and_never_written(self, golden_copy: Golden) -> None:
        root = golden_copy("1.2.0", "cow")
        schema = (
            '{"type":"record","name":"t","fields":['
            '{"name":"_hoodie_commit_time","type":["null","string"]},'
            '{"name":"id","type":"string"},{"name":"n","type":["null","int"]}]}'
        )
        for path in timeline_of(root).iterdir():
            path.unlink() if path.is_file() else shutil.rmtree(path)
        for partition in ("us", "eu", "ap"):
            shutil.rmtree(root / partition)
        with (root / ".hoodie/hoodie.properties").open("a") as properties:
            properties.write("hoodie.table.create.schema=" + schema.replace(":", "\\:") + "\n")
        table = bf.open(root)
        assert table.schema == pa.schema(
            [pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int32())]
        )
        assert table.scan().to_arrow() == table.schema.empty_table()
        assert table.scan().count() == 0
        assert table.lookup(["a"]).num_rows == 0


@pytest.mark.parametrize(("before", "after"), [(6, 8), (6, 9), (9, 6), (8, 9)])
@pytest.mark.parametrize(
    "read",
    [
        lambda table: sorted(table.scan().to_arrow()["id"].to_pylist()),
        lambda table: [table.lookup([key])["id"].to_pylist() for key in "ab"],
        lambda table: sorted(table.changes(None).to_arrow()["id"].to_pylist()),
        lambda table: len(table.timeline.completed.instants),
    ],
    ids=["scan", "lookup", "changes", "timeline"],
)
def test_a_timeline_that_lies_elsewhere_now_is_read_there(
    tmp_path: Path, before: int, after: int, read: Callable[[bf.Table], object]
) -> None:
    """As after an upgrade by Hudi: the first call of a table that was open found no rows."""
    root = tmp_path / "t"
    tables = []
    for version, value in ((before, 1), (after, 2)):
        shutil.rmtree(root, ignore_errors=True)
        rows = pa.table({"id": ["a", "b"], "v": [value, value]})
        table = bf.create(
            root,
            schema=rows.schema,
            record_key="id",
            index=bf.SimpleBucketIndex(2),
            table_version=version,
        )
        table.upsert(rows.slice(0, 1))
        table.upsert(rows.slice(1))
        tables.append(table)
        read(table)
    old, new = tables
    assert read(old) == read(bf.open(root)) == read(new)
    assert old.version == after
    assert old.scan().to_arrow()["v"].to_pylist() == [2, 2]
