"""How many requests this process has made of stores. No I/O."""

from __future__ import annotations

from bucketfmt.process import new_mutex

__all__ = ["count_requests", "requests_made"]

_mutex = new_mutex()
_made = 0


def count_requests(number: int = 1) -> None:
    """Add requests that a store is about to make."""
    global _made  # noqa: PLW0603  (one number for the process, whatever stores it has)
    with _mutex:
        _made += number


def requests_made() -> int:
    """Return how many requests this process, or the process it was forked from, has made so far.

    Each verb of a `Store` is one request, on a local disk too; reading several ranges of a file is
    a request for each over a network, as is each read of an open file. Pages of a listing, batches
    of a deletion, and what a client repeats after a failure are not counted by themselves.
    """
    return _made
