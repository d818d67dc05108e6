"""Tables about a table: exactly what is in the small ones, and what holds of all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import bucketfmt as bf
from bucketfmt.errors import NotFoundError
from tests.golden import GOLDEN
from tests.index.test_assign import NO_BUCKETS, index_of
from tests.table.tables import state_properties

Golden = Callable[[str, str], Path]


def test_commits(golden: Golden) -> None:
    commits = bf.open(golden("1.2.0", "tiny_cow")).inspect.commits()
    assert commits.column_names == [
        "requested_time",
        "completion_time",
        "action",
        "state",
        "operation_type",
        "files",
        "file_groups_replaced",
        "bytes",
    ]
    rows = commits.to_pylist()
    assert [(r["action"], r["operation_type"], r["file_groups_replaced"]) for r in rows] == [
        ("commit", "UPSERT", 0),
        ("commit", "UPSERT", 0),
        ("replacecommit", "INSERT_OVERWRITE", 1),
        ("commit", "UPSERT", 0),
    ]
    assert {(r["state"], r["files"]) for r in rows} == {("COMPLETED", 1)}
    sizes = [path.stat().st_size for path in golden("1.2.0", "tiny_cow").glob("us/*.parquet")]
    assert sorted(row["bytes"] for row in rows) == sorted(sizes)
    times = [(row["requested_time"], row["completion_time"]) for row in rows]
    assert times == sorted(times)
    assert all(requested < completed for requested, completed in times)


def test_pending_instants_have_no_figures(golden: Golden) -> None:
    for version in ("0.15.0", "1.0.2", "1.2.0"):
        commits = bf.open(golden(version, "ch_pending")).inspect.commits().to_pylist()
        (pending,) = [row for row in commits if row["state"] != "COMPLETED"]
        assert pending["action"] == ("replacecommit" if version == "0.15.0" else "clustering")
        assert pending["state"] == "REQUESTED"
        assert pending["operation_type"] == "CLUSTER"  # as its plan states
        for figure in ("completion_time", "files", "bytes"):
            assert pending[figure] is None


def test_an_overwrite_and_a_damaged_plan_that_are_pending(golden_copy: Golden) -> None:
    root = golden_copy("0.15.0", "ch_pending")
    (plan,) = (root / ".hoodie").glob("*.replacecommit.requested")
    data = plan.read_bytes()
    plan.write_bytes(data[: len(data) // 2])
    overwrite = "20990101000000000.replacecommit"
    (root / ".hoodie" / f"{overwrite}.requested").write_bytes(b"")
    (root / ".hoodie" / f"{overwrite}.inflight").write_bytes(b"{}")
    commits = bf.open(root).inspect.commits().to_pylist()
    pending = [row for row in commits if row["state"] != "COMPLETED"]
    assert [(row["state"], row["operation_type"]) for row in pending] == [
        ("REQUESTED", None),
        ("INFLIGHT", None),
    ]


def test_archived_commits_come_when_asked_for(golden: Golden) -> None:
    for version in ("0.15.0", "1.2.0"):
        inspect = bf.open(golden(version, "cleaned")).inspect
        active, all_of_them = inspect.commits(), inspect.commits(archived=True)
        assert all_of_them.num_rows > active.num_rows
        assert all_of_them.slice(all_of_them.num_rows - active.num_rows) == active
        times = all_of_them["requested_time"].to_pylist()
        assert times == sorted(times)


def test_files_and_file_groups(golden: Golden) -> None:
    root = golden("1.2.0", "tiny_mor")
    inspect = bf.open(root).inspect
    base, *logs = inspect.files().to_pylist()
    assert (base["kind"], [log["kind"] for log in logs]) == ("base", ["log", "log"])
    for row in (base, *logs):
        assert row["size"] == (root / row["path"]).stat().st_size
        assert (row["partition_path"], row["bucket_id"]) == ("us", 0)
        assert row["base_instant"] in base["path"]
    (group,) = inspect.file_groups().to_pylist()
    assert group == {
        "partition_path": "us",
        "file_id": base["file_id"],
        "bucket_id": 0,
        "base_instant": base["base_instant"],
        "base_file": base["path"],
        "base_size": base["size"],
        "base_rows": pq.read_metadata(root / base["path"]).num_rows,
        "log_files": 2,
        "log_size": sum(log["size"] for log in logs),
    }
    assert inspect.partitions().to_pylist() == [
        {
            "partition_path": "us",
            "file_groups": 1,
            "base_files": 1,
            "log_files": 2,
            "size": base["size"] + sum(log["size"] for log in logs),
        }
    ]


def test_buckets_of_a_known_index_are_all_there(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "partrules"))
    rows = table.inspect.buckets().to_pylist()
    buckets = {
        path: [row["bucket_id"] for row in rows if row["partition_path"] == path]
        for path in ("ap", "eu", "us")
    }
    assert buckets == {"ap": [0, 1, 2, 3, 4], "eu": [0, 1], "us": [0]}

    ring = bf.open(golden("1.2.0", "tiny_ch")).inspect.buckets().to_pylist()
    assert [row["bucket_id"] for row in ring] == [536870911, 1073741824, 1610612735, 2147483647]
    empty = ring[0]
    assert (empty["file_id"], empty["size"], empty["log_files"]) == (None, 0, 0)
    assert all(row["file_id"] and row["size"] for row in ring[1:])


def test_buckets_of_an_unknown_index_are_those_of_the_file_ids(golden: Golden) -> None:
    rows = bf.open(golden("1.2.0", "partlevel")).inspect.buckets().to_pylist()
    assert [r["bucket_id"] for r in rows if r["partition_path"] == "eu"] == [0, 1]
    assert [r["bucket_id"] for r in rows if r["partition_path"] == "us"] == list(range(8))
    assert None not in [row["file_id"] for row in rows]


def test_a_random_file_id_is_no_bucket_although_it_begins_with_eight_digits(
    golden: Golden,
) -> None:
    for version, name in (("1.2.0", "tiny_ch"), ("1.2.0", "bloom"), ("0.15.0", "rli")):
        table = bf.open(golden(version, name))
        stated = set(table.inspect.hashing_metadata()["value"].to_pylist())
        for rows in (table.inspect.files(), table.inspect.file_groups(), table.inspect.buckets()):
            assert set(rows["bucket_id"].to_pylist()) <= stated | {None}
    ids = bf.open(golden("1.2.0", "bloom")).inspect.files()["file_id"].to_pylist()
    assert any(file_id[:8].isdigit() for file_id in ids), "there is such a one"


def test_an_index_that_cannot_be_known_hides_no_file(golden_copy: Golden) -> None:
    root = state_properties(
        golden_copy("1.2.0", "tiny_mor"), {"hoodie.index.bucket.engine": "LINEAR_HASHING"}
    )
    inspect = bf.open(root).inspect
    assert inspect.files().num_rows == 3
    assert inspect.file_groups()["bucket_id"].to_pylist() == [None]
    assert inspect.partitions().num_rows == 1
    with pytest.raises(bf.UnsupportedError, match="LINEAR_HASHING"):
        inspect.buckets()


def test_hashing_metadata(golden: Golden) -> None:
    rows = bf.open(golden("1.2.0", "tiny_ch")).inspect.hashing_metadata().to_pylist()
    assert [row["value"] for row in rows] == [536870911, 1073741824, 1610612735, 2147483647]
    assert {
        (row["partition_path"], row["seq_no"], row["initial_buckets"], row["tag"]) for row in rows
    } == {("us", 1, 2, "NORMAL")}
    assert len({row["file_id_prefix"] for row in rows}) == 4
    assert len({row["instant"] for row in rows}) == 1
    assert bf.open(golden("1.2.0", "mor")).inspect.hashing_metadata().num_rows == 0


def test_log_blocks(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "tiny_mor")
    table = bf.open(root)
    paths = [row["path"] for row in table.inspect.files().to_pylist() if row["kind"] == "log"]
    (data,) = table.inspect.log_blocks(paths[0]).to_pylist()
    (delete,) = table.inspect.log_blocks(paths[1]).to_pylist()
    assert (data["block_type"], delete["block_type"]) == ("AVRO_DATA", "DELETE")
    for path, block in zip(paths, (data, delete), strict=True):
        assert (block["offset"], block["end"]) == (0, (root / path).stat().st_size)
        assert block["instant_time"] in path
        assert block["damage"] is None
        assert block["content_bytes"] < block["end"]
        header = dict(block["header"])
        assert header["INSTANT_TIME"] == block["instant_time"]
        assert '"name":"qty"' in header["SCHEMA"]

    path = root / paths[0]
    path.write_bytes(path.read_bytes()[:-1] + b"loose bytes")
    blocks = bf.open(root).inspect.log_blocks(paths[0]).to_pylist()
    assert blocks[0]["damage"]
    assert blocks[0]["block_type"] is None
    assert blocks[-1]["end"] == path.stat().st_size
    with pytest.raises(NotFoundError):
        table.inspect.log_blocks("us/nope")
    with pytest.raises(bf.UnsafePathError):
        table.inspect.log_blocks("../../x")


@pytest.mark.rotated(1, one_of=4)
@pytest.mark.parametrize(("version", "name"), [t for t in GOLDEN if t[0] == "1.2.0"])
def test_the_views_agree(golden: Golden, version: str, name: str) -> None:
    root = golden(version, name)
    table = bf.open(root, index=None if name in NO_BUCKETS else index_of(name))
    inspect = table.inspect
    files, groups, buckets = inspect.files(), inspect.file_groups(), inspect.buckets()
    partitions = inspect.partitions()
    total = sum((root / path).stat().st_size for path in files["path"].to_pylist())
    for rows, column in ((files, "size"), (partitions, "size")):
        assert pc.sum(rows[column]).as_py() == total
    if name != "virtual_bulk":
        assert pc.sum(buckets["size"]).as_py() == total
    assert pc.sum(partitions["file_groups"]).as_py() == groups.num_rows
    assert set(groups["file_id"].to_pylist()) == set(files["file_id"].to_pylist())
    kinds = pa.table({"kind": files["kind"]}).group_by("kind").aggregate([("kind", "count")])
    counted = dict(zip(*kinds.to_pydict().values(), strict=True))
    assert pc.sum(partitions["base_files"]).as_py() == counted.get("base", 0)
    assert pc.sum(partitions["log_files"]).as_py() == counted.get("log", 0)
    plan = table.scan().plan()
    assert sorted(f.path for s in plan.slices for f in s.files) == sorted(files["path"].to_pylist())
