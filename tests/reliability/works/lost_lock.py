"""A writer that stands still under the lock, the others that go on meanwhile, and their clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketfmt as bf
from bucketfmt.format.encoding.cursor import Buffer
from bucketfmt.format.names.instants import State, find_instant_file
from bucketfmt.limits import DEFAULT_LIMITS
from bucketfmt.storage.store import Store
from bucketfmt.testing.memory_store import MemoryStore
from bucketfmt.testing.recording_store import RecordingStore
from bucketfmt.testing.simulated_machine import SimulatedMachine
from bucketfmt.timeline.table_properties import load_config

LEASE_ENDS_S, HEARTBEAT_ENDS_S = 30.0, 600.0
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])


def row(key: str, value: int, partition: str = "p") -> pa.Table:
    return pa.table({"id": [key], "p": [partition], "v": [value]}, SCHEMA)


def create(path: Path, **given: Any) -> bf.Table:
    """Return a new table of one bucket in each partition, unless `given` says otherwise."""
    arguments = {"index": bf.SimpleBucketIndex(1), **given}
    return bf.create(str(path), schema=SCHEMA, record_key=["id"], partition_by=["p"], **arguments)


def completes(path: str) -> bool:
    """Whether a file completes an instant of a table, or of its metadata table."""
    folder, _, name = path.rpartition("/")
    layout = 2 if folder.endswith("timeline") else 1
    file = find_instant_file(name, layout) if folder.startswith(".hoodie") else None
    return file is not None and file.state is State.COMPLETED


class PausedStore(RecordingStore):
    """Stands still before the first of some files is put, or deleted.

    By default the first file that completes an instant.
    """

    def __init__(
        self,
        store: Store,
        meanwhile: Callable[[], object],
        before: Callable[[str], bool] = completes,
    ) -> None:
        super().__init__(store)
        self._meanwhile: Callable[[], object] | None = meanwhile
        self._before = before

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        self._pause(path)
        return super().put_if_absent(path, data)

    def replace(self, path: str, data: Buffer) -> None:
        self._pause(path)
        super().replace(path, data)

    def replace_if(self, path: str, data: Buffer, version: str) -> str | None:
        self._pause(path)
        return super().replace_if(path, data, version)

    def delete(self, path: str) -> None:
        self._pause(path)
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        self._pause(path)
        super().delete_tree(path)

    def _pause(self, path: str) -> None:
        if self._meanwhile is not None and self._before(path):
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()


class SlowStore(RecordingStore):
    """Takes long over the first file that completes an instant of the table itself.

    What others do meanwhile is told how to have the file appear.
    """

    def __init__(self, store: Store, meanwhile: Callable[[Callable[[], object]], object]) -> None:
        super().__init__(store)
        self._meanwhile: Callable[[Callable[[], object]], object] | None = meanwhile

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        if self._meanwhile is None or not completes(path) or path.startswith(".hoodie/metadata"):
            return super().put_if_absent(path, data)
        meanwhile, self._meanwhile = self._meanwhile, None
        done: list[bool] = []
        put = super().put_if_absent
        meanwhile(lambda: done.append(put(path, data)))
        return done[0]


class Trial:
    """One table, its writers, and the clock that they share."""

    def __init__(self, files: MemoryStore) -> None:
        self.files = files.copy()
        self.clock = SimulatedMachine(1, 1_800_000_000.0)
        self.files.now = self.clock.now
        self._seeds = count(2)

    def open(self, store: Store | None = None, *, ahead_s: float = 0, **options: Any) -> bf.Table:
        """Open the table as one more writer, whose clock is ahead of the others'.

        So is the clock of the store from then on: the others' machines were suspended, and their
        clocks have not been set yet.
        """
        if ahead_s:
            self.files.now = lambda: self.clock.now() + ahead_s
        seed, now = SimulatedMachine(next(self._seeds)), self.clock.now
        machine = replace(
            self.clock.machine, randbits=seed.machine.randbits, now=lambda: now() + ahead_s
        )
        config = load_config(store or self.files, DEFAULT_LIMITS)
        writer = bf.WriterConfig(machine=machine, **options)
        return bf.Table(store or self.files, config, DEFAULT_LIMITS, None, writer)

    @contextmanager
    def ahead_of_clocks(self) -> Iterator[None]:
        """What is written in the body is ahead of all clocks: later times follow the newest one."""
        self.clock.sleep(3600)
        yield
        self.clock.sleep(-3600)

    def paused(
        self,
        pause_s: float,
        meanwhile: Callable[[], object],
        before: Callable[[str], bool] = completes,
    ) -> PausedStore:
        def stand_still() -> None:
            self.clock.sleep(pause_s)
            meanwhile()

        return PausedStore(self.files, stand_still, before)

    def check(self, expected: dict[str, int], *, and_maybe: str = "") -> None:
        """The table has these rows, a full check finds nothing, and later writes go on."""
        self.clock.sleep(2 * HEARTBEAT_ENDS_S)
        for written in ({}, {"later": 9}):
            for key, value in written.items():
                self.open().upsert(row(key, value))
            found = {r["id"]: r["v"] for r in self.open().scan().to_arrow().to_pylist()}
            found.pop(and_maybe, None)
            assert found == {**expected, **written}
            report = self.open().check(depth="full")
            assert report.status == "clean", report.findings
        assert not self.open().timeline.pending.instants
