"""The rows of a file slice: the merged log, joined with the base file.

Pure and vectorised: no step is made per row. Sources: KeyBasedFileGroupRecordBuffer,
BufferedRecordMergerFactory (1.x); HoodieMergedLogRecordScanner, the payload classes and
Iterators.scala (0.15). The rules themselves: `merge_rules`.

With ordering, each log entry is a function of the record that it meets: "the record stays if its
ordering is greater than `bound`, else becomes `result`". Two such functions in a row make one
function of the same form, so the entries of a key are composed pairwise, all keys at once: a key
with n entries
takes log2(n) passes, whatever the rules and however the log is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.errors import UnsupportedError
from bucketfmt.limits import DEFAULT_LIMITS, Limits
from bucketfmt.rows.columns.meta_columns import RECORD_KEY
from bucketfmt.rows.merging.log_entries import LogEntries, Run, find_ordering_columns
from bucketfmt.rows.merging.merge_rules import MergeRules
from bucketfmt.rows.merging.ordering import Indexes, Mask, OrderingValues
from bucketfmt.rows.merging.partial_updates import ComposedRows, compose_rows

__all__ = ["MergedLog", "Replacements", "find_winners", "merge_log"]

_HALVED_BYTES = 1 << 30  # an Arrow array of text has less than 2 GiB


@dataclass(frozen=True)
class Replacements:
    """Changes of a log to some base rows. The other base rows stay as they are.

    Attributes:
        places: The indexes of the changed base rows, ascending.
        rows: The new values, one row for each place.
        gone: The indexes of the base rows whose key is deleted.
    """

    places: Indexes
    rows: pa.Table = field(repr=False)
    gone: Indexes

    def find_changed_columns(self, base: pa.Table) -> set[str]:
        """Return the columns in which any value differs; nested ones are not compared."""
        if not len(self.places):
            return set()
        before = base.take(pa.array(self.places))
        return {
            name
            for name in base.column_names
            if name != RECORD_KEY and not _are_same(before.column(name), self.rows.column(name))
        }

    def apply(self, base: pa.Table, columns: Collection[str] | None = None) -> pa.Table:
        """Return the resulting rows; `columns`: the columns that change, if known."""
        if len(self.places) == base.num_rows:
            base = self.rows.replace_schema_metadata(base.schema.metadata)
        elif len(self.places):
            found = base.columns
            for index, name in enumerate(base.column_names):
                if columns is None or name in columns:
                    found[index] = _replace(found[index], self.places, self.rows.column(index))
            base = pa.Table.from_arrays(found, schema=base.schema)
        if not len(self.gone):
            return base
        stays = np.ones(base.num_rows, np.bool_)
        stays[self.gone] = False
        return base.filter(pa.array(stays))


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

        `composed`: of keys with partial updates, the records.
        """
        self.record_keys: pa.Array = entries.keys
        self.num_entries = len(entries.codes)
        self._rules = rules
        self._entries = entries if entries.is_foreign.any() else None
        from_rows = entries.row[winners] >= 0
        is_marked = entries.is_marked[winners]
        self._has_row: Mask = from_rows & ~is_marked
        self._is_unordered: Mask = entries.is_unordered[winners]
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
        self._lacking: list[tuple[Sequence[str], Mask]] = []
        self._needs_base: Mask = np.zeros(len(winners), np.bool_)
        if composed is not None:
            self._needs_base[composed.codes[composed.is_update]] = True
            self._compose(entries.rows, composed)
        self._is_matched: Mask = np.zeros(len(winners), np.bool_)
        self.num_updates = 0

    def _compose(self, rows: pa.Table, composed: ComposedRows) -> None:
        """Give the rows of keys with partial updates the columns of several records."""
        is_row = self._has_row[composed.codes]
        places = self._row[composed.codes[is_row]]
        order = np.argsort(places)
        places = places[order]
        found = self._rows.columns
        sorted_sources = composed.sources[:, is_row][:, order]
        for names, sources in zip(composed.columns, sorted_sources, strict=True):
            is_known = sources >= 0
            if not is_known.all():
                lacks = np.zeros(self._rows.num_rows, np.bool_)
                lacks[places[~is_known]] = True
                self._lacking.append((names, lacks))
            taken = pa.array(sources, mask=~is_known)
            for name in names:
                index = rows.schema.get_field_index(name)
                found[index] = _replace(found[index], places, rows.column(index).take(taken))
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
                found[index] = _replace(found[index], places, values)
            rows = pa.Table.from_arrays(found, schema=rows.schema)
        return rows

    @property
    def needs_base(self) -> bool:
        """Whether rows have columns that only base rows can tell."""
        return bool(self._lacking) or bool(self._needs_base.any())

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
        hits, row = hits[replaced], self._row[codes[replaced]]
        order = np.argsort(hits)
        hits, row = hits[order], row[order]
        has_row = row >= 0
        self._rows = self._rows.combine_chunks()  # copies once, and speeds up `take`
        rows: pa.Table = self._rows.take(pa.array(row[has_row]))
        rows = self._completed(rows, row[has_row], base, hits[has_row])
        self.num_updates += rows.num_rows
        return Replacements(hits[has_row], rows, hits[~has_row])

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


