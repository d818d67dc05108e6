"""Writes of both sides that overlap: non-blocking concurrency control."""

from __future__ import annotations

from pathlib import Path

import bucketfmt as bf
from tests.interop.engines.hudi_session import HudiSession
from tests.interop.turns.carry_on import SCHEMA, Tally, Turns, as_table, start_turns
from tests.interop.turns.sides import Side

__all__ = ["play_overlapping"]

_WRITER = bf.WriterConfig(lock="filesystem", concurrency="non_blocking")
_LOCKS = "org.apache.hudi.client.transaction.lock"
_OPTIONS = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": f"{_LOCKS}.FileSystemBasedLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
_BUCKETS = 9  # of the kind mor-simple, three in each of the regions
_APART = 3  # of `Turns.time`: ordering values of two draws are then never equal


def play_overlapping(session: HudiSession, folder: Path, kind: str, seed: int) -> Tally:
    """While a write of ours is under way, anything else is done to its buckets."""
    turns = start_turns(session, folder, kind, seed, _WRITER, _OPTIONS)
    if session.has_record_index and session.version == "1.0.2":
        # Hudi 1.0.2 refuses, beside a record index, to begin a bucket with a log file.
        while turns.table.inspect.file_groups().num_rows < _BUCKETS:
            turns.do(turns.us, "upsert")
    _overlap(turns, turns.hudi, "upsert")  # which begins the buckets
    _overlap(turns, turns.us, "upsert")
    _overlap(turns, turns.hudi, "delete")
    _overlap(turns, turns.hudi, "compact")
    _overlap(turns, turns.hudi, "upsert")
    _overlap(turns, turns.us, "compact")
    _overlap(turns, turns.us, "delete")
    turns.do(turns.hudi, "compact", "clean_some", "archive_some", "upsert")
    turns.do(turns.us, "compact", "clean_some", "archive_some", "upsert")
    return turns.tally()


def _overlap(turns: Turns, side: Side, operation: str) -> None:
    """Begin a write, have the operation done, and publish the write then.

    Hudi is asked when all is done: until a write is completed that began a bucket with a log
    file, Hudi's readers do not see what others have completed in it since.
    """
    turns.time += 2 * _APART
    time = turns.time
    # What was deleted comes again with the ordering value of the delete, so not from both.
    given = {key: row for key, row in turns.draw().items() if key not in turns.deleted}
    turns.done.append("a write begun by bucketfmt")
    with turns.table.start_write("upsert", SCHEMA) as started:
        receipts = list(started.task.write(as_table(given), "0-0-0"))
        is_earlier = operation == "delete" or turns.random.random() < 0.5
        turns.time = time - _APART - 1 if is_earlier else time + _APART - 1
        turns.act(side, operation)
        turns.compare_ours()
        started.publish(receipts)
    turns.done.append("the write published")
    turns.time = time + _APART
    turns.merge(given)
    if operation == "delete":
        _settle(turns, given.keys() & turns.deleted.keys())
    turns.compare()


def _settle(turns: Turns, keys: set[tuple[str, str]]) -> None:
    """Take over what Hudi makes of keys that were written and deleted at a time.

    Deletes of some releases have the ordering value of their row, those of others none.
    """
    hudis = {(row["region"], row["id"]) for row in turns.hudi.read().to_pylist()}
    for key in keys - hudis:
        turns.rows.pop(key, None)
