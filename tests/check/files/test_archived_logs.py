"""T010: log files whose instants are archived behind a restore."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.write.services import archiving
from tests.check.planting import check_soon
from tests.write.models import NO_SERVICES, create_table, rows


def test_t010_instants_of_old_log_files_are_archived_behind_a_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hudi archives: with no regard to the log files."""
    table = create_table(tmp_path, bf.SimpleBucketIndex(1), "MERGE_ON_READ", writer=NO_SERVICES)
    table.upsert(rows(range(3), ts=0))
    point = table.savepoint()
    table.upsert(rows(range(3), ts=1))
    table.restore(point)
    table.delete_savepoint(point)
    logged = table.upsert(rows(range(3), ts=2)).instant
    table.compact()
    for ts in range(3, 6):
        table.upsert(rows(range(3), ts=ts))
    monkeypatch.setattr(archiving, "_with_logs", lambda basis, _: basis)
    archived = {i.requested_time for i in table.archive(min_commits=2, max_commits=2)}
    assert logged in archived
    findings = check_soon(tmp_path, "quick").findings
    assert findings == check_soon(tmp_path).findings
    assert {(own.id, own.severity, own.instants[1:]) for own in findings} == {
        ("T010", "error", (logged,))
    }
    read = {row["path"] for row in table.inspect.files().to_pylist()}
    named = {path for own in findings for path in own.paths}
    assert {path.split(".log.")[0].rpartition("_")[2] for path in named} == {logged}
    assert not read & named
    table.clean(retain=1, dry_run=False)
    assert check_soon(tmp_path).findings == ()
