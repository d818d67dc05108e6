"""What reading a damaged table comes to, compared with reading the sound one."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import pyarrow as pa

from bucketfmt.errors import BucketfmtError
from bucketfmt.limits import Limits
from bucketfmt.storage.store import Store
from bucketfmt.table.table import Table
from bucketfmt.timeline.table_properties import load_config

__all__ = [
    "GOOD",
    "Answer",
    "Judge",
    "Outcome",
    "Question",
    "content_of",
    "look_up_all",
    "open_table_in",
    "scan_all",
]

_LIMITS = Limits(row_group_bytes_max=1 << 30, log_rows_bytes_max=1 << 30)


class Outcome(str, Enum):
    """What became of one damaged table. `SAME` and `ERROR` are good; the others are bad."""

    SAME = "same rows"
    ERROR = "typed error"
    SILENT = "silently different rows"
    FOREIGN = "foreign exception"
    ENDED = "process ended"  # told by the process that watches


GOOD = frozenset({Outcome.SAME, Outcome.ERROR})

Answer = Any
Question = Callable[[Table], Answer]


def open_table_in(store: Store) -> Table:
    """Return the table in a store, as `bucketfmt.open` does for a URI."""
    return Table(store, load_config(store, _LIMITS), _LIMITS, None)


def scan_all(table: Table) -> Answer:
    """Return all rows, with Hudi's own columns, as something that compares by content."""
    return content_of(table.scan(meta_columns=True).to_arrow())


def look_up_all(*record_keys: str) -> Question:
    """Return the question what the rows of these keys are, by the index and by a scan."""

    def ask(table: Table) -> Answer:
        return scan_all(table), content_of(table.lookup(list(record_keys)))

    return ask


def content_of(rows: pa.Table) -> Answer:
    """Return columns and rows as something that compares by content, in any order."""
    columns = [column.to_pylist() for column in rows.columns]
    return rows.schema.names, sorted(map(repr, zip(*columns, strict=True)))


class Judge:
    """Knows the right answer of one table, and judges damaged copies by it."""

    def __init__(self, store: Store, question: Question = scan_all) -> None:
        self._question = question
        self._truth = question(open_table_in(store))

    def outcome(self, damaged: Store) -> tuple[Outcome, str]:
        """Return what reading came to, and what the error or the difference was."""
        try:
            answer = self._question(open_table_in(damaged))
        except BucketfmtError as error:
            return Outcome.ERROR, f"{type(error).__name__}: {error}"
        except Exception as error:  # whatever it is, it is a bug
            return Outcome.FOREIGN, repr(error)
        if answer == self._truth:
            return Outcome.SAME, ""
        return Outcome.SILENT, _difference(self._truth, answer)


def _difference(truth: Answer, answer: Answer) -> str:
    """Return where the two first differ, as text."""
    expected, found = repr(truth), repr(answer)
    pairs = enumerate(zip(expected, found, strict=False))
    same = next((at for at, (right, got) in pairs if right != got), 0)
    start = max(same - 20, 0)
    return f"...{found[start : same + 60]}... instead of ...{expected[start : same + 60]}..."
