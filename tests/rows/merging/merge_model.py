"""Hudi's merge rules one record at a time, as the Java code reads. Slow and plain.

An ordering value is (Java class, value); comparing two of different classes raises, as
`compareTo` does in Java.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bucketfmt.rows.merging.merge_rules import MergeRules

Ordering = tuple[str, object]
DEFAULT: Ordering = ("Integer", 0)


class ClassCastError(Exception):
    """Two ordering values of different Java classes were compared: Hudi fails."""


@dataclass(frozen=True)
class Record:
    """A row (`row` is its number) or an entry of a delete block (`row` is None)."""

    key: str
    ordering: Ordering
    row: int | None
    is_marked: bool = False

    @property
    def is_delete(self) -> bool:
        return self.row is None or self.is_marked

    @property
    def is_commit_time_delete(self) -> bool:
        return self.is_delete and self.ordering == DEFAULT


def compare(left: Ordering, right: Ordering) -> int:
    if left[0] != right[0]:
        raise ClassCastError
    if left[0] == "ArrayComparable":
        for mine, other in zip(left[1], right[1], strict=True):
            if result := compare(mine, other):
                return result
        return 0
    return (left[1] > right[1]) - (left[1] < right[1])


def same_class(left: Ordering, right: Ordering) -> bool:
    if left[0] != right[0]:
        return False
    if left[0] != "ArrayComparable":
        return True
    return all(map(same_class, left[1], right[1]))


def merge(base: list[Record], log: list[Record], rules: MergeRules) -> tuple[list[int], list[int]]:
    """Return the row numbers that stand while the base streams by, and those emitted after."""
    records: dict[str, Record] = {}
    for record in log:
        existing = records.get(record.key)
        if existing is None or replaces(record, existing, rules):
            records[record.key] = record
    streamed = []
    for row in base:
        found = records.pop(row.key, None)
        if found is None:
            streamed.append(row.row)
        elif (result := _join(row, found, rules)) is not None:
            streamed.append(result)
    return streamed, [record.row for record in records.values() if not record.is_delete]


def replaces(new: Record, existing: Record, rules: MergeRules) -> bool:
    """Whether `new`, of the same key, takes the place of `existing` in the log or in one write."""
    if not rules.log_by_ordering:
        return True
    if rules.legacy:
        if new.row is None:  # processNextDeletedRecord
            return not (
                new.ordering != DEFAULT
                and same_class(existing.ordering, new.ordering)
                and compare(existing.ordering, new.ordering) > 0
            )
        if existing.row is None:  # preCombine: recordBytes.length == 0
            return True
        return compare(existing.ordering, new.ordering) <= 0
    if new.row is None:  # deltaMergeDeleteRecord
        if existing.is_commit_time_delete:
            return False
        return not (
            new.ordering != DEFAULT
            and same_class(existing.ordering, new.ordering)
            and compare(existing.ordering, new.ordering) > 0
        )
    return _keeps_newer(existing, new)


def _keeps_newer(old: Record, new: Record) -> bool:
    if new.is_commit_time_delete or old.is_commit_time_delete:
        return True
    return compare(new.ordering, old.ordering) >= 0


def _join(base: Record, log: Record, rules: MergeRules) -> int | None:
    base = replace(base, is_marked=False)  # never tested for delete marks
    if rules.legacy:
        if log.row is None:
            return None
        if rules.marked_deletes_overrule and log.is_marked:
            return None
        older = (
            rules.base_by_ordering
            and rules.ordering_fields
            and base.ordering[1] is not None
            and compare(base.ordering, log.ordering) > 0
        )
        winner = base if older else log
    elif rules.base_by_ordering:
        winner = log if _keeps_newer(base, log) else base
    else:
        winner = log
    return None if winner.is_delete else winner.row
