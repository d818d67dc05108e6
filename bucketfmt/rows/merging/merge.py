"""The rows of a file slice: the merged log, joined with the base file.

Pure and vectorised: no step is made per row. Sources: KeyBasedFileGroupRecordBuffer,
BufferedRecordMergerFactory (1.x); HoodieMergedLogRecordScanner, the payload classes and
Iterators.scala (0.15). The rules themselves: `merge_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.columns.meta_columns import META_COLUMNS, RECORD_KEY
from bucketfmt.rows.merging.log_entries import LogEntries, Run, find_ordering_columns
from bucketfmt.rows.merging.merge_rules import Filling, MergeRules
from bucketfmt.rows.merging.ordering import Indexes, Mask, OrderingValues
from bucketfmt.rows.merging.partial_updates import ComposedRows, find_known, settle_entries
from bucketfmt.rows.merging.replacements import Replacements, replace_values

__all__ = ["MergedLog", "merge_log"]


class MergedLog:
    """One record, or one delete, per key of a log; base rows stream through `apply`.

    Attributes:
        record_keys: The keys that the log has a record or a delete for, each once.
        num_entries: The number of records and deletes of the log.
        num_updates: The number of log rows that replaced a base row so far.
    """

    def __init__(
        self,
        entries: LogEntries,
        winners: Indexes,
        rules: MergeRules,
        composed: ComposedRows | None = None,
    ) -> None:
        """Take the entry at `winners[k]` for the key `entries.keys[k]`.

        `composed`: of keys with records that complete one another, the records.
        """
        self.record_keys: pa.Array = entries.keys
        self.num_entries = len(entries.codes)
        self._rules = rules
        self._entries = entries if entries.is_foreign.any() else None
        from_rows = entries.row[winners] >= 0
        is_marked, is_overruling = entries.is_marked[winners], entries.is_overruling[winners]
        if composed is not None:
            is_marked[composed.codes] = composed.is_marked
            is_overruling[composed.codes] = composed.is_marked
        self._has_row: Mask = from_rows & ~is_marked
        self._is_unordered: Mask = entries.is_unordered[winners]
        self._ordering: OrderingValues | None = None
        self._beats_base = np.ones(len(winners), np.bool_)
        if rules.base_by_ordering and entries.ordering is not None:
            self._ordering = entries.ordering.take(winners)
            if rules.legacy:
                self._beats_base = ~from_rows | is_overruling & rules.marked_deletes_overrule
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
        self._lacking: list[tuple[Sequence[str], Mask]] = []
        self._needs_base: Mask = np.zeros(len(winners), np.bool_)
        if composed is not None:
            self._needs_base[composed.codes[composed.is_update]] = True
            self._compose(entries.rows, composed)
        self._is_matched: Mask = np.zeros(len(winners), np.bool_)
        self.num_updates = 0

    def _compose(self, rows: pa.Table, composed: ComposedRows) -> None:
        """Give the rows of some keys the columns of several records."""
        is_row = self._has_row[composed.codes]
        places = self._row[composed.codes[is_row]]
        order = np.argsort(places)
        places = places[order]
        found = self._rows.columns
        for names, of_keys in composed.find_sources(rows):
            sources = of_keys[is_row][order]
            is_known = sources >= 0
            if not is_known.all():
                lacks = np.zeros(self._rows.num_rows, np.bool_)
                lacks[places[~is_known]] = True
                self._lacking.append((names, lacks))
            taken = pa.array(sources, mask=~is_known)
            for name in names:
                index = rows.schema.get_field_index(name)
                found[index] = replace_values(found[index], places, rows.column(index).take(taken))
        self._rows = pa.Table.from_arrays(found, schema=self._rows.schema)

    def _completed(self, rows: pa.Table, row: Indexes, base: pa.Table, hits: Indexes) -> pa.Table:
        """Return rows of the log with the columns that the log lacks from their base rows."""
        for names, lacks in self._lacking:
            places = np.flatnonzero(lacks[row])
            if not len(places):
                continue
            found = rows.columns
            of_base = base.select(names).take(pa.array(hits[places]))
            for name, values in zip(names, of_base.columns, strict=True):
                index = rows.schema.get_field_index(name)
                found[index] = replace_values(found[index], places, values)
            rows = pa.Table.from_arrays(found, schema=rows.schema)
        return rows

    def _filled(
        self, rows: pa.Table, base: pa.Table, wins: Mask, filling: Filling
    ) -> tuple[pa.Table, Mask]:
        """Return records that one of two rows wins, filled from the other one.

        Args:
            rows: The rows of the log.
            base: The base row of each.
            wins: Whether the row of the log wins.
            filling: Which values are filled.

        Returns:
            The records, and which of them are not the base row.
        """
        found: list[pa.ChunkedArray] = []
        differs = wins.copy()
        for name, old, new in zip(base.column_names, base.columns, rows.columns, strict=True):
            if name in META_COLUMNS and filling.meta_of_newer:
                found.append(new)
                differs[:] = True
                continue
            is_new_known = find_known(new, filling)
            of_log = np.where(wins, is_new_known, ~find_known(old, filling))
            differs |= of_log & is_new_known
            found.append(pc.if_else(pa.array(of_log), new, old))
        return pa.Table.from_arrays(found, schema=rows.schema), differs

    @property
    def needs_base(self) -> bool:
        """Whether rows have columns that only base rows can tell."""
        return self.fills_values or bool(self._lacking) or bool(self._needs_base.any())

    @property
    def fills_values(self) -> bool:
        """Whether values of a row may be those of a base row (`MergeRules.filling`)."""
        return self._rules.filling is not None

    @property
    def schema(self) -> pa.Schema:
        """Schema of the log's rows, which is also the schema of base rows."""
        return self._rows.schema

    @property
    def has_deletes(self) -> bool:
        """Whether the log deletes some key."""
        return not bool(self._has_row.all())

    @property
    def deleted_keys(self) -> pa.Array:
        """The keys that the log deletes."""
        if not self.has_deletes:
            return pa.array([], self.record_keys.type)
        return self.record_keys.filter(pa.array(~self._has_row))

    @property
    def written_keys(self) -> pa.Array:
        """The keys that the log has rows of."""
        return self.record_keys.filter(pa.array(self._has_row))

    @property
    def keys_deleted_without_ordering(self) -> pa.Array:
        """Those of `deleted_keys` whose delete no ordering value is compared with."""
        return self.record_keys.filter(pa.array(~self._has_row & self._is_unordered))

    @property
    def num_matched(self) -> int:
        """The number of keys of the log that base rows had so far."""
        return int(np.count_nonzero(self._is_matched))

    def apply(self, base: pa.Table) -> pa.Table:
        """Return the base rows after the changes of the log, in the same order.

        Arguments and errors are those of `find_replacements`.
        """
        return self.find_replacements(base).apply(base)

    def find_replacements(self, base: pa.Table) -> Replacements:
        """Return the changes of the log to base rows.

        Of several base rows with one key only the first, over all calls, meets the log, as in
        Hudi. Each call looks at all keys of the log that no base row had so far, so pass row
        groups rather than small batches. Base rows are not tested for delete marks.

        Raises:
            ValueError: `base` has another schema than the log's rows.
        """
        if not base.schema.equals(self.schema):
            raise ValueError(
                "the base rows have another schema than the log; conform the rows first"
            )
        hits, codes = self._find_matches(base.column(RECORD_KEY))
        replaced = np.ones(len(hits), np.bool_)
        if self._ordering is not None and len(hits):
            columns = find_ordering_columns(base, self._rules)
            if self._entries is not None and len(columns) == 1:
                unset = np.asarray(columns[0].is_null().to_numpy(), np.bool_)
                self._entries.check_without_ordering(codes[unset[hits]])
            in_base = OrderingValues.of(columns, null_is_zero=not self._rules.legacy)
            greater = in_base.greater(hits, self._ordering, codes)
            replaced = self._beats_base[codes] | ~greater
        filling = self._rules.filling
        # A row that does not replace the base row may still fill it.
        takes_part = replaced if filling is None else replaced | self._has_row[codes]
        hits, row, replaced = hits[takes_part], self._row[codes[takes_part]], replaced[takes_part]
        order = np.argsort(hits)
        hits, row, replaced = hits[order], row[order], replaced[order]
        has_row = row >= 0
        gone, hits, replaced = hits[~has_row], hits[has_row], replaced[has_row]
        self._rows = self._rows.combine_chunks()  # copies once, and speeds up `take`
        rows: pa.Table = self._rows.take(pa.array(row[has_row]))
        rows = self._completed(rows, row[has_row], base, hits)
        if filling is not None and len(hits):
            rows, differs = self._filled(rows, base.take(pa.array(hits)), replaced, filling)
            rows, hits = rows.filter(pa.array(differs)), hits[differs]
        self.num_updates += rows.num_rows
        return Replacements(hits, rows, gone)

    def mark_matched(self, keys: pa.ChunkedArray) -> None:
        """Take note of the keys of base rows that others apply the log to.

        Later base rows of these keys do not meet the log, and `remaining` leaves their log rows
        out.
        """
        self._find_matches(keys)

    def remaining(self, *, with_orphans: bool = False) -> pa.Table:
        """Return the log rows of keys that no base row had; call it after the whole base file.

        Args:
            with_orphans: Return updates of some columns, of which there is no row, as rows whose
                other columns are null: to delete them.

        Raises:
            UnsupportedError: there are such updates.
        """
        orphans = np.flatnonzero(self._needs_base & self._has_row & ~self._is_matched)
        if len(orphans) and not with_orphans:
            key = self.record_keys[int(orphans[0])].as_py()
            others = f" and {len(orphans) - 1} more" if len(orphans) > 1 else ""
            raise UnsupportedError(
                f"key {key!r}{others}: the log has updates of some columns, and there is no row "
                "that they update, so that Hudi fails or reads other bytes; delete these keys, or "
                "write their rows with all columns"
            )
        row = self._row[self._has_row & ~self._is_matched]
        if len(row) == self._rows.num_rows:
            return self._rows
        chosen = np.zeros(self._rows.num_rows, np.bool_)
        chosen[row] = True
        return self._rows.filter(pa.array(chosen))

    def _find_matches(self, keys: pa.ChunkedArray) -> tuple[Indexes, Indexes]:
        """Return the base rows that are the first row of a key of the log, and these keys."""
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
    """Return the merged log: one record or delete per key.

    Args:
        runs: Data and delete blocks, oldest first (`select_blocks`).
        rules: How the table merges.
        schema: Schema of all rows, of the log and of the base file.
        limits: Bounds the bytes of rows (`log_rows_bytes_max`).

    Raises:
        CorruptError: a record has no key.
        UnsupportedError: a delete marker is in a column that has no text, or a delete cannot be
            compared with a record because its ordering value is of another type.
        LimitError: the rows take more than `log_rows_bytes_max` bytes.
        ValueError: rows have another schema.
    """
    entries = LogEntries.of(runs, rules, schema)
    limits.check("log_rows_bytes_max", entries.rows.nbytes)
    winners, composed = settle_entries(entries, rules, keeps_last=rules.keeps_last_of_log)
    return MergedLog(entries, winners, rules, composed)
