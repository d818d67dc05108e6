"""The rows of a file slice: what its log leaves of every key, joined with its base file.

Pure and vectorised: no step is made per row. Sources: KeyBasedFileGroupRecordBuffer,
BufferedRecordMergerFactory (1.x); HoodieMergedLogRecordScanner, the payload classes and
Iterators.scala (0.15). The rules themselves: `merge_rules`.

With ordering, each log entry is a function of the record it meets: "stays if its ordering is
greater than `bound`, else becomes `result`". Two such functions in a row are one of the same
form, so the entries of a key are composed pairwise, all keys at once: a key with n entries
takes log2(n) passes, whatever the rules and however the log is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import LimitError
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.log_entries import LogEntries, Run, find_ordering_columns
from bucketfmt.rows.merge_rules import MergeRules
from bucketfmt.rows.meta_columns import RECORD_KEY
from bucketfmt.rows.ordering import Indexes, Mask, OrderingValues

__all__ = ["MergedLog", "find_winners", "merge_log"]

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


class MergedLog:
    """One record, or one delete, per key of a log; base rows stream through `apply`.

    Attributes:
        record_keys: The keys the log has a record or a delete for, each once.
        num_entries: How many records and deletes it has.
        num_updates: How many of its rows replaced a base row so far.
    """

    def __init__(self, entries: LogEntries, winners: Indexes, rules: MergeRules) -> None:
        """Settle on the entry at `winners[k]` for the key `entries.keys[k]`."""
        self.record_keys: pa.Array = entries.keys
        self.num_entries = len(entries.codes)
        self._rules = rules
        self._entries = entries if entries.is_foreign.any() else None
        from_rows = entries.row[winners] >= 0
        is_marked = entries.is_marked[winners]
        self._has_row: Mask = from_rows & ~is_marked
        self._ordering: OrderingValues | None = None
        self._beats_base = np.ones(len(winners), np.bool_)
        if rules.base_by_ordering and entries.ordering is not None:
            self._ordering = entries.ordering.take(winners)
            if rules.legacy:
                overruling = entries.is_overruling[winners] & rules.marked_deletes_overrule
                self._beats_base = ~from_rows | overruling
            else:
                self._beats_base = entries.is_unordered[winners]
        # Only the rows that won are kept, in the order of the log.
        row = entries.row[winners[self._has_row]]
        chosen = np.zeros(entries.rows.num_rows, np.bool_)
        chosen[row] = True
        everything = len(row) == entries.rows.num_rows
        kept = entries.rows if everything else entries.rows.filter(pa.array(chosen))
        self._rows: pa.Table = kept
        self._row = np.full(len(winners), -1)
        self._row[self._has_row] = (np.cumsum(chosen) - 1)[row]
        self._is_matched: Mask = np.zeros(len(winners), np.bool_)
        self.num_updates = 0

    @property
    def schema(self) -> pa.Schema:
        """Schema of the log's rows, which base rows must have too."""
        return self._rows.schema

    @property
    def has_deletes(self) -> bool:
        """Whether some key of the log is to have no row."""
        return not bool(self._has_row.all())

    @property
    def num_matched(self) -> int:
        """How many keys of the log base rows had so far."""
        return int(np.count_nonzero(self._is_matched))

    def apply(self, base: _Rows) -> _Rows:
        """Return the base rows that stand, followed by the log rows that replace others.

        Of several base rows with one key only the first, over all calls, meets the log, as in
        Hudi. Each call looks at all keys of the log that no base row had so far, so pass row
        groups rather than small batches. Base rows are not tested for delete marks.

        Raises:
            ValueError: `base` has not the schema of the log's rows.
        """
        if not base.schema.equals(self.schema):
            raise ValueError("base rows of another schema than the log's; conform them first")
        hits, codes = self._find_matches(base)
        if not len(hits):
            return base
        replaced = np.ones(len(hits), np.bool_)
        if self._ordering is not None:
            rows = base if isinstance(base, pa.Table) else pa.Table.from_batches([base])
            columns = find_ordering_columns(rows, self._rules)
            if self._entries is not None and len(columns) == 1:
                unset = np.asarray(columns[0].is_null().to_numpy(), np.bool_)
                self._entries.check_without_ordering(codes[unset[hits]])
            in_base = OrderingValues.of(columns, null_is_zero=not self._rules.legacy)
            greater = in_base.greater(hits, self._ordering, codes)
            replaced = self._beats_base[codes] | ~greater
        kept = np.ones(base.num_rows, np.bool_)
        kept[hits[replaced]] = False
        row = self._row[codes[replaced]]
        standing: _Rows = base.filter(pa.array(kept))
        self._rows = self._rows.combine_chunks()  # copies once, and speeds up `take`
        updates: pa.Table = self._rows.take(pa.array(row[row >= 0]))
        self.num_updates += updates.num_rows
        if isinstance(base, pa.Table):
            return pa.concat_tables([standing, updates])
        return _one_batch([standing, *updates.to_batches()])

    def remaining(self) -> pa.Table:
        """Return the log rows of keys that no base row had: call it after the whole base file."""
        row = self._row[self._has_row & ~self._is_matched]
        if len(row) == self._rows.num_rows:
            return self._rows
        chosen = np.zeros(self._rows.num_rows, np.bool_)
        chosen[row] = True
        return self._rows.filter(pa.array(chosen))

    def _find_matches(self, base: pa.RecordBatch | pa.Table) -> tuple[Indexes, Indexes]:
        """Return the base rows whose key the log has, for the first time, and these keys."""
        keys = base.column(RECORD_KEY)
        if keys.type != self.record_keys.type:
            keys = keys.cast(self.record_keys.type)
        awaited = np.flatnonzero(~self._is_matched)
        # The smaller side is hashed, which is what costs. Both ways find the first of equal rows.
        if len(keys) < len(awaited):
            found = pc.index_in(self.record_keys.take(pa.array(awaited)), keys)
            hits = pc.fill_null(found, -1).to_numpy().astype(np.int64)
            codes = awaited[hits >= 0]
            hits = hits[hits >= 0]
        else:
            found = pc.fill_null(pc.index_in(keys, self.record_keys), -1).to_numpy()
            hits = np.flatnonzero(found >= 0)
            codes = found[hits].astype(np.int64)
            first = np.full(len(self.record_keys), len(keys))
            np.minimum.at(first, codes, hits)
            is_met = ~self._is_matched[codes] & (first[codes] == hits)
            hits, codes = hits[is_met], codes[is_met]
        self._is_matched[codes] = True
        return hits, codes


