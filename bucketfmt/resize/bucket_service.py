"""What every change of the buckets of a table stands on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from bucketfmt.choices import Codec
from bucketfmt.index.model import Index
from bucketfmt.location.find_index import IndexFinder
from bucketfmt.resize.rewrite import RewritePlan, StartedRewrite
from bucketfmt.snapshot.newest import on_newest
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.timeline.timeline import Instant
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.rows.basis import Basis

__all__ = ["BucketService", "choose_partitions"]

_T = TypeVar("_T")

_COMPACTION_TRIES, _COMPACTION_PAUSE_S = 120, 0.25
"""How often, and after which pause, to look whether a compaction under way has ended."""


class BucketService:
    """Changes the buckets of one table."""

    def __init__(
        self, snapshot: Callable[[], Snapshot], finder: IndexFinder, transactions: Transactions
    ) -> None:
        """Set up.

        Args:
            snapshot: Returns the table as it is now.
            finder: Its index.
            transactions: How the table is written to.
        """
        self._snapshot = snapshot
        self._finder = finder
        self._owner = transactions

    def _planned(self, plan: Callable[[Basis], _T], index: Index | None = None) -> _T:
        """Return what is planned on the table as it is now, and anew where others change it.

        Args:
            plan: Plans.
            index: As `Basis`.

        Raises:
            IndexUnknownError: nothing tells how keys map to buckets.
            UnsupportedError: the table is of a kind that is not written.
            BucketfmtError: as `plan`, on a table that did not change meanwhile.
        """
        return on_newest(
            self._snapshot, lambda newest: plan(Basis(newest, self._finder, index=index))
        )

    def _await_compactions(self) -> None:
        """Wait until no compaction is executed, as one that follows a write: some 30 s at most."""
        for _ in range(_COMPACTION_TRIES):
            pending = self._snapshot().state.timeline.pending.of("compaction").instants
            if not any(map(self._is_executed, pending)):
                break
            self._owner.machine.sleep(_COMPACTION_PAUSE_S)

    def _is_executed(self, instant: Instant) -> bool:
        """Whether a process of this package is executing a pending plan."""
        return not self._owner.heartbeats.seems_expired(instant.requested_time)

    def _begin(
        self,
        plan: Callable[[str, Basis], RewritePlan],
        codec: Codec | None,
        index: Index | None = None,
        after_publish: Callable[[], object] | None = None,
    ) -> StartedRewrite:
        """Begin a replacecommit.

        Args:
            plan: Plans the replacecommit of an instant.
            codec: As `StartedRewrite`.
            index: As `Basis`.
            after_publish: As `StartedRewrite`.

        Raises:
            BucketfmtError: as `plan`, on a table that did not change meanwhile.
            LockTimeoutError: the table lock could not be acquired.
        """

        def plan_now(instant: str) -> RewritePlan:
            self._await_compactions()
            return self._planned(partial(plan, instant), index)

        transaction = self._owner.begin("replacecommit")
        with transaction.aborted_on_error():
            return StartedRewrite(transaction, plan_now, codec, after_publish)


def choose_partitions(
    snapshot: Snapshot, wanted: Collection[str] | None, dropped: Collection[str] = ()
) -> list[str]:
    """Return the partition paths that somebody wants, or all of them, sorted.

    Args:
        snapshot: Of the table.
        wanted: The partition paths; None: all.
        dropped: Partitions that count as well, though nothing is left of them.

    Raises:
        ValueError: the table has no such partition.
    """
    known = {*snapshot.partitions, *dropped}
    paths = sorted(known if wanted is None else {*wanted})
    for path in paths:
        if path not in known:
            raise ValueError(f"the table has no partition {path!r}")
    return paths
