"""Tables that are ahead of the clocks of their writers: each time follows the newest one.

The services of the metadata table take times of their own, and no instant of the table may have
one of them: what the metadata table has of that instant would be looked for at the time of the
service.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bucketfmt.testing.faulty_store import Killed
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.timeline.clock import InstantClock
from bucketfmt.write.metadata import keeper, metadata_services
from tests.reliability.works.lost_lock import SCHEMA, PausedStore, Trial, completes, create, row
from tests.write.metadata.metadata_records import assert_in_step

KINDS = [(version, kind) for version in (8, 9) for kind in ("MERGE_ON_READ", "COPY_ON_WRITE")]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the metadata table served at each commit."""
    monkeypatch.setattr(metadata_services, "_DELTA_COMMITS", 1)


def ahead_of_the_clocks(folder: Path, version: int, table_type: Any) -> Trial:
    table = create(folder, table_type=table_type, table_version=version)
    table.upsert(row("x", 0))
    table.metadata_table.init("column_stats")
    trial = Trial(MemoryStore.of_folder(folder))
    with trial.ahead_of_clocks():
        writer = trial.open(services=None)
        for value in range(1, 5):
            writer.upsert(row("x", value))
    return trial


def meet(trial: Trial) -> None:
    """Have two writers begin, the first one publish, and then the second."""
    first, second = (trial.open(services=None).start_write("upsert", SCHEMA) for _ in range(2))
    for number, (started, given) in enumerate([(first, row("y", 1, "q")), (second, row("z", 2))]):
        with started:
            started.publish(list(started.task.write(given, f"{number}-0-0")))


@pytest.mark.rule("MDT-26")
@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_a_service_does_not_take_the_time_of_a_pending_write(
    tmp_path: Path, often: None, version: int, table_type: str
) -> None:
    trial = ahead_of_the_clocks(tmp_path / "t", version, table_type)
    for _ in range(3):
        meet(trial)
        assert_in_step(trial.open())
    trial.check({"x": 4, "y": 1, "z": 2})


@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_a_write_does_not_keep_the_time_of_a_service(
    tmp_path: Path, often: None, version: int, table_type: str
) -> None:
    """Who served the metadata table died before it completed a commit of a later time."""
    trial = ahead_of_the_clocks(tmp_path / "t", version, table_type)

    def die() -> None:
        raise Killed

    def is_own(path: str) -> bool:
        return completes(path) and not path.startswith(".hoodie/metadata/")

    for key in ("late", "later"):
        with pytest.raises(Killed):
            trial.open(PausedStore(trial.files, die, is_own), services=None).upsert(row(key, 1))
        trial.clock.sleep(600)  # it is dead, and the table is still ahead
        for number in range(6):
            trial.open(services=None).upsert(row("y", number, "q"))
            assert_in_step(trial.open())
    trial.check({"x": 4, "y": 5})


@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_it_is_made_anew_at_a_time_after_all_commits(
    tmp_path: Path, often: None, version: int, table_type: str
) -> None:
    trial = ahead_of_the_clocks(tmp_path / "t", version, table_type)
    trial.open(services=None).metadata_table.rebuild()
    assert_in_step(trial.open())
    trial.check({"x": 4})


@pytest.mark.parametrize(("version", "table_type"), KINDS)
def test_a_metadata_table_with_a_time_twice_is_not_believed(
    tmp_path: Path, often: None, monkeypatch: pytest.MonkeyPatch, version: int, table_type: str
) -> None:
    trial = ahead_of_the_clocks(tmp_path / "t", version, table_type)
    with monkeypatch.context() as earlier:
        earlier.setattr(InstantClock, "pass_over", lambda self, time: None)
        earlier.setattr(keeper, "find_times_of_services", lambda metadata: ())
        meet(trial)
    table = trial.open()
    told = {finding.id: finding.evidence for finding in table.check().findings}
    assert set(told) == {"M001", "M004"}
    assert "it has services at the times of" in told["M004"]
    found = {r["id"]: r["v"] for r in table.scan().to_arrow().to_pylist()}
    assert found == {"x": 4, "y": 1, "z": 2}
    with pytest.warns(UserWarning, match="made anew"):
        table.upsert(row("x", 9))
    assert_in_step(trial.open())
    trial.check({"x": 9, "y": 1, "z": 2})
