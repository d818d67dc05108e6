"""Tables to whose logs Hudi wrote updates of some columns, by MERGE INTO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.format.log.log_block import LogBlock
from bucketfmt.format.log.log_file import decode_log_file
from tests.golden import expected
from tests.table.tables import state_properties

Golden = Callable[[str, str], Path]
VERSIONS = pytest.mark.parametrize("version", ["1.0.2", "1.2.0"])
ALONE = bf.WriterConfig(services=None)


def partial_blocks(root: Path) -> list[tuple[Path, LogBlock]]:
    return [
        (path, span)
        for path in sorted(root.rglob(".*.log.*"))
        for span in decode_log_file(path.read_bytes())
        if isinstance(span, LogBlock) and span.is_partial
    ]


def updated_alone(root: Path) -> dict[str, object]:
    """Return a row that an update changed, and that no whole row in a log replaced."""
    rows = bf.open(root).scan(meta_columns=True).to_arrow().to_pylist()
    return next(
        row
        for row in rows
        if any(
            row["_hoodie_commit_time"] == block.instant_time
            and str(row["id"]).encode() in bytes(block.content)
            for _, block in partial_blocks(root)
        )
    )


@VERSIONS
def test_columns_filters_and_keys(golden: Golden, version: str) -> None:
    root = golden(version, "partial")
    assert len(partial_blocks(root)) >= 4
    rows = expected(root.parent, "partial").to_pylist()
    table = bf.open(root)
    for name in ("name", "price", "qty"):
        found = table.scan(["id", "region", name]).to_arrow().to_pylist()
        assert {(r["id"], r["region"]): r[name] for r in found} == {
            (r["id"], r["region"]): r[name] for r in rows
        }
    for text, holds in (
        ("price >= 1000", lambda r: r["price"] >= 1000),
        ("price = 0.0 and qty > 0", lambda r: r["price"] == 0 and r["qty"] > 0),
        ("qty >= 500", lambda r: r["qty"] >= 500),
    ):
        found = table.scan(["id"], filter=text).to_arrow()["id"].to_pylist()
        assert sorted(found) == sorted(r["id"] for r in rows if holds(r)) != []
    keys = sorted(r["id"] for r in rows)[:9]
    looked_up = table.lookup(keys).to_pylist()
    assert {r["id"]: (r["name"], r["price"], r["qty"], r["ts"]) for r in looked_up} == {
        r["id"]: (r["name"], r["price"], r["qty"], r["ts"]) for r in rows if r["id"] in keys
    }
    assert table.scan().count() == len(rows)


@VERSIONS
def test_a_compaction_makes_whole_rows(golden_copy: Golden, version: str) -> None:
    root = golden_copy(version, "partial")
    table = bf.open(root, writer=ALONE)
    before = table.scan().to_arrow().to_pylist()
    table.compact()
    after = bf.open(root).scan(read_optimized=True).to_arrow().to_pylist()
    assert sorted(after, key=repr) == sorted(before, key=repr)
    assert bf.open(root).check(depth="full").status == "clean"


@pytest.mark.parametrize("how", ["by key", "by key and partition", "by a whole row"])
@VERSIONS
def test_an_update_of_a_row_that_is_not_there(golden_copy: Golden, version: str, how: str) -> None:
    """As MERGE INTO of Hudi logs it; Hudi reads other bytes or fails until the key is deleted."""
    root = golden_copy(version, "partial")
    row = updated_alone(root)
    key, region = str(row["id"]), str(row["region"])
    table = bf.open(root, writer=ALONE)
    before = {r["id"]: r for r in table.scan().to_arrow().to_pylist()}
    index = table.index
    assert isinstance(index, bf.SimpleBucketIndex)
    bucket = table.locate([key])["bucket_id"][0].as_py()
    other = next(
        name
        for name in (f"{key[:3]}{n:0{len(key) - 3}d}" for n in range(500, 1000))
        if name not in before and table.locate([name])["bucket_id"][0].as_py() == bucket
    )
    changed = 0
    for path, block in partial_blocks(root):
        if key.encode() in bytes(block.content) and f"/{region}/" in path.as_posix():
            path.write_bytes(path.read_bytes().replace(key.encode(), other.encode()))
            changed += 1
    assert changed
    said = f"key '{other}': the log has updates of some columns"
    for read in (
        lambda: bf.open(root).scan().to_arrow(),
        lambda: bf.open(root).scan(["_hoodie_record_key"]).to_arrow(),
        lambda: bf.open(root).lookup([other]),
        lambda: bf.open(root, writer=ALONE).compact(),
    ):
        with pytest.raises(bf.UnsupportedError, match=said):
            read()
    report = bf.open(root).check(depth="full")
    assert report.status == "incomplete"
    assert any(said in sentence for sentence in report.not_checked)
    table = bf.open(root, writer=ALONE)
    if how == "by a whole row":
        table.upsert([{**before[key], "id": other, "ts": 50}])
    else:
        table.delete([other] if how == "by key" else [{"id": other, "region": region}])
    mended = {r["id"]: r for r in bf.open(root).scan().to_arrow().to_pylist()}
    written = {other} if how == "by a whole row" else set()
    assert mended.keys() == {*before, *written}
    assert all(mended[name] == {**before[key], "id": name, "ts": 50} for name in written)
    assert {k: r for k, r in mended.items() if k not in (key, other)} == {
        k: r for k, r in before.items() if k != key
    }
    assert bf.open(root).check(depth="full").status == "clean"


@VERSIONS
def test_changes_are_refused(golden: Golden, version: str) -> None:
    with pytest.raises(bf.UnsupportedError, match="not merged for the changes between two moments"):
        bf.open(golden(version, "partial")).changes("2020-01-01").to_arrow()


def test_tables_by_column_id_and_without_meta_columns(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "partial")
    state_properties(root, {"hoodie.populate.meta.fields": "false"})
    with pytest.raises(bf.UnsupportedError, match="not merged for a table without meta columns"):
        bf.open(root).scan().to_arrow()
