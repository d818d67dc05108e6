"""What readers make of rows that are appended to a log, for keys that the log deletes.

Pure. Hudi merges a log by itself before the base file. A delete without ordering value yields to
the row after it, and that row is then compared with the base row as if the delete had not been:
a base row of greater ordering is read again, although it was deleted. A delete with an ordering
value hides the row after it where that row's value is lower. Neither happens where the log was
compacted in between (docs/decisions/0016).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketfmt.rows.merging.merge import MergedLog

__all__ = ["OverDeletes", "count_over_deletes"]


@dataclass(frozen=True, slots=True)
class OverDeletes:
    """What becomes of appended rows whose keys are deleted.

    Attributes:
        num_rows: Rows whose keys have no row.
        num_hidden: Rows that are not read, because the delete stands.
        num_revived: Rows in whose place the deleted base row is read.
        num_unordered: Rows, read or not, whose key has a delete without ordering value.
    """

    num_rows: int = 0
    num_hidden: int = 0
    num_revived: int = 0
    num_unordered: int = 0


def count_over_deletes(
    before: MergedLog, after: MergedLog, appended: pa.Array, base: Iterable[pa.Table]
) -> OverDeletes:
    """Count what becomes of appended rows.

    Args:
        before: The log. It deletes all keys that are appended.
        after: The log with the rows.
        appended: The keys of the rows, each once.
        base: The base rows of these keys. A base row that stands against the delete was never
            deleted; whether the appended row is newer is decided as for any other row.
    """
    num_deleted = num_over_base = num_revived = 0
    for rows in base:
        deleted = before.find_replacements(rows).gone
        found = after.find_replacements(rows)
        num_deleted += len(deleted)
        num_over_base += len(np.intersect1d(deleted, found.places))
        num_revived += len(np.setdiff1d(deleted, np.union1d(found.places, found.gone)))
    num_live = before.num_matched - num_deleted
    num_read = num_over_base + after.remaining().num_rows
    unordered = pc.sum(pc.is_in(appended, before.keys_deleted_without_ordering)).as_py() or 0
    return OverDeletes(
        num_rows=len(appended) - num_live,
        num_hidden=len(appended) - num_live - num_read - num_revived,
        num_revived=num_revived,
        num_unordered=unordered,
    )
