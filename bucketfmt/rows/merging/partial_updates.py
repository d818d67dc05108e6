"""Records of a log that hold some columns only: which entry each column of a key comes from.

Pure and vectorised: a step is made per entry of the key that has most. Sources:
PartialUpdateBufferedRecordMerger, DefaultSparkRecordMerger.partialMerge,
OverwriteWithLatestSparkRecordMerger.partialMerge, SparkRecordMergingUtils.mergePartialRecords.

The entries of a key are taken oldest first. Of two records the record that stays keeps its columns,
and takes the columns that only the other one holds, whichever is newer. A delete ends that: nothing
of the records before it is left. Where the newer record stays, Hudi fails to read an update of some
columns that follows a delete: nobody says what the other columns are then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bucketfmt.errors import UnsupportedError
from bucketfmt.rows.merging.log_entries import HeldColumns, LogEntries
from bucketfmt.rows.merging.ordering import Indexes, Mask

__all__ = ["ComposedRows", "compose_rows"]

_NONE = -1


@dataclass(frozen=True, eq=False)
class ComposedRows:
    """The records of keys that have partial updates.

    Attributes:
        codes: The keys, as indexes in `LogEntries.keys`.
        winners: For each key the entry whose ordering value, or delete, stays.
        columns: Sets of columns that are taken from the same rows.
        sources: A line for each of these sets: for each key the row in `LogEntries.rows` that the
            columns come from. -1: no record of the log holds them, and they are those of the base
            row.
        is_update: The keys of which the log has no whole row: there has to be a base row.
    """

    codes: Indexes
    winners: Indexes
    columns: Sequence[Sequence[str]]
    sources: npt.NDArray[np.int64]
    is_update: Mask


def compose_rows(entries: LogEntries, by_ordering: bool) -> ComposedRows | None:
    """Return the records of keys with partial updates; None if there are none.

    Args:
        entries: Of the log.
        by_ordering: Whether the record of greater ordering stays; otherwise the newer one.

    Raises:
        UnsupportedError: a key has a partial update, and a delete whose ordering value is of
            another type than the column; or, where the newer record stays, a delete before it.
    """
    held = entries.held
    if held is None:
        return None
    is_partial = np.zeros(len(entries.codes), np.bool_)
    is_partial[entries.row >= 0] = held.are_updates[held.of_rows]
    if not is_partial.any():
        return None
    codes = np.unique(entries.codes[is_partial])
    members = np.flatnonzero(np.isin(entries.codes, codes))
    if entries.is_foreign[members].any():
        raise UnsupportedError(
            "a key has a partial update, and a delete whose ordering value is of another type than "
            "the column; compact the table with Hudi"
        )
    fold = _Fold(entries, held, is_partial, len(codes), by_ordering)
    keys = np.searchsorted(codes, entries.codes[members])
    order = np.argsort(keys, kind="stable")
    members, keys = members[order], keys[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    rank = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
    by_rank = np.argsort(rank, kind="stable")
    for step in np.split(by_rank, np.cumsum(np.bincount(rank))[:-1]):
        fold.take(keys[step], members[step])
    if fold.is_unclear.any():
        key = entries.keys[int(codes[np.argmax(fold.is_unclear)])].as_py()
        raise UnsupportedError(
            f"key {key!r} was deleted, and some of its columns were updated after that, which Hudi "
            "does not read either; write the row again, with all columns"
        )
    return ComposedRows(codes, fold.winners, held.columns, fold.sources, fold.is_update)


class _Fold:
    """The records of some keys so far."""

    def __init__(
        self,
        entries: LogEntries,
        held: HeldColumns,
        is_partial: Mask,
        num_keys: int,
        by_ordering: bool,
    ) -> None:
        self._entries, self._held, self._is_partial = entries, held, is_partial
        self._by_ordering = by_ordering
        self._is_delete: Mask = (entries.row < 0) | entries.is_marked
        self.winners = np.full(num_keys, _NONE, np.int64)
        self.sources = np.full((len(held.columns), num_keys), _NONE, np.int64)
        self.is_update: Mask = np.zeros(num_keys, np.bool_)
        self.is_unclear: Mask = np.zeros(num_keys, np.bool_)

    def take(self, keys: Indexes, added: Indexes) -> None:
        """Take one entry for each of some keys."""
        before = self.winners[keys]
        stays = self._stays(before, added)
        is_row = ~self._is_delete[added]
        # Entries before the first partial block are merged whole.
        unites = (
            is_row & (before >= 0) & ~self._is_delete[before] & (added >= self._held.first_entry)
        )
        if not self._by_ordering:
            follows = (before >= 0) & self._is_delete[before] | self.is_unclear[keys]
            self.is_unclear[keys] = follows & self._is_partial[added]
        was_update, is_update = self.is_update[keys], self._is_partial[added]
        united_update = np.where(unites, was_update & is_update, is_update)
        self.is_update[keys] = np.where(stays & ~unites, was_update, united_update)
        self.winners[keys] = np.where(stays, before, added)
        rows = self._entries.row[added]
        for line, holds in zip(self.sources, self._held.masks, strict=True):
            has = is_row.copy()
            has[is_row] = holds[self._held.of_rows[rows[is_row]]]
            old = line[keys]
            united = np.where(has & (~stays | (old == _NONE)), rows, old)
            alone = np.where(stays, old, np.where(has, rows, _NONE))
            line[keys] = np.where(unites, united, alone)

    def _stays(self, before: Indexes, added: Indexes) -> Mask:
        """Return whether what is there stays, and the added entry does not take its place."""
        stays: Mask = before >= 0
        entries, ordering = self._entries, self._entries.ordering
        if not self._by_ordering or ordering is None:
            return np.zeros(len(before), np.bool_)
        greater = ordering.greater(before, ordering, added)
        greater &= ~entries.is_unordered[added]
        # A delete without ordering value stands against deletes of later blocks, not against rows.
        is_unordered = entries.is_unordered[before]
        stays &= np.where(is_unordered, entries.row[added] < 0, greater)
        return stays
