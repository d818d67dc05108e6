"""Which entry of a log wins, of those of each key.

Pure and vectorised: no step is made per row. Sources: as of `merge`. The rules: `merge_rules`.

With ordering, each log entry is a function of the record that it meets: "the record stays if its
ordering is greater than `bound`, else becomes `result`". Two such functions in a row make one
function of the same form, so the entries of a key are composed pairwise, all keys at once: a key
with n entries takes log2(n) passes, whatever the rules and however the log is made.
"""

from __future__ import annotations

import numpy as np

from bucketfmt.rows.merging.log_entries import LogEntries
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.merging.ordering import Indexes, OrderingValues

__all__ = ["find_last", "find_winners"]


def find_winners(entries: LogEntries, rules: MergeRules) -> Indexes:
    """Return the winning entry of each key of `entries.keys`."""
    size = len(entries.keys)
    winners = np.zeros(size, np.int64)
    if size == len(entries.codes):
        winners[entries.codes] = np.arange(size)
    elif not rules.log_by_ordering or entries.ordering is None:
        winners = find_last(entries)
    else:
        ordering = entries.ordering.as_bytes() if rules.legacy else entries.ordering
        winners = _find_newest(entries, ordering, rules.legacy)
    return winners


def find_last(entries: LogEntries) -> Indexes:
    """Return the last entry of each key."""
    winners = np.zeros(len(entries.keys), np.int64)
    np.maximum.at(winners, entries.codes, np.arange(len(entries.codes)))
    return winners


def _find_newest(entries: LogEntries, ordering: OrderingValues, legacy: bool) -> Indexes:
    """Return per key the entry that wins by ordering."""
    alive = _after_last_unordered(entries, legacy)
    codes = entries.codes[alive]
    # Each node is a run of entries of one key; at first, of one entry.
    several = np.bincount(codes, minlength=len(entries.keys)) > 1
    winners = np.empty(len(entries.keys), np.int64)
    winners[codes] = alive  # right for all keys with one entry
    nodes = alive[several[codes]]
    nodes = nodes[np.argsort(entries.codes[nodes], kind="stable")]
    keys, bound, result = entries.codes[nodes], nodes, nodes.copy()
    while len(nodes):
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        rank = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
        last = np.r_[keys[1:] != keys[:-1], True]
        done = last & (rank == 0)
        winners[keys[done]] = result[done]
        left = np.flatnonzero((rank % 2 == 0) & ~last)
        right = left + 1
        stays = ordering.greater(result[left], ordering, bound[right])
        if legacy:  # a delete that has won stays against nothing
            stays &= entries.row[result[left]] >= 0
        raised = ordering.greater(bound[right], ordering, bound[left])
        result[left] = np.where(stays, result[left], result[right])
        bound = bound.copy()
        bound[left] = np.where(raised, bound[right], bound[left])
        nodes = np.flatnonzero((rank % 2 == 0) & ~done)
        keys, bound, result = keys[nodes], bound[nodes], result[nodes]
    return winners


def _after_last_unordered(entries: LogEntries, legacy: bool) -> Indexes:
    """Return the entries that count: of each key, the entries since its last unordered delete.

    Such a delete replaces all entries before it. The delete itself counts only if no entry follows;
    in 1.x the delete also wins over later entries of delete blocks, up to the next row, unless the
    delete is foreign.
    """
    everything = np.arange(len(entries.codes))
    if not entries.is_unordered.any():
        return everything
    last = np.full(len(entries.keys), -1)
    passed_over = np.zeros(len(everything), np.bool_)
    if not legacy:
        passed_over[_find_passed_over(entries)] = True
    deletes = np.flatnonzero(entries.is_unordered & ~passed_over)
    np.maximum.at(last, entries.codes[deletes], deletes)
    of_key = last[entries.codes]
    yields = legacy | (of_key < 0) | entries.is_foreign[of_key] | (entries.row >= 0)
    follows = (everything > of_key) & yields & ~passed_over
    first = np.full(len(entries.keys), len(everything))
    follower = np.flatnonzero(follows)
    np.minimum.at(first, entries.codes[follower], follower)
    is_followed = first < len(everything)
    starts = np.where(is_followed, first, last)[entries.codes]
    ends = np.where(is_followed, len(everything), last)[entries.codes]
    return np.flatnonzero((everything >= starts) & (everything <= ends) & ~passed_over)


def _find_passed_over(entries: LogEntries) -> list[int]:
    """Return the foreign deletes that a delete without ordering value wins over.

    One entry at a time, because only keys with foreign deletes are looked at, and hardly any writer
    changes the class of its ordering values.
    """
    keys = np.unique(entries.codes[entries.is_foreign])
    if not len(keys):
        return []
    found = []
    stands: dict[int, bool] = {}
    for at in np.flatnonzero(np.isin(entries.codes, keys)).tolist():
        key = int(entries.codes[at])
        if entries.row[at] >= 0:
            stands[key] = bool(entries.is_unordered[at])
        elif entries.is_foreign[at]:
            if stands.get(key, False):
                found.append(at)
        elif entries.is_unordered[at]:
            stands[key] = True
    return found
