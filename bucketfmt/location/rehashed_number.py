"""How many buckets a table has that was rehashed, at the moment of a snapshot.

Pure: the commits of the snapshot's state and hoodie.properties in, a number out.
"""

from __future__ import annotations

from typing import NamedTuple

from bucketfmt.format.buckets.index_settings import IndexSettings
from bucketfmt.format.buckets.rehashes import Rehash, find_num_buckets
from bucketfmt.format.table.table_config import TableConfig
from bucketfmt.snapshot.snapshot import Snapshot
from bucketfmt.timeline.timeline import Timeline

__all__ = ["RehashedNumber", "find_rehashed_number", "may_be_rehashed"]


class RehashedNumber(NamedTuple):
    """What rehashes say about a snapshot.

    Attributes:
        stated: The number of buckets in hoodie.properties; None if there is none.
        number: The number of buckets that holds; None if there is none.
        newest: The rehash since which that is so; None where no rehash was completed.
    """

    stated: int | None
    number: int | None
    newest: Rehash | None


def find_rehashed_number(snapshot: Snapshot, config: TableConfig) -> RehashedNumber | None:
    """Return what is known of rehashes; None if nothing is, so that only properties tell.

    Args:
        snapshot: The table at some moment.
        config: The properties, which may be newer than those of the snapshot.

    Raises:
        CorruptError: an entry about a rehash is malformed.
        IndexUnknownError: the properties contradict themselves.
    """
    limits = snapshot.state.limits
    recorded = Rehash.find(config.properties, limits)
    rehashes = [*snapshot.state.rehashes]
    if recorded is not None:
        rehashes.append(recorded)
    if not rehashes:
        return None
    stated = IndexSettings.from_properties(config.properties, limits).num_buckets
    seen = [each for each in rehashes if snapshot.is_visible(each.instant)]
    newest = max(seen, key=lambda each: each.instant, default=None)
    number = find_num_buckets(stated, rehashes, snapshot.is_visible)
    return RehashedNumber(stated, number, newest)


def may_be_rehashed(config: TableConfig, before: Snapshot | None, now: Timeline) -> bool:
    """Whether the properties may state other buckets than when they were read.

    A rehash is a replacecommit, and its number is recorded at once or by a later write. Until then
    its commit tells, and once the commit is archived nothing else does. A migration records the
    index after its last replacecommit.

    Args:
        config: The properties as they were read.
        before: The table as it was read last, by these properties; None: it was not read yet.
        now: The timeline of now.
    """
    if before is None:
        return not IndexSettings.KEYS.isdisjoint(config.properties)
    if before.state.has_migrations and "hoodie.bucket.index.num.buckets" not in config.properties:
        return True
    rehashed = find_rehashed_number(before, before.state.config)
    if rehashed is not None and rehashed.number != rehashed.stated:
        return True
    known, completed = before.state.timeline.completed, now.completed
    replacing = completed.of("replacecommit").requested_times
    replaced_before = known.of("replacecommit").requested_times
    if replacing - known.requested_times or replaced_before - replacing:
        return True
    return bool(known.instants) and known.requested_times.isdisjoint(completed.requested_times)
