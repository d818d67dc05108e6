"""Writing to tables whose columns have ids: Hudi has renamed, dropped and added some again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf

VERSIONS = ["0.15.0", "1.0.2", "1.2.0"]


def ordered(rows: pa.Table) -> list[dict[str, object]]:
    return rows.sort_by([("region", "ascending"), ("id", "ascending")]).to_pylist()


@pytest.mark.rotated
@pytest.mark.parametrize("copied_bytes", [0, 1 << 16])
@pytest.mark.parametrize("given", [1, 1000])
@pytest.mark.parametrize("name", ["evolved_ids", "evolved_ids_mor"])
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_older_files_are_written_again_under_todays_names(
    golden_copy: Callable[[str, str], Path],
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    name: str,
    given: int,
    copied_bytes: int,
) -> None:
    monkeypatch.setattr("bucketfmt.rows.parquet.copying._COPIED_BYTES", copied_bytes)
    uri = str(golden_copy(version, name))
    rows = bf.open(uri).scan().to_arrow()
    bf.open(uri).upsert(rows.slice(0, given), codec="gzip")
    if name.endswith("mor"):
        bf.open(uri).compact(codec="gzip")
    table = bf.open(uri)
    found = table.scan().to_arrow()
    assert found.schema == rows.schema
    assert ordered(found) == ordered(rows)
    assert table.check(depth="full").status == "clean"
