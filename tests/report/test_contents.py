"""What a report has of a table: what other functions say, of damaged tables what is left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bucketfmt as bf
from bucketfmt.report import sheets
from bucketfmt.report.page_model import make_page
from bucketfmt.report.table_report import TableReport, _environment, _script_json
from tests.report.made import made_contents
from tests.table.tables import state_properties

Golden = Callable[[str, str], Path]


def test_of_a_sound_table(golden: Golden) -> None:
    table = bf.open(golden("1.2.0", "partrules"))
    contents = table.report().contents
    assert contents.unreadable == ()
    assert contents.check.status == "clean"
    assert contents.advice == table.advise_buckets()
    assert contents.facts["index"] == str(table.index)
    buckets = table.inspect.buckets().to_pylist()
    rows = contents.file_groups.to_pylist()
    assert {(row["partition_path"], row["bucket_id"]) for row in rows} == {
        (row["partition_path"], row["bucket_id"]) for row in buckets
    }
    size = sum(row["size"] for row in buckets)
    assert contents.sizes[-1].bytes == size
    assert make_page(contents).tiles[0].value == f"{size / (1 << 10):.1f} KiB"


def test_growth_ends_at_the_present_size(tmp_path: Path) -> None:
    rows = pa.table({"id": [str(n) for n in range(50)], "v": range(50)})
    table = bf.create(
        tmp_path, schema=rows.schema, record_key=["id"], index=bf.SimpleBucketIndex(2)
    )
    empty = table.report().contents
    assert (empty.sizes, empty.unreadable, empty.commits.num_rows) == ((), (), 0)
    for number in (10, 50, 50):
        table.upsert(rows.slice(0, number))
    contents = table.report("quick").contents
    written = contents.commits.sort_by("requested_time")["bytes"].to_pylist()
    assert [each.bytes for each in contents.sizes] == written, "each rewrote both buckets"
    assert pc.sum(contents.file_groups["base_rows"]).as_py() == 50
    assert contents.check.depth == "quick"


def test_damage_leaves_out_what_it_hides(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "tiny_mor")
    (newest,) = sorted((root / ".hoodie/timeline").glob("*.deltacommit"))[-1:]
    newest.write_bytes(b"Obj\x01 nothing")
    report = bf.report_table(root)
    contents = report.contents
    (sentence,) = contents.unreadable
    missing = "facts, file groups, empty buckets, columns, advice, files, timeline, growth"
    assert sentence.startswith(f"Not read: {missing}. ")
    assert newest.name in sentence
    assert contents.check.status == "findings"
    assert any(newest.name in path for each in contents.check.findings for path in each.paths)
    assert "Not read: facts" in report.html


def test_of_a_table_that_open_refuses(golden_copy: Golden) -> None:
    root = golden_copy("1.2.0", "tiny_mor")
    path = root / ".hoodie/hoodie.properties"
    path.write_text(path.read_text().replace("hoodie.table.checksum=", "hoodie.table.checksum=1"))
    with pytest.raises(bf.CorruptError):
        bf.open(root)
    contents = bf.report_table(root).contents
    assert "T006" in {finding.id for finding in contents.check.findings}
    assert contents.file_groups.num_rows > 0


def test_an_unknown_engine_hides_empty_buckets_only(golden_copy: Golden) -> None:
    settings = {"hoodie.index.bucket.engine": "LINEAR_HASHING"}
    root = state_properties(golden_copy("1.2.0", "tiny_mor"), settings)
    contents = bf.report_table(root, depth="quick").contents
    (sentence,) = contents.unreadable
    assert "empty buckets" in sentence
    assert "LINEAR_HASHING" in sentence
    assert contents.file_groups["bucket_id"].to_pylist() == [None]
    assert make_page(contents).shape.lines == 1


def test_buckets_of_rings_are_named_by_their_nodes_and_others_are_none(golden: Golden) -> None:
    ring = bf.open(golden("1.2.0", "tiny_ch")).report("quick").contents
    page = make_page(ring)
    buckets = page.sheets["file-groups"].columns[1]
    shown = [buckets.text(row) for row in range(page.sheets["file-groups"].number)]
    assert shown == ["536870911", "1073741824", "1610612735", "2147483647"]
    assert page.grid_note.startswith("4 buckets, 1 of them empty, in 1 partition. ")
    without = make_page(bf.open(golden("1.2.0", "bloom")).report("quick").contents)
    assert without.grid_note.startswith("3 file groups in 3 partitions. ")
    assert without.sheets["file-groups"].columns[1].text(0) == "–"


def test_without_jinja2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    _environment.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'bucketfmt\[report\]'"):
        TableReport(made_contents(1, 2)).html  # noqa: B018


@given(st.lists(st.text('<>/!-&script\u2028\u2029"\\é')))
def test_json_in_the_page_ends_no_script(texts: list[str]) -> None:
    written = _script_json(texts)
    assert not set(written) & set("<>&\u2028\u2029")
    assert msgspec.json.decode(written) == texts


def test_of_very_many_file_groups_the_largest_are_on_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sheets, "_FILE_GROUPS_MAX", 10)
    contents = made_contents(5, 9)
    page = make_page(contents)
    sheet = page.sheets["file-groups"]
    assert (sheet.number, sheet.left_out) == (10, 35)
    sizes = [row["base_size"] or 0 for row in contents.file_groups.to_pylist()]
    logs = [row["log_size"] or 0 for row in contents.file_groups.to_pylist()]
    every = sorted(map(sum, zip(sizes, logs, strict=True)), reverse=True)
    assert sorted(sheet.columns[3].values, reverse=True) == every[:10]
    assert page.to_plain()["heat"]["partitions"] == [], "cells could not tell of their groups"
    assert page.shape.lines == 5, "but are drawn"
    assert "35 smaller ones are left out of this page" in TableReport(contents).html
