"""Records of a log that are completed by one another: which entry each column of a key comes from.

Pure and vectorised: a step is made per entry of the key that has most. Sources:
PartialUpdateBufferedRecordMerger, DefaultSparkRecordMerger.partialMerge,
OverwriteWithLatestSparkRecordMerger.partialMerge, SparkRecordMergingUtils.mergePartialRecords;
PartialUpdateHandler; PartialUpdateAvroPayload.preCombine.

There are two kinds. In a block of partial updates (IS_PARTIAL) all rows lack the same columns. If
a table fills values (`MergeRules.filling`), a row lacks the columns in which it has null, or a
marker.

The entries of a key are taken oldest first. Of two records the record that stays keeps the columns
that it holds, and takes the others of the other one, whichever is newer. So the records of a key
stand in a line: each new one is put before all others, or behind them, and a column is that of the
first that holds it. A delete ends a line: nothing of the records before it is left. Where the newer
record stays, Hudi fails to read an update of some columns that follows a delete: nobody says what
the other columns are then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.rows.columns.meta_columns import IS_DELETED, META_COLUMNS
from bucketfmt.rows.merging.log_entries import HeldColumns, LogEntries
from bucketfmt.rows.merging.merge_rules import Filling, MergeRules
from bucketfmt.rows.merging.ordering import Indexes, Mask
from bucketfmt.rows.merging.winners import find_last, find_winners

__all__ = ["ComposedRows", "find_known", "settle_entries"]

_NONE = -1


def find_known(column: pa.ChunkedArray, filling: Filling) -> Mask:
    """Return which values of a column are not filled, as they are neither null nor the marker."""
    if filling.marker is None:
        known = column.is_valid()
    elif pa.types.is_string(column.type):
        known = pc.fill_null(pc.not_equal(column, filling.marker), True)
    else:
        return np.ones(len(column), np.bool_)
    return np.asarray(known.to_numpy(), np.bool_)


@dataclass(frozen=True, eq=False)
class ComposedRows:
    """The records of keys of which a record is completed by others.

    Attributes:
        codes: The keys, as indexes in `LogEntries.keys`.
        winners: For each key the entry whose ordering value, or delete, stays.
        is_marked: The keys whose record is marked as deleted.
        is_update: The keys of which the log has no whole row: there has to be a base row.
    """

    codes: Indexes
    winners: Indexes
    is_marked: Mask
    is_update: Mask
    _lines: _Lines
    _held: HeldColumns | None
    _filling: Filling | None

    def find_sources(self, rows: pa.Table) -> Iterator[tuple[Sequence[str], Indexes]]:
        """Yield sets of columns, and for each key the row in `rows` that they come from.

        -1: no record of the log holds the columns, and they are those of the base row.

        Args:
            rows: The rows that the entries are of, with the columns that are asked for.
        """
        if self._held is not None:
            for names, holds in zip(self._held.columns, self._held.masks, strict=True):
                yield names, self._lines.find_first(holds[self._held.of_rows])
        if self._filling is None:
            return
        top = self._lines.find_first(np.ones(rows.num_rows, np.bool_))
        for name in rows.column_names:
            if name in META_COLUMNS and self._filling.meta_of_newer:
                yield [name], self._lines.find_newest()
                continue
            known = find_known(rows.column(name), self._filling)
            if not known.all():
                found = self._lines.find_first(known)
                yield [name], np.where(found == _NONE, top, found)
            else:
                yield [name], top


@dataclass(frozen=True, eq=False)
class _Lines:
    """The lines of some keys.

    Attributes:
        rows: Their rows, each line from its end to its beginning; -1: a delete, which stands alone.
        starts: Where the line of each key starts.
    """

    rows: Indexes
    starts: Indexes

    def find_first(self, holds: Mask) -> Indexes:
        """Return for each key the first row of its line that `holds`; -1 if none does."""
        is_row = self.rows >= 0
        is_row[is_row] = holds[self.rows[is_row]]
        places = np.where(is_row, np.arange(len(self.rows)), _NONE)
        first = np.maximum.reduceat(places, self.starts)
        return np.where(first == _NONE, _NONE, self.rows[first])

    def find_newest(self) -> Indexes:
        """Return for each key its newest row."""
        return np.asarray(np.maximum.reduceat(self.rows, self.starts), np.int64)


def settle_entries(
    entries: LogEntries, rules: MergeRules, *, keeps_last: bool = False
) -> tuple[Indexes, ComposedRows | None]:
    """Return the winning entry of each key, and the records that others complete, if there are any.

    Args:
        entries: Of a log, or of one write.
        rules: How the table merges.
        keeps_last: Of entries that complete no other one, the last wins whatever its ordering.

    Raises:
        UnsupportedError: a key has a partial update, and a delete whose ordering value is of
            another type than the column; or, where the newer record stays, a delete before it.
    """
    composed = _compose_rows(entries, rules)
    # Where values are filled within the log, all keys of several entries are composed.
    is_settled = rules.filling is not None and rules.filling.within_log
    winners = find_last(entries) if keeps_last or is_settled else find_winners(entries, rules)
    if composed is not None:
        winners[composed.codes] = composed.winners
    return winners, composed


def _compose_rows(entries: LogEntries, rules: MergeRules) -> ComposedRows | None:
    """Return the records of keys with records that complete one another; None if there are none.

    Args:
        entries: Of a log, or of one write.
        rules: How the table merges.

    Raises:
        UnsupportedError: as `settle_entries`.
    """
    held, filling = entries.held, rules.filling
    if held is None and filling is None:
        return None
    is_partial = np.zeros(len(entries.codes), np.bool_)
    if held is not None:
        is_partial[entries.row >= 0] = held.are_updates[held.of_rows]
    codes = np.unique(entries.codes[is_partial])
    if filling is not None and filling.within_log:
        codes = np.flatnonzero(np.bincount(entries.codes, minlength=len(entries.keys)) > 1)
    if not len(codes):
        return None
    members = np.flatnonzero(np.isin(entries.codes, codes))
    if is_partial.any() and entries.is_foreign[members].any():
        raise UnsupportedError(
            "a key has a partial update, and a delete whose ordering value is of another type than "
            "the column; compact the table with Hudi"
        )
    fold = _Fold(entries, 0 if held is None else held.first_entry, is_partial, len(codes), rules)
    keys = np.searchsorted(codes, entries.codes[members])
    order = np.argsort(keys, kind="stable")
    members, keys = members[order], keys[order]
    for turn in _find_turns(keys):
        fold.take(keys[turn], members[turn])
    if fold.is_unclear.any():
        key = entries.keys[int(codes[np.argmax(fold.is_unclear)])].as_py()
        raise UnsupportedError(
            f"key {key!r} was deleted, and some of its columns were updated after that, which Hudi "
            "does not read either; write the row again, with all columns"
        )
    lines = fold.find_lines(keys, members)
    is_marked = entries.is_marked[fold.winners]
    if rules.legacy:
        _take_marks(is_marked, entries, lines)
    return ComposedRows(codes, fold.winners, is_marked, fold.is_update, lines, held, filling)


def _find_turns(keys: Indexes) -> list[Indexes]:
    """Return the first entry of each key, then the second one of each that has two, and so on.

    Args:
        keys: Of each entry, ascending.
    """
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    rank = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
    by_rank = np.argsort(rank, kind="stable")
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])


def _take_marks(is_marked: Mask, entries: LogEntries, lines: _Lines) -> None:
    """Mark the keys whose records are marked as deleted, where the mark is a value like others."""
    if IS_DELETED not in entries.rows.column_names:
        return
    is_known = np.asarray(entries.rows.column(IS_DELETED).is_valid().to_numpy(), np.bool_)
    sources = lines.find_first(is_known)
    has_mark = sources != _NONE
    is_marked[has_mark] = entries.is_marked[entries.row >= 0][sources[has_mark]]


class _Fold:
    """The lines of some keys so far."""

    def __init__(
        self,
        entries: LogEntries,
        first_entry: int,
        is_partial: Mask,
        num_keys: int,
        rules: MergeRules,
    ) -> None:
        self._entries, self._first_entry, self._is_partial = entries, first_entry, is_partial
        self._by_ordering, self._legacy = rules.log_by_ordering, rules.legacy
        self._ordering = entries.ordering
        if self._ordering is not None and rules.legacy:
            self._ordering = self._ordering.as_bytes()
        self._is_delete: Mask = entries.row < 0
        self._ends_line: Mask = (entries.row < 0) | entries.is_marked
        if not rules.legacy:
            self._is_delete = self._ends_line
        self.winners = np.full(num_keys, _NONE, np.int64)
        self.is_update: Mask = np.zeros(num_keys, np.bool_)
        self.is_unclear: Mask = np.zeros(num_keys, np.bool_)
        # An entry's place in its line: later ones before all others, or behind. 0: in none.
        self._place = np.zeros(len(entries.codes), np.int64)
        self._since = np.zeros(num_keys, np.int64)  # the first entry of the line

    def take(self, keys: Indexes, added: Indexes) -> None:
        """Take one entry for each of some keys."""
        before = self.winners[keys]
        stays = self._stays(before, added)
        # Entries before the first partial block are merged whole.
        unites = (before >= 0) & ~self._is_delete[before] & (added >= self._first_entry)
        unites &= np.where(stays, ~self._is_delete[added], ~self._ends_line[added])
        if not self._by_ordering:
            follows = (before >= 0) & self._is_delete[before] | self.is_unclear[keys]
            self.is_unclear[keys] = follows & self._is_partial[added]
        was_update, is_update = self.is_update[keys], self._is_partial[added]
        united_update = np.where(unites, was_update & is_update, is_update)
        self.is_update[keys] = np.where(stays & ~unites, was_update, united_update)
        self.winners[keys] = np.where(stays, before, added)
        self._place[added] = np.where(stays, np.where(unites, -added - 1, 0), added + 1)
        self._since[keys] = np.where(stays | unites, self._since[keys], added)

    def find_lines(self, keys: Indexes, members: Indexes) -> _Lines:
        """Return the lines of all keys.

        Args:
            keys: Of each entry, as `take` was given them, ascending.
            members: The entries.
        """
        stands = (self._place[members] != 0) & (members >= self._since[keys])
        keys, members = keys[stands], members[stands]
        members = members[np.lexsort((self._place[members], keys))]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        return _Lines(self._entries.row[members], starts)

    def _stays(self, before: Indexes, added: Indexes) -> Mask:
        """Return whether what is there stays, and the added entry does not take its place."""
        stays = np.zeros(len(before), np.bool_)
        entries, ordering = self._entries, self._ordering
        if not self._by_ordering or ordering is None:
            return stays
        is_there = before >= 0
        before, added = before[is_there], added[is_there]
        greater = ordering.greater(before, ordering, added)
        greater &= ~entries.is_unordered[added]
        if self._legacy:  # a delete that has won stays against nothing
            stays[is_there] = greater & (entries.row[before] >= 0)
            return stays
        # A delete without ordering value stands against deletes of later blocks, not against rows;
        # one whose value is of another class stands against nothing.
        is_unordered, is_foreign = entries.is_unordered[before], entries.is_foreign[before]
        against_deletes = ~is_foreign & (entries.row[added] < 0)
        stays[is_there] = np.where(is_unordered, against_deletes, greater)
        return stays
