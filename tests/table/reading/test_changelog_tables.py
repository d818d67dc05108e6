"""Tables of Flink's `changelog.enabled`, whose files keep `_hoodie_operation`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.rows.columns.meta_columns import META_COLUMNS
from bucketfmt.testing.recording_store import RecordingStore
from tests.golden import expected
from tests.same_rows import assert_same

Golden = Callable[[str, str], Path]

NAMES = ("cow_changelog", "mor_changelog", "mor_changelog_compacted")
OPERATIONS = {
    "cow_changelog": {None: 19},
    "mor_changelog": {"I": 48, "U": 10},
    "mor_changelog_compacted": {"I": 49, "U": 10},
}
"""How many rows of each operation Hudi 0.15.0 on Spark returns."""


@pytest.mark.parametrize("name", NAMES)
def test_the_operation_is_returned_where_hudi_on_spark_returns_it(
    golden: Golden, name: str
) -> None:
    root = golden("flink-0.14.0", name)
    table = bf.open(root)
    rows = table.scan(meta_columns=True).to_arrow()
    assert rows.column_names == [*META_COLUMNS, "_hoodie_operation", *table.schema.names]
    assert Counter(rows["_hoodie_operation"].to_pylist()) == OPERATIONS[name]
    assert_same(rows, expected(root.parent, name))
    changed = table.changes(None, meta_columns=True).to_arrow()
    assert changed.column_names == rows.column_names
    assert table.scan(["_hoodie_operation"]).to_arrow().num_rows == rows.num_rows
    assert "_hoodie_operation" not in table.schema.names
    assert "_hoodie_operation" not in table.scan().to_arrow().column_names


def test_a_table_without_it_has_no_such_column(golden: Golden) -> None:
    table = bf.open(golden("flink-0.14.0", "mor_bucket"))
    assert table.scan(meta_columns=True).to_arrow().column_names[:6] == [*META_COLUMNS, "id"]
    with pytest.raises(bf.SchemaError, match="_hoodie_operation"):
        table.scan(["_hoodie_operation"])


@pytest.mark.parametrize("name", NAMES)
def test_writes_that_would_lose_it_are_refused(golden: Golden, name: str) -> None:
    """Where the newest file has no such column, Hudi's readers overlook deletes in older logs."""
    opened = bf.open(golden("flink-0.14.0", name))
    store = RecordingStore(opened.store)
    table = bf.Table(store, opened.config, bf.Limits(), bf.SimpleBucketIndex(4))
    rows = table.scan(limit=2).to_arrow()
    writes: list[Callable[[], object]] = [
        lambda: table.upsert(rows),
        lambda: table.insert_overwrite(rows),
        lambda: table.delete(rows),
    ]
    if name.startswith("mor"):
        writes += [table.compact, table.start_compaction, table.preview_compaction]
    refusal = r"_hoodie_operation.*changelog.*hoodie\.allow\.operation.*with Flink or Spark"
    for write in writes:
        with pytest.raises(bf.UnsupportedError, match=refusal):
            write()
        assert not store.writes
