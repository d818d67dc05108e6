"""A table as dictionaries, which a real table is compared with.

Does what the documentation says about tables in the simplest way: all rows by key, and a copy
of them for each commit. Reads the table that it is compared with, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bucketfmt.table.table import Table
from bucketfmt.write.commit.result import CommitResult

__all__ = ["ModelCommit", "Row", "TableModel"]

Row = Mapping[str, Any]
_Key = tuple[Any, ...]


@dataclass(frozen=True)
class ModelCommit:
    """A table as one of its commits left it.

    Attributes:
        instant: The requested time of the commit.
        completion_time: When it became visible.
        rows: All rows, by key.
        written: By key, the commit that wrote the row.
    """

    instant: str
    completion_time: str
    rows: Mapping[_Key, Row]
    written: Mapping[_Key, str]


class TableModel:
    """The rows of a table, now and after each commit.

    Each kind of write has a method of its name; `commit` then records the state.

    Attributes:
        rows: The rows, by the values of their partition and key columns.
        commits: The commits that were not taken back, in the order of their completion.
        earliest_retained: The first instant as of which the table can be read; "" for all.
    """

    def __init__(
        self,
        record_key: Sequence[str],
        partition_by: Sequence[str] = (),
        ordering: Sequence[str] = (),
    ) -> None:
        """Begin with an empty table.

        Args:
            record_key: As for `bucketfmt.create`.
            partition_by: As for `bucketfmt.create`.
            ordering: As for `bucketfmt.create`: of two rows with one key the one with the
                greater values is kept, and of rows with equal values the later row.
        """
        self._record_key = tuple(record_key)
        self._key_columns = (*partition_by, *record_key)
        self._partition_columns = tuple(partition_by)
        self._ordering = tuple(ordering)
        self.rows: dict[_Key, Row] = {}
        self.commits: list[ModelCommit] = []
        self.earliest_retained = ""
        self._written: dict[_Key, str | None] = {}  # None: by the commit that is to come

    # -- changes

    def upsert(self, rows: Iterable[Row] | pa.Table) -> None:
        """Add or replace rows. Of dicts, a column that a row lacks and others have is null.

        Raises:
            ValueError: no row has a key, partition or ordering column.
        """
        for row in self._whole(rows):
            key = self._key(row)
            known = self.rows.get(key)
            if known is None or self._order(row) >= self._order(known):
                self.rows[key] = row
                self._written[key] = None

    def delete(self, rows: Iterable[Row] | pa.Table) -> None:
        """Remove the rows with the keys of these rows, which need no other columns.

        A row without its partition columns removes its key in all partitions, as in a table.
        """
        for row in _dicts(rows):
            if row.keys() >= {*self._partition_columns}:
                self._remove(self._key(row))
                continue
            values = tuple(row[name] for name in self._record_key)
            depth = len(self._partition_columns)
            for key in [key for key in self.rows if key[depth:] == values]:
                self._remove(key)

    def delete_where(self, passes: Callable[[Row], bool]) -> None:
        """Remove the rows for which the function returns true."""
        for key in [key for key, row in self.rows.items() if passes(row)]:
            self._remove(key)

    def insert_overwrite(self, rows: Iterable[Row] | pa.Table, *, table: bool = False) -> None:
        """Replace the partitions of these rows; with `table=True`, the whole table."""
        given = self._whole(rows)
        partitions = {self._partition(row) for row in given}
        self.delete_where(lambda row: table or self._partition(row) in partitions)
        self.upsert(given)

    def delete_partitions(self, partitions: Iterable[Sequence[Any]]) -> None:
        """Remove the partitions with these values."""
        gone = {tuple(values) for values in partitions}
        self.delete_where(lambda row: self._partition(row) in gone)

    def commit(self, result: CommitResult) -> None:
        """Record the state of the rows as that after a commit of the table.

        Args:
            result: The result of the write. A write that committed nothing adds no commit here
                either.
        """
        if not result.committed:
            return
        for key, instant in self._written.items():
            if instant is None:
                self._written[key] = result.instant
        written = {key: instant or "" for key, instant in self._written.items()}
        self.commits.append(
            ModelCommit(result.instant, result.completion_time, dict(self.rows), written)
        )

    # -- the past

    def return_to(self, instant: str | None) -> None:
        """Take back all commits after one; None takes back all."""
        while self.commits and self.commits[-1].instant != instant:
            self.commits.pop()
        last = self.commits[-1] if self.commits else None
        self.rows = dict(last.rows) if last else {}
        self._written = dict(last.written) if last else {}

    def undo(self) -> None:
        """Discard all changes since the last commit."""
        self.return_to(self.commits[-1].instant if self.commits else None)

    def forget(self, earliest_retained: str) -> None:
        """Drop the commits before one: a clean may have deleted their files."""
        self.earliest_retained = max(self.earliest_retained, earliest_retained)

    @property
    def retained(self) -> list[ModelCommit]:
        """The commits as of which the table can be read."""
        return [commit for commit in self.commits if commit.instant >= self.earliest_retained]

    def changes(self, since: str, *, by_completion: bool) -> dict[_Key, Row]:
        """Return the rows written after a commit, as they are now.

        Args:
            since: The requested time of a commit that is kept.
            by_completion: Whether completion times decide, as from table version 8 on.
        """

        def time(commit: ModelCommit) -> str:
            return commit.completion_time if by_completion else commit.instant

        (begin,) = (time(commit) for commit in self.commits if commit.instant == since)
        later = {commit.instant for commit in self.commits if time(commit) > begin}
        return {key: row for key, row in self.rows.items() if self._written[key] in later}

    # -- comparison

    def check(self, table: Table) -> None:
        """Compare with the rows of a table.

        Raises:
            AssertionError: the rows differ; the message says how.
        """
        self.check_rows(table.scan().to_arrow(), self.rows)

    def check_rows(self, found: pa.Table, expected: Mapping[_Key, Row]) -> None:
        """Compare rows that were read with rows of the model.

        Raises:
            AssertionError: the rows differ; the message says how.
        """
        by_key: dict[_Key, Row] = {}
        for row in found.to_pylist():
            key = self._key(row)
            if key in by_key:
                raise AssertionError(f"two rows of key {key}: {by_key[key]} and {row}")
            by_key[key] = row
        missing, extra = expected.keys() - by_key.keys(), by_key.keys() - expected.keys()
        differing = {
            key: (by_key[key], expected[key])
            for key in by_key.keys() & expected.keys()
            if by_key[key] != expected[key]
        }
        if missing or extra or differing:
            raise AssertionError(
                f"missing rows {sorted(missing, key=str)}, unexpected rows "
                f"{sorted(extra, key=str)}, different rows (found, expected) {differing}"
            )

    def _whole(self, rows: Iterable[Row] | pa.Table) -> list[Row]:
        """Return rows that all have the columns of all, as a table makes them of dicts."""
        given = list(_dicts(rows))
        names = dict.fromkeys(name for row in given for name in row)
        needed = (*self._key_columns, *self._ordering) if given else ()
        if lacking := [name for name in needed if name not in names]:
            raise ValueError(f"the rows lack the columns {', '.join(lacking)}; give them")
        return [{name: row.get(name) for name in names} for row in given]

    def _key(self, row: Row) -> _Key:
        return tuple(row[name] for name in self._key_columns)

    def _partition(self, row: Row) -> _Key:
        return tuple(row[name] for name in self._partition_columns)

    def _order(self, row: Row) -> _Key:
        return tuple(row[name] for name in self._ordering)

    def _remove(self, key: _Key) -> None:
        self.rows.pop(key, None)
        self._written.pop(key, None)


def _dicts(rows: Iterable[Row] | pa.Table) -> Iterable[Row]:
    return rows.to_pylist() if isinstance(rows, pa.Table) else rows
