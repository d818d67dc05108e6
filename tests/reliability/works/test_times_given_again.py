"""A table that is ahead of its writers' clocks: the time of a write that was taken back is free."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import bucketfmt as bf
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from tests.reliability.works.lost_lock import SCHEMA, PausedStore, Trial, create, row

KINDS = [
    (version, table_type)
    for version in (6, 8, 9)
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
]
_INDEX = bf.SimpleBucketIndex(2)


class PausedAtDeletes(PausedStore):
    """Stands still before one of the deletes."""

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        return RecordingStore.put_if_absent(self, path, data)

    def replace(self, path: str, data: Buffer) -> None:
        RecordingStore.replace(self, path, data)


def ahead_of_its_clocks(folder: Path, version: int, table_type: Any) -> Trial:
    create(folder, index=_INDEX, table_type=table_type, table_version=version)
    trial = Trial(MemoryStore.of_folder(folder))
    with trial.ahead_of_clocks():
        for key in ("x", "y"):  # of one bucket each
            trial.open(services=None).upsert(row(key, 0))
    return trial


def give_up(table: bf.Table) -> str:
    with table.start_write("upsert", SCHEMA) as started:
        list(started.task.write(row("x", 1), "0-0-1"))
    return started.instant


def begin(trial: Trial, begun: list[bf.StartedWrite], receipts: list[bytes]) -> None:
    begun.append(trial.open(services=None).start_write("upsert", SCHEMA))
    receipts.extend(begun[0].task.write(row("x", 2), "0-0-2"))


@pytest.mark.rule("WRITE-10")
@pytest.mark.rotated(1)
@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_who_gives_up_removes_no_file_of_another(
    tmp_path: Path, version: int, table_type: Any
) -> None:
    """The other was given the same time, and lost a file that was announced by then."""
    alone = ahead_of_its_clocks(tmp_path / "t", version, table_type)
    recorded = RecordingStore(alone.files)
    give_up(alone.open(recorded, services=None))
    deletes = [o for o in recorded.operations if o.verb in ("delete", "delete_tree")]
    assert len(deletes) > 4
    for at in range(1, len(deletes) + 1):
        trial = ahead_of_its_clocks(tmp_path / f"t{at}", version, table_type)
        begun: list[bf.StartedWrite] = []
        receipts: list[bytes] = []
        write = partial(begin, trial, begun, receipts)
        numbers = count(1)
        store = PausedAtDeletes(trial.files, write, lambda _, n=numbers, at=at: next(n) == at)
        give_up(trial.open(store, services=None))
        with begun[0] as started:
            receipts += started.task.write(row("y", 2), "1-0-2")
            started.publish(receipts)
        trial.check({"x": 2, "y": 2})
