"""Long operations tell how far they are, and whoever listens can end them."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketfmt as bf
from bucketfmt.progress import Progress
from tests.write.models import Model, assert_reads_as, create_table, rows


class StoppedError(Exception):
    pass


def make(folder: Path) -> tuple[bf.Table, Model]:
    table = create_table(str(folder), bf.SimpleBucketIndex(1), "MERGE_ON_READ")
    model = Model()
    for ts in (1, 2):
        table.upsert(rows(range(9), ts=ts))
        model.upsert(rows(range(9), ts=ts))
    return table, model


def steps(stage: str, total: int) -> list[Progress]:
    return [Progress(stage, done, total) for done in range(total + 1)]


def test_every_step_is_told_in_order(tmp_path: Path) -> None:
    table, _ = make(tmp_path / "t")
    told: list[Progress] = []
    table.upsert(rows(range(9), ts=3), progress=told.append)
    assert told == steps("writing", 3)
    told.clear()
    table.delete(["key-000000", "key-000001"], progress=told.append)
    assert told == steps("writing", 2)
    told.clear()
    table.compact(progress=told.append)
    assert told == steps("compacting", 3)
    told.clear()
    found = table.clean(
        policy="KEEP_LATEST_FILE_VERSIONS", retain=1, dry_run=False, progress=told.append
    )
    assert told == steps("deleting", len(found.files))
    assert found.files


@pytest.mark.parametrize("after", [0, 1, 3])
def test_what_it_raises_ends_the_work(tmp_path: Path, after: int) -> None:
    table, model = make(tmp_path / "t")

    def stop(progress: Progress) -> None:
        if progress.done == after:
            raise StoppedError

    for operation in (
        lambda: table.upsert(rows(range(9), ts=3), progress=stop),
        lambda: table.compact(progress=stop),
    ):
        with pytest.raises(StoppedError):
            operation()
        assert_reads_as(table.uri, model)
    assert [i.action for i in table.timeline.pending.instants] == ["compaction"]
    assert table.compact() is not None
    assert_reads_as(table.uri, model)
