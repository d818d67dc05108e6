"""What the judge allows of a record index that Hudi keeps in step in part. No JVM."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from unittest import mock

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.write.metadata.records.record_index_update import RecordIndexReader
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.sides import assert_clean

_SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64()})


@pytest.mark.parametrize(
    ("table_type", "table_version"),
    [("MERGE_ON_READ", 6), ("MERGE_ON_READ", 9), ("COPY_ON_WRITE", 9)],
)
def test_keys_may_lack_in_the_record_index_whose_rows_hudi_wrote(
    tmp_path: Path, table_type: str, table_version: int
) -> None:
    table = bf.create(
        tmp_path / "t",
        schema=_SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        index=bf.SimpleBucketIndex(2),
        table_type=table_type,  # type: ignore[arg-type]
        table_version=table_version,
    )
    table.metadata_table.init("record_index")
    session = mock.Mock(spec=HudiSession, has_record_index=True, version="1.2.0")
    session.written.return_value = set()
    judged = cast("HudiSession", session)
    table.upsert(_rows("a", "b"))
    assert_clean(judged, table)
    with mock.patch.object(RecordIndexReader, "read_commit", return_value=[]):
        left_out = table.upsert(_rows("b", "c")).instant
    entries = bf.open(table.uri).inspect.metadata_entries("record_index")
    assert sorted(entries["record_key"].to_pylist()) == ["a", "b"]

    with pytest.raises(AssertionError, match="not in the record index"):
        assert_clean(judged, table)
    session.written.return_value = {left_out}
    if table_type == "MERGE_ON_READ":
        assert_clean(judged, table)
        table.upsert(_rows("c"))  # which puts the key into the index
        session.written.return_value = set()
        assert_clean(judged, table)
        session.written.return_value = {left_out}
    with mock.patch.object(RecordIndexReader, "read_commit", return_value=[]):
        table.delete(["a"])  # whose entry stays
    with pytest.raises(AssertionError, match="M003"):
        assert_clean(judged, table)


def _rows(*keys: str) -> pa.Table:
    return pa.table({"id": keys, "ts": [1] * len(keys)}, _SCHEMA)