def _replace(column: pa.ChunkedArray, places: Indexes, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column with new values at some places, which ascend."""
    chunks: list[pa.Array] = []
    start = 0
    for chunk in column.chunks:
        low, high = np.searchsorted(places, (start, start + len(chunk)))
        within = values.slice(low, high - low)
        chunks += _replace_in_chunk(chunk, places[low:high] - start, within)
        start += len(chunk)
    return pa.chunked_array(chunks, column.type)


def _replace_in_chunk(
    chunk: pa.Array, places: Indexes, values: pa.ChunkedArray
) -> Iterator[pa.Array]:
    size = len(chunk)
    if not len(places):
        yield chunk
    elif len(places) == size:
        yield from values.chunks
    elif chunk.nbytes + values.nbytes > _HALVED_BYTES:
        half = size // 2
        low = int(np.searchsorted(places, half))
        yield from _replace_in_chunk(chunk[:half], places[:low], values[:low])
        yield from _replace_in_chunk(chunk[half:], places[low:] - half, values[low:])
    else:
        sources = np.arange(size)
        sources[places] = np.arange(size, size + len(places))
        yield pa.concat_arrays([chunk, *values.chunks]).take(pa.array(sources))


def _are_same(before: pa.ChunkedArray, now: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same bits; False for nested ones."""
    if pa.types.is_nested(now.type):
        return False
    if pa.types.is_floating(now.type):  # 0.0 equals -0.0, and NaN not itself
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[now.type.bit_width]
        before, now = (
            pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
            for column in (before, now)
        )
    return bool(before.equals(now))


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
    # Where Hudi 0.15 merges a log, it takes a nested ordering field for missing.
    is_nested = rules.legacy and any("." in field for field in rules.ordering_fields)
    winners = _find_last(entries) if is_nested else find_winners(entries, rules)
    composed = compose_rows(entries, rules.log_by_ordering)
    if composed is not None:
        winners[composed.codes] = composed.winners
    return MergedLog(entries, winners, rules, composed)


def find_winners(entries: LogEntries, rules: MergeRules) -> Indexes:
    """Return the winning entry of each key of `entries.keys`."""
    size = len(entries.keys)
    winners = np.zeros(size, np.int64)
    if size == len(entries.codes):
        winners[entries.codes] = np.arange(size)
    elif not rules.log_by_ordering or entries.ordering is None:
        winners = _find_last(entries)
    else:
        winners = _find_newest(entries, entries.ordering, rules.legacy)
    return winners


def _find_last(entries: LogEntries) -> Indexes:
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
