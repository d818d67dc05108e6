"""A write that is interrupted, as by Ctrl-C in a notebook, while the process goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import bucketfmt as bf
from bucketfmt.timeline.locking.renewal import Renewal
from bucketfmt.write.commit import transaction
from bucketfmt.write.commit.started_work import PendingInstant

HEARTBEAT_S = 0.3  # a loaded machine keeps the heartbeats of the write itself in time
THREAD = "bucketfmt-renewal"


def renewals() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == THREAD}


@pytest.fixture
def before() -> set[threading.Thread]:
    """Those that are there because of other tests."""
    return renewals()


def rows(value: int) -> pa.Table:
    return pa.table({"id": ["a"], "v": [value]})


def make(folder: Path) -> bf.Table:
    table = bf.create(
        str(folder),
        schema=rows(1).schema,
        record_key=["id"],
        index=bf.SimpleBucketIndex(1),
        table_type="MERGE_ON_READ",
        writer=bf.WriterConfig(services=None, heartbeat_interval_s=HEARTBEAT_S),
    )
    for value in (1, 2):
        table.upsert(rows(value))
    return table


REASONS = [KeyboardInterrupt(), SystemExit(), bf.CommitUnknownError("perhaps")]


@pytest.mark.parametrize("error", REASONS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["complete", "end"])
@pytest.mark.parametrize("work", ["upsert", "compact"])
def test_what_was_interrupted_is_not_kept_alive(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: set[threading.Thread],
    work: str,
    where: str,
    error: BaseException,
) -> None:
    """Else it would be pending, and hold archival and cleaning back, while the process lives."""
    table = make(tmp_path / "t")

    def interrupt(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(PendingInstant, where, interrupt)
        with pytest.raises(type(error)):
            table.upsert(rows(3)) if work == "upsert" else table.compact()
    assert renewals() <= before
    threading.Event().wait(4 * HEARTBEAT_S)  # its heartbeat expires
    table.upsert(rows(4))
    table.compact()
    assert not table.timeline.pending.instants
    assert table.scan().to_arrow()["v"].to_pylist() == [4]
    assert table.check(depth="full").status == "clean"


@pytest.mark.parametrize(
    "error", [bf.StorageError("no"), KeyboardInterrupt()], ids=["no", "ctrl-c"]
)
def test_what_cannot_be_taken_back_is_not_kept_alive(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: set[threading.Thread],
    error: BaseException,
) -> None:
    """A notebook keeps the last error, and with it whatever had a part in it."""
    table = make(tmp_path / "t")

    def refuse(*_: object, **__: object) -> None:
        raise bf.ConflictError("another writer was first")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(PendingInstant, "complete", refuse)
        patch.setattr(transaction, "delete_announced_files", fail)
        with pytest.raises((bf.ConflictError, KeyboardInterrupt)) as kept:
            table.upsert(rows(3), retries=0)
    assert renewals() <= before, kept.value
    threading.Event().wait(4 * HEARTBEAT_S)  # its heartbeat expires
    table.upsert(rows(4))
    assert not table.timeline.pending.instants
    assert table.scan().to_arrow()["v"].to_pylist() == [4]
    assert table.check(depth="full").status == "clean"


def test_a_thread_that_nobody_could_stop_ends(
    monkeypatch: pytest.MonkeyPatch, before: set[threading.Thread]
) -> None:
    """The interrupt comes while the thread begins."""
    start = threading.Thread.start

    def start_and_interrupt(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    called = threading.Event()
    monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        Renewal(lambda: called.set() or True, 0.5)  # type: ignore[func-returns-value]
    for thread in renewals() - before:
        thread.join(5)
        assert not thread.is_alive()
    assert not called.is_set()
