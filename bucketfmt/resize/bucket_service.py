"""What every change of the buckets of a table stands on."""

from __future__ import annotations

from collections.abc import Callable

from bucketfmt.location.find_index import IndexFinder
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.write.commit.transactions import Transactions
from bucketfmt.write.rows.basis import Basis

__all__ = ["BucketService"]


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

    def _basis(self) -> Basis:
        """Return the table as it is now.

        Raises:
            IndexUnknownError: nothing tells how keys map to buckets.
            UnsupportedError: the table is of a kind that is not written.
        """
        return Basis(self._snapshot(), self._finder)
