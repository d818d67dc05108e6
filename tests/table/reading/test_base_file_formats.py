"""Base files that are not parquet: reading their rows is refused, all else works."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.table.describe import load_facts
from tests.check.planting import check_soon

pytestmark = pytest.mark.rotated

Copy = Callable[[str, str], Path]

FORMATS = ("lance", "orc", "hfile", "vortex")


def in_format(root: Path, extension: str, *, is_stated: bool) -> Path:
    """Make the base files of a copy of a table of version 6 into files of another format.

    `is_stated`: hoodie.properties names the format too, as Hudi 1.2 does for Lance.
    """
    for path in root.rglob("*.parquet"):
        path.with_suffix(f".{extension}").write_bytes(b"not parquet at all" + b"LANC")
        path.unlink()
    for path in [*root.rglob(".*.crc")]:
        path.unlink()
    for path in (root / ".hoodie").glob("*commit"):
        path.write_text(path.read_text().replace(".parquet", f".{extension}"))
    for commit in (root / ".hoodie").glob("*commit"):
        text = json.loads(commit.read_text())
        for stats in text["partitionToWriteStats"].values():
            for stat in stats:
                if stat["path"].endswith(extension):
                    stat["fileSizeInBytes"] = (root / stat["path"]).stat().st_size
        commit.write_text(json.dumps(text))
    if is_stated:
        properties = root / ".hoodie" / "hoodie.properties"
        lines = [line for line in properties.read_text().splitlines() if "base.file" not in line]
        stated = f"hoodie.table.base.file.format={extension.upper()}"
        properties.write_text("\n".join([*lines, stated, ""]))
    return root


@pytest.mark.rule("NAME-1", "PROP-8")
@pytest.mark.parametrize("is_stated", [True, False])
@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("name", ["cow", "mor"])
def test_rows_are_refused_by_the_name_of_the_format(
    golden_copy: Copy, name: str, extension: str, is_stated: bool
) -> None:
    root = in_format(golden_copy("0.15.0", name), extension, is_stated=is_stated)
    table = bf.open(root, index=bf.SimpleBucketIndex(4))
    reads: dict[str, Callable[[], object]] = {
        "scan": lambda: table.scan().to_arrow(),
        "count": lambda: table.scan().count(),
        "read optimized": lambda: table.scan(read_optimized=True).to_arrow(),
        "changes": lambda: table.changes(None).to_arrow(),
        "lookup": lambda: table.lookup(["key-000001"]),
        "delete": lambda: table.delete(["key-000001"]),
        "rewrite": lambda: table.insert_overwrite(table.scan(limit=1).to_arrow()),
    }
    for what, read in reads.items():
        with pytest.raises(bf.UnsupportedError, match=f"format {extension.upper()} are not read"):
            raise AssertionError(f"{what} gave {read()}")


@pytest.mark.parametrize("is_stated", [True, False])
@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("depth", ["quick", "default", "full"])
def test_a_check_is_incomplete_and_names_the_format(
    golden_copy: Copy, extension: str, depth: str, is_stated: bool
) -> None:
    root = in_format(golden_copy("0.15.0", "cow"), extension, is_stated=is_stated)
    report = check_soon(root, depth)
    assert (report.status, report.exit_code) == ("incomplete", 3), report.findings
    assert any(f"format {extension.upper()}" in line for line in report.not_checked)


def test_a_table_of_another_format_without_base_files_is_not_clean(golden_copy: Copy) -> None:
    root = golden_copy("flink-0.14.0", "mor_bucket")
    properties = root / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.table.base.file.format=LANCE\n")
    report = check_soon(root, "quick")
    assert report.status == "incomplete"
    with pytest.raises(bf.UnsupportedError, match="LANCE"):
        bf.open(root).scan().to_arrow()


@pytest.mark.parametrize("is_stated", [True, False])
@pytest.mark.parametrize("extension", FORMATS)
def test_what_needs_no_rows_works(golden_copy: Copy, extension: str, is_stated: bool) -> None:
    whole = bf.open(golden_copy("0.15.0", "mor"))
    whole.pin_index()  # keys that could prove the index are rows
    keys = whole.lookup([f"key-{n:06d}" for n in range(100, 120)]).select(["id", "region"])
    located, partitions = whole.locate(keys), whole.inspect.partitions()
    root = in_format(Path(whole.uri), extension, is_stated=is_stated)
    table = bf.open(root)
    same = ["record_key", "partition_path", "bucket_id", "file_id", "log_files"]
    assert table.locate(keys).select(same) == located.select(same)
    assert table.inspect.partitions()["base_files"] == partitions["base_files"]
    names = [path.rpartition(".")[2] for path in table.locate(keys)["base_file"].to_pylist()]
    assert set(names) == {extension}
    facts = load_facts(table).in_words()
    assert (facts["file groups"], facts["base files"]) == (12, 12)
    assert len(table.schema) > 4