def merge_log(
    runs: Sequence[Run], rules: MergeRules, schema: pa.Schema, limits: Limits = DEFAULT_LIMITS
) -> MergedLog:
    """Return what a log leaves of every key.

    Args:
        runs: Data and delete blocks, oldest first (`select_blocks`).
        rules: How the table merges.
        schema: Schema of all rows, of the log and of the base file.
        limits: Bounds the bytes of rows (`log_rows_bytes_max`).

    Raises:
        CorruptError: a record without key.
        UnsupportedError: partial rows, or a delete marker in a column that has no text.
        LimitError: too many bytes.
        ValueError: rows of another schema.
    """
    entries = LogEntries.of(runs, rules, schema)
    limits.check("log_rows_bytes_max", entries.rows.nbytes)
    return MergedLog(entries, find_winners(entries, rules), rules)


def find_winners(entries: LogEntries, rules: MergeRules) -> Indexes:
    """Return the entry that each of `entries.keys` is settled on."""
    size = len(entries.keys)
    winners = np.zeros(size, np.int64)
    if size == len(entries.codes):
        winners[entries.codes] = np.arange(size)
    elif not rules.log_by_ordering or entries.ordering is None:
        np.maximum.at(winners, entries.codes, np.arange(len(entries.codes)))
    else:
        winners = _settle(entries, entries.ordering, rules.legacy)
    return winners


def _settle(entries: LogEntries, ordering: OrderingValues, legacy: bool) -> Indexes:
    """Return per key the entry that the others leave, by ordering."""
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
    """Return the entries that count: of each key, those since its last unordered delete.

    Nothing before such a delete stands. It counts itself only if nothing follows; in 1.x it also
    stands against later entries of delete blocks, up to the next row, unless it is foreign.
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
    """Return the foreign deletes that a delete without ordering value stands against.

    Step by step, as only keys with foreign deletes are looked at: writers that change the class of
    their ordering values are next to none.
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


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks()
    merged = table.to_batches()
    if len(merged) > 1:
        raise LimitError("a merged batch of 2 GiB or more; pass smaller batches, or tables")
    return merged[0] if merged else batches[0]
