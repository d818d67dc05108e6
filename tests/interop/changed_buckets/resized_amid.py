"""Hudi writes amid changes of buckets by bucketfmt, and resizes within writes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import bucketfmt as bf
from bucketfmt.resize.rewrite_task import RewriteTask
from tests.interop.engines.hudi_session import HudiRefusesError, HudiSession
from tests.interop.turns.carry_on import Tally
from tests.interop.turns.upserted import Upserted, simple_index

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["play_resized_amid"]

_CLUSTERING = "org.apache.hudi.client.clustering"
_SPLITS, _MERGES = 2000, 1 << 24
"""Largest file sizes: all file slices are split, or merged."""
_BUCKETS_MAX = 16
_RING = {
    **simple_index(2),
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.max.num.buckets": str(_BUCKETS_MAX),
    "hoodie.parquet.max.file.size": str(_SPLITS),
    "hoodie.clustering.plan.strategy.class": (
        f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": (
        f"{_CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
    ),
}
_RESIZING = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
# A write that Hudi refuses to commit leaves its heartbeat, and the next resize waits until that is
# old: 10 seconds here, and not 120.
_HEARTBEAT_S = 5
_AMONG_OTHERS = {
    "hoodie.client.heartbeat.interval_in_ms": str(1000 * _HEARTBEAT_S),
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
_LOCKED = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
}
# Of the strategies of Hudi, the default for bucket indexes finds no bucket ids in the names of file
# groups of rings (a NumberFormatException), and the simple one refuses to write amid a resize. This
# one refuses to execute a resize that others wrote amid.
_PREFERRED = {
    "hoodie.write.lock.conflict.resolution.strategy": (
        "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
    ),
}
_TRIES, _WRITES = 8, 3


def play_resized_amid(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """Both upsert amid changes of buckets by bucketfmt, which splits and later merges rings.

    Hudi's writer resizes rings inline, and both upsert rings at the same time. Both read the same
    rows, and the full check finds every key in its bucket.
    """
    play = _Play(session, folder, kind, seed)
    play.table.hudi_upserts(next(play.times), play.index)
    play.table.upsert(next(play.times))
    play.change_amid_writes(6, max_file_size=_SPLITS, max_buckets=_BUCKETS_MAX)
    if kind.endswith("ring"):
        play.resize_inline()
        play.write_side_by_side()
    play.change_amid_writes(4, max_file_size=_MERGES, min_buckets=2)
    play.table.check()
    return play.tally()


class _Play:
    def __init__(self, session: HudiSession, folder: Path, kind: str, seed: int) -> None:
        self.times = count(1)
        self.table = Upserted(session, folder, "amid", kind, seed)
        self.table.writer = bf.WriterConfig(
            lock="filesystem", heartbeat_interval_s=_HEARTBEAT_S, services=None
        )
        self._is_ring = kind.endswith("ring")
        self.table.options |= _AMONG_OTHERS if self._is_ring else {**_AMONG_OTHERS, **_LOCKED}
        self._num_buckets = 2
        self._rounds = 0

    @property
    def index(self) -> dict[str, str]:
        return _RING if self._is_ring else simple_index(self._num_buckets)

    def tally(self) -> Tally:
        writes = next(self.times) - 1
        return Tally(rounds=self._rounds, ours=writes // 2, hudis=writes - writes // 2)

    def change_amid_writes(self, num_buckets: int, **limits: Unpack[bf.ResizeArguments]) -> None:
        """Change the buckets; when the tasks have run, Hudi upserts, and bucketfmt then does.

        Args:
            num_buckets: How many there are to be, where they are no ring.
            **limits: Of a ring.
        """
        table = self.table.open()
        started = (
            table.start_resize(codec="gzip", **limits)
            if self._is_ring
            else table.start_rehash(num_buckets, codec="gzip")
        )
        assert started is not None
        writes: list[Callable[[], None]] = [
            lambda: self.table.upsert(next(self.times)),
            lambda: self.table.hudi_upserts(next(self.times), self.index),
        ]

        def execute(task: RewriteTask, payloads: Sequence[bytes]) -> list[list[bytes]]:
            done = [
                list(task.rewrite(payload, f"{number}-0-{len(writes)}"))
                for number, payload in enumerate(payloads)
            ]
            if writes:
                writes.pop()()
                self.table.compare()
            if self._is_ring and writes:  # its tasks run once
                writes.pop()()
                self.table.compare()
            return done

        with started:
            started.run(execute)
        assert not writes
        self._num_buckets = num_buckets
        self._compare()
        self.table.hudi_upserts(next(self.times), self.index)
        self.table.upsert(next(self.times))
        self._compare()

    def resize_inline(self) -> None:
        """Hudi's writer executes the plan of bucketfmt after its commit, then a plan of its own."""
        planned = self.table.open().schedule_resize(max_file_size=_SPLITS, max_buckets=_BUCKETS_MAX)
        assert planned is not None
        for _ in range(2):
            self.table.hudi_upserts(next(self.times), {**self.index, **_RESIZING})
            self._compare()
        assert not self.table.open().timeline.pending.of("clustering", "replacecommit").instants
        completed = self.table.open().timeline.completed.of("clustering", "replacecommit").instants
        assert planned in {instant.requested_time for instant in completed}

    def write_side_by_side(self) -> None:
        """Both upsert keys of their own at the same time, and bucketfmt resizes."""
        ours, hudis = (
            [self.table.draw(next(self.times), keys) for _ in range(_WRITES)]
            for keys in (range(100), range(100, 200))
        )
        options = {**self.index, **_LOCKED, **_PREFERRED}

        def hudi_writes() -> None:
            for rows in hudis:
                _retry(partial(self.table.hudi_upserts_rows, rows, options))

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(hudi_writes)
            for rows in ours:
                _retry(partial(self.table.upsert_rows, rows))
                _retry(self._split)
            writing.result()
        while self.table.open().timeline.pending.of("clustering", "replacecommit").instants:
            assert self.table.open().resize(codec="gzip") is not None
        self._compare()

    def _split(self) -> None:
        limits: bf.ResizeArguments = {"max_file_size": _SPLITS, "max_buckets": _BUCKETS_MAX}
        self.table.open().resize(codec="gzip", **limits)

    def _compare(self) -> None:
        self.table.compare(has_buckets=not self._is_ring)
        self._rounds += 1


def _retry(write: Callable[[], object]) -> None:
    """Do something again where the other was faster; what is done twice is done once."""
    for tries_left in reversed(range(_TRIES)):
        try:
            write()
        except (bf.ConflictError, bf.LockTimeoutError, HudiRefusesError):  # noqa: PERF203
            if not tries_left:
                raise
        else:
            return
